# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference of the playbooks has each of them, with everything that it reads.

``FLEET_VIRT_WRITE=1 .venv/bin/python -m pytest tests/contract/test_playbook_reference.py`` writes
it. That the table of variables is what playbooks, roles and plugins read:
``tests/unit/base/test_variables.py``.
"""

from __future__ import annotations

import os
import re

import pytest
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _variables
from ansible_collections.fleet.virt.tests import playbook_reference as reference

NAMES = [path.stem for path in reference.playbooks()]
_VARIABLE = re.compile(r"^   \* - ``(\w+)``\n     - (.*)\n     - ?(.*)\n     - (.+)$", re.MULTILINE)

# What a file of tasks reads that they import, and is not for them
OF_SHARED_TASKS = {
    "migrate_vm": {"virt_relax"},
    "restart_elsewhere": {"vm_shutdown_timeout"},
    "return_vms": {"virt_relax"},
}


def _section(name: str) -> str:
    label = f".. _{reference.LABEL}.playbooks.{name}:\n"
    page = reference.PAGE.read_text(encoding="utf-8")
    assert page.count(label) == 1, name
    return page.partition(label)[2].partition("\n.. _")[0]


def _documented(section: str) -> set[str]:
    return {found[0] for found in _VARIABLE.findall(_section(section))}


def test_reference_is_what_the_sources_say() -> None:
    wanted = reference.page()
    if os.environ.get("FLEET_VIRT_WRITE"):
        reference.PAGE.write_text(wanted, encoding="utf-8")
    assert reference.PAGE.read_text(encoding="utf-8") == wanted, (
        "run FLEET_VIRT_WRITE=1 .venv/bin/python -m pytest"
        " tests/contract/test_playbook_reference.py"
    )


@pytest.mark.parametrize("name", NAMES)
def test_reference_of_a_playbook_is_complete(name: str) -> None:
    """Compared with the page itself: each has a type and a meaning."""
    common = _documented("fleet")
    if name in _variables._OF_VMS:
        common |= _documented("settings")
    documented = _documented(name) | common
    assert documented >= _variables.takes(name) | _variables.FLEET
    read = {
        each
        for file in reference.files_of(reference.TOP / "playbooks" / f"{name}.yml")
        for each in re.findall(r"(?<![\w.])(?:vm|virt|libvirt_keys)_\w+", _code(file))
    }
    assert (read & reference._known()) - documented == OF_SHARED_TASKS.get(name, set())


def _code(file: object) -> str:
    return "\n".join(
        line
        for line in reference.Path(str(file)).read_text(encoding="utf-8").splitlines()
        if not line.lstrip().startswith("#")
    ).replace("fleet.virt.virt_", "")


def test_reference_says_how_each_playbook_is_called() -> None:
    for name in NAMES:
        assert f"    ansible-playbook fleet.virt.{name}" in _section(name)


def test_meaning_is_written_only_where_no_option_has_it() -> None:
    for name in reference.meanings():
        takers = [each for each in NAMES if name in _variables.takes(each)]
        assert name in _variables.FLEET or any(
            reference.of_option(each, name) is None for each in takers
        ), f"{name} is an option's everywhere: remove it from {reference.MEANINGS.name}"
    known = _variables.FLEET.union(*map(_variables.takes, NAMES))
    assert set(reference.meanings()) <= known


def test_variable_without_any_meaning_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = {name: value for name, value in reference.meanings().items() if name != "virt_confirm"}
    monkeypatch.setattr(reference, "meanings", lambda: rest)
    with pytest.raises(LookupError, match="virt_confirm of purge_vm is no option"):
        reference.page()


def test_option_gives_type_default_and_meaning() -> None:
    shown = reference.variable("migrate_vm", "virt_auto_converge")
    assert (shown.kind, shown.default) == ("bool", "true")
    assert shown.meaning.startswith("Slow the guest down")
    # an option of the module is named as the variable of the playbook
    assert "``virt_on_timeout``" in reference.variable("migrate_vm", "virt_seconds_per_gib").meaning
