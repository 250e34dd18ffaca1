# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A hypervisor's answer is data: it governs nothing on the controller.

To Ansible a module's result is more than that. Its ``ansible_facts`` become variables of the play,
other keys make hosts, groups and statistics. No module of this collection returns such keys, so
whoever does is not that module.

This file is private to the collection.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._pure.base.json_values import as_mapping
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values, to_plain

MOST_SAID = 64 * 1024 * 1024  # characters of an answer; a thousand VMs need a tenth
_LONGEST_TEXT = 20_000  # characters of what is shown
_MOST_TEXTS = 20
# What Ansible itself adds to an answer, after it has taken it out of what came from the host
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
# What the collection's own variables begin with; here, since every action is loaded with this file,
# and what knows all their names loads much more
PREFIXES = ("vm_", "virt_", "libvirt_keys_")
# Of roles whose names begin otherwise: what they take from the controller
_OURS = (*PREFIXES, "images_")


def cleaned(answer: Mapping[str, object]) -> dict[str, object]:
    """The answer without what would be more than data, its texts cut to what can be shown."""
    kept = {
        str(key): value
        for key, value in answer.items()
        if key not in _GOVERNING
        and (key == "_ansible_parsed" or not str(key).startswith("_ansible_"))
    }
    facts = kept.pop("ansible_facts", None)
    if isinstance(facts, Mapping):
        own = {key: value for key, value in facts.items() if str(key).startswith(_INTERPRETER)}
        kept.update({"ansible_facts": own} if own else {})
    for key in ("warnings", "deprecations"):
        texts = kept.pop(key, None)
        if isinstance(texts, (list, tuple)) and texts:
            kept[key] = [_cut(text) for text in texts[:_MOST_TEXTS]]
    if "msg" in kept:
        kept["msg"] = _cut(kept["msg"])
    if not _is_diff(kept.get("diff")):
        kept.pop("diff")
    for key in ("changed", "failed"):
        if key in kept:
            kept[key] = bool(kept[key])
    return kept


def facts(answer: Mapping[str, object]) -> dict[str, object]:
    """The facts of an answer as plain data; empty if there are none."""
    return {**as_mapping(to_plain(answer.get("ansible_facts")))}


def _cut(text: object) -> object:
    if isinstance(text, str) and len(text) > _LONGEST_TEXT:
        return f"{text[:_LONGEST_TEXT]}... ({len(text)} characters)"
    return text


def _is_diff(value: object) -> bool:
    """Whether Ansible can show it."""
    several = value if isinstance(value, list) else [value] if value is not None else []
    return value is None or all(isinstance(one, Mapping) for one in several)


def require_small(host: object, said: str) -> None:
    """Raise FleetVirtError for more than a module ever says."""
    if len(said) > MOST_SAID:
        raise FleetVirtError(
            f"{host}: its answer has {len(said)} characters, of which none is read (limit:"
            f" {MOST_SAID}); look at what answers there"
        )


def require_own(host: object, variables: Values) -> None:
    """Raise FleetVirtError if facts of ``host`` have set variables of this collection.

    Facts are answers of the host, to whatever module of whatever collection; they go before the
    inventory's variables. ``variables`` are those of the host.
    """
    facts = variables.get("ansible_facts")
    if not isinstance(facts, Mapping):
        return
    imposed = sorted(
        name
        for name in map(str, facts)
        # a fact "ansible_x" is found as "x" there, too, and is no variable "x"
        if name.startswith(_OURS) and name in variables and variables[name] == facts[name]
    )
    if imposed:
        raise FleetVirtError(
            f"{host}: its facts set {', '.join(imposed)[:_LONGEST_TEXT]}, which is for the play,"
            " the inventory and extra variables alone: what a hypervisor answers decides nothing"
            " here. Find out what answers so there; of a fact cache, --flush-cache removes it"
        )
