# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The project's own rules about its code, each a case that names the file and the line."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.fleet.virt.tests.contract import _tools
from ansible_collections.fleet.virt.tests.contract._imports import COLLECTION, imports, parse

CHECKOUT = _tools.CHECKOUT
FILES = _tools.project_files()
PLUGINS = [path for path in FILES if path.parts[0] == "plugins" and path.suffix == ".py"]
MODULES = [path for path in PLUGINS if path.parts[1] == "modules"]
UTILS = [path for path in PLUGINS if path.parts[1] == "module_utils"]
ON_HYPERVISORS = [*MODULES, *UTILS]
PACKAGE = (*COLLECTION, "plugins")

# Where the one library that hypervisors may have is imported, and only if it is wanted
OPTIONAL_DOOR = "effects_guest_disk.py"
# A program of its own on hypervisors, where nothing else of the collection is
PROGRAM = "effects_start_guests.py"
# What the names of files that touch libvirt, files and programs begin with
EFFECTS = ("effects", "read")
MODULE_LINES = 60
FILE_LINES = 400
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
# Packages that Ansible imports before a plugin on the controller; none of them is sent
BEGINNINGS = [Path("plugins", kind, "__init__.py") for kind in ("action", "inventory", "lookup")]
BEGINNING = """\
from __future__ import annotations
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _compiled
_compiled.keep()"""
LICENCE = """\
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""


def each(paths: list[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Make a check of one file a test of all ``paths`` that names every file at fault."""

    def test_of_all(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            faults = []
            for path in paths:
                try:
                    check(path)
                except (AssertionError, SyntaxError) as error:
                    faults.append(f"{path}: {error}".splitlines()[0])
            assert not faults, "\n".join(["", *faults])

        return test

    return test_of_all


def ours(name: tuple[str, ...]) -> tuple[str, ...]:
    """Return the part of an imported name below ``plugins``; empty for what is not ours."""
    return name[len(PACKAGE) :] if name[: len(PACKAGE)] == PACKAGE else ()


def code_lines(path: Path) -> int:
    """Count the lines that hold code: no documentation, docstring, comment or blank."""
    text = (CHECKOUT / path).read_text()
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        documents = isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id in DOCUMENTATION for target in node.targets
        )
        string = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if documents or string:
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in silent
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - prose)


def test_something_is_checked() -> None:
    assert MODULES
    assert UTILS


def test_action_group_is_complete() -> None:
    runtime = yaml.safe_load((CHECKOUT / "meta" / "runtime.yml").read_text())
    modules = {path.stem for path in MODULES if path.stem.startswith("virt_")}
    redirects = set(runtime.get("plugin_routing", {}).get("modules", {}))
    assert set(runtime["action_groups"]["virt"]) - redirects == modules


@each(MODULES)
def test_module_is_a_contract_not_logic(path: Path) -> None:
    count = code_lines(path)
    assert count <= MODULE_LINES, f"{count} lines of code, at most {MODULE_LINES}"


@each([path for path in PLUGINS if path.name != "__init__.py"])
def test_file_is_short_enough_to_read(path: Path) -> None:
    count = code_lines(path)
    assert count <= FILE_LINES, f"{count} lines of code, at most {FILE_LINES}"


@each([path for path in PLUGINS if path.name == "__init__.py" and path not in BEGINNINGS])
def test_init_is_empty(path: Path) -> None:
    assert (CHECKOUT / path).read_text() == "", "is not empty"


@each(BEGINNINGS)
def test_init_of_plugins_of_the_controller_keeps_bytecode_and_nothing_else(path: Path) -> None:
    tree = ast.parse((CHECKOUT / path).read_text())
    assert "\n".join(map(ast.unparse, tree.body[1:])) == BEGINNING, "does something else"


@each([path for path in PLUGINS if path.name != "__init__.py" or path in BEGINNINGS])
def test_licence_comes_first(path: Path) -> None:
    text = (CHECKOUT / path).read_text()
    assert text.removeprefix("#!/usr/bin/python\n").startswith(LICENCE), (
        "does not start with the licence"
    )


@each(PLUGINS)
def test_code_is_ascii(path: Path) -> None:
    text = (CHECKOUT / path).read_text()
    odd = [
        (number, character)
        for number, line in enumerate(text.splitlines(), 1)
        for character in line
        if not character.isascii()
    ]
    assert not odd, f"not ASCII (line, character): {odd[:5]}"


@each(ON_HYPERVISORS)
def test_hypervisors_may_have_python_3_9(path: Path) -> None:
    text = (CHECKOUT / path).read_text()
    ast.parse(text, filename=str(path), feature_version=(3, 9))
    assert not text or "from __future__ import annotations" in text, "annotations are evaluated"


@each([path for path in UTILS if path.name != "__init__.py"])
def test_helpers_are_private(path: Path) -> None:
    assert any(part.startswith("_") for part in path.parts[2:]), "has a public name"


def touches(path: Path) -> bool:
    """Whether a file of a feature may touch libvirt, files and programs, by its name."""
    return path.name.startswith(EFFECTS)


PURE = [path for path in UTILS if "_fleet" in path.parts and not touches(path)]


@each(PURE)
def test_pure_files_are_pure(path: Path) -> None:
    """What is pure knows its like and the helpers, and of the machine nothing."""
    effects = {
        "ansible",
        "asyncio",
        "ctypes",
        "fcntl",
        "glob",
        "io",
        "libvirt",
        "lxml",
        "multiprocessing",
    }
    effects |= {
        "os",
        "pathlib",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "subprocess",
        "sys",
        "tempfile",
    }
    effects |= {"threading", "time", "urllib"}
    helpers = {"_fleet", "_errors", "_lxml", "_records", "_units"}
    for line, name in imports(path):
        below = ours(name)
        if below:
            assert below[0] == "module_utils", f"line {line}: {'.'.join(below)}"
            assert below[1] in helpers, f"line {line}: not pure: {below[1]}"
            file = below[3] if len(below) > 3 else ""
            assert not file.startswith(EFFECTS), f"line {line}: not pure: {'.'.join(below)}"
        else:
            pure = name[:2] == ("urllib", "parse")
            assert pure or name[0] not in effects, f"line {line}: not pure: {name[0]}"


def test_one_file_starts_programs() -> None:
    """It has their limits, their language and where they are looked for, once."""
    starting = [
        path for path in PLUGINS if any(name[0] == "subprocess" for _line, name in imports(path))
    ]
    assert [path.name for path in starting] == ["effects_programs.py"]


def test_dataclass_in_plugins_is_made_by_our_decorator() -> None:
    """The standard one takes three times as long, and none of these can inherit from it.

    ``_errors`` is also sent alone.
    """
    standard = re.compile(r"^from dataclasses import .*\bdataclass\b|@dataclasses\.", re.MULTILINE)
    using = [path.name for path in PLUGINS if standard.search((CHECKOUT / path).read_text())]
    assert using == ["_errors.py"]


def test_one_file_reads_the_table_of_sockets() -> None:
    """Its rows tell whose a socket is only in some states, which one function knows."""
    table = re.compile(r"/proc/net/(tcp|\{)|_diag|PEERCRED")
    reading = [path.name for path in PLUGINS if table.search((CHECKOUT / path).read_text())]
    # listeners.py names the table in its documentation
    assert sorted(set(reading)) == ["listeners.py", "read_tcp_table.py"]


def test_one_file_writes_to_the_screen() -> None:
    """It escapes what a guest's name could do to a terminal, or to the text around it."""
    ways = r"\bDisplay\(\)\.(?!verbosity)|\b_?display\.(?:display|warning|error|deprecated)\("
    writing = re.compile(ways)
    found = [path.name for path in PLUGINS if writing.search((CHECKOUT / path).read_text())]
    # the callback is a plugin by itself, and escapes by the same function
    assert sorted(found) == ["_output.py", "output.py"]


def test_one_file_renames() -> None:
    """It says what is flushed before and after, who may read it, and what a crash leaves."""
    ways = {"os.rename", "os.renames", "os.replace", "shutil.move"}
    renaming = {
        path.name
        for path in PLUGINS
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute) and (ast.unparse(node) in ways or node.attr == "rename")
        if ast.unparse(node) not in ("dom.rename", "domains.rename")  # libvirt's, of a domain
    }
    assert renaming == {"effects_files.py"}


def test_one_file_speaks_to_systemd_and_one_reads_the_kernels_line_of_a_process() -> None:
    """Commands that are only written down, as in a script or a message, are words of a text."""
    asking = {
        path.name: sorted(
            {
                node.value
                for node in ast.walk(parse(path))
                if isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value in ("systemctl", "systemd-run", "/stat", "/proc/self/stat")
            }
        )
        for path in UTILS
    }
    found = {name: words for name, words in asking.items() if words}
    systemd = {"effects_systemd.py": ["systemctl", "systemd-run"]}
    assert found == {**systemd, "read_processes.py": ["/stat"]}


@each([path for path in UTILS if path.name != "__init__.py"])
def test_helpers_never_import_upwards(path: Path) -> None:
    for line, name in imports(path):
        below = ours(name)
        assert not below or below[0] == "module_utils", f"line {line}: {'.'.join(below)}"


def for_types_alone(path: Path) -> set[int]:
    """Lines that only the type checker reads."""
    return {
        line
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "t.TYPE_CHECKING"
        for one in node.body
        for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)
    }


@each(ON_HYPERVISORS)
def test_hypervisors_need_only_libvirt_and_lxml(path: Path) -> None:
    doors = {"libvirt": "_libvirt.py", "libvirt_qemu": "_libvirt.py", "lxml": "_lxml.py"}
    for line, name in imports(path):
        if ours(name) or name[:2] == ("ansible", "module_utils"):
            continue
        where = f"line {line}: {name[0]}"
        if name[0] == "libvirt" and path.name == PROGRAM:
            continue
        if name[0] in doors:
            assert path.name == doors[name[0]], f"{where} is imported in {doors[name[0]]} only"
        elif name[0] == "typing_extensions":
            assert line in for_types_alone(path), f"{where} is not on hypervisors"
        else:
            assert name[0] in sys.stdlib_module_names, f"{where} is not on hypervisors"
            if name[0] == "importlib":
                assert path.name == OPTIONAL_DOOR, f"{where} hides files from Ansible's packing"


def test_one_library_is_optional_on_hypervisors() -> None:
    """What is imported by name is not ours, so Ansible has nothing to pack: libguestfs alone."""
    (door,) = [path for path in ON_HYPERVISORS if path.name == OPTIONAL_DOOR]
    calls = [
        ast.unparse(node)
        for node in ast.walk(parse(door))
        if isinstance(node, ast.Call) and "import" in ast.unparse(node.func)
    ]
    assert calls == ["importlib.import_module('guestfs')"]
    assert [name for _line, name in imports(door) if name[0] == "importlib"] == [("importlib",)]


def test_one_file_changes_definitions() -> None:
    """With the flags that belong to it; _libvirt.py only says what libvirt's domains have."""
    changing = {"defineXML", "defineXMLFlags", "undefine", "undefineFlags", "setMetadata"}
    found = {
        path.name
        for path in PLUGINS
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute) and node.attr in changing
        if ast.unparse(node.value) != "domains"
    }
    assert found == {"effects_definitions.py"}


def test_plugin_folders_are_ansibles() -> None:
    allowed = {"action", "doc_fragments", "inventory", "module_utils", "modules", "plugin_utils"}
    allowed |= {"callback", "connection", "filter", "lookup", "test", "vars"}
    assert {path.parts[1] for path in FILES if path.parts[0] == "plugins"} <= allowed


def test_no_file_names_a_developers_machine() -> None:
    """What is written down has to be true elsewhere."""
    folders = r"/(?:work|Users|home/\w+|root/(?:dev|fv|git|src|work))/\w"
    machine = re.compile(rf"(?<![\w.~$}}/-]){folders}|{re.escape(str(CHECKOUT))}\b")
    found = []
    for path in FILES:
        if path.is_symlink() or not (CHECKOUT / path).is_file():
            continue
        try:
            text = (CHECKOUT / path).read_text()
        except UnicodeDecodeError:
            continue
        if path == Path(__file__).resolve().relative_to(CHECKOUT):
            continue
        found += [
            f"{path}:{number}: {line.strip()[:120]}"
            for number, line in enumerate(text.splitlines(), 1)
            if machine.search(line)
        ]
    assert not found, "\n".join(found)


def is_bash(path: Path) -> bool:
    with (CHECKOUT / path).open("rb") as file:
        return file.readline().rstrip() in {b"#!/bin/bash", b"#!/usr/bin/env bash"}


def test_shell_scripts_parse() -> None:
    scripts = [path for path in FILES if (CHECKOUT / path).is_file() and is_bash(path)]
    assert scripts
    for path in scripts:
        _tools.run(["bash", "-n", path], CHECKOUT)


# What these do is done on the controller
_AT_HOME = {"virt_capacity", "virt_place", "virt_plan", "virt_show"}
_STAGES_AT_HOME = {"decide", "end", "list", "note", "prepare", "report", "settle"}
_STAGES_AT_HOME |= {"cleared", "order_restarts", "note_restarts", "find", "prove", "starts"}
_STAGES_AT_HOME |= {"summary", "names"}
_BUILTIN_AT_HOME = re.compile(
    r"(assert|debug|fail|meta|set_fact|validate_argument_spec|(include|import)_(tasks|role|vars))$"
)


def tasks_of(entries: Any) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a file of plays or tasks, those in blocks too."""
    for entry in entries or ():
        inner = [key for key in ("tasks", "block", "rescue", "always") if key in entry]
        for key in inner:
            yield from tasks_of(entry[key])
        if not inner:
            yield entry


def asks_a_hypervisor(task: dict[str, Any]) -> bool:
    """Whether the task's module runs on a host of the play."""
    (name,) = [key for key in task if key.count(".") == 2]
    short = name.rpartition(".")[2]
    if not name.startswith("fleet.virt."):
        return not _BUILTIN_AT_HOME.match(short)
    options = task[name] or {}
    stage = (options.get("_work") or options).get("stage", options.get("_stage"))
    return short not in _AT_HOME and stage not in _STAGES_AT_HOME


def tasks_of_playbooks_and_roles() -> list[tuple[Path, dict[str, Any]]]:
    return [
        (path, task)
        for path in FILES
        if path.parts[0] in ("playbooks", "roles")
        and path.suffix == ".yml"
        and (path.parts[0] == "playbooks" or path.parts[2] in ("tasks", "handlers"))
        for task in tasks_of(yaml.safe_load((CHECKOUT / path).read_text()))
    ]


def test_what_removes_vms_is_asked_for_nothing_else() -> None:
    asking = {
        str(path)
        for path, task in tasks_of_playbooks_and_roles()
        if "fleet.virt.virt_purge" in task
    }
    assert asking == {"playbooks/purge_vm.yml"}


def test_every_task_that_asks_a_hypervisor_has_a_limit() -> None:
    """Ansible's default is none: a hypervisor that falls silent would hold the play for ever."""
    asking = [one for one in tasks_of_playbooks_and_roles() if asks_a_hypervisor(one[1])]
    assert len(asking) > 30
    assert not [f"{path}: {task['name']}" for path, task in asking if "timeout" not in task]


def test_report_of_a_playbook_has_its_end_after_it() -> None:
    """Nothing else stands there, and no condition: no report of an earlier play is left for it."""
    reports = 0
    for path in [path for path in FILES if path.parts[0] in ("playbooks", "roles")]:
        if path.suffix != ".yml" or (path.parts[0] == "roles" and path.parts[2] != "tasks"):
            continue
        tasks = [*tasks_of(yaml.safe_load((CHECKOUT / path).read_text()))]
        for task, following in zip(tasks, [*tasks[1:], {}]):
            if not str(task.get("register", "")).endswith("_reported"):
                continue
            reports += 1
            assert task["run_once"] is True, path
            assert "when" not in task, path
            imported = following.get("ansible.builtin.import_tasks", "")
            options = [value for value in following.values() if isinstance(value, dict)]
            ends = any(value.get("_work") == {"stage": "end"} for value in options)
            assert ends or Path(imported).name == "end.yml", path
    assert reports > 15


def test_stage_on_hypervisor_suppresses_no_failure() -> None:
    """Its end is an answer anyway; what else fails there is a bug that must be seen."""
    staged = [
        (path, task)
        for path, task in tasks_of_playbooks_and_roles()
        for options in task.values()
        if isinstance(options, dict) and "_work" in options
    ]
    assert len(staged) > 5
    suppressed = {"failed_when", "ignore_errors", "ignore_unreachable"}
    assert not [f"{path}: {task['name']}" for path, task in staged if suppressed & set(task)]


def test_task_never_suppresses_all_failures() -> None:
    """Where a play has to go on, the task is a stage, and its end an answer."""
    assert not [
        f"{path}: {task['name']}"
        for path, task in tasks_of_playbooks_and_roles()
        if task.get("failed_when") is False or "ignore_errors" in task
    ]


def test_every_answer_of_a_hypervisor_passes_an_action_of_ours() -> None:
    """To Ansible a result is more than data, also that of its own modules: facts are set for the
    host, and crafted statistics end the play for all."""
    foreign = [
        f"{path}: {task['name']}"
        for path, task in tasks_of_playbooks_and_roles()
        if asks_a_hypervisor(task) and not any(key.startswith("fleet.virt.") for key in task)
    ]
    assert not foreign
    plays = [
        (path, play)
        for path in FILES
        if path.parent == Path("playbooks") and path.suffix == ".yml"
        for play in yaml.safe_load((CHECKOUT / path).read_text())
    ]
    assert len(plays) >= 14
    assert not [str(path) for path, play in plays if play["gather_facts"] is not False]


def test_play_states_connection_and_privileges_for_all_its_tasks() -> None:
    """A task that states its own could be forgotten, and would ask another libvirt."""
    defaults = "{{ virt_uri | default(omit) }}"
    for path in (CHECKOUT / "playbooks").glob("*.yml"):
        for play in yaml.safe_load(path.read_text()):
            if any(_includes_role(task) for task in play["tasks"]):
                continue  # the role's own tasks state them, wherever it is used
            group = play["module_defaults"]["group/fleet.virt.virt"]
            assert group == {"uri": defaults}, path.name
            assert play["become"] == "{{ virt_become | default(true) }}", path.name
    for path, task in tasks_of_playbooks_and_roles():
        if path.parts[0] == "playbooks":
            given = [
                key for key, value in task.items() if isinstance(value, dict) and "uri" in value
            ]
            assert not given, f"{path}: {task['name']}"
            assert "become" not in task, f"{path}: {task['name']}"


def test_task_of_playbook_states_no_safety_input() -> None:
    """Actions derive from the play's variables which hypervisors must answer."""
    derived = {"expected", "lost", "_expected", "_lost"}
    for path, task in tasks_of_playbooks_and_roles():
        for module, options in task.items():
            if path.parts[0] == "playbooks" and module.startswith("fleet.virt."):
                given = derived & set(options or ())
                given -= {"lost"} if module == "fleet.virt.virt_keys" else set()  # the role's
                assert not given, f"{path}: {task['name']}"


def _includes_role(task: dict[str, Any]) -> bool:
    return "ansible.builtin.include_role" in task
