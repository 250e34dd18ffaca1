# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Screens that others than the hypervisor can reach keep their TLS."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import (
    consoles as daemon_consoles,
)

VERIFIED = "vnc_tls = 1\nvnc_tls_x509_verify = 1\n"
OPEN = {"web1": ["192.0.2.1"]}


@pytest.mark.parametrize(
    ("graphics", "where"),
    [
        ("<graphics type='vnc'/>", []),
        ("<graphics type='vnc' listen='127.0.0.1'/>", []),
        ("<graphics type='vnc'><listen type='address' address='::1'/></graphics>", []),
        ("<graphics type='vnc'><listen type='socket' socket='/run/x'/></graphics>", []),
        ("<graphics type='vnc'><listen type='none'/></graphics>", []),
        ("<graphics type='spice' listen='192.0.2.1'/>", []),
        ("<graphics type='vnc' listen='192.0.2.1'/>", ["192.0.2.1"]),
        ("<graphics type='vnc'><listen type='address' address='::'/></graphics>", ["::"]),
        (
            "<graphics type='vnc'><listen type='network' network='lan'/></graphics>",
            ["the network lan"],
        ),
    ],
)
def test_open_screens(graphics: str, where: list[str]) -> None:
    domain = f"<domain><devices>{graphics}</devices></domain>"
    assert daemon_consoles.open_screens(domain, "x") == where
    assert daemon_consoles.open_screens(f"<domstatus>{domain}</domstatus>", "x") == where


def test_tls_is_not_taken_from_them() -> None:
    with pytest.raises(PlanRefused, match=r"web1 listens on 192\.0\.2\.1.*vnc_tls: true"):
        daemon_consoles.require_closed(f"{VERIFIED}vnc_tls = 0\n", "vnc_tls = 0\n", OPEN)


@pytest.mark.parametrize(
    ("before", "after", "screens"),
    [
        (VERIFIED, "vnc_tls = 0\n", {}),
        (VERIFIED, VERIFIED, OPEN),
        ("", "vnc_tls = 0\n", OPEN),  # they had none
        ("vnc_tls = 0\n" + VERIFIED, "vnc_tls = 0\n", OPEN),
    ],
)
def test_what_takes_nothing_from_them(
    before: str, after: str, screens: dict[str, list[str]]
) -> None:
    daemon_consoles.require_closed(before, after, screens)


@pytest.mark.parametrize(
    ("kind", "listen", "is_open"),
    [
        ("none", "192.0.2.1", False),
        ("vnc", "127.0.0.1", False),
        ("spice", "::1", False),
        ("vnc", "192.0.2.1", True),
        ("spice", "::", True),
    ],
)
def test_who_reaches_a_screen(kind: str, listen: str, is_open: bool) -> None:
    assert daemon_consoles.is_open(kind, listen) is is_open


@pytest.mark.parametrize(
    ("kind", "conf", "refused"),
    [
        ("vnc", VERIFIED, False),
        ("vnc", "vnc_tls = 1\n", True),  # anybody may look
        ("vnc", "", True),
        ("spice", VERIFIED, True),
        ("spice", "spice_tls = 1\n", False),
    ],
)
def test_an_open_screen_needs_tls(kind: str, conf: str, refused: bool) -> None:
    if not refused:
        daemon_consoles.require_tls(kind, "192.0.2.1", conf)
        return
    with pytest.raises(PlanRefused, match=r"listen on 192\.0\.2\.1 without TLS.*through SSH"):
        daemon_consoles.require_tls(kind, "192.0.2.1", conf)
