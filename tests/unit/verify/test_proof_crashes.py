# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Proving a backup, killed or failing at each of its effects, on libvirt's test driver.

What ends with the unit's process is not here: that of borg, and what libvirt destroys with the
connection. So every kill leaves more than it does in a unit whose last command was killed as well.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import archives
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.archives import (
    Backup,
    Manifest,
    SavedDisk,
    SavedFile,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_lookup import (
    find_domain,
    list_domains,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
    read_domains,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import effects_archive
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import (
    effects,
    effects_unit,
    read,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.effects_unit import (
    BootedProof,
    ProofOrder,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.options import (
    READ,
    SavedArchive,
    VerifyOptions,
)
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_PROOF = "0a1b2c3d-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_NAME = f"fleet-virt-proof-{_PROOF}"
_AT = "2026-11-28T06:51:18Z"
_CONTENT = {"disks/vda.raw": b"a system" * 1024, "nvram": b"variables" * 10}
_DOMAIN = f"""
<domain type='test'><name>web1</name><uuid>{_UUID}</uuid><memory>131072</memory>
 <os><type>hvm</type><loader type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>
  <nvram>/srv/web1_VARS.fd</nvram></os>
 <devices>
  <disk type='file' device='disk'><source file='/srv/web1.raw'/>
   <target dev='vda' bus='virtio'/></disk>
  <serial type='pty'><target port='0'/></serial><video><model type='vga'/></video>
 </devices></domain>
"""


def _order(machine: Machine, depth: str = READ) -> ProofOrder:
    disks = (SavedDisk("vda", len(_CONTENT["disks/vda.raw"]), "qcow2"),)
    backup = Backup("web1", _UUID, "hv9", _AT, archives.SHUT_OFF, disks)
    files = [
        SavedFile(path, len(content), hashlib.sha256(content).hexdigest())
        for path, content in {**_CONTENT, archives.DOMAIN: _DOMAIN.encode()}.items()
    ]
    return ProofOrder(
        uri="test:///default",
        timeout=5.0,
        uuid=_PROOF,
        vm="web1",
        repository=_UUID,
        archive=_AT,
        place="/srv/backup",
        passphrase="x",  # noqa: S106
        ssh_key=None,
        manifest=archives.manifest(Manifest(backup, tuple(files))),
        definition=_DOMAIN,
        expected=True,
        unbootable="",
        depth=depth,
        boot_seconds=1,
        overlay_mib=64,
        run=read.run_folder(_PROOF),
        files=read.files_folder(_folder(machine), _PROOF),
    )


def _folder(machine: Machine) -> str:
    return str(machine.root / "proofs")


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    def pour(_archive: t.Any, file: SavedFile, into: t.Callable[[int, bytes], None]) -> None:
        into(0, {**_CONTENT, archives.DOMAIN: _DOMAIN.encode()}[file.path])

    def show(_archive: t.Any, folder: str, _user: int, _group: int) -> None:
        saved = Path(folder, "disks", "vda.raw")
        saved.parent.mkdir()
        saved.write_bytes(_CONTENT["disks/vda.raw"])

    def printed(_paths: t.Sequence[str]) -> tuple[str, str]:
        return "console", "\r\nweb1 login: "

    monkeypatch.setattr(effects_archive.Archive, "pour", pour)
    monkeypatch.setattr(effects_unit, "show", show)
    monkeypatch.setattr(effects_unit.read_serial_output, "first_log", printed)
    monkeypatch.setattr(read, "_is_at_work", lambda _uuid: False)
    # The test driver takes no such flag
    monkeypatch.setattr(effects_unit, "DOMAIN_START_AUTODESTROY", 0)
    return Machines(tmp_path, monkeypatch)


def _prove(machine: Machine, patch: pytest.MonkeyPatch) -> t.Callable[[Connection], t.Any]:
    patch.setattr(read, "RUN", str(machine.root / "run"))
    patch.setattr(read, "FOLDER", _folder(machine))
    patch.setattr(effects, "FOLDER", _folder(machine))
    order = _order(machine)

    def prove(connection: Connection) -> t.Any:
        try:
            return BootedProof(order).found(connection)
        except FleetVirtError as error:
            return {"error": str(error)}

    return prove


def _clear(machine: Machine, *, check: bool = False) -> t.Callable[[Connection], t.Any]:
    return lambda connection: effects.clear(connection, _folder(machine), check=check)


def _left(machine: Machine) -> list[str]:
    """What there is of the proof, and of what it has no business with."""
    folders = [machine.root / "run", machine.root / "proofs"]
    there = [str(path) for folder in folders if folder.exists() for path in folder.iterdir()]
    return [*there, *(name for name in machine.domains() if name != "theirs"), *machine.faults()]


def _kill_while_it_runs(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    """A proof whose VM is there."""
    prove = _prove(machine, patch)
    number = 0
    while _NAME not in machine.domains():
        number += 1
        machine.call(_clear(machine))
        machine.call(prove, kill_at=number)
        assert machine.effects.dead, "it ends its VM itself"


def test_backup_is_proven_by_console_and_screenshot(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines.new() as machine:
        found = machine.call(_prove(machine, monkeypatch))
        assert found is not None
        assert found["proof"] == archives.BOOTED, found
        assert found["how"].startswith("console: login prompt, screenshot"), found
        assert found["how"].endswith("every byte was read back")
        assert found["screen"]
        assert not [name for name in machine.domains() if name != "theirs"]


@pytest.mark.parametrize("how", ["kill_at", "fail_at"])
def test_proof_killed_or_failed_anywhere_leaves_nothing_after_the_next_run(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with machines.new() as machine:
        assert machine.call(_prove(machine, monkeypatch))
        count = len(machine.effects.done)
    assert count >= 7, machine.effects.done
    for number in range(1, count + 1):
        with machines.new() as machine:
            machine.call(_prove(machine, monkeypatch), **{how: number})
            where = f"{how} {number}: {machine.effects.done[number - 1 :]}"
            predicted = machine.call(_clear(machine, check=True))
            assert machine.effects.done == [], where
            assert predicted == machine.call(_clear(machine)), where
            assert not _left(machine), where
            again = machine.call(_clear(machine))
            assert again == {"changed": False, "removed": []}, where


def test_removal_killed_anywhere_is_finished_by_the_next(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, number = False, 0
    while not ended:
        number += 1
        with machines.new() as machine:
            _kill_while_it_runs(machine, monkeypatch)
            assert _NAME in machine.domains()
            ended = machine.call(_clear(machine), kill_at=number) is not None
            machine.call(_clear(machine))
            assert not _left(machine), number
    assert number > 1


def test_proof_at_work_is_kept_and_not_listed(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines.new() as machine:
        _kill_while_it_runs(machine, monkeypatch)
        assert _NAME in machine.domains()
        connection = machine.connection
        assert _NAME not in {str(dom.name()) for dom in list_domains(connection)}
        assert find_domain(connection, _NAME) is None
        assert _NAME not in {entry["name"] for entry in read_domains(connection, DomainQuery())}
        with monkeypatch.context() as patch:
            patch.setattr(read, "_is_at_work", lambda _uuid: True)
            assert machine.call(_clear(machine)) == {"changed": False, "removed": []}
            assert _NAME in machine.domains()
        assert machine.call(_clear(machine)) == {"changed": True, "removed": [_NAME]}
        assert not _left(machine)


def test_files_after_a_power_failure_are_removed(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines.new() as machine:
        _kill_while_it_runs(machine, monkeypatch)
        machine.connection.conn.lookupByName(_NAME).destroy()
        shutil.rmtree(machine.root / "run")
        assert _left(machine)
        assert machine.call(_clear(machine)) == {"changed": True, "removed": [_NAME]}
        assert not _left(machine)


def test_next_run_removes_what_was_left_and_then_proves(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines.new() as machine:
        _kill_while_it_runs(machine, monkeypatch)

        def answered(
            _unit: str, _folder_of: str, order: dict[str, t.Any], *_end: object
        ) -> dict[str, object]:
            assert not _left(machine), "it went first"
            return BootedProof(ProofOrder(**order)).found(machine.connection)

        monkeypatch.setattr(effects.attended, "answered", answered)
        order = _order(machine)
        saved = SavedArchive(
            name=f"{_UUID}::{_AT}",
            vm="web1",
            uuid=_UUID,
            archive=_AT,
            manifest=order.manifest,
            definition=order.definition,
            expected=True,
            proof="1a1b2c3d-0c57-4f3e-9f0e-0d6d5c1f2a3b",
        )
        options = t.cast(
            "VerifyOptions",
            {**_OPTIONS, "folder": _folder(machine)},
        )
        result = machine.call(lambda c: effects.run(c, options, [saved], check=False))
        assert result is not None
        assert not result.get("failed"), result
        (vm,) = t.cast("list[dict[str, t.Any]]", result["vms"])
        assert vm["steps"] == [
            f"remove {_NAME}, which a killed proof has left",
            f"read back and boot {_AT} of web1",
        ]
        assert vm["proof"] == archives.BOOTED


_OPTIONS = {
    "place": "/srv/backup",
    "passphrase": "x",
    "ssh_key": None,
    "depth": READ,
    "boot_seconds": 1,
    "overlay_mib": 64,
}


def test_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    disks = tmp_path / "disks"
    disks.mkdir()
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * 10)
    (disks / "vda.raw").symlink_to(secret)
    for size in (10, len(str(secret))):  # that of what it leads to, and its own
        with pytest.raises(archives.ArchiveError, match="no plain file"):
            effects_unit._require_file(disks / "vda.raw", size)
    (disks / "vdb.raw").write_bytes(b"x" * 10)
    effects_unit._require_file(disks / "vdb.raw", 10)
    linked = tmp_path / "linked"
    linked.symlink_to(disks)
    with pytest.raises(archives.ArchiveError, match="no plain file"):
        effects_unit._require_file(linked / "vdb.raw", 10)


def test_damage_is_named_and_nothing_booted(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines.new() as machine:
        prove = _prove(machine, monkeypatch)

        def pour(_archive: t.Any, file: SavedFile, _into: object) -> None:
            if file.path == "disks/vda.raw":
                raise archives.ArchiveError("its content is another")

        monkeypatch.setattr(effects_archive.Archive, "pour", pour)
        found = machine.call(prove)
        assert found is not None
        assert found["proof"] == archives.FAILED
        assert "damaged: disks/vda.raw: its content is another" in found["how"]
        assert not machine.effects.done
        assert dataclasses.asdict(_order(machine))["uuid"] == _PROOF
