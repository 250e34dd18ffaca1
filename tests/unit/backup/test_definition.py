# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The definition in an archive has the disks that are saved; what restores it refuses no other."""

from __future__ import annotations

import contextlib
import subprocess
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    archives,
    definition,
    effects,
    read,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.facts import (
    BackupFacts,
    BackupRequest,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

_WANTED = BackupRequest("ssh://backup@backup.example.com/srv/backup", "x", scratch="/srv")
_MIB = 1024**2


def _disk(target: str, path: str, more: str = "", kind: str = "qcow2") -> str:
    return (
        f"<disk type='file' device='disk'><driver name='qemu' type='{kind}'/>"
        f"<source file='{path}'/><target dev='{target}' bus='virtio'/>{more}</disk>"
    )


def _root(*disks: str, name: str = "web1") -> _lxml.Element:
    text = (
        f"<domain type='test'><name>{name}</name><uuid>6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b</uuid>"
        f"<memory>1024</memory><os><type>hvm</type></os><devices>{''.join(disks)}</devices>"
        "</domain>"
    )
    return _lxml.parse(text, "domain web1")


def _place(disk: _lxml.Element) -> str:
    source = disk.find("source")
    return "" if source is None else source.get("file", "")


_A, _B, _C = _disk("vda", "/a"), _disk("vdb", "/b"), _disk("vdc", "/c")
_ADDRESS = "<address type='pci' slot='0x07'/>"
_ONCE = "<boot order='1'/>"
# What is defined, what runs, and then the disks of the archive: file, how it is read; left out
_CASES: dict[str, tuple[list[str], list[str], dict[str, tuple[str, str]], list[str]]] = {
    "equal": ([_A, _B], [_A, _B], {"vda": ("/a", "job"), "vdb": ("/b", "job")}, []),
    "read only": (
        [_A, _disk("vdb", "/b", "<readonly/>")],
        [_A, _disk("vdb", "/b", "<readonly/>")],
        {"vda": ("/a", "job"), "vdb": ("/b", "file")},
        [],
    ),
    "next start": ([_A, _B], [_A], {"vda": ("/a", "job"), "vdb": ("/b", "waits")}, []),
    "plugged in": ([_A], [_A, _B], {"vda": ("/a", "job"), "vdb": ("/b", "job")}, []),
    "replaced": (
        [_A, _disk("vdb", "/new")],
        [_A, _B],
        {"vda": ("/a", "job"), "vdb": ("/b", "job")},
        ["vdb"],
    ),
    "other target": (
        [_A, _disk("sdb", "/b")],
        [_A, _B],
        {"vda": ("/a", "job"), "vdb": ("/b", "job")},
        [],
    ),
    "exchanged": (
        [_disk("vda", "/b"), _disk("vdb", "/a")],
        [_A, _B],
        {"vda": ("/a", "job"), "vdb": ("/b", "job")},
        [],
    ),
    "transient": (
        [_A, _disk("vdb", "/b", "<transient/>")],
        [_A, _disk("vdb", "/b.TRANSIENT-web1", "<transient/>")],
        {"vda": ("/a", "job"), "vdb": ("/b", "file")},
        [],
    ),
    "plugged in transient": (
        [_A],
        [_A, _disk("vdb", "/b.TRANSIENT-web1", "<transient/>")],
        {"vda": ("/a", "job")},
        ["vdb"],
    ),
    "all at once": (
        [_A, _C],
        [_A, _B],
        {"vda": ("/a", "job"), "vdb": ("/b", "job"), "vdc": ("/c", "waits")},
        [],
    ),
    "address of another": (
        [_A, _disk("vdc", "/c", _ADDRESS + _ONCE)],
        [_A, _disk("vdb", "/b", _ADDRESS + _ONCE)],
        {"vda": ("/a", "job"), "vdb": ("/b", "job"), "vdc": ("/c", "waits")},
        [],
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_archive_of_running_vm_has_the_definition_of_its_disks(case: str) -> None:
    stored, running, wanted, left_out = _CASES[case]
    made = definition.for_archive(_root(*stored), _root(*running), _place)
    found = {
        disk.target: (
            _place(disk.element),
            "job" if disk.written else "waits" if disk.waits else "file",
        )
        for disk in made.disks
    }
    assert found == wanted
    assert [target for target, _why in made.left_out] == left_out
    elements = definition.disks_of(made.root)
    assert {target: _place(one) for target, one in elements.items()} == {
        target: path for target, (path, _how) in wanted.items()
    }
    assert definition.unrestorable(made.root, list(wanted)) == []
    for place in ("address", "boot"):
        used = [str(one.attrib) for one in made.root.iterfind(f"devices/disk/{place}")]
        assert len(set(used)) == len(used), "libvirt refuses a second one"


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        (["vda"], "has a disk vdb, which was not saved"),
        (["vda", "vdb", "vdc"], "has no disk vdc"),
    ],
)
def test_definition_of_other_disks_is_unrestorable(saved: list[str], words: str) -> None:
    (problem,) = definition.unrestorable(_root(_A, _B), saved)
    assert words in problem


def test_left_out_disks_are_in_the_manifest_and_old_manifests_have_none() -> None:
    backup = archives.Backup(
        *("web1", "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b", "hv1", "2026-11-28T06:51:18Z"),
        *(archives.SHUT_OFF, ()),
    )
    files = (archives.SavedFile(archives.DOMAIN, 1, "0" * 64),)
    left_out = (archives.LeftOut("vdb", "it is shareable"),)
    for content in (
        archives.Manifest(backup, files, left_out),
        archives.Manifest(backup, files),
    ):
        text = archives.manifest(content)
        assert archives.read_manifest(text) == content
        assert ("left_out" in text) is bool(content.left_out)


# --- on libvirt's test driver, with real files ---


@pytest.fixture
def libvirt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setattr(Connection, "local", True)
    monkeypatch.setattr(read, "_missing", lambda *_given, **_named: [])
    with connect("test:///default", 30.0) as connection:
        yield connection


def _image(path: Path, mib: int = 8, kind: str = "qcow2") -> str:
    subprocess.run(["qemu-img", "create", "-q", "-f", kind, path, f"{mib}M"], check=True)
    return str(path)


def _facts(connection: Connection, *disks: str, name: str = "web1") -> BackupFacts:
    dom = connection.conn.defineXML(_lxml.tostring(_root(*disks, name=name)))
    try:
        return read.facts(connection, dom, _WANTED)
    finally:
        dom.undefine()


def _pool(connection: Connection, folder: Path) -> str:
    folder.mkdir()
    text = f"<pool type='dir'><name>fast</name><target><path>{folder}</path></target></pool>"
    pool = connection.conn.storagePoolDefineXML(text, 0)
    pool.create(0)
    volume = (
        "<volume><name>web1.qcow2</name><capacity>8388608</capacity>"
        "<target><format type='qcow2'/></target></volume>"
    )
    return str(pool.createXML(volume, 0).path())


_VOLUME = (
    "<disk type='volume' device='disk'><driver name='qemu' type='qcow2'/>"
    "<source pool='{}' volume='web1.qcow2'/><target dev='vdb' bus='virtio'/></disk>"
)


def test_volume_of_a_vm_that_is_off_is_saved_from_its_file(
    libvirt: Connection, tmp_path: Path
) -> None:
    path = _pool(libvirt, tmp_path / "fast")
    _image(Path(path), 16)
    facts = _facts(libvirt, _disk("vda", _image(tmp_path / "a")), _VOLUME.format("fast"))
    assert not facts.blockers
    saved = {disk.target: disk.source for disk in facts.disks}
    assert saved == {"vda": str(tmp_path / "a"), "vdb": path}


def test_disk_that_waits_for_the_next_start_is_saved_unless_another_vm_writes_to_it(
    libvirt: Connection, tmp_path: Path
) -> None:
    """libvirt tells the size of no disk that a VM which runs has not."""
    first, second = _disk("vda", _image(tmp_path / "a")), _disk("vdb", _image(tmp_path / "b", 16))
    dom = libvirt.conn.defineXML(_lxml.tostring(_root(first)))
    both = _root(first, second)
    try:
        _made, disks, blockers = read._definition(libvirt, dom, both, _root(first))
        assert not blockers
        assert [(disk.target, disk.size, disk.written) for disk in disks][1:] == [
            ("vdb", 16 * _MIB, False)
        ]
        with _written(tmp_path / "b"):
            made, disks, blockers = read._definition(libvirt, dom, both, _root(first))
    finally:
        dom.undefine()
    assert ([disk.target for disk in disks], blockers) == (["vda"], [])
    ((target, why),) = made.left_out
    assert target == "vdb"
    assert "lock" in why


@contextlib.contextmanager
def _written(path: Path) -> Iterator[None]:
    """Have a QEMU write to an image."""
    socket = path.with_suffix(".sock")
    with subprocess.Popen(["qemu-nbd", "-t", "-f", "qcow2", "-k", socket, path]) as process:
        try:
            wait_for(socket.exists, 20, "qemu-nbd")
            yield
        finally:
            process.terminate()


_ODD = {
    "volume of no pool": _VOLUME.format("gone"),
    "missing file": _disk("vdb", "/nowhere/b"),
    "network": (
        "<disk type='network' device='disk'><driver name='qemu' type='raw'/><source protocol='nbd'"
        " name='x'><host name='192.0.2.1'/></source><target dev='vdb' bus='virtio'/></disk>"
    ),
    "shareable": _disk("vdb", "/nowhere/b", "<shareable/>"),
}


@pytest.mark.parametrize("odd", _ODD)
def test_odd_vm_fails_no_backup_of_others(odd: str, libvirt: Connection, tmp_path: Path) -> None:
    first = _disk("vda", _image(tmp_path / "a"))
    domains = [
        libvirt.conn.defineXML(_lxml.tostring(root).replace("6f3a0d4c", f"6f3a0d4{number}"))
        for number, root in enumerate(
            (_root(first, name="web1"), _root(first, _ODD[odd], name="odd1"))
        )
    ]
    try:
        names = ["odd1", "web1", "gone1"]
        result: t.Any = effects.run(libvirt, names, _WANTED, check=True)
    finally:
        for dom in domains:
            dom.undefine()
    failed = {vm["name"]: vm["msg"] for vm in result["vms"] if vm["failed"]}
    assert set(failed) == {"odd1", "gone1"}
    assert "disk vdb of 'odd1'" in failed["odd1"]
    assert "no domain 'gone1'" in failed["gone1"]


@pytest.mark.parametrize("odd", [*_ODD, "format"])
def test_read_only_disk_that_cannot_be_saved_is_left_out_and_named(
    odd: str, libvirt: Connection, tmp_path: Path
) -> None:
    text = _ODD.get(odd) or _disk("vdb", _image(tmp_path / "b", kind="vmdk"), kind="vmdk")
    text = text.replace("</disk>", "<readonly/></disk>")
    facts = _facts(libvirt, _disk("vda", _image(tmp_path / "a")), text)
    assert (facts.blockers, [disk.target for disk in facts.disks]) == ((), ["vda"])
    assert [one.target for one in facts.left_out] == ["vdb"]
    root = _lxml.parse(facts.domain, "domain web1")
    assert definition.unrestorable(root, ["vda"]) == []


def test_disk_plugged_in_where_a_drive_is_defined_is_restored(libvirt: Connection) -> None:
    """libvirt defines no two of a target, and media are no part of a VM."""
    drive = _B.replace("'disk'>", "'cdrom'>").replace("virtio", "sata")
    made = definition.for_archive(_root(_A, drive), _root(_A, _B), _place)
    libvirt.conn.defineXML(_lxml.tostring(made.root)).undefine()
    assert [disk.target for disk in made.disks] == ["vda", "vdb"]
    assert made.left_out == [("vdb", "a drive takes its place at the next start only")]
    assert [disk.get("device") for disk in made.root.iterfind("devices/disk")] == ["disk", "disk"]


@pytest.mark.parametrize("runs", [False, True])
def test_read_only_disk_to_which_another_vm_writes_is_left_out_and_named(
    runs: bool, libvirt: Connection, tmp_path: Path
) -> None:
    """Its content would change while it is read, which ends a backup."""
    second = _disk("vdb", _image(tmp_path / "b"), "<readonly/>")
    root = _root(_disk("vda", _image(tmp_path / "a")), second)
    dom = libvirt.conn.defineXML(_lxml.tostring(root))
    try:
        with _written(tmp_path / "b"):
            made, disks, blockers = read._definition(libvirt, dom, root, root if runs else None)
    finally:
        dom.undefine()
    assert ([disk.target for disk in disks], blockers) == (["vda"], [])
    ((target, why),) = made.left_out
    assert (target, "lock" in why) == ("vdb", True)


def test_read_only_disk_is_saved_and_drive_is_not(libvirt: Connection, tmp_path: Path) -> None:
    drive = (
        _disk("sda", "/nowhere/iso", "<shareable/><readonly/>", "raw")
        .replace("'disk'>", "'cdrom'>")
        .replace("virtio", "sata")
    )
    first, second = _image(tmp_path / "a"), _image(tmp_path / "b")
    facts = _facts(libvirt, _disk("vda", first), _disk("vdb", second, "<readonly/>"), drive)
    assert not facts.blockers
    assert [disk.source for disk in facts.disks] == [first, second]
    assert "/nowhere/iso" in facts.domain


def test_disk_whose_data_are_in_another_file_is_saved_and_named(
    libvirt: Connection, tmp_path: Path
) -> None:
    """Its content is saved whole, and what is restored of it is one file."""
    words = ["qemu-img", "create", "-q", "-f", "qcow2", "-o", f"data_file={tmp_path}/a.data"]
    subprocess.run([*words, str(tmp_path / "a"), "1M"], check=True)
    disks = _disk("vda", str(tmp_path / "a")), _disk("vdb", _image(tmp_path / "b"))
    facts = _facts(libvirt, *disks)
    assert facts.blockers == ()
    (one,) = facts.one_file
    assert (one.target, one.data) == ("vda", f"{tmp_path}/a.data")
    files = tuple(
        archives.SavedFile(path, size, "0" * 64)
        for path, size in ((archives.DOMAIN, 1), ("disks/vda.raw", _MIB))
    )
    backup = archives.Backup(
        *("web1", "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b", "hv1", "2026-11-28T06:51:18Z"),
        archives.SHUT_OFF,
        (archives.SavedDisk("vda", _MIB, "qcow2"),),
    )
    for content in (
        archives.Manifest(backup, files, (), facts.one_file),
        archives.Manifest(backup, files),
    ):
        text = archives.manifest(content)
        assert archives.read_manifest(text) == content
        assert ("one_file" in text) is bool(content.one_file)


def test_uefi_variables_in_a_varstore_are_refused_as_they_would_be_lost() -> None:
    root = _root(_A)
    assert read._firmware(root, "web1") == []
    _lxml.add(root.find("os"), "varstore", {"path": "/v/web1.json"})
    (why,) = read._firmware(root, "web1")
    assert "in a varstore; those in an nvram can be saved" in why
