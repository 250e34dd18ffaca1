# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a controller knew of repositories when it last pruned, so that it notices what was removed.

Who may write to a repository may say anything in it, also which archives there have been. So what
was there is kept where no hypervisor reaches: in a file of the controller. Another controller
prunes as well, so an archive may be missing that the rules no longer keep; any other may not, and
none may have come to be in the past, where it would take the place of a true one. Beside its name
each has borg's id, which another of that name does not have.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t
from datetime import timedelta

from ..._errors import FleetVirtError
from ..._records import dataclass, field
from ..base.json_values import as_list, as_mapping, as_text
from ..base.names import playbook_command
from . import archives
from .keep import reasons

if t.TYPE_CHECKING:
    from .listing import Repository

_KEY = "fleet.virt"
_VERSION = 2
_NAMES_ONLY = 1  # the version of releases that remembered names without ids
MOST_BYTES = 64 * 1024 * 1024
# A clock may be wrong by less. What was later by more is no backup of its moment once that has
# come: else one access would do to put backups into many days to come.
_DAY = timedelta(days=1)


class KnownError(FleetVirtError):
    """The file is not one of these."""


@dataclass(frozen=True)
class KnownVm:
    """The ids of a VM's archives by name, None where a release noted the name only.

    ``ahead`` are those that were later than the clock, with what it said when they were first seen.
    """

    ids: t.Mapping[str, str | None] = field(default_factory=dict)
    ahead: t.Mapping[str, str] = field(default_factory=dict)

    def is_early(self, name: str) -> bool:
        """Whether an archive was there so long before its moment that no clock explains it."""
        seen = archives.parse_moment(self.ahead.get(name, name))
        return seen is None or archives.is_ahead(name, seen + _DAY)


@dataclass(frozen=True)
class Known:
    """What is known of VMs, by place and UUID."""

    places: t.Mapping[str, t.Mapping[str, KnownVm]] = field(default_factory=dict)

    def of(self, place: str) -> t.Mapping[str, KnownVm]:
        """What was known of a place, by UUID."""
        return self.places.get(place, {})

    def with_vm(self, place: str, uuid: str, vm: KnownVm) -> Known:
        """The same, with what is there now; without archives, without the VM."""
        others = {key: value for key, value in self.of(place).items() if key != uuid}
        return Known({**self.places, place: {**others, **({uuid: vm} if vm.ids else {})}})

    @property
    def text(self) -> str:
        """The file's content."""
        document = {
            _KEY: _VERSION,
            "places": {
                place: {uuid: _document(vm) for uuid, vm in vms.items()}
                for place, vms in self.places.items()
                if vms
            },
        }
        return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _document(vm: KnownVm) -> dict[str, object]:
    return {"archives": {**vm.ids}, **({"ahead": {**vm.ahead}} if vm.ahead else {})}


def read(text: str | None, path: str) -> Known:
    """What the file says, nothing where there is none. Raises KnownError: a damaged file must not
    pass for one that knows nothing."""
    if text is None:
        return Known()
    try:
        return _read(text)
    except (ValueError, RecursionError):
        raise KnownError(
            f"virt_backup_known: {path} is not what this collection wrote there, in this release or"
            " an earlier one; restore it, or remove it: then nothing is known of what there was,"
            " and the next run only remembers what is there"
        ) from None


def _read(text: str) -> Known:
    document = _mapping(json.loads(text))
    version = document.get(_KEY)
    if version not in (_NAMES_ONLY, _VERSION) or len(text) > MOST_BYTES:
        raise ValueError(version)
    reader = _read_names if version == _NAMES_ONLY else _read_vm
    return Known(
        {
            place: {uuid: reader(vm) for uuid, vm in _mapping(vms).items()}
            for place, vms in _mapping(document.get("places")).items()
        }
    )


def _mapping(value: object) -> t.Mapping[str, object]:
    """The value; raises ValueError for another kind, which would pass for an empty one."""
    if not isinstance(value, dict):
        raise ValueError(value)
    return as_mapping(value)


def _read_names(value: object) -> KnownVm:
    return KnownVm({name: None for name in map(as_text, as_list(value)) if name})


def _read_vm(value: object) -> KnownVm:
    vm = _mapping(value)
    ids = {name: archives.parse_id(given) for name, given in _mapping(vm.get("archives")).items()}
    ahead = {name: as_text(seen) or "" for name, seen in _mapping(vm.get("ahead", {})).items()}
    return KnownVm(ids, ahead)


def is_new(repository: Repository, earlier: KnownVm | None, accepted: t.Collection[str]) -> bool:
    """Whether nothing is known of a repository with backups, so that none can be missed."""
    has_backups = any(map(archives.is_backup, repository.names))
    return earlier is None and has_backups and not _is_right(repository, accepted)


def counted(
    repository: Repository, earlier: KnownVm | None, accepted: t.Collection[str]
) -> Repository:
    """The repository, in which that does not count which was far ahead of the clock when it was
    first seen, though its moment has come."""
    if earlier is None or not earlier.ahead or _is_right(repository, accepted):
        return repository
    early = tuple(
        vm
        for vm in repository.vms
        if earlier.is_early(vm.archive) and _named(repository, vm.archive) not in accepted
    )
    notes = tuple(
        f"{vm.backup.vm}: {_named(repository, vm.archive)} was there before that moment, when this"
        " controller pruned, so it counts as no backup and is not deleted. To have it count:"
        f" {_accepting(_named(repository, vm.archive))}"
        for vm in early
    )
    return dataclasses.replace(
        repository,
        vms=tuple(vm for vm in repository.vms if vm not in early),
        ahead=(*early, *repository.ahead),
        notes=(*repository.notes, *notes),
    )


def remembered(
    repository: Repository, earlier: KnownVm | None, accepted: t.Collection[str]
) -> KnownVm:
    """What is to be known of a repository from now on."""
    repository = counted(repository, earlier, accepted)
    seen = {} if earlier is None else earlier.ahead
    return KnownVm(
        {name: repository.ids.get(name) for name in repository.names if archives.is_backup(name)},
        {vm.archive: seen.get(vm.archive, repository.clock) for vm in repository.ahead},
    )


def _is_right(repository: Repository, accepted: t.Collection[str]) -> bool:
    """Whether the user says so of all that is there of a VM. Who accepts a place, as after borg
    changed all ids in it, has looked at none of what was planted in it for days to come."""
    return repository.uuid in accepted


def _named(repository: Repository, archive: str) -> str:
    return f"{repository.uuid}::{archive}"


def _accepting(*what: str) -> str:
    return playbook_command("prune_backups", virt_prune_accept=",".join(what))


def refusals(
    repository: Repository,
    known: KnownVm | None,
    rules: t.Mapping[str, int],
    accepted: t.Collection[str],
) -> list[str]:
    """Why nothing may be pruned from a repository, a sentence each; ``accepted`` are archives
    (``UUID::ARCHIVE``, or ``UUID::ARCHIVE::ID`` for one that has another id), whole repositories
    (``UUID``) or, for ids alone, whole places that the user knows about."""
    if repository.uuid in accepted:
        return []
    if repository.all_ahead is not None:
        return [f"{repository.all_ahead}. Nothing is pruned there"]
    known = known or KnownVm()
    now, ahead = repository.read_at, {vm.archive for vm in repository.ahead}
    there = {name for name in repository.names if archives.is_backup(name)} - ahead
    past = [
        name
        for name in known.ids
        if name not in ahead
        and name not in known.ahead
        and not (now and archives.is_ahead(name, now))
    ]
    newest = max(past, default="")
    required = _required(repository, past, rules, there)
    problems = [
        (name, "was there when this controller last pruned, and is missing")
        for name in past
        if name in required and name not in there
    ]
    problems += [
        (name, f"is new, and yet earlier than {newest}, which this controller knows")
        for name in sorted(there - {*known.ids})
        if name < newest
    ]
    others = _replaced(repository, known)
    ids = [f"{name}::{now}" for name, now in others]
    is_place = bool(ids) and repository.place in accepted
    right = [*(_named(repository, name) for name, _why in problems)]
    # One command for all that is wrong there: those of two would lead from the first to the second
    right += [repository.place] if is_place else ids
    command = f"-e virt_prune_accept={','.join(right)}"
    refused = [
        f"{_named(repository, name)} {why}; nothing is pruned there. Find out who did that, or say"
        f" that it is right: {command}"
        for name, why in problems
        if _named(repository, name) not in accepted
    ]
    left = [name for (name, _now), one in zip(others, ids) if one not in accepted]
    if left and not is_place:
        refused.append(
            f"{', '.join(left)}: the id is another than when this controller last pruned; nothing"
            " is pruned there. Somebody may have deleted what was there and made other archives of"
            " these names; borg's rename, recreate and upgrade change ids too. Find out who did"
            f" that, or say that it is right: {_accepting(*right)}; the ids of all VMs of the"
            f" place: {_accepting(repository.place)}"
        )
    return refused


def _replaced(repository: Repository, known: KnownVm) -> list[tuple[str, str | None]]:
    """The archives that are not those which had their names, with their ids."""
    names = {*repository.names}
    return [
        (_named(repository, name), repository.ids.get(name))
        for name, known_id in sorted(known.ids.items())
        if known_id is not None and name in names and repository.ids.get(name) != known_id
    ]


def _required(
    repository: Repository,
    known: t.Sequence[str],
    rules: t.Mapping[str, int],
    there: t.Collection[str],
) -> set[str]:
    """What nobody who prunes by these rules has removed: what they keep of all that was and is, and
    what stayed without them, as the last proven one does until a later one is proven."""
    proven = max((vm.archive for vm in repository.vms if vm.is_proven), default="")
    stayed = {*known} - reasons(known, rules).keys()
    return reasons({*known, *there}, rules).keys() | {name for name in stayed if name > proven}


def gone(
    place: str, known: Known, present: t.Collection[str], accepted: t.Collection[str]
) -> list[str]:
    """Sentences about repositories of a place that are missing as a whole."""
    return [
        f"{uuid}: {place} had its repository, with {len(vm.ids)} archives, when this controller"
        f" last pruned, and has none now. Find out who removed it, or say that it is right: -e"
        f" virt_prune_accept={uuid}"
        for uuid, vm in sorted(known.of(place).items())
        if uuid not in present and uuid not in accepted
    ]
