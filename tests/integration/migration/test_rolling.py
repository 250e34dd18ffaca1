# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work on both hypervisors, one after the other, interrupted once, with one that is not well once.

The tasks make a reboot necessary.

A host of the laboratory that reboots is switched off, and the test starts it again.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support import doctor
from ansible_collections.fleet.virt.tests.integration.support.ansible import Run
from ansible_collections.fleet.virt.tests.integration.support.killing import kill_tree
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from .conftest import Movers

_VM = "rolls1"
_OFF = "rolls2"
_THEIRS = "theirs1"  # somebody's, made by hand and off
_HOSTS = ("hv1", "hv2")
_DONE = "/root/rolling-was-here"
_ILL = "/root/rolling-has-no-space"
_STARTS = "/root/rolling-starts-a-vm"
_TASKS = f"""
- name: Refuse
  ansible.builtin.shell: test ! -e {_ILL} || (echo there is no space >&2; exit 1)
  changed_when: false
  check_mode: false
- name: Count
  ansible.builtin.shell: >-
    echo done >> {_DONE}; touch /run/reboot-required;
    test ! -e {_STARTS} || virsh -q start {_THEIRS}
"""
_DEFINE = f"""
cat >/root/{_THEIRS}.xml <<EOF
<domain type='qemu'>
<name>{_THEIRS}</name><memory unit='MiB'>32</memory><os><type>hvm</type></os>
</domain>
EOF
virsh -q define /root/{_THEIRS}.xml
"""
_ROLLING = "ansible-playbook fleet.virt.rolling -e virt_tasks=upgrade.yml"
# As the guide shows them, each with what it must print
COMMANDS = {
    f"{_ROLLING} --check": r"1 +hv1 +rolls1 to hv2, rolls2 to hv2",
    f"{_ROLLING}": r"hv1: done",
    f"{_ROLLING} -e virt_host=hv2 -e virt_reboot=never --check": r"1 +hv2 +-\n",
    f"{_ROLLING} -e virt_serial=2": r"done: hv1, hv2",
}


@contextlib.contextmanager
def _started_again(movers: Movers) -> Iterator[None]:
    """Whatever host switches itself off is started."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            for host in movers.lab.hosts:
                if host.state != "running":
                    movers.lab.start(host.name)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _count(movers: Movers) -> dict[str, int]:
    told = {host: movers.lab.ssh(host, f"cat {_DONE}", check=False).stdout for host in _HOSTS}
    return {host: text.count("done") for host, text in told.items()}


def _first_process(movers: Movers, host: str) -> str:
    """When it began."""
    return movers.fleet.host(host, "cut -d' ' -f22 /proc/1/stat").strip()


def _marks(movers: Movers, host: str) -> list[str]:
    listed = movers.fleet.host(host, "virsh -q vol-list fleet-notes 2>/dev/null || :")
    names = [line.split()[0] for line in listed.splitlines() if line.strip()]
    return [
        ".".join(name.split(".")[:2]) for name in names if name.startswith(("rolling.", "fleet-"))
    ]


def _roll(movers: Movers, tasks: Path, *, check: bool = False, **variables: Any) -> Run:
    given = {"virt_tasks": str(tasks), **variables}
    return movers.ansible.playbook("rolling", given, check=check, limit=400)


_BOOTS = """
systemctl enable -q libvirtd-tls.socket
for pool in default base; do virsh -q pool-autostart $pool; done
"""
_AS_BEFORE = f"""
systemctl disable -q libvirtd-tls.socket
for pool in default base; do virsh -q pool-autostart --disable $pool; done
for mark in $(virsh -q vol-list fleet-notes | grep -oE '(rolling|fleet-virt)[^ ]*' | sort -u); do
  virsh -q vol-delete $mark fleet-notes 2>/dev/null
done
virsh -q destroy {_THEIRS} 2>/dev/null
virsh -q undefine {_THEIRS} 2>/dev/null
rm -f {_DONE} {_ILL} {_STARTS} /run/reboot-required
"""


@pytest.fixture
def tasks(movers: Movers, tmp_path: Path) -> Iterator[Path]:
    """The user's tasks, on hypervisors that come back from a reboot as real ones do."""
    path = tmp_path / "upgrade.yml"
    path.write_text(_TASKS)
    for host in _HOSTS:
        movers.fleet.host(host, _BOOTS)
    yield path
    for host in _HOSTS:
        movers.lab.ssh(host, _AS_BEFORE, check=False)
        movers.listen(host)


def _begin_and_kill(movers: Movers, tasks: Path) -> None:
    """The playbook, killed when the tasks of the first hypervisor are done."""
    words = (f"-e virt_tasks={tasks}").split()
    process = movers.ansible.begin("ansible-playbook", "fleet.virt.rolling", *words)
    wait_for(lambda: _count(movers)["hv1"] == 1, 240, "the tasks of hv1 are done")
    kill_tree(process.pid)
    process.wait()


def _spoken(run: Run) -> str:
    return " ".join(run.stdout.split())


def test_interrupted_then_not_well_then_done(movers: Movers, tasks: Path) -> None:
    movers.make(_VM)
    movers.make(_OFF, start=False)
    movers.fleet.host("hv1", _DEFINE)
    for command, pattern in COMMANDS.items():
        if "--check" in command:
            program, *words = shlex.split(command.replace("upgrade.yml", str(tasks)))
            plan = movers.ansible.run(program, words, limit=300).succeeded()
            assert re.search(pattern, plan.stdout), str(plan)
            assert [event for event in plan.events if event.task == "Count"], str(plan)
    assert _count(movers) == {"hv1": 0, "hv2": 0}
    assert _marks(movers, "hv1") == []
    assert movers.state("hv1", _VM) == "running"

    with _started_again(movers):
        _begin_and_kill(movers, tasks)
        wait_for(lambda: movers.state("hv2", _VM) == "running", 60, f"{_VM} is on hv2")
        assert _marks(movers, "hv1") == ["fleet-virt.maintenance", "rolling.begun"]
        begun = doctor.the_one(doctor.look(movers.ansible), "rolling_unfinished", "began at", "hv1")
        assert begun["remedy"].startswith("run the command that began it again")
        boots = _first_process(movers, "hv1")

        forbidden = movers.ansible.playbook("state", {"vm_name": _THEIRS, "vm_state": "running"})
        assert forbidden.returncode == 2, str(forbidden)
        assert f"{_THEIRS!r} is not started on hv1: rolling works on this" in _spoken(forbidden)
        assert movers.state("hv1", _THEIRS) == "shut off"
        movers.fleet.host("hv1", f"touch {_STARTS}")
        run = _roll(movers, tasks)
        assert run.returncode == 2, str(run)
        assert f"(/run/reboot-required exists), and {_THEIRS} runs there again" in _spoken(run)
        assert _first_process(movers, "hv1") == boots
        assert movers.state("hv1", _THEIRS) == "running"
        movers.fleet.host("hv1", f"rm {_STARTS}; virsh -q destroy {_THEIRS}")

        movers.fleet.host("hv2", f"touch {_ILL}")
        run = _roll(movers, tasks)
        assert run.returncode == 2, str(run)
        assert "1 hv1 - an interrupted run has begun it" in _spoken(run), str(run)
        assert re.search("hv1: reboot: /run/reboot-required exists", run.stdout), str(run)
        assert re.search("hv1: done; libvirt [0-9.]+, QEMU [0-9.]+, kernel", run.stdout), str(run)
        assert "hv2: not well: Refuse: non-zero return code: there is no space" in run.stdout, str(
            run
        )
        assert "done: hv1; not well: hv2; not begun: none" in run.stdout, str(run)
        assert re.search(r"hv2 +: .* failed=1", run.stdout), str(run)
        assert _first_process(movers, "hv1") != boots
        assert _count(movers) == {"hv1": 3, "hv2": 0}
        assert movers.state("hv1", _VM) == "running"
        assert _marks(movers, "hv1") == ["rolling.passed"]
        assert _marks(movers, "hv2") == ["fleet-virt.maintenance", "rolling.begun"]

        movers.fleet.host("hv2", f"rm {_ILL}")
        (command,) = [one for one in COMMANDS if "virt_serial" in one]
        program, *words = shlex.split(command.replace("upgrade.yml", str(tasks)))
        last = movers.ansible.run(program, words, limit=400).succeeded()
        assert re.search(COMMANDS[command], last.stdout), str(last)
    assert "hv1: passed, it was done by an interrupted run at" in last.stdout, str(last)
    assert _count(movers) == {"hv1": 3, "hv2": 1}
    assert _marks(movers, "hv1") == _marks(movers, "hv2") == []
    assert "rolling_unfinished" not in {one["id"] for one in doctor.look(movers.ansible)}
    assert movers.state("hv1", _VM) == "running"
    assert movers.state("hv1", _OFF) == "shut off"
    assert "evacuated" not in movers.metadata("hv1", _VM)
    assert not [name for name in movers.fleet.domains()["hv1"] if "probe" in name]
