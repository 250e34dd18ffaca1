# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taking VMs over, killed or failing at each of its effects, on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import shlex
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_definitions as domains,
)
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
    effects_keep,
    read_cards,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import (
    Card,
    CardFile,
    CardName,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_lease as lease
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing import read_silence
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import (
    effects as restart,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import (
    read,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart.options import (
    RestartOptions,
    RestartWork,
    SeenCard,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import read_file_systems
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    read_file_users as file_users,
)
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines
from ansible_collections.fleet.virt.tests.unit.storage.test_file_references import qcow2

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


def test_sign_that_a_person_says_is_another_s_is_ignored_once_more(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who takes a VM over looks once more, after the devices have said that the other is off."""
    monkeypatch.setattr(restart, "sign_of_life", read_silence.sign_of_life)
    monkeypatch.setitem(_OPTIONS, "addresses", ["127.0.0.1"])  # type: ignore[misc]
    for stage, hosts in (("act", ("hv3", "hv1")), ("finish", ("hv1",))):
        with machines.new() as machine:
            _prepare(machine)
            ours = RestartWork(stage="act", ignored=["127.0.0.1"])
            if stage == "finish":
                machine.call(lambda one: restart.run(one, _OPTIONS, ours, check=False))  # noqa: B023
            refused = (RestartWork(stage=stage), RestartWork(stage=stage, ignored=["127.0.0.2"]))
            for work in refused:
                with pytest.raises(PlanRefused, match=r"on port 22.*-e virt_signs_ignored=hv3"):
                    machine.call(lambda one: restart.run(one, _OPTIONS, work, check=False))  # noqa: B023
            work = RestartWork(stage=stage, ignored=["127.0.0.1"])
            assert not _vm(
                machine.call(lambda one: restart.run(one, _OPTIONS, work, check=False))  # noqa: B023
            )["failed"]
            assert _cards(machine) == [CardName("web1", hosts).file]


def _is_stranger(machine: Machine, what: str) -> None:
    """Assert that the VM stays, as ``what`` says, in check mode as well, with all as it was."""
    before = _disks(machine)
    for check in (True, False):
        refused = _vm(machine.call(_stage("act", check=check)))
        assert refused["failed"], refused
        assert f"{what}, which no card decides for another hypervisor" in refused["msg"]
    assert (_disks(machine), _cards(machine)) == (before, ["web1@hv3.fleet.xml"])
    assert "web1" not in machine.domains()


def test_disk_that_is_a_link_is_not_taken_over(machines: Machines) -> None:
    """Whoever can write a card can make a link beside it, to any file of another hypervisor."""
    with machines.new() as machine:
        _prepare(machine)
        secret = machine.root / "secret"
        secret.write_text("a key")
        disk = machine.pool / "web1_data.raw"
        disk.unlink()
        disk.symlink_to(secret)
        _is_stranger(machine, f"{disk} is no regular file")
        look = machine.call(lambda connection: read.look(connection, _OPTIONS))
        assert look is not None
        (entry,) = look["cards"] or ()
        assert any("is no regular file" in problem for problem in entry["problems"])


@pytest.mark.parametrize(
    ("folder", "stays"), [("", ""), ("base", ""), ("other", "is based on"), ("link", "")]
)
def test_image_that_names_file_of_hypervisor_is_not_taken_over(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, folder: str, stays: str
) -> None:
    """libvirt gives QEMU what the header of an image names, too."""
    with machines.new() as machine:
        place = machine.root / folder if folder not in ("", "link") else machine.pool
        place.mkdir(exist_ok=True)
        monkeypatch.setitem(_OPTIONS, "base_path", str(machine.root / "base"))  # type: ignore[misc]
        lower = place / "lower.qcow2"
        lower.write_bytes(b"QFI\xfb" + bytes(100))
        if folder == "link":
            lower.rename(machine.root / "secret")
            lower.symlink_to(machine.root / "secret")
        _prepare(machine)
        at = machine.pool / _AT.file
        at.write_text(at.read_text().replace('type="raw"', 'type="qcow2"'))
        (machine.pool / "web1_data.raw").write_bytes(qcow2(str(lower).encode()))
        machine._refresh()
        if folder == "link":
            _is_stranger(machine, f"{lower} is no regular file")
        elif stays:
            _is_stranger(machine, f"{machine.pool}/web1_data.raw {stays} {lower}")
        else:
            done = _vm(machine.call(_stage("act")))
            assert not done["failed"], done


def test_card_that_changes_after_it_was_judged_is_not_defined(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is judged once more where it is defined; then all is undone."""
    with machines.new() as machine:
        _prepare(machine)
        current = effects_cards.write

        def write(folder: str, card: Card) -> None:
            if card.at.hosts == ("hv3", "hv1"):
                hostile = "<os><acpi><table type='slic'>/root/key</table></acpi>"
                text = card.definition.replace("<os>", hostile)
                card = dataclasses.replace(card, definition=text)
            current(folder, card)

        monkeypatch.setattr(effects_cards, "write", write)
        refused = _vm(machine.call(_stage("act")))
        assert "it names '/root/key' (table), which no card decides" in refused["msg"]
        assert "web1" not in machine.domains()
        assert (_disks(machine), _cards(machine)) == (_OLD, ["web1@hv3.fleet.xml"])


def test_remedy_for_reinstalled_hypervisor_takes_vm_over(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was said of its card is typed: no disk has its old name then, should the machine from
    before come back, and a run that does not name that one changes nothing."""
    with machines.new() as machine:
        monkeypatch.setattr(caller._state, "host", "hv3")
        monkeypatch.setattr(read_file_systems, "has_shared", lambda: True)
        _prepare(machine)

        def lacking() -> t.Any:
            return machine.call(lambda connection: effects_keep.lacking(connection, ["web1"]))

        (found,) = lacking()
        refused = _vm(machine.call(_stage("act")))
        assert refused["msg"] == found["problem"]
        _is_as_before(machine)
        (typed,) = re.findall(r"ansible hv3 -b -a '(mv [^']*)'", refused["msg"])
        subprocess.run(shlex.split(typed), check=True)
        assert _cards(machine) == ["web1@hv3-old.fleet.xml"]
        assert lacking() == []
        assert "-e virt_host=hv3-old -e virt_fenced=hv3-old" in refused["msg"]
        monkeypatch.setitem(_OPTIONS, "host", ["hv3-old"])  # type: ignore[misc]
        look = machine.call(lambda connection: read.look(connection, _OPTIONS))
        assert look is not None
        (entry,) = look["cards"] or ()
        assert (entry["problems"], entry["hosts"]) == ([], ["hv3-old"])
        assert not _vm(machine.call(_stage("act")))["failed"]
        assert not _vm(machine.call(_stage("finish")))["failed"]
        assert (_cards(machine), _disks(machine)) == (["web1@hv3.fleet.xml"], _NEW)
        assert "web1" in machine.domains()


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


def _define_here(machine: Machine, kind: str) -> t.Any:
    """What hv1 has with the VM's UUID, and that is no leftover."""
    old = machine.pool / "web1_system.r0.raw"
    if kind == "disk":
        old.write_bytes(b"newer")
    if kind == "same disk":
        old = machine.pool / "web1_system.raw"
    phase = "migrating" if kind in ("migrating", "migrating with disk") else None
    if kind == "migrating with disk":
        old = machine.pool / "web1_data.raw"
    ours = _lxml.tostring(metadata.to_element(Metadata(phase=phase))) if phase else ""
    text = _DOMAIN.format(
        uuid=_UUID, metadata=ours, disks=_DISK.format(path=old, target="sda", more="")
    )
    if kind == "local":
        text = text.replace("/pool/", "/base/")
    if kind == "name":
        text = text.replace("<name>web1<", "<name>older<")
    dom = machine.connection.conn.defineXML(text)
    if kind in ("runs", "saved"):
        dom.create()
    if kind == "saved":
        dom.managedSave(0)
    if kind == "snapshot":
        dom.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>", 0)
    return dom


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("disk", "its disks are there: {pool}/web1_system.r0.raw"),
        ("same disk", "its disks are there: {pool}/web1_system.raw"),
        ("migrating", "it is in phase migrating, and was not restarted since"),
        ("migrating with disk", "its disks are there: {pool}/web1_data.raw"),
        ("local", "its disks are not all on shared storage"),
        ("snapshot", "it has snapshots"),
        ("saved", "memory is saved (virsh managedsave-remove web1 discards that)"),
        ("runs", "no leftover of it: it runs"),
        ("name", "it is called 'older' there"),
    ],
)
def test_definition_that_is_no_leftover_is_neither_replaced_nor_overlooked(
    machines: Machines, kind: str, why: str
) -> None:
    with machines.new() as machine:
        _prepare(machine)
        dom = _define_here(machine, kind)
        before = dom.XMLDesc(2)
        (entry,) = _look(machine)["cards"]
        assert entry["defined"], "the controller must not overlook it"
        assert why.format(pool=machine.pool) in entry["problems"][0]
        for check in (True, False) if kind != "saved" else ():  # the driver cannot read that
            refused = _vm(machine.call(_stage("act", check=check)))
            assert why.format(pool=machine.pool) in refused["msg"], refused
        assert dom.XMLDesc(2) == before
        assert _disks(machine).items() >= _OLD.items()
        assert _cards(machine) == ["web1@hv3.fleet.xml"]


@pytest.mark.parametrize("kind", ["disk", "snapshot"])
def test_definition_made_while_vm_is_taken_over_is_not_replaced(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with machines.new() as machine:
        _prepare(machine)
        write = effects_cards.write

        def meanwhile(folder: str, card: Card) -> None:
            if card.counter and not list(machine.connection.conn.listAllDomains(0)[1:]):
                _define_here(machine, kind)
            write(folder, card)

        monkeypatch.setattr(effects_cards, "write", meanwhile)
        refused = _vm(machine.call(_stage("act")))
        assert "hv1 has 'web1' itself" in refused["msg"], refused
        assert "r0.raw" in machine.connection.conn.lookupByName("web1").XMLDesc(2)
        assert _disks(machine).items() >= _OLD.items()
        assert _cards(machine) == ["web1@hv3.fleet.xml"]


def test_vm_that_is_given_back_leaves_no_definition(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another hypervisor gives its disks the names that such a definition has."""
    with machines.new() as machine:
        _prepare(machine)

        def fails(_job: object) -> t.NoReturn:
            raise PlanRefused("autostart failed")

        monkeypatch.setattr(restart, "_domain", fails)
        refused = _vm(machine.call(_stage("act")))
        assert refused["msg"] == "autostart failed"
        _is_as_before(machine)


def test_definition_whose_answer_was_lost_fits_no_disk(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The takeover is undone, and hv2 takes the VM over: the definition on hv1 stays without
    disks."""
    with machines.new() as machine, monkeypatch.context() as lost:
        _prepare(machine)
        define = domains.define

        def without_answer(*given: t.Any) -> t.NoReturn:
            define(*given)
            raise PlanRefused("no answer")

        lost.setattr(domains, "define", without_answer)
        assert _vm(machine.call(_stage("act")))["msg"] == "no answer"
        assert (_disks(machine), _cards(machine)) == (_OLD, ["web1@hv3.fleet.xml"])
        left = machine.connection.conn.lookupByName("web1").XMLDesc(2)
        lost.setattr(domains, "define", define)
        lost.setattr(caller._state, "host", "hv2")
        assert not _vm(machine.call(_stage("act")))["failed"]
        assert not [name for name in _disks(machine) if name in left]


def test_vm_that_runs_by_now_is_not_given_back(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines.new() as machine:
        _prepare(machine)

        def fails(job: t.Any) -> t.NoReturn:
            job.connection.conn.lookupByName("web1").create()
            raise PlanRefused("autostart failed")

        monkeypatch.setattr(restart, "_domain", fails)
        refused = _vm(machine.call(_stage("act")))
        assert "moreover, could not roll back" in refused["msg"], refused
        assert (_disks(machine), _cards(machine)) == (_NEW, ["web1@hv3+hv1.fleet.xml"])
        assert machine.connection.conn.lookupByName("web1").isPersistent()


def _look(machine: Machine, **given: t.Any) -> t.Any:
    options = t.cast("RestartOptions", {**_OPTIONS, **given})
    return machine.call(lambda connection: read.look(connection, options))


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("nfs", "rw,vers=3,nolock,local_lock=all", ["version 3", "local_lock=all"]),
        ("nfs4", "rw,vers=4.2,hard", []),
        ("ext4", "rw", []),
    ],
)
def test_mount_without_locks_is_named(
    machines: Machines,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    options: str,
    expected: list[str],
) -> None:
    real = read_file_systems.mount_of
    with machines.new() as machine:
        _prepare(machine)
        line = f"60 1 0:40 / {machine.pool} rw - {kind} nas1:/vms {options}\n".encode()
        monkeypatch.setattr(
            read_file_systems, "mount_of", lambda there, path: real(there + line, path)
        )
        (entry,) = _look(machine)["cards"]
        assert len(entry["lockless"]) == len(expected)
        for said, words in zip(entry["lockless"], expected):
            assert said.startswith(f"{machine.pool} is mounted with {words}")


def _second_pool(machine: Machine, name: str = "pool2") -> Path:
    folder = machine.root / name
    folder.mkdir(exist_ok=True)
    xml = f"<pool type='dir'><name>{name}</name><target><path>{folder}</path></target></pool>"
    machine.connection.conn.storagePoolDefineXML(xml, 0).create(0)
    return folder


def _stale(machine: Machine, folder: Path, at: CardName = _AT) -> Path:
    """A second card of the VM, as a move of its disks to another pool leaves it that is killed."""
    file = read_cards.load(str(machine.pool), _AT)
    assert file.card is not None
    text = file.card.definition.replace(f"{machine.pool}/", f"{folder}/")
    text = text.replace("<name>web1<", f"<name>{at.name}<")
    for name in _OLD:
        (folder / name).write_bytes(b"stale")
    effects_cards.write(
        str(folder), dataclasses.replace(file.card, at=at, definition=text, snapshots=())
    )
    return folder / at.file


@pytest.mark.parametrize("names", [["web1"], []])
@pytest.mark.parametrize(
    "at", [_AT, CardName("web1", ("hv3", "hv2")), CardName("web0", ("hv3",))], ids=str
)
def test_vm_with_two_cards_stays_and_both_are_named(
    machines: Machines, at: CardName, names: list[str]
) -> None:
    with machines.new() as machine:
        _prepare(machine)
        stale = _stale(machine, _second_pool(machine), at)
        seen = _look(machine, names=names)
        assert sorted(entry["path"] for entry in seen["cards"]) == sorted(
            [str(machine.pool / _AT.file), str(stale)]
        )
        for entry in seen["cards"]:
            if entry["hosts"] != ["hv3"]:  # the other end may have it; the controller sees both
                continue
            assert {str(stale), str(machine.pool / _AT.file)} == {
                word.rstrip(";,")
                for problem in entry["problems"]
                if "two cards" in problem
                for word in problem.split()
                if word.startswith("/")
            }, entry
        refused = _vm(machine.call(_stage("act")))
        assert "two cards of its name or its UUID" in refused["msg"]
        assert str(stale) in refused["msg"]
        assert str(machine.pool / _AT.file) in refused["msg"]
        assert _disks(machine) == _OLD
        assert _cards(machine) == ["web1@hv3.fleet.xml"]


def test_second_card_that_cannot_be_read_counts(machines: Machines) -> None:
    with machines.new() as machine:
        _prepare(machine)
        stale = _stale(machine, _second_pool(machine))
        stale.write_text("<card")
        refused = _vm(machine.call(_stage("act")))
        assert "two cards of its name" in refused["msg"]
        assert str(stale) in refused["msg"]


def test_card_in_folder_of_two_pools_is_counted_once(machines: Machines) -> None:
    with machines.new() as machine:
        _prepare(machine)
        (machine.root / "pool3").symlink_to(machine.pool)
        _second_pool(machine, "pool3")
        assert len(_look(machine)["cards"]) == 1
        assert not _vm(machine.call(_stage("act")))["failed"]


def _seen(machine: Machine, path: Path | None = None) -> SeenCard:
    (entry,) = _look(machine)["cards"]
    return SeenCard("web1", str(path or entry["path"]), entry["identity"], entry["uuid"])


def _act_on(machine: Machine, seen: SeenCard, stage: str = "act") -> dict[str, t.Any]:
    work = RestartWork(stage=stage, seen=[seen])
    return _vm(machine.call(lambda there: restart.run(there, _OPTIONS, work, check=False)))


def test_act_takes_the_file_that_was_looked_at(machines: Machines) -> None:
    with machines.new() as machine:
        _prepare(machine)
        seen = _seen(machine)
        assert not _act_on(machine, seen)["failed"]
        assert not _act_on(machine, seen, "finish")["failed"]
        _is_complete(machine, _NEW)


@pytest.mark.parametrize("kind", ["replaced", "elsewhere", "other VM"])
def test_act_takes_no_other_file_than_was_looked_at(machines: Machines, kind: str) -> None:
    with machines.new() as machine:
        _prepare(machine)
        seen = _seen(machine)
        if kind == "replaced":
            card = read_cards.require(str(machine.pool), _AT)
            (machine.root / "kept").hardlink_to(machine.pool / _AT.file)  # its inode is not reused
            effects_cards.write(str(machine.pool), card)
        elif kind == "elsewhere":
            folder = _second_pool(machine)
            _stale(machine, folder)
            (machine.pool / _AT.file).rename(machine.root / "gone")
        else:
            seen = dataclasses.replace(seen, uuid=_UUID.replace("6f", "7f"))
        refused = _act_on(machine, seen)
        assert f"{seen.path} is no longer the file that was looked at" in refused["msg"]
        assert _disks(machine) == _OLD


def _fleet_of(machine: Machine, count: int) -> None:
    """Cards of other hypervisors and of a cell, beside that of hv3."""
    for number in range(count):
        uuid, name = f"{number:08}{_UUID[8:]}", f"other{number}"
        disk = _DISK.format(path=machine.pool / f"{name}.raw", target="sda", more="")
        text = _DOMAIN.replace("web1", name).format(uuid=uuid, metadata="", disks=disk)
        at = CardName(name, (f"hv{4 + number % 3}",) if number % 4 else ())
        effects_cards.write(str(machine.pool), Card(at, uuid, text, running=False))


@pytest.mark.parametrize("names", [[], ["web1"]])
def test_look_opens_only_cards_of_hypervisor_that_is_off(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """All others look as well; who takes VMs over opens the rest, once."""
    opened: list[str] = []
    load = read_cards.load

    def counting(folder: str, at: CardName) -> CardFile:
        opened.append(at.file)
        return load(folder, at)

    with machines.new() as machine:
        _prepare(machine)
        _fleet_of(machine, 20)
        monkeypatch.setattr(read_cards, "load", counting)
        seen = _look(machine, names=names)
        assert opened == ["web1@hv3.fleet.xml"]
        assert len(seen["in_cells"]) == (0 if names else 5)
        opened.clear()
        assert not _vm(machine.call(_stage("act", check=True)))["failed"]
        assert len(opened) == len(set(opened)) == 21


def test_vm_without_card_keeps_no_other_from_being_taken_over(machines: Machines) -> None:
    with machines.new() as machine:
        _prepare(machine)
        options = t.cast("RestartOptions", {**_OPTIONS, "names": ["web0", "web1"]})
        work = RestartWork(stage="act")
        answer = machine.call(lambda there: restart.run(there, options, work, check=False))
        assert answer is not None
        assert [vm["failed"] for vm in answer["vms"]] == [True, False]  # type: ignore[attr-defined]


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
        assert "sees no card of 'web1'" in _vm(machine.call(_stage("act")))["msg"]
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


def _data_file(machine: Machine, data: Path, name: str = "web1_system.raw") -> None:
    """Make a disk of the VM a qcow2 whose data are in the file ``data``."""
    path = machine.pool / name
    path.unlink()
    words = ["qemu-img", "create", "-f", "qcow2", "-o", f"data_file={data}", str(path), "1M"]
    subprocess.run(words, check=True, capture_output=True)
    file = read_cards.load(str(machine.pool), _AT)
    assert file.card is not None
    root = _lxml.parse(file.card.definition, "domain web1")
    for disk in root.iterfind("devices/disk"):
        if disk.find("source").get("file") == str(path):
            disk.find("driver").set("type", "qcow2")
    card = dataclasses.replace(file.card, definition=_lxml.tostring(root))
    effects_cards.write(str(machine.pool), card)
    machine.connection.uri = "qemu:///system"  # its files are this machine's, as the test's are


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
@pytest.mark.parametrize("where", ["elsewhere", "gone", "another's", "beside"])
def test_vm_whose_data_are_in_another_file_is_taken_with_them_or_stays(
    machines: Machines, where: str
) -> None:
    with machines.new() as machine:
        _prepare(machine)
        folder = machine.root / "local" if where == "elsewhere" else machine.pool
        folder.mkdir(exist_ok=True)
        data = folder / "web1.data"
        _data_file(machine, data)
        if where == "gone":
            data.unlink()
        if where == "another's":
            disk = _DISK.format(path=data, target="sda", more="")
            text = _DOMAIN.format(uuid=_UUID.replace("6f3a", "7f3a"), metadata="", disks=disk)
            machine.connection.conn.defineXML(text.replace("web1<", "web2<"))
        (entry,) = _look(machine)["cards"]
        checked = _vm(machine.call(_stage("act", check=True)))
        came = _vm(machine.call(_stage("act")))
        if where == "beside":
            assert (entry["problems"], came["failed"], data.exists()) == ([], False, True)
            return
        expected = {
            "elsewhere": "is not on storage that this hypervisor shares",
            "gone": "does not exist; put it back",
            "another's": "is needed by others: used by domain 'web2'",
        }[where]
        assert str(data) in came["msg"]
        assert expected in came["msg"]
        assert checked["msg"] == came["msg"]
        assert where == "another's" or any(expected in one for one in entry["problems"])
        assert _cards(machine) == ["web1@hv3.fleet.xml"]
