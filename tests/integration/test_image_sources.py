# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where images come from besides plain files: compressed ones, downloads, volumes."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support import images
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.images import (
    FOLDER,
    HERE,
    HOSTS,
    MIB,
    MODULE,
    POOL,
    Site,
    digest,
)
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory
from ansible_collections.fleet.virt.tests.unit import _https
from ansible_collections.fleet.virt.tests.unit.images.test_read_unpack import zstd

# As the guide shows it
OF_THE_CATALOGUE = "ansible-playbook fleet.virt.provision_vm -e vm_name=web1 -e vm_image=debian12"
OTHER_POOL = "fv-image-other"


@pytest.fixture
def site(ansible: Ansible, lab: Laboratory, tmp_path: Path) -> Iterator[Site]:
    """Nothing there yet; nothing left afterwards."""
    with images.site(ansible, lab, tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def serving(lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_https.Server]:
    """A server on the laboratory's network, whose CA the hypervisors trust."""
    with images.serving(lab, tmp_path_factory.mktemp("https")) as server:
        yield server


@pytest.fixture
def server(serving: _https.Server, site: Site) -> Iterator[_https.Server]:
    """It serves nothing yet."""
    with images.served(site, serving) as server:
        yield server


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_compressed_image_is_the_image_in_it(site: Site) -> None:
    path = site.convert("small.qcow2", os.urandom(2 * MIB), 8 * MIB)
    content = path.read_bytes()
    (site.images / "small.qcow2.xz").write_bytes(lzma.compress(content, preset=0))
    done = site.verify("small.qcow2.xz")
    volume = f"{digest(path)}-small.qcow2"
    found = done.real["hv1"]["image"]
    assert (found["digest"], found["size_mib"]) == (digest(path), 8)
    site.only("hv1", volume)
    assert site.sha256("hv1", f"{FOLDER}/{volume}") == digest(path)
    (site.images / "by-content").write_bytes(gzip.compress(content, 1))
    (site.images / "small.zst").write_bytes(zstd(content))
    for name in ("by-content", "small.zst", "small.qcow2"):
        again = site.run(name)["hv1"]
        assert not again["changed"], again
        assert again["image"]["volume"] == volume


def test_a_compressed_disk_stays_sparse(site: Site) -> None:
    """Of the hypervisor's own file, raw: 256 MiB of zeros with a MiB of data take a MiB."""
    content = bytes(100 * MIB) + os.urandom(MIB) + bytes(155 * MIB)
    (site.images / "sparse.gz").write_bytes(gzip.compress(content, 1))
    where = site.put("hv1", site.images / "sparse.gz", "sparse.gz")
    predicted = site.run(where, check=True)["hv1"]
    done = site.run(where)["hv1"]
    found = done["image"]
    assert found == predicted["image"]
    assert (found["format"], found["size_mib"]) == ("raw", 256)
    used = int(site.lab.ssh("hv1", ["stat", "-c", "%b", found["path"]]).stdout) * 512
    assert MIB <= used <= 2 * MIB
    assert site.sha256("hv1", found["path"]) == found["digest"] == sha256(content)


def bad_packed(folder: Path) -> dict[str, str]:
    """Compressed images that are refused, made in a folder, and what is said of each."""
    content = os.urandom(MIB)
    xz = lzma.compress(content, preset=0)
    bad = {
        "cut.xz": (xz[: len(xz) // 2], "is truncated: its xz stream has no end"),
        "corrupt.xz": (xz[:5000] + b"\xff" * 99 + xz[5099:], "compressed with xz and corrupt"),
        "bomb.gz": (gzip.compress(bytes(40 * MIB)), r"more than 8388608 bytes \(8\.0MiB\)"),
        "page.gz": (gzip.compress(b"<html>"), r"\(unpacked\) is a web page"),
        "twice.gz": (gzip.compress(xz), r"\(unpacked\) is compressed with xz"),
        "odd.zst": (zstd(content + b"x"), "not a multiple of 512"),
    }
    for name, (data, _message) in bad.items():
        (folder / name).write_bytes(data)
    return {name: message for name, (_data, message) in bad.items()}


def test_bad_compressed_images(site: Site) -> None:
    """Of the controller, and some of the hypervisor (tests/unit/images/test_read_unpack.py)."""
    bad = bad_packed(site.images)
    names = ("bomb.gz", "odd.zst")  # in the middle of it, and at its end
    there = {site.put("hv1", site.images / name, name): bad[name] for name in names}
    site.refuse({**bad, **there}, max_unpacked="8MiB")


def test_a_full_disk_while_unpacking_leaves_nothing(site: Site) -> None:
    (site.images / "large.gz").write_bytes(gzip.compress(os.urandom(24 * MIB), 1))
    site.lab.ssh("hv1", f"mkdir -p {FOLDER} && mount -t tmpfs -o size=16m,mode=0711 tmpfs {FOLDER}")
    try:
        result = site.run("large.gz")["hv1"]
        assert result["failed"]
        assert "MiB free, of which 1 MiB must stay free" in result["msg"], result
        assert site.files("hv1") == site.volumes("hv1") == site.staged("hv1") == []
    finally:
        site.lab.ssh("hv1", f"virsh -q pool-destroy {POOL}; umount {FOLDER}", check=False)


def test_downloaded_by_each_hypervisor(site: Site, server: _https.Server) -> None:
    path = site.convert("small.qcow2", os.urandom(2 * MIB), 8 * MIB)
    url = server.put("/images/small.qcow2", path.read_bytes())
    done = site.verify(url, "hv1,hv2")
    for host in HOSTS:
        volume = f"{digest(path)}-small.qcow2"
        assert done.real[host]["image"]["volume"] == volume
        site.only(host, volume)
        assert site.sha256(host, f"{FOLDER}/{volume}") == digest(path)
    # for each hypervisor its beginning in check mode, then the whole; nothing once it is there
    assert len(server.asked) == 4
    sums = f"{'0' * 64}  other.qcow2\n{digest(path)} *small.qcow2\n"
    server.put("/images/SHA256SUMS", sums.encode())
    entry = {"url": url.partition("#")[0], "checksum": server.url("/images/SHA256SUMS")}
    _by_a_name_of_the_catalogue(site, entry, f"{digest(path)}-small.qcow2")
    # once in a run of Ansible; those of the tests may share what a run keeps
    assert 1 <= len(server.asked[4:]) <= 3
    assert set(server.asked[4:]) == {"/images/SHA256SUMS"}


def _by_a_name_of_the_catalogue(site: Site, entry: dict[str, str], volume: str) -> None:
    """The same image, for the module and for a VM, which has the system that is written there."""
    # instead of the collection's own entry, whose server no test asks
    catalogue = {"virt_image_catalogue": {"debian12": {**entry, "os": "debian12"}}}
    again = site.run("debian12", extra=catalogue)["hv1"]
    assert not again["changed"], again
    assert again["image"]["volume"] == volume
    own = {"vm_host": "hv1", "vm_start": False}
    pools = {"virt_base_pool": POOL, "virt_base_path": FOLDER, "vm_seed": False, "vm_memory": 64}
    disks = {"vm_disks": [{"name": "system", "size": 64}], "vm_wait": False}
    given = {**catalogue, **own, **pools, **disks, "virt_hosts": "hv1"}
    for result in ("created", "unchanged"):
        _program, playbook, *words = shlex.split(OF_THE_CATALOGUE)
        done = site.ansible.playbook(playbook, given, words).succeeded()
        assert re.search(rf"web1 +hv1 .*{result}", done.stdout), done.stdout
    told = site.lab.ssh("hv1", "virsh dumpxml web1; qemu-img info -U /var/lib/libvirt/images/web1*")
    assert "http://debian.org/debian/12" in told.stdout
    assert f"{FOLDER}/{volume}" in told.stdout
    site.ansible.playbook("purge_vm", {"vm_name": "web1", "virt_hosts": "hv1"}).succeeded()


def test_a_compressed_download(site: Site, server: _https.Server) -> None:
    """What it holds is known when it is here, and remembered by the checksum of the download."""
    path = site.convert("x", os.urandom(2 * MIB), 8 * MIB)
    packed = lzma.compress(path.read_bytes(), preset=0)
    url = server.put("/debian.qcow2.xz", packed, "sha512")
    done = site.verify(url, generated=["digest", "volume", "path", "image"])
    found = done.real["hv1"]["image"]
    assert found["volume"] == f"{digest(path)}-debian.qcow2"
    assert found["digest"] == digest(path)
    site.only("hv1", found["volume"])
    assert len(server.asked) == 2
    site.lab.ssh("hv1", ["rm", "/var/cache/fleet-virt/digests.json"])
    assert not site.run(url)["hv1"]["failed"]
    site.only("hv1", found["volume"])


def test_downloaded_once_by_the_controller(site: Site, server: _https.Server) -> None:
    path = site.convert("x", os.urandom(2 * MIB), 8 * MIB)
    url = server.put("/small.qcow2", path.read_bytes())
    for _ in range(2):
        done = site.bring(url, "hv1,hv2", download_by="controller")
        for host in HOSTS:
            assert not done[host]["failed"], done
            site.only(host, f"{digest(path)}-small.qcow2")
    assert server.asked == ["/small.qcow2"]


def test_bad_downloads(site: Site, server: _https.Server) -> None:
    """Others, by the same code and server: tests/unit/images/test_effects_download.py."""
    content = bytes(512) + os.urandom(MIB)
    page = b"<!DOCTYPE html><title>Log in</title>"
    good = server.put("/good.raw", content)
    lying = good[:-64] + sha256(page)
    cases = {
        server.put("/page.qcow2.xz", lzma.compress(page)): r"\(unpacked\) is a web page",
        server.put(
            "/file.raw", content
        ): "redirects to file:///etc/shadow; only redirects to https",
        server.put("/stalls.raw", content): "sent little or no data for 1 seconds",
        good.partition("#")[0]: "has no checksum",
    }
    server.redirects["/file.raw"] = "file:///etc/shadow"
    server.stalls.add("/stalls.raw")
    server.files["/stalls.raw"] = content[:4096]  # half of which is too little to judge it by
    site.refuse(cases, download_timeout=1)
    wrong = site.bring(lying)["hv1"]
    assert f"sha256:{sha256(content)} instead of {lying.partition('#')[2]}" in wrong["msg"]
    server.cut.add("/good.raw")
    assert "ended after" in site.bring(good)["hv1"]["msg"]
    server.cut.clear()
    assert "max_unpacked" in site.bring(good, max_unpacked=1)["hv1"]["msg"]
    assert site.files("hv1") == site.staged("hv1") == []


def test_two_at_once_download_once(site: Site, server: _https.Server) -> None:
    path = site.convert("x", os.urandom(32 * MIB), 64 * MIB)
    url = server.put("/large.qcow2", path.read_bytes())
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda _: site.run(url)["hv1"], range(3)))
    assert [run["failed"] for run in runs] == [False] * 3, runs
    assert server.asked == ["/large.qcow2"]
    site.only("hv1", f"{digest(path)}-large.qcow2")


# Ends, on the hypervisor, whatever has a file without a name open in the folder of base images
_KILL = f"""
import glob, os, signal
for link in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        if os.readlink(link).startswith("{FOLDER}/#"):
            os.kill(int(link.split("/")[2]), signal.SIGKILL)
            print("killed")
            break
    except (FileNotFoundError, ProcessLookupError):
        pass
"""


def test_killed_while_it_downloads(site: Site, server: _https.Server) -> None:
    path = site.convert("x", os.urandom(4 * MIB), 8 * MIB)
    url = server.put("/killed.qcow2", path.read_bytes())
    server.stalls.add("/killed.qcow2")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(site.bring, url, download_timeout=60)
        kill = ["python3", "-c", _KILL]
        wait_for(lambda: "killed" in site.lab.ssh("hv1", kill).stdout, 40, "it downloads")
        assert running.result()["hv1"]["failed"]
    assert site.files("hv1") == site.volumes("hv1") == []
    server.stalls.clear()
    done = site.run(url)["hv1"]
    assert done["changed"], done
    site.only("hv1", f"{digest(path)}-killed.qcow2")
    assert site.sha256("hv1", done["image"]["path"]) == digest(path)


@pytest.fixture
def other_pool(site: Site) -> Iterator[str]:
    """A pool of the hypervisor with the images that lie there."""
    site.lab.ssh(
        "hv1", f"mkdir -p {HERE}; virsh -q pool-define-as {OTHER_POOL} dir --target {HERE}"
    )
    site.lab.ssh("hv1", ["virsh", "-q", "pool-start", OTHER_POOL])
    yield OTHER_POOL
    site.lab.ssh("hv1", f"virsh -q pool-destroy {OTHER_POOL}; virsh -q pool-undefine {OTHER_POOL}")


def test_a_volume_of_a_pool(site: Site, other_pool: str) -> None:
    path = site.convert("x", os.urandom(2 * MIB), 8 * MIB)
    site.put("hv1", path, "golden.qcow2")
    site.refuse(
        {
            f"{other_pool}/golden.qcow2": f"see .*virsh pool-refresh {other_pool}",
            "nowhere/golden.qcow2": f"no pool 'nowhere' .* there are: .*{other_pool}",
        }
    )
    site.lab.ssh("hv1", ["virsh", "-q", "pool-refresh", other_pool])
    found = site.run(f"{other_pool}/golden.qcow2")["hv1"]["image"]
    assert found["volume"] == f"{digest(path)}-golden.qcow2"
    site.only("hv1", found["volume"])


@pytest.fixture
def vm(site: Site) -> Iterator[str]:
    """The name of a VM that is gone afterwards."""
    name = "fv-image-vm"
    yield name
    site.lab.ssh(
        "hv1",
        f"virsh -q undefine {name}; rm -f /var/lib/libvirt/images/{name}*;"
        " virsh -q pool-refresh default",
        check=False,
    )


def test_a_vm_is_made_of_a_download(site: Site, server: _https.Server, vm: str) -> None:
    """In either way to write it, which are the same VM."""
    path = site.convert("x", os.urandom(2 * MIB), 8 * MIB)
    image = server.put("/small.qcow2.xz", lzma.compress(path.read_bytes(), preset=0))
    url, _, checksum = image.partition("#")
    wanted = {"name": vm, "image": {"url": url, "checksum": checksum}, "seed": False}
    wanted.update(start=False, nics=[])
    variables = {"virt_base_pool": POOL, "virt_base_path": FOLDER}
    for check in (True, False):
        done = site.ansible.module(
            "hv1", "virt_init", {"vms": [wanted]}, extra=variables, check=check
        )["hv1"]
        assert done["changed"], done
        assert bool(site.files("hv1")) is not check
    site.only("hv1", f"{digest(path)}-small.qcow2")
    disk = site.lab.ssh("hv1", ["qemu-img", "info", f"/var/lib/libvirt/images/{vm}_system.qcow2"])
    assert f"{FOLDER}/{digest(path)}-small.qcow2" in disk.stdout
    again = site.ansible.module(
        "hv1", "virt_init", {"vms": [{**wanted, "image": image}]}, extra=variables
    )["hv1"]
    assert not again["failed"], again
    assert not again["changed"], again


def test_examples_run_as_written(site: Site, server: _https.Server, other_pool: str) -> None:
    """With the folders, pool and server of these tests in place of those that they name."""
    options: dict[str, object]
    for example in documentation.examples("virt_image"):
        task = dict(example.task)
        options = dict(task[MODULE])
        image = str(options.get("image", ""))
        name = image.rpartition("/")[2]
        if options.get("state") is None:
            content = site.convert(name, os.urandom(MIB), 8 * MIB)
            if image.startswith("https://"):
                content.write_bytes(lzma.compress(content.read_bytes(), preset=0))
                options["image"], _, options["checksum"] = server.put(
                    f"/{name}", content.read_bytes()
                ).partition("#")
            elif image.startswith("/"):
                options["image"] = site.put("hv1", content, name)
            elif "/" in image:
                site.put("hv1", content, name)
                site.lab.ssh("hv1", ["virsh", "-q", "pool-refresh", other_pool])
                options["image"] = f"{other_pool}/{name}"
            else:
                options["image_dir"] = str(site.images)
            if "peers" in options:
                options["peers"] = [site.lab.host("hv2").address]
        task[MODULE] = {**options, "base_pool": POOL, "base_path": FOLDER}
        task["become"] = True
        site.ansible.play([task], "hv1").succeeded()
    assert site.files("hv1") == []  # the last removes what nobody uses
