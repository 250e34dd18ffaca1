# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every module of every playbook is killed on a hypervisor: that run fails and says so.

Looked at are its exit status, and its text against what is there afterwards; no guest is booted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.plugin_utils.base._variables import PLAYBOOKS
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support import blank, killing
from ansible_collections.fleet.virt.tests.integration.support.ansible import Run

from .conftest import Movers

_KILLED = "its module returned no result: it was killed (SIGKILL)"
_AGAIN = "run it again"
_THERE, _OTHER, _NEW, _FOREIGN = "there", "other", "new", "foreign"
_HOST = {"virt_host": "hv1"}
_RUNNING = {"vm_state": "running"}
_RENAMED = {"vm_name": _THERE, "vm_new_name": _NEW}
_SAVED = {"virt_backup_to": "/mnt/backup", "virt_backup_passphrase": "marker"}
_TAKEN = {"virt_snapshot": "a"}
_MOVED = {"virt_disk": "system", "virt_to_pool": "base2"}
_TEMPLATE = {"vm_name": _NEW, "virt_template": "killed", "virt_identity": "keep"}
_CLONED = {"vm_name": _NEW, "virt_clone_of": _THERE, "virt_identity": "keep"}
_IMPORTED = {"vm_name": _NEW, "vm_host": "hv1", "virt_import": "{{ virt_image_dir }}/tiny.qcow2"}
_ALONE = ("--limit", "hv1")
_VM = {"memory": 32, "seed": False, "start": False, "wait": False}
# One for each hypervisor, so that claiming and creating are steps of their own
_BATCH = {
    "virt_vms": [
        {"name": _NEW, "image": "tiny.qcow2", "host": "hv1", **_VM},
        {"name": "newer", "image": "tiny.qcow2", "host": "hv2", **_VM},
    ]
}
# Of nobody's: no module of this collection made it
_DEFINE_FOREIGN = f"""
virsh -q undefine {_FOREIGN} 2>/dev/null
virsh -q define /dev/stdin <<END
<domain type='qemu'><name>{_FOREIGN}</name><memory>65536</memory><os><type>hvm</type></os></domain>
END
"""


@dataclass(frozen=True)
class Kill:
    """One run of a playbook: which run of which module dies on ``host``, and what it must say.

    ``names`` are the VMs that the message is about. ``alone``: the host is the whole fleet, since
    the others are not asked in that task.
    """

    playbook: str
    plan: str
    variables: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ()
    check: bool = False
    says: str = _KILLED
    host: str = "hv1"
    args: Sequence[str] = ()
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.playbook} {self.plan}{' --check' if self.check else ''}"


# Each dies before it has done anything, or changes nothing anyway. In check mode and on hv2 two
# only: what any module's end is taken for, in either and of any host, is settled by
# tests/unit/engine/test_outcomes.py
NOTHING_CHANGES = [
    Kill("list", "virt_query.1.after"),
    Kill("query", "virt_query.1.before"),
    Kill("host_info", "virt_host_info.1.before"),
    Kill("preflight", "virt_preflight.1.before", says=f"no answer: {_KILLED}"),
    Kill("preflight", "virt_preflight.2.before", says="its CPU is not compared"),
    Kill("images", "virt_image_info.1.before"),
    Kill("images", "virt_image_info.1.before", {"virt_images_prune": "true"}),
    Kill("images", "virt_image.1.before", {"virt_images_prune": "true"}, alone=True),
    Kill("images", "virt_image.1.before", {"virt_image": "tiny.qcow2"}, alone=True),
    Kill("maintenance", "virt_maintenance.1.before", _HOST),
    Kill("purge_vm", "virt_purge.1.before", {"vm_name": _NEW}, [_NEW]),
    Kill("purge_vm", "virt_purge.2.before", {"vm_name": _THERE}, [_THERE], alone=True),
    Kill("purge_vm", "virt_purge.2.after", {"vm_name": _THERE}, [_THERE], check=True),
    Kill("plan", "virt_init.1.before", {"vm_name": _NEW}, [_NEW]),
    Kill("capacity", "virt_migrate.1.before", {"virt_require": "0"}),
    Kill("doctor", "virt_doctor.1.before", says=f"no answer: {_KILLED}"),
    Kill("what_if", "virt_migrate.1.before", {"virt_strict": "true"}),
    Kill("rolling", "virt_migrate.1.before", {**_HOST, "virt_tasks": "/dev/null"}),
    Kill("state", "virt_state.1.before", {"vm_name": _NEW, **_RUNNING}, [_NEW]),
    Kill("state", "virt_state.2.before", {"vm_name": _THERE, **_RUNNING}, [_THERE], alone=True),
    Kill("adopt", "virt_adopt.1.before", {"vm_name": _NEW}, [_NEW]),
    Kill("adopt", "virt_adopt.2.before", {"vm_name": _FOREIGN}, [_FOREIGN], alone=True),
    Kill("rename", "virt_rename.1.before", _RENAMED, [_NEW]),
    Kill("rename", "virt_rename.2.before", _RENAMED, [_THERE], alone=True),
    Kill("snapshot", "virt_snapshot.1.before", {"vm_name": _NEW, **_TAKEN}, [_NEW]),
    Kill("snapshot", "virt_snapshot.2.before", {"vm_name": _THERE, **_TAKEN}, [_THERE], alone=True),
    Kill("move_disk", "virt_move_disk.1.before", {"vm_name": _NEW, **_MOVED}, [_NEW]),
    Kill(
        "move_disk", "virt_move_disk.2.before", {"vm_name": _THERE, **_MOVED}, [_THERE], alone=True
    ),
    Kill("snapshots", "virt_snapshot.1.before", {"vm_name": _THERE}, [_THERE]),
    Kill("backup", "virt_backup.1.before", {"vm_name": _NEW, **_SAVED}, [_NEW]),
    Kill("template", "virt_template.1.before", _TEMPLATE, [_NEW]),
    Kill(
        "template", "virt_template.2.before", _TEMPLATE | {"vm_name": _THERE}, [_THERE], alone=True
    ),
    Kill("clone", "virt_clone.1.before", _CLONED, [_THERE]),
    # the first only predicts
    Kill("clone", "virt_template.2.before", _CLONED, [_THERE], alone=True),
    Kill("import_vm", "virt_init.1.before", _IMPORTED, [_NEW]),
    Kill("screenshot", "virt_screenshot.1.before"),
    Kill("console", "virt_console.1.before", {"vm_name": _THERE}, [_THERE]),
    Kill("console_log", "virt_console_log.1.before", {"vm_name": _THERE}, [_THERE]),
    Kill("migrate_vm", "virt_migrate.1.before", {"vm_name": _THERE}, [_THERE]),
    Kill("migrate_vm", "virt_migrate.2.before", {"vm_name": _THERE}, [_THERE]),
    Kill("evacuate", "virt_migrate.1.before", _HOST),
    Kill("evacuate", "virt_maintenance.1.before", _HOST, [_THERE]),
    Kill("repair_vms", "virt_migrate.1.before"),
    Kill("provision_vm", "virt_init.1.before", _BATCH, [_NEW]),
    Kill("provision_vm", "virt_init.2.before", _BATCH, [_NEW]),
    Kill("provision_vm", "virt_init.2.after", _BATCH, [_NEW]),
    Kill("provision_vm", "virt_init.2.after", _BATCH, [_NEW], check=True),
    Kill("provision_vm", "virt_init.3.before", _BATCH, [_NEW]),
    Kill("migrate_vm", "virt_migrate.1.after", {"vm_name": _OTHER}, [_OTHER], host="hv2"),
    Kill("return_vms", "virt_migrate.1.before", _HOST),
    # what another one said is refused before anything is asked of the one that died
    Kill("restart_elsewhere", "virt_restart.1.before", {"virt_host": "hv2"}, says="hv2 answers"),
    Kill("provision_vm", "virt_init.2.before", _BATCH, ["newer"], host="hv2"),
    Kill("renew_keys", "virt_keys.1.before", args=_ALONE),
    Kill("setup_hypervisors", "virt_bridge.1.before", {"bridge_list": []}, args=_ALONE),
]


def _run(movers: Movers, kill: Kill, interpreter: str) -> tuple[Run, str]:
    """The run and what it says of its failures."""
    variables = {
        **movers.fleet.variables,
        **movers.keys.variables,
        **kill.variables,
        "ansible_python_interpreter": interpreter,
    }
    ansible = movers.fleet.alone(kill.host).ansible if kill.alone else movers.ansible
    run = ansible.playbook(kill.playbook, variables, kill.args, check=kill.check, limit=300)
    failed = [
        (one.host, result)
        for one in run.events
        if (one.status == "failed" and not one.ignored)
        or one.result.get("_work", {}).get("failing")  # a report of what failed
        # of a loop, each item says why
        for result in (one.result, *one.result.get("results", ()))
    ]
    return run, "\n".join(f"{host}: {result.get('msg')}" for host, result in failed)


def _fails(movers: Movers, kill: Kill, interpreter: str) -> tuple[list[str], str]:
    """What is wrong with the run's status and text, and what it printed."""
    run, said = _run(movers, kill, interpreter)
    faults = [] if run.returncode else ["exit status 0"]
    wanted = [kill.says, kill.host, *kill.names, *([_AGAIN] if kill.says == _KILLED else [])]
    faults += [f"it does not say {words!r}" for words in wanted if words not in said]
    faults += [f"it says {words!r}" for words in ("nothing to do", "not there") if words in said]
    return [f"{kill}: {fault}\n{run}" for fault in faults], run.stdout


def _standing(movers: Movers) -> dict[str, Any]:
    look = (
        "virsh -q list --all --name | sort; ls /var/lib/libvirt/images /var/lib/libvirt/base;"
        " for name in $(virsh -q list --all --name); do virsh dumpxml --inactive $name; done"
    )
    return {host: movers.fleet.host(host, look) for host in ("hv1", "hv2")}


@pytest.fixture
def unmarked(movers: Movers) -> Iterator[None]:
    """Neither before nor afterwards in maintenance."""
    clear = "virsh -q vol-delete fleet-virt.maintenance fleet-notes 2>/dev/null; :"
    movers.fleet.host("hv1", clear)
    yield
    movers.fleet.host("hv1", clear)


@pytest.mark.usefixtures("unmarked")
def test_each_that_dies_before_it_did_anything(movers: Movers) -> None:
    """Nothing has changed on either hypervisor, and every run says that it failed, and where."""
    movers.make(_THERE, start=False)
    movers.make(_OTHER, "hv2", start=False)
    movers.fleet.host("hv1", _DEFINE_FOREIGN)
    # or where no module is killed an image that other tests left would go
    movers.ansible.playbook("images", {"virt_images_prune": "true"}).succeeded()
    before = _standing(movers)
    killed = []
    for host in ("hv1", "hv2"):
        kills = [kill for kill in NOTHING_CHANGES if kill.host == host]
        killed += zip(kills, killing.mortal(movers.lab, host, *(kill.plan for kill in kills)))
    with ThreadPoolExecutor(2) as pool:
        faults = pool.map(lambda one: _fails(movers, *one), killed)
        found = [fault for several, _printed in faults for fault in several]
    assert not found, "\n\n".join(found)
    assert _standing(movers) == before
    movers.fleet.host("hv1", f"virsh -q undefine {_FOREIGN}")


def test_every_playbook_is_among_them() -> None:
    # they need an archive, and are killed everywhere by test_restore_crashes.py,
    # test_disk_crashes.py, test_restored_file.py and test_proof_crashes.py below unit
    killed = {kill.playbook for kill in NOTHING_CHANGES} | {"restore", "verify_backups"}
    killed |= {"restore_disk", "restore_file"}
    assert killed == set(PLAYBOOKS) - documentation.WITHOUT_HYPERVISORS


def _dies(movers: Movers, *words: Any, **more: Any) -> str:
    """A run that must fail; what it printed."""
    kill = Kill(*words, **more)
    (interpreter,) = killing.mortal(movers.lab, kill.host, kill.plan)
    faults, printed = _fails(movers, kill, interpreter)
    assert not faults, "\n".join(faults)
    return printed


@pytest.mark.usefixtures("unmarked")
def test_each_that_dies_with_its_work_done_or_begun(movers: Movers) -> None:
    """What is there is what the run says, or says that it does not know."""
    host = movers.fleet.host
    mark = "ls /var/lib/libvirt/fleet-notes | grep -c fleet-virt.maintenance || true"
    _dies(movers, "maintenance", "virt_maintenance.1.after", _HOST)
    assert host("hv1", mark).strip() == "1"
    movers.ansible.module("hv1", "virt_maintenance", {"state": "absent"})

    shown = _dies(movers, "provision_vm", "virt_init.4.before", _BATCH, [_NEW])
    assert re.search(r"^newer +hv2 +- +created", shown, re.MULTILINE)
    assert re.search(r"^new +hv1 +- +failed", shown, re.MULTILINE)
    assert movers.fleet.domains()["hv2"] == ["newer"]
    shown = _dies(movers, "provision_vm", "virt_init.3.after", _BATCH, [_NEW])
    assert re.search(r"^newer +hv2 +- +unchanged", shown, re.MULTILINE)
    assert movers.fleet.domains() == {"hv1": [_NEW], "hv2": ["newer"]}
    assert "creating" not in movers.metadata("hv1", _NEW)

    movers.fleet.raw_image("lacking.raw", 4, b"x")
    lacking = {"vm_name": "lacking", "vm_image": "lacking.raw", "vm_seed": "false"}
    where = {"vm_host": "hv1", "virt_refresh_inventory": "false"}
    lacks = {**lacking, **where}
    _dies(movers, "provision_vm", "virt_image.1.before", lacks, ["lacking"], alone=True)
    assert movers.fleet.domains()["hv1"] == [_NEW]
    boots = {"vm_name": "boots", "vm_image": "tiny.qcow2", "vm_memory": "96"}
    waits = {**boots, **where}
    _dies(movers, "provision_vm", "virt_wait.1.before", waits, ["boots"], alone=True)
    assert movers.state("hv1", "boots") == "running"

    _dies(movers, "purge_vm", "virt_purge.2.after", {"vm_name": _NEW}, [_NEW], alone=True)
    assert movers.fleet.domains()["hv1"] == ["boots"]

    moves = {"vm_name": "newer", "vm_host": "hv1"}
    _dies(movers, "migrate_vm", "virt_migrate.2.after", moves, ["newer"], host="hv2")
    assert movers.fleet.domains() == {"hv1": ["boots", "newer"], "hv2": []}
    moves = {"vm_name": "boots", "vm_host": "hv2"}
    _dies(movers, "migrate_vm", "virt_migrate.2.moving", moves, ["boots"])
    _dies(movers, "repair_vms", "virt_migrate.2.before", {}, ["boots"])
    movers.ansible.playbook("repair_vms", limit=300).succeeded()
    both = sorted(name for names in movers.fleet.domains().values() for name in names)
    assert both == ["boots", "newer"]

    _dies(movers, "evacuate", "virt_migrate.2.before", _HOST, ["newer"])
    assert "newer" in movers.fleet.domains()["hv1"]
    movers.ansible.playbook("evacuate", _HOST, limit=300).succeeded()
    assert movers.fleet.domains()["hv1"] == []
    _dies(movers, "return_vms", "virt_maintenance.1.before", _HOST, ["newer"])
    assert host("hv1", mark).strip() == "1"
    assert movers.fleet.domains()["hv1"] == []
    _dies(movers, "return_vms", "virt_migrate.2.before", _HOST, ["newer"], host="hv2")
    assert movers.fleet.domains()["hv1"] == []


def test_each_later_run_that_dies(movers: Movers) -> None:
    """Those that follow a change of the same playbook: what is there is what the run says."""
    host, domains = movers.fleet.host, movers.fleet.domains
    movers.make(_THERE, start=False)
    alone = movers.fleet.alone("hv1")
    said = [_THERE, "it has its old name again"]
    _dies(movers, "rename", "virt_rename.3.before", _RENAMED, said)
    assert domains()["hv1"] == [_THERE]
    _dies(movers, "rename", "virt_rename.4.before", _RENAMED, [_THERE, _NEW], alone=True)
    assert domains()["hv1"] == [_NEW]
    alone.ansible.playbook("rename", _RENAMED).succeeded()
    back = {"vm_name": _NEW, "vm_new_name": _THERE}
    _dies(movers, "rename", "virt_rename.4.after", back, [_THERE, _NEW], alone=True)
    assert domains()["hv1"] == [_THERE]
    assert "renaming" not in movers.metadata("hv1", _THERE)

    bases = "ls /var/lib/libvirt/base"
    before = host("hv1", bases)
    off = {"vm_host": "hv1", "vm_start": "false", "vm_wait": "false"}
    clone = {**_CLONED, "virt_clone_mode": "full", **off}
    _dies(movers, "clone", "virt_init.3.before", clone, [_NEW], alone=True)
    assert domains()["hv1"] == [_THERE]
    _dies(movers, "clone", "virt_image.1.before", clone, alone=True)
    assert domains()["hv1"] == [_NEW, _THERE]
    assert host("hv1", bases) != before
    alone.ansible.playbook("clone", {**movers.fleet.variables, **clone}).succeeded()
    assert host("hv1", bases) == before

    running = {"vm_name": "boots", "vm_image": blank.NAME, "vm_memory": "96", **off}
    running.update(vm_start="true", vm_seed="false")
    alone.provision(**running).succeeded()
    restarts = {**running, "vm_vcpus": "2", "virt_restart": "when_required"}
    ran = "virsh -q domid boots"
    first = host("hv1", ran)
    for run in (1, 2):
        plan = f"virt_state.{run}.before"
        _dies(movers, "provision_vm", plan, restarts, ["boots"], alone=True)
    assert host("hv1", ran) == first

    certificate = "cat /etc/pki/libvirt/servercert.pem"
    signed = host("hv1", certificate)
    renews = {"libvirt_keys_renew": "true"}
    _dies(movers, "renew_keys", "virt_keys.2.before", renews, args=_ALONE)
    assert host("hv1", certificate) == signed
