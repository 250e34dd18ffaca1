# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sanitising of hypervisors' results, so that they are data and control nothing here.

To Ansible a module's result is more than that. Its ``ansible_facts`` become variables of the play,
other keys add hosts, groups and statistics. No module of this collection returns such keys, so a
result that has them is not from that module.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_mapping
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core._flood import MOST_SAID
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values, to_plain

_LONGEST_TEXT = 20_000  # characters of a text that is shown
_MOST_TEXTS = 20
# Facts that Ansible itself adds to a result, after removing them from the host's output
_INTERPRETER = "discovered_interpreter_"
_GOVERNING = frozenset(
    {
        "add_group",
        "add_host",
        "ansible_module_results",
        "ansible_stats",
        "include",
        "include_args",
        "results",
        "unreachable",
    }
)
# Prefixes of the collection's own variables; defined here, since every action loads this file, and
# the file with all their names loads much more
PREFIXES = ("vm_", "virt_", "libvirt_keys_")
# With the prefix of a role whose variables are read on the controller
_OURS = (*PREFIXES, "images_")


def cleaned(answer: Mapping[str, object]) -> dict[str, object]:
    """The result without keys that control Ansible, its texts cut to a length for display."""
    clean = {
        str(key): value
        for key, value in answer.items()
        if key not in _GOVERNING
        and (key == "_ansible_parsed" or not str(key).startswith("_ansible_"))
    }
    facts = clean.pop("ansible_facts", None)
    if isinstance(facts, Mapping):
        own = {key: value for key, value in facts.items() if str(key).startswith(_INTERPRETER)}
        clean.update({"ansible_facts": own} if own else {})
    for key in ("warnings", "deprecations"):
        texts = clean.pop(key, None)
        if isinstance(texts, (list, tuple)) and texts:
            clean[key] = [_cut(text) for text in texts[:_MOST_TEXTS]]
    if "msg" in clean:
        clean["msg"] = _cut(clean["msg"])
    if not _is_diff(clean.get("diff")):
        clean.pop("diff")
    for key in ("changed", "failed"):
        if key in clean:
            clean[key] = bool(clean[key])
    return clean


def facts(answer: Mapping[str, object]) -> dict[str, object]:
    """The facts of a result as plain data; empty if there are none."""
    return {**as_mapping(to_plain(answer.get("ansible_facts")))}


def _cut(text: object) -> object:
    if isinstance(text, str) and len(text) > _LONGEST_TEXT:
        return f"{text[:_LONGEST_TEXT]}... ({len(text)} characters)"
    return text


def _is_diff(value: object) -> bool:
    """Whether Ansible can show it."""
    several = value if isinstance(value, list) else [value] if value is not None else []
    return value is None or all(isinstance(part, Mapping) for part in several)


def require_small(output: str) -> None:
    """Raise FleetVirtError for more output than any module returns."""
    if len(output) > MOST_SAID:
        raise FleetVirtError(
            f"its response of {len(output)} characters was rejected (limit: {MOST_SAID});"
            " find out what responds there"
        )


def require_own(host: object, variables: Values) -> None:
    """Raise FleetVirtError if facts of ``host`` have set variables of this collection.

    Facts are results from the host, from any module of any collection; they override the
    inventory's variables. ``variables`` are those of the host.
    """
    facts = variables.get("ansible_facts")
    if not isinstance(facts, Mapping):
        return
    imposed = sorted(
        name
        for name in map(str, facts)
        # a fact "ansible_x" is listed there as "x" too, without a variable "x"
        if name.startswith(_OURS) and name in variables and variables[name] == facts[name]
    )
    if imposed:
        raise FleetVirtError(
            f"{host}: its facts set {', '.join(imposed)[:_LONGEST_TEXT]}. Only the play, the"
            " inventory and extra variables may set these, never a hypervisor's response. Find out"
            " what returns these facts there; --flush-cache removes them from a fact cache"
        )
