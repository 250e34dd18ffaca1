# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resource agent on libvirt's test driver, whose domains live as long as a connection."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
import types
import typing as t
from pathlib import Path
from xml.etree import ElementTree

import libvirt
import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import effects_cards
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import Card, CardName
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import requirements
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import read_file_users

_AGENT = Path(__file__).parents[3] / "roles/ha/files/domain.py"
UUID = "5f0c1b8e-8a57-4f43-9a39-3a1f9cbe1c11"
_DISK = "<disk type='file' device='disk'><source file='{}'/><target dev='vda'/></disk>"
_PHASE = "<metadata><fleet:fleet xmlns:fleet='urn:fleet.virt:1'>{}</fleet:fleet></metadata>"


def _load() -> types.ModuleType:
    specification = importlib.util.spec_from_file_location("fleet_ocf_domain", _AGENT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Cell:
    """A hypervisor, and the folder that has the card of a VM."""

    def __init__(self, agent: types.ModuleType, folder: Path, connection: t.Any) -> None:
        self.agent = agent
        self.folder = folder
        self.connection = connection

    def xml(self, more: str = "", name: str = "web1", metadata: str = "") -> str:
        """A definition for the test driver."""
        disk = _DISK.format(self.folder / f"{name}.qcow2")
        return (
            f"<domain type='test'><name>{name}</name><uuid>{UUID}</uuid>{metadata}"
            f"<memory>65536</memory><os><type>hvm</type></os><devices>{disk}{more}</devices></domain>"
        )

    def write(
        self, more: str = "", name: str = "web1", metadata: str = "", kept_by: str | None = None
    ) -> Path:
        """Its card, without a host in the file's name; ``kept_by`` while it is off."""
        xml = self.xml(more, name, metadata)
        card = Card(CardName(name, ()), UUID, xml, kept_by is None, kept_by=kept_by)
        effects_cards.write(str(self.folder), card)
        return self.folder / card.at.file

    def run(self, action: str) -> int:
        """The action's exit status."""
        try:
            return int(self.agent.act(action))
        except self.agent.Ended as error:
            self.reason = str(error)
            return int(error.status)

    def domains(self) -> dict[str, bool]:
        """The domains here but the driver's own, and whether they run."""
        return {d.name(): bool(d.isActive()) for d in self.connection.listAllDomains()}


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Cell]:
    agent = _load()
    empty = tmp_path / "proc"
    empty.mkdir()
    folder = tmp_path / "pool"
    folder.mkdir()
    pool = f"<pool type='dir'><name>shared</name><target><path>{folder}</path></target></pool>"
    (tmp_path / "node.xml").write_text(f"<node>{pool}</node>", encoding="utf-8")
    uri = f"test://{tmp_path}/node.xml"
    connection = libvirt.open(uri)
    # Each connection to the test driver but that of test:///default has domains of its own
    monkeypatch.setattr(agent.libvirt, "open", lambda _uri: connection)
    monkeypatch.setattr(agent, "PROC", str(empty))
    monkeypatch.setenv("HA_RSCTMP", str(tmp_path / "run"))
    monkeypatch.setenv("OCF_RESKEY_uuid", UUID)
    monkeypatch.setenv("OCF_RESKEY_cards", str(folder))
    monkeypatch.setenv("OCF_RESKEY_CRM_meta_timeout", "60000")
    monkeypatch.setattr(agent.time, "sleep", lambda _seconds: time.monotonic())
    yield Cell(agent, folder, connection)
    connection.close()


def _qemu(cell: Cell, uuid: str = UUID, pid: int | None = None) -> Path:
    place = Path(cell.agent.PROC, str(pid or os.getpid()))
    place.mkdir()
    words = ["/usr/bin/qemu-system-x86_64", "-name", "guest=web1", "-uuid", uuid]
    (place / "cmdline").write_bytes("\0".join([*words, ""]).encode())
    return place


def test_agent_refuses_what_is_refused_before() -> None:
    """It is a file of its own on hypervisors, so what both know stands in both."""
    agent = _load()
    assert (agent.SYSTEM, agent.LOG, agent.NO_PATH) == (
        requirements._SYSTEM,
        requirements._LOG,
        requirements.NO_PATH,
    )
    assert agent.QEMU.strip("{}") == requirements._QEMU
    assert (agent.LOCK_FIRST, agent.LOCK_BYTES, agent.FLOCK.format) == (
        read_file_users.LOCK_FIRST,
        read_file_users.LOCK_BYTES,
        read_file_users._FLOCK.format,
    )


def test_vm_is_started_from_card_and_stopped(cell: Cell) -> None:
    cell.write(metadata=_PHASE.format("<fleet:group>a</fleet:group>"))
    agent = cell.agent
    assert cell.run("monitor") == agent.NOT_RUNNING
    assert cell.run("start") == agent.SUCCESS
    assert cell.domains() == {"web1": True}
    domain = cell.connection.lookupByName("web1")
    assert domain.isPersistent()
    assert "<fleet:fleet xmlns:fleet=" in domain.XMLDesc(0), "its metadata keep their prefix"
    assert cell.run("start") == agent.SUCCESS
    assert cell.run("monitor") == agent.SUCCESS
    assert cell.run("stop") == agent.SUCCESS
    assert cell.domains() == {}
    assert cell.run("stop") == agent.SUCCESS
    assert cell.run("monitor") == agent.NOT_RUNNING


def test_vm_without_card_is_not_installed_here(cell: Cell) -> None:
    assert cell.run("start") == cell.agent.ERR_INSTALLED
    assert f"is of the VM {UUID}" in cell.reason
    (cell.folder / "web1@.fleet.xml").write_text("<card", encoding="utf-8")
    assert cell.run("start") == cell.agent.ERR_INSTALLED
    assert "web1@.fleet.xml: " in cell.reason
    cell.folder.rename(cell.folder.with_name("unmounted"))
    assert cell.run("start") == cell.agent.ERR_INSTALLED
    assert "not mounted" in cell.reason
    assert cell.domains() == {}


def test_vm_with_two_cards_is_started_nowhere(cell: Cell) -> None:
    cell.write()
    cell.write(name="web2")
    assert cell.run("start") == cell.agent.ERR_CONFIGURED
    assert "web1@.fleet.xml and " in cell.reason
    assert cell.domains() == {}


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("<hostdev mode='subsystem' type='usb'/>", "hostdev"),
        ("<filesystem type='mount'/>", "filesystem"),
        ("<tpm><backend type='emulator'/></tpm>", "tpm"),
        ("<emulator>/srv/shared/qemu</emulator>", "/srv/shared/qemu"),
        ("<emulator>/usr/../srv/shared/qemu</emulator>", "/usr/../srv/shared/qemu"),
        ("<serial type='file'><source path='/etc/cron.d/x'/></serial>", "/etc/cron.d/x"),
        ("<serial type='pty'><log file='/etc/cron.d/x'/></serial>", "/etc/cron.d/x"),
        ("<interface type='ethernet'><script path='x'/></interface>", "script"),
        ("</devices><seclabel type='none'/><devices>", "seclabel"),
        (
            "</devices><seclabel type='dynamic' model='dac'><baselabel>+0:+0</baselabel></seclabel>"
            "<devices>",
            "seclabel",
        ),
        ("</devices><os><kernel>/etc/shadow</kernel></os><devices>", "/etc/shadow"),
        ("</devices><os><kernel>etc/shadow</kernel></os><devices>", "etc/shadow"),
        ("<rng><backend model='random'>/dev/sda</backend></rng>", "/dev/sda"),
        (
            "</devices><override xmlns='http://libvirt.org/schemas/domain/qemu/1.0'/><devices>",
            "override",
        ),
        (_DISK.format("/etc/shadow").replace("vda", "vdb"), "/etc/shadow"),
        (
            _DISK.format("x").replace("<source", "<mirror file='/etc/shadow'/><source"),
            "/etc/shadow",
        ),
        ("<disk type='block'><source dev='/dev/sda'/><target dev='vdb'/></disk>", "no file"),
    ],
)
def test_card_that_reaches_past_its_disks_is_refused(cell: Cell, more: str, what: str) -> None:
    cell.write(more)
    assert cell.run("start") == cell.agent.ERR_CONFIGURED
    assert what in cell.reason
    assert cell.domains() == {}


def test_program_on_shared_storage_is_refused(cell: Cell) -> None:
    """Whoever can write the card can put it there."""
    cell.write(f"<emulator>{cell.folder}/qemu</emulator>")
    assert cell.run("start") == cell.agent.ERR_CONFIGURED
    assert f"{cell.folder}/qemu" in cell.reason
    assert cell.domains() == {}


def test_disk_that_is_link_is_refused(cell: Cell) -> None:
    cell.write()
    (cell.folder / "web1.qcow2").symlink_to("/etc/shadow")
    assert cell.run("start") == cell.agent.ERR_CONFIGURED
    assert "web1.qcow2, which is a link" in cell.reason


def test_definition_of_usual_vm_is_accepted(cell: Cell) -> None:
    """What libvirt itself and this collection write beside disks."""
    more = (
        "<emulator>/usr/bin/qemu-system-x86_64</emulator>"
        "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>"
        "<serial type='pty'><log file='/var/log/libvirt/qemu/web1-console.log'/></serial>"
        "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"
    )
    metadata = _PHASE.format("<fleet:volume path='/var/lib/elsewhere'/>")
    label = "<seclabel type='dynamic' model='apparmor' relabel='yes'/>"
    sysinfo = f"{label}<sysinfo type='fwcfg'><entry name='opt/a/b'>c/d</entry></sysinfo>"
    cell.write(more, metadata=f"{metadata}<description>/etc/shadow</description>{sysinfo}")
    assert cell.run("start") == cell.agent.SUCCESS, cell.reason


@pytest.mark.parametrize("encoding", ["utf-16", "cp037"])
def test_card_in_other_encoding_is_none(cell: Cell, encoding: str) -> None:
    """A document type in it would not be seen."""
    path = cell.write()
    text = path.read_text(encoding="utf-8").replace("utf-8", encoding).replace("UTF-8", encoding)
    path.write_bytes(f"<!DOCTYPE card>{text[text.index('<card') :]}".encode(encoding))
    assert cell.run("start") == cell.agent.ERR_INSTALLED
    assert "is of the VM" in cell.reason


def test_medium_outside_of_pools_is_left_out(cell: Cell) -> None:
    medium = _DISK.format("/etc/shadow").replace("'disk'>", "'cdrom'>").replace("vda", "sda")
    below = "<backingStore type='file'><source file='/etc/shadow'/></backingStore><target"
    cell.write(medium.replace("<target", below))
    assert cell.run("start") == cell.agent.SUCCESS
    assert "/etc/shadow" not in cell.connection.lookupByName("web1").XMLDesc(0)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ('internal error: process exited: Failed to get "write" lock', "ERR_GENERIC"),
        ("resource busy: Lockspace resource is locked", "ERR_GENERIC"),
        ("Cannot get interface MTU on 'br5': No such device", "ERR_INSTALLED"),
        ("cannot set up guest memory 'pc.ram': Cannot allocate memory", "ERR_INSTALLED"),
    ],
)
def test_disk_that_is_locked_is_tried_again(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, error: str, status: str
) -> None:
    cell.write()

    def fail(_domain: object) -> None:
        raise libvirt.libvirtError(error)

    monkeypatch.setattr(libvirt.virDomain, "create", fail)
    assert cell.run("start") == getattr(cell.agent, status)
    assert error in cell.reason


def _hold(path: Path) -> subprocess.Popen[bytes]:
    """A process that has the lock of the disk, as QEMU takes it, until its input ends."""
    script = (
        "import fcntl, os, struct, sys\n"
        f"file = os.open({str(path)!r}, os.O_RDWR)\n"
        "lock = struct.pack('hhqqi4x', fcntl.F_RDLCK, os.SEEK_SET, 201, 1, 0)\n"
        "fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipe = subprocess.PIPE
    held = subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe)
    assert held.stdout is not None
    held.stdout.readline()
    return held


def test_lock_is_waited_for_before_start(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    cell.write()
    disk = cell.folder / "web1.qcow2"
    disk.write_bytes(bytes(512))
    with _hold(disk) as holder:
        monkeypatch.setattr(cell.agent, "UNLOCKED", 0.1)
        assert cell.run("start") == cell.agent.ERR_GENERIC
        assert f"another process has the lock of {disk}" in cell.reason
        assert cell.domains() == {"web1": False}
        monkeypatch.setattr(cell.agent, "UNLOCKED", 20)
        waited: list[float] = []

        def release(seconds: float) -> None:
            waited.append(seconds)
            holder.communicate()

        monkeypatch.setattr(cell.agent.time, "sleep", release)
        assert cell.run("start") == cell.agent.SUCCESS
        assert len(waited) == 1


def test_failure_without_reason_is_judged_by_lock(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt may see QEMU's end before what it wrote."""
    cell.write()
    disk = cell.folder / "web1.qcow2"
    disk.write_bytes(bytes(512))
    holders: list[subprocess.Popen[bytes]] = []

    def fail(_domain: object) -> None:
        holders.append(_hold(disk))
        raise libvirt.libvirtError("internal error: QEMU unexpectedly closed the monitor")

    monkeypatch.setattr(libvirt.virDomain, "create", fail)
    assert cell.run("start") == cell.agent.ERR_GENERIC
    holders[0].communicate()


def test_probe_removes_leftover_definition_only(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell.write()
    cell.connection.defineXML(cell.xml())
    monkeypatch.setenv("OCF_RESKEY_CRM_meta_interval", "10000")
    assert cell.run("monitor") == cell.agent.NOT_RUNNING
    assert cell.domains() == {"web1": False}, "that is a monitor, and no probe"
    monkeypatch.setenv("OCF_RESKEY_CRM_meta_interval", "0")
    assert cell.run("monitor") == cell.agent.NOT_RUNNING
    assert cell.domains() == {}


def test_definition_of_vm_shut_off_elsewhere_is_a_leftover(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell.write(kept_by="hv2")
    cell.connection.defineXML(cell.xml())
    monkeypatch.setenv("OCF_RESKEY_CRM_meta_on_node", "hv1")
    assert cell.run("monitor") == cell.agent.NOT_RUNNING
    assert cell.domains() == {}


@pytest.mark.parametrize("kept", ["no card", "phase", "saved", "runs", "shut off by a playbook"])
def test_definition_that_is_needed_survives_probe(
    cell: Cell, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCF_RESKEY_CRM_meta_on_node", "hv1")
    if kept != "no card":
        cell.write(kept_by="hv1" if "playbook" in kept else None)
    phase = _PHASE.format("<fleet:phase>changing</fleet:phase>") if kept == "phase" else ""
    domain = cell.connection.defineXML(cell.xml(metadata=phase))
    if kept in ("saved", "runs"):
        domain.create()
    if kept == "saved":
        domain.managedSave()
    running = kept == "runs"
    assert cell.run("monitor") == (cell.agent.SUCCESS if running else cell.agent.NOT_RUNNING)
    assert cell.domains() == {"web1": running}


def test_vm_with_saved_memory_is_not_started_here(cell: Cell) -> None:
    cell.write()
    domain = cell.connection.defineXML(cell.xml())
    domain.create()
    domain.managedSave()
    assert cell.run("start") == cell.agent.ERR_INSTALLED
    assert "virsh managedsave-remove web1" in cell.reason
    assert cell.connection.lookupByName("web1").hasManagedSaveImage(0)


def test_definition_under_former_name_is_replaced(cell: Cell) -> None:
    cell.connection.defineXML(cell.xml(name="old"))
    cell.write()
    assert cell.run("start") == cell.agent.SUCCESS
    assert cell.domains() == {"web1": True}


def test_guest_that_does_not_shut_down_is_forced_off(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell.write()
    assert cell.run("start") == cell.agent.SUCCESS
    asked: list[float] = []
    now = [time.monotonic()]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(cell.agent.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(cell.agent.time, "sleep", sleep)
    monkeypatch.setattr(libvirt.virDomain, "shutdown", lambda _domain: asked.append(now[0]))
    begin = now[0]
    assert cell.run("stop") == cell.agent.SUCCESS
    assert len(asked) == 2, "again after 20 of 30 seconds"
    assert 30 <= now[0] - begin < 35, "half of the operation's time"
    assert cell.domains() == {}


@pytest.mark.parametrize("runs", [True, False])
def test_libvirt_that_does_not_answer_is_replaced_by_processes(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    agent = cell.agent

    def refuse(_uri: str) -> t.NoReturn:
        raise libvirt.libvirtError("Failed to connect socket")

    monkeypatch.setattr(agent.libvirt, "open", refuse)
    cell.write()
    place = _qemu(cell) if runs else None
    _qemu(cell, "00000000-0000-4000-8000-000000000000", 1)
    assert cell.run("monitor") == (agent.SUCCESS if runs else agent.NOT_RUNNING)
    signals: list[tuple[int, int]] = []
    now = [time.monotonic()]
    monkeypatch.setattr(agent.time, "monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def kill(pid: int, number: int) -> None:
        signals.append((pid, number))
        if place is not None and number == signal.SIGKILL:
            (place / "cmdline").unlink()
            place.rmdir()

    monkeypatch.setattr(agent.time, "sleep", sleep)
    monkeypatch.setattr(agent.os, "kill", kill)
    assert cell.run("stop") == agent.SUCCESS
    expected = [signal.SIGTERM] * 5 + [signal.SIGKILL] if runs else []
    assert signals == [(os.getpid(), number) for number in expected]
    assert cell.run("start") == agent.ERR_INSTALLED


@pytest.mark.parametrize("wrapped", [False, True])
def test_emulator_of_any_name_is_stopped(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, wrapped: bool
) -> None:
    """A real process, which libvirt does not know."""
    monkeypatch.setattr(cell.agent, "PROC", "/proc")
    monkeypatch.setattr(cell.agent.time, "sleep", lambda seconds: threading.Event().wait(seconds))
    monkeypatch.setenv("OCF_RESKEY_CRM_meta_timeout", "12000")
    code = "import signal; print(flush=True); signal.pause()"
    words = [sys.executable, "-c", code, "-name", "guest=web1", "-uuid", UUID]
    wrapper = ["/bin/sh", "-c", '"$@"; exit', "emulator"] if wrapped else []
    command = [*wrapper, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        reaper = threading.Thread(target=process.wait)
        reaper.start()
        try:
            assert cell.run("monitor") == cell.agent.ERR_GENERIC
            assert "libvirt does not know it" in cell.reason
            assert cell.run("stop") == cell.agent.SUCCESS
            reaper.join(5)
            assert not cell.agent.processes(UUID)
            assert process.poll() is not None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_exiting_process_counts_until_its_pid_is_gone(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command line is gone before its threads have written."""
    now = [time.monotonic()]
    monkeypatch.setattr(cell.agent.time, "monotonic", lambda: now[0])
    place = _qemu(cell)

    def sleep(seconds: float) -> None:
        now[0] += seconds
        (place / "cmdline").write_bytes(b"")

    monkeypatch.setattr(cell.agent.time, "sleep", sleep)
    monkeypatch.setattr(cell.agent.os, "kill", lambda _pid, _signal: None)
    assert cell.run("stop") == cell.agent.ERR_GENERIC
    assert "still runs" in cell.reason


def test_start_that_libvirt_has_not_answered_keeps_stop_from_success(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt hangs in it, and may start the VM at any time."""
    agent = cell.agent
    cell.write()
    answers = threading.Event()
    monkeypatch.setenv("OCF_RESKEY_CRM_meta_timeout", "400")

    def hang(_domain: object) -> None:
        answers.wait(10)
        raise libvirt.libvirtError("no")

    monkeypatch.setattr(libvirt.virDomain, "create", hang)
    assert cell.run("start") == agent.ERR_INSTALLED
    assert "libvirt hangs here" in cell.reason
    opened = agent.libvirt.open

    def refuse(_uri: str) -> t.NoReturn:
        raise libvirt.libvirtError("Failed to connect socket")

    monkeypatch.setattr(agent.libvirt, "open", refuse)
    monkeypatch.setenv("OCF_RESKEY_CRM_meta_timeout", "1200")
    for action in ("stop", "monitor"):
        assert cell.run(action) == agent.ERR_GENERIC
        assert "does not say whether it has" in cell.reason
    answers.set()
    monkeypatch.setattr(agent.libvirt, "open", opened)
    monkeypatch.setenv("OCF_RESKEY_CRM_meta_timeout", "60000")
    assert cell.run("stop") == agent.SUCCESS
    monkeypatch.setattr(agent.libvirt, "open", refuse)
    assert cell.run("stop") == agent.SUCCESS, "libvirt has answered"


@pytest.mark.parametrize("action", ["monitor", "start", "stop"])
def test_answer_of_libvirt_is_known_to_all_actions(cell: Cell, action: str) -> None:
    """Once it has said that the VM is off, or runs, the start before is over."""
    agent = cell.agent
    cell.write()
    mark = agent.Vm(UUID, str(cell.folder), 60.0).mark()
    mark.parent.mkdir()
    mark.touch()
    cell.run(action)
    assert not mark.exists()


def test_hung_storage_is_no_lock(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that failed asks for the lock, too, and that may hang."""
    cell.write()
    hangs = threading.Event()

    def fail(_domain: object) -> None:
        monkeypatch.setattr(cell.agent, "is_locked", lambda _path: hangs.wait(10))
        raise libvirt.libvirtError("internal error: QEMU unexpectedly closed the monitor")

    (cell.folder / "web1.qcow2").write_bytes(bytes(512))
    monkeypatch.setattr(libvirt.virDomain, "create", fail)
    monkeypatch.setattr(cell.agent, "ANSWER", 0.01)
    assert cell.run("start") == cell.agent.ERR_INSTALLED
    assert "closed the monitor" in cell.reason
    hangs.set()


def test_leftover_that_libvirt_says_nothing_of_fails_no_probe(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe that fails has the VM stopped where it runs."""
    cell.write()
    cell.connection.defineXML(cell.xml())
    hangs = threading.Event()
    monkeypatch.setattr(libvirt.virDomain, "isActive", lambda _domain: hangs.wait(10))
    monkeypatch.setattr(cell.agent, "ANSWER", 0.01)
    begin = time.monotonic()
    assert cell.run("monitor") == cell.agent.NOT_RUNNING
    assert time.monotonic() - begin < 5
    hangs.set()
    assert [*cell.domains()] == ["web1"], "it stays"


def test_guest_that_has_crashed_is_named(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its QEMU stays where the definition says so."""
    cell.write()
    cell.connection.defineXML(cell.xml())
    crashed = [libvirt.VIR_DOMAIN_CRASHED, 0]
    monkeypatch.setattr(libvirt.virDomain, "state", lambda _domain, _flags: crashed)
    _qemu(cell)
    for action in ("monitor", "start"):
        assert cell.run(action) == cell.agent.ERR_GENERIC
        assert "the guest has crashed" in cell.reason


def test_stop_does_not_claim_that_process_has_ended(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [time.monotonic()]
    monkeypatch.setattr(cell.agent.time, "monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(cell.agent.time, "sleep", sleep)
    monkeypatch.setattr(cell.agent.os, "kill", lambda _pid, _signal: None)
    cell.write()
    _qemu(cell)
    assert cell.run("monitor") == cell.agent.ERR_GENERIC, "libvirt does not know it"
    assert cell.run("stop") == cell.agent.ERR_GENERIC
    assert cell.run("start") == cell.agent.ERR_GENERIC


@pytest.mark.parametrize(
    ("name", "value"),
    [("uuid", ""), ("uuid", "web1"), ("cards", ""), ("cards", "srv/shared")],
)
def test_parameter_that_is_wrong_is_refused(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"OCF_RESKEY_{name}", value)
    for action in ("start", "stop", "monitor", "validate-all"):
        assert cell.run(action) == cell.agent.ERR_CONFIGURED


def test_agent_has_no_migration_and_says_what_it_has() -> None:
    done = subprocess.run(
        [sys.executable, _AGENT, "meta-data"], capture_output=True, text=True, check=True
    )
    actions = [one.get("name") for one in ElementTree.fromstring(done.stdout).iter("action")]
    assert actions == ["start", "stop", "monitor", "validate-all", "meta-data"]
    done = subprocess.run([sys.executable, _AGENT, "migrate_to"], capture_output=True, check=False)
    assert done.returncode == 3


def test_storage_that_hangs_is_not_waited_for(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    cell.connection.defineXML(cell.xml())
    monkeypatch.setattr(cell.agent, "ANSWER", 0.005)
    os.mkfifo(cell.folder / "answers")

    def hang(_folder: str) -> list[str]:
        return [(cell.folder / "answers").read_text(encoding="utf-8")]

    monkeypatch.setattr(cell.agent, "find_card", lambda folder, _uuid: hang(folder))
    assert cell.run("start") == cell.agent.ERR_INSTALLED
    assert "hangs" in cell.reason
    assert cell.run("stop") == cell.agent.SUCCESS
    with open(cell.folder / "answers", "w", encoding="utf-8"):
        assert cell.domains() == {"web1": False}, "and nothing was removed"
