# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A shared pool that is not mounted is absent: no verb takes it for an empty one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder

from .conftest import Movers

_AT = "/srv/vms"
_POOLS = {"pools": [{"name": "vms", "path": _AT, "shared": True}]}
_DISKS = [{"name": "system", "pool": "vms", "size": 256}]
_FORGET_RECORDS = (
    "for record in $(virsh -q vol-list fleet-notes | grep -o 'pool[.][^ ]*' | sort -u);"
    " do virsh -q vol-delete --pool fleet-notes $record; done"
)
_FORGET = f"{_FORGET_RECORDS}; virsh -q pool-destroy vms; virsh -q pool-undefine vms"
_ABSENT = "pool vms is not mounted on hv2"


@pytest.fixture
def stack(movers: Movers) -> Iterator[ExitStack]:
    """What is mounted; no VM, pool or record of it remains."""
    with ExitStack() as mounts:
        yield mounts
        movers.sweep()
        for host in ("hv1", "hv2"):
            movers.lab.ssh(host, _FORGET, check=False)


def test_pool_that_is_not_mounted_is_absent_for_every_verb(
    movers: Movers, stack: ExitStack, tmp_path: Path
) -> None:
    ansible = movers.ansible

    def module(name: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
        return dict(ansible.module("hv2", name, args, **more)["hv2"])

    movers.fleet.host("hv2", f"mkdir -p {_AT}")
    early = module("virt_pool", _POOLS)
    assert early["failed"]
    assert f"nothing is mounted at {_AT}" in early["msg"]
    place = tmp_path / "vms"
    place.mkdir(mode=0o711)
    stack.enter_context(shared_folder(movers.lab, place, _AT, ("hv1", "hv2")))
    made = ansible.module("hypervisors", "virt_pool", _POOLS)
    assert [one["changed"] for one in made.values()] == [True, True], made
    assert len({one["pools"][0]["id"] for one in made.values()}) == 1, "made once"
    again = ansible.module("hypervisors", "virt_pool", _POOLS)
    assert [one["changed"] for one in again.values()] == [False, False], again
    run = ansible.playbook("preflight", {"virt_output": "json"})
    tried = run.of("fleet.virt.hypervisor : Compare the CPUs, and try the locks of shared pools")
    for host, peer in (("hv1", "hv2"), ("hv2", "hv1")):
        held = {"pool": "vms", "peer": peer, "outcome": "held", "error": None}
        assert tried[host]["locks"] == [held], tried[host]
    assert "pool_lock" not in run.stdout
    assert [path.name for path in place.iterdir()] == ["fleet-virt.pool-id"], "no image remains"
    movers.make("both", disks=_DISKS, overlay=False, start=False)
    movers.make("own", "hv2", disks=_DISKS, overlay=False, start=False)
    files = sorted(path.name for path in place.iterdir())

    movers.fleet.host("hv2", f"umount -l {_AT}")  # behind libvirt's back
    answers = {
        "set-up": module("virt_pool", _POOLS),
        "move": movers.module("both"),
        "creation": movers.fleet.init(
            "hv2",
            name="new1",
            memory=96,
            seed=False,
            image="tiny.qcow2",
            disks=_DISKS,
            overlay=False,
        ),
        "purge": module("virt_purge", {"name": "own"}),
    }
    for what, answer in answers.items():
        assert answer["failed"], what
        assert _ABSENT in answer["msg"], (what, answer["msg"])
    prune = {"virt_images_prune": "true", "virt_base_pool": "vms", "virt_base_path": _AT}
    pruned = ansible.playbook("images", prune)
    assert pruned.returncode == 2
    assert _ABSENT in pruned.stdout
    (finding,) = (
        finding
        for finding in module("virt_preflight", {"expected": ["hv2"]})["findings"]
        if finding["id"] == "pool_not_mounted"
    )
    assert finding["message"].startswith(_ABSENT)
    assert movers.fleet.host("hv2", f"ls -A {_AT}").strip() == "", "nothing was made below"
    assert sorted(path.name for path in place.iterdir()) == files
    assert movers.state("hv1", "both") == movers.state("hv2", "own") == "shut off"
    assert movers.state("hv2", "new1") == ""

    movers.fleet.host("hv2", _FORGET_RECORDS)  # as if hv2 had never been set up with it
    moved = movers.module("both")
    assert moved["failed"]
    assert "declared shared on the source and not mounted there" in moved["msg"]
    assert movers.fleet.host("hv2", f"ls -A {_AT}").strip() == ""
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", place, copy], check=True)
    with shared_folder(movers.lab, copy, _AT, ("hv2",)):
        copied = ansible.playbook("preflight", {"virt_output": "json"})
        assert "a file made on hv2 does not appear on hv1" in copied.stdout
    stack.enter_context(shared_folder(movers.lab, place, _AT, ("hv2",)))
    assert module("virt_pool", _POOLS)["pools"][0]["steps"] == ["record that it is shared"]
    ansible.playbook("purge_vm", {"vm_name": "own"}).succeeded()
    assert not (place / "own_system.qcow2").exists()
    assert (place / "both_system.qcow2").exists()
