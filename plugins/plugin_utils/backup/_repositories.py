# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Actions that use repositories from the controller, and ask no hypervisor."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    places,
    read_repositories,
    report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.listing import Repository
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options import (
    RepositoriesWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.places import (
    BackupPlace,
    PlaceError,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.images._images import cache_folder


class AccessOptions(Connected):
    """Options of all of them."""

    places: list[str]
    ssh_key: str | None
    passphrase_variable: str


class RepositoryOptions(AccessOptions):
    """Options of those that are about VMs."""

    names: list[str]


class RepositoriesAction(StagedAction[RepositoriesWork]):
    """Its only stage is on the controller."""

    WORK = RepositoriesWork
    CONTROLLER = ("report",)
    _requires_connection = False

    def decided(self, _work: RepositoriesWork) -> Answer:
        return self.alone(self._values)

    def alone(self, task_vars: Values) -> Answer:
        raise NotImplementedError

    def access(self, options: AccessOptions) -> Access:
        """How this controller opens repositories; raises FleetVirtError without a passphrase."""
        named = options["passphrase_variable"]
        passphrase = Variables(self._values, self._templar).get(named)
        if passphrase is None:
            raise FleetVirtError(
                f"{named} is not set; it is the passphrase of the repositories, which a file of"
                " variables in a vault holds"
            )
        return Access(str(passphrase), str(cache_folder() / "borg"), options["ssh_key"])

    def delivered(
        self,
        data: t.Mapping[str, object],
        table: t.Callable[[], str],
        records: t.Callable[[], str],
        options: tuple[str, str | None],
    ) -> Answer:
        """The data as they were shown or written; ``options`` are output and output_file."""
        form, path = options
        text = _output.render(form, data, table, records)
        written = _output.deliver(text, path, check=self.check, diff=bool(self._task.diff))
        return {**data, "output": text, **written}


def parsed(given: t.Sequence[str]) -> list[BackupPlace]:
    """The places, each once; raises FleetVirtError."""
    if not given:
        raise PlaceError(places.NO_PLACE)
    return [*{str(place): place for place in map(places.parse, given)}.values()]


def read(
    place: BackupPlace, access: Access, names: t.Sequence[str], *, sizes: bool
) -> list[Repository]:
    """The repositories of a place, of the VMs with these names, if any are given."""
    present = read_repositories.uuids(place, access)
    wanted = [name.lower() for name in names]
    if wanted and all(name in present for name in wanted):
        present = wanted
    return read_repositories.repositories(place, present, access, sizes=sizes)


def read_all(
    given: t.Sequence[BackupPlace], access: Access, names: t.Sequence[str], *, sizes: bool
) -> tuple[list[Repository], list[str]]:
    """The repositories of all places that can be read, and why others, or names, were not."""
    repositories: list[Repository] = []
    problems = []
    for place in given:
        try:
            repositories += read(place, access, names, sizes=sizes)
        except FleetVirtError as error:
            problems.append(str(error))
    try:
        return report.select(repositories, names), problems
    except FleetVirtError as error:
        unread = [repository for repository in repositories if repository.problem is not None]
        return unread, [*problems, str(error)]


def state_file(stated: str | None) -> Path:
    """The file with what this controller knew, by default of the user's state."""
    if stated:
        return Path(stated)
    base = os.environ.get("XDG_STATE_HOME")
    folder = Path(base) if base else Path("~/.local/state").expanduser()
    return folder / "fleet.virt" / "backups.json"
