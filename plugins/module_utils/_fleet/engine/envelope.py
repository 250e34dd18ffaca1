# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tasks of a playbook hand on: the work of a hypervisor, and the header of its answer.

A verb derives its type from :class:`Work` and adds what the controller decided. It has no secrets:
Ansible would censor every text and number that equals one, in everything it shows.

A task that is skipped overwrites what it registered before, and a loop registers under one name
again and again. So an answer carries the header of the work that it answers, and its reader says
which work it means: an answer of another run, verb, stage or round is none.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ..._errors import Problem, SpecError
from ..._records import dataclass, field
from ..base.json_values import as_mapping
from ..base.options import join, show, to_boolean, to_integer, unknown_message

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

OPTION = "_work"
SPEC: Spec = {OPTION: {"type": "dict", "default": {}}}  # read by :func:`read`, which knows types
END = "end"  # the last stage of every verb: each host fails for what failed there
FAILED, UNREACHABLE = "failed", "unreachable"
# What Ansible itself says of a task that it ended before or after the action
_EXCEPTION = "exception"
_OF_ANSIBLE = (FAILED, UNREACHABLE, "msg", _EXCEPTION, "timedout")


@dataclass(frozen=True)
class Work:
    """The header: which ``run`` of which ``verb`` this is about, its ``stage`` and, where stages
    are repeated, its ``round``. Every field has a default: a module that is used alone has none.
    """

    STAGES: t.ClassVar[tuple[str, ...]] = ("all", "read", "act")

    run: str = ""
    verb: str = ""
    stage: str = "all"
    round: int = 0


@dataclass(frozen=True)
class SelectingWork(Work):
    """Of a verb on VMs that may be selected by their ``groups``, besides by name."""

    STAGES: t.ClassVar[tuple[str, ...]] = ("all", "look", "decide", "act", "report")

    groups: list[str] = field(default_factory=list)


HEADER = tuple(field.name for field in dataclasses.fields(Work))
AnyWork = t.TypeVar("AnyWork", bound=Work)
Selecting = t.TypeVar("Selecting", bound=SelectingWork)


def read(kind: type[AnyWork], options: Mapping[str, object]) -> AnyWork:
    """The typed work in the options of a module or an action; raises SpecError for any other."""
    problems: list[Problem] = []
    work: AnyWork = _fields(kind, as_mapping(options.get(OPTION)), OPTION, problems)
    if not problems and work.stage not in (*kind.STAGES, END):
        choices = ", ".join(kind.STAGES)
        problems.append(
            Problem(f"{OPTION}.stage", f"{show(work.stage)} is none of {choices}; use one of them")
        )
    if problems:
        raise SpecError(problems)
    return work


def _fields(kind: t.Any, value: Mapping[str, object], path: str, problems: list[Problem]) -> t.Any:
    """An object of a data class from a mapping; fields that are not given have their default."""
    hints = t.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    for key in value:
        if key not in names:
            problems.append(Problem(join(path, str(key)), unknown_message("field", key, names)))
    given = {
        name: _typed(hints[name], value[name], join(path, name), problems)
        for name in names
        if name in value
    }
    return kind(**given)


def _typed(hint: t.Any, value: object, path: str, problems: list[Problem]) -> t.Any:
    """``value`` as ``hint``; a template makes text of numbers in some versions of Ansible."""
    try:
        if hint is bool:
            return to_boolean(value)
        if hint is int:
            return to_integer(value)
    except ValueError as error:
        problems.append(Problem(path, str(error)))
        return None
    inner = t.get_args(hint)
    if hint == list[str] and isinstance(value, str):  # as Ansible takes one for a list
        return [name.strip() for name in value.split(",") if name.strip()]
    if t.get_origin(hint) is list and isinstance(value, (list, tuple)):
        return [_typed(inner[0], item, f"{path}[{i}]", problems) for i, item in enumerate(value)]
    if t.get_origin(hint) is dict and isinstance(value, Mapping):
        return {
            str(key): _typed(inner[1], item, join(path, str(key)), problems)
            for key, item in value.items()
        }
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return _fields(hint, value, path, problems)
    if isinstance(hint, type) and isinstance(value, hint):
        return value
    problems.append(Problem(path, f"{show(value)} has another type; this is a bug in fleet.virt"))
    return None


def plain(work: Work) -> dict[str, object]:
    """The work as the value of its option."""
    return dataclasses.asdict(work)


def echo(work: Work, **more: object) -> dict[str, object]:
    """What an answer says of the work that it answers."""
    return {OPTION: {**{name: getattr(work, name) for name in HEADER}, **more}}


def answered(work: Work, answer: Mapping[str, object]) -> dict[str, object]:
    """``answer`` with the header of ``work``. How it ended stands there too, and no more at its
    top, where Ansible would end the play for this hypervisor.

    The header replaces any that the hypervisor gave: it does not say itself what it answers.
    """
    end = next((end for end in (UNREACHABLE, FAILED) if answer.get(end)), "")
    rest = {key: value for key, value in answer.items() if key not in (UNREACHABLE, _EXCEPTION)}
    # Ansible would show an error, which the report shows
    raised = answer.get(_EXCEPTION)
    more = {_EXCEPTION: raised} if isinstance(raised, str) else {}
    return {**rest, FAILED: False, **echo(work, end=end, **more)}


def opened(answer: Mapping[str, object], expected: Work) -> dict[str, object]:
    """What a registered answer says, if it is the answer to ``expected``; else why it is none."""
    if not answer or answer.get("skipped"):
        return {"skipped": True} if answer else {}
    told = answer.get(OPTION)
    if not isinstance(told, Mapping):
        if answer.get(FAILED) or answer.get(UNREACHABLE):
            return {key: answer[key] for key in _OF_ANSIBLE if key in answer}
        return _stale("it has no header", expected)
    for name in HEADER:
        wanted = getattr(expected, name)
        if told.get(name) != wanted:
            return _stale(f"its {name} is {show(told.get(name))}", expected)
    rest = {key: value for key, value in answer.items() if key not in (OPTION, FAILED, UNREACHABLE)}
    if _EXCEPTION in told:
        rest[_EXCEPTION] = told[_EXCEPTION]
    end = told.get("end")
    return {**rest, str(end): True} if end in (FAILED, UNREACHABLE) else rest


def of_run(answer: Mapping[str, object], run: str, verb: str = "") -> dict[str, object]:
    """What an answer says that any task registered, a user's own too; one with a header is of the
    ``run`` and of the ``verb``, if one is given. A lookup knows no run."""
    told = answer.get(OPTION)
    if not isinstance(told, Mapping):
        return {**answer}
    number = told.get("round")
    expected = Work(
        run or str(told.get("run")),
        verb or str(told.get("verb")),
        str(told.get("stage")),
        number if isinstance(number, int) else 0,
    )
    return opened(answer, expected)


def _stale(why: str, expected: Work) -> dict[str, object]:
    asked = f"stage {expected.stage} of {expected.verb}, round {expected.round}"
    return {
        FAILED: True,
        "msg": f"what it registered is no answer to {asked}, of this run ({why}); run it again",
    }
