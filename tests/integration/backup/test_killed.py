# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups, restores and proofs are cut off at random moments: the next run is right, nothing is
left, and nothing untrue is recorded.

Environment: FLEET_VIRT_TRIALS is the number of runs that are cut off, of each kind; the seed is
printed and may be given as FLEET_VIRT_SEED.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support import killing
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.backup_server import (
    SECRET,
    BackupServer,
)
from ansible_collections.fleet.virt.tests.integration.support.guests import IMAGES, Guests
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

pytestmark = pytest.mark.trials

VMS = {"hv1": "killed1", "hv2": "killed2"}
_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261128"))
_DISK = f"""
<disk type='file' device='disk'><driver name='qemu' type='raw'/>
<source file='{IMAGES}/{{}}-data.raw'/><target dev='vdb' bus='virtio'/></disk>
"""
# To record a proof, borg wants 512 MiB of free space besides what there is
_MIB = 2048
# A write of the guest that fails is what no backup may cause
_WRITES = """
while dd if=/dev/urandom of=/dev/vdb bs=64k count=4 conv=fsync,notrunc 2>/dev/null; do
  echo $((n=n+1)) > /root/count; sync; sleep 0.2
done >/dev/null 2>&1 && touch /broken &
"""
# Without pipelining, which the playbooks set, a module's name is in its command line
_NAMED = {"ansible_pipelining": False}
# What is waited for, and what is done a while after it is there. What has ended by then is waited
# for once more: a run has several of most.
_BEGUN = """
rm -f /run/ended
until {0} >/dev/null || [ -e /run/ended ]; do sleep 0.05; done
sleep {1:.2f}
until [ -e /run/ended ]; do
  if {0} >/dev/null; then {2} && exit; fi
  sleep 0.05
done
exit 1
"""


def _process(words: str) -> tuple[str, str]:
    return f"pgrep {words}", f"pkill -KILL {words}"


def _module(name: str) -> tuple[str, str]:
    return _process(f"-f '^[^ ]*python3 [^ ]*AnsiballZ_{name}'")


def _unit(name: str, who: str) -> tuple[str, str]:
    running = f"systemctl -q list-units --no-legend --state=running '{name}' | grep ."
    # packages that are upgraded meanwhile have systemd read its units again
    kill = f"systemctl daemon-reload && systemctl kill --kill-who={who} --signal=KILL '{name}'"
    return running, f"{running} && {kill}"


def _libvirtd(while_there: str) -> tuple[str, str]:
    return while_there, "systemctl kill --kill-who=main --signal=KILL libvirtd"


_BORG = _process("-x borg")
_PROOFS, _BACKUPS = "fleet-virt-proof-*", "fleet-virt-backup-*"
# The folder of a socket is removed by the next that opens an image, which is looked at last
_LEFT = """
virsh -q list --all --name | grep proof-
ls -d /run/fleet-virt-proofs/* /var/lib/fleet-virt/proofs/* 2>/dev/null
ls /var/log/libvirt/qemu | grep proof-
ls -d /run/fleet-virt-* | grep -vx -e /run/fleet-virt-proofs -e '/run/fleet-virt-nbd[.].*'
mount | grep -e fleet-virt-proof -e 'borgfs'
pgrep -l '^(borg|qemu-nbd)'
systemctl list-units --all --no-legend 'fleet-virt-*' | grep -v maintenance
true
"""
_DIGEST = """
for path in {0}; do
  qemu-img convert -O raw $path /var/tmp/restored.raw
  sha256sum < /var/tmp/restored.raw; rm /var/tmp/restored.raw
done
"""


@dataclass
class Trials:
    """A place of backups with one of each VM, and the counts of what was cut off."""

    server: BackupServer
    guests: Guests
    chance: random.Random = field(default_factory=lambda: random.Random(_SEED))  # noqa: S311
    hits: collections.Counter[str] = field(default_factory=collections.Counter)
    # The runs that were tried, and those that were hit
    runs: collections.Counter[str] = field(default_factory=collections.Counter)
    cut_off: collections.Counter[str] = field(default_factory=collections.Counter)

    def run(self, playbook: str, **variables: Any) -> Run:
        """Run a playbook with the place of backups."""
        given = {**self.server.variables, **_NAMED, **variables}
        done = self.server.ansible.playbook(playbook, given, limit=300)
        assert SECRET not in done.stdout + done.stderr
        return done

    def cut(
        self,
        number: int,
        ways: Mapping[str, tuple[str, str]],
        within: float,
        playbook: str,
        variables: Mapping[str, str],
    ) -> str:
        """Run a playbook and cut it off on both hypervisors, within so many seconds after what is
        cut off has begun, mostly early; what was done."""
        chosen = {
            host: (self.chance.choice(sorted(ways)), within * self.chance.random() ** 2)
            for host in VMS
        }

        def kill(host: str) -> tuple[str, int]:
            way, after = chosen[host]
            awaited, done = ways[way]
            script = _BEGUN.format(awaited, after, done)
            return way, self.guests.lab.ssh(host, script, check=False, timeout=200).returncode

        with ThreadPoolExecutor(2) as pool:
            kills = [pool.submit(kill, host) for host in VMS]
            ended = self.run(playbook, **variables)
            for host in VMS:
                self.guests.script(host, "touch /run/ended")
            hit = [way for way, status in (kill.result() for kill in kills) if not status]
        self.hits.update(f"{playbook}: {way}" for way in hit)
        self.runs[playbook] += 1
        self.cut_off[playbook] += bool(hit)
        text = f"seed {_SEED}, {playbook} {number}: {chosen}, hit {hit}"
        print(f"{text}, exit status {ended.returncode}, hits {dict(self.hits)}", flush=True)
        return f"{text}\n{ended.stdout}"

    def require_nothing_left(self, what: str) -> None:
        """No VM, unit, process, mount or file of a restore or a proof."""
        for host in VMS:
            seen: list[str] = []

            def is_empty(there: str = host, left: list[str] = seen) -> bool:
                left[:] = self.guests.script(there, f"set +e\n{_LEFT}").splitlines()
                return not left

            try:
                wait_for(is_empty, 60, f"the end on {host}")
            except AssertionError:
                raise AssertionError(f"left on {host}: {seen}, after {what}") from None


@pytest.fixture(scope="module")
def trials(all_guests: Guests, ansible: Ansible) -> Iterator[Trials]:
    server = BackupServer(all_guests, ansible, tuple(VMS), _MIB)
    server.begin()
    for host, name in VMS.items():
        all_guests.script(host, f"truncate -s 16M {IMAGES}/{name}-data.raw")
        all_guests.define(host, name, start=True, devices=_DISK.format(name))
    for host, name in VMS.items():
        all_guests.wait_agent(host, name)
        all_guests.execute(host, name, _WRITES)
    server.backup(*VMS.values())
    kept = Trials(server, all_guests)
    yield kept
    for host, name in VMS.items():
        all_guests.remove(host, name)
        all_guests.script(host, f"rm -f {IMAGES}/{name}*")
    server.end()
    few = [
        name for name, count in kept.runs.items() if count > 4 and 2 * kept.cut_off[name] < count
    ]
    assert not few, f"too few were cut off: {kept.cut_off} of {kept.runs}"


def test_next_backup_succeeds_after_a_kill_at_any_moment(trials: Trials) -> None:
    server, guests = trials.server, trials.guests
    ways = {
        "module": _module("virt_backup"),
        "unit": _unit(_BACKUPS, "main"),
        "all of the unit": _unit(_BACKUPS, "all"),
        "reader": _process("-x qemu-storage-d"),
        "borg": _BORG,
        "libvirtd": _libvirtd(_unit(_BACKUPS, "main")[0]),
    }
    names = ",".join(VMS.values())
    for number in range(_TRIALS):
        what = trials.cut(number, ways, 8, "backup", {"virt_names": names})
        again = trials.run("backup", virt_names=names).stdout
        assert len(re.findall(r"killed\d +hv\d +saved +", again)) == len(VMS), what + again
        server.require_nothing_left()
        for host, name in VMS.items():
            guests.execute(host, name, "test ! -e /broken && test -s /root/count")


def _require_unstartable(trials: Trials, host: str, name: str, what: str) -> None:
    """What was restored in part is there as a VM that cannot be started, or not at all."""
    shown = trials.guests.lab.ssh(host, f"virsh dumpxml --inactive {name}", check=False)
    if shown.returncode == 0 and "phase>creating<" in shown.stdout:
        started = trials.guests.lab.ssh(host, f"virsh start {name}", check=False)
        assert started.returncode, what


def test_next_restore_succeeds_after_a_kill_at_any_moment(trials: Trials) -> None:
    server, guests = trials.server, trials.guests
    ways = {
        "module": _module("virt_restore"),
        "borg": _BORG,
        "writer": _process("-x qemu-nbd"),
        "libvirtd": _libvirtd(_module("virt_restore")[0]),
    }
    archive = server.archives("killed1", "hv1")[0]
    where = f"{server.repository('killed1', 'hv1')}::{archive}"
    manifest = json.loads(server.borg("extract", "--stdout", where, "manifest.json"))
    digests = {file["path"]: file["sha256"] for file in manifest["files"]}
    copy = "killed1-before"
    for number in range(_TRIALS):
        host = trials.chance.choice(sorted(VMS))
        variables = {
            "vm_name": "killed1",
            "vm_new_name": copy,
            "virt_archive": archive,
            "vm_host": host,
        }
        what = trials.cut(number, ways, 3, "restore", variables)
        _require_unstartable(trials, host, copy, what)
        again = trials.run("restore", **variables)
        assert again.returncode == 0, what + str(again)
        assert re.search(rf"{copy} +{host} +restored", again.stdout), what + str(again)
        trials.require_nothing_left(what)
        listed = guests.virsh(host, "domblklist", copy, "--details").splitlines()
        paths = {line.split()[2]: line.split()[3] for line in listed}
        read = guests.script(host, _DIGEST.format(" ".join(paths.values()))).split()[::2]
        assert read == [digests[f"disks/{target}.raw"] for target in paths], what
        guests.remove(host, copy)
        for there in VMS:
            guests.script(there, f"rm {IMAGES}/{copy}* || true")
            files = guests.script(there, f"ls {IMAGES}")
            assert copy not in files, what


def test_next_proof_succeeds_after_a_kill_at_any_moment(trials: Trials) -> None:
    ways = {
        "module": _module("virt_verify_backups"),
        "unit": _unit(_PROOFS, "main"),
        "all of the unit": _unit(_PROOFS, "all"),
        "borg": _BORG,
        "QEMU": _process("-f 'guest=fleet-virt-proof-[0-9a-f]{8}'"),
        "libvirtd": _libvirtd(_unit(_PROOFS, "main")[0]),
    }
    variables = {"virt_names": ",".join(VMS.values()), "virt_boot_seconds": "120"}
    for number in range(_TRIALS):
        what = trials.cut(number, ways, 20, "verify_backups", variables)
        trials.require_nothing_left(what)
        listed = trials.run("backups").succeeded().stdout
        assert not re.search(r"killed\d .* failed ", listed), what + listed
        again = trials.run("verify_backups", **variables)
        assert again.returncode == 0, what + str(again)
        assert len(re.findall(r"killed\d +\S+Z +hv\d +proven", again.stdout)) == len(VMS), again
        trials.require_nothing_left(what)
        for host, name in VMS.items():
            trials.guests.execute(host, name, "test ! -e /broken")


def _other(trials: Trials, folder: Path) -> Ansible:
    return Ansible(trials.server.ansible.inventory, folder)


def test_restore_that_is_killed_before_an_effect_is_finished_by_the_next_run(
    trials: Trials, tmp_path: Path
) -> None:
    """Before each effect in turn, while another controller restores the same; then once more."""
    server, guests = trials.server, trials.guests
    other = _other(trials, tmp_path)
    archive = server.archives("killed1", "hv1")[0]
    where = f"{server.repository('killed1', 'hv1')}::{archive}"
    manifest = json.loads(server.borg("extract", "--stdout", where, "manifest.json"))
    digests = {file["path"]: file["sha256"] for file in manifest["files"]}
    copy, number, hits = "killed1-copy", 1, 0
    given = {**server.variables, "vm_name": "killed1", "vm_new_name": copy, "virt_archive": archive}
    for trial in range(_TRIALS):
        host = sorted(VMS)[trial % 2]
        words = {**given, "vm_host": host}
        dying = killing.Mortal(guests.lab, host, "virt_restore", "creating", number)
        by = {"ansible_python_interpreter": dying.interpreter}

        def restore(who: int) -> Run:
            time.sleep(who * (trial % 3))  # noqa: B023
            chosen = {**words, **({} if who else by)}  # noqa: B023
            return (other if who else server.ansible).playbook("restore", chosen, limit=300)

        with ThreadPoolExecutor(2) as both:
            runs = list(both.map(restore, range(2)))
        effects = dying.effects()
        killed = dying.killed
        hits += killed
        text = f"{runs[0]}\n{runs[1]}\n{effects}"
        assert not killed or runs[0].returncode, text
        if killed and runs[1].returncode:
            _require_unstartable(trials, host, copy, text)
        again = server.ansible.playbook("restore", words, limit=300)
        text += str(again)
        assert again.returncode == 0, text
        print(
            f"restore {trial}: {host}, killed {killed} at effect {number} of {len(effects)}"
            f" ({effects[-1:]}), {[run.returncode for run in runs]}, {hits} hits"
        )
        trials.require_nothing_left(text)
        listed = guests.virsh(host, "domblklist", copy, "--details").splitlines()
        paths = {line.split()[2]: line.split()[3] for line in listed}
        read = guests.script(host, _DIGEST.format(" ".join(paths.values()))).split()[::2]
        assert read == [digests[f"disks/{target}.raw"] for target in paths], text
        for there in VMS:
            names = guests.virsh(there, "list", "--all", "--name").split()
            assert (copy in names) == (there == host), text
        guests.remove(host, copy)
        for there in VMS:
            guests.script(there, f"rm {IMAGES}/{copy}* || true")
            assert copy not in guests.script(there, f"ls {IMAGES}"), text
        number = number + 1 if killed else 1
    for host in VMS:
        server.ansible.playbook("restore", {**given, "vm_host": host}, limit=300).succeeded()
        guests.remove(host, copy)
        guests.script(host, f"rm {IMAGES}/{copy}*")
        assert not guests.script(host, "ls /run | grep fleet-virt-nbd || true").strip()
    assert 2 * hits >= _TRIALS, f"too few were hit: {hits} of {_TRIALS}"


def test_pruning_that_is_killed_at_its_borg_deletes_only_what_the_policy_lets_go(
    trials: Trials, tmp_path: Path
) -> None:
    """The borg that deletes is killed once it is there, while another controller prunes too."""
    server, other = trials.server, _other(trials, tmp_path)
    policy = {**server.variables, "virt_names": "killed1", "virt_keep": {"last": 2}}
    server.ansible.playbook("prune_backups", policy, limit=300)  # one that it does not know yet
    near, hits = server.variables["virt_backup_read_from"].encode(), 0
    for trial in range(min(_TRIALS, 10)):
        while len(server.archives("killed1", "hv1")) < 4:
            server.backup("killed1")
            time.sleep(1.1)
        names = [one for one in server.archives("killed1", "hv1") if one[:2] == "20"]
        server.ansible.playbook("backups", server.variables, limit=300).succeeded()
        over = threading.Event()
        wanted = (b"delete", b"compact")[trial % 2]

        def kill() -> bool:
            """End the borg that deletes, or frees the space, a moment after it is there."""
            while not over.wait(0.005):  # noqa: B023
                for command in Path("/proc").glob("[0-9]*/cmdline"):
                    with contextlib.suppress(OSError):
                        words = command.read_bytes().split(b"\0")
                        if wanted in words and any(near in word for word in words):  # noqa: B023
                            time.sleep(0.1 * (trial % 5))  # noqa: B023
                            os.kill(int(command.parent.name), signal.SIGKILL)
                            return True
            return False

        def prune(who: int) -> Run:
            time.sleep(who * trial % 4)  # noqa: B023
            return (other if who else server.ansible).playbook("prune_backups", policy, limit=300)

        with ThreadPoolExecutor(3) as three:
            killer = three.submit(kill)
            runs = list(three.map(prune, range(2)))
            over.set()
            hit = killer.result()
        hits += hit
        again = server.ansible.playbook("prune_backups", policy, limit=300)
        text = f"{runs[0]}\n{runs[1]}\n{again}"
        assert again.returncode == 0, text
        left = [one for one in server.archives("killed1", "hv1") if one[:2] == "20"]
        print(
            f"prune {trial}: hit {hit}, {[run.returncode for run in runs]}, {len(names)} to {left}"
        )
        assert left == names[-2:], text
        checked = server.borg("check", server.repository("killed1", "hv1"))
        assert not checked.strip(), checked
    assert 2 * hits >= min(_TRIALS, 10), hits
