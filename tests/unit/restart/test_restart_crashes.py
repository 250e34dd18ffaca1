# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taking VMs over, killed or failing at each of its effects, on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import read_caller as caller
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import (
    effects_cards,
    read_cards,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import Card, CardName
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_lease as lease
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import (
    effects as restart,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart.options import (
    RestartOptions,
    RestartWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import read_file_systems
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    read_file_users as file_users,
)
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_OLD = {"web1_system.raw": b"a system", "web1_data.raw": b"data"}
_NEW = {"web1_system.r1.raw": b"a system", "web1_data.r1.raw": b"data"}
_DOMAIN = """
<domain type='test'><name>web1</name><uuid>{uuid}</uuid><memory>131072</memory>
 <os><type>hvm</type></os><metadata>{metadata}</metadata><devices>{disks}</devices></domain>
"""
_DISK = (
    "<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{path}'/>"
    "<target dev='{target}' bus='scsi'/>{more}</disk>"
)
_OPTIONS: RestartOptions = {
    "host": ["hv3"],
    "names": ["web1"],
    "addresses": ["192.0.2.13"],
    "ports": [],
    "base_pool": "base",
    "base_path": "/var/lib/libvirt/base",
}
_AT = CardName("web1", ("hv3",))


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setattr(lease, "OBSERVE", 0.0)  # a process that does not live is dead at once
    monkeypatch.setattr(restart, "sign_of_life", lambda *_places: None)
    monkeypatch.setattr(read_file_systems, "is_shared", lambda folder: "/pool" in str(folder))
    monkeypatch.setattr(caller._state, "host", "hv1")
    return Machines(tmp_path, monkeypatch)


def _prepare(machine: Machine, *, more: str = "", phase: str | None = None) -> None:
    """The disks and the card of a VM of hv3, in a pool on a file system that is shared."""
    disks, own = "", []
    for number, (name, content) in enumerate(_OLD.items()):
        path = machine.pool / name
        path.write_bytes(content)
        target = f"sd{'ab'[number]}"
        own.append(OwnVolume("default", name, str(path), target, "disk", "1"))
        disks += _DISK.format(path=path, target=target, more=more)
    kept = Metadata(request='{"name":"web1"}', volumes=tuple(own), phase=phase)
    ours = _lxml.tostring(metadata.to_element(kept))
    text = _DOMAIN.format(uuid=_UUID, metadata=ours, disks=disks)
    card = Card(_AT, _UUID, text, running=True, autostart=True)
    effects_cards.write(str(machine.pool), card)
    machine._refresh()


def _stage(stage: str, *, check: bool = False) -> t.Callable[[Connection], t.Mapping[str, t.Any]]:
    return lambda connection: restart.run(
        connection, _OPTIONS, RestartWork(stage=stage), check=check
    )


def _vm(answer: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    assert answer is not None
    (vm,) = answer["vms"]
    return dict(vm)


def _disks(machine: Machine) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in machine.pool.glob("web1_*")}


def _cards(machine: Machine) -> list[str]:
    return [at.file for at in read_cards.names(str(machine.pool)) if at.name == "web1"]


def _is_as_before(machine: Machine, where: str = "") -> None:
    assert _disks(machine) == _OLD, where
    assert _cards(machine) == ["web1@hv3.fleet.xml"], where
    assert "web1" not in machine.domains(), where


def _is_complete(machine: Machine, disks: t.Mapping[str, bytes], where: str = "") -> None:
    assert _disks(machine) == disks, where
    assert _cards(machine) == ["web1@hv1.fleet.xml"], where
    dom = machine.connection.conn.lookupByName("web1")
    root = _lxml.parse(dom.XMLDesc(2), "web1")
    named = [str(source.get("file")) for source in root.iterfind("devices/disk/source")]
    assert named == [str(machine.pool / name) for name in disks], where
    stored = metadata.parse(root)
    assert stored is not None
    assert [(one.path, one.name) for one in stored.volumes] == list(zip(named, disks)), where
    assert dom.autostart() == 1, where
    card = read_cards.require(str(machine.pool), CardName("web1", ("hv1",)))
    assert (card.disks, card.running) == (tuple(named), True), where


def test_check_mode_predicts_run_and_changes_nothing(machines: Machines) -> None:
    with machines.new() as machine:
        _prepare(machine)
        predicted = machine.call(_stage("act", check=True))
        assert machine.effects.done == []
        _is_as_before(machine)
        assert machine.call(_stage("act")) == predicted
        assert _vm(machine.call(_stage("finish")))["changed"]
        _is_complete(machine, _NEW)
        assert not _vm(machine.call(_stage("act")))["changed"]
        assert machine.effects.done == []


def test_takeover_killed_at_any_effect_is_completed_by_next_run(machines: Machines) -> None:
    """Whatever was done, both disks exist, under at least one of their names, with their content;
    the card names hv3 or both, and the old definition fits no disk in the end."""
    kill_at = 0
    while True:
        kill_at += 1
        with machines.new() as machine:
            _prepare(machine)
            killed = machine.call(_stage("act"), kill_at=kill_at) is None
            where = f"{kill_at}: {machine.effects.done[-1:]}"
            assert set(_disks(machine).values()) == set(_OLD.values()), where
            assert _cards(machine) != ["web1@hv1.fleet.xml"], where
            again = _vm(machine.call(_stage("act")))
            assert not again["failed"], (where, again)
            ended = _vm(machine.call(_stage("finish")))
            assert not ended["failed"], (where, ended)
            names = sorted(_disks(machine))
            assert not set(names) & set(_OLD), where
            counter = names[0].split(".")[1]
            _is_complete(
                machine,
                {name.replace(".raw", f".{counter}.raw"): data for name, data in _OLD.items()},
                where,
            )
        if not killed:
            break
    assert kill_at > 10


def test_handing_over_killed_at_any_effect_is_completed_by_next_run(machines: Machines) -> None:
    for kill_at in (1, 2, 3):
        with machines.new() as machine:
            _prepare(machine)
            machine.call(_stage("act"))
            machine.call(_stage("finish"), kill_at=kill_at)
            assert not _vm(machine.call(_stage("act")))["failed"]
            assert not _vm(machine.call(_stage("finish")))["failed"]
            _is_complete(machine, _NEW, str(kill_at))


def test_takeover_that_fails_at_any_effect_is_undone_or_completed(machines: Machines) -> None:
    fail_at = 0
    while True:
        fail_at += 1
        with machines.new() as machine:
            _prepare(machine)
            answer = _vm(machine.call(_stage("act"), fail_at=fail_at))
            where = f"{fail_at}: {machine.effects.failed}"
            if not machine.effects.failed:
                break
            assert set(_disks(machine).values()) == set(_OLD.values()), where
            if answer["failed"] and "web1" not in machine.domains():
                assert _cards(machine) in (
                    ["web1@hv3.fleet.xml"],
                    ["web1@hv3+hv1.fleet.xml"],
                ), where
            assert not _vm(machine.call(_stage("act")))["failed"], where
            assert not _vm(machine.call(_stage("finish")))["failed"], where
            assert not set(_disks(machine)) & set(_OLD), where
    assert fail_at > 10


def test_card_has_single_winner(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hypervisors, of which each took the VM over in a run of its own."""
    with machines.new() as machine:
        _prepare(machine)
        machine.call(_stage("act"), kill_at=2)
        assert _cards(machine) == ["web1@hv3+hv1.fleet.xml"]
        before = _disks(machine)
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(caller._state, "host", "hv2")
            other = _vm(machine.call(_stage("act")))
        assert other["failed"]
        assert "names hv3 and hv1, not hv3" in other["msg"]
        assert _disks(machine) == before
        assert not _vm(machine.call(_stage("act")))["failed"]


def test_second_hypervisor_that_died_is_followed_by_a_third(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hv1 took the VM over until some effect, and died; hv2 goes on once both are off."""
    kill_at = 1
    while True:
        kill_at += 1
        with machines.new() as machine:
            _prepare(machine)
            killed = machine.call(_stage("act"), kill_at=kill_at) is None
            where = f"{kill_at}: {machine.effects.done[-1:]}"
            with monkeypatch.context() as elsewhere:
                elsewhere.setattr(caller._state, "host", "hv2")
                alone = _vm(machine.call(_stage("act")))
                assert "names hv3 and hv1, not hv3" in alone["msg"], where
                elsewhere.setitem(_OPTIONS, "host", ["hv3", "hv1"])  # type: ignore[misc]
                if "web1" in machine.domains():  # that of hv1
                    machine.connection.conn.lookupByName("web1").undefine()
                taken = _vm(machine.call(_stage("act")))
                assert not taken["failed"], (where, taken)
                assert _cards(machine) == ["web1@hv3+hv1+hv2.fleet.xml"], where
                ended = _vm(machine.call(_stage("finish")))
                assert not ended["failed"], (where, ended)
            assert _cards(machine) == ["web1@hv2.fleet.xml"], where
            assert set(_disks(machine).values()) == set(_OLD.values()), where
            assert not set(_disks(machine)) & set(_OLD), where
        if not killed:
            break
    assert kill_at > 10


class _Hang:
    """hv1 hangs before it looks at its card for the ``place``-th time, and hv2 takes that then."""

    def __init__(self, machine: Machine, place: int) -> None:
        self.machine, self.place, self.looks = machine, place, 0
        self.disks: dict[str, bytes] | None = None
        self.current = effects_cards.is_same

    def look(self, folder: str, at: CardName, identity: str) -> bool:
        if at.hosts == ("hv3", "hv1") and os.path.lexists(os.path.join(folder, at.file)):
            self.looks += 1
            if self.looks == self.place:
                last = at.on("hv3", "hv1", "hv2").file
                os.rename(os.path.join(folder, at.file), os.path.join(folder, last))
                self.disks = _disks(self.machine)
        return self.current(folder, at, identity)


def test_card_taken_by_another_stops_all_that_follows(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said to be off, and goes on: it does no further step, and undoes none."""
    places = 0
    while True:
        with machines.new() as machine, monkeypatch.context() as patched:
            _prepare(machine)
            hang = _Hang(machine, places + 1)
            patched.setattr(effects_cards, "is_same", hang.look)
            vm = _vm(machine.call(_stage("act")))
            if hang.disks is None:
                break
            places += 1
            assert "another hypervisor has taken it" in vm["msg"], (places, vm)
            assert _disks(machine) == hang.disks, (places, "nothing is undone either")
            assert _cards(machine) == ["web1@hv3+hv1+hv2.fleet.xml"], places
    assert places >= len(_OLD) + 2, "each disk, the card, the definition"


def _leave(machine: Machine, *, active: bool = False) -> None:
    """What hv1 has of the VM since it was there: a definition whose disk has another name now."""
    disk = _DISK.format(path=machine.pool / "web1_system.r0.raw", target="sda", more="")
    text = _DOMAIN.format(uuid=_UUID, metadata="", disks=disk)
    dom = machine.connection.conn.defineXML(text)
    dom.setAutostart(1)
    if active:
        dom.create()


def test_leftover_of_vm_is_replaced(machines: Machines) -> None:
    """Killed at any effect; nothing of it stays, not even that it started at boot."""
    kill_at = 0
    while True:
        kill_at += 1
        with machines.new() as machine:
            _prepare(machine)
            file = read_cards.load(str(machine.pool), _AT)
            assert file.card is not None
            effects_cards.write(str(machine.pool), dataclasses.replace(file.card, autostart=False))
            _leave(machine)
            killed = machine.call(_stage("act"), kill_at=kill_at) is None
            again = _vm(machine.call(_stage("act")))
            assert not again["failed"], (kill_at, again)
            dom = machine.connection.conn.lookupByName("web1")
            assert "r0.raw" not in dom.XMLDesc(2), kill_at
            assert dom.autostart() == 0, kill_at
            assert not _vm(machine.call(_stage("finish")))["failed"], kill_at
        if not killed:
            break
    assert kill_at > 10


def test_vm_that_runs_on_with_old_disks_is_refused(machines: Machines) -> None:
    with machines.new() as machine:
        _prepare(machine)
        _leave(machine, active=True)
        refused = _vm(machine.call(_stage("act")))
        assert "it runs there, with disks that are not its card's" in refused["msg"]
        assert _disks(machine) == _OLD


def test_disk_that_is_locked_is_not_renamed(machines: Machines) -> None:
    with machines.new() as machine:
        _prepare(machine)
        descriptor = os.open(machine.pool / "web1_data.raw", os.O_RDWR)
        try:
            lock = file_users._FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 201, 1, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)  # as QEMU does
            refused = _vm(machine.call(_stage("act")))
        finally:
            os.close(descriptor)
        assert "web1_data.raw is locked" in refused["msg"]
        assert machine.effects.done == []
        _is_as_before(machine)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"more": "<shareable/>"}, "is shareable"),
        ({"phase": "creating"}, "it is in phase creating"),
    ],
)
def test_vm_that_cannot_leave_is_refused(
    machines: Machines, given: dict[str, str], message: str
) -> None:
    with machines.new() as machine:
        _prepare(machine, **given)  # type: ignore[arg-type]
        refused = _vm(machine.call(_stage("act")))
        assert message in refused["msg"], refused
        _is_as_before(machine)


def test_pool_that_is_not_shared_has_no_cards(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines.new() as machine:
        _prepare(machine)
        monkeypatch.setattr(read_file_systems, "is_shared", lambda _folder: False)
        with pytest.raises(PlanRefused, match="sees no card of 'web1'"):
            machine.call(_stage("act"))
        _is_as_before(machine)


def test_existing_file_of_new_name_is_never_replaced(machines: Machines) -> None:
    with machines.new() as machine:
        _prepare(machine)
        (machine.pool / "web1_data.r1.raw").write_bytes(b"something else")
        refused = _vm(machine.call(_stage("act")))
        assert "web1_data.r1.raw exists" in refused["msg"]
        assert (machine.pool / "web1_data.r1.raw").read_bytes() == b"something else"
        assert _cards(machine) == ["web1@hv3.fleet.xml"]


def test_disk_that_backs_another_image_is_not_renamed(machines: Machines) -> None:
    with machines.new() as machine:
        _prepare(machine)
        path = machine.pool / "web1_data.raw"
        other = Card(
            CardName("db1", ("hv2",)),
            _UUID.replace("6f", "7f"),
            _DOMAIN.replace("web1", "db1").format(
                uuid=_UUID.replace("6f", "7f"),
                metadata="",
                disks=_DISK.format(path=path, target="sda", more=""),
            ),
            running=False,
        )
        effects_cards.write(str(machine.pool), other)
        refused = _vm(machine.call(_stage("act")))
        assert "is a disk of 'db1' too" in refused["msg"]
        assert _disks(machine) == _OLD
