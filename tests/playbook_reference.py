# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference of the playbooks, from what knows their variables.

Which playbook accepts a variable is in ``plugin_utils/base/_variables.py``. Type, default and
meaning are those of the option that the playbook hands it to, of a module or of a role; of what is
not just an option, they are in ``docs/docsite/variables.yml``, and only of that.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _variables
from ansible_collections.fleet.virt.tests.contract import documentation
from jinja2 import nodes

TOP = Path(__file__).resolve().parents[1]
PAGE = TOP / "docs" / "docsite" / "rst" / "playbooks.rst"
MEANINGS = TOP / "docs" / "docsite" / "variables.yml"
LABEL = "ansible_collections.fleet.virt.docsite"
_TASKS = ("ansible.builtin.import_tasks", "ansible.builtin.include_tasks")
_ROLES = ("ansible.builtin.import_role", "ansible.builtin.include_role")
# Not in groups of a playbook, but of its own: the fleet's variables, and the settings of a VM
FLEET = _variables.FLEET


@dataclass(frozen=True)
class Variable:
    """What the reference says of a variable in a playbook."""

    name: str
    kind: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Use:
    """A variable that a playbook gives to an option, with what it gives if it is not set."""

    name: str
    owner: str  # of a module: its name; of a role: its name with # and the entry point
    option: str
    default: str | None


def playbooks() -> list[Path]:
    return sorted((TOP / "playbooks").glob("*.yml"))


def head_of(playbook: Path) -> list[str]:
    """The lines of the comment at its head, which show how it is called."""
    lines = playbook.read_text(encoding="utf-8").splitlines()
    head = [line for line in lines[1 : lines.index(next(filter(_is_play, lines)))] if line]
    after = [line.removeprefix("#").removeprefix(" ") for line in head]
    return [line for line in after if line and not line.startswith(("Copyright", "SPDX"))]


def _is_play(line: str) -> bool:
    return line.startswith("- name:")


def summary_of(playbook: Path) -> str:
    return str(_load(playbook)[0]["name"])


@functools.cache
def _load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _entries(node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield str(key), value
            yield from _entries(value)
    elif isinstance(node, list):
        for value in node:
            yield from _entries(value)


def files_of(playbook: Path) -> list[Path]:
    """The playbook, and the files of tasks that it reads."""
    found, waiting = [playbook], [playbook]
    while waiting:
        file = waiting.pop()
        for key, value in _entries(_load(file)):
            if key in _TASKS:
                name = value if isinstance(value, str) else value["file"]
                if "{{" in name:  # of the user's
                    continue
                task = (file.parent / name).resolve()
                if task not in found:
                    found.append(task)
                    waiting.append(task)
    return found


def _chain(text: str) -> Iterator[tuple[str, str | None]]:
    """The variables of an expression such as ``a | default(b) | default(3)``, with the constant
    that counts if none is set."""
    # not every filter of Ansible is known here, so it is only parsed
    outputs = list(jinja2.Environment().parse(text).find_all(nodes.Output))  # noqa: S701
    if len(outputs) != 1 or len(outputs[0].nodes) != 1:
        return
    node: nodes.Node | None = outputs[0].nodes[0]
    names: list[str] = []
    default: str | None = None
    while isinstance(node, nodes.Filter):
        if node.name == "default" and node.args:
            given = node.args[0]
            if isinstance(given, nodes.Name) and given.name != "omit":
                names.append(given.name)
            elif default is None and isinstance(given, nodes.Const):
                default = str(given.value).lower() if given.value is not None else None
        node = node.node
    names += [name.name for name in node.find_all(nodes.Name)] if node is not None else []
    names += [node.name] if isinstance(node, nodes.Name) else []
    for name in names:
        yield name, default


def uses_of(playbook: Path) -> list[Use]:
    """What the playbook hands to options, and the options of the roles that it includes."""
    found: list[Use] = []
    files = files_of(playbook)
    passed = {  # names that an import gives to expressions of a playbook
        str(name): value
        for file in files
        for key, value in _entries(_load(file))
        if key == "vars" and isinstance(value, dict)
        for name, value in value.items()
    }
    for file in files:
        for key, value in _entries(_load(file)):
            if key in _ROLES:
                found += _of_role(value)
            elif key.startswith("fleet.virt.") and isinstance(value, dict):
                module = key.removeprefix("fleet.virt.")
                for option, text in value.items():
                    found += _of_option(module, str(option), text, passed)
    return found


def _of_option(module: str, option: str, text: Any, passed: Mapping[str, Any]) -> Iterator[Use]:
    if not isinstance(text, str) or option.startswith("_"):
        return
    for name, default in _chain(text):
        given = passed.get(name)
        if isinstance(given, str) and name not in _known():
            for inner, other in _chain(given):
                yield Use(inner, module, option, other if other is not None else default)
        else:
            yield Use(name, module, option, default)


def _of_role(included: Mapping[str, Any]) -> Iterator[Use]:
    role = included["name"].removeprefix("fleet.virt.")
    entry = included.get("tasks_from", "main")
    for name in role_options(role).get(entry, {}):
        yield Use(name, f"{role}#{entry}", name, None)
    # what a role hands on to others is theirs
    for other in role_dependencies(role) if entry == "main" else ():
        for name in role_options(other).get("main", {}):
            yield Use(name, f"{other}#main", name, None)


@functools.cache
def role_options(role: str) -> dict[str, dict[str, Any]]:
    specs = _load(TOP / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]
    return {entry: spec.get("options", {}) for entry, spec in specs.items()}


def role_dependencies(role: str) -> list[str]:
    """The roles that one includes."""
    return sorted(
        {
            value["name"].removeprefix("fleet.virt.")
            for path in (TOP / "roles" / role / "tasks").glob("*.yml")
            for key, value in _entries(_load(path))
            if key in _ROLES and value["name"].startswith("fleet.virt.")
        }
    )


@functools.cache
def _known() -> frozenset[str]:
    return FLEET.union(*map(_variables.takes, _variables.PLAYBOOKS))


@functools.cache
def _module_options(module: str) -> dict[str, Any]:
    path = documentation.modules().get(module)
    if path is None:
        return {}
    text = yaml.safe_load(documentation.texts(path)["DOCUMENTATION"])
    found: dict[str, Any] = {}
    for named in text.get("extends_documentation_fragment", []):
        file, _, part = str(named).removeprefix("fleet.virt.").partition(".")
        fragment = documentation.PLUGINS / "doc_fragments" / f"{file}.py"
        if fragment.exists():  # else Ansible's own
            texts = documentation.texts(fragment)
            more = yaml.safe_load(texts[part.upper() or "DOCUMENTATION"])
            found |= more.get("options", {})
    return found | text.get("options", {})


def _described(use: Use) -> Mapping[str, Any] | None:
    """The documentation of the option, if it has one."""
    if "#" in use.owner:
        role, _, entry = use.owner.partition("#")
        return role_options(role)[entry].get(use.option)
    return _module_options(use.owner).get(use.option)


def meanings() -> dict[str, dict[str, Any]]:
    """The variables that are not just an option."""
    return _load(MEANINGS)


def of_option(playbook: str, name: str) -> tuple[Use, Mapping[str, Any]] | None:
    """The documented option that a playbook hands a variable to; the first."""
    if playbook in _variables._OF_VMS and name in _variables.settings():
        option = name.removeprefix("vm_")
        return Use(name, "virt_init", option, None), _module_options("virt_init")[option]
    for use in uses_of(TOP / "playbooks" / f"{playbook}.yml"):
        # that it is a name says nothing of what for
        asked = use.name == name and use.option not in ("name", "names")
        entry = _described(use) if asked else None
        if entry is not None:
            return use, entry
    return None


def variable(playbook: str, name: str) -> Variable:
    """What is known of a variable in a playbook."""
    written = meanings().get(name)
    if written is not None:
        meaning = written.get("of", {}).get(playbook, written["meaning"])
        return Variable(name, written["type"], _shown(written.get("default")), meaning)
    option = of_option(playbook, name)
    if option is None:
        raise LookupError(f"{name} of {playbook} is no option: describe it in {MEANINGS.name}")
    use, entry = option
    default = use.default if use.default else _shown(entry.get("default"))
    kind = entry.get("type", "str")
    kind += f" of {entry['elements']}" if "elements" in entry else ""
    variables = {
        other.option: other.name
        for other in uses_of(TOP / "playbooks" / f"{playbook}.yml")
        if other.owner == use.owner
    }
    text = entry["description"]
    meaning = str(text if isinstance(text, str) else text[0])
    if "choices" in entry:
        meaning += f" One of {', '.join(f'V({each})' for each in entry['choices'])}."
    return Variable(name, kind, default, _plain(meaning, variables))


def _shown(default: object) -> str:
    if default is None or default in ("", [], {}):
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)


_MARKUP = re.compile(r"\b(C|V|O|RV|I|B|E|M|P|R)\(((?:\\.|[^)\\])*)\)")


def _plain(text: str, variables: Mapping[str, str]) -> str:
    """Ansible's markup as that of the page; an option is named by its variable here."""

    def one(found: re.Match[str]) -> str:
        mark, inside = found[1], found[2].replace("\\", "")
        if mark in "IB":
            return f"*{inside}*"
        if mark in "MP":
            name, _, kind = inside.partition("#")
            return f":ansplugin:`{name}#{kind or 'module'}`"
        if mark == "R":
            shown, _, target = inside.partition(",")
            return f":ref:`{shown.strip()} <{target.strip()}>`"
        if mark == "O" and ":" not in inside:
            name, equals, value = inside.partition("=")
            inside = variables.get(name, name) + equals + value
        return f"``{inside}``"

    return re.sub(r"\s+", " ", _MARKUP.sub(one, text)).strip()


def page() -> str:
    """The whole page."""
    names = [path.stem for path in playbooks()]
    parts = [_HEAD, *(_section(name) for name in names), _fleet(), _settings(), _index(names)]
    return "\n".join(parts)


_HEAD = f"""\
..
  Copyright (c) 2026 Fleet Virt contributors
  GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
  SPDX-License-Identifier: GPL-3.0-or-later

..
  Written by tests/contract/test_playbook_reference.py, see there.

.. _{LABEL}.playbooks:

Playbooks
=========

Every playbook with the variables that it reads. They are given with ``-e``, in a file with
``-e @FILE``, or in the inventory. ``--check`` shows what would be done and changes nothing,
``--limit`` leaves hypervisors out. Besides those in its table a playbook accepts
:ref:`the variables of the fleet <{LABEL}.playbooks.fleet>`, and those of other playbooks if they
select neither VMs nor hypervisors.

.. contents::
   :local:
   :depth: 1
"""


def _section(playbook: str) -> str:
    path = TOP / "playbooks" / f"{playbook}.yml"
    usage = "\n".join(f"    {line}" for line in head_of(path))
    own = sorted(_variables.takes(playbook) - FLEET - _settings_of(playbook))
    text = f"""\
.. _{LABEL}.playbooks.{playbook}:

{playbook}
{"-" * len(playbook)}

{summary_of(path)}.

.. code-block:: text

{usage}
"""
    if playbook in _variables._OF_VMS:
        text += f"""
Every :ref:`setting of a VM <{LABEL}.playbooks.settings>` is a variable of it too.
"""
    return text + "\n" + _table(variable(playbook, name) for name in own)


def _settings_of(playbook: str) -> frozenset[str]:
    return _variables.settings() if playbook in _variables._OF_VMS else frozenset()


def _table(rows: Iterator[Variable]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 26 14 14 46", ""]
    for row in [("variable", "type", "default", "meaning"), *map(_cells, rows)]:
        for number, cell in enumerate(row):
            lines.append(f"   {' *'[number == 0]} - {cell}".rstrip())
    return "\n".join(lines) + "\n"


def _cells(row: Variable) -> tuple[str, str, str, str]:
    return f"``{row.name}``", row.kind, f"``{row.default}``" if row.default else "", row.meaning


def _fleet() -> str:
    return f"""\
.. _{LABEL}.playbooks.fleet:

Variables of the fleet
----------------------

Every playbook accepts them, and reads those that it needs. They belong into ``group_vars`` of the
hypervisors or into the variables of one of them.

{_table(variable("list", name) for name in sorted(FLEET))}"""


def _settings() -> str:
    takers = ", ".join(f"``{name}``" for name in _variables._OF_VMS)
    rows = (variable("provision_vm", name) for name in sorted(_variables.settings()))
    return f"""\
.. _{LABEL}.playbooks.settings:

Settings of a VM
----------------

Variables of {takers}, and without ``vm_`` the keys of each VM of ``virt_vms``. What is in a disk,
a NIC and so on, :ansplugin:`fleet.virt.virt_init#module` documents.

{_table(rows)}"""


def _index(names: list[str]) -> str:
    lines = ["Which playbook reads it", "-----------------------", "", ".. list-table::"]
    lines += ["   :header-rows: 1", "   :widths: 30 70", "", "   * - variable", "     - playbooks"]
    for name in sorted(_known() - FLEET - _variables.settings() | {"vm_name"}):
        readers = [each for each in names if name in _variables.takes(each)]
        lines += [f"   * - ``{name}``", f"     - {', '.join(map(_link, readers))}"]
    return "\n".join(lines) + "\n"


def _link(playbook: str) -> str:
    return f":ref:`{playbook} <{LABEL}.playbooks.{playbook}>`"
