# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Extra variables that nothing reads, and the table of those that something reads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._variables import (
    SELECTORS,
    require_known,
    settings,
    takes,
)

KNOWN = _variables.FLEET.union(*map(takes, _variables.PLAYBOOKS))
TOP = Path(__file__).resolve().parents[3]
_NAME = re.compile(r"(?<![\w./])(?:vm|virt|libvirt_keys)_[a-z0-9_]+\b")


@pytest.mark.parametrize(
    ("playbook", "extra", "message"),
    [
        ("provision_vm", {"vm_mem": "512"}, "vm_mem: no playbook reads .* did you mean vm_memory"),
        ("migrate_vm", {"vm_hosts": "hv2"}, "vm_hosts: .* did you mean vm_host"),
        ("query", {"virt_name": "web1"}, "virt_name: .* did you mean virt_names"),
        ("list", {"virt_ouput": "json"}, "did you mean virt_output"),
        ("list", {"virt_xyzzy": "json"}, "list takes .*virt_group, virt_names, virt_output"),
        ("purge_vm", {"vm_": 1}, "vm_: no playbook reads"),
        ("evacuate", {"virt_evacuated": "hv2"}, "virt_evacuated: no playbook reads"),
        ("renew_keys", {"libvirt_keys_renw": "1"}, "did you mean libvirt_keys_renew"),
        ("maintenance", {"virt_maintenance": "ture"}, "'ture' is neither true nor false"),
        ("maintenance", {"virt_maintenance": 2}, "2 is neither true nor false"),
        ("maintenance", {"virt_maintenance": ""}, "'' is neither true nor false"),
        ("purge_vm", {"vm_force": None}, "None is neither true nor false"),
        ("images", {"virt_images_prune": "y e s"}, "neither true nor false"),
        ("query", {"virt_name": 1, "vm_nam": 2}, "virt_name: .*\nvm_nam: "),
        (
            "provision_vm",
            {"virt_vms": [], "vm_memory": 1, "vm_wait": False},
            "^vm_memory: virt_vms is set too, so it would be ignored; specify memory [^\n]*$",
        ),
        ("plan", {"virt_vms": [], "vm_zone": "a"}, "specify zone for the VMs in virt_vms"),
        ("state", {"virt_group": "shop", "virt_host": "hv1"}, "virt_host: state does not select"),
        ("migrate_vm", {"vm_host": "hv1", "virt_host": "hv2"}, r"another .*\(hv1 and hv2\); give"),
        ("evacuate", {"virt_host": "hv1", "vm_host": "hv2"}, "vm_host: .* mean virt_hosts"),
        ("maintenance", {"vm_host": "hv2"}, "vm_host: .* did you mean virt_host"),
        ("query", {"virt_host": "hv1"}, "virt_host: .* did you mean virt_hosts"),
        ("host_info", {"vm_name": "web1"}, r"select with virt_hosts \(of hypervisors\), or leave"),
        ("evacuate", {"virt_host": "hv1", "vm_name": "web1"}, "vm_name: evacuate does not select"),
        (
            "screenshot",
            {"vm_name": "web1", "vm_host": "hv1"},
            "vm_host: screenshot does not select",
        ),
        ("lst", {}, "'lst' is not a playbook of this collection"),
    ],
)
def test_mistakes(playbook: str, extra: dict[str, t.Any], message: str) -> None:
    with pytest.raises(FleetVirtError, match=message):
        require_known(playbook, extra)


@pytest.mark.parametrize(
    ("playbook", "extra"),
    [
        ("provision_vm", {"vm_name": "web1", "vm_memory": "512", "vm_seed": {"user": "me"}}),
        ("list", {"virt_hosts": "all", "vm_memory": "for another playbook"}),
        ("list", {"vm_name": "web1"}),
        ("query", {"vm_name": "web1", "virt_filter_state": "running"}),
        ("host_info", {"vm_name": "", "virt_group": None}),
        ("list", {"mine": 1, "vmware_host": 1, "virtual": 1, "ansible_user": "me"}),
        ("maintenance", {"virt_host": "hv1", "virt_maintenance": "False"}),
        ("maintenance", {"virt_maintenance": "{{ wanted }}"}),
        ("images", {"virt_images_prune": True, "virt_images_verify": "yes"}),
        ("renew_keys", {"libvirt_keys_renew": "1"}),
        ("provision_vm", {"virt_vms": [], "vm_wait": False}),
        ("provision_vm", {"virt_vms": None, "vm_memory": 1}),
        ("migrate_vm", {"virt_vms": [], "vm_host": "hv2"}),
        ("migrate_vm", {"vm_name": "web1", "virt_host": "hv2"}),
        ("migrate_vm", {"vm_host": "hv2", "virt_host": "hv2"}),
    ],
)
def test_no_mistake(playbook: str, extra: dict[str, t.Any]) -> None:
    require_known(playbook, extra)


@pytest.mark.parametrize("playbook", sorted(_variables.PLAYBOOKS))
def test_selector_that_a_playbook_does_not_read_is_refused(playbook: str) -> None:
    for name in SELECTORS:
        if name in takes(playbook):
            require_known(playbook, {name: "true"})
            continue
        with pytest.raises(
            FleetVirtError, match=f"^{name}: {playbook} .*; (did you mean|select with) v"
        ) as refusal:
            require_known(playbook, {name: "true"})
        # what is advised instead is read
        advised = set(_NAME.findall(str(refusal.value).partition("; ")[2]))
        assert advised <= takes(playbook) | {"virt_hosts"}


def _values(node: t.Any) -> t.Iterator[tuple[str, t.Any]]:
    """Every key of a YAML document with its value."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield str(key), value
            yield from _values(value)
    elif isinstance(node, list):
        for value in node:
            yield from _values(value)


def _read_by_yaml() -> set[str]:
    """What playbooks and roles read, without what they set themselves."""
    read: set[str] = set()
    own: set[str] = set()
    folders = [TOP / "playbooks", *TOP.glob("roles/*/tasks"), *TOP.glob("roles/*/defaults")]
    for path in [path for folder in folders for path in folder.rglob("*.yml")]:
        for key, value in _values(yaml.safe_load(path.read_text(encoding="utf-8"))):
            if key in ("register", "loop_var", "index_var"):
                own.add(str(value))
            elif key == "ansible.builtin.set_fact":
                own |= set(value)
            elif key == "vars" and path.parts[-2] in ("playbooks", "tasks"):
                own |= {str(name) for name in value if not str(name).startswith("libvirt_keys_")}
            texts = value if isinstance(value, list) else [value]
            for text in texts:
                if isinstance(text, str):
                    read |= set(_NAME.findall(text.replace("fleet.virt.virt_", "")))
        read |= set(_NAME.findall(" ".join(_specified(path))))
    return read - own


def _specified(path: Path) -> t.Iterator[str]:
    """The options of a role, of which not all have a default."""
    specs = path.parents[1] / "meta" / "argument_specs.yml"
    if specs.exists():
        document = yaml.safe_load(specs.read_text(encoding="utf-8"))
        for entry in document["argument_specs"].values():
            yield from entry.get("options") or ()


def _read_by_plugins() -> set[str]:
    """Whole names among the texts of plugins, without modules and what is set for guests."""
    found: set[str] = set()
    for folder in ("action", "inventory", "lookup", "plugin_utils"):
        for path in (TOP / "plugins" / folder).rglob("*.py"):
            if path.name in ("_variables.py", "_guests.py", "_silent.py"):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found |= {node.value} if _NAME.fullmatch(node.value) else set()
    modules = {path.stem for path in (TOP / "plugins" / "modules").glob("*.py")}
    modules -= {"virt_fence"}  # its devices are in the variable of the same name
    return found - modules - _registers() - {"virt_unreachable"}


def _registers() -> set[str]:
    """What playbooks register or set for their tasks, which the actions read by these names."""
    found = set()
    for path in (TOP / "playbooks").rglob("*.yml"):
        for key, value in _values(yaml.safe_load(path.read_text(encoding="utf-8"))):
            if key == "register":
                found.add(str(value))
            elif key == "vars":
                found |= {str(name) for name in value}
    return found - KNOWN


def test_the_table_is_what_is_read() -> None:
    read = _read_by_yaml() | _read_by_plugins()
    read |= settings()
    assert read == KNOWN


def test_every_playbook_has_its_variables_checked() -> None:
    playbooks = {path.stem: path for path in (TOP / "playbooks").glob("*.yml")}
    assert set(playbooks) == set(_variables.PLAYBOOKS)
    for name, path in playbooks.items():
        for play in yaml.safe_load(path.read_text(encoding="utf-8")):
            assert f"playbook='{name}')" in play["hosts"]


def _with_show(playbook: str) -> str:
    """A playbook with the tasks that it has in common with another that only reads."""
    shared = TOP / "playbooks" / "tasks" / "show_domains.yml"
    return playbook + (shared.read_text(encoding="utf-8") if shared.name in playbook else "")


def test_what_a_playbook_reads_itself_is_in_its_row() -> None:
    for name in _variables.PLAYBOOKS:
        text = _with_show((TOP / "playbooks" / f"{name}.yml").read_text(encoding="utf-8"))
        read = set(_NAME.findall(text.replace("fleet.virt.virt_", ""))) & KNOWN
        assert read <= takes(name) | _variables.FLEET, name


def test_every_variable_is_documented() -> None:
    paths = [TOP / "README.md", *TOP.glob("docs/docsite/rst/*.rst"), *TOP.glob("roles/*/README.md")]
    paths += [*TOP.glob("playbooks/*.yml"), *TOP.glob("roles/*/meta/argument_specs.yml")]
    paths += [*TOP.glob("plugins/modules/*.py"), *TOP.glob("plugins/inventory/*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    named = set(_NAME.findall(text))
    assert settings() | named >= KNOWN  # virt_init documents those


def test_what_describes_no_vm_loads_no_tables_of_settings() -> None:
    # Ansible compiles a collection anew in every run
    package = "ansible_collections.fleet.virt.plugins"
    reading = ("host_info", "preflight", "query", "show")
    names = [
        f"action.virt_{verb}" for verb in (*reading, "image", "keys", "migrate", "purge", "state")
    ]
    names.append("lookup.virt_hosts")
    program = f"""
import importlib, sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader()
for name in {names!r}:
    importlib.import_module("{package}." + name)
from {package}.plugin_utils.base._variables import require_known
require_known("list", {{"virt_sort": "memory", "virt_become": True, "mine": 1}})
print([name for name in sys.modules if "settings" in name and "fleet" in name])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
