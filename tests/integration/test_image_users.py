# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base images with who uses them: listed, verified, and removed only when nobody does."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support import images
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.images import (
    FOLDER,
    HERE,
    MIB,
    MODULE,
    POOL,
    Site,
)
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

VM = "fv-image-user"
STRAY = "/var/lib/libvirt/images/fv-image-stray.qcow2"
_IMAGES = "ansible-playbook fleet.virt.images"
_USED = rf"hv1 +used +.* domain '{VM}'"
# Of the guide, in its order, with what each prints
COMMANDS = {
    _IMAGES: _USED,
    f"{_IMAGES} -e virt_image=debian12.qcow2": r"hv2 +debian12 +.* none",
    f"{_IMAGES} -e virt_images_verify=true": rf"intact +domain '{VM}'",
    f"{_IMAGES} -e virt_images_prune=true --check": r"hv1 +spare",
    f"{_IMAGES} -e virt_images_prune=true": _USED,
}
PLACE = {"base_pool": POOL, "base_path": FOLDER}
_ID = f"{FOLDER}/fleet-virt.pool-id"
_CLEAN = """
for name in $(virsh list --all --name | grep ^fv-image-); do
  virsh destroy $name >/dev/null 2>&1
  virsh undefine $name >/dev/null
done
rm -f /var/lib/libvirt/images/fv-image-*
virsh -q pool-refresh default 2>/dev/null
true
"""


@pytest.fixture
def site(ansible: Ansible, lab: Laboratory, tmp_path: Path) -> Iterator[Site]:
    """Two images in the base pool, ``used`` by a VM that is off, ``spare`` by nobody."""
    with images.site(ansible, lab, tmp_path) as made:
        lab.ssh("hv1", _CLEAN)
        # of the hypervisor's own files, which are there without being asked for and sent
        used, spare = (
            made.put("hv1", made.convert(name, os.urandom(MIB), 8 * MIB), name)
            for name in ("used.qcow2", "spare.qcow2")
        )
        wanted = {"name": VM, "image": used, "seed": False, "start": False, "nics": []}
        tasks = [
            {"name": "Ensure the image is present", MODULE: {"image": spare, **made.options}},
            {"name": "Have the VM", "fleet.virt.virt_init": wanted},
        ]
        made.ansible.play(tasks, "hv1", become=True, vars=_variables(made)).succeeded()
        yield made
        lab.ssh("hv1", _CLEAN)


def _settings(site: Site) -> list[str]:
    return [word for key, value in _variables(site).items() for word in ("-e", f"{key}={value}")]


def _variables(site: Site) -> dict[str, str]:
    return {
        "virt_image_dir": str(site.images),
        "virt_base_pool": POOL,
        "virt_base_path": FOLDER,
    }


def listed(site: Site, **options: Any) -> dict[str, dict[str, Any]]:
    """The images of hv1 by their names."""
    result = site.ansible.module("hv1", "virt_image_info", {**PLACE, **options})["hv1"]
    assert not result["failed"], result
    assert documentation.undocumented("virt_image_info", _own(result)) == []
    assert documentation.missing("virt_image_info", _own(result)) == []
    return {image["name"]: image for image in result["images"]}


def _own(result: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in result.items()
        if key[0] != "_" and key not in ("failed", "unreachable", "ansible_facts")
    }


def test_listed_with_their_users(site: Site) -> None:
    found = listed(site)
    assert [found[name]["users"] for name in ("used", "spare")] == [[f"domain {VM!r}"], []]
    assert {image["intact"] for image in found.values()} == {None}
    assert found["used"]["size_mib"] == 8
    assert 1 <= found["used"]["allocated_mib"] <= 2


def test_one_in_use_is_not_removed(site: Site) -> None:
    before = site.files("hv1")
    wanted = {**PLACE, "state": "absent"}
    in_use = f"is in use by domain '{VM}'; nothing was removed"
    harness.refuse(
        site.ansible, site.lab, "hv1", MODULE, {**wanted, "image": "used.qcow2"}, match=in_use
    )
    digest = listed(site)["spare"]["digest"]
    done = harness.verify(site.ansible, site.lab, "hv1", MODULE, {**wanted, "image": digest})
    assert [image["name"] for image in done.real["hv1"]["images"]] == ["spare"]
    assert site.files("hv1") == site.volumes("hv1") == [n for n in before if "-used." in n]


def test_pruned_is_what_nobody_uses(site: Site) -> None:
    """An overlay that no VM has counts: it may be somebody's data."""
    spare = listed(site)["spare"]["path"]
    site.lab.ssh("hv1", f"qemu-img create -q -f qcow2 -F qcow2 -b {spare} {STRAY}")
    assert listed(site)["spare"]["users"] == [f"{STRAY}, which no VM uses"]
    wanted = {**PLACE, "state": "pruned"}
    assert not site.ansible.module("hv1", MODULE, wanted)["hv1"]["changed"]
    assert len(site.files("hv1")) == 2
    site.lab.ssh("hv1", ["rm", STRAY])
    done = harness.verify(site.ansible, site.lab, "hv1", MODULE, wanted)
    assert [image["path"] for image in done.real["hv1"]["images"]] == [spare]
    assert list(listed(site)) == ["used"]
    site.lab.ssh("hv1", ["virsh", "undefine", VM])
    # the VM is gone and its disk is not
    assert "which no VM uses" in listed(site)["used"]["users"][0]


def test_a_vm_that_is_being_made_keeps_its_image(site: Site) -> None:
    """Between its claim and its volumes nothing lies on the image yet."""
    site.lab.ssh("hv1", _CLEAN)
    wanted = {"name": VM, "image": f"{HERE}/used.qcow2", "seed": False, "nics": []}
    wanted["_work"] = {"stage": "claim", "claimed_by": "r1"}
    claimed = site.ansible.module("hv1", "virt_init", wanted, extra=_variables(site))["hv1"]
    assert not claimed["_work"]["end"], claimed
    assert f"domain {VM!r}" in listed(site)["used"]["users"][0]
    pruned = site.ansible.module("hv1", MODULE, {**PLACE, "state": "pruned"})["hv1"]
    assert [image["name"] for image in pruned["images"]] == ["spare"]


def test_one_on_shared_storage_stays(site: Site) -> None:
    for host in ("hv1", "hv2"):
        site.lab.ssh(host, f"mkdir -p {FOLDER}; echo shared-1 > {_ID}")
    pool = f"virsh -q pool-define-as {POOL} dir --target {FOLDER}; virsh -q pool-start {POOL}"
    site.lab.ssh("hv2", pool)
    harness.refuse(
        site.ansible,
        site.lab,
        "hv1",
        MODULE,
        {**PLACE, "state": "pruned"},
        match="has an id, and another hypervisor has the same pool or was not queried",
    )
    words = ["fleet.virt.images", *_settings(site), "-e", "virt_images_prune=true"]
    run = site.ansible.run("ansible-playbook", words)
    assert run.returncode != 0
    assert "has an id, and another hypervisor has the same pool or was not queried" in run.stdout
    assert set(listed(site)) == {"used", "spare"}
    site.lab.ssh("hv2", ["rm", _ID])


def test_one_whose_images_cannot_be_read_still_says_which_pools_it_has(site: Site) -> None:
    """So it holds up nobody else's removal."""
    for host in ("hv1", "hv2"):
        site.lab.ssh(host, f"mkdir -p {FOLDER}; echo {host} > {_ID}")
    pool = f"virsh -q pool-define-as {POOL} dir --target {FOLDER}; virsh -q pool-start {POOL}"
    site.lab.ssh("hv2", f"{pool}; ln -s endless {FOLDER}/endless")
    words = ["fleet.virt.images", *_settings(site), "-e", "virt_images_prune=true"]
    run = site.ansible.run("ansible-playbook", words)
    assert run.returncode != 0
    assert re.search(r"hv2: .*so the users of images are unknown", run.stdout), str(run)
    assert "was not queried" not in run.stdout
    assert set(listed(site)) == {"used"}
    for host in ("hv1", "hv2"):
        site.lab.ssh(host, ["rm", "-f", _ID, f"{FOLDER}/endless"])


def test_one_that_was_damaged_is_found(site: Site) -> None:
    path = listed(site)["used"]["path"]
    assert {image["intact"] for image in listed(site, verify=True).values()} == {True}
    damage = f"printf x | dd of={path} bs=1 seek=700000 conv=notrunc status=none"
    site.lab.ssh("hv1", f"chattr -i {path}; {damage}; chattr +i {path}")
    found = listed(site, verify=True)
    assert [found[name]["intact"] for name in ("used", "spare")] == [False, True]
    variables = {"virt_base_pool": POOL, "virt_base_path": FOLDER, "virt_images_verify": "true"}
    run = site.ansible.playbook("images", variables, ["--limit", "hv1"])
    assert run.returncode != 0
    assert "DAMAGED" in run.stdout
    assert f"hv1: {path} no longer matches its digest" in run.stdout


def test_the_playbook(site: Site, tmp_path: Path) -> None:
    """The commands of the guide: it brings an image to all, lists, and says what it removes, from
    pools with ids too, which the role ``storage`` gives them."""
    site.convert("debian12.qcow2", os.urandom(MIB), 8 * MIB)
    settings = _settings(site)
    for host in ("hv1", "hv2"):
        site.lab.ssh(host, f"mkdir -p {FOLDER}; echo {host} > {_ID}")
    for command, pattern in COMMANDS.items():
        program, *words = shlex.split(command)
        run = site.ansible.run(program, [*words, *settings]).succeeded()
        assert re.search(pattern, run.stdout), str(run)
        removed = [line for line in run.stdout.splitlines() if line.startswith("-base image")]
        # spare on hv1, debian12 on both
        assert len(removed) == (3 if "prune" in command else 0), str(run)
        assert not [line for line in removed if "-used." in line]
    output = tmp_path / "images.json"
    words = ["fleet.virt.images", *settings, "-e", "virt_output=json"]
    site.ansible.run("ansible-playbook", [*words, "-e", f"virt_output_file={output}"]).succeeded()
    hypervisors = json.loads(output.read_text())["hypervisors"]
    names = {entry["name"]: [one["name"] for one in entry["images"]] for entry in hypervisors}
    assert names == {"hv1": ["used"], "hv2": []}


def test_killed_while_it_removes(site: Site) -> None:
    """After the file went libvirt may still list it; the next run ends right."""
    spare = listed(site)["spare"]
    site.lab.ssh("hv1", f"chattr -i {spare['path']}; rm {spare['path']}")
    assert len(site.volumes("hv1")) == 2
    site.ansible.module("hv1", MODULE, {**PLACE, "state": "pruned"})
    assert list(listed(site)) == ["used"]
    again = site.run(f"{HERE}/spare.qcow2")["hv1"]
    assert again["changed"], again
    assert site.files("hv1") == site.volumes("hv1")


def test_examples_run_as_written(site: Site) -> None:
    for example in documentation.examples("virt_image_info"):
        task = dict(example.task)
        task["fleet.virt.virt_image_info"] = {**(task["fleet.virt.virt_image_info"] or {}), **PLACE}
        site.ansible.play([{**task, "become": True}], "hv1").succeeded()
