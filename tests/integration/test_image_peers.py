# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images that hypervisors give to each other over verified TLS."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support import images, tls
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.images import (
    FOLDER,
    HOSTS,
    MIB,
    MODULE,
    POOL,
    Site,
    digest,
)
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

# Of the guide
COMMAND = (
    "ansible-playbook fleet.virt.images --limit hv2"
    " -e virt_image=debian12.qcow2 -e virt_image_peers=192.0.2.11"
)


@pytest.fixture(scope="module")
def _trust(lab: Laboratory) -> Iterator[None]:
    """Both hypervisors have keys of one CA, and listen with TLS."""
    with tls.trusting(lab, HOSTS):
        yield


@pytest.fixture
def site(_trust: None, ansible: Ansible, lab: Laboratory, tmp_path: Path) -> Iterator[Site]:
    """Nothing there yet; nothing left afterwards."""
    with images.site(ansible, lab, tmp_path) as made:
        yield made


def address(site: Site, host: str) -> str:
    return site.lab.host(host).address


def sparse(site: Site, name: str) -> Path:
    """A raw disk with holes, one of them at its end."""
    path = site.images / name
    with path.open("wb") as file:
        for offset in (0, 30 * MIB):
            file.seek(offset)
            file.write(os.urandom(MIB))
        file.truncate(64 * MIB)
    return path


def test_from_a_hypervisor_that_has_it(site: Site) -> None:
    """As predicted, and what is sparse stays so."""
    path = sparse(site, "sparse.raw")
    volume = f"{digest(path)}-sparse.raw"
    size = 64 * MIB
    assert site.run("sparse.raw")["hv1"]["steps"] == [
        f"{size} of {size} bytes (100 %) from the controller"
    ]
    peers = [address(site, "hv1")]
    arguments = {"image": "sparse.raw", **site.options, "peers": peers}
    done = harness.verify(site.ansible, site.lab, "hv2", MODULE, arguments)
    result = {key: value for key, value in done.real["hv2"].items() if key[0] != "_"}
    assert result["steps"] == [f"{size} of {size} bytes (100 %) from {peers[0]}"]
    assert done.again["hv2"]["steps"] == []
    assert documentation.undocumented("virt_image", result) == []
    assert documentation.missing("virt_image", result) == []
    assert "copying" not in "".join(run.output for run in done.runs)
    site.only("hv2", volume)
    assert site.sha256("hv2", f"{FOLDER}/{volume}") == digest(path)
    used = int(site.lab.ssh("hv2", ["stat", "-c", "%b", f"{FOLDER}/{volume}"]).stdout) * 512
    assert 2 * MIB <= used <= 3 * MIB


def test_the_controller_sends_it_once(site: Site) -> None:
    """Two hypervisors want it at the same time: one has it from the other."""
    path = site.convert("small.qcow2", os.urandom(8 * MIB), 16 * MIB)
    arguments = json.dumps({"image": "small.qcow2", **site.options})
    run = site.ansible.run("ansible", ["hv1,hv2", "-b", "-m", MODULE, "-a", arguments])
    assert run.returncode == 0, str(run)
    assert run.stdout.count(": copying small.qcow2") == 1, run.stdout
    assert run.stdout.count(": fetching small.qcow2 from ") == 1, run.stdout
    steps = sorted(event.result["steps"][-1].rpartition(" from ")[2] for event in run.events)
    assert "the controller" in steps
    assert {address(site, host) for host in HOSTS} & set(steps)
    for host in HOSTS:
        site.only(host, f"{digest(path)}-small.qcow2")
    assert not (Path(site.ansible.more["XDG_CACHE_HOME"]) / "fleet.virt" / "images").exists()


def test_who_has_it_gives_it_to_the_others_of_the_play(site: Site) -> None:
    path = site.convert("small.qcow2", os.urandom(MIB), 16 * MIB)
    site.run("small.qcow2", "hv2")
    found = site.run("small.qcow2", "hv1,hv2")
    assert not found["hv2"]["changed"]
    steps = found["hv1"]["steps"]
    # whoever asks first may be the one who lacks it
    assert steps[-1].endswith((f"from {address(site, 'hv2')}", "from the controller")), steps
    site.only("hv1", f"{digest(path)}-small.qcow2")


def test_the_command_of_the_guide(site: Site) -> None:
    """With the address that the other hypervisor has here."""
    path = site.convert("debian12.qcow2", os.urandom(MIB), 8 * MIB)
    site.run("debian12.qcow2", "hv1")
    program, *words = shlex.split(COMMAND.replace("192.0.2.11", address(site, "hv1")))
    place = {"virt_base_pool": POOL, "virt_base_path": FOLDER, "virt_image_dir": site.images}
    settings = [word for key, value in place.items() for word in ("-e", f"{key}={value}")]
    run = site.ansible.run(program, [*words, *settings]).succeeded()
    (result,) = run.of("Ensure the image is present").values()
    assert [step.rpartition(" from ")[2] for step in result["steps"]] == [address(site, "hv1")]
    site.only("hv2", f"{digest(path)}-debian12.qcow2")


def test_a_mistake_is_told_once(site: Site) -> None:
    words = ["fleet.virt.images", "-e", "virt_image=https://example.org/.."]
    run = site.ansible.run("ansible-playbook", words)
    assert run.returncode != 0, str(run)
    failed = [event.result["msg"] for event in run.events if event.status == "failed"]
    assert len(failed) == 1, str(run)
    assert failed[0].startswith("virt_image: "), failed


def test_who_cannot_give_it_is_passed_over(site: Site) -> None:
    """Nobody there, another name in its certificate, without the image, with a damaged one."""
    path = site.convert("small.qcow2", os.urandom(MIB), 8 * MIB)
    dead = str(site.lab.network[250])
    peers = [dead, "127.0.0.1", address(site, "hv1")]
    first = site.bring("small.qcow2", "hv2", peers=peers)["hv2"]
    assert not first["failed"], first
    steps = first["steps"]
    assert steps[0].startswith(f"{dead}: cannot connect to libvirt at qemu+tls://{dead}/system")
    assert "certificate" in steps[1], steps
    assert steps[2] == f"{peers[2]} does not have it"
    assert steps[3].endswith("(100 %) from the controller")
    volume = f"{digest(path)}-small.qcow2"
    site.only("hv2", volume)
    site.run("small.qcow2", "hv1")
    write = f"chattr -i {FOLDER}/*; printf x | dd of={FOLDER}/{volume} bs=1 seek=70000 conv=notrunc"
    site.lab.ssh("hv1", write)
    site.lab.ssh("hv2", f"chattr -i {FOLDER}/*; virsh -q vol-delete {volume} {POOL}")
    again = site.bring("small.qcow2", "hv2", peers=peers[2:])["hv2"]
    assert "arrived with the SHA-256" in again["steps"][0], again
    assert again["steps"][1].endswith("from the controller")
    site.only("hv2", volume)
    assert site.sha256("hv2", f"{FOLDER}/{volume}") == digest(path)


def test_one_without_keys_says_so(site: Site) -> None:
    path = site.convert("small.qcow2", os.urandom(MIB), 8 * MIB)
    cert = tls.CLIENT
    site.lab.ssh("hv2", f"mv {cert} {cert}.away")
    try:
        done = site.verify("small.qcow2", "hv1,hv2", predicted_ignore=["steps*"])
        steps = done.real["hv2"]["steps"]
        assert (
            steps[0]
            == f"other hypervisors were not queried: missing keys: {cert} (role libvirt_keys)"
        )
        assert done.predicted["hv2"]["steps"] == steps
    finally:
        site.lab.ssh("hv2", f"mv {cert}.away {cert}")
    for host in HOSTS:
        site.only(host, f"{digest(path)}-small.qcow2")


def test_bad_addresses(site: Site) -> None:
    site.convert("small.qcow2", os.urandom(MIB), 8 * MIB)
    message = "is not the address of a hypervisor; write its name or IP address"
    for peer in ("hv1/system?no_verify=1", "root@hv1"):
        site.refuse({"small.qcow2": message}, peers=[peer])


def test_a_full_disk_leaves_nothing(site: Site) -> None:
    site.convert("large.qcow2", os.urandom(24 * MIB), 64 * MIB)
    site.run("large.qcow2")
    mount = f"mkdir -p {FOLDER} && mount -t tmpfs -o size=16m,mode=0711 tmpfs {FOLDER}"
    site.lab.ssh("hv2", mount)
    try:
        result = site.bring("large.qcow2", "hv2", peers=[address(site, "hv1")])["hv2"]
        assert result["failed"]
        assert "MiB free, of which 1 MiB must stay free" in result["msg"], result
        assert site.files("hv2") == site.volumes("hv2") == site.staged("hv2") == []
    finally:
        site.lab.ssh("hv2", f"virsh -q pool-destroy {POOL}; umount {FOLDER}", check=False)
