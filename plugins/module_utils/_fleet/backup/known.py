# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a controller knew of repositories when it last pruned, so that it notices what was removed.

Who may write to a repository may say anything in it, also which archives there have been. So what
was there is kept where no hypervisor reaches: in a file of the controller. Another controller
prunes as well, so an archive may be missing that the rules no longer keep; any other may not, and
none may have come to be in the past, where it would take the place of a true one.
"""

from __future__ import annotations

import json
import typing as t

from ..._errors import FleetVirtError
from ..._records import dataclass, field
from ..base.json_values import as_list, as_mapping, as_text
from . import archives
from .keep import reasons

if t.TYPE_CHECKING:
    from .listing import Repository

_KEY = "fleet.virt"
_VERSION = 1
MOST_BYTES = 64 * 1024 * 1024


class KnownError(FleetVirtError):
    """The file is not one of these."""


@dataclass(frozen=True)
class Known:
    """The names of a VM's archives by place and UUID."""

    places: t.Mapping[str, t.Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def of(self, place: str) -> t.Mapping[str, tuple[str, ...]]:
        """What was known of a place, by UUID."""
        return self.places.get(place, {})

    def with_repository(self, place: str, uuid: str, names: t.Iterable[str]) -> Known:
        """The same, with what is there now; without names, without the VM."""
        there = tuple(sorted(filter(archives.is_backup, names)))
        others = {key: value for key, value in self.of(place).items() if key != uuid}
        return Known({**self.places, place: {**others, **({uuid: there} if there else {})}})

    @property
    def text(self) -> str:
        """The file's content."""
        document = {
            _KEY: _VERSION,
            "places": {
                place: {uuid: list(names) for uuid, names in sorted(vms.items())}
                for place, vms in sorted(self.places.items())
                if vms
            },
        }
        return json.dumps(document, indent=1) + "\n"


def read(text: str | None, path: str) -> Known:
    """What the file says, nothing where there is none. Raises KnownError: a damaged file must not
    pass for one that knows nothing."""
    if text is None:
        return Known()
    try:
        document = as_mapping(json.loads(text))
    except (ValueError, RecursionError):
        document = {}
    if document.get(_KEY) != _VERSION or len(text) > MOST_BYTES:
        raise KnownError(
            f"virt_backup_known: {path} is not what this collection wrote there; restore it, or"
            " remove it: then nothing is known of what there was, and what is there now is taken"
            " for all"
        )
    places = {
        str(place): {
            str(uuid): tuple(name for name in map(as_text, as_list(names)) if name)
            for uuid, names in as_mapping(vms).items()
        }
        for place, vms in as_mapping(document.get("places")).items()
    }
    return Known(places)


def refusals(
    repository: Repository,
    known: t.Sequence[str],
    rules: t.Mapping[str, int],
    accepted: t.Collection[str],
) -> list[str]:
    """Why nothing may be pruned from a repository, a sentence each; ``accepted`` are archives
    (``UUID::ARCHIVE``) or whole repositories (``UUID``) that the user knows about."""
    if repository.uuid in accepted:
        return []
    there = {name for name in repository.names if archives.is_backup(name)}
    newest = max(known, default="")
    required = _required(repository, known, rules, there)
    problems = [
        (name, "was there when this controller last pruned, and is missing")
        for name in known
        if name in required and name not in there
    ]
    problems += [
        (name, f"is new, and yet earlier than {newest}, which this controller knows")
        for name in sorted(there - {*known})
        if name < newest
    ]
    return [
        f"{repository.uuid}::{name} {why}; nothing is pruned there. Find out who did that, or say"
        f" that it is right: -e virt_prune_accept={repository.uuid}::{name}"
        for name, why in problems
        if f"{repository.uuid}::{name}" not in accepted
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
        f"{uuid}: {place} had its repository, with {len(names)} archives, when this controller last"
        f" pruned, and has none now. Find out who removed it, or say that it is right: -e"
        f" virt_prune_accept={uuid}"
        for uuid, names in sorted(known.of(place).items())
        if uuid not in present and uuid not in accepted
    ]
