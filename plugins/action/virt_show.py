# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._model import tables
from ansible_collections.fleet.virt.plugins.plugin_utils import _output
from ansible_collections.fleet.virt.plugins.plugin_utils._action import FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils._plain import to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils._registered import registered

_VIEWS = {
    "host_info": "host",
    "images": "images",
    "list": "domains",
    "query": "domains",
    "vms": "vms",
}


class ActionModule(FleetAction):
    _requires_connection = False

    def work(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        options = self.options(
            {
                "view": {"type": "str", "required": True, "choices": list(_VIEWS)},
                "results": {"type": "str", "required": True},
                "addresses": {"type": "str"},
                "earlier": {"type": "dict", "default": {}},
                "names": {"type": "list", "elements": "str", "default": []},
                "output": {"type": "str", "choices": ["table", "json", "yaml"], "default": "table"},
                "output_file": {"type": "path"},
            }
        )
        hypervisors = _collect(task_vars, options["results"], _VIEWS[options["view"]])
        if options["view"] == "vms":
            waited = _collect(task_vars, options["addresses"], "vms")
            hypervisors = _with_addresses(_with_earlier(hypervisors, options["earlier"]), waited)
        check = bool(self._task.check_mode)
        text = _output.render(
            options["output"],
            {"hypervisors": hypervisors},
            lambda: tables.render(options["view"], hypervisors, predicted=check),
        )
        problem = None
        if options["view"] == "images":
            problem = _problem(hypervisors, []) or _damage(hypervisors)
        elif options["view"] != "vms":
            problem = _problem(hypervisors, options["names"])
        diff = bool(self._task.diff)
        delivered = _output.deliver(text, options["output_file"], check=check, diff=diff)
        result = {"hypervisors": hypervisors, "output": text, **delivered}
        if problem:
            result.update(failed=True, msg=problem)
        return result


def _collect(
    task_vars: t.Mapping[str, t.Any], variable: str | None, key: str
) -> list[dict[str, t.Any]]:
    """What each host of the play registered as ``variable``, as plain data."""
    entries: list[dict[str, t.Any]] = []
    for name, answer in registered(task_vars, variable).items():
        found = answer.get(key)
        error = None
        if found is None:
            error = str(answer.get("msg") or "it was not asked: the host is not in this play")
        entry = {"name": name, "answered": found is not None, "error": error, key: found}
        if key == "domains" and found is None:
            entry[key] = []
        entries.append(entry)
    return entries


def _with_earlier(
    hypervisors: list[dict[str, t.Any]], earlier: t.Mapping[str, t.Any]
) -> list[dict[str, t.Any]]:
    """The hypervisors with what they had made in earlier rounds before what they made last."""
    known = to_plain(earlier)
    return [
        {**entry, "answered": True, "vms": [*known[entry["name"]], *(entry["vms"] or ())]}
        if known.get(entry["name"])
        else entry
        for entry in hypervisors
    ]


def _with_addresses(
    hypervisors: list[dict[str, t.Any]], waited: list[dict[str, t.Any]]
) -> list[dict[str, t.Any]]:
    """The hypervisors that had a share, each VM with the address it answered at."""
    addresses = {
        (entry["name"], vm["name"]): vm["address"] for entry in waited for vm in entry["vms"] or ()
    }
    return [
        {
            **entry,
            "vms": [
                {**vm, "address": addresses.get((entry["name"], vm["name"]))} for vm in entry["vms"]
            ],
        }
        for entry in hypervisors
        if entry["answered"]
    ]


def _damage(hypervisors: list[dict[str, t.Any]]) -> str | None:
    damaged = [
        f"{entry['name']}: {image['path']} is not what it was any more, so that every VM on it is"
        f" in doubt (used by {', '.join(image['users']) or 'nobody'})"
        for entry in hypervisors
        for image in entry["images"] or ()
        if image["intact"] is False
    ]
    return "; ".join(damaged) or None


def _problem(hypervisors: list[dict[str, t.Any]], names: t.Sequence[str]) -> str | None:
    silent = [entry["name"] for entry in hypervisors if not entry["answered"]]
    if len(silent) == len(hypervisors):
        reasons = "; ".join(f"{entry['name']}: {entry['error']}" for entry in hypervisors)
        return f"no hypervisor answered: {reasons}"
    there = {domain["name"] for entry in hypervisors for domain in entry.get("domains") or ()}
    unknown = [name for name in names if name not in there]
    if unknown:
        which = ", ".join(unknown)
        if silent:
            return (
                f"not found on any hypervisor that answered: {which}"
                f" (it may be on one of those that did not: {', '.join(silent)})"
            )
        return f"not found on any hypervisor: {which}"
    return None
