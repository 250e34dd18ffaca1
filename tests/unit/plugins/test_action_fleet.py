# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What actions know of the fleet without being told by the task: its hypervisors, and lost ones."""

from __future__ import annotations

import importlib
import types
import typing as t

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.fleet.virt.plugins import action
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import Work
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import FleetAction

GROUPS = {"all": ["hv1", "hv2", "hv3", "web1"], "hypervisors": ["hv1", "hv2"], "spare": ["hv3"]}
# Actions that decide from all answers, and what they need besides names
VERBS: dict[str, dict[str, t.Any]] = {
    "virt_purge": {},
    "virt_snapshot": {"snapshot": "before"},
    "virt_state": {"state": "running"},
}


def _written(text: str) -> t.Any:
    """A template as the inventory has it; newer Ansible takes only what is marked for one."""
    try:
        from ansible.template import trust_as_template
    except ImportError:
        return text
    return trust_as_template(text)


def made(name: str, arguments: dict[str, t.Any], variables: dict[str, t.Any]) -> t.Any:
    """An action of the play of hv1 alone, as ``--limit hv1`` makes it."""
    values = {"groups": GROUPS, "ansible_play_hosts_all": ["hv1"], "inventory_hostname": "hv1"}
    header = Work("r1", name, "look")
    look = envelope.answered(header, {"changed": False, "vms": []})
    values["hostvars"] = {"hv1": {"virt_look": look}}
    values |= variables
    play = types.SimpleNamespace(_uuid="r1")
    module = importlib.import_module(f"{action.__name__}.{name}")
    loader = DataLoader()

    class Action(module.ActionModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self._values, self._loader = values, loader
            self._templar = Templar(loader, variables=values)
            self._task = types.SimpleNamespace(
                args=arguments, check_mode=True, action=name, get_play=lambda: play
            )

    return Action()


def refused(verb: str, **variables: t.Any) -> str:
    """Why the action decides against it; empty if it does not."""
    arguments = {"names": ["web1"], "_work": {"stage": "decide"}, **VERBS[verb]}
    deciding = made(verb, arguments, variables)
    try:
        deciding.work(deciding._values)
    except FleetVirtError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("stated", "names"),
    [
        (["hv2", "hv1"], ["hv1", "hv2"]),
        ("hv2, hv1", ["hv1", "hv2"]),
        (_written("{{ gone }}"), ["hv9"]),
        (None, []),
    ],
)
def test_lost_hypervisors_are_those_of_variable(stated: t.Any, names: list[str]) -> None:
    variables = {"virt_hypervisors_lost": stated, "gone": ["hv9"]}
    known: FleetAction = made("virt_purge", {}, variables)
    assert known.lost() == names
    assert known.lost(["hv3"]) == ["hv3"]


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({}, ["hv1", "hv2"]),
        ({"virt_hosts": "spare,hv1"}, ["hv3", "hv1"]),
        ({"virt_hosts": ["spare"]}, ["hv3"]),
        ({"virt_hosts": _written("{{ mine }}"), "mine": "hypervisors:!hv1"}, ["hv2"]),
        ({"virt_hosts": "nobody"}, []),
    ],
)
def test_expected_hypervisors_are_those_of_pattern(
    variables: dict[str, t.Any], names: list[str]
) -> None:
    known: FleetAction = made("virt_purge", {}, variables)
    assert sorted(known.expected()) == sorted(names)
    assert known.expected([]) == []


def test_pattern_that_is_none_is_refused() -> None:
    """Else no hypervisor would have to answer before the verb decides that a VM is nowhere."""
    known: FleetAction = made("virt_purge", {}, {"virt_hosts": "~("})
    with pytest.raises(FleetVirtError, match=r"virt_hosts is no pattern of hosts: '~\('"):
        known.expected()


@pytest.mark.parametrize("verb", VERBS)
def test_hypervisor_outside_of_limit_must_answer(verb: str) -> None:
    assert "hv2: excluded by --limit" in refused(verb)


@pytest.mark.parametrize("verb", VERBS)
def test_lost_hypervisor_need_not_answer(verb: str) -> None:
    """The VM is on no hypervisor then, and that is proven."""
    assert "hv2" not in refused(verb, virt_hypervisors_lost=["hv2"])
    assert "names hv9" in refused(verb, virt_hypervisors_lost=["hv9"])
