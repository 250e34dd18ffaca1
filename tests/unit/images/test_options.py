# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hypervisors that are asked for an image, as the user names them."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.options import peer_uris


@pytest.mark.parametrize(
    ("peer", "uri"),
    [
        ("hv1", "qemu+tls://hv1/system"),
        ("hv1.example.org", "qemu+tls://hv1.example.org/system"),
        ("192.0.2.1", "qemu+tls://192.0.2.1/system"),
        ("2001:db8::1", "qemu+tls://[2001:db8::1]/system"),
    ],
)
def test_verified_tls_and_nothing_else(peer: str, uri: str) -> None:
    assert peer_uris([peer]) == {peer: uri}


def test_in_their_order_and_once() -> None:
    assert list(peer_uris(["b", "a", "b"])) == ["b", "a"]


@pytest.mark.parametrize(
    "peer",
    [
        "",
        "hv1/system?no_verify=1",
        "hv1?pkipath=/tmp",
        "root@hv1",
        "hv1:16514",
        "-hv1",
        "hv1 ",
        "qemu+tcp://hv1/system",
        "a" * 254,
    ],
)
def test_what_says_more_than_an_address_is_refused(peer: str) -> None:
    with pytest.raises(PlanRefused, match="is not the address of a hypervisor; write its name"):
        peer_uris(["hv1", peer])
