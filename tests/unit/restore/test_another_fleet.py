# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What another fleet needs to restore a VM: the repository, the exported key, the passphrase."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    archives,
    effects_borg,
    listing,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.archives import SavedDisk
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import read_archives
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.effects_archive import (
    Archive,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options import (
    RestoreOptions,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.backup import _keys
from ansible_collections.fleet.virt.tests.unit.backup import _made
from ansible_collections.fleet.virt.tests.unit.backup._made import PASSPHRASE, UUID, at

from .test_restore_crashes import _OPTIONS

_AT = at(28)
_DOMAIN = f"""<domain><name>web1</name><uuid>{UUID}</uuid><devices>
<disk type='file'><source file='/srv/a'/><target dev='vda'/></disk></devices></domain>"""
_FILES = {archives.DOMAIN: _DOMAIN.encode(), "disks/vda.raw": b"a disk" * 10_000}


def _save(place: Path, access: Access) -> None:
    """An archive as docs/design/backup.md has it."""
    disks = (SavedDisk("vda", len(_FILES["disks/vda.raw"]), "qcow2"),)
    backup = archives.Backup("web1", UUID, "hv1", _AT, archives.SHUT_OFF, disks)
    place.mkdir()
    repository = f"{place}/{UUID}"
    effects_borg.run(access, ["init", "--encryption", "repokey-blake2", repository])
    _made.save_whole(repository, access, backup, _FILES)


def test_vm_is_restored_from_repository_key_and_passphrase(tmp_path: Path) -> None:
    first = Access(PASSPHRASE, str(tmp_path / "first"))
    place, other = tmp_path / "place", tmp_path / "other"
    _save(place, first)
    saved = listing.Repository(str(place), UUID)
    (key,) = _keys.export([saved], first, str(tmp_path / "keys"), check=False)
    assert not key["failed"], key

    shutil.copytree(place, other)
    config = other / UUID / "config"
    text = re.sub(r"^key = .*\n(?:[ \t]+.*\n)*", "", config.read_text(), flags=re.M)
    assert text != config.read_text()
    config.write_text(text)
    shutil.rmtree(place)
    shutil.rmtree(tmp_path / "first")

    # nothing of the first fleet is left but the copy, whose own key is gone, and the exported key
    second = Access(PASSPHRASE, str(tmp_path / "second"))
    options = {**_OPTIONS, "place": str(other)}
    with pytest.raises(read_archives.PlanRefused, match="has no backup of 'web1'"):
        read_archives.find(second, options, "run")
    effects_borg.run(second, ["key", "import", f"{other}/{UUID}", key["path"]])
    (vm,) = read_archives.find(second, options, "run")
    assert (vm.name, vm.uuid, vm.archive, vm.copy) == ("web1", UUID, _AT, False)
    assert vm.definition == _DOMAIN
    manifest = archives.read_manifest(vm.manifest)
    archive = Archive(second, str(other), vm.repository, vm.archive)
    for path, content in _FILES.items():
        file = manifest.file(path)
        assert file is not None
        assert archive.file(file) == content

    with pytest.raises(read_archives.PlanRefused, match="passphrase"):
        read_archives.find(Access("another", str(tmp_path / "third")), options, "run")


def test_remedy_for_archives_that_lack_disks_is_a_single_command_for_all(tmp_path: Path) -> None:
    """Each of two VMs lacks another disk, and a third has a device that hypervisors refuse."""
    access, place = Access(PASSPHRASE, str(tmp_path / "borg")), tmp_path / "place"
    place.mkdir()
    lacking = {
        "web1": ("vda", "vdb", ""),
        "db1": ("vda", "vdc", ""),
        "gpu1": ("vda", "", "<hostdev/>"),
    }
    for number, (name, (saved, other, device)) in enumerate(lacking.items()):
        uuid = f"{UUID[:-1]}{number}"
        repository = f"{place}/{uuid}"
        effects_borg.run(access, ["init", "--encryption", "repokey-blake2", repository])
        disks = "".join(
            f"<disk type='file'><source file='/srv/{dev}'/><target dev='{dev}'/></disk>"
            for dev in filter(None, (saved, other))
        )
        text = f"<name>{name}</name><uuid>{uuid}</uuid><devices>{disks}{device}</devices>"
        files = {
            archives.DOMAIN: f"<domain>{text}</domain>".encode(),
            archives.disk_path(saved): b"a disk",
        }
        kept = (SavedDisk(saved, 6, "qcow2"),)
        backup = archives.Backup(name, uuid, "hv1", _AT, archives.SHUT_OFF, kept)
        _made.save_whole(repository, access, backup, files)

    def found(without: list[str]) -> str:
        options: RestoreOptions = {
            **_OPTIONS,
            **{"names": [*lacking], "place": str(place), "without": without},
        }
        try:
            vms = read_archives.find(access, options, "run")
        except read_archives.PlanRefused as error:
            return str(error)
        return ",".join(vm.name for vm in vms)

    for without in ([], ["vdb"], ["vdc", "vdx"]):
        refused = found(without)
        (remedy,) = re.findall(r"-e virt_restore_without=(\S+)", refused)
        assert remedy == "vdb,vdc,hostdev", refused
    assert found(remedy.split(",")) == "web1,db1,gpu1"
    assert "none of these archives lacks that" in found(["vdx", *remedy.split(",")])


@pytest.mark.parametrize(
    ("names", "said"),
    [([], "no VM is named; give"), ([""], "name is empty")],
    ids=["none", "empty"],
)
def test_restore_without_name_is_refused(names: list[str], said: str, tmp_path: Path) -> None:
    options = {**_OPTIONS, "names": names, "place": str(tmp_path)}
    with pytest.raises(read_archives.PlanRefused, match=said):
        read_archives.find(Access(PASSPHRASE, str(tmp_path)), options, "run")
