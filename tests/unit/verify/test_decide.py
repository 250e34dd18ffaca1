# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which backups are proven, and where."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import archives
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.archives import ArchiveProof
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.listing import (
    Repository,
    SavedVm,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import decide
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.options import (
    ALL,
    NEWEST,
    SavedArchive,
)
from ansible_collections.fleet.virt.tests.unit.backup._made import OTHER, UUID, at, of
from ansible_collections.fleet.virt.tests.unit.base.test_answer_shapes import HOST

_POLICY = placement.Policy(pool_paths={}, base_pool="base")


def _vm(day: int, uuid: str = UUID, verified: int | None = None) -> SavedVm:
    backup = of(at(day), "web1" if uuid == UUID else "db1", uuid)
    proof = ArchiveProof(archives.BOOTED, at(day), at(verified or 1), "agent: web1", "ab" * 32)
    return SavedVm(backup, (proof,) if verified else ())


def _repositories() -> list[Repository]:
    return [
        Repository("/srv", UUID, (_vm(1, verified=20), _vm(2, verified=10))),
        Repository("/srv", OTHER, (_vm(3, OTHER), _vm(4, OTHER, verified=11))),
        Repository("/srv", "unread", problem="damaged"),
    ]


@pytest.mark.parametrize(
    ("which", "sample", "days"),
    [
        (NEWEST, None, [4, 2]),
        (ALL, None, [3, 4, 1, 2]),
        (NEWEST, 1, [2]),
        (ALL, 1, [3]),
        (ALL, 3, [3, 4, 2]),
        (NEWEST, 9, [4, 2]),
    ],
)
def test_sample_is_of_those_verified_longest_ago(
    which: str, sample: int | None, days: list[int]
) -> None:
    chosen = decide.choose(_repositories(), None, which, sample)
    assert [vm.archive for _repository, vm in chosen] == [at(day) for day in days]


def test_archive_without_vm_name_is_refused() -> None:
    repositories = _repositories()
    with pytest.raises(PlanRefused, match="of one VM"):
        decide.choose(repositories, at(1), NEWEST, None)
    ((_repository, vm),) = decide.choose(repositories[:1], at(1), NEWEST, None)
    assert vm.archive == at(1)
    with pytest.raises(PlanRefused, match="the newest: "):
        decide.choose(repositories[:1], at(9), NEWEST, None)


def test_answer_is_expected_of_what_was_frozen_or_proven() -> None:
    crash = of(at(5))
    crash = type(crash)(
        crash.vm, crash.uuid, crash.host, crash.at, archives.CRASH_CONSISTENT, crash.disks
    )
    lone = Repository("/srv", UUID, (SavedVm(crash),))
    assert not decide.is_expected(lone, lone.vms[0])
    assert decide.is_expected(
        Repository("/srv", UUID, (_vm(1, verified=2), *lone.vms)), lone.vms[0]
    )
    assert decide.is_expected(lone, _vm(1)), "frozen"
    for frozen, expected in ((4, True), (6, False)):
        repository = Repository("/srv", UUID, (_vm(frozen), *lone.vms))
        assert decide.is_expected(repository, lone.vms[0]) is expected, "an earlier one was"


def _entry(name: str, *problems: str, memory: int = 1) -> t.Any:
    return {
        "name": name,
        "problems": [*problems],
        "vcpus": 1,
        "memory_mib": memory,
        "domain_type": None,
        "arch": None,
        "error": None,
    }


def _decide(entries: dict[str, list[t.Any]]) -> decide.ProofDecision:
    infos = {host: copy.deepcopy(HOST) for host in entries}
    hosts = [placement.host_from_info(info, {}, name=host) for host, info in infos.items()]
    answers: t.Any = {host: {"host": infos[host], "entries": entries[host]} for host in entries}
    names = {entry["name"]: None for those in entries.values() for entry in those}
    return decide.decide([SavedArchive(name=name) for name in names], answers, hosts, _POLICY)


def test_backups_are_shared_among_those_that_can_boot_them() -> None:
    names = ("a", "b", "c")
    entries = {
        "hv1": [_entry(name) for name in names],
        "hv2": [_entry(name) for name in names],
        "hv3": [_entry(name, "its QEMU has no machine type 'x'") for name in names],
    }
    decision = _decide(entries)
    assert not decision.unbootable
    assert sorted(map(len, decision.shares.values())) == [1, 2]
    assert "hv3" not in decision.shares


def test_backup_that_boots_nowhere_is_read_with_the_reason() -> None:
    why = "its QEMU has no machine type 'x'"
    decision = _decide({"hv1": [_entry("a", why)], "hv2": [_entry("a", why)]})
    assert decision.unbootable == {"a": why}
    assert sum(map(len, decision.shares.values())) == 1
    decision = _decide({"hv1": [_entry("a", why)], "hv2": [_entry("a", memory=1 << 30)]})
    assert why in decision.unbootable["a"]
    assert "memory" in decision.unbootable["a"], decision
    with pytest.raises(PlanRefused, match="no hypervisor answered"):
        decide.decide([SavedArchive(name="a")], {}, [], _POLICY)
