# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which archives of a VM are kept: the rules of ``borg prune``, and never without the last proof.

borg itself would prune proofs as it prunes archives, count days in the zone of whoever calls it,
and say afterwards what it did. So the plan is made here, of moments in UTC, and what goes is
deleted by name.
"""

from __future__ import annotations

import typing as t
from datetime import datetime

from ..._errors import Problem, SpecError
from ..._records import dataclass
from ..base.json_values import as_number
from ..base.options import show, to_integer, unknown_message
from . import archives

if t.TYPE_CHECKING:
    from .listing import Repository

# As borg's, and in its order: what an earlier rule keeps, a later one does not count
_PERIODS = {
    "last": "%Y-%m-%d %H:%M:%S",
    "hourly": "%Y-%m-%d %H",
    "daily": "%Y-%m-%d",
    "weekly": "%G-%V",
    "monthly": "%Y-%m",
    "yearly": "%Y",
}
_MOST = 100_000
LAST_PROVEN = "last proven"
AHEAD = "later than the clock"


@dataclass(frozen=True)
class Policy:
    """How many archives each rule keeps; ``proven``: the last proven one always stays."""

    rules: t.Mapping[str, int]
    proven: bool = True


@dataclass(frozen=True)
class Pruning:
    """What is done with the archives of a VM: why each that is ``kept`` is, and what ``goes``.

    ``proofs`` go with their archives, or because theirs is gone already; ``unfinished`` are what
    killed runs left before the newest backup.
    """

    kept: t.Mapping[str, str]
    goes: tuple[str, ...]
    proofs: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()

    @property
    def deleted(self) -> tuple[str, ...]:
        """Every archive that is deleted, proofs first: none is left of what is gone."""
        return (*self.proofs, *self.goes, *self.unfinished)


def policy(value: object, *, proven: bool = True) -> Policy:
    """The policy that ``virt_keep`` says; raises SpecError with every problem."""
    if not isinstance(value, t.Mapping):
        raise SpecError([Problem("virt_keep", f"{show(value)} is no policy; {_EXAMPLE}")])
    problems = []
    rules = {}
    for key, given in value.items():
        path = f"virt_keep.{key}"
        if key not in _PERIODS:
            problems.append(Problem(path, unknown_message("rule", str(key), list(_PERIODS))))
            continue
        try:
            number = as_number(to_integer(given))
        except ValueError as error:
            problems.append(Problem(path, str(error)))
            continue
        if number is None or not 0 <= number <= _MOST:
            problems.append(Problem(path, f"{show(given)} is not a number from 0 to {_MOST}"))
            continue
        rules[str(key)] = number
    if not problems and not any(rules.values()):
        problems.append(Problem("virt_keep", f"it would keep nothing; {_EXAMPLE}"))
    if problems:
        raise SpecError(problems)
    return Policy(rules, proven)


_EXAMPLE = "write for example {daily: 7, weekly: 4, monthly: 6}"


def reasons(names: t.Iterable[str], rules: t.Mapping[str, int]) -> dict[str, str]:
    """Why each archive that the rules keep is kept (``daily 3``), newest first."""
    newest_first = sorted(
        ((at, name) for name in names if (at := archives.parse_moment(name)) is not None),
        reverse=True,
    )
    kept: dict[str, str] = {}
    for rule, shape in _PERIODS.items():
        _keep(newest_first, rule, shape, rules.get(rule, 0), kept)
    return kept


def _keep(
    newest_first: t.Sequence[tuple[datetime, str]],
    rule: str,
    shape: str,
    most: int,
    kept: dict[str, str],
) -> None:
    """Add the newest archive of each period to ``kept``; the oldest of all while there are fewer
    than the rule asks for, so that history reaches back from the first day."""
    last, count = None, 0
    for at, name in newest_first if most else ():
        period = at.strftime(shape)
        if period == last:
            continue
        last = period
        if name not in kept:
            count += 1
            kept[name] = f"{rule} {count}"
            if count == most:
                return
    if most and newest_first and newest_first[-1][1] not in kept:
        kept[newest_first[-1][1]] = f"{rule}, oldest"


def plan(repository: Repository, wanted: Policy) -> Pruning:
    """What is kept of a repository. What could not be read is not counted, and stays, as does what
    is later than the clock. A proof that names an archive only is of any that has the name, so the
    last one with such a proof stays beside the last one with a proof of itself."""
    names = [vm.archive for vm in repository.vms]
    kept = reasons(names, wanted.rules)
    proven = [vm for vm in repository.vms if vm.is_proven]
    for those in (proven, [vm for vm in proven if vm.is_bound]):
        if wanted.proven and those:
            kept.setdefault(those[-1].archive, LAST_PROVEN)
    goes = tuple(name for name in names if name not in kept)
    stays = {name for name in repository.names if name not in goes}
    proofs = tuple(
        name
        for name in repository.names
        if (parsed := archives.parse_proof(name)) is not None and parsed[0] not in stays
    )
    unfinished = tuple(
        name
        for name in repository.names
        if (of := archives.parse_checkpoint(name)) is not None and names and of < names[-1]
    )
    shown = {name: kept[name] for name in names if name in kept}
    shown.update((vm.archive, AHEAD) for vm in repository.ahead)
    return Pruning(shown, goes, proofs, unfinished)
