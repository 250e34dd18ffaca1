# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's settings on the hypervisors of a laboratory that files of tests share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_DIGESTS = "sha256sum /etc/libvirt/*.conf 2>/dev/null || :"


@contextlib.contextmanager
def kept(lab: Laboratory) -> Iterator[None]:
    """Fail if they are not as they were: a test that comes later would, by an order of files that
    differs from run to run."""
    before = _digests(lab)
    yield
    after = _digests(lab)
    for host in before.keys() & after.keys():
        assert after[host] == before[host], f"libvirt's settings of {host} are not as they were"


def _digests(lab: Laboratory) -> dict[str, list[str]]:
    return {
        host.name: lab.ssh(host.name, _DIGESTS, check=False).stdout.splitlines()
        for host in lab.hosts
        if host.state == "running" and not host.bare
    }
