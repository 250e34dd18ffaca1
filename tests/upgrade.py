#!/usr/bin/env python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an earlier commit made is read, finished, changed, moved and purged by this checkout, and
both take turns on one fleet.

    make upgrade [ARGS="--old COMMIT --beside COMMIT"]

A laboratory of two is brought up for it. Modules of the earlier commit are killed right after the
call to libvirt that marks a phase, or so many changing calls later. Both run with this checkout's
Ansible. The last lines are how many expectations there were, and those that were not met; then the
exit status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / ".venv" / "collections")]
sys.path.append(str(CHECKOUT / "tests" / "benchmarks"))

import versions
from ansible_collections.fleet.virt.tests.integration import test_cell
from ansible_collections.fleet.virt.tests.integration.support import blank, offline, tls
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.backup_server import BackupServer
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.power_switch import power_switch
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

# The last commit before what a release reads was promised
OLD = "74031d50"
# One that has notes, cards, and backups: it works on the same fleet, before and after this checkout
BESIDE = "125f4cbd"
SHARED = "/srv/upgrade-shared"
HOSTS = ("hv1", "hv2")
IMAGES = "/var/lib/libvirt/images"
NAME = "upgrade"
Request = dict[str, Any]
Run = Callable[[Request], tuple[int, str]]
lab = Laboratory(NAME)
met: list[str] = []
complaints: list[str] = []

_SITE = r"""
import os
try:
    with open("/run/killing/plan") as file:
        phase, left = file.read().split()
except (OSError, ValueError):
    phase = None
if phase and not os.path.exists("/run/killing/done"):
    import libvirt
    state = {"armed": False, "left": int(left)}
    def hook(kind, name):
        old = getattr(kind, name, None)
        if old is None:
            return
        def new(self, *args, **more):
            result = old(self, *args, **more)
            text = " ".join(word for word in args if isinstance(word, str))
            if not state["armed"] and ">%s<" % phase in text:
                state["armed"] = True
            elif state["armed"]:
                state["left"] -= 1
            if state["armed"] and state["left"] <= 0:
                with open("/run/killing/done", "w") as file:
                    file.write("%s after %s" % (phase, name))
                os.kill(os.getpid(), 9)
            return result
        setattr(kind, name, new)
    for name in ("defineXML", "defineXMLFlags"):
        hook(libvirt.virConnect, name)
    for name in ("setMetadata", "create", "createWithFlags", "undefineFlags", "attachDeviceFlags",
                 "updateDeviceFlags", "detachDeviceFlags", "setAutostart", "destroyFlags",
                 "migrateToURI3", "rename", "snapshotCreateXML"):
        hook(libvirt.virDomain, name)
    hook(libvirt.virStoragePool, "createXML")
    hook(libvirt.virStorageVol, "delete")
"""
_PYTHON = """\
#!/bin/sh
[ ! -e /run/killing/plan ] || export PYTHONPATH=/run/killing/site
exec /usr/bin/python3 "$@"
"""
_CLEAN = f"""
for name in $(virsh list --all --name | grep '^c-'); do
  virsh destroy $name >/dev/null 2>&1
  virsh undefine $name --nvram --managed-save --snapshots-metadata >/dev/null 2>&1
done
rm -rf /run/killing {IMAGES}/c-* /var/log/libvirt/qemu/c-*
virsh pool-refresh default >/dev/null 2>&1
rm -f /var/lib/libvirt/fleet-notes/*
[ ! -e /etc/libvirt/storage/fleet-notes.xml ] || virsh pool-refresh fleet-notes >/dev/null 2>&1; :
"""


def expect(what: str, true: object, detail: str = "") -> None:
    (met if true else complaints).append(what)
    print(f"{'ok  ' if true else 'FAIL'} {what}", flush=True)
    if not true:
        print("     | " + "\n     | ".join(detail.strip().splitlines()[-25:]), flush=True)


def ssh(host: str, command: str, *, check: bool = False) -> str:
    done = lab.ssh(host, command, check=check)
    return done.stdout + done.stderr


def xml(name: str, host: str = "hv1") -> str:
    return ssh(host, f"virsh dumpxml --inactive {name}")


def domains(host: str) -> list[str]:
    return [name for name in ssh(host, "virsh list --all --name").split() if name.startswith("c-")]


def files(host: str, name: str) -> list[str]:
    return ssh(host, f"ls {IMAGES} | grep '^{name}[_.]'").split()


class Arm:
    """The playbooks and modules of a collection."""

    def __init__(self, name: str, collections: Path, folder: Path) -> None:
        self.name, self.collections, self.folder = name, collections, folder
        self.variables = {
            "virt_image_dir": str(folder),
            "virt_ssh_public_key": f"{lab.key}.pub",
            "virt_vcpu_ratio": 100,
        }

    def command(self, program: str, *words: str) -> tuple[int, str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("ANSIBLE_") and key != "PYTHONDONTWRITEBYTECODE"
        }
        environment = {
            **kept,
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
            "ANSIBLE_HOME": str(self.folder / f"home-{self.name}"),
            "ANSIBLE_FORKS": "20",
            "ANSIBLE_NOCOLOR": "1",
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            [str(Path(sys.executable).parent / program), "-i", str(lab.inventory), *words],
            env=environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def play(self, playbook: str, *, check: bool = False, **variables: object) -> tuple[int, str]:
        words = ["--check"] if check else []
        given = json.dumps({**self.variables, **variables})
        return self.command("ansible-playbook", f"fleet.virt.{playbook}", *words, "-e", given)

    def module(self, module: str, arguments: Request, **variables: object) -> tuple[int, str]:
        given = json.dumps({**self.variables, **variables})
        words = ["hv1", "-b", "-m", f"fleet.virt.{module}", "-a", json.dumps(arguments)]
        return self.command("ansible", *words, "-e", given)

    def done(
        self, playbook: str, what: str, says: str = "", check: bool = False, **variables: object
    ) -> str:
        code, text = self.play(playbook, check=check, **variables)
        more = f", says {says!r}" if says else ""
        good = code == 0 and says in text
        expect(f"{self.name}: {playbook}: {what}: rc 0{more}", good, f"rc {code}\n{text}")
        return text

    def killed(self, what: str, phase: str, after: int, run: Run) -> None:
        """``run`` with the module on hv1 killed; the command must have failed."""
        plan = "/run/killing/plan"
        ssh("hv1", f"rm -f /run/killing/done; echo {phase} {after} > {plan}", check=True)
        code, text = run({"ansible_python_interpreter": "/run/killing/python3"})
        said = ssh("hv1", f"cat /run/killing/done; rm -f {plan}")
        expect(
            f"{self.name}: {what}: killed ({said.strip()}), rc {code} is not 0",
            said.startswith(phase) and code != 0,
            f"rc {code}\n{said}\n{text}",
        )


def phase_of(name: str, host: str = "hv1") -> str:
    text = xml(name, host)
    for phase in (
        "creating",
        "starting",
        "migrating",
        "purging",
        "seeding",
        "changing",
        "renaming",
    ):
        if f">{phase}<" in text:
            return phase
    return "" if "<domain" in text else "absent"


def vm(name: str, **more: object) -> Request:
    return {
        "name": name,
        "memory": 64,
        "image": blank.NAME,
        "host": "hv1",
        "wait": False,
        "seed": False,
        "start": False,
        **more,
    }


SEED = {"files": [{"path": "/etc/motd", "content": "once\n"}]}
STATIC = {"network": [{"name": "eth0", "addresses": ["192.0.2.10/24"]}]}
TWO = [{"name": "system", "image": blank.NAME}, {"name": "data", "size": "16MiB"}]
WHOLE = {
    "c-plain": vm("c-plain", start=True),
    "c-seed": vm("c-seed", seed=SEED),
    "c-static": vm("c-static", seed=STATIC),
    "c-auto": vm("c-auto", autostart=True),
    "c-groups": vm("c-groups", groups=["web", "shop"]),
    "c-snap": vm("c-snap"),
    "c-ren": vm("c-ren"),
    "c-purge": vm("c-purge"),
    "c-change": vm("c-change"),
    "c-move0": vm("c-move0"),
    "c-move1": vm("c-move1", start=True),
    "c-move3": vm("c-move3"),
}
HALF = {  # killed while they are created: phase, changing calls after its mark
    "c-claim": ("creating", 0),
    "c-creating1": ("creating", 1),
    "c-creating2": ("creating", 2),
    "c-creating4": ("creating", 4),
    "c-starting": ("starting", 0),
}
SEEDED = {"name": "c-kseed", "method": "offline", "files": SEED["files"]}


def made_by(old: Arm) -> None:
    old.done("provision_vm", "12 VMs", virt_vms=list(WHOLE.values()))
    old.done("snapshot", "c-snap", vm_name="c-snap", virt_snapshot="before")
    for name, (phase, after) in HALF.items():
        request = vm(name, start=phase == "starting", seed=SEED)
        alone = {key: value for key, value in request.items() if key not in ("host", "wait")}
        run = {  # the playbook would withdraw the claim of a module that gave no answer
            True: lambda more, alone=alone: old.module("virt_init", alone, **more),
            False: lambda more, request=request: old.play(
                "provision_vm", virt_vms=[request], **more
            ),
        }
        old.killed(f"creation of {name}", phase, after, run[name == "c-claim"])
        expect(f"{name} is in phase {phase}", phase_of(name) == phase, xml(name))
    old.killed(
        "rename of c-ren",
        "renaming",
        0,
        lambda more: old.play("rename", vm_name="c-ren", vm_new_name="c-renamed", **more),
    )
    expect("c-ren is half renamed", "renaming" in (phase_of("c-ren"), phase_of("c-renamed")))
    old.killed(
        "purge_vm of c-purge",
        "purging",
        1,
        lambda more: old.play("purge_vm", vm_name="c-purge", **more),
    )
    expect("c-purge is half purged", phase_of("c-purge") == "purging", xml("c-purge"))
    old.killed(
        "change of c-change",
        "changing",
        1,
        lambda more: old.play(
            "provision_vm", virt_vms=[{**WHOLE["c-change"], "image": None, "disks": TWO}], **more
        ),
    )
    expect("c-change is half changed", phase_of("c-change") == "changing", xml("c-change"))
    for name, after in (("c-move0", 0), ("c-move1", 1), ("c-move3", 3)):
        old.killed(
            f"migrate_vm of {name}",
            "migrating",
            after,
            lambda more, name=name: old.play("migrate_vm", vm_name=name, vm_host="hv2", **more),
        )
        expect(
            f"{name} is half moved",
            phase_of(name) == "migrating",
            xml(name) + ssh("hv2", "virsh list --all"),
        )
    print("     hv2 has", ssh("hv2", "virsh list --all --name").split())
    code, text = old.module(
        "virt_init",
        {
            "name": "c-kseed",
            "memory": 64,
            "start": False,
            "seed": False,
            "image": f"{offline.FOLDER}/small.raw",
        },
    )
    expect("old: virt_init of c-kseed: rc 0", code == 0, text)
    old.killed(
        "virt_seed of c-kseed", "seeding", 0, lambda more: old.module("virt_seed", SEEDED, **more)
    )
    expect("c-kseed is in phase seeding", phase_of("c-kseed") == "seeding", xml("c-kseed"))


def read_by(new: Arm) -> None:
    names = [*WHOLE, *HALF, "c-kseed"]
    text = new.done("list", "what the old version left")
    lacking = [name for name in names if name not in text and name != "c-ren"]
    expect(f"new: list has all {len(names)} names", not lacking, f"{lacking}\n{text}")
    for word in ("creating", "starting", "purging", "seeding", "changing", "renaming"):
        expect(f"new: list says in phase {word}", f"in phase {word}" in text, text)
    expect("new: list says moving to hv2, of three", text.count("moving to hv2") == 3, text)
    text = new.done("query", "the same")
    lacking = [name for name in names if name not in text and name != "c-ren"]
    expect("new: query has them all", not lacking, f"{lacking}\n{text}")
    text = new.done("snapshots", "of c-snap", says="before", vm_name="c-snap")
    requests = [
        WHOLE[name] for name in ("c-plain", "c-seed", "c-static", "c-auto", "c-groups", "c-snap")
    ]
    text = new.done("provision_vm", "the same request in check mode", virt_vms=requests, check=True)
    before = {name: xml(name) for name in WHOLE}
    text = new.done("provision_vm", "the same request", says="unchanged", virt_vms=requests)
    for name in (request["name"] for request in requests):
        expect(
            f"{name}: unchanged, its XML byte for byte",
            any(name in line and "unchanged" in line for line in text.splitlines())
            and xml(name) == before[name],
            text,
        )


def finished_by(new: Arm) -> None:
    requests = {
        name: vm(name, start=phase == "starting", seed=SEED)
        for name, (phase, _after) in HALF.items()
    }
    for name, request in requests.items():
        new.done("provision_vm", f"{name} again", says="created", virt_vms=[request])
        expect(
            f"{name} is whole: no phase, a disk and a seed",
            phase_of(name) == "" and len(files("hv1", name)) == 2,
            xml(name) + str(files("hv1", name)),
        )
    text = new.done(
        "provision_vm", "all of them once more", says="unchanged", virt_vms=list(requests.values())
    )
    expect("nothing is created again", " created" not in text, text)
    expect("c-starting runs", "running" in ssh("hv1", "virsh domstate c-starting"))
    code, text = new.module("virt_seed", SEEDED)
    expect("new: virt_seed of c-kseed: rc 0", code == 0, text)
    motd = ssh(
        "hv1",
        f"LIBGUESTFS_BACKEND=direct guestfish --ro -a {IMAGES}/c-kseed_system.qcow2"
        " run : mount /dev/sda / : cat /etc/motd",
    )
    expect(
        "c-kseed: no phase, /etc/motd written once",
        phase_of("c-kseed") == "" and motd.strip() == "once",
        xml("c-kseed") + motd,
    )
    new.done("rename", "c-ren again", vm_name="c-ren", vm_new_name="c-renamed")
    expect(
        "c-renamed alone is there, without phase",
        phase_of("c-renamed") == "" and "c-ren" not in domains("hv1"),
        str(domains("hv1")),
    )
    new.done("purge_vm", "c-purge again", vm_name="c-purge")
    expect(
        "c-purge and its files are gone",
        "c-purge" not in domains("hv1") and not files("hv1", "c-purge"),
    )
    new.done(
        "provision_vm",
        "the change of c-change again",
        virt_vms=[{**WHOLE["c-change"], "image": None, "disks": TWO}],
    )
    expect(
        "c-change has two disks and no phase",
        phase_of("c-change") == "" and len(files("hv1", "c-change")) == 2,
        xml("c-change") + str(files("hv1", "c-change")),
    )
    new.done("repair_vms", "half moves")
    for name in ("c-move0", "c-move1", "c-move3"):
        there = [host for host in HOSTS if name in domains(host)]
        expect(
            f"{name} is on exactly one hypervisor ({there}), without phase",
            len(there) == 1 and phase_of(name, there[0]) == "",
            str(there),
        )
    new.done("migrate_vm", "c-move1, which runs", vm_name="c-move1", vm_host="hv2")
    expect(
        "c-move1 runs on hv2 alone",
        "running" in ssh("hv2", "virsh domstate c-move1") and "c-move1" not in domains("hv1"),
    )


def used_by(new: Arm) -> None:
    here = sorted(domains("hv1"))
    new.done(
        "snapshot",
        "c-snap reverted",
        vm_name="c-snap",
        virt_snapshot="before",
        virt_snapshot_state="reverted",
    )
    changed = [
        {"name": name, "memory": 96, "host": "hv1", "wait": False}
        for name in ("c-seed", "c-static", "c-auto", "c-groups", "c-creating2")
    ]
    new.done("provision_vm", "memory of five", says="changed", virt_vms=changed)
    for request in changed:
        name = request["name"]
        expect(f"{name} has 96 MiB", f"<memory unit='KiB'>{96 * 1024}<" in xml(name), xml(name))
    expect(
        "c-auto still starts with its hypervisor",
        "enable" in ssh("hv1", "virsh dominfo c-auto | grep Autostart"),
    )
    new.done("state", "c-plain off", vm_name="c-plain", vm_state="shutoff", vm_force=True)
    new.done("state", "c-plain on", vm_name="c-plain", vm_state="running")
    seeded = [
        "c-claim",
        "c-creating1",
        "c-creating2",
        "c-creating4",
        "c-seed",
        "c-starting",
        "c-static",
    ]
    code, text = new.play("migrate_vm", vm_name="c-seed", vm_host="hv2", check=True)
    remedy = "virsh change-media c-seed sda --eject --live --config"
    expect(
        "new: a move with the seed still in the drive is refused with the remedy",
        code != 0 and "still in the drive" in text,
        text,
    )
    expect("it names the command", remedy in text, text)
    for name in seeded:
        code, text = new.module("virt_seed", {"name": name, "state": "absent"})
        expect(
            f"new: virt_seed state=absent of {name}: rc 0",
            code == 0 and "_seed.iso" not in xml(name),
            text,
        )
    new.done("migrate_vm", f"all {len(here)} to hv2", virt_names=here, vm_host="hv2")
    expect(
        "hv1 has none of them, hv2 all",
        not domains("hv1") and set(here) <= set(domains("hv2")),
        f"{domains('hv1')} {domains('hv2')}",
    )
    expect(
        "c-groups kept its groups, c-static its address",
        "shop" in xml("c-groups", "hv2") and "192.0.2.10" in xml("c-static", "hv2"),
    )
    expect(
        "c-auto starts with hv2", "enable" in ssh("hv2", "virsh dominfo c-auto | grep Autostart")
    )
    expect("c-snap kept its snapshot", "before" in ssh("hv2", "virsh snapshot-list c-snap --name"))
    names = sorted(domains("hv2"))
    new.done("purge_vm", f"all {len(names)}", virt_names=names, vm_force=True)
    for host in HOSTS:
        expect(
            f"{host}: no domain and no file is left",
            not domains(host) and not ssh(host, f"ls {IMAGES} | grep '^c-'").split(),
            ssh(host, f"virsh list --all; ls -la {IMAGES}"),
        )


def cards(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.fleet.xml"))


def takes_turns(old: Arm, new: Arm, folder: Path) -> None:
    """VMs on shared storage: each collection reads the cards, notes and metadata of the other."""
    disks = [{"name": "system", "image": blank.NAME, "pool": "upgrade"}]
    request = vm("c-turn", disks=disks, overlay=False)
    request.pop("image")
    old.done("provision_vm", "c-turn", virt_vms=[request])
    expect("its card is beside its disk", cards(folder) == ["c-turn@hv1.fleet.xml"])
    for arm, other in ((new, old), (old, new)):
        arm.done("provision_vm", "the same request", says="unchanged", virt_vms=[request])
        arm.done("migrate_vm", "c-turn to hv2", vm_name="c-turn", vm_host="hv2")
        expect(f"{arm.name}: its card says so", cards(folder) == ["c-turn@hv2.fleet.xml"])
        text = other.done("list", "after that", says="c-turn")
        expect(f"{other.name}: no leftover", "leftover" not in text, text)
        other.done("state", "on", vm_name="c-turn", vm_state="running", vm_autostart=True)
        arm.done("state", "off", vm_name="c-turn", vm_state="shutoff", vm_force=True)
        other.done("migrate_vm", "c-turn back", vm_name="c-turn", vm_host="hv1")
        arm.done("state", "no autostart", vm_name="c-turn", vm_autostart=False)
        text = arm.done("repair_vms", "nothing to repair")
        expect(f"{arm.name}: it changed nothing", "changed=1" not in text, text)
        expect(f"{arm.name}: one card", cards(folder) == ["c-turn@hv1.fleet.xml"])
    for arm, other in ((new, old), (old, new)):
        second = f"c-turn-{arm.name}"
        name = "c-turn" if arm is new else "c-turn-new"
        arm.done("rename", f"{name} to {second}", vm_name=name, vm_new_name=second)
        expect(f"{arm.name}: the card as well", cards(folder) == [f"{second}@hv1.fleet.xml"])
        text = other.done("list", f"{second} alone", says=second)
        expect(f"{other.name}: not {name} as well", f"{name} " not in text, text)
    for arm, other in ((new, old), (old, new)):
        taken = vm(f"c-note-{arm.name}")
        arm.done("provision_vm", taken["name"], virt_vms=[taken])
        other.done("provision_vm", "the same request", says="unchanged", virt_vms=[taken])
        other.done("purge_vm", taken["name"], vm_name=taken["name"], vm_force=True)
    new.done("purge_vm", "c-turn-old", vm_name="c-turn-old", vm_force=True)
    expect("no card and no disk is left", not cards(folder) and not list(folder.glob("c-*")))


def saves_in_turns(old: Arm, new: Arm, server: BackupServer) -> None:
    """One repository: archives, proofs and what is remembered of them."""
    given: dict[str, object] = {**server.variables, "vm_name": "c-saved"}
    known = new.folder / "known.json"
    prune = {**given, "virt_keep": {"last": 2}, "virt_backup_known": str(known)}
    old.done("provision_vm", "c-saved", virt_vms=[vm("c-saved", host="hv1")])
    for arm in (old, new, old, new):
        arm.done("backup", "c-saved", says="saved", **given)
        time.sleep(1.1)
    for arm in (old, new):
        text = arm.done("backups", "of both", **server.variables)
        expect(f"{arm.name}: four backups of one VM", "4 backups of 1 VM" in text, text)
    names = server.archives("c-saved", "hv1")
    old.done("prune_backups", "two go", **prune)
    expect("two are left", server.archives("c-saved", "hv1") == names[-2:])
    new.done("backup", "c-saved", says="saved", **given)
    time.sleep(1.1)
    new.done("prune_backups", "one goes, after the old file was read", **prune)
    kept = server.archives("c-saved", "hv1")
    expect("two are left again", len(kept) == 2 and kept[0] == names[-1], str(kept))
    before = known.read_text()
    code, text = old.play("prune_backups", **prune)
    expect("old: it does not read the new file as empty: rc is not 0", code != 0, text)
    expect("and neither prunes nor forgets", known.read_text() == before, known.read_text())
    expect("nothing was deleted", server.archives("c-saved", "hv1") == kept)
    new.done("prune_backups", "nothing to do", **prune)
    for arm, archive in ((new, kept[0]), (old, kept[1])):  # each what the other made
        copy = f"c-copy-{arm.name}"
        arm.done("restore", archive, **given, vm_new_name=copy, virt_archive=archive, vm_host="hv2")
        expect(f"{copy} is on hv2", copy in domains("hv2"))
    for arm in (old, new):
        arm.done("purge_vm", "a copy", vm_name=f"c-copy-{arm.name}", vm_force=True)
    new.done("purge_vm", "c-saved", vm_name="c-saved", vm_force=True)


class _Fleet(Ansible):
    """Ansible with a collection of its own."""

    def __init__(self, inventory: Path, home: Path, collections: Path) -> None:
        super().__init__(inventory, home)
        self.collections = collections

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**{**more, "ANSIBLE_COLLECTIONS_PATH": str(self.collections)})


def attempt(what: str, function: Callable[[], object]) -> None:
    """That ``function`` asserts nothing in vain."""
    try:
        function()
    except AssertionError as error:
        expect(what, False, str(error) or repr(error))
    else:
        expect(what, True)


def in_a_cell(old: Path, new: Path, folder: Path) -> None:
    """A cell, its agent and its VM made by the old one; each agent starts the VM elsewhere from the
    card that the other collection wrote."""
    place = folder / "cell"
    (shared := place / "shared").mkdir(mode=0o711, parents=True)
    laboratory = Laboratory(f"{NAME}-cell", os.getpid())
    laboratory.up(3, ["trixie"])
    laboratory.directly = True
    hosts = test_cell._HOSTS
    try:
        with contextlib.ExitStack() as mounts, power_switch(laboratory, *hosts) as switch:
            tls.trust(laboratory, hosts, qemu=True)
            cells = {}
            for name, tree in (("old", old), ("new", new)):
                (home := place / name).mkdir()
                fleet = _Fleet(laboratory.inventory, home, tree)
                cells[name] = test_cell.Cell(laboratory, fleet, shared, switch, mounts)
            for host in hosts:
                cells["old"].mount(host)
            _in_a_cell(cells["old"], cells["new"])
    finally:
        laboratory.down()


def _in_a_cell(old: test_cell.Cell, new: test_cell.Cell) -> None:
    by_old, by_new = test_cell._Verbs(old, "hav1"), test_cell._Verbs(new, "hav1")
    by_new.wanted = by_old.wanted  # both ask for the same
    attempt("old: the role makes a cell", lambda: old.run(test_cell.MAKE).succeeded())
    old.all_online()
    pool = {"name": "shared", "path": test_cell._AT, "shared": True}
    old.ansible.module("hypervisors", "virt_pool", {"pools": [pool]})
    attempt("old: a VM of the cell", by_old.provision)

    def starts_elsewhere(agent: str, card: str) -> None:
        (host,) = by_new.pids()
        old.lab.kill(host)
        wait_for(lambda: [*by_new.pids()] not in ([], [host]), 120, "it runs elsewhere")
        time.sleep(5)
        expect(f"{agent} agent, {card} card: it runs once", len(by_new.pids()) == 1)
        old.start(host)
        old.lab.ssh(host, tls.LISTEN)
        old.all_online()
        gone = "virsh list --all --name"
        wait_for(lambda: "hav1" not in old.lab.ssh(host, gone).stdout.split(), 90, "no leftover")
        for name, verbs in (("old", by_old), ("new", by_new)):
            attempt(f"{name}: list after that", lambda verbs=verbs: verbs.play("list"))

    for agent in ("old", "new"):
        for name, verbs in (("old", by_old), ("new", by_new)):
            before = verbs.pids()
            what = f"{agent} agent: {name}:"
            words = f"changed by {name}, with the {agent} agent"
            attempt(f"{what} a change", lambda v=verbs, w=words: v.provision(description=w))
            other = by_new if verbs is by_old else by_old
            attempt(f"{what} which the other reads", other.provision)
            expect(f"{what} nothing restarts it", verbs.pids() == before and len(before) == 1)
            expect(f"{what} one card", verbs.cards() == ["hav1@.fleet.xml"], str(verbs.cards()))
            attempt(f"{what} shut off", lambda v=verbs: v.state("shutoff"))
            expect(f"{what} it is off", not verbs.pids(), str(verbs.pids()))
            attempt(f"{what} started by the other", lambda v=other: v.state("running"))
            there = next(host for host in test_cell._HOSTS if host not in verbs.pids())
            moved = {"vm_name": "hav1", "vm_host": there}
            attempt(f"{what} moved", lambda v=verbs, m=moved: v.play("migrate_vm", **m))
            expect(f"{what} it is there", [*verbs.pids()] == [there], str(verbs.pids()))
            starts_elsewhere(agent, name)
        if agent == "old":
            pids = by_new.pids()
            attempt("new: the role on that cell", lambda: new.run(test_cell.MAKE).succeeded())
            again = new.run(test_cell.MAKE)
            changed = test_cell._changed(again)
            expect("new: again, it changes nothing", not (again.returncode or changed), str(again))
            expect("new: the VM goes on", by_new.pids() == pids)
    attempt("new: purged", lambda: by_new.play("purge_vm", vm_name="hav1", vm_force=True))
    expect("no card is left", not by_new.cards())
    attempt("new: the cell is taken apart", lambda: new.run(test_cell.LEAVE).succeeded())


def earlier(commit: str, folder: Path) -> Path:
    """A collections folder with that commit's."""
    command = ["git", "-c", f"safe.directory={CHECKOUT}", "archive", commit]
    packed = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True).stdout
    target = folder / commit / "ansible_collections" / "fleet" / "virt"
    target.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", target], input=packed, check=True)
    return folder / commit


def prepare() -> None:
    """What modules are killed with, and an image that can be seeded offline."""
    for host in HOSTS:
        ssh(host, versions._PREPARE, check=True)
        ssh(host, "umask 022; mkdir -p /run/killing/site", check=True)
        script = "cat > /run/killing/python3; chmod 755 /run/killing/python3"
        lab.ssh(host, script, input=_PYTHON)
    lab.ssh("hv1", "cat > /run/killing/site/sitecustomize.py", input=_SITE)
    offline.install(lab)
    ssh("hv1", f"rm -rf {offline.FOLDER}; mkdir -p {offline.FOLDER}", check=True)
    offline.build(lab, {"small": ()})


def beside(old: Arm, new: Arm, began: float) -> None:
    """Both collections at work on one fleet, with shared storage and a place of backups."""
    place = old.folder / "shared"
    place.mkdir(mode=0o711)
    server = BackupServer(Guests(lab), Ansible(lab.inventory, old.folder), ("hv1", "hv2"), 1024)
    pool = {"pools": [{"name": "upgrade", "path": SHARED, "shared": True}]}
    with shared_folder(lab, place, SHARED, HOSTS):
        code, text = old.command(
            "ansible", *("hypervisors", "-b", "-m", "fleet.virt.virt_pool", "-a", json.dumps(pool))
        )
        expect("old: the pool on shared storage: rc 0", code == 0, text)
        print(f"\n== takes_turns, {time.monotonic() - began:.0f} s", flush=True)
        takes_turns(old, new, place)
        for host in HOSTS:
            ssh(host, "virsh pool-destroy upgrade; virsh pool-undefine upgrade")
    print(f"\n== saves_in_turns, {time.monotonic() - began:.0f} s", flush=True)
    server.begin()
    try:
        saves_in_turns(old, new, server)
    finally:
        server.end()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--old", default=OLD, help="the earlier commit")
    parser.add_argument("--beside", default=BESIDE, help="that which takes turns")
    every = ("earlier", "beside", "cell")
    parser.add_argument("--only", choices=every, action="append", help="a part (default: all)")
    options = parser.parse_args()
    chosen = options.only or every
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="upgrade-") as place:
        folder = Path(place)
        blank.make(folder / blank.NAME)
        new = Arm("new", CHECKOUT / ".venv" / "collections", folder)
        tree = earlier(options.beside, folder)
        if {"earlier", "beside"} & {*chosen}:
            with tls.trusting(lab, HOSTS):
                for host in HOSTS:
                    ssh(host, _CLEAN)
                if "earlier" in chosen:
                    prepare()
                    old = Arm("old", earlier(options.old, folder), folder)
                    parts = ((made_by, old), (read_by, new), (finished_by, new), (used_by, new))
                    for part, arm in parts:
                        at = time.monotonic() - began
                        print(f"\n== {part.__name__} {arm.name}, {at:.0f} s", flush=True)
                        part(arm)
                if "beside" in chosen:
                    beside(Arm("old", tree, folder), new, began)
        if "cell" in chosen:
            print(f"\n== in_a_cell, {time.monotonic() - began:.0f} s", flush=True)
            in_a_cell(tree, new.collections, folder)
    seconds = time.monotonic() - began
    count = len(met) + len(complaints)
    print(f"\n{count} expectations, {len(complaints)} complaints, {seconds:.0f} s")
    for line in complaints:
        print(f"complaint: {line}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
