# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Pacemaker is told of a VM that a run works on, on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_programs as programs,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import effects_cards
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import Card, CardName
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import (
    effects_hold,
    read,
    read_requirements,
    requirements,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.facts import CellView, CellVm
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import effects
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import StateRequest
from ansible_collections.fleet.virt.tests.unit.cards.test_effects_keep import UUID, Host
from ansible_collections.fleet.virt.tests.unit.cards.test_effects_keep import host as _host

host = _host
_RUN = StateRequest(state="running")
HA = "<fleet:ha>yes</fleet:ha>"
NAME = f"fleet-{UUID}"
VIEW = CellView(
    "a", ("hv1", "hv2", "hv3"), running=True, quorate=True, online=frozenset(("hv1", "hv2", "hv3"))
)
ALONE = dataclasses.replace(VIEW, quorate=False, online=frozenset(("hv1",)))
META = f"crm_resource --resource {NAME} --meta"
HOLD = [
    f"{META} --set-parameter fleet-by --parameter-value hv1",
    f"{META} --set-parameter is-managed --parameter-value false",
]
REFRESH = f"crm_resource --refresh --resource {NAME}"
MANAGE = [f"{META} --delete-parameter {name}" for name in ("is-managed", "fleet-by")]
REMOVE = ["cibadmin --delete --scope resources --xml-pipe", REFRESH]


class Pacemaker:
    """What it says, and what it is told."""

    def __init__(self, host: Host) -> None:
        self.host, self.view = host, VIEW
        self.calls: list[str] = []
        self.texts: list[str] = []
        self.orphans = "false\n"

    def run(self, argv: t.Sequence[str], *, text: str | None = None, seconds: float) -> str:
        assert seconds
        self.calls.append(" ".join(argv))
        self.texts += [text] if text else []
        if "--create" in argv:
            self.has(nodes=("hv1",), managed=False)
        return ""

    def attempt(self, argv: t.Sequence[str], *, seconds: float) -> programs.Done:
        assert (argv[0], seconds > 0) == ("crm_attribute", True)
        return programs.Done(0 if self.orphans else 105, self.orphans, "")

    def has(self, **given: t.Any) -> None:
        vm = CellVm(UUID, str(self.host.shared), (), True, False, None, "Started", None)
        self.view = dataclasses.replace(VIEW, vms={UUID: dataclasses.replace(vm, **given)})


@pytest.fixture
def cell(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pacemaker]:
    pacemaker = Pacemaker(host)
    monkeypatch.setattr(read, "is_member", lambda: True)
    monkeypatch.setattr(read, "here", lambda: pacemaker.view)
    monkeypatch.setattr(programs, "run", pacemaker.run)
    monkeypatch.setattr(programs, "attempt", pacemaker.attempt)
    monkeypatch.setattr(effects_hold, "_SEEN", 0.1)
    monkeypatch.setattr(effects_hold, "_working", {})
    monkeypatch.setattr(effects_locks, "own_folder", lambda: host.shared)
    return pacemaker


def write_card(host: Host) -> None:
    """The card of a VM that hv3 has shut off."""
    xml = f"<domain><name>web1</name><uuid>{UUID}</uuid></domain>"
    card = Card(CardName("web1", ()), UUID, xml, False, kept_by="hv3")
    effects_cards.write(str(host.shared), card)


def _settle(cell: Pacemaker, *, held: bool = True) -> None:
    effects_hold.settle(cell.host.connection, "web1", UUID, held=held)


def test_vm_of_no_cell_is_left_to_itself(cell: Pacemaker) -> None:
    cell.host.define("web1", cell.host.disk)
    assert not effects_hold.hold(cell.host.connection, UUID)
    assert effects_hold.refusal(cell.host.connection, UUID) is None
    _settle(cell, held=False)
    assert cell.calls == []


def test_vm_is_unmanaged_and_then_managed(cell: Pacemaker) -> None:
    dom = cell.host.define("web1", cell.host.disk, metadata=HA)
    dom.create()
    cell.has(nodes=("hv1",))
    assert effects_hold.hold(cell.host.connection, UUID)
    assert cell.calls == HOLD
    cell.has(nodes=("hv1",), managed=False, by="hv1")
    cell.calls.clear()
    _settle(cell)
    assert cell.calls == [REFRESH, *MANAGE]


def test_vm_that_was_shut_off_is_wanted_so(cell: Pacemaker) -> None:
    cell.host.define("web1", cell.host.disk, metadata=HA)
    cell.has(managed=False)
    _settle(cell)
    target = f"{META} --set-parameter target-role --parameter-value Stopped"
    assert cell.calls == [target, REFRESH, *MANAGE]


def test_vm_that_is_new_to_cell_gets_resource(cell: Pacemaker) -> None:
    cell.host.define("web1", cell.host.disk, metadata=HA).create()
    _settle(cell, held=False)
    assert cell.calls == ["cibadmin --create --scope resources --xml-pipe", REFRESH, *MANAGE]
    primitive = _lxml.parse(cell.texts[0], "primitive")
    pairs = {pair.get("name"): pair.get("value") for pair in primitive.iter("nvpair")}
    assert pairs == {
        "uuid": UUID,
        "cards": str(cell.host.shared),
        "is-managed": "false",
        "fleet-by": "hv1",
        "target-role": "Started",
    }


def test_vm_that_a_run_has_not_finished_is_not_made(cell: Pacemaker) -> None:
    phase = f"{HA}<fleet:phase>creating</fleet:phase>"
    cell.host.define("web1", cell.host.disk, metadata=phase)
    _settle(cell, held=False)
    assert cell.calls == []


@pytest.mark.parametrize("how", ["not wanted any more", "being purged", "gone"])
def test_resource_is_removed(cell: Pacemaker, how: str) -> None:
    purging = f"{HA}<fleet:phase>purging</fleet:phase>"
    if how != "gone":
        metadata = purging if how == "being purged" else ""
        cell.host.define("web1", cell.host.disk, metadata=metadata or "<fleet:zone>a</fleet:zone>")
    cell.has(managed=False)
    _settle(cell)
    assert cell.calls == REMOVE


@pytest.mark.parametrize("orphans", ["true\n", ""])
def test_resource_is_not_removed_where_its_vm_would_be_stopped(
    cell: Pacemaker, orphans: str
) -> None:
    cell.orphans = orphans
    cell.has(managed=False)
    with pytest.raises(PlanRefused, match=r"with the role fleet\.virt\.ha again"):
        _settle(cell)
    assert cell.calls == []


def test_vm_that_has_moved_is_managed_where_it_is(cell: Pacemaker) -> None:
    card = Card(
        CardName("web1", ()), UUID, f"<domain><name>web1</name><uuid>{UUID}</uuid></domain>", True
    )
    effects_cards.write(str(cell.host.shared), card)
    cell.has(nodes=("hv2",), managed=False)
    _settle(cell)
    assert cell.calls == [REFRESH, *MANAGE]
    cell.calls.clear()
    effects_hold.settle(cell.host.connection, "web1", UUID, held=True, to="hv2")
    assert cell.calls == [REFRESH, *MANAGE]
    cell.calls.clear()
    with pytest.raises(PlanRefused, match="for Pacemaker it is on hv2"):
        effects_hold.settle(cell.host.connection, "web1", UUID, held=True, to="hv3")
    assert cell.calls == [REFRESH], "it stays unmanaged"


def test_vm_that_pacemaker_does_not_see_stays_unmanaged(cell: Pacemaker) -> None:
    cell.host.define("web1", cell.host.disk, metadata=HA).create()
    cell.has(nodes=("hv2",), managed=False)
    with pytest.raises(
        PlanRefused, match=r"for Pacemaker it is on hv2 .*repair_vms -e vm_name=web1"
    ):
        _settle(cell)
    assert cell.calls == [REFRESH]


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (ALONE, "hv1 sees no majority of its members .hv2, hv3 not online."),
        (CellView("a", ("hv1",)), "Pacemaker does not run on hv1"),
    ],
)
def test_member_without_quorum_does_nothing(cell: Pacemaker, view: CellView, why: str) -> None:
    cell.host.define("web1", cell.host.disk, metadata=HA)
    cell.view = view
    assert why in str(effects_hold.refusal(cell.host.connection, UUID)).replace("(", ".").replace(
        ")", "."
    )
    with pytest.raises(PlanRefused, match=why):
        effects_hold.hold(cell.host.connection, UUID)
    assert cell.calls == []


@pytest.mark.parametrize(
    ("pending", "what"), [("Starting", "is starting"), ("Stopping", "is stopping")]
)
def test_vm_that_its_cell_works_on_is_left_to_it(cell: Pacemaker, pending: str, what: str) -> None:
    """What Pacemaker has begun goes on, whatever it is told then; and how the VM is meanwhile is
    not what anybody wanted."""
    cell.host.define("web1", cell.host.disk, metadata=HA)
    cell.has(pending=pending)
    for check in (True, False):
        done = effects.run(cell.host.connection, ["web1"], _RUN, check=check)
        assert (done["failed"], done["changed"]) == (True, False)
        assert f"the cell 'a' {what} 'web1'" in str(done["msg"])
    assert cell.calls == []
    cell.has(pending=None, nodes=("hv1",))
    run = cell.run

    def begin(argv: t.Sequence[str], *, text: str | None = None, seconds: float) -> str:
        if "is-managed" in argv:
            cell.has(pending=pending)
        return run(argv, text=text, seconds=seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "run", begin)
        with pytest.raises(PlanRefused, match=what):
            effects_hold.hold(cell.host.connection, UUID)
    assert cell.calls == [*HOLD, *MANAGE]


def test_vm_that_another_run_holds_is_left_to_it(
    cell: Pacemaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cell is told nothing of it: the other run would lose its hold."""
    cell.host.define("web1", cell.host.disk, metadata=HA)
    cell.has(managed=False, by="hv1")
    monkeypatch.setattr(effects_hold, "_SECONDS", 0.1)
    with effects_hold.working(UUID):
        done = effects.run(cell.host.connection, ["web1"], _RUN, check=False)
    assert done["failed"]
    assert cell.calls == []


def test_vm_that_could_not_be_held_is_managed_as_before(cell: Pacemaker) -> None:
    cell.host.define("web1", cell.host.disk, metadata=HA)
    run = cell.run

    def fail(argv: t.Sequence[str], *, text: str | None = None, seconds: float) -> str:
        run(argv, text=text, seconds=seconds)
        if "false" in argv:
            raise PlanRefused("it timed out")
        return ""

    for managed in (True, False):
        cell.has(managed=managed)
        cell.calls.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(programs, "run", fail)
            with pytest.raises(PlanRefused, match="timed out"):
                effects_hold.hold(cell.host.connection, UUID)
        assert cell.calls == [*HOLD, *(MANAGE if managed else ())]


def test_vm_that_is_nowhere_is_started_by_cell(
    cell: Pacemaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell.has(target_role="Stopped")
    vm = cell.view.vms[UUID]
    with pytest.raises(PlanRefused, match="has no card in"):
        effects_hold.start(cell.host.connection, "web1", vm)
    write_card(cell.host)
    monkeypatch.setattr(effects_hold, "_STARTED", 0.1)
    managed = cell.view
    cell.has(target_role="Stopped", managed=False, by="hv3")
    with pytest.raises(PlanRefused, match="a run on hv3 holds it"):
        effects_hold.start(cell.host.connection, "web1", vm)
    assert cell.calls == [], "held since it was looked at"
    cell.view = managed
    with pytest.raises(PlanRefused, match="it goes on trying"):
        effects_hold.start(cell.host.connection, "web1", vm)
    assert cell.calls[0] == f"{META} --set-parameter target-role --parameter-value Started"
    started = cell.host.shared / "web1@.fleet.xml"
    assert 'state="running"' in started.read_text()
    assert "kept-by" not in started.read_text()
    cell.has(nodes=("hv2",))
    effects_hold.start(cell.host.connection, "web1", vm)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("<os><nvram>/var/lib/v.fd</nvram></os>", "it has UEFI variables"),
        ("<devices><tpm><backend type='emulator'/></tpm></devices>", "it has a TPM"),
        ("<devices><hostdev/></devices>", "it has a device of its hypervisor"),
        ("<devices><filesystem/></devices>", "it has a folder of its hypervisor"),
        ("<devices><disk><shareable/></disk></devices>", "it has a disk that is shareable"),
        ("<devices><interface><script path='x'/></interface></devices>", "it has a script"),
        ("<seclabel type='none'/>", "it has a label"),
        (
            "<commandline xmlns='http://libvirt.org/schemas/domain/qemu/1.0'/>",
            "it has arguments of QEMU's own",
        ),
    ],
)
def test_what_ties_vm_to_hypervisor_is_named(more: str, what: str) -> None:
    domain = _lxml.parse(f"<domain>{more}</domain>", "domain")
    assert [text.startswith(what) for text in requirements.of_definition(domain)] == [True]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("<os><kernel>/boot/vmlinuz</kernel></os>", ["/boot/vmlinuz"]),
        ("<os><kernel>boot/vmlinuz</kernel></os>", ["boot/vmlinuz"]),
        ("<os><kernel>/srv/shared/vmlinuz</kernel></os>", []),
        ("<devices><emulator>/usr/bin/qemu-system-x86_64</emulator></devices>", []),
        ("<devices><emulator>/usr/../opt/qemu</emulator></devices>", ["/usr/../opt/qemu"]),
        ("<devices><emulator>/srv/shared/qemu</emulator></devices>", ["/srv/shared/qemu"]),
        (
            "<devices><serial><log file='/var/log/libvirt/qemu/a-console.log'/></serial></devices>",
            [],
        ),
        ("<devices><serial><log file='/var/log/x'/></serial></devices>", ["/var/log/x"]),
        ("<metadata><x>/etc</x></metadata><description>/etc</description>", []),
        ("<devices><disk device='cdrom'><source file='/mnt/a.iso'/></disk></devices>", []),
    ],
)
def test_files_that_agent_refuses_are_named(more: str, named: list[str]) -> None:
    domain = _lxml.parse(f"<domain><name>a</name>{more}</domain>", "domain")
    problems = requirements.of_paths(domain, {"/srv/shared"})
    assert [problem.split("it names ")[1].split(",")[0] for problem in problems] == named


def test_vm_with_local_disk_base_or_snapshots_is_refused(
    cell: Pacemaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def problem(disk: Path, **given: t.Any) -> str | None:
        xml = (
            f"<domain><devices><disk type='file'><source file='{disk}'/></disk></devices></domain>"
        )
        return read_requirements.problem(cell.host.connection, "web1", xml, **given)

    assert problem(cell.host.disk) is None
    assert "is on no storage that is shared" in str(problem(cell.host.local / "disk.qcow2"))
    base = tmp_path / "base.qcow2"
    assert f"{base} is on no storage that is shared" in str(
        problem(cell.host.disk, bases=[str(base)])
    )
    assert "it has 2 snapshots" in str(problem(cell.host.disk, snapshots=2))
    assert "it starts with its hypervisor" in str(problem(cell.host.disk, autostart=True))
    monkeypatch.setattr(read, "here", lambda: None)
    assert "hv1 is in no cell; the role fleet.virt.ha makes one" in str(problem(cell.host.disk))
    monkeypatch.setattr(read, "here", lambda: ALONE)
    assert "hv1 sees no majority" in str(problem(cell.host.disk))


def test_vm_whose_move_is_open_is_managed_only_where_it_executes(
    cell: Pacemaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    phase = "<fleet:phase>migrating</fleet:phase>"
    dom = cell.host.define("web1", cell.host.disk, metadata=HA + phase)
    cell.has(managed=False, by="hv1")
    jobs = [1, 0]
    monkeypatch.setattr(type(dom), "jobInfo", lambda _dom: [jobs.pop(0)], raising=False)

    def stays_open() -> None:
        with pytest.raises(PlanRefused, match="its move is not finished, so another"):
            _settle(cell)
        assert cell.calls == []

    stays_open()
    dom.create()
    dom.suspend()
    stays_open()
    dom.resume()
    cell.has(nodes=("hv1",), managed=False, by="hv1")
    stays_open()  # libvirt still moves it
    _settle(cell)
    assert cell.calls == [REFRESH, *MANAGE]


def test_resource_stays_where_the_folder_of_its_card_is_not_mounted(cell: Pacemaker) -> None:
    cell.has(managed=False, cards="/srv/unmounted")
    with pytest.raises(PlanRefused, match="which has its card, is not mounted on hv1"):
        _settle(cell)
    assert cell.calls == []


@pytest.fixture
def old(cell: Pacemaker, tmp_path: Path) -> Iterator[Path]:
    """The folder of another pool that is shared."""
    folder = tmp_path / "shared-before"
    folder.mkdir()
    xml = f"<pool type='dir'><name>before</name><target><path>{folder}</path></target></pool>"
    pool = cell.host.connection.conn.storagePoolDefineXML(xml, 0)
    pool.create(0)
    yield folder
    pool.destroy()
    pool.undefine()


def test_card_in_another_folder_is_followed_and_its_resource_stays(
    cell: Pacemaker, old: Path
) -> None:
    """A run that moved the VM's disks was killed, and its hypervisor has failed since."""
    write_card(cell.host)
    cell.has(managed=False, cards=str(old))
    _settle(cell)
    follow = f"crm_resource --resource {NAME} --set-parameter cards -v {cell.host.shared}"
    assert cell.calls == [follow, REFRESH, *MANAGE]
    (cell.host.shared / "web1@.fleet.xml").unlink()
    cell.calls.clear()
    _settle(cell)
    assert cell.calls == REMOVE, "without a card there is no VM any more"
