# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor says of promises and of keys: mended by its remedies, and gone. No VM runs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.key_files import (
    CERTIFICATE,
    CRL,
    KEY,
    alike,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import DAY
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _x509
from ansible_collections.fleet.virt.tests.integration.support import doctor

from .conftest import Movers

_RATIOS = {"virt_memory_ratio": 3, "virt_vcpu_ratio": 4, "virt_disk_ratio": 3}
_OURS = {"virt_vcpu_ratio": 1.5}  # of this fleet, as a VM has no more vCPUs than there are CPUs
_FAT = ("fat1", "fat2")
_PROMISED = ("memory_overcommitted", "vcpus_overcommitted", "pool_overcommitted")
_KEYS = [
    ("key_expired", "/etc/pki/qemu/server-cert.pem", "hv1"),
    ("key_expires", "/etc/pki/libvirt/servercert.pem", "hv2"),
    ("crl_expired", "/etc/pki/CA/cacrl.pem", "hv1"),
    ("crl_expires", "/etc/pki/qemu/ca-crl.pem", "hv2"),
]


def _figure(text: str, label: str) -> float:
    found = re.search(rf"{label}: +([0-9.]+)", text)
    assert found is not None, text
    return float(found[1])


@pytest.fixture
def promised(movers: Movers) -> Movers:
    """Two VMs on hv1 that have 60 % each of its memory and its pool, and as many vCPUs as it."""
    # nodeinfo has the memory of NUMA nodes, which may be less
    node = movers.fleet.host("hv1", "virsh nodeinfo; virsh nodememstats")
    pool = movers.fleet.host("hv1", "virsh pool-info default --bytes")
    shape = {
        "memory": int(_figure(node, "total *") / 1024 * 0.6),
        "vcpus": int(_figure(node, r"CPU\(s\)")),
        "disks": [{"name": "system", "size": int(_figure(pool, "Available") * 0.6) >> 20}],
    }
    vms = [{**shape, "name": name, "start": False, "seed": False, "host": "hv1"} for name in _FAT]
    movers.fleet.provision(virt_vms=vms, **_RATIOS).succeeded()
    return movers


def test_overcommitment_is_over_once_a_vm_was_moved_away(promised: Movers) -> None:
    findings = doctor.look(promised.ansible, **_OURS)
    remedies = {doctor.the_one(findings, kind, "promise", "hv1")["remedy"] for kind in _PROMISED}
    moves = {command for remedy in remedies for command in doctor.commands(remedy)}
    assert len(moves) == 1, "one and the same VM suffices for all three"
    lost = doctor.the_one(findings, "loss_not_survived", "without hv1", "hv1")
    raised = doctor.look(promised.ansible, **_RATIOS)
    assert {one["id"] for one in raised}.isdisjoint((*_PROMISED, "loss_not_survived"))

    doctor.follow(promised.ansible, min(remedies), "-e", json.dumps(_OURS))
    assert sorted(promised.fleet.domains()["hv2"] + promised.fleet.domains()["hv1"]) == [*_FAT]
    findings = doctor.look(promised.ansible, **_OURS)
    assert {one["id"] for one in findings}.isdisjoint(_PROMISED)

    # neither has a place on the other: the remedy shows what would be, and they are made smaller
    assert "loss_not_survived" in {one["id"] for one in findings}
    tried = doctor.follow(promised.ansible, lost["remedy"])
    assert re.search(r"fat[12] fits nowhere", tried.stdout), str(tried)
    small = [{"name": name, "memory": 64, "vcpus": 1} for name in _FAT]
    promised.fleet.provision(virt_vms=small).succeeded()
    wide = {**_OURS, "virt_disk_ratio": 3}  # a disk does not shrink
    kinds = {one["id"] for one in doctor.look(promised.ansible, **wide)}
    assert kinds.isdisjoint((*_PROMISED, "loss_not_survived"))


@pytest.fixture
def ageing(movers: Movers) -> Iterator[Movers]:
    """Certificates and revocation lists that nobody renewed, which no daemon has loaded yet."""
    now = time.time()
    for kind, host, moment in (("data", "hv1", now - DAY), ("control", "hv2", now + 5 * DAY)):
        certificate, key = movers.keys.expiring(host, kind, moment)
        _place(movers, host, kind, {CERTIFICATE: certificate, KEY: key})
    for kind, host, days_ago in (("control", "hv1", 31), ("data", "hv2", 28)):
        part = movers.keys.store().kind(kind)
        rotation = part.rotation()
        assert rotation is not None
        issued = now - days_ago * DAY
        listed = _x509.revocation_list(part.signer(rotation.new), {}, 1, 30, issued)
        _place(movers, host, kind, {CRL: _x509.to_pem(listed)})
    yield movers
    movers.keys.run().succeeded()


def _place(movers: Movers, host: str, kind: str, contents: dict[str, str]) -> None:
    for content, text in contents.items():
        for file in alike(kind, content):
            path = movers.fleet.host(host, f"readlink -f /etc/pki/{file.path}").strip()
            movers.lab.ssh(host, f"cat >{path}", input=text)


def test_keys_and_revocation_lists_are_renewed(ageing: Movers) -> None:
    findings = doctor.look(ageing.ansible)
    remedies = {
        doctor.the_one(findings, kind, f"{path} (", host)["remedy"] for kind, path, host in _KEYS
    }
    (remedy,) = {command for shown in remedies for command in doctor.commands(shown)}
    doctor.follow(ageing.ansible, remedy, "-e", json.dumps(ageing.keys.variables))
    kinds = {one["id"] for one in doctor.look(ageing.ansible)}
    assert kinds.isdisjoint(kind for kind, _path, _host in _KEYS)
    ageing.keys.assert_all_connect()
