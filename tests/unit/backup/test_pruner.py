# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pruning of real repositories, to which others wrote what they liked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    archives,
    effects_borg,
    effects_prune,
    keep,
    places,
    read_repositories,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.report import PrunedVm
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import read_archives
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options import (
    RestoreOptions,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import effects_record
from ansible_collections.fleet.virt.plugins.plugin_utils.backup._prune import (
    Pruner,
    lasts,
)
from ansible_collections.fleet.virt.tests.unit.backup import _made
from ansible_collections.fleet.virt.tests.unit.backup._made import UUID, at
from ansible_collections.fleet.virt.tests.unit.restore.test_restore_crashes import _OPTIONS

LATE = "2031-01-01T00:00:00Z"


@dataclass(frozen=True)
class Site:
    """A place with three backups, and a controller that prunes it."""

    folder: Path

    @property
    def place(self) -> str:
        return str(self.folder / "place")

    @property
    def repository(self) -> str:
        return f"{self.place}/{UUID}"

    @property
    def known(self) -> Path:
        return self.folder / "state" / "backups.json"

    @property
    def hypervisor(self) -> effects_borg.Access:
        return _made.hypervisor(self.folder)

    def prune(
        self, *accepted: str, last: int = 2, check: bool = False, known: Path | None = None
    ) -> PrunedVm:
        pruner = Pruner(
            self.hypervisor,
            keep.Policy({"last": last}),
            known or self.known,
            frozenset(accepted),
            check,
        )
        (vm,), problems = pruner.prune([places.parse(self.place)], [])
        assert not problems
        return vm

    def make(self, *names: str) -> None:
        for name in names:
            _made.save(self.repository, self.hypervisor, name, archives.comment(_made.of(name)))

    def replace(self, name: str) -> None:
        """Put another archive in the place of one, as who has a hypervisor's key can."""
        effects_borg.run(self.hypervisor, ["delete", self.repository, name])
        self.make(name)

    @property
    def names(self) -> Sequence[str]:
        return _made.listed(self.repository, self.hypervisor)


@pytest.fixture
def site() -> Iterator[Site]:
    with _made.lasting() as folder:
        _made.make(folder / "place", _made.hypervisor(folder), [at(1), at(2), at(3)])
        yield Site(folder)


def test_repository_that_is_unknown_is_only_remembered_at_first(site: Site) -> None:
    for check in (True, False):
        vm = site.prune(check=check)
        assert (vm["remembered"], vm["changed"], vm["failed"], vm["deleted"]) == (
            *(True, False, False),
            [],
        )
        assert site.known.exists() is not check
    assert site.prune(check=True)["deleted"] == [at(1)]
    assert site.prune()["deleted"] == [at(1)]
    assert site.names == [at(2), at(3)]
    assert not site.prune()["changed"]


def test_archive_replaced_under_its_name_stops_pruning_until_its_id_is_accepted(
    site: Site,
) -> None:
    site.prune()
    site.replace(at(3))
    for check in (True, False):
        (why,) = site.prune(check=check)["refused"]
        assert f"{UUID}::{at(3)}: the id is another" in why
    assert len(site.names) == 3
    accepted = why.split("virt_prune_accept=")[1].split(";")[0]
    assert site.prune(accepted)["deleted"] == [at(1)]
    assert not site.prune()["failed"]
    effects_borg.run(
        site.hypervisor,
        ["recreate", "--recompress", "always", "-C", "none", f"{site.repository}::{at(3)}"],
    )
    assert site.prune()["failed"], "borg's recreate changes ids too"
    assert not site.prune(site.place)["failed"]
    assert not site.prune()["failed"]


def test_archives_of_the_future_push_out_nothing_and_stay(site: Site) -> None:
    site.prune()
    site.make(LATE)
    vm = site.prune()
    assert vm["deleted"] == [at(1)]
    assert vm["kept"] == {at(2): "last 2", at(3): "last 1", LATE: keep.AHEAD}
    assert f"{LATE} is later than the clock here" in vm["notes"][0]
    site.make(at(4))
    assert site.prune()["deleted"] == [at(2)], "true ones that come later are not refused"
    assert LATE in site.names


def test_file_of_an_earlier_release_is_read_and_written_as_the_new_version(site: Site) -> None:
    site.known.parent.mkdir()
    text = json.dumps({"fleet.virt": 1, "places": {site.place: {UUID: [at(2), at(3), at(4)]}}})
    site.known.write_text(text)
    assert "was there when" in site.prune()["refused"][0]
    assert site.known.read_text() == text, "a refused run forgets nothing"
    assert site.prune(f"{UUID}::{at(4)}", f"{UUID}::{at(1)}")["deleted"] == [at(1)]
    assert json.loads(site.known.read_text())["fleet.virt"] == 2
    site.replace(at(3))
    assert site.prune()["failed"], "ids are known by now"


def test_file_in_memory_is_refused_with_the_variable(site: Site) -> None:
    memory = Path("/dev/shm/fleet-virt-test/state/backups.json")
    for check in (True, False):
        with pytest.raises(PlanRefused, match=r"does not last: .*-e virt_backup_known=/FOLDER"):
            site.prune(known=memory, check=check)
    assert not memory.parents[1].exists()


def test_root_of_a_container_does_not_last_and_that_of_a_host_does() -> None:
    kinds = ("overlay", "tmpfs", "ramfs", "ext4", "nfs4")
    assert [kind for kind in kinds if lasts(kind, booted=False)] == ["ext4", "nfs4"]
    assert [kind for kind in kinds if lasts(kind, booted=True)] == ["overlay", "ext4", "nfs4"]


def test_kept_archive_replaced_while_others_are_deleted_frees_no_space(site: Site) -> None:
    place = places.parse(site.place)
    before = read_repositories.repository(place, UUID, site.hypervisor)
    pruning = keep.plan(before, keep.Policy({"last": 2}))
    site.replace(at(3))
    with pytest.raises(FleetVirtError, match=rf"{at(3)} was replaced .* space .* not freed"):
        effects_prune.prune(place, before, pruning, site.hypervisor)


def test_replacement_does_not_inherit_the_proof(site: Site) -> None:
    place = places.parse(site.place)
    before = read_repositories.repository(place, UUID, site.hypervisor)
    known = (at(3), before.ids[at(3)], archives.BOOTED, "login:")
    effects_record.record(place, site.hypervisor, UUID, known, {}, None)
    proven = read_repositories.repository(place, UUID, site.hypervisor)
    assert proven.vms[-1].is_proven
    site.replace(at(3))
    after = read_repositories.repository(place, UUID, site.hypervisor)
    assert after.vms[-1].state == "listed and complete"
    assert "is of another archive that had the name" in after.notes[0]
    with pytest.raises(FleetVirtError, match="was replaced by another"):
        effects_record.record(place, site.hypervisor, UUID, known, {}, None)


def test_restore_skips_archives_of_the_future_and_says_so(site: Site) -> None:
    domain = f"""<domain><name>web1</name><uuid>{UUID}</uuid><devices>
<disk type='file'><source file='/srv/a'/><target dev='vda'/></disk></devices></domain>"""
    files = {archives.DOMAIN: domain.encode(), archives.disk_path("vda"): b"a disk"}
    disks = (archives.SavedDisk("vda", len(files[archives.disk_path("vda")]), "qcow2"),)
    later = "2031-01-02T00:00:00Z"
    for name in (at(4), at(5), LATE, later):
        backup = dataclasses.replace(_made.of(name), disks=disks)
        _made.save_whole(site.repository, site.hypervisor, backup, files)

    def found(archive: str | None) -> tuple[str, str]:
        options: RestoreOptions = {**_OPTIONS, "place": site.place, "archive": archive}
        (vm,) = read_archives.find(site.hypervisor, options, "run")
        return vm.archive, vm.skipped

    archive, said = found(None)
    assert archive == at(5)
    assert f": {LATE}, {later}; the newest before is {at(5)}." in said
    assert datetime.now(timezone.utc).strftime("the clock here (%Y-") in said
    assert said.endswith(f"-e vm_name=web1 -e virt_archive={later}")
    assert found(LATE) == (LATE, "")
    for name in (LATE, later):
        effects_borg.run(site.hypervisor, ["delete", site.repository, name])
    assert found(None) == (at(5), "")


def test_restore_where_all_backups_are_of_the_future_is_refused_without_virt_archive(
    site: Site,
) -> None:
    site.make(LATE)
    for name in (at(1), at(2), at(3)):
        effects_borg.run(site.hypervisor, ["delete", site.repository, name])

    def why(archive: str | None) -> str:
        options: RestoreOptions = {**_OPTIONS, "place": site.place, "archive": archive}
        with pytest.raises(FleetVirtError) as caught:
            read_archives.find(site.hypervisor, options, "run")
        return str(caught.value)

    refused = why(None)
    assert "all of its backups are later than the clock here" in refused
    assert datetime.now(timezone.utc).strftime("which says %Y-") in refused
    assert "manifest" in why(LATE), "what is named is read, and this one has next to nothing in it"
