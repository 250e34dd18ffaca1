# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hypervisors form a cell, and in which order members are added and removed."""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.facts import CellLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha import decide
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha.decide import CellHost


def host(number: int, members: t.Sequence[str] = (), **look: t.Any) -> CellHost:
    """A hypervisor, and what it answers: of a cell that runs if it is among ``members``."""
    name = f"hv{number}"
    inside = name in members
    answer: CellLook = {
        "release": "debian 13",
        "cell": "a" if inside else None,
        "foreign": None,
        "numbers": {member: i for i, member in enumerate(members, 1)} if inside else {},
        "running": inside,
        "online": list(members) if inside else [],
        "unclean": [],
        "quorate": inside,
        "resources": [],
        "here": [],
        "missing": [],
        "unfit": {},
    }
    answer.update(look)  # type: ignore[typeddict-item]
    return CellHost(name, True, (f"192.0.2.{number}",), answer)


def leaving(one: CellHost, **changes: t.Any) -> CellHost:
    return dataclasses.replace(one, stays=False, **changes)


def several(count: int, members: int = 0, **look: t.Any) -> list[CellHost]:
    names = [f"hv{number}" for number in range(1, members + 1)]
    return [host(number, names, **look) for number in range(1, count + 1)]


def refused(hosts: t.Sequence[CellHost], *, qdevice: bool = False, cell: str = "a") -> str:
    return "; ".join(decide.refusals(cell, hosts, qdevice=qdevice))


def test_three_hypervisors_form_cell_at_once() -> None:
    hosts = several(3)
    assert refused(hosts) == ""
    assert decide.rounds("a", hosts) == [["hv1", "hv2", "hv3"]]
    assert decide.all_numbers("a", hosts) == {"hv1": 1, "hv2": 2, "hv3": 3}
    assert not decide.is_running("a", hosts)


@pytest.mark.parametrize("count", [*range(1, 19)])
def test_size_of_cell_is_limited(count: int) -> None:
    hosts = several(count)
    assert bool(refused(hosts)) == (not 3 <= count <= 16)
    assert bool(refused(hosts, qdevice=True)) == (count == 1 or count > 16)


_ODD: list[tuple[str, t.Callable[[], list[CellHost]]]] = [
    ("several releases (debian 13: hv1, hv2; debian 12: hv3)",
     lambda: [*several(2), host(3, release="debian 12")]),
    ("hv3 has no fence device",
     lambda: [*several(2), dataclasses.replace(host(3), device_problem="hv3 has no fence device")]),
    ("hv3 is a member of the cell 'b'; take it out", lambda: [*several(2), host(3, cell="b")]),
    ("hv3 is a node of the cluster 'web'", lambda: [*several(2), host(3, foreign="web")]),
    ("hv3 does not have the fence agents fence_ipmilan",
     lambda: [*several(2), host(3, missing=["fence_ipmilan"])]),
    ("hv3 has a fence agent that is no proof that a host is off: fence_scsi switches no power",
     lambda: [*several(2), host(3, unfit={"fence_scsi": "fence_scsi switches no power"})]),
    ("hv3 does not answer (timed out)",
     lambda: [*several(2), dataclasses.replace(host(3), look=None, silence="timed out")]),
    ("hv3 has the address 192.0.2.1 of hv1",
     lambda: [*several(2), dataclasses.replace(host(3), addresses=("192.0.2.1",))]),
    ("hv3 has the address 127.0.1.1 of the loopback",
     lambda: [*several(2), dataclasses.replace(host(3), addresses=("127.0.1.1",))]),
    ("hv3 and HV3 are one name to Pacemaker",
     lambda: [*several(3), dataclasses.replace(host(4), name="HV3")]),
    ("different numbers of addresses",
     lambda: [*several(2), dataclasses.replace(host(3), addresses=("192.0.2.3", "198.51.100.3"))]),
    ("hv3 is not online",
     lambda: several(4, 3, online=["hv1", "hv2"])),
    ("hv3 is not proven off",
     lambda: several(4, 3, online=["hv1", "hv2"], unclean=["hv3"])),
    ("no quorum", lambda: several(4, 3, quorate=False)),
    ("hv4 is no host of the inventory, but is online",
     lambda: [host(n, ["hv1", "hv2", "hv3", "hv4"]) for n in (1, 2, 3)]),
    ("hv4 runs fleet-1 of the cell 'a'; evacuate it",
     lambda: [*several(4, 4)[:3], leaving(several(4, 4, here=["fleet-1"])[3])]),
    ("still has VMs (fleet-1)",
     lambda: [leaving(one) for one in several(3, 3, resources=["fleet-1"])]),
]  # fmt: skip


@pytest.mark.parametrize(("message", "hosts"), _ODD, ids=[message for message, _ in _ODD])
def test_cell_is_refused(message: str, hosts: t.Callable[[], list[CellHost]]) -> None:
    assert message in refused(hosts())


@pytest.mark.parametrize("name", ["", "a b", "-a", "a{", "ä"])
def test_name_that_corosync_cannot_read_is_refused(name: str) -> None:
    assert "is no name" in refused(several(3), cell=name)


def test_existing_cell_is_not_changed() -> None:
    hosts = several(3, 3)
    assert refused(hosts) == ""
    assert decide.rounds("a", hosts) == [["hv1", "hv2", "hv3"]]


def test_member_that_is_off_prevents_no_run_without_changes() -> None:
    hosts = several(3, 3, online=["hv1", "hv2"])
    assert refused(hosts) == ""


def test_host_that_is_gone_is_removed_once_it_is_proven_off() -> None:
    hosts = several(4, 4, online=["hv1", "hv2", "hv3"])
    gone = leaving(hosts[3], look=None)
    assert refused([*hosts[:3], gone]) == ""
    assert refused(hosts[:3]) == "", "nor is it in the inventory"
    unclean = several(4, 4, online=["hv1", "hv2", "hv3"], unclean=["hv4"])
    assert "hv4 is not proven off" in refused([*unclean[:3], gone])


def test_hosts_that_inventory_lacks_are_removed_first() -> None:
    members = ["hv7", "hv1", "hv2", "hv3", "hv4", "hv8"]
    hosts = [host(number, members, online=members[1:5]) for number in (1, 2, 3, 4)]
    hosts[3] = leaving(hosts[3])
    assert refused(hosts) == ""
    assert decide.rounds("a", hosts) == [["hv1", "hv2", "hv3", "hv4"], ["hv1", "hv2", "hv3"]]


def test_member_with_name_that_corosync_cannot_read_is_ignored() -> None:
    hosts = [host(number, ["hv1", "hv2", "hv3", "x\n}"]) for number in (1, 2, 3)]
    assert decide.numbers("a", hosts) == {"hv1": 1, "hv2": 2, "hv3": 3}


def test_members_are_added_and_removed_singly() -> None:
    names = ["hv1", "hv2", "hv3", "hv4", "hv5"]
    for before, after in itertools.product(range(8, 32), range(8, 32)):
        members = [name for i, name in enumerate(names) if before & 1 << i]
        wanted = [name for i, name in enumerate(names) if after & 1 << i]
        hosts = []
        for number in range(1, 6):
            one = host(number, members)
            if one.name in wanted or one.name in members:
                hosts.append(one if one.name in wanted else leaving(one))
        steps = decide.rounds("a", hosts)
        assert set(steps[-1]) == set(wanted)
        for former, later in itertools.pairwise([members, *steps]):
            assert len(set(former) ^ set(later)) == 1 or former == later == members
        numbers = decide.all_numbers("a", hosts)
        assert len(set(numbers.values())) == len(numbers)
        assert all(numbers[name] == i for i, name in enumerate(members, 1)), "they keep theirs"


def test_last_members_leave_together() -> None:
    hosts = [leaving(one) for one in several(3, 3)]
    assert refused(hosts) == ""
    assert decide.rounds("a", hosts) == [[]]
