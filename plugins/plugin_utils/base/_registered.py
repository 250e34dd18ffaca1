# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results that the hosts of a play have registered."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import answers as declared
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.answers import A
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mapping,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import Work
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, to_plain


@t.overload
def registered(
    values: Values, variable: str | None, kind: type[A], run: str = "", verb: str = ""
) -> dict[str, A]: ...


@t.overload
def registered(
    values: Values, variable: str | None, kind: None = None, run: str = "", verb: str = ""
) -> dict[str, Answer]: ...


def registered(
    values: Values,
    variable: str | None,
    kind: type[A] | None = None,
    run: str = "",
    verb: str = "",
) -> dict[str, A] | dict[str, Answer]:
    """What each host of the play registered as ``variable``, as plain data; empty if nothing.

    A result that is not as its ``kind`` declares is replaced by a failed one: the host counts as
    silent, for this reason. So is one that has a header (see :mod:`envelope`) of another ``run`` or
    ``verb`` than is given.
    """
    given = {
        name: envelope.of_run(_registered(values, name, variable), run, verb)
        for name in hosts(values)
    }
    return given if kind is None else {name: read(given[name], kind) for name in given}


def hosts(values: Values) -> list[str]:
    """Names of the hosts of the play, including failed ones."""
    return [str(name) for name in as_list(values["ansible_play_hosts_all"])]


@t.overload
def of_host(values: Values, name: str, variable: str | None, kind: type[A]) -> A: ...


@t.overload
def of_host(values: Values, name: str, variable: str | None, kind: None = None) -> Answer: ...


def of_host(
    values: Values, name: str, variable: str | None, kind: type[A] | None = None
) -> A | Answer:
    """What one host registered, as :func:`registered` returns it."""
    answer = _registered(values, name, variable)
    return answer if kind is None else read(answer, kind)


def answers(values: Values, variable: str, kind: type[A], expected: Work) -> dict[str, A]:
    """What each host registered as ``variable``, if it is the answer to ``expected``."""
    return {
        name: read(envelope.opened(_registered(values, name, variable), expected), kind)
        for name in hosts(values)
    }


def read(answer: Answer, kind: type[A]) -> A:
    """A plain result as its type; a failed one if it is not as declared."""
    try:
        return declared.read(answer, kind)
    except declared.UnsoundAnswerError as error:
        return t.cast("A", {"failed": True, "msg": str(error)})


def _registered(values: Values, name: str, variable: str | None) -> Answer:
    if not variable:
        return {}
    answer = to_plain(as_mapping(as_mapping(values["hostvars"])[name]).get(variable) or {})
    if isinstance(answer, dict):
        return answer
    return {"failed": True, "msg": declared.unsound(f"it is {type(answer).__name__}")}
