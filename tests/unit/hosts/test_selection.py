# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which domains are shown, and in which order."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import domain_entry
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.domain_info import parse
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.selection import (
    SHOWN_STATES,
    Selection,
    flat,
    select,
)


def domain(name: str, **changes: object) -> dict[str, object]:
    info = parse("<domain><name>x</name></domain>", "domain")
    metadata = {**info["metadata"], **{k: changes.pop(k) for k in list(changes) if k in _KEPT}}
    entry = domain_entry.from_info(info, name, "u")
    return {**entry, "state": "running", "metadata": metadata, **changes}


_KEPT = ("groups", "managed")
FLEET = [
    {
        "name": "hv2",
        "answered": True,
        "domains": [
            domain("web1", groups=["shop", "web"], managed=True, memory_mib=512, vcpus=1),
            domain("db1", groups=["shop"], managed=True, memory_mib=4096, vcpus=1),
            domain("saved1", state="shutoff", managed_save=True, memory_mib=None),
        ],
    },
    {
        "name": "hv1",
        "answered": True,
        "domains": [
            domain("web2", state="shutoff", memory_mib=512, vcpus=4),
            domain_entry.unreadable("broken", "u", "odd"),
        ],
    },
    {"name": "hv3", "answered": False, "domains": []},
]


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(), ["web1", "db1", "saved1", "web2", "broken"]),
        (Selection(states=("running",)), ["web1", "db1", "broken"]),
        (Selection(states=("shutoff",)), ["saved1", "web2", "broken"]),
        (Selection(states=("saved", "paused")), ["saved1", "broken"]),
        (Selection(groups=("web", "none")), ["web1", "broken"]),
        (Selection(groups=("shop",), patterns=("db*",)), ["db1"]),
        (Selection(patterns=("web[0-9]", "sav?d1")), ["web1", "saved1", "web2"]),
        (Selection(patterns=("WEB*",)), []),
        (Selection(managed=True), ["web1", "db1", "broken"]),
        (Selection(managed=False), ["saved1", "web2", "broken"]),
    ],
)
def test_what_is_shown(selection: Selection, names: list[str]) -> None:
    shown, count = select(FLEET, selection, [])
    assert [entry["name"] for entry in shown] == ["hv2", "hv1", "hv3"]
    assert [one["name"] for _host, one in flat(shown, [])] == names
    assert count == (f"{len(names)} of 5 domains are shown" if selection != Selection() else "")


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        (["hypervisor"], ["web2", "broken", "web1", "db1", "saved1"]),
        (["name"], ["broken", "db1", "saved1", "web1", "web2"]),
        (["memory", "name"], ["db1", "web1", "web2", "broken", "saved1"]),
        (["vcpus", "memory"], ["web2", "db1", "web1", "saved1", "broken"]),
        (["state", "hypervisor", "name"], ["db1", "web1", "web2", "saved1", "broken"]),
    ],
)
def test_the_order_over_all_hypervisors(sort: list[str], names: list[str]) -> None:
    assert [one["name"] for _host, one in flat(FLEET, sort)] == names


def test_the_order_within_a_hypervisor() -> None:
    shown, _count = select(FLEET, Selection(), ["name"])
    assert [[one["name"] for _host, one in flat([entry], [])] for entry in shown] == [
        ["db1", "saved1", "web1"],
        ["broken", "web2"],
        [],
    ]


def test_states_are_those_of_libvirt_saved_and_unknown() -> None:
    assert SHOWN_STATES[0] == "running"
    assert SHOWN_STATES[-2:] == ("saved", "unknown")
