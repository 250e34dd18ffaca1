# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An existing VM that is seeded while others change it; and check mode, which says what is done."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    FleetVirtError,
    PlanRefused,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_deadline as deadline,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    BLOCKING_DRIVE,
    Metadata,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.results import GENERATED
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    effects_guest_disk as guest_disk,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    effects_nocloud as seed_nocloud,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    effects_offline as offline,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import effects as seeding
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines, counted, plain

_DOMAIN = """
<domain type='test'><name>web1</name><uuid>6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b</uuid>
 <memory>131072</memory><os><type>hvm</type></os><devices>
 <disk type='file' device='disk'><source file='{root}/disk.raw'/>
  <target dev='sda' bus='scsi'/></disk>
 <controller type='scsi' index='0'/></devices></domain>
"""
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
_BLANK = b"an image without cloud-init"
_Options = t.Mapping[str, object]


def _whole(hostname: str) -> bytes:
    return f"the disk of {hostname}; ".encode() * 3


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Hypervisors that need no programs, and no appliance to write into disks."""

    def make(seed: t.Any, _name: str, _uuid: str, _nics: t.Any) -> seed_nocloud.Medium:
        return seed_nocloud.Medium(_whole(seed.hostname), f"ssh-ed25519 {seed.hostname}")

    monkeypatch.setattr(seed_nocloud, "make", make)
    for module, name in (
        (seed_nocloud, "require_programs"),
        (seed_nocloud, "require_keys"),
        (guest_disk, "require"),
    ):
        monkeypatch.setattr(module, name, lambda: None)
    return Machines(tmp_path, monkeypatch)


def _define(machine: Machine) -> t.Any:
    (machine.root / "disk.raw").write_bytes(_BLANK)
    return machine.connection.conn.defineXML(_DOMAIN.format(root=machine.root))


def _run(
    connection: Connection,
    hostname: str,
    method: str = "nocloud",
    state: str = "present",
    *,
    check: bool = False,
) -> t.Any:
    """The result, or why there is none."""
    given: _Options = {"hostname": hostname, "ssh_public_keys": [_KEY], "method": method}
    options = given if state == "present" else {}
    try:
        return seeding.run(connection, "web1", state, options, "default", check=check)
    except FleetVirtError as error:
        return str(error)


def _call(machine: Machine, *words: str, check: bool = False, **kill: int) -> t.Any:
    return machine.call(lambda connection: _run(connection, *words, check=check), **kill)


def _writes(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, problem: Exception | None = None
) -> None:
    """What stands for the appliance: it writes into the disk, in two parts, or says why not."""

    def seed_disks(
        seed: t.Any, _name: str, _uuid: str, _nics: t.Any, disks: t.Any
    ) -> offline.Chosen:
        ((path, kind),) = disks
        assert (path, kind, seed.method) == (f"{machine.root}/disk.raw", "raw", "offline")
        content = _whole(seed.hostname)
        if problem is not None and not isinstance(problem, guest_disk.IncompleteWrite):
            raise problem
        for part in (content[:9], content):
            machine.effects.next(f"write {len(part)}")
            with counted(None):
                Path(path).write_bytes(part)
            if problem is not None:
                raise problem
        return offline.Chosen("offline", "as set", f"ssh-ed25519 {seed.hostname}", None)

    monkeypatch.setattr(offline, "seed_disks", seed_disks)


def _devices(machine: Machine) -> str:
    text = machine.connection.conn.lookupByName("web1").XMLDesc(2)
    return text[text.index("<devices>") :]


def _is_blocked(machine: Machine) -> bool:
    """Whether libvirt would refuse to start it."""
    return f"<target dev='{BLOCKING_DRIVE}'" in _devices(machine)


def _disk(machine: Machine) -> bytes:
    return (machine.root / "disk.raw").read_bytes()


def test_killed_while_its_disk_is_written_the_same_call_ends_it(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines.new() as machine:
        _writes(machine, monkeypatch)
        _define(machine)
        before = _devices(machine)
        done = _call(machine, "web1", "offline")
        assert done["steps"] == [f"write the seed into {machine.root}/disk.raw"]
        assert done["host_key"] == "ssh-ed25519 web1"
        assert _devices(machine) == before
        effects = len(machine.effects.done)
    assert effects == 4  # claimed, written in two parts, released
    for number in range(1, effects + 1):
        with machines.new() as machine:
            _writes(machine, monkeypatch)
            _define(machine)
            _call(machine, "web1", "offline", kill_at=number)
            where = f"killed before {machine.effects.done[-1]!r}"
            assert _is_blocked(machine) is (number > 1), where
            stored = machine.stored("web1")
            if number > 1:
                assert stored is not None
                assert (stored.phase, stored.host_key) == ("seeding", None), where
                assert "with another seed" in _call(machine, "other", "offline"), where
                assert "partially seeded" in _call(machine, "web1", "offline", "absent"), where
            again = _call(machine, "web1", "offline")
            assert isinstance(again, dict), (where, again)
            assert _disk(machine) == _whole("web1"), where
            assert not _is_blocked(machine), where
            stored = machine.stored("web1")
            assert stored is not None
            assert (stored.phase, stored.owner) == (None, None), where
            assert stored.host_key == again["host_key"] == "ssh-ed25519 web1", where
            assert machine.faults() == [], where
            assert not _call(machine, "web1", "offline")["changed"], where


@pytest.mark.parametrize("incomplete", [False, True])
def test_only_a_disk_that_was_not_written_to_can_be_started_again(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, incomplete: bool
) -> None:
    problem = guest_disk.IncompleteWrite("half") if incomplete else PlanRefused("no system")
    with machines.new() as machine:
        _writes(machine, monkeypatch, problem)
        before = _define(machine).XMLDesc(2)
        assert _call(machine, "web1", "offline") == str(problem)
        assert _is_blocked(machine) is incomplete
        unchanged = machine.connection.conn.lookupByName("web1").XMLDesc(2) == before
        assert unchanged is not incomplete
        _writes(machine, monkeypatch)
        assert _call(machine, "web1", "offline")["changed"]
        assert not _is_blocked(machine)
        assert _disk(machine) == _whole("web1")


def _on(monkeypatch: pytest.MonkeyPatch, module: t.Any, name: str, act: t.Any) -> None:
    """Somebody acts just before that function does."""
    real = getattr(module, name)

    def first(*arguments: t.Any) -> t.Any:
        act()
        return real(*arguments)

    monkeypatch.setattr(module, name, first)


def test_a_vm_that_is_started_meanwhile_keeps_what_it_had(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "'web1' was started meanwhile; nothing was changed"
    for method, module, name in (
        ("nocloud", seed_nocloud, "make"),
        ("offline", guest_disk, "require"),
    ):
        with machines.new() as machine, monkeypatch.context() as patch:
            _writes(machine, patch)
            dom = _define(machine)
            before = plain(dom.XMLDesc(2))
            with counted(None):
                _on(patch, module, name, dom.create)
            assert _call(machine, "web1", method) == said
            assert plain(dom.XMLDesc(2)) == before
            assert machine.stored("web1") is None
            assert (machine.files(), machine.volumes()) == ({}, {})
            assert _disk(machine) == _BLANK


@pytest.mark.parametrize("method", ["nocloud", "offline"])
def test_what_another_run_notes_meanwhile_stays(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Before the first change and, while the medium is created, before the definition."""
    moments: dict[str, list[tuple[t.Any, str]]] = {
        "nocloud": [(seed_nocloud, "make"), (seed_nocloud, "store")],
        "offline": [(guest_disk, "require")],
    }
    for module, name in moments[method]:
        with machines.new() as machine, monkeypatch.context() as patch:
            _writes(machine, patch)
            dom = _define(machine)

            def note(machine: Machine = machine, dom: t.Any = dom) -> None:
                stored = lookup.read_metadata(machine.connection, dom) or Metadata()
                stored = dataclasses.replace(stored, phase="changing")
                with counted(None):
                    lookup.restore_metadata(machine.connection, dom, stored)

            _on(patch, module, name, note)
            answer = _call(machine, "web1", method)
            early = "was changed by another run meanwhile"
            assert (early if method == "offline" else "is in phase changing") in answer
            assert machine.stored("web1") == Metadata(phase="changing")
            assert machine.files() == {}
            assert not _is_blocked(machine)


def test_a_definition_whose_change_got_no_answer_names_no_medium_that_is_gone(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt has done it, as far as it is known; what is rolled back is consistent."""
    with machines.new() as machine, monkeypatch.context() as patch:
        before = plain(_define(machine).XMLDesc(2))
        real = Connection.call

        def lost(this: Connection, action: str, *arguments: t.Any, **more: t.Any) -> t.Any:
            answer = real(this, action, *arguments, **more)
            if action == "define web1" and not silent:
                silent.append(action)
                raise deadline.DeadlineExceeded(action, 1)
            return answer

        silent: list[str] = []
        patch.setattr(Connection, "call", lost)
        assert "no answer" in _call(machine, "web1")
        assert silent
        assert plain(machine.connection.conn.lookupByName("web1").XMLDesc(2)) == before
        assert (machine.files(), machine.stored("web1")) == ({}, None)
        assert _call(machine, "web1")["changed"]


@pytest.mark.parametrize("method", ["nocloud", "offline"])
def test_check_mode_says_what_is_done(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def look(_seed: t.Any, _disks: t.Any) -> offline.Chosen:
        return offline.Chosen("offline", "as set", None, None)

    monkeypatch.setattr(offline, "look", look)
    calls = [("web1", method, "present"), ("web1", method, "absent")]
    calls[1:1] = [("web2", method, "present")] if method == "nocloud" else []
    with machines.new() as machine:
        _writes(machine, monkeypatch)
        dom = _define(machine)
        for words in calls:
            before, files = dom.XMLDesc(2), machine.files()
            check = _call(machine, *words, check=True)
            assert machine.effects.done == []
            assert (dom.XMLDesc(2), machine.files()) == (before, files)
            real = _call(machine, *words)
            if words[2] == "present":
                assert check.pop("host_key") == GENERATED
                assert real.pop("host_key") == f"ssh-ed25519 {words[0]}"
            assert check == real
            assert real["changed"] is bool(real["steps"]) is ("diff" in real)
