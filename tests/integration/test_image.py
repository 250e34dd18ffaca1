# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_image on real hypervisors: whole or not at all, once, never changed afterwards."""

from __future__ import annotations

import bz2
import os
import random
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support import images
from ansible_collections.fleet.virt.tests.integration.support.ansible import PROGRAMS, Ansible
from ansible_collections.fleet.virt.tests.integration.support.images import (
    FOLDER,
    HERE,
    HOSTS,
    MIB,
    MODULE,
    POOL,
    STAGED,
    Site,
    digest,
    encrypted,
    qemu_img,
)
from ansible_collections.fleet.virt.tests.integration.support.killing import kill_tree
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "0"))
_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261125"))


@pytest.fixture
def site(ansible: Ansible, lab: Laboratory, tmp_path: Path) -> Iterator[Site]:
    """Nothing there yet; nothing left afterwards."""
    with images.site(ansible, lab, tmp_path) as made:
        yield made


def test_copied_once_and_as_predicted(site: Site) -> None:
    path = site.convert("small.qcow2", os.urandom(3 * MIB), 64 * MIB)
    volume = f"{digest(path)}-small.qcow2"
    done = site.verify("small.qcow2", "hv1,hv2")
    for host in HOSTS:
        assert done.real[host]["image"] == {
            "name": "small.qcow2",
            "digest": digest(path),
            "format": "qcow2",
            "pool": POOL,
            "volume": volume,
            "path": f"{FOLDER}/{volume}",
            "size_mib": 64,
        }
        result = {key: done.real[host][key] for key in done.real[host] if key[0] != "_"}
        assert documentation.undocumented("virt_image", result) == []
        assert documentation.missing("virt_image", result) == []
        site.only(host, volume)
        assert site.sha256(host, f"{FOLDER}/{volume}") == digest(path)
    output = done.runs[1].output
    assert output.count("hv1: copying small.qcow2, 4 MiB") == 1
    assert "copying" not in done.runs[0].output + done.runs[2].output


def test_a_base_image_is_never_written(site: Site) -> None:
    """B06: a running VM's base image does not change, whatever becomes of the file it came from."""
    path = site.convert("small.qcow2", os.urandom(MIB), 8 * MIB)
    before = site.run("small.qcow2")["hv1"]["image"]
    stat = site.lab.ssh("hv1", ["stat", "-c", "%a %U:%G", before["path"], FOLDER]).stdout
    assert stat.split("\n")[:2] == ["644 root:root", "711 root:root"]
    for attempt in ("echo x >> {}", "rm -f {}", "mv {} {}.old", "chmod 0600 {}"):
        command = attempt.format(*[before["path"]] * 2)
        assert site.lab.ssh("hv1", command, check=False).returncode != 0, command
    write = ["qemu-io", "-f", "qcow2", "-c", "write 0 512", before["path"]]
    assert site.lab.ssh("hv1", write, check=False).returncode != 0
    assert site.sha256("hv1", before["path"]) == before["digest"]
    site.convert("small.qcow2", os.urandom(MIB), 8 * MIB)  # another content under that name
    assert digest(path) != before["digest"]
    after = site.run("small.qcow2")["hv1"]
    assert after["changed"]
    assert after["image"]["digest"] == digest(path)
    assert site.volumes("hv1") == sorted([before["volume"], after["image"]["volume"]])
    assert site.sha256("hv1", before["path"]) == before["digest"]


def test_the_same_content_is_there_once(site: Site) -> None:
    path = site.convert("first.qcow2", os.urandom(MIB), 8 * MIB)
    shutil.copy(path, site.images / "second.img")
    first = site.run("first.qcow2")["hv1"]["image"]
    there = site.put("hv1", path, "third")
    for image, name in (("second.img", "second.img"), (there, "third")):
        again = site.run(image)["hv1"]
        assert not again["changed"], again
        assert again["image"] == {**first, "name": name}
    site.only("hv1", first["volume"])


def test_format_is_by_content(site: Site) -> None:
    (site.images / "raw.qcow2").write_bytes(b"raw".ljust(3 * MIB, b"\0"))
    shutil.copy(site.convert("x", os.urandom(MIB), 8 * MIB), site.images / "qcow2.raw")
    found = site.run("raw.qcow2")["hv1"]["image"]
    assert (found["format"], found["size_mib"]) == ("raw", 3)
    assert found["volume"].endswith("-raw.qcow2.raw")
    found = site.run("qcow2.raw")["hv1"]["image"]
    assert (found["format"], found["size_mib"]) == ("qcow2", 8)
    assert found["volume"].endswith("-qcow2.raw.qcow2")
    listed = site.lab.ssh("hv1", ["virsh", "vol-dumpxml", found["volume"], POOL]).stdout
    assert "<format type='qcow2'/>" in listed


def test_sparse_stays_sparse(site: Site) -> None:
    path = site.images / "sparse.raw"
    with path.open("wb") as file:
        for offset in (0, 100 * MIB, 299 * MIB):
            file.seek(offset)
            file.write(os.urandom(MIB))
    found = site.run("sparse.raw")["hv1"]["image"]
    used = int(site.lab.ssh("hv1", ["stat", "-c", "%b", found["path"]]).stdout) * 512
    assert 3 * MIB <= used <= 4 * MIB
    assert site.sha256("hv1", found["path"]) == digest(path)


def test_a_file_of_the_hypervisor(site: Site) -> None:
    path = site.convert("x", os.urandom(2 * MIB), 8 * MIB)
    where = site.put("hv1", path, "centos 7.img")
    done = site.verify(where, watch=[HERE])
    found = done.real["hv1"]["image"]
    assert found["volume"] == f"{digest(path)}-centos_7.img.qcow2"
    assert site.sha256("hv1", where) == digest(path)
    site.only("hv1", found["volume"])
    itself = site.run(found["path"])["hv1"]
    assert not itself["changed"], itself
    assert {**itself["image"], "name": "centos 7.img"} == found
    stat = ["stat", "-c", "%a %U", "/var/cache/fleet-virt/digests.json"]

    def remembered() -> str:
        """Mode and owner of what is remembered; of files that were written just now nothing is."""
        site.run(where)
        return site.lab.ssh("hv1", stat, check=False).stdout

    wait_for(remembered, 30, "it is remembered")
    assert remembered() == "600 root\n"


def test_a_file_that_a_vm_writes_to_is_refused(site: Site) -> None:
    where = site.put("hv1", site.convert("x", os.urandom(MIB), 8 * MIB), "busy.qcow2")
    command = [*site.lab.login("hv1"), "--", "qemu-io", "-f", "qcow2", where]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write(b"write -P 1 0 512\n")
        writer.stdin.flush()
        assert b"wrote 512/512" in writer.stdout.readline()
        site.refuse({where: "is in use"})
        writer.stdin.close()
        writer.wait(30)
    assert site.run(where)["hv1"]["changed"]


def bad_images(folder: Path) -> dict[str, str]:
    """Images that are refused, made in a folder, and what is said of each."""
    good, raw = folder / "good", folder / ".raw"
    raw.write_bytes(os.urandom(4 * MIB))
    qemu_img("convert", "-f", "raw", "-O", "qcow2", raw, good)
    content = good.read_bytes()
    (folder / "cut.qcow2").write_bytes(content[: len(content) // 2])
    (folder / "header-only.qcow2").write_bytes(content[:4096])
    table = int.from_bytes(content[40:48], "big")
    broken = content[:table] + b"\x80\0\x12\x34\x56\x78\x9a\xbc" + content[table + 8 :]
    (folder / "corrupt.qcow2").write_bytes(broken)
    overlay = ["-f", "qcow2", "-F", "raw", "-b", "/etc/shadow", folder / "overlay.qcow2", "1M"]
    qemu_img("create", "-u", *overlay)
    data = f"data_file={folder}/.data,data_file_raw=on"
    qemu_img("create", "-f", "qcow2", "-o", data, folder / "data.qcow2", "1M")
    (folder / "packed.qcow2").write_bytes(bz2.compress(content, 1))
    (folder / "page.qcow2").write_bytes(b"<!DOCTYPE html><title>Not found</title>")
    (folder / "empty.qcow2").write_bytes(b"")
    (folder / "odd.raw").write_bytes(bytes(1000))
    qemu_img("convert", "-f", "raw", "-O", "vmdk", raw, folder / "disk.vmdk")
    encrypted(folder / "encrypted.qcow2")
    return {
        "cut.qcow2": r"is corrupt or truncated \(qemu-img check",
        "header-only.qcow2": "is truncated",
        "corrupt.qcow2": r"is corrupt or truncated \(qemu-img check",
        "overlay.qcow2": r"has a backing file \('/etc/shadow'\)",
        "data.qcow2": "external data file",
        "packed.qcow2": "compressed with bzip2",
        "page.qcow2": "is a web page",
        "empty.qcow2": "is empty",
        "odd.raw": "not a multiple of 512",
        "disk.vmdk": "VMDK",
        "encrypted.qcow2": "is encrypted; decrypt it first",
    }


def test_bad_images_of_the_controller(site: Site) -> None:
    site.refuse(bad_images(site.images), "hv1,hv2")


def test_bad_images_of_a_controller_without_qemu_img(site: Site, tmp_path: Path) -> None:
    """What only qemu-img sees is then refused by the hypervisor, and leaves nothing there."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in ("sh", "ssh", "sftp", "scp"):
        (programs / program).symlink_to(shutil.which(program) or "")
    site.ansible.more["PATH"] = f"{PROGRAMS}:{programs}"
    bad_images(site.images)
    for host, result in site.run("cut.qcow2", "hv1,hv2").items():
        assert result["failed"], result
        assert "image cut.qcow2 is corrupt or truncated (qemu-img check" in result["msg"]
        assert site.files(host) == site.staged(host) == []
        assert POOL not in site.pools(host)


def test_bad_images_of_the_hypervisor(site: Site) -> None:
    """One by its header, one by the hypervisor's qemu-img; the others are told as the controller's
    are, by the same code (tests/unit/storage/test_image_format.py, unit/images/test_read_check.py).
    """
    bad = bad_images(site.images)
    names = ("overlay.qcow2", "cut.qcow2")
    site.refuse({site.put("hv1", site.images / name, name): bad[name] for name in names})


BAD_NAMES = {
    "nothing.qcow2": r"no such file in .*which has good, known\.qcow2; copy the image there",
    "/srv/fv-image/nothing": r"No such file or directory; /srv/fv-image has known\.qcow2",
    "/srv/nowhere/nothing": "No such file or directory",
    "/srv": "is not a regular file",
    "/dev/null": "is not a regular file",
    "../secret": r"has a '\.\.' in its path",
    "-rf": "is not an image",
    "pool/volume": "no pool 'pool' on this hypervisor; there are: ",
    "https://example.org/x.qcow2": "has no checksum",
    "http://example.org/x.qcow2": "is not an https URL",
    "salt://centos.img": "put the file into virt_image_dir and write centos.img",
    "": "is not an image",
}


def test_bad_names(site: Site) -> None:
    for name in ("good", "known.qcow2"):
        (site.images / name).write_bytes(bytes(512))
    site.put("hv1", site.images / "good", "known.qcow2")
    site.refuse(BAD_NAMES)


def test_a_pool_of_another_name_with_that_folder_is_used(site: Site) -> None:
    site.lab.ssh("hv1", f"virsh -q pool-define-as {POOL} dir --target {FOLDER} && mkdir {FOLDER}")
    site.lab.ssh("hv1", ["virsh", "-q", "pool-start", POOL])
    site.convert("x.qcow2", os.urandom(MIB), 8 * MIB)
    done = site.bring("x.qcow2", base_pool="another")["hv1"]
    assert done["image"]["pool"] == POOL
    assert "another" not in site.pools("hv1")


def test_an_inactive_pool_is_named(site: Site) -> None:
    """One that starts at boot and did not: its storage may be missing."""
    site.lab.ssh("hv1", ["virsh", "-q", "pool-define-as", POOL, "dir", "--target", FOLDER])
    site.lab.ssh("hv1", ["virsh", "-q", "pool-autostart", POOL])
    site.convert("x.qcow2", os.urandom(MIB), 8 * MIB)
    site.refuse({"x.qcow2": f"pool {POOL} is inactive; start it with virsh pool-start {POOL}"})


def test_two_runs_at_once_make_one(site: Site) -> None:
    path = site.convert("large.qcow2", os.urandom(64 * MIB), 128 * MIB)
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda _: site.run("large.qcow2", "hv1,hv2"), range(3)))
    for host in HOSTS:
        assert [run[host]["failed"] for run in runs] == [False] * 3, runs
        site.only(host, f"{digest(path)}-large.qcow2")
        assert site.sha256(host, f"{FOLDER}/{digest(path)}-large.qcow2") == digest(path)


def test_two_runs_at_once_on_the_hypervisor_make_one(site: Site) -> None:
    path = site.convert("large", os.urandom(64 * MIB), 128 * MIB)
    where = site.put("hv1", path, "large.qcow2")
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda _: site.run(where)["hv1"], range(3)))
    assert [run["failed"] for run in runs] == [False] * 3, runs
    site.only("hv1", f"{digest(path)}-large.qcow2")


def test_killed_while_it_travels(site: Site) -> None:
    """kill -9 of the whole run in the middle of the transfer; the next run ends right."""
    path = site.convert("large.qcow2", os.urandom(64 * MIB), 512 * MIB)
    slowly = "-l 40000"  # sftp's limit in kbit/s: 13 seconds
    options = {"image": "large.qcow2", **site.options}
    args = shlex.join(f"{key}={word}" for key, word in options.items())
    words = ("hv1", "--become", "-m", MODULE, "-a", args)
    for number in (1, 2):
        with site.ansible.begin("ansible", *words, ANSIBLE_SFTP_EXTRA_ARGS=slowly) as run:
            wait_for(lambda n=number: len(site.staged("hv1")) == n, 60, "the transfer begins")
            assert run.poll() is None
            kill_tree(run.pid)
    sizes = site.lab.ssh("hv1", f"stat -c %s $({STAGED})").stdout.split()
    assert all(int(size) < 64 * MIB for size in sizes)
    assert site.files("hv1") == []
    done = site.run("large.qcow2")["hv1"]
    assert done["changed"], done
    site.only("hv1", f"{digest(path)}-large.qcow2")
    assert site.sha256("hv1", done["image"]["path"]) == digest(path)
    assert not site.run("large.qcow2")["hv1"]["changed"]


# Ends, on the hypervisor, whatever has a file without a name open in the folder of base images
_KILL = f"""
import glob, os, signal, sys, time
end = time.monotonic() + 30
while time.monotonic() < end:
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link).startswith("{FOLDER}/#"):
                break
        except FileNotFoundError:
            pass
    else:
        continue
    time.sleep(float(sys.argv[1]))
    try:
        os.kill(int(link.split("/")[2]), signal.SIGKILL)
    except ProcessLookupError:
        print("it was done before")
    sys.exit(0)
sys.exit("nothing to be killed")
"""


def test_killed_while_it_is_adopted(site: Site) -> None:
    """kill -9 of the module while it copies and checks; the next run ends right.

    As soon as it copies, then FLEET_VIRT_TRIALS times at random moments.
    """
    chance = random.Random(_SEED)  # noqa: S311 (where to kill, no secret)
    path = site.convert("large", os.urandom(128 * MIB), 256 * MIB)
    where = site.put("hv1", path, "large.qcow2")
    volume = f"{digest(path)}-large.qcow2"
    site.run(where, check=True)
    killed = 0
    for round_ in range(max(6, 1 + _TRIALS)):
        if killed and round_ > _TRIALS:
            break
        delay = chance.uniform(0, 0.4) if round_ else 0.0
        print(f"seed {_SEED}, round {round_}: killed {delay:.2f} s after it began to copy")
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(site.run, where)
            ended = site.lab.ssh("hv1", ["python3", "-c", _KILL, str(delay)], check=False)
            result = running.result()["hv1"]
        killed += result["failed"]
        assert ended.returncode == 0, ended.stderr
        assert set(site.files("hv1")) <= {volume}
        done = site.run(where)["hv1"]
        assert not done["failed"], done
        site.only("hv1", volume)
        assert site.sha256("hv1", f"{FOLDER}/{volume}") == digest(path)
        remove = f"chattr -i {FOLDER}/* && virsh -q vol-delete {volume} {POOL}"
        site.lab.ssh("hv1", remove)
    assert killed


def test_what_a_killed_call_had_named_is_finished(site: Site) -> None:
    """Killed after the file got its name: libvirt does not know it, and it is not immutable."""
    path = site.convert("small.qcow2", os.urandom(MIB), 8 * MIB)
    first = site.run("small.qcow2")["hv1"]["image"]
    site.lab.ssh("hv1", f"chattr -i {FOLDER}/*; virsh -q vol-delete {first['volume']} {POOL}")
    there = site.put("hv1", path, "x")
    site.lab.ssh("hv1", f"install -m 0644 {there} {first['path']}")
    assert (site.files("hv1"), site.volumes("hv1")) == ([first["volume"]], [])
    done = site.verify("small.qcow2")
    assert done.real["hv1"]["image"] == first
    assert "copying" not in done.runs[1].output
    site.only("hv1", first["volume"])
    assert site.lab.ssh("hv1", ["rm", "-f", first["path"]], check=False).returncode != 0


def test_a_full_disk_leaves_nothing(site: Site) -> None:
    site.convert("large.qcow2", os.urandom(24 * MIB), 64 * MIB)
    mount = f"mkdir -p {FOLDER} && mount -t tmpfs -o size=16m,mode=0711 tmpfs {FOLDER}"
    site.lab.ssh("hv1", mount)
    try:
        result = site.run("large.qcow2")["hv1"]
        assert result["failed"]
        assert "MiB free, of which 1 MiB must stay free" in result["msg"], result
        assert site.files("hv1") == site.volumes("hv1") == site.staged("hv1") == []
    finally:
        site.lab.ssh("hv1", f"virsh -q pool-destroy {POOL}; umount {FOLDER}", check=False)


def test_a_cache_that_lies_does_not_get_through(site: Site) -> None:
    """The hypervisor verifies what arrives; the controller's memory is not believed there."""
    path = site.convert("small.qcow2", os.urandom(MIB), 8 * MIB)
    cache = site.ansible.environment()["XDG_CACHE_HOME"] + "/fleet.virt/digests.json"
    wait_for(lambda: site.run("small.qcow2") and os.path.exists(cache), 30, "it is remembered")
    lie = "f" * 64
    Path(cache).write_text(Path(cache).read_text().replace(digest(path), lie))
    result = site.run("small.qcow2")["hv1"]
    assert result["failed"]
    assert f"arrived with the SHA-256 {digest(path)} instead of {lie}" in result["msg"]
    site.only("hv1", f"{digest(path)}-small.qcow2")
