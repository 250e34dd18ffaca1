# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cell of three hypervisors: made, changed and taken apart by the role; its VM, whose hypervisor
fails in several ways, runs on exactly one of them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import effects_cards
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import Card, CardName
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import cib
from ansible_collections.fleet.virt.tests.integration.keys.conftest import LISTEN
from ansible_collections.fleet.virt.tests.integration.migration.conftest import KILL
from ansible_collections.fleet.virt.tests.integration.support import qemus
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.cell_moves import CellMoves
from ansible_collections.fleet.virt.tests.integration.support.power_switch import (
    PASSWORD,
    PowerSwitch,
    power_switch,
)
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab import images
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

# Shown in the guide
MAKE = "ansible-playbook ha.yml"
LEAVE = f"{MAKE} -e virt_ha_state=absent"
LOOK = "ansible hv1 -b -m fleet.virt.virt_cell"
_STATED = "ansible {} -b -m ansible.builtin.command -a 'stonith_admin --confirm {}'"
STATED = _STATED.format("hv1", "hv3")
PUT = "ansible-playbook fleet.virt.provision_vm -e @vms.yml"
LIST = "ansible-playbook fleet.virt.list"
DOCTOR = "ansible-playbook fleet.virt.doctor"
REPAIR = "ansible-playbook fleet.virt.repair_vms"
COMMANDS = (f"{MAKE} --check", MAKE, LEAVE, LOOK, STATED, PUT, LIST, DOCTOR, REPAIR)
_GUIDE = Path(__file__).parents[2] / "docs/docsite/rst/high_availability.rst"
_HOSTS = ("hv1", "hv2", "hv3")
_AT = "/srv/shared"
_SUITE = os.environ.get("FLEET_VIRT_CELL_SUITE", "trixie")
_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "0"))
_UUID = "5f0c1b8e-8a57-4f43-9a39-3a1f9cbe1c11"
_VM = f"fleet-{_UUID}"
_DEFINITION = f"""
<domain type='qemu'><name>ha1</name><uuid>{_UUID}</uuid><metadata>
<fleet:fleet xmlns:fleet='urn:fleet.virt:1'><fleet:ha>yes</fleet:ha></fleet:fleet></metadata>
<memory unit='MiB'>96</memory>
<os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features>
<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
<source file='{_AT}/ha1_system.qcow2'/><target dev='vda' bus='virtio'/></disk></devices></domain>
"""
_PRIMITIVE = f"""
<primitive id="{_VM}" class="ocf" provider="fleet" type="domain"><instance_attributes id="ha1-p">
<nvpair id="ha1-uuid" name="uuid" value="{_UUID}"/><nvpair id="ha1-cards" name="cards"
value="{_AT}"/></instance_attributes><operations>
<op id="ha1-start" name="start" interval="0" timeout="120s"/>
<op id="ha1-stop" name="stop" interval="0" timeout="60s"/>
<op id="ha1-monitor" name="monitor" interval="10s" timeout="30s"/></operations></primitive>
"""
_LIBVIRTD = "libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket"
_MONITORS = 21  # seconds, in which Pacemaker asks the agent twice
# Seconds until the VM runs elsewhere, in trials, which have the machine to themselves
_KILLED, _CUT_OFF, _TOLD, _RELEASED = 30, 40, 20, 10
_ATTEMPT = 36  # an attempt to switch a member off is ended by nothing but its own limit
_SYSTEM = {"sched_rr": "no", "allow_knet_handle_fallback": "yes"}
_LEFT = "ls /etc/corosync/corosync.conf /etc/corosync/authkey /usr/lib/ocf/resource.d/fleet"


class Cell:
    """Three hypervisors with a folder in common, and a switch for their power."""

    def __init__(
        self,
        lab: Laboratory,
        ansible: Ansible,
        folder: Path,
        switch: PowerSwitch,
        mounts: contextlib.ExitStack,
    ) -> None:
        self.lab, self.ansible, self.folder = lab, ansible, folder
        self.switch, self.mounts = switch, mounts
        self.figures = qemus.Figures()
        play = next(
            block.split("\n\n", 1)[0]
            for block in _GUIDE.read_text().split("code-block:: yaml\n\n")
            if "- role: fleet.virt.ha" in block.split("\n\n", 1)[0]
        )
        self.playbook = folder.parent / "ha.yml"
        self.playbook.write_text(yaml.safe_dump(yaml.safe_load(play)), encoding="utf-8")

    def run(self, command: str, *words: str, **variables: object) -> Run:
        """A command of the guide, in this laboratory's fleet."""
        program, *shown = shlex.split(command)
        shown = [str(self.playbook) if word == "ha.yml" else word for word in shown]
        given = {
            "ha_system": _SYSTEM,
            "ha_keys_dir": str(self.folder.parent / "keys"),
            "virt_ha_cell": "a",
            "virt_fence": self.switch.device("{{ inventory_hostname }}"),
            **variables,
        }
        run = self.ansible.run(program, [*shown, *words, "-e", json.dumps(given)], limit=400)
        assert PASSWORD not in str(run.events) + run.stdout, "the password is in no result"
        return run

    def refused(self, message: str, *words: str, **variables: object) -> None:
        """The run is refused before anything changes; tests/unit/cell has all refusals."""
        before = [self.files(host) for host in _HOSTS]
        run = self.run(MAKE, *words, **variables)
        assert run.returncode == 2, str(run)
        assert message in run.stdout + run.stderr, str(run)
        assert [self.files(host) for host in _HOSTS] == before

    def files(self, host: str) -> str:
        """What is there of a cell."""
        folders = "/etc/corosync /etc/pacemaker /usr/lib/ocf/resource.d /etc/systemd/system"
        command = f"find {folders} | sort | md5sum; systemctl is-active corosync pacemaker"
        return self.lab.ssh(host, command, check=False).stdout

    def start(self, host: str) -> None:
        """Switch a hypervisor on again: with the folder, and the agent."""
        self.lab.start(host)
        self.mount(host)

    def mount(self, host: str) -> None:
        """The folder, as a pool."""
        self.mounts.enter_context(shared_folder(self.lab, self.folder, _AT, (host,)))
        define = f"virsh -q pool-define-as shared dir --target {_AT} 2>/dev/null"
        begin = "virsh -q pool-start shared 2>/dev/null || virsh -q pool-refresh shared"
        self.lab.ssh(host, f"{define}; {begin}")

    def seen(self, host: str) -> cib.Monitored | None:
        """What Pacemaker says on a hypervisor."""
        done = self.lab.ssh(host, "crm_mon --one-shot --output-as=xml", check=False)
        return None if done.returncode else cib.monitored(_lxml.parse(done.stdout, "crm_mon"))

    def running(self) -> dict[str, list[int]]:
        """The QEMUs of the VM by hypervisor."""
        return qemus.running(self.lab, _UUID)

    def sampler(self) -> qemus.Sampler:
        """Looks for its QEMUs meanwhile."""
        return qemus.Sampler(self.running)

    def where(self, limit: float = 90, *, without: str = "") -> str:
        """The only hypervisor that runs the VM, once there is one."""
        pids = wait_for(
            lambda: {host: pids for host, pids in self.running().items() if host != without},
            limit,
            "the VM runs",
        )
        assert [len(one) for one in pids.values()] == [1], pids
        return next(iter(pids))

    def defined(self, host: str, vm: str = _UUID) -> bool:
        """Whether libvirt has a definition of it there."""
        command = f"virsh -q dominfo {vm}"
        return self.lab.ssh(host, command, check=False).returncode == 0

    def all_online(self, limit: float = 120) -> None:
        """Wait until every hypervisor says that all are members."""

        def online() -> bool:
            views = [self.seen(host) for host in _HOSTS]
            return all(view is not None and view.online == {*_HOSTS} for view in views)

        wait_for(online, limit, "all members are online")


def _changed(run: Run) -> list[tuple[str, str]]:
    """The tasks that changed something, by hypervisor."""
    return sorted((event.host, event.task) for event in run.events if event.result.get("changed"))


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    kept = os.environ.get("FLEET_VIRT_LAB")
    laboratory = Laboratory(kept) if kept else Laboratory(f"c{os.getpid()}", os.getpid())
    laboratory.preloaded = True
    laboratory.up(3, [_SUITE])
    laboratory.directly = True
    place = tmp_path_factory.mktemp("cell")
    folder = place / "shared"
    folder.mkdir(mode=0o711)
    try:
        ansible = Ansible(laboratory.inventory, place)
        with contextlib.ExitStack() as mounts, power_switch(laboratory, *_HOSTS) as switch:
            built = Cell(laboratory, ansible, folder, switch, mounts)
            for host in _HOSTS:
                built.mount(host)
            yield built
    finally:
        if not kept:
            laboratory.down()


def test_cell_is_made_by_role(cell: Cell) -> None:
    """And a second run changes nothing; what cannot be is refused before anything changes."""
    two = "{{ 'a' if inventory_hostname != 'hv3' else '' }}"
    cell.refused("cell 'a' has two hypervisors, hv1, hv2", "--check", virt_ha_cell=two)
    for host in _HOSTS:  # as distributions and people do
        logged = "PCMK_logfile=/var/log/pacemaker/pacemaker.log"
        cell.lab.ssh(host, f"echo {logged} >> /etc/default/pacemaker")
    plan = cell.run(f"{MAKE} --check")
    assert plan.returncode == 0, str(plan)
    done = cell.run(MAKE).succeeded()
    assert _changed(done) == _changed(plan)
    assert {host for host, _task in _changed(done)} == {*_HOSTS}
    cell.all_online()
    again = cell.run(MAKE).succeeded()
    assert not _changed(again), str(again)
    for host in _HOSTS:
        modes = "stat -c '%a %U:%G' /etc/corosync/authkey /etc/pacemaker/authkey"
        assert cell.lab.ssh(host, modes).stdout.splitlines() == [
            "400 root:root",
            "440 hacluster:haclient",
        ]
        logs = f"grep -rl {PASSWORD} /var/log; journalctl --no-pager | grep {PASSWORD}"
        assert not cell.lab.ssh(host, logs, check=False).stdout, "in no log"
        sockets = cell.lab.ssh(
            host, "ss -Hlnup | grep corosync; ss -Hlntp | grep pacemaker", check=False
        )
        address = cell.lab.host(host).address
        assert all(f" {address}:" in line for line in sockets.stdout.splitlines()), sockets.stdout
    keys = [*(cell.folder.parent / "keys/cells").iterdir()]
    assert {one.stat().st_mode & 0o777 for one in keys} == {0o600}
    cell.refused("hv1 is a member of the cell 'a'; take it out", virt_ha_cell="b")
    looked = cell.run(LOOK)
    assert '"quorate": true' in looked.stdout, str(looked)


def _write_vm(cell: Cell, name: str, uuid: str) -> None:
    """The disk of a VM and its card, without a hypervisor in its name."""
    disk = cell.folder / f"{name}_system.qcow2"
    shutil.copy(images.image("tiny"), disk)
    disk.chmod(0o666)
    xml = _DEFINITION.replace(_UUID, uuid).replace("ha1", name)
    card = Card(CardName(name, ("hv1",)), uuid, xml, True)
    effects_cards.write(str(cell.folder), card)
    (cell.folder / card.at.file).rename(cell.folder / f"{name}@.fleet.xml")


def test_agent_passes_ocf_tester(cell: Cell) -> None:
    """The test of resource-agents' own, on a VM that is no resource."""
    if cell.lab.ssh("hv1", "command -v xmllint", check=False).returncode:
        pytest.skip("it needs xmllint, which Debian 12 does not bring along")
    uuid = _UUID.replace("5f0c", "5f0d")
    _write_vm(cell, "ha0", uuid)
    agent = "/usr/lib/ocf/resource.d/fleet/domain"
    command = f"ocf-tester -n ha0 -o uuid={uuid} -o cards={_AT} {agent} 2>&1"
    done = cell.lab.ssh("hv1", command, check=False, timeout=300)
    for file in cell.folder.glob("ha0*"):
        file.unlink()
    assert done.returncode == 0, done.stdout
    assert f"{agent} passed all tests" in done.stdout
    assert "* rc=" not in done.stdout


def _make_vm(cell: Cell) -> None:
    _write_vm(cell, "ha1", _UUID)
    cell.lab.ssh("hv1", "cibadmin --create --scope resources --xml-pipe", input=_PRIMITIVE)


def _maintain(cell: Cell) -> None:
    """No VM starts on members in maintenance, and one that runs there stays."""

    def known() -> list[str]:
        nodes = cell.lab.ssh("hv3", "cibadmin --query --xpath //nodes").stdout
        marked = "node[.//nvpair[@name='fleet-maintenance'][@value='true']]"
        return [str(node.get("uname")) for node in _lxml.parse(nodes, "nodes").xpath(marked)]

    def mark(hosts: str, *words: str) -> None:
        command = ["fleet.virt.maintenance", "-e", f"virt_host={hosts}", *words]
        cell.ansible.run("ansible-playbook", command).succeeded()

    mark("hv1:hv2")
    assert known() == ["hv1", "hv2"]
    _make_vm(cell)
    assert cell.where() == "hv3"
    pids = cell.running()
    mark("hv3")
    mark("hv1:hv2:hv3", "-e", "virt_maintenance=false")
    assert not known()
    assert cell.running() == pids


def _return(cell: Cell, host: str, new: str) -> None:
    """A hypervisor that was off is a member again; its VM stays where it is by now."""
    cell.start(host)
    cell.all_online()
    wait_for(lambda: not cell.defined(host), 60, "the leftover is removed")
    assert cell.where() == new, "it stays where it is"
    assert cell.defined(new)
    view = cell.seen(new)
    assert view is not None
    assert view.vms[_VM] == [new]


def _kill(cell: Cell) -> None:
    """The power of its hypervisor fails, which returns with a definition of it."""
    host = cell.where()
    with cell.sampler():
        begin = time.monotonic()
        cell.lab.kill(host)
        new = cell.where(without=host)
        seconds = time.monotonic() - begin
        cell.figures.add("power cut", seconds, _KILLED, f"power of {host} cut: on {new}")
        _return(cell, host, new)


def _cut(cell: Cell) -> None:
    """The cable of its hypervisor is cut, which is then switched off."""
    host = cell.where()
    with cell.sampler():
        begin = time.monotonic()
        cell.lab.cut(host)
        new = cell.where(without=host)
        seconds = time.monotonic() - begin
        cell.figures.add("cable cut", seconds, _CUT_OFF, f"cable of {host} cut: on {new}")
        assert cell.lab.host(host).leader is None, "it was switched off"
        _return(cell, host, new)


def _fail(cell: Cell) -> None:
    """The cable is cut and the switch does not answer: nothing is started until a person states
    that the hypervisor is off."""
    host = cell.where()
    other = next(name for name in _HOSTS if name != host)
    hangs = bool(_TRIALS) and random.random() < 0.5  # noqa: S311
    what = "hangs" if hangs else "refuses"
    with cell.sampler() as sampler:
        cell.switch.broken, cell.switch.hanging = not hangs, host if hangs else ""
        print(f"  the switch {what}")
        begin = time.monotonic()
        cell.lab.cut(host)
        wait_for(lambda: not cell.running(), 90, "the minority stops its VM")
        print(f"  {host} alone: stopped after {time.monotonic() - begin:.1f} s")
        wait_for(
            lambda: (seen := cell.seen(other)) is not None and host in seen.unclean,
            60,
            f"{host} is not proven off",
        )
        tries = len(cell.switch.calls)
        wait_for(lambda: len(cell.switch.calls) > tries + 2, 120, "it is tried again")
        assert f"; {host} not proven off" in cell.run(LIST).succeeded().stdout
        cell.lab.kill(host)  # what the person has seen
        assert {*sampler.first} == {host}, "it was started nowhere"
        begin = time.monotonic()
        cell.run(_STATED.format(other, host)).succeeded()
        new = cell.where()
        seconds = time.monotonic() - begin
        limit = _TOLD + (_ATTEMPT if hangs else 0)
        cell.figures.add(
            f"statement, the switch {what}", seconds, limit, f"{host} stated to be off: on {new}"
        )
        cell.switch.broken, cell.switch.hanging = False, ""
        _return(cell, host, new)


def _silence(cell: Cell) -> None:
    """libvirt ends on its hypervisor: the VM goes on, and nobody is switched off."""
    host = cell.where()
    pids = cell.running()
    with cell.sampler():
        cell.lab.ssh(host, f"systemctl stop {_LIBVIRTD}")
        tries = len(cell.switch.calls)
        time.sleep(_MONITORS)
        view = cell.seen(host)
        assert view is not None
        assert (view.online, view.vms[_VM]) == ({*_HOSTS}, [host])
        assert not [call for call in cell.switch.calls[tries:] if call.startswith("off")]
        cell.lab.ssh(host, f"systemctl start {_LIBVIRTD}")
        wait_for(lambda: cell.defined(host), 60, "libvirt answers")
        time.sleep(_MONITORS / 2)
    assert cell.running() == pids


def _lock(cell: Cell, seconds: float) -> None:
    """The power of its hypervisor fails, and another process has the lock of its disk meanwhile."""
    host = cell.where()
    other = next(name for name in _HOSTS if name != host)
    disk = f"{_AT}/ha1_system.qcow2"
    hold = f"qemu-io -f qcow2 -c 'sleep {seconds * 1000:.0f}' {disk}"
    with cell.sampler() as sampler:
        cell.lab.kill(host)
        begin = time.monotonic()
        cell.lab.ssh(other, f"until {hold}; do :; done", timeout=seconds + 60)
        released = time.monotonic()
        new = cell.where(without=host)
        since = time.monotonic() - released
        cell.figures.add("lock released", since, _RELEASED, f"lock of its disk released: on {new}")
        _return(cell, host, new)
    assert sampler.first[new] - begin >= seconds, "not while the lock was held"


def _members(cell: Cell) -> None:
    """A member joins and leaves, and settings that need a restart change, while the VM runs."""
    pids = cell.running()
    host = cell.where()
    cell.lab.up(4, [_SUITE])
    cell.switch.install("hv4")
    cell.mount("hv4")
    cell.run(MAKE).succeeded()
    view = cell.seen("hv4")
    assert view is not None
    assert view.online == {*_HOSTS, "hv4"}
    assert not _changed(cell.run(MAKE).succeeded())
    absent = "{{{{ 'absent' if inventory_hostname == '{}' else 'present' }}}}"
    cell.refused(f"{host} runs {_VM} of the cell 'a'", virt_ha_state=absent.format(host))
    gone = {"virt_ha_state": absent.format("hv4")}
    assert _changed(cell.run(f"{MAKE} --check", **gone).succeeded())
    cell.run(MAKE, **gone).succeeded()
    assert not _changed(cell.run(MAKE, **gone).succeeded())
    assert not cell.lab.ssh("hv4", _LEFT, check=False).stdout
    nodes = _lxml.parse(cell.lab.ssh(host, "cibadmin --query --xpath //nodes").stdout, "nodes")
    assert {node.get("uname") for node in nodes.iter("node")} == {*_HOSTS}
    view = cell.seen(host)
    assert view is not None
    assert view.devices == {f"fence-{name}" for name in _HOSTS}, "its device is not left running"
    system = {**_SYSTEM, "move_to_root_cgroup": "no"}
    run = cell.run(MAKE, ha_system=system, **gone)
    assert run.returncode == 2, str(run)
    assert f"corosync has to be restarted on {host}, which runs {_VM}" in run.stdout + run.stderr
    again = cell.run(MAKE, **gone)
    assert {name for name, _task in _changed(again)} == {*_HOSTS}, "a setting removed counts too"
    assert not _changed(cell.run(MAKE, **gone).succeeded())
    assert cell.running() == pids
    cell.all_online()


def test_vm_of_member_that_fails_runs_once(cell: Cell) -> None:
    _maintain(cell)
    if _TRIALS:
        _members(cell)
    _silence(cell)
    if _TRIALS:
        _lock(cell, 100)
    for trial in range(max(1, _TRIALS)):
        failures = [_kill, _cut, _fail]
        random.shuffle(failures)
        print(f"trial {trial}:")
        for failure in failures:
            failure(cell)
    cell.figures.show()
    assert not (cell.figures.beyond and _TRIALS), cell.figures.beyond


class _Verbs:
    """Playbooks on a VM of the cell."""

    def __init__(self, cell: Cell, name: str) -> None:
        self.cell, self.name = cell, name
        self.wanted: dict[str, object] = {
            "name": name,
            "memory": 96,
            "image": images.image("tiny").name,
            **{"overlay": False, "seed": False, "wait": False, "ha": True, "nics": []},
            "disks": [{"name": "system", "pool": "shared", "size": 256}],
        }

    def play(self, playbook: str, status: int = 0, **variables: object) -> Run:
        run = self.cell.ansible.playbook(playbook, variables, limit=400)
        assert run.returncode == status, str(run)
        return run

    def provision(self, **settings: object) -> Run:
        self.wanted.update(settings)
        folder = str(images.image("tiny").parent)
        file = self.cell.folder.parent / "vms.yml"
        given = {"virt_vms": [self.wanted], "virt_image_dir": folder}
        file.write_text(yaml.safe_dump(given), encoding="utf-8")
        program, *words = shlex.split(PUT.replace("vms.yml", str(file)))
        return self.cell.ansible.run(program, words, limit=400).succeeded()

    def state(self, wanted: str) -> Run:
        limit = {"vm_force": True, "vm_shutdown_timeout": 5}
        return self.play("state", vm_name=self.name, vm_state=wanted, **limit)

    def pids(self) -> dict[str, str]:
        """Its QEMU by hypervisor."""
        command = f"pgrep -f '[g]uest={self.name},' || true"
        lab = self.cell.lab
        alive = [host for host in _HOSTS if lab.host(host).leader is not None]
        seen = {host: lab.ssh(host, command).stdout.strip() for host in alive}
        return {host: pid for host, pid in seen.items() if pid}

    def cards(self) -> list[str]:
        return sorted(path.name for path in self.cell.folder.glob(f"{self.name}@*"))


def _mend(cell: Cell, host: str, name: str) -> None:
    """What a killed run has left unmanaged on ``host`` is shown, and managed again."""
    seen = cell.seen(host)
    assert seen is not None
    (resource,) = set(seen.vms) - {_VM}
    meta = f"crm_resource --resource {resource} --meta --set-parameter"
    held = f"{meta} fleet-by --parameter-value {host} && {meta} is-managed --parameter-value false"
    cell.lab.ssh(host, held)
    assert f"cell a, unmanaged (by {host})" in cell.run(LIST).succeeded().stdout
    assert "[cell_vm_unmanaged]" in cell.run(DOCTOR).stdout
    lock = f"/run/fleet-virt/cell-{resource.removeprefix('fleet-')}.lock"
    cell.lab.ssh(host, f"systemd-run -q --unit=holds flock {lock} sleep 600")
    assert name not in cell.run(REPAIR).succeeded().stdout, "a run is at work"
    cell.lab.ssh(host, "systemctl stop holds")
    assert f"{name}: its cell manages it again" in cell.run(REPAIR).succeeded().stdout
    assert name not in cell.run(REPAIR).succeeded().stdout
    assert "unmanaged" not in cell.run(LIST).succeeded().stdout


def test_verbs_go_through_cell(cell: Cell) -> None:
    """Made, changed, shut off, renamed, started and removed without a start or a stop that nobody
    wanted; started by the cell where the hypervisor that kept it is dead."""
    pool = {"name": "shared", "path": _AT, "shared": True}
    cell.ansible.module("hypervisors", "virt_pool", {"pools": [pool]})
    verbs = _Verbs(cell, "hav1")
    verbs.provision()
    assert verbs.cards() == ["hav1@.fleet.xml"]
    before = verbs.pids()
    assert len(before) == 1
    (host,) = before
    verbs.provision(description="changed")
    again = verbs.provision()
    assert not [event for event in again.events if event.result.get("changed")], str(again)
    _mend(cell, host, "hav1")
    assert verbs.pids() == before, "neither the change nor that restarts anything"
    verbs.state("shutoff")
    assert verbs.pids() == {}
    verbs.play("rename", vm_name="hav1", vm_new_name="hav2")
    assert verbs.cards() == []
    verbs.name = "hav2"
    assert verbs.cards() == ["hav2@.fleet.xml"]
    time.sleep(15 if not _TRIALS else 60)  # longer than Pacemaker's own look at it
    assert verbs.pids() == {}, "it stays off"
    cell.lab.kill(host)
    other = next(name for name in _HOSTS if name != host)
    wait_for(
        lambda: (
            (seen := cell.seen(other)) is not None
            and seen.quorate
            and host not in {*seen.online, *seen.unclean}
        ),
        90,
        f"{host} is proven off",
    )
    listed = verbs.play("list")
    assert "hav2  shutoff  defined nowhere, known by its card, cell a" in listed.stdout
    left = verbs.play("restart_elsewhere", 2, virt_host=host, vm_name="hav2")
    assert "the cell 'a', which starts it elsewhere by itself" in left.stdout, str(left)
    refused = verbs.play("purge_vm", 2, vm_name="hav2")
    assert "the cell 'a' knows it by its card" in refused.stdout + refused.stderr
    verbs.state("running")
    started = verbs.pids()
    assert len(started) == 1
    assert host not in started
    cell.start(host)
    cell.all_online()
    wait_for(
        lambda: "hav2" not in cell.lab.ssh(host, "virsh list --all --name").stdout.split(),
        60,
        "the definition that was left is removed",
    )
    assert verbs.pids() == started


def _require_managed(moves: CellMoves, verbs: _Verbs, host: str) -> None:
    """The VM runs on that hypervisor alone, and its cell restarts it."""
    assert list(verbs.pids()) == [host]
    seen = moves.seen(host)
    assert (seen.nodes, seen.managed, seen.by, seen.failed) == ((host,), True, None, False)


def _end_mover(cell: Cell, moves: CellMoves, verbs: _Verbs) -> None:
    """The mover is killed on the way: the VM is shown as unmanaged, until that is repaired."""
    boot = moves.boot(moves.there)
    first = moves.begin(moves.there, moves.here)
    cell.lab.ssh(moves.there, KILL.format(name=moves.name))
    said = first.communicate(timeout=200)[0]
    assert first.returncode == 2, said
    assert f"cell a, unmanaged (by {moves.there})" in cell.run(LIST).succeeded().stdout
    assert f"{moves.name}: its cell manages it again" in cell.run(REPAIR).succeeded().stdout
    _require_managed(moves, verbs, moves.here)
    assert moves.boot(moves.here) == boot


def _break(cell: Cell, moves: CellMoves, verbs: _Verbs) -> None:
    """The connection between both ends breaks on the way: the VM stays where it is, managed, and
    the move is undone once both see each other."""
    boot, pids = moves.boot(moves.here), verbs.pids()
    first = moves.begin(moves.here, moves.there)
    with moves.broken():
        said = first.communicate(timeout=200)[0]
        assert first.returncode == 2, said
        assert f"Start nothing on {moves.there}; {moves.name!r} is on {moves.here}" in said
        _require_managed(moves, verbs, moves.here)
        assert (verbs.pids(), moves.boot(moves.here)) == (pids, boot)
    assert "stays (its move was undone)" in cell.run(REPAIR).succeeded().stdout
    _require_managed(moves, verbs, moves.here)
    assert (verbs.pids(), moves.boot(moves.here)) == (pids, boot)
    assert not cell.defined(moves.there, f"{moves.name}.migration")


def _fail_source(cell: Cell, moves: CellMoves, verbs: _Verbs) -> None:
    """The power of its hypervisor fails on the way: it is started once elsewhere, when a person
    has that repaired, and what the hypervisor has of it when it returns is a leftover."""
    gone = moves.here
    first = moves.begin(gone, moves.there)
    cell.lab.kill(gone)
    said = first.communicate(timeout=300)[0]
    assert first.returncode, said

    def proven() -> bool:
        seen = cell.seen(moves.there)
        return seen is not None and gone not in {*seen.online, *seen.unclean}

    wait_for(proven, 90, f"{gone} is proven off")
    run = cell.run(REPAIR)
    print(f"  {run.returncode}\n{run.stdout}")
    (host,) = wait_for(verbs.pids, 90, "it runs elsewhere")
    cell.start(gone)
    cell.all_online()
    cell.lab.ssh(gone, LISTEN)
    run = cell.run(REPAIR).succeeded()
    print(run.stdout)
    wait_for(lambda: not cell.defined(gone, moves.uuid), 60, "the leftover is removed")
    _require_managed(moves, verbs, host)
    moves.here, moves.there = host, next(name for name in _HOSTS if name != host)


def test_vm_of_cell_is_moved_or_stays_managed(cell: Cell) -> None:
    """Of its own accord nobody moves it: the playbook does, and where that is hit on the way, the
    VM runs on in the same boot."""
    verbs = _Verbs(cell, "hav2")
    if not verbs.pids():
        verbs.provision()
    (here,) = verbs.pids()
    there = next(name for name in _HOSTS if name != here)
    place = cell.folder.parent
    moves = CellMoves(cell.lab, cell.ansible, place, verbs.name, (here, there))
    boot = moves.boot(here)
    verbs.play("migrate_vm", vm_name=verbs.name, vm_host=there)
    _require_managed(moves, verbs, there)
    assert moves.boot(there) == boot
    assert not cell.defined(here, moves.uuid)
    _end_mover(cell, moves, verbs)
    _break(cell, moves, verbs)
    if _TRIALS:
        _fail_source(cell, moves, verbs)
    verbs.play("purge_vm", vm_name=verbs.name, vm_force=True)
    assert not [*cell.folder.glob("hav2*")]
    seen = cell.seen("hv1")
    assert seen is not None
    assert set(seen.vms) <= {_VM}


def test_cell_is_removed_once_it_has_no_vms(cell: Cell) -> None:
    """Not while it has VMs; then nothing of it is left, and the VM's disk and card are."""
    run = cell.run(LEAVE)
    assert run.returncode == 2, str(run)
    assert f"cell 'a' still has VMs ({_VM})" in run.stdout + run.stderr, str(run)
    cell.lab.ssh(
        "hv1", f"crm_resource --resource {_VM} --meta --set-parameter target-role -v Stopped"
    )
    wait_for(lambda: not cell.running(), 90, "the VM is shut off")
    gone = f"<primitive id='{_VM}'/>"
    # Pacemaker has to know that it is off: one deleted while it stops is an orphan that runs
    cell.lab.ssh("hv1", "crm_resource --wait --timeout 60")
    cell.lab.ssh("hv1", "cibadmin --delete --scope resources --xml-pipe", input=gone)
    before = sorted(path.name for path in cell.folder.iterdir())
    cell.run(LEAVE).succeeded()
    for host in _HOSTS:
        assert not cell.lab.ssh(host, _LEFT, check=False).stdout
        active = cell.lab.ssh(host, "systemctl is-active corosync pacemaker", check=False).stdout
        assert active.split() == ["inactive", "inactive"]
    assert sorted(path.name for path in cell.folder.iterdir()) == before
    again = cell.run(LEAVE).succeeded()
    assert not _changed(again), str(again)
