# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which domains are hosts, and with which variables."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.domain_info import (
    metadata_entry,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _guests

KNOWN = {"address": "192.0.2.5", "source": "lease", "behind": False}
BEHIND = {"address": "192.168.122.5", "source": "agent", "behind": True}


def metadata(managed: bool = True, **values: t.Any) -> dict[str, t.Any]:
    return {**metadata_entry(Metadata(**values), "m"), "managed": managed}


def guest(name: str = "web1", **values: t.Any) -> dict[str, t.Any]:
    whole: dict[str, t.Any] = {
        "name": name,
        "uuid": f"uuid of {name}",
        "state": "running",
        "vcpus": 2,
        "memory_mib": 512,
        "title": None,
        "hostname": None,
        "metadata": metadata(),
        "error": None,
        "addresses": [],
    }
    return {**whole, **values}


@pytest.mark.parametrize(
    ("given", "unmanaged", "listed"),
    [
        (metadata(), False, True),
        (metadata(managed=False), False, False),
        (metadata(managed=False), True, True),
        (metadata(phase="creating"), False, False),
        (metadata(phase="purging"), True, False),
        (metadata(phase="starting"), False, True),
        (metadata(phase="migrating"), False, True),
    ],
)
def test_is_listed(given: dict[str, t.Any], unmanaged: bool, listed: bool) -> None:
    assert _guests.is_listed(given, unmanaged) is listed


@pytest.mark.parametrize(
    ("name", "ok"),
    [
        ("web1", True),
        ("Windows 10", True),
        ("-oProxyCommand=touch x", False),
        ("{{ lookup('pipe', 'touch x') }}", False),
        ("a{% if 1 %}", False),
        ("a\x1b[2J", False),
        ("localhost", False),
        ("127.0.0.1", False),
        ("all", False),
        ("x" * 256, False),
    ],
)
def test_names(name: str, ok: bool) -> None:
    assert (_guests.name_problem(name) is None) is ok
    chosen, problems = _guests.choose([("hv1", guest(name))])
    assert (len(chosen), len(problems)) == ((1, 0) if ok else (0, 1))


def test_one_that_migrates_is_where_it_runs() -> None:
    """It is on both hypervisors with one UUID; nothing is to be said about that."""
    for states in (("paused", "running"), ("running", "paused"), ("shutoff", "running")):
        both = [(f"hv{n}", guest(state=state)) for n, state in enumerate(states)]
        chosen, problems = _guests.choose([*both, ("hv2", guest("db1"))])
        assert [(name, one["name"]) for name, one in chosen] == [
            (f"hv{states.index('running')}", "web1"),
            ("hv2", "db1"),
        ]
        assert problems == []


def test_one_that_migrates_shut_off_is_paused_on_both() -> None:
    both = [(f"hv{n}", guest(state="paused")) for n in (1, 2)]
    chosen, problems = _guests.choose(both)
    assert ([name for name, _one in chosen], problems) == (["hv1"], [])


@pytest.mark.parametrize("uuid", ["uuid of web1", "another"])
def test_two_that_run_are_told(uuid: str) -> None:
    chosen, problems = _guests.choose([("hv1", guest()), ("hv2", guest(uuid=uuid))])
    assert [name for name, _one in chosen] == ["hv1"]
    assert len(problems) == 1
    assert "'web1' is left out: hypervisor hv1 has one" in problems[0]


def test_address_of() -> None:
    both = guest(addresses=[BEHIND, KNOWN])
    assert _guests.address_of(both, True) == BEHIND
    assert _guests.address_of(both, False) == KNOWN
    assert _guests.address_of(guest(addresses=[BEHIND]), False) is None


def test_variables() -> None:
    given = metadata(
        user="ansible", groups=("web",), tags=("ssd",), zone="asked", phase="migrating"
    )
    one = guest(metadata=given, addresses=[KNOWN, BEHIND], hostname="w")
    found = _guests.variables("hv1", "a", one, KNOWN)
    assert found["ansible_host"] == "192.0.2.5"
    assert found["ansible_user"] == "ansible"
    assert found["virt_addresses"] == ["192.0.2.5", "192.168.122.5"]
    assert found["virt_address_source"] == "lease"
    assert (found["virt_groups"], found["virt_tags"]) == (["web"], ["ssd"])
    assert (found["virt_hypervisor"], found["virt_hostname"]) == ("hv1", "w")
    assert found["virt_zone"] == "a"
    assert found["virt_image"] is None
    assert _guests.variables("hv1", None, one, KNOWN)["virt_zone"] == "asked"
    plain = _guests.variables("hv1", None, guest(), None)
    assert not {"ansible_host", "ansible_user"} & set(plain)


@pytest.mark.parametrize(
    ("ha", "cell", "shown"),
    [("yes", "rack1", "rack1"), ("yes", 7, "7"), ("yes", None, None), (None, "rack1", None)],
)
def test_cell_is_that_of_the_hypervisor_for_vms_of_it(
    ha: str | None, cell: object, shown: str | None
) -> None:
    given = guest(metadata=metadata(ha=ha))
    assert _guests.variables("hv1", None, given, None, cell)["virt_cell"] == shown


@pytest.mark.parametrize("user", ["-oProxyCommand=x", 'a" -o b', "{{ 1 }}", "", "a b"])
def test_a_user_that_is_none(user: str) -> None:
    one = guest(metadata=metadata(user=user))
    assert "ansible_user" not in _guests.variables("hv1", None, one, None)
