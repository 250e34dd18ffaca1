# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pruning: what the policy no longer keeps, where nothing is missing that this controller knew."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    effects_prune,
    keep,
    known,
    report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.listing import Repository
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.places import BackupPlace
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.report import PrunedVm
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_files,
    effects_locks,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import read_file_systems
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass
from ansible_collections.fleet.virt.plugins.plugin_utils.backup import _repositories
from ansible_collections.fleet.virt.plugins.plugin_utils.base._files import make_private_folder

_BOOTED = Path("/run/systemd/system")  # there with systemd as init (sd_booted(3))
_PATIENCE = 60.0  # seconds, for another run on this controller


def lasts(kind: str, *, booted: bool) -> bool:
    """Whether files of a file system are there after the next start. An overlay is the root of a
    container; one that was ``booted`` with its own systemd is a machine, and is kept."""
    return kind not in ("tmpfs", "ramfs") and (booted or kind != "overlay")


@dataclass(frozen=True)
class Pruner:
    """Prunes places by a policy; ``file`` has what this controller knew, ``accepted`` is what may
    be missing."""

    access: Access
    policy: keep.Policy
    file: Path
    accepted: frozenset[str]
    check: bool

    def prune(
        self, places: t.Sequence[BackupPlace], names: t.Sequence[str]
    ) -> tuple[list[PrunedVm], list[str]]:
        """What came of each VM, and what concerns none that is there."""
        self._require_lasting()
        with self._locked():
            before = self._known()
            repositories, problems = _repositories.read_all(places, self.access, names, sizes=False)
            if not names and not problems:
                problems += self._gone(places, before, repositories)
            by_place = {str(place): place for place in places}
            vms = []
            for repository in repositories:
                # Written after each: a run that is killed has forgotten nothing
                vm, after = self._repository(by_place[repository.place], repository, before)
                vms.append(vm)
                if after is not None:
                    before = self._keep(before, after)
            if not (names or problems or self.check):
                for place in places:
                    before = self._forget(place, before, repositories)
        return vms, problems

    def _repository(
        self, place: BackupPlace, repository: Repository, before: known.Known
    ) -> tuple[PrunedVm, Repository | None]:
        if repository.problem is not None:
            return report.pruned(repository, None, error=repository.problem), None
        earlier = before.of(repository.place).get(repository.uuid)
        repository = known.counted(repository, earlier, self.accepted)
        refused = known.refusals(repository, earlier, self.policy.rules, self.accepted)
        if refused:
            return report.pruned(repository, None, refused), None
        if known.is_new(repository, earlier, self.accepted):
            # What was deleted before, nobody here can tell; borg would make it final now
            there = None if self.check else repository
            return report.pruned(repository, None, remembered=True), there
        pruning = keep.plan(repository, self.policy)
        if self.check:
            return report.pruned(repository, pruning), None
        try:
            after = (
                effects_prune.prune(place, repository, pruning, self.access)
                if pruning.deleted
                else repository
            )
        except FleetVirtError as error:
            why = f"{repository.name or repository.uuid}: {error}"
            return report.pruned(repository, pruning, error=why), None
        return report.pruned(repository, pruning), after

    def _gone(
        self,
        places: t.Sequence[BackupPlace],
        before: known.Known,
        repositories: t.Sequence[Repository],
    ) -> list[str]:
        return [
            problem
            for place in map(str, places)
            for problem in known.gone(
                place,
                before,
                {each.uuid for each in repositories if each.place == place},
                self.accepted,
            )
        ]

    def _forget(
        self, place: BackupPlace, before: known.Known, repositories: t.Sequence[Repository]
    ) -> known.Known:
        """Know no longer of repositories of which the user says that they are gone rightly."""
        there = {each.uuid for each in repositories if each.place == str(place)}
        for uuid in self.accepted - there:
            before = self._write(before, before.with_vm(str(place), uuid, known.KnownVm()))
        return before

    def _require_lasting(self) -> None:
        """Raise PlanRefused where the file is gone with the container or the next start: then each
        run would know nothing, and none would prune."""
        try:
            folder = read_file_systems.nearest_mount(self.file)
        except OSError as error:
            raise FleetVirtError(f"virt_backup_known: {self.file}: {error.strerror}") from None
        if folder is not None and not lasts(folder.kind, booted=_BOOTED.is_dir()):
            raise PlanRefused(
                f"virt_backup_known: {self.file} does not last: {folder.point} is {folder.kind}, as"
                " in a container or in memory. What this controller knew of backups must be there"
                " in the next run; name a file in a folder that is mounted from elsewhere: -e"
                " virt_backup_known=/FOLDER/backups.json"
            )

    @contextlib.contextmanager
    def _locked(self) -> t.Iterator[None]:
        if self.check:
            yield
            return
        make_private_folder(self.file.parent, "virt_backup_known")
        lock = self.file.with_name(f".{self.file.name}.lock")
        refusal = (
            f"another run has been pruning for {_PATIENCE:g} seconds; find it with fuser {lock}"
        )
        with effects_locks.held(lock, _PATIENCE, refusal):
            yield

    def _known(self) -> known.Known:
        try:
            text: str | None = self.file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            text = None
        except OSError as error:
            raise FleetVirtError(f"virt_backup_known: {self.file}: {error.strerror}") from None
        return known.read(text, str(self.file))

    def _keep(self, before: known.Known, after: Repository) -> known.Known:
        earlier = before.of(after.place).get(after.uuid)
        vm = known.remembered(after, earlier, self.accepted)
        return self._write(before, before.with_vm(after.place, after.uuid, vm))

    def _write(self, before: known.Known, after: known.Known) -> known.Known:
        if after.text != before.text:
            effects_files.write(self.file, after.text.encode(), locked=True)
        return after
