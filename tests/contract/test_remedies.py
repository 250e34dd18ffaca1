# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What messages tell people to run exists: playbooks, their variables, modules and their options.

All texts of the plugins, playbooks and roles are read, whatever prints them: a remedy that does not
exist is found by the person who needs it.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import playbook_command
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _variables
from ansible_collections.fleet.virt.tests.contract import _tools
from ansible_collections.fleet.virt.tests.contract._imports import parse

CHECKOUT = _tools.CHECKOUT
FILES = [
    path for path in _tools.project_files() if path.parts[0] in ("plugins", "playbooks", "roles")
]
PLAYBOOKS = {path.stem for path in FILES if path.parts[0] == "playbooks" and len(path.parts) == 2}
ROLES = {path.parts[1] for path in FILES if path.parts[0] == "roles"}
PLUGINS = {path.stem for path in FILES if path.parts[0] == "plugins" and path.suffix == ".py"}

# fleet.virt.NAME, with what follows it up to the end of the sentence
_NAMED = re.compile(r"\bfleet\.virt\.(?P<name>[a-z_]+)(?P<rest>[^;]*)")
_EXTRA = re.compile(r"-e '?\{?\"?([a-z]+_[a-z_]+)(?==|\"?:)")
_MODULE = re.compile(r"\b(virt_[a-z_]+) ?\((?:state|with) ([a-z]+)")


def _constants(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Every text of a module, the pieces of an f-string as one, with {} for its values."""
    inside: set[int] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(one) if part is not one}
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in one.values
            )
            yield one.lineno, text
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in inside:
            yield one.lineno, one.value


def texts() -> list[tuple[str, str]]:
    """Place and text of everything that may be printed; comments of YAML are documentation."""
    found = []
    for path in FILES:
        if path.suffix == ".py":
            found += [(f"{path}:{line}", text) for line, text in _constants(parse(path))]
        elif path.suffix in (".yml", ".j2"):
            found.append((str(path), (CHECKOUT / path).read_text(encoding="utf-8")))
    return found


TEXTS = texts()


def commands() -> list[tuple[str, str, str]]:
    """Place, name after fleet.virt, and what follows it."""
    return [
        (where, found["name"], found["rest"])
        for where, text in TEXTS
        for found in _NAMED.finditer(text)
    ]


def test_texts_are_found() -> None:
    assert len(TEXTS) > 5000
    names = {name for _where, name, _rest in commands()}
    assert {"adopt", "repair_vms", "state", "setup_hypervisors", "renew_keys"} <= names


def test_named_playbook_role_or_plugin_exists() -> None:
    known = PLAYBOOKS | ROLES | PLUGINS | {"plugins"}
    missing = {f"{where}: fleet.virt.{name}" for where, name, _rest in commands()} - {
        f"{where}: fleet.virt.{name}"
        for where, name, _rest in commands()
        if name in known or name.rstrip("_") in {"virt"}
    }
    assert not missing, "\n".join(sorted(missing))


def test_variable_of_named_playbook_is_one_it_reads() -> None:
    problems = [
        f"{where}: fleet.virt.{name} does not read {variable}"
        for where, name, rest in commands()
        if name in PLAYBOOKS
        for variable in _EXTRA.findall(rest.split("fleet.virt.")[0])
        if variable not in _variables.takes(name) | _variables.FLEET
    ]
    assert not problems, "\n".join(problems)


def test_command_with_variables_is_made_by_the_function_that_quotes_them() -> None:
    """A name with a space would be two words, and other values would be evaluated."""
    problems = [
        f"{where}: fleet.virt.{name} -e"
        for where, name, rest in commands()
        if where.startswith("plugins/") and "/modules/" not in where and name in PLAYBOOKS
        if re.match(r"[\w @.-]* -e [a-z{\"]", rest) and "/names.py" not in where
    ]
    assert not problems, "\n".join(problems)


# What a text that says how something came about calls it; modules are told of playbooks
_TOLD = re.compile(r"\b(?:as|where|C\()\W?$")
# Their comments say what has to be given
_NEEDS = {
    path.stem
    for path in FILES
    if path.stem in PLAYBOOKS
    and path.parts[0] == "playbooks"
    and re.search(
        rf"^# ansible-playbook fleet\.virt\.{path.stem} -e",
        (CHECKOUT / path).read_text(encoding="utf-8"),
        re.M,
    )
}


def _named_only(where: str, text: str) -> list[str]:
    """What a message calls a playbook where it has to be a command that can be typed."""
    problems = []
    for found in _NAMED.finditer(text):
        name, before = found["name"], text[: found.start()]
        if name not in PLAYBOOKS or name in PLUGINS or _TOLD.search(before):
            continue
        if not before.endswith("ansible-playbook "):
            problems.append(f"{where}: fleet.virt.{name}: write ansible-playbook fleet.virt.{name}")
        elif name in _NEEDS and not re.match(r" -e ", found["rest"]):
            problems.append(f"{where}: fleet.virt.{name} needs variables: use playbook_command")
    return problems


def test_playbook_that_a_message_names_is_a_command() -> None:
    assert {"migrate_vm", "purge_vm", "state"} <= _NEEDS
    assert not {"list", "images", "renew_keys", "repair_vms"} & _NEEDS
    problems = [
        problem
        for where, text in TEXTS
        if where.startswith("plugins/") and "/modules/" not in where
        for problem in _named_only(where, text)
    ]
    assert not problems, "\n".join(sorted(set(problems)))


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("run fleet.virt.renew_keys", 1),
        ("run ansible-playbook fleet.virt.renew_keys", 0),
        ("move it with ansible-playbook fleet.virt.migrate_vm", 1),
        ("closed; see where fleet.virt.console was started", 0),
    ],
)
def test_playbook_without_its_command_is_reported(text: str, problems: int) -> None:
    assert len(_named_only("here", text)) == problems


def test_virsh_command_exists() -> None:
    virsh = shutil.which("virsh")
    if virsh is None:
        pytest.skip("virsh is not installed here")
    shown = subprocess.run([virsh, "help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^    ([a-z][a-z0-9-]+)", shown, re.M))
    assert {"metadata", "managedsave-remove"} <= known
    found = {
        (where, one[1])
        for where, text in TEXTS
        for one in re.finditer(
            r"\bvirsh(?: -c \S+)? ([a-z]+(?:-[a-z]+)+|metadata|undefine)\b", text
        )
    }
    assert len(found) > 20
    assert not [one for one in found if one[1] not in known]


def _calls() -> Iterator[tuple[str, ast.Call]]:
    """The calls of :func:`playbook_command`, which makes a command of its words."""
    for path in FILES:
        if path.suffix == ".py":
            for node in ast.walk(parse(path)):
                named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                if named and node.func.id == playbook_command.__name__:
                    yield f"{path}:{node.lineno}", node


def test_made_command_names_a_playbook_and_variables_that_it_reads() -> None:
    calls = list(_calls())
    assert len(calls) >= 5
    for where, call in calls:
        (name,) = (one.value for one in call.args if isinstance(one, ast.Constant))
        assert name in PLAYBOOKS, where
        for keyword in call.keywords:
            known = _variables.takes(str(name)) | _variables.FLEET
            if name == "setup_hypervisors":
                known |= _of_roles()
            assert keyword.arg in known, (where, keyword.arg)


def _of_roles() -> set[str]:
    """The variables of the roles that set a machine up, which have defaults."""
    files = [path for path in FILES if path.parts[2:] == ("defaults", "main.yml")]
    return {key for path in files for key in yaml.safe_load((CHECKOUT / path).read_text()) or {}}


def test_playbooks_have_their_variables_and_their_files() -> None:
    assert set(_variables.PLAYBOOKS) == PLAYBOOKS


def _states(module: str) -> list[str]:
    for node in parse(Path("plugins/modules", f"{module}.py")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            targets = [one.id for one in node.targets if isinstance(one, ast.Name)]
            if "DOCUMENTATION" in targets:
                options = yaml.safe_load(str(node.value.value))["options"]
                return list(options.get("state", {}).get("choices", []))
    return []


def test_state_of_named_module_is_one_of_its_choices() -> None:
    found = [(where, *one.groups()) for where, text in TEXTS for one in _MODULE.finditer(text)]
    assert found
    for where, module, state in found:
        if module in PLUGINS:
            assert state in _states(module), (where, module, state)


_TYPED = {
    "web1": "ansible-playbook fleet.virt.state -e vm_name=web1 -e vm_state=shutoff",
    "Windows Server": "ansible-playbook fleet.virt.state -e"
    """ '{"vm_name": "Windows Server", "vm_state": "shutoff"}'""",
    "it's": """ansible-playbook fleet.virt.state -e '{"vm_name": "it'"'"'s", "vm_state":"""
    """ "shutoff"}'""",
    "{{ lookup('pipe', 'id') }}": "ansible-playbook fleet.virt.state -e vm_name=NAME"
    " -e vm_state=shutoff",
    "$(reboot)": """ansible-playbook fleet.virt.state -e '{"vm_name": "$(reboot)", "vm_state":"""
    """ "shutoff"}'""",
}


@pytest.mark.parametrize("name", _TYPED)
def test_command_for_any_name_can_be_pasted(name: str) -> None:
    assert playbook_command("state", vm_name=name, vm_state="shutoff") == _TYPED[name]
