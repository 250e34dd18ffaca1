# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input of provision_vm: value, rule and remedy, and nothing left behind."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from .conftest import Fleet

_VM = {"vm_name": "bad", "vm_memory": "64", "vm_seed": "false", "vm_start": "false"}


def _refused(fleet: Fleet, variables: dict[str, Any], *words: str) -> None:
    """Refused by these words; ``variables`` are those of a whole batch, or of one VM."""
    run = fleet.provision(**(variables if "virt_vms" in variables else {**_VM, **variables}))
    assert run.returncode != 0, str(run)
    text = " ".join((run.stdout + run.stderr).split())
    for word in words:
        assert word in text, f"without {word!r}:\n{run}"
    assert "Traceback" not in text
    assert fleet.domains() == {"hv1": [], "hv2": []}
    for host in ("hv1", "hv2"):
        assert fleet.files(host) == []


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        pytest.param(
            {"vm_nics": '[{"name": "eth0", "bridge": "br9"}]'}, ["br9", "br0"], id="bridge"
        ),
        pytest.param(
            {"vm_nics": '[{"name": "eth0", "network": "nonet"}]'},
            ["nonet", "default"],
            id="network",
        ),
        pytest.param({"vm_disks": '[{"name": "system", "pool": "nopool"}]'}, ["nopool"], id="pool"),
        pytest.param({"vm_image": "nosuch.img"}, ["nosuch.img", "tiny.qcow2"], id="image"),
        pytest.param(
            {"vm_image": "/nonexistent.qcow2", "vm_wait": "false"},
            ["/nonexistent.qcow2"],
            id="path of no image",
        ),
        pytest.param({"vm_memory": "lots"}, ["lots", "4GiB"], id="memory in words"),
        pytest.param({"vm_memory": "40TiB"}, ["fits nowhere"], id="more than anybody has"),
        pytest.param({"vm_host": "hv9"}, ["hv9", "hv1"], id="unknown hypervisor"),
    ],
)
def test_variables(fleet: Fleet, variables: dict[str, str], words: list[str]) -> None:
    _refused(fleet, variables, *words)


def test_no_vm_at_all(fleet: Fleet) -> None:
    run = fleet.provision(virt_vms=[]).succeeded()
    assert "nothing to do: virt_vms is empty" in run.stdout
    assert not [event for event in run.events if event.status == "failed"], str(run)


def test_each_vm_of_a_refused_request_has_its_outcome(fleet: Fleet) -> None:
    theirs = "/var/lib/libvirt/images/bad_system.qcow2"
    fleet.host("hv1", f"echo theirs > {theirs}")
    vms = [
        {
            "name": name,
            "host": host,
            "memory": 64,
            "seed": False,
            "disks": [{"name": "system", "size": 8}],
        }
        for name, host in (("bad", "hv1"), ("near", "hv1"), ("far", "hv2"))
    ]
    run = fleet.provision(virt_vms=vms)
    content = fleet.host("hv1", f"cat {theirs}; rm {theirs}")
    assert run.returncode != 0, str(run)
    assert content.split() == ["theirs"]
    assert fleet.domains() == {"hv1": [], "hv2": []}
    rows = [line.split() for line in run.stdout.splitlines()]
    for vm in vms:
        outcome = ["failed"] if vm["name"] == "bad" else ["not", "tried"]
        assert [vm["name"], vm["host"], "-", *outcome] in rows, str(run)
    first, *others = run.of("Show the VMs")["hv1"]["msg"].splitlines()
    assert first.startswith(f"bad on hv1: {theirs} already exists"), first
    not_tried = "not tried, because the request as a whole failed"
    assert others == [f"near on hv1: {not_tried}", f"far on hv2: {not_tried}"]


def test_names_with_spaces_and_umlauts(fleet: Fleet) -> None:
    vms = [{"name": name, "memory": 64, "seed": False} for name in ("a b", "müller")]
    run = fleet.provision(virt_vms=vms)
    assert run.returncode != 0
    assert "a b" in run.stdout
    assert "ller" in run.stdout
    assert fleet.domains() == {"hv1": [], "hv2": []}


def _qemu_img(*words: str) -> None:
    subprocess.run(["qemu-img", *words], check=True, capture_output=True)


def _images(folder: Path) -> dict[str, list[str]]:
    """Bad images by name, with the words their refusal must have."""
    _qemu_img("create", "-f", "qcow2", str(folder / "good.qcow2"), "16M")
    whole = (folder / "good.qcow2").read_bytes()
    (folder / "truncated.qcow2").write_bytes(whole[:2000])
    (folder / "corrupt.qcow2").write_bytes(whole[:4] + b"\xff" * 100 + whole[104:])
    (folder / "empty.img").write_bytes(b"")
    secret = folder / "secret"
    secret.write_text("secret")
    _qemu_img(
        "create", "-f", "qcow2", "-u", "-b", "/etc/shadow", "-F", "raw",
        str(folder / "backing.qcow2"), "16M",
    )  # fmt: skip
    data = folder / "outside.raw"
    _qemu_img(
        "create", "-f", "qcow2", "-o", f"data_file={data},data_file_raw=on",
        str(folder / "data.qcow2"), "16M",
    )  # fmt: skip
    return {
        "truncated.qcow2": ["truncated.qcow2"],
        "corrupt.qcow2": ["corrupt.qcow2"],
        "empty.img": ["empty.img"],
        "backing.qcow2": ["backing.qcow2", "backing"],
        "data.qcow2": ["data.qcow2", "data file"],
    }


def test_images_that_must_not_be_used(fleet: Fleet) -> None:
    bad = _images(fleet.images)
    for name, words in bad.items():
        _refused(fleet, {"vm_image": name}, *words)


def test_no_key_to_log_in_with(fleet: Fleet, tmp_path: Path) -> None:
    run = fleet.ansible.playbook(
        "provision_vm",
        {"virt_image_dir": str(fleet.images), "vm_name": "keyless", "vm_image": "tiny.qcow2"},
        environment={"HOME": str(tmp_path)},
    )
    assert run.returncode != 0
    assert "virt_ssh_public_key" in run.stdout
    assert "ssh-keygen" in run.stdout
    assert fleet.domains() == {"hv1": [], "hv2": []}


def test_nothing_is_asked_for(fleet: Fleet) -> None:
    run = fleet.provision()
    assert run.returncode != 0
    assert "vm_name" in run.stdout


def test_every_mistake_of_a_batch_is_named_at_once(fleet: Fleet) -> None:
    """Each by itself, and how it is read: tests/unit/spec (test_domain.py, test_profiles.py)."""
    wrong: dict[str, dict[str, Any]] = {
        "lots": {"name": "x1", "memory": "lots"},
        "'0' is not a size": {"name": "x2", "memory": "0"},
        "-5": {"name": "x3", "memory": "-5"},
        "many": {"name": "x4", "vcpus": "many"},
        "perhaps": {"name": "x5", "overlay": "perhaps"},
        "two disks are named 'a'": {
            "name": "x6",
            "disks": [{"name": "a", "size": 1}, {"name": "a", "size": 2}],
        },
        "nodisks": {"name": "x7", "disk_profile": "nodisks"},
        "nonics": {"name": "x8", "nic_profile": "nonics"},
        "colour": {"name": "x8", "colour": "red"},
        "a/b": {"name": "a/b"},
        "'..'": {"name": ".."},
        "-rf": {"name": "-rf"},
        "<x>": {"name": "<x>"},
        "has 300 characters": {"name": "n" * 300},
    }
    vms = [{"seed": False, "start": False, **vm} for vm in wrong.values()]
    _refused(fleet, {"virt_vms": vms}, *wrong)
