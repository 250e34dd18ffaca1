# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_state on real guests: from every state, as check mode says, and a second time nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory
from ansible_collections.fleet.virt.tests.unit.state.operation_cases import CASES

STATE = "fleet.virt.virt_state"
NAME = "state1"
SLEEPS = "<pm><suspend-to-mem enabled='yes'/></pm>"
PANIC = "echo c > /proc/sysrq-trigger"
PHASE = "<metadata><fleet xmlns='urn:fleet.virt:1'><phase>{}</phase></fleet></metadata>"


@pytest.fixture(scope="module")
def guest(all_guests: Guests) -> Iterator[Guests]:
    """One guest that can be suspended, and that is kept when it panics."""
    all_guests.define(
        "hv1", NAME, start=True, top=SLEEPS, on_crash="preserve", devices="<panic model='isa'/>"
    )
    yield all_guests
    all_guests.remove("hv1", NAME)


@pytest.fixture
def awake(guest: Guests) -> Guests:
    """The guest, running, its agent answering, with a file that only this boot of it has."""
    state = guest.state("hv1", NAME)
    if not state.startswith("running"):
        guest.lab.ssh("hv1", f"virsh -q destroy {NAME}; virsh -q start {NAME}", check=False)
    guest.wait_agent("hv1", NAME)
    guest.execute("hv1", NAME, "touch /run/this-boot; rm -f /run/stubborn")
    return guest


def bring(
    ansible: Ansible,
    guest: Guests,
    state: str,
    steps: list[str],
    *,
    verified: bool = False,
    **options: object,
) -> None:
    """Go one way, and see that it is the one expected.

    That check mode tells each way, and a second run finds nothing: tests/unit/state/test_effects.py
    """
    wanted = {"name": NAME, "state": state, **options}
    if verified:
        done = harness.verify(ansible, guest.lab, "hv1", STATE, wanted).real["hv1"]
    else:
        done = ansible.module("hv1", "virt_state", wanted)["hv1"]
    assert done["changed"], done
    (vm,) = done["vms"]
    assert vm["state"] == state
    assert vm["steps"] == steps
    words = {"running": "running", "paused": "paused"}
    assert guest.virsh("hv1", "domstate", NAME).strip() == words.get(state, "shut off")


def same_boot(guest: Guests) -> None:
    guest.wait_agent("hv1", NAME)
    guest.execute("hv1", NAME, "test -e /run/this-boot")


def test_shut_off_started_and_again(ansible: Ansible, awake: Guests) -> None:
    steps = ["shut down, within 60 s"]
    bring(ansible, awake, "shutoff", steps, verified=True, shutdown_timeout=60)
    assert awake.state("hv1", NAME) == "shut off (shutdown)"
    bring(ansible, awake, "running", ["start"], verified=True)


@pytest.mark.parametrize("name", CASES)
def test_operation_as_predicted_on_a_guest(ansible: Ansible, awake: Guests, name: str) -> None:
    wanted = {"name": NAME, name: True}
    for check in (True, False):
        run = ansible.module("hv1", "virt_state", wanted, check=check)["hv1"]
        assert run["changed"], run
        assert [vm["steps"] for vm in run["vms"]] == [CASES[name].steps]
    awake.wait_agent("hv1", NAME)
    awake.execute("hv1", NAME, f"test {'!' if CASES[name].boots else ''} -e /run/this-boot")


def test_paused_is_resumed(ansible: Ansible, awake: Guests) -> None:
    awake.virsh("hv1", "suspend", NAME)
    bring(ansible, awake, "running", ["resume"])
    same_boot(awake)


def test_paused_is_resumed_to_shut_down(ansible: Ansible, awake: Guests) -> None:
    awake.virsh("hv1", "suspend", NAME)
    bring(ansible, awake, "shutoff", ["resume", "shut down, within 120 s"])
    assert awake.state("hv1", NAME) == "shut off (shutdown)"


def test_saved_memory_goes_on(ansible: Ansible, awake: Guests) -> None:
    awake.virsh("hv1", "managedsave", NAME)
    bring(ansible, awake, "running", ["start from its saved memory"])
    same_boot(awake)


def test_paused_and_saved_by_the_module(ansible: Ansible, awake: Guests) -> None:
    bring(ansible, awake, "paused", ["pause"])
    bring(ansible, awake, "saved", ["save its memory and stop"])
    assert awake.state("hv1", NAME) == "shut off (saved)"
    bring(ansible, awake, "running", ["start from its saved memory"])
    same_boot(awake)


def test_the_playbook_finds_them_wherever_they_are(
    ansible: Ansible, lab: Laboratory, guests: Guests
) -> None:
    """Its rounds for one state: what the module does to reach each is shown by the tests above."""
    for host, name in (("hv1", "here1"), ("hv2", "there1")):
        guests.define(host, name, blank=True, paused=True)
    names = {"virt_names": "here1,there1"}
    harness.verify_playbook(
        ansible,
        lab,
        "fleet.virt.state",
        variables={**names, "vm_state": "saved"},
        # the state that is shown: check mode has the present one, a run the one it led to
        predicted_ignore=("output", "rows.*.2"),
    )
    for host, name in (("hv1", "here1"), ("hv2", "there1")):
        assert guests.state(host, name) == "shut off (saved)"
    guests.define("hv2", "here1")
    run = ansible.playbook("state", {**names, "vm_state": "running"})
    assert run.returncode != 0
    assert "'here1' is defined on hv1 and hv2" in run.stdout
    assert guests.virsh("hv2", "domstate", "there1").strip() == "shut off"


ORDER = "<metadata><fleet xmlns='urn:fleet.virt:1'>{}</fleet></metadata>"
FIRST = "<start_order>10</start_order><start_delay>3</start_delay>"
SECOND = "<start_order>20</start_order>"
BRINGS = "Bring the VMs to the state"


def test_the_playbook_starts_in_order_and_back(
    ansible: Ansible, lab: Laboratory, guests: Guests, tmp_path: Path
) -> None:
    """The database on one hypervisor before the server on the other; after a failure no more. What
    came of each is told to the user's hook, and what changed to the hypervisor's journal."""
    guests.define("hv2", "first1", top=ORDER.format(FIRST), blank=True)
    guests.define("hv1", "second1", top=ORDER.format(SECOND), blank=True)
    hook, told = tmp_path / "hook", tmp_path / "told"
    hook.write_text(f"#!/bin/sh\ncat >> {told}\n")
    hook.chmod(0o755)
    names = {"virt_names": "second1,first1", "virt_event_hook": str(hook)}

    def events(text: str) -> list[tuple[str, str, str]]:
        lines = [json.loads(line) for line in text.splitlines()]
        assert {line["person"] for line in lines} <= {"root"}
        of_these = [line for line in lines if line["vm"] in ("first1", "second1")]
        return sorted((line["vm"], line["host"], line["outcome"]) for line in of_these)

    def brought(**variables: object) -> list[str]:
        run = ansible.playbook("state", {**names, **variables}).succeeded()
        return [one.host for one in run.events if one.task == BRINGS and one.status == "ok"]

    predicted = ansible.playbook("state", {**names, "vm_state": "running"}, check=True).succeeded()
    assert predicted.stdout.count("would change") == 2
    assert not told.exists()
    assert brought(vm_state="running") == ["hv2", "hv1"]
    started_both = [("first1", "hv2", "changed"), ("second1", "hv1", "changed")]
    assert events(told.read_text()) == started_both
    for host, event in (("hv2", started_both[0]), ("hv1", started_both[1])):
        journal = "journalctl --identifier fleet.virt --output cat --no-pager"
        wait_for(lambda: event in events(lab.ssh(host, journal).stdout), 30, "its line")  # noqa: B023

    def began(host: str, name: str) -> float:
        return float(lab.ssh(host, f"stat -c %.Y /run/libvirt/qemu/{name}.pid").stdout)

    assert began("hv1", "second1") - began("hv2", "first1") >= 3
    started = time.monotonic()
    assert brought(vm_state="running") == ["hv2", "hv1"]
    assert [event[2] for event in events(told.read_text())].count("unchanged") == 2
    assert sorted(brought(vm_autostart=True)) == ["hv1", "hv2"]  # at once, in any order
    off = {"vm_state": "shutoff", "vm_force": True, "vm_shutdown_timeout": 0}
    assert brought(**off) == ["hv1", "hv2"]
    assert time.monotonic() - started < 60
    at_work = "<phase>purging</phase><start_order>10</start_order>"
    guests.remove("hv2", "first1")
    guests.define("hv2", "first1", top=ORDER.format(at_work))
    told.unlink()
    run = ansible.playbook("state", {**names, "vm_state": "running"})
    assert run.returncode != 0
    assert events(told.read_text()) == [
        ("first1", "hv2", "failed"),
        ("second1", "hv1", "not_tried"),
    ]
    assert "first1 on hv2: 'first1' is in phase purging" in run.stdout
    assert "'second1' was not tried: 'first1', before it by start_order" in run.stdout
    assert guests.virsh("hv1", "domstate", "second1").strip() == "shut off"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"vm_name": "nobody1", "vm_state": "running"}, "no hypervisor has a VM 'nobody1'"),
        ({"vm_name": "nobody1", "vm_state": "runing"}, "value of state must be one of"),
    ],
)
def test_the_playbook_refuses(ansible: Ansible, variables: dict[str, str], words: str) -> None:
    """Other wrong requests: tests/unit/state."""
    run = ansible.playbook("state", variables)
    assert run.returncode != 0
    assert words in run.stdout, str(run)


def test_standby_is_woken(ansible: Ansible, awake: Guests) -> None:
    awake.virsh("hv1", "dompmsuspend", NAME, "mem")
    wait_for(lambda: "pmsuspended" in awake.state("hv1", NAME), 20, "standby")
    bring(ansible, awake, "running", ["wake up"])
    same_boot(awake)


def test_crashed_is_destroyed_and_started(ansible: Ansible, awake: Guests) -> None:
    awake.wait_agent("hv1", NAME)  # it has been woken a moment ago
    awake.execute("hv1", NAME, PANIC, wait=False)
    wait_for(lambda: "crashed" in awake.state("hv1", NAME), 20, "the crash")
    bring(ansible, awake, "running", ["destroy the crashed domain", "start"])


def test_a_killed_qemu_is_started_again(ansible: Ansible, awake: Guests) -> None:
    awake.script("hv1", f"kill -9 $(cat /run/libvirt/qemu/{NAME}.pid)")
    wait_for(lambda: awake.state("hv1", NAME) == "shut off (crashed)", 20, "the end of qemu")
    done = ansible.module("hv1", "virt_state", {"name": NAME, "state": "running"})["hv1"]
    assert done["vms"][0]["steps"] == ["start"]
    assert awake.state("hv1", NAME).startswith("running")
    # in its first seconds the firmware hears no power button, so it is pressed again
    done = ansible.module("hv1", "virt_state", {"name": NAME, "state": "shutoff"})["hv1"]
    assert not done["failed"], done
    assert awake.state("hv1", NAME) == "shut off (shutdown)"


def test_a_guest_that_does_not_listen(ansible: Ansible, awake: Guests) -> None:
    awake.execute("hv1", NAME, "touch /run/stubborn")
    wanted = {"name": NAME, "state": "shutoff", "shutdown_timeout": 4}
    started = time.monotonic()
    done = ansible.module("hv1", "virt_state", wanted)["hv1"]
    assert done["failed"]
    assert not done["changed"]
    assert "'state1' did not shut down within 4 seconds" in done["msg"]
    assert "force" in done["msg"]
    assert done["vms"][0]["state"] == "running"
    assert awake.state("hv1", NAME).startswith("running")
    assert time.monotonic() - started < 30
    done = ansible.module("hv1", "virt_state", {**wanted, "force": True})["hv1"]
    assert not done["failed"], done
    assert done["vms"][0]["msg"] == "destroyed: it did not shut down within 4 seconds"
    assert awake.state("hv1", NAME) == "shut off (destroyed)"


def test_several_at_once_with_autostart(ansible: Ansible, lab: Laboratory, guests: Guests) -> None:
    """What is asked of several happens to all at the same time."""
    names = ["several1", "several2", "several3"]
    for name in names:
        guests.define("hv1", name)
    wanted = {"names": names, "state": "running", "autostart": True}
    done = harness.verify(ansible, lab, "hv1", STATE, wanted)
    assert [vm["steps"] for vm in done.real["hv1"]["vms"]] == [["set autostart", "start"]] * 3
    for name in names:
        guests.wait_agent("hv1", name)
    wanted = {"names": names, "state": "shutoff", "autostart": False}
    off = ansible.module("hv1", "virt_state", wanted)["hv1"]
    assert {vm["state"] for vm in off["vms"]} == {"shutoff"}
    assert not any(vm["autostart"] for vm in off["vms"])


@pytest.mark.parametrize("phase", ["migrating"])
def test_a_phase_is_named_and_nobody_is_touched(
    phase: str, ansible: Ansible, lab: Laboratory, guests: Guests
) -> None:
    guests.define("hv1", "free1")
    guests.define("hv1", "phase1", top=PHASE.format(phase))
    wanted = {"names": ["free1", "phase1"], "state": "running"}
    match = rf"'phase1' is in phase {phase}"
    harness.refuse(ansible, lab, "hv1", STATE, wanted, match=match)


def test_an_unknown_name_is_refused(ansible: Ansible, lab: Laboratory, guests: Guests) -> None:
    guests.define("hv1", "known1")
    wanted = {"names": ["known1", "unknown1"], "state": "running"}
    match = r"no domain 'unknown1' on this hypervisor; there are: .*known1"
    harness.refuse(ansible, lab, "hv1", STATE, wanted, match=match)


def test_saved_memory_that_cannot_be_restored_is_not_thrown_away(
    ansible: Ansible, awake: Guests
) -> None:
    awake.virsh("hv1", "managedsave", NAME)
    image = f"/var/lib/libvirt/qemu/save/{NAME}.save"
    awake.script("hv1", f"cp {image} /run/kept.save; truncate -s 200000 {image}")
    done = ansible.module("hv1", "virt_state", {"name": NAME, "state": "running"})["hv1"]
    assert done["failed"], done
    assert f"virsh managedsave-remove {NAME}" in done["msg"]
    assert done["vms"][0]["state"] == "saved"
    awake.script("hv1", f"mv /run/kept.save {image}")
    done = ansible.module("hv1", "virt_state", {"name": NAME, "state": "running"})["hv1"]
    assert done["vms"][0]["steps"] == ["start from its saved memory"], done
    same_boot(awake)


def test_examples_run_as_written(ansible: Ansible, guests: Guests) -> None:
    for name in ("web1", "db1"):
        guests.define("hv1", name)
    tasks = [example.task for example in documentation.examples("virt_state")]
    run = ansible.play(tasks, "hv1", become=True).succeeded()
    assert [event.status for event in run.events] == ["ok"] * len(tasks)
    assert guests.state("hv1", "web1").startswith("shut off")
