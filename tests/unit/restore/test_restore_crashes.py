# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restoring VMs, killed or failing at each of its effects, on libvirt's test driver."""

from __future__ import annotations

import contextlib
import hashlib
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import archives
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.archives import (
    Backup,
    Manifest,
    SavedDisk,
    SavedFile,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_lease as lease
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    definition,
    effects,
    effects_archive,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options import (
    RestoreOptions,
    RestoreWork,
    SavedVm,
)
from ansible_collections.fleet.virt.plugins.module_utils._lxml import tostring
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_AT = "2026-11-28T06:51:18Z"
_CONTENT = {
    "disks/vda.raw": b"a system" * 1024,
    "disks/vdb.raw": b"its data" * 512,
    "nvram": b"variables" * 10,
}
_FILES = {"web1_system.raw": "disks/vda.raw", "web1_vdb.raw": "disks/vdb.raw"}
_OWN = OwnVolume("default", "web1_system.raw", "/srv/old/web1_system.raw", "system", "disk", "1")
_DOMAIN = """
<domain type='test'><name>web1</name><uuid>{uuid}</uuid><memory>131072</memory>
 <metadata>{metadata}</metadata>
 <os><type>hvm</type><loader type='pflash'>/bin/sh</loader><nvram>/srv/old/web1_VARS.fd</nvram></os>
 <devices>
  <disk type='file' device='disk'><source file='/srv/old/web1_system.raw'/>
   <target dev='vda' bus='virtio'/></disk>
  <disk type='block' device='disk'><source dev='/dev/vg/web1'/>
   <target dev='vdb' bus='virtio'/></disk>
 </devices></domain>
"""
_OPTIONS: RestoreOptions = {
    "names": ["web1"],
    "new_name": None,
    "archive": None,
    "restore_as": None,
    "without": [],
    "place": "/srv/backup",
    "passphrase": "x",
    "ssh_key": None,
    "pool": "default",
    "pool_path": "/nowhere",
    "base_pool": "base",
    "base_path": "/nowhere",
}


class Image:
    """An image that is written as qemu-nbd would, seen from outside."""

    def __init__(self, path: str) -> None:
        self.path, self.size = path, Path(path).stat().st_size

    def write(self, offset: int, data: bytes) -> None:
        with Path(self.path).open("r+b") as file:
            file.seek(offset)
            file.write(data)


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Hypervisors, to which the archive's content is given as borg and qemu-nbd would."""

    @contextlib.contextmanager
    def opened(path: str, _format: str) -> Iterator[Image]:
        yield Image(path)

    def pour(_archive: t.Any, file: SavedFile, into: t.Callable[[int, bytes], None]) -> None:
        half = file.size // 2
        content = _CONTENT[file.path]
        into(0, content[:half])
        into(half, content[half:])

    monkeypatch.setattr(effects.images, "opened", opened)
    monkeypatch.setattr(effects_archive.Archive, "pour", pour)
    monkeypatch.setattr(lease, "OBSERVE", 0.0)  # whoever does not live is dead at once
    return Machines(tmp_path, monkeypatch)


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return made(tmp_path, monkeypatch)


def _saved(run: str) -> SavedVm:
    disks = tuple(
        SavedDisk(target, len(_CONTENT[archives.disk_path(target)]), "raw")
        for target in ("vda", "vdb")
    )
    backup = Backup("web1", _UUID, "hv9", _AT, archives.SHUT_OFF, disks)
    files = [
        SavedFile(path, len(content), hashlib.sha256(content).hexdigest())
        for path, content in _CONTENT.items()
    ]
    files.append(SavedFile(archives.DOMAIN, 1, "0" * 64))
    kept = Metadata(request='{"name":"web1"}', host_key="k", volumes=(_OWN,))
    ours = tostring(metadata.to_element(kept))
    return SavedVm(
        name="web1",
        uuid=_UUID,
        repository=_UUID,
        archive=_AT,
        manifest=archives.manifest(Manifest(backup, tuple(files))),
        definition=_DOMAIN.format(uuid=_UUID, metadata=ours),
        claimer=run,
    )


def _stage(
    machine: Machine, patch: pytest.MonkeyPatch, stage: str, run: str, *, check: bool = False
) -> t.Callable[[Connection], t.Mapping[str, t.Any]]:
    folder = machine.root / "nvram"
    folder.mkdir(exist_ok=True)
    patch.setattr(definition, "NVRAM_FOLDER", str(folder))
    work = RestoreWork(stage=stage, vms=[_saved(run)])
    return lambda connection: effects.run(connection, _OPTIONS, work, check=check)


def _ended(machine: Machine, where: str = "") -> None:
    assert list(machine.domains()) == ["web1"], where
    stored = machine.stored("web1")
    assert stored is not None
    assert (stored.phase, stored.owner) == (None, None), where
    assert stored.restored_from == f"{_UUID}::{_AT}", where
    assert (stored.request, stored.host_key) == ('{"name":"web1"}', "k"), where
    files = {name: (machine.pool / name).read_bytes() for name in machine.files()}
    assert files == {name: _CONTENT[path] for name, path in _FILES.items()}, where
    assert {one.name for one in stored.volumes} == {*_FILES}, where
    assert all(one.made for one in stored.volumes), where
    nvram = machine.root / "nvram" / "web1_VARS.fd"
    assert nvram.read_bytes() == _CONTENT["nvram"], where
    text = str(machine.connection.conn.lookupByName("web1").XMLDesc(2))
    assert "/srv/old" not in text.partition("</metadata>")[2], where
    assert "sdzz" not in text, "it can be started"
    assert machine.faults() == [], where


def _nothing(machine: Machine, where: str) -> None:
    assert not machine.domains(), where
    assert not machine.files(), where
    assert not list((machine.root / "nvram").iterdir()), where


def test_check_mode_says_what_is_done(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    with machines.new() as machine:
        asked = machine.call(_stage(machine, monkeypatch, "all", "run1", check=True))
        assert machine.effects.done == []
        _nothing(machine, "check mode")
        done = machine.call(_stage(machine, monkeypatch, "all", "run1"))
        assert asked is not None
        assert not asked.get("failed"), asked["msg"]
        assert asked == done
        _ended(machine)
        again = machine.call(_stage(machine, monkeypatch, "all", "run2"))
        assert again is not None
        assert (again["changed"], again.get("failed", False)) == (False, False), again
        assert machine.effects.done == []


@pytest.mark.parametrize("how", ["kill_at", "fail_at"])
@pytest.mark.parametrize("stages", [("all",), ("claim", "finish")])
def test_restore_killed_or_failed_anywhere_is_finished_by_next_run(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, stages: tuple[str, ...], how: str
) -> None:
    counts = []
    with machines.new() as machine:
        for stage in stages:
            result = machine.call(_stage(machine, monkeypatch, stage, "run1"))
            assert result is not None
            assert not result.get("failed"), result
            counts.append(len(machine.effects.done))
        _ended(machine)
    assert sum(counts) > 10
    for number in range(1, sum(counts) + 1):
        with machines.new() as machine:
            at = number
            for stage, count in zip(stages, counts):
                if at <= count:
                    break
                machine.call(_stage(machine, monkeypatch, stage, "run1"))
                at -= count
            result = machine.call(_stage(machine, monkeypatch, stage, "run1"), **{how: at})
            where = f"{stage}, {how} {at}: {machine.effects.done[at - 1 :]}"
            if result is not None and result.get("failed") and stage != "claim":
                _nothing(machine, where)
            result = machine.call(_stage(machine, monkeypatch, "all", "run2"))
            assert result is not None, where
            assert not result.get("failed"), (where, result)
            _ended(machine, where)


def test_repair_killed_anywhere_is_finished_by_next_run(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, repaired = 0, False
    while not repaired:
        number += 1
        with machines.new() as machine:
            machine.call(_stage(machine, monkeypatch, "all", "run1"), kill_at=10)
            first = machine.call(_stage(machine, monkeypatch, "all", "run2"), kill_at=number)
            where = f"repair, {number}: {machine.effects.done[number - 1 :]}"
            repaired = first is not None
            machine.call(_stage(machine, monkeypatch, "all", "run3"))
            _ended(machine, where)
    assert number > 10


def test_vm_that_exists_is_not_touched(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    with machines.new() as machine:
        machine.connection.conn.defineXML(
            "<domain type='test'><name>web1</name><memory>1024</memory>"
            "<os><type>hvm</type></os></domain>"
        )
        for check in (True, False):
            result = machine.call(_stage(machine, monkeypatch, "all", "run1", check=check))
            assert result is not None
            assert "a restore never touches one" in result["msg"]
            assert machine.effects.done == []


@pytest.mark.parametrize("name", ["web1_system.raw", "web1_vdb.raw", "nvram"])
def test_file_that_exists_is_not_touched(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with machines.new() as machine:
        restore = _stage(machine, monkeypatch, "all", "run1")
        path = machine.root / "nvram/web1_VARS.fd" if name == "nvram" else machine.pool / name
        path.write_bytes(b"somebody's")
        for check in (True, False):
            result = machine.call(_stage(machine, monkeypatch, "all", "run1", check=check))
            assert result is not None
            assert "refusing to overwrite it" in result["msg"], result
        assert machine.call(restore) is not None
        assert path.read_bytes() == b"somebody's"
        assert not machine.domains()
