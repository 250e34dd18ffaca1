# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks that read, over libvirt's TLS: all in one process, whoever is dead or lies.

The last file of its folder: it has daemons restarted, and a daemon that starts has forgotten why a
domain is off, which the others look at.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.reading.conftest import Fleet
from ansible_collections.fleet.virt.tests.integration.support import tls
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_HOSTS = ("hv1", "hv2")
_LIAR = Path(__file__).parents[2] / "unit" / "_liar.py"
_FILES = " ".join(
    f"/etc/pki/{name}"
    for name in ("libvirt/servercert.pem", "libvirt/private/serverkey.pem", "CA/cacert.pem")
)
_LIE = f"""
systemctl -q stop libvirtd libvirtd-tls.socket
systemd-run -q --unit=test-liar /usr/bin/python3 /root/liar.py 16514 {{kind}} {_FILES}
"""
_TRUTH = f"""
rm -f /root/liar.py
systemctl -q stop test-liar
{tls.LISTEN}
"""
_EVALUATED = Path("/tmp/evaluated")  # what the liar's template would make
_TEMPLATE = "{{ lookup('pipe', 'touch /tmp/evaluated') }}"
# What a domain is, however it was read; of disks that libvirt or we cannot read, each says its own
_SAME = ("name", "uuid", "state", "reason", "vcpus", "memory_mib", "title", "metadata", "autostart")
_SAME += ("nics", "graphics", "snapshots", "managed_save", "firmware")
_HOST = ("name", "uuid", "libvirt_version", "domain_types", "arch", "cpu", "domains", "networks")
_HOST += ("maintenance", "errors")


@dataclass(frozen=True)
class Direct:
    """The laboratory as the controller reaches it by TLS, and by nothing else."""

    ansible: Ansible
    lab: Laboratory
    folder: Path
    uri: str

    def run(self, playbook: str, variables: dict[str, Any], *more: str) -> Run:
        """A playbook with these hypervisors, and ``more`` at addresses where nobody is."""
        hosts = {name: {"ansible_host": self.lab.host(name).address} for name in _HOSTS}
        hosts.update({name: {"ansible_host": str(self.lab.network[250])} for name in more})
        values = {"ansible_ssh_executable": "/no/such/ssh", "virt_inventory_uri": self.uri}
        inventory = self.folder / "hosts.json"
        group = {"hypervisors": {"hosts": hosts, "vars": values}}
        inventory.write_text(json.dumps(group), encoding="utf-8")
        return self.ansible.playbook(playbook, variables, inventory=inventory)

    def lie(self, kind: str) -> None:
        """Have hv2's port answered by somebody with its certificate who is not its libvirtd."""
        self.lab.ssh("hv2", "cat > /root/liar.py", input=_LIAR.read_text(encoding="utf-8"))
        self.lab.ssh("hv2", _LIE.format(kind=kind))
        listens = "ss -Hltn 'sport = 16514' | grep -c ."
        wait_for(
            lambda: self.lab.ssh("hv2", listens, check=False).stdout.strip() == "1", 20, "the liar"
        )


@pytest.fixture(scope="module")
def direct(ansible: Ansible, lab: Laboratory, fleet: Fleet) -> Iterator[Direct]:
    assert fleet.guests.made
    with (
        tempfile.TemporaryDirectory(prefix="fleet-virt-direct-") as name,
        tls.trusting(lab, _HOSTS) as authority,
    ):
        keys = tls.client(authority, Path(name) / "keys")
        yield Direct(ansible, lab, Path(name), f"qemu+tls:///system?pkipath={keys}")


def _data(run: Run) -> list[dict[str, Any]]:
    """The hypervisors that the playbook printed as JSON."""
    text = run.succeeded().stdout
    start = text.index("\n{\n")
    document, _end = json.JSONDecoder().raw_decode(text[start + 1 :])
    found: list[dict[str, Any]] = document["hypervisors"]
    return found


def _domains(hypervisors: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {}
    for hypervisor in hypervisors:
        for domain in hypervisor["domains"]:
            kept = {key: domain[key] for key in _SAME}
            kept["nics"] = [{**nic, "addresses": None} for nic in domain["nics"]]
            if domain["error"] is None:
                disks = [(one["target"], one["source"], one["size_mib"]) for one in domain["disks"]]
                kept["disks"] = disks
            found[f"{hypervisor['name']}/{domain['name']}"] = kept
    return found


@pytest.mark.parametrize("playbook", ["list", "query"])
def test_the_same_as_by_the_module(direct: Direct, playbook: str) -> None:
    """One task in the name of the first, and no SSH at all."""
    ours = direct.run(playbook, {"virt_output": "json"})
    asked = ours.of("Read the domains of every hypervisor")
    assert list(asked) == ["hv1"]
    by_module = {"virt_output": "json", "virt_uri": "qemu:///system"}
    theirs = direct.ansible.playbook(playbook, by_module)
    found, expected = _domains(_data(ours)), _domains(_data(theirs))
    assert {"hv1/web1", "hv1/off1", "hv2/web2"} <= set(found)
    for name, domain in expected.items():
        if "disks" in found[name] and "disks" in domain:
            assert found[name] == domain
        else:  # broken1's disks, of which each says what it found
            assert {**found[name], "disks": 0} == {**domain, "disks": 0}


def test_hypervisors_as_by_the_module(direct: Direct) -> None:
    ours = _data(direct.run("host_info", {"virt_output": "json"}))
    theirs = _data(direct.ansible.playbook("host_info", {"virt_output": "json"}))
    for one, other in zip(ours, theirs):
        assert one["host"]["uri"].startswith("qemu+tls://")
        for key in _HOST:
            assert one["host"][key] == other["host"][key], key
        pools = [
            [(pool["name"], pool["path"], pool["state"]) for pool in found["host"]["pools"]]
            for found in (one, other)
        ]
        assert pools[0] == pools[1]


def test_tables(direct: Direct) -> None:
    run = direct.run("list", {}).succeeded()
    rows = [line.split() for line in run.stdout.splitlines()]
    assert ["hv1", "web1", "running", "booted"] in rows
    assert ["hv2", "crashed2", "crashed", "panicked"] in rows
    assert "answered;" not in run.stdout


def test_dead_and_frozen(direct: Direct) -> None:
    """They are named with the reason, below what the others have; each costs its own limit."""
    direct.lab.ssh("hv2", "systemctl start libvirtd; systemctl kill -s STOP libvirtd")
    try:
        run = direct.run("list", {"virt_timeout": "6"}, "hv9").succeeded()
    finally:
        direct.lab.ssh("hv2", "systemctl kill -s CONT libvirtd")
    assert ["hv1", "web1", "running", "booted"] in [one.split() for one in run.stdout.splitlines()]
    assert "hv2: no answer: read hv2: no answer within 6 seconds" in run.stdout
    assert "hv9: no answer: " in run.stdout
    assert "1 of 3 hypervisors answered; VMs on hv2, hv9 are not shown" in run.stdout


def test_one_that_lies(direct: Direct) -> None:
    """What it says is text, and what is no answer is its silence."""
    assert not _EVALUATED.exists()
    try:
        direct.lie("template")
        run = direct.run("list", {}).succeeded()
        rows = [line.split() for line in run.stdout.splitlines()]
        assert ["hv1", "web1", "running", "booted"] in rows
        assert ["hv2", *_TEMPLATE.split(), "running", "booted"] in rows
        (hv1, hv2) = _data(direct.run("query", {"virt_output": "json"}))
        assert "web1" in [domain["name"] for domain in hv1["domains"]]
        assert [domain["title"] for domain in hv2["domains"]] == [_TEMPLATE]
        assert not _EVALUATED.exists()
        direct.lab.ssh("hv2", "systemctl -q stop test-liar")
        direct.lie("garbage")
        run = direct.run("list", {}).succeeded()
        assert "hv2: no answer: list domains: Unable to decode message payload" in run.stdout
        assert "1 of 2 hypervisors answered; VMs on hv2 are not shown" in run.stdout
    finally:
        direct.lab.ssh("hv2", _TRUTH)


def test_an_unknown_client_is_let_in_nowhere(direct: Direct) -> None:
    """Nobody is read in another way instead: SSH would answer here."""
    uri = "qemu+tls:///system?pkipath=/no/such/folder"
    run = direct.ansible.playbook("list", {"virt_inventory_uri": uri})
    assert run.returncode != 0
    assert "no hypervisor answered: hv1: " in run.stdout
    assert "/no/such/folder" in run.stdout
