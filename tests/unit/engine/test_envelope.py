# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Work that tasks hand on, and the headers by which its answers are told apart."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import re
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _fleet
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import Work
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass, field

WORK = Work(run="r1", verb="virt_purge", stage="look", round=1)
ANSWER = {"changed": False, "vms": [{"name": "web1"}]}
_ANY = re.compile(r"\b(dict|list)\b(?!\[)|\bobject\b|\bAny\b|\bJson\b")


@dataclass(frozen=True)
class Part:
    size: int = 0


@dataclass(frozen=True)
class Wide(Work):
    STAGES = ("all", "look")

    names: list[str] = field(default_factory=list)
    more: bool = False
    rounds: dict[str, list[str]] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)


def _kinds() -> list[type[Work]]:
    """Every verb's own kind of work."""
    for folder in pkgutil.iter_modules(_fleet.__path__):
        name = f"{_fleet.__name__}.{folder.name}"
        modules = importlib.import_module(name)
        for module in pkgutil.iter_modules(modules.__path__):
            if module.name in ("options", "decide"):
                importlib.import_module(f"{name}.{module.name}")
    return [kind for kind in Work.__subclasses__() if kind.__module__.startswith(_fleet.__name__)]


def test_work_handed_on_is_read_as_typed() -> None:
    work = Wide("r", "v", "look", 2, ["a"], True, {"hv1": ["a"]}, [Part(7)])
    assert envelope.read(Wide, {"_work": json.loads(json.dumps(envelope.plain(work)))}) == work


def test_work_that_is_missing_has_defaults() -> None:
    assert envelope.read(Wide, {"_work": {}}) == Wide()
    assert envelope.read(Wide, {}).stage == "all"


def test_numbers_that_are_text_are_numbers() -> None:
    """As templates give them with Ansible 2.18."""
    work = envelope.read(Wide, {"_work": {"round": "3", "more": "true"}})
    assert (work.round, work.more) == (3, True)


def test_list_that_is_text_has_commas() -> None:
    """As extra variables give it."""
    assert envelope.read(Wide, {"_work": {"names": "web1, web2"}}).names == ["web1", "web2"]
    assert envelope.read(Wide, {"_work": {"names": ""}}).names == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stage": "nowhere"}, "_work.stage: 'nowhere' is none of all, look"),
        ({"nonsense": 1}, "_work.nonsense"),
        ({"names": 7}, "_work.names"),
        ({"names": [["web1"]]}, "_work.names[0]"),
        ({"rounds": {"hv1": [1]}}, "_work.rounds.hv1[0]"),
        ({"parts": [{"size": "many"}]}, "_work.parts[0].size"),
        ({"round": "one"}, "_work.round"),
    ],
)
def test_wrong_work_is_refused_with_its_place(given: dict[str, t.Any], words: str) -> None:
    with pytest.raises(SpecError, match=re.escape(words)):
        envelope.read(Wide, {"_work": given})


def test_every_verb_has_typed_work() -> None:
    """No mapping in it is untyped, and a module that is used alone needs none of it."""
    kinds = _kinds()
    assert kinds
    for kind in kinds:
        kind()
        for each in dataclasses.fields(kind):
            assert not _ANY.search(str(each.type)), f"{kind.__name__}.{each.name}"


def test_answer_echoes_header() -> None:
    answer = envelope.answered(WORK, ANSWER)
    header = {"run": "r1", "verb": "virt_purge", "stage": "look", "round": 1, "end": ""}
    assert answer == {**ANSWER, "failed": False, "_work": header}
    assert envelope.opened(answer, WORK) == ANSWER


def test_header_of_hypervisor_itself_is_replaced() -> None:
    """It could pass off what it answered as another round's otherwise."""
    forged = {**ANSWER, **envelope.echo(dataclasses.replace(WORK, round=2))}
    answer = envelope.answered(WORK, forged)
    assert envelope.opened(answer, WORK) == ANSWER


@pytest.mark.parametrize("end", ["failed", "unreachable"])
def test_end_of_module_is_answer_that_says_so(end: str) -> None:
    answer = envelope.answered(WORK, {end: True, "msg": "no such host", "rc": 1})
    assert answer["failed"] is False
    assert "unreachable" not in answer
    assert envelope.opened(answer, WORK) == {end: True, "msg": "no such host", "rc": 1}


def test_exception_of_module_is_kept_where_ansible_does_not_show_it() -> None:
    answer = envelope.answered(WORK, {"failed": True, "exception": "Traceback\nValueError: boo"})
    assert "exception" not in answer
    assert envelope.opened(answer, WORK) == {
        "failed": True,
        "exception": "Traceback\nValueError: boo",
    }
    summary = envelope.answered(WORK, {"failed": True, "exception": object(), "msg": "boo"})
    assert envelope.opened(summary, WORK) == {"failed": True, "msg": "boo"}


@pytest.mark.parametrize(
    "other", [{"run": "r0"}, {"verb": "virt_state"}, {"stage": "act"}, {"round": 0}]
)
def test_answer_to_other_work_is_refused(other: dict[str, t.Any]) -> None:
    stale = envelope.answered(dataclasses.replace(WORK, **other), ANSWER)
    opened = envelope.opened(stale, WORK)
    assert opened["failed"]
    assert "vms" not in opened
    assert f"its {next(iter(other))} is" in str(opened["msg"])


def test_register_of_skipped_task_is_no_answer() -> None:
    skipped = {**envelope.answered(WORK, ANSWER), "skipped": True}
    assert envelope.opened(skipped, WORK) == {"skipped": True}
    assert envelope.opened({}, WORK) == {}


def test_answer_without_header_is_refused() -> None:
    opened = envelope.opened(ANSWER, WORK)
    assert opened["failed"]
    assert "vms" not in opened


def test_end_by_ansible_itself_gives_only_reason() -> None:
    """Such as a template that fails: the action has not run, so there is no header."""
    opened = envelope.opened({**ANSWER, "failed": True, "msg": "undefined"}, WORK)
    assert opened == {"failed": True, "msg": "undefined"}


_OF_ONE_VM = {"requested"}  # settings of a copy, of which a batch has one


def test_work_of_thousand_vms_is_small() -> None:
    """Ansible echoes and logs what a task is given: names are what grows with the VMs."""
    names = [f"customer-{number}-application-server-{number:04}" for number in range(1000)]
    for kind in _kinds():
        lists = [
            each.name
            for each in dataclasses.fields(kind)
            if each.type == "list[str]" and each.name not in _OF_ONE_VM
        ]
        work = kind(run="r" * 36, verb="virt_snapshot", **dict.fromkeys(lists, names))
        size = len(json.dumps(envelope.plain(work)))
        assert size < 64_000 * max(1, len(lists)), kind.__name__
        assert len(lists) <= 2, "names of VMs, and what each has one of"


def _parts(hint: t.Any) -> t.Iterator[t.Any]:
    """What a type of a field is made of."""
    if dataclasses.is_dataclass(hint):
        known = t.get_type_hints(hint)
        hints: t.Sequence[t.Any] = [known[each.name] for each in dataclasses.fields(hint)]
    else:
        hints = t.get_args(hint) if t.get_origin(hint) in (list, dict) else ()
        if not hints:
            yield hint
    for inner in hints:
        yield from _parts(inner)


def test_work_of_every_verb_has_only_types_that_are_read() -> None:
    """None, for one, has another type than a text."""
    for kind in _kinds():
        assert {*_parts(kind)} <= {bool, int, str}, kind.__name__
