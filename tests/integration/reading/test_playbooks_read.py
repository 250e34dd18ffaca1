# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks host_info, list and query: for people and for programs, whatever is down."""

from __future__ import annotations

import csv
import json
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.reading.conftest import Fleet
from ansible_collections.fleet.virt.tests.integration.support.ansible import (
    PLAIN_SSH_ARGS,
    SSH_ARGS,
    Ansible,
    Run,
)
from ansible_collections.fleet.virt.tests.integration.support.documented import undocumented
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

PLAYBOOKS = ["host_info", "list", "query"]


@pytest.fixture(scope="module")
def dead(lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An inventory with one more hypervisor, hv9, at an address where nobody is."""
    hypervisors = (lab.inventory / "10-hypervisors.yml").read_text(encoding="utf-8")
    folder = tmp_path_factory.mktemp("dead")
    more = f'    hv9:\n      ansible_host: "{lab.network[250]}"\n      ansible_user: root\n'
    head, tail = hypervisors.split("bare:", 1)
    text = f"{head.rstrip()}\n{more}bare:{tail}"
    (folder / "10-hypervisors.yml").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def cut(lab: Laboratory, ansible: Ansible) -> Iterator[str]:
    """hv2 with its cable cut while Ansible holds a connection to it, which does not notice."""
    # a connection of its own; a folder of pytest's would be too long a name for a socket
    sockets = tempfile.mkdtemp(prefix="fleet-virt-")
    ansible.ssh_args = f"{PLAIN_SSH_ARGS} -o ControlPath={sockets}/%C"
    assert not ansible.module("hv2", "ansible.builtin.ping")["hv2"]["unreachable"]
    lab.cut("hv2")
    try:
        yield "hv2"
    finally:
        lab.heal("hv2")
        for path in Path(sockets).iterdir():
            command = ["ssh", "-o", f"ControlPath={path}", "-O", "exit", "any"]
            subprocess.run(command, capture_output=True, check=False)
        shutil.rmtree(sockets, ignore_errors=True)  # ssh takes its socket away as it ends
        ansible.ssh_args = SSH_ARGS
        ping = "ansible.builtin.ping"
        wait_for(lambda: not ansible.module("hv2", ping)["hv2"]["unreachable"], 60, "hv2 again")


def _shown(run: Run) -> str:
    """What the playbook printed between Ansible's own lines, once all is known."""
    lines = run.stdout.split("TASK [Show the results")[-1].splitlines()[1:]
    end = next(i for i, line in enumerate(lines) if line.startswith(("ok:", "changed:", "fatal:")))
    return "\n".join(lines[:end]).rstrip() + "\n"


def _documented(run: Run) -> bool:
    """Whether the showing task returned what its documentation says."""
    result = run.of("Show the results")["hv1"]
    known = {key: result[key] for key in ("hypervisors", "output")}
    return undocumented("virt_show", known) == []


def test_b15_list(ansible: Ansible, fleet: Fleet) -> None:
    """One line a domain with hypervisor, name, state and reason; broken ones are named."""
    assert fleet.guests.made
    run = ansible.playbook("list").succeeded()
    assert _documented(run)
    shown = _shown(run)
    rows = [line.split() for line in shown.splitlines()]
    assert rows[0] == ["HYPERVISOR", "NAME", "STATE", "REASON"]
    for row in (
        ["hv1", "web1", "running", "booted"],
        ["hv1", "paused1", "paused", "user"],
        ["hv1", "saved1", "shutoff", "saved"],
        ["hv1", "killed1", "shutoff", "crashed"],
        ["hv2", "crashed2", "crashed", "panicked"],
        ["hv2", "web2", "running", "booted"],
    ):
        assert row in rows
    assert "hv1: broken1: disk vda: the file is not a qcow2 image" in shown
    assert not fleet.trap.exists()


def test_b14_query(ansible: Ansible, fleet: Fleet) -> None:
    """The fields people know from the predecessor: CPU, memory, state, graphics, disks, NICs."""
    shown = _shown(ansible.playbook("query").succeeded())
    hv1 = shown.split("hv2:\n")[0]
    web1 = hv1.split("  web1\n")[1]
    for line in (
        "    CPU: 2",
        "    Memory: 128 MiB",
        "    State: running (booted)",
        "    Graphics: vnc - hv1:59",
        "    Graphics: spice - hv1:59",
        "    Disk - vda:\n      Size: 48.0M\n      File: /var/lib/libvirt/images/web1.qcow2\n"
        "      File Format: qcow2",
        "    Disk - vdd:\n      Size: 8.0M\n      File: nbd://127.0.0.1:10809/test\n"
        "      File Format: raw",
        "    CD drive - sda: empty",
        "      Source: br0\n      Type: bridge",
        "      Source: -\n      Type: ethernet",
    ):
        assert line in web1, f"{line!r} is not in\n{web1}"
    assert web1.count("    Nic - 52:54:00:") == 5
    assert "      Addresses: 198." in web1
    assert not fleet.trap.exists()


def test_b15_host_info(ansible: Ansible, fleet: Fleet) -> None:
    """One line a hypervisor."""
    run = ansible.playbook("host_info").succeeded()
    assert _documented(run)
    shown = _shown(run)
    above, heads, *rows = (line.split() for line in shown.splitlines())
    assert above == ["CPUS", "MEMORY", "MIB", "DOMAINS"]
    assert heads[:4] == ["HYPERVISOR", "STATE", "TYPE", "TOTAL"]
    assert [row[:2] for row in rows] == [["hv1", "ready"], ["hv2", "ready"], ["TOTAL", "2"]]
    assert int(rows[2][5]) == int(rows[0][3]) + int(rows[1][3])
    assert rows[0][-1].startswith("default:")
    kind = "kvm/qemu" if fleet.guests.lab.record.kvm else "qemu"
    assert rows[0][2] == kind


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_json_in_a_file(ansible: Ansible, fleet: Fleet, playbook: str, tmp_path: Path) -> None:
    """The same as data, for programs; nobody else may read the file."""
    assert fleet.guests.made
    path = tmp_path / "out.json"
    strings = {
        "virt_output": "json",
        "virt_output_file": str(path),
        "virt_hosts": "hypervisors",
        "virt_uri": "qemu:///system",
        "virt_become": "true",
        "virt_timeout": "60",
    }
    ansible.playbook(playbook, strings).succeeded()
    data = json.loads(path.read_text(encoding="utf-8"))
    assert [(one["name"], one["answered"], one["error"]) for one in data["hypervisors"]] == [
        ("hv1", True, None),
        ("hv2", True, None),
    ]
    if playbook == "host_info":
        assert data["hypervisors"][0]["host"]["uri"] == "qemu:///system"
    else:
        names = [one["name"] for one in data["hypervisors"][0]["domains"]]
        assert names == sorted(names)
        assert "web1" in names
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_json_is_printed(ansible: Ansible, fleet: Fleet) -> None:
    """Without a file the same text is printed."""
    assert fleet.guests.made
    run = ansible.playbook("list", {"virt_output": "json"}, ["--limit", "hv2"]).succeeded()
    (hypervisor,) = json.loads(_shown(run))["hypervisors"]
    assert {one["name"] for one in hypervisor["domains"]} >= {"crashed2", "web2"}


def test_the_file_changes_when_its_content_does(
    ansible: Ansible, fleet: Fleet, tmp_path: Path
) -> None:
    """Check mode predicts and writes nothing; the same again is no change."""
    assert fleet.guests.made
    path = tmp_path / "list"
    variables = {"virt_output_file": str(path)}
    show = "Show the results"

    def changed(check: bool) -> Any:
        run = ansible.playbook("list", variables, check=check).succeeded()
        return run.of(show)["hv1"]["changed"]

    assert changed(check=True) is True
    assert not path.exists()
    assert changed(check=False) is True
    assert "web1" in path.read_text(encoding="utf-8")
    assert changed(check=False) is False


def test_some_domains_in_another_order(ansible: Ansible, fleet: Fleet) -> None:
    """The largest first, those left out are counted; without an answer nothing is chosen."""
    assert fleet.guests.made
    chosen = {"virt_filter_state": "paused,saved", "virt_filter_name": "*1", "virt_sort": "name"}
    shown = _shown(ansible.playbook("list", chosen).succeeded())
    rows = [line.split()[:3] for line in shown.splitlines()]
    assert rows[1:3] == [["hv1", "paused1", "paused"], ["hv1", "saved1", "shutoff"]]
    assert re.fullmatch(r"2 of \d+ domains are shown", shown.splitlines()[-1])
    run = ansible.playbook("list", {"virt_filter_state": "asleep"})
    assert run.returncode != 0
    assert "asleep" in run.stdout
    run = ansible.playbook("list", {"virt_filter_managed": "perhaps"})
    assert run.returncode != 0
    assert "virt_filter_managed: 'perhaps' is neither true nor false" in run.stdout + run.stderr


def test_standard_output_is_for_programs(ansible: Ansible, fleet: Fleet, dead: Path) -> None:
    """With the collection's callback nothing but CSV is there, the silent hypervisor in it."""
    assert fleet.guests.made
    quiet = {"ANSIBLE_STDOUT_CALLBACK": "fleet.virt.output"}
    words = ["fleet.virt.query", "-e", "virt_output=csv"]
    run = ansible.run("ansible-playbook", words, inventory=dead, environment=quiet).succeeded()
    records = list(csv.DictReader(run.stdout.splitlines()))
    found = {record["name"]: record for record in records}
    assert found["web2"]["hypervisor"] == "hv2"
    assert int(found["web1"]["memory_mib"]) == 128
    assert found["broken1"]["error"]
    assert found[""]["hypervisor"] == "hv9"
    assert found[""]["error"].startswith("no answer: ")
    words = ["fleet.virt.query", "-e", "virt_names=nope"]
    run = ansible.run("ansible-playbook", words, environment=quiet)
    assert run.returncode != 0
    assert "not found on any hypervisor: nope" in run.stderr
    assert "PLAY" not in run.stdout


def test_limit(ansible: Ansible, fleet: Fleet) -> None:
    """``--limit`` chooses among the hypervisors."""
    assert fleet.guests.made
    shown = _shown(ansible.playbook("list", args=["--limit", "hv2"]).succeeded())
    assert "hv2" in shown
    assert "hv1" not in shown


def test_names(ansible: Ansible, fleet: Fleet) -> None:
    """One domain by its name, on whichever hypervisor; a name that is nowhere is an error."""
    assert fleet.guests.made
    shown = _shown(ansible.playbook("query", {"virt_names": "web2"}).succeeded())
    assert "  web2\n" in shown
    assert "web1" not in shown
    run = ansible.playbook("query", {"virt_names": ["web2", "nope"]})
    assert run.returncode != 0
    assert "not found on any hypervisor: nope" in run.stdout
    run = ansible.playbook("query", {"virt_output": "xml"})
    assert run.returncode != 0
    assert "one of: table, json, yaml, csv, got: xml" in run.stdout


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_b15_a_dead_hypervisor_is_named_and_stops_nothing(
    ansible: Ansible, fleet: Fleet, dead: Path, playbook: str
) -> None:
    """The others are shown; it costs one connection's time limit, and success is success."""
    assert fleet.guests.made
    started = time.monotonic()
    run = ansible.playbook(playbook, inventory=dead).succeeded()
    assert time.monotonic() - started < 45
    shown = _shown(run)
    assert "hv9: no answer: " in shown
    closing = "2 of 3 hypervisors answered; VMs on hv9 are not shown"
    assert (shown.rstrip().splitlines()[-1] == closing) == (playbook != "host_info"), shown
    assert "hv1" in shown
    assert "hv2" in shown


def test_a_hypervisor_that_is_cut_off_costs_its_time_limit(
    ansible: Ansible, fleet: Fleet, cut: str
) -> None:
    """Also while ssh still believes in a connection from before."""
    assert fleet.guests.made
    started = time.monotonic()
    run = ansible.playbook("list", {"virt_timeout": "6"}).succeeded()
    assert time.monotonic() - started < 40
    shown = _shown(run)
    assert f"{cut}: no answer: " in shown
    assert "web1" in shown


def test_nobody_answers(ansible: Ansible, lab: Laboratory, dead: Path) -> None:
    """A failure that names each, with its reason."""
    assert lab.hosts
    run = ansible.playbook("list", args=["--limit", "hv9"], inventory=dead)
    assert run.returncode != 0
    assert "no hypervisor answered: hv9: " in run.stdout
    run = ansible.playbook("list", {"virt_uri": "qemu+tcp://127.0.0.1:1/system"})
    assert run.returncode != 0
    message = run.of("Show the results")["hv1"]["msg"]
    for name in ("hv1", "hv2"):
        assert f"{name}: cannot connect to libvirt at qemu+tcp://127.0.0.1:1/system" in message


def test_no_hypervisor_at_all(ansible: Ansible) -> None:
    """Doing nothing is no success; other patterns: tests/unit/plugins/test_lookup_virt_hosts.py."""
    run = ansible.playbook("list", {"virt_hosts": "hv1"}, ["--limit", "hv2"])
    assert run.returncode != 0, str(run)
    assert "leaves none of 'hv1'" in run.stdout + run.stderr
