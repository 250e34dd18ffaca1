# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user wrote, apart from what has its default."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import (
    Defaults,
    from_options,
)

_PROFILES = {"default": [{"system": {"size": 4096}}], "db": [{"data": {"size": 8}}]}
_NICS = {"dual": {"eth0": {"bridge": "br0"}, "eth1": {"bridge": "br1", "model": "e1000e"}}}


def written(**options: t.Any) -> set[str]:
    defaults = Defaults(disk_profiles=_PROFILES, nic_profiles=_NICS)
    domain, problems = from_options({"name": "v", **options}, path="vms[0]", defaults=defaults)
    assert not problems, problems
    assert domain is not None
    return set(domain.written) - {"name"}


CASES: list[tuple[dict[str, t.Any], set[str]]] = [
    ({}, set()),
    ({"memory": "512", "title": None}, {"memory"}),
    ({"console": {"type": "vnc", "listen": None}}, {"console", "console.type"}),
    ({"console": '{"type": "vnc"}'}, {"console", "console.type"}),
    ({"console": "vnc"}, {"console"}),
    ({"seed": False}, {"seed"}),
    ({"disks": [{"system": {"cache": "none"}}]}, {"disks", "disks.system", "disks.system.cache"}),
    (
        {"disk_profile": "db", "disks": [{"more": {"size": 1}}]},
        {"disk_profile", "disks", "disks.data", "disks.data.size", "disks.more", "disks.more.size"},
    ),
    (
        {"nic_profile": "dual", "nics": {"eth0": {"vlan": 5}}},
        {"nic_profile", "nics", "nics.eth0", "nics.eth0.bridge", "nics.eth0.vlan"}
        | {"nics.eth1", "nics.eth1.bridge", "nics.eth1.model"},
    ),
]


@pytest.mark.parametrize(("options", "expected"), CASES, ids=[str(case[0])[:40] for case in CASES])
def test_written(options: dict[str, t.Any], expected: set[str]) -> None:
    assert written(**options) == expected
