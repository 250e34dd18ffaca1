# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._model import tables
from ansible_collections.fleet.virt.plugins.plugin_utils import _output
from ansible_collections.fleet.virt.plugins.plugin_utils._plain import to_plain

_VIEWS = {"host_info": "host", "list": "domains", "query": "domains", "vms": "vms"}


class ActionModule(ActionBase):
    _requires_connection = False

    if t.TYPE_CHECKING:  # ansible-core states no types for it
        validate_argument_spec: t.Any

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(
            argument_spec={
                "uri": {"type": "str", "default": "qemu:///system"},
                "timeout": {"type": "float", "default": 10.0},
                "view": {"type": "str", "required": True, "choices": list(_VIEWS)},
                "results": {"type": "str", "required": True},
                "addresses": {"type": "str"},
                "earlier": {"type": "dict", "default": {}},
                "names": {"type": "list", "elements": "str", "default": []},
                "output": {"type": "str", "choices": ["table", "json", "yaml"], "default": "table"},
                "output_file": {"type": "path"},
            }
        )
        hypervisors = _collect(task_vars or {}, options["results"], _VIEWS[options["view"]])
        if options["view"] == "vms":
            waited = _collect(task_vars or {}, options["addresses"] or "", "vms")
            hypervisors = _with_addresses(_with_earlier(hypervisors, options["earlier"]), waited)
        check = bool(self._task.check_mode)
        text = _output.render(
            options["output"],
            {"hypervisors": hypervisors},
            lambda: tables.render(options["view"], hypervisors, predicted=check),
        )
        result.update(hypervisors=hypervisors, output=text)
        problem = None
        if options["view"] != "vms":
            problem = _problem(hypervisors, options["names"])
        try:
            path = options["output_file"]
            result.update(_output.deliver(text, path, check=check, diff=bool(self._task.diff)))
        except FleetVirtError as error:
            raise AnsibleActionFail(str(error)) from None
        if problem:
            result.update(failed=True, msg=problem)
        return result


def _collect(task_vars: t.Mapping[str, t.Any], variable: str, key: str) -> list[dict[str, t.Any]]:
    """What each host of the play registered as ``variable``, as plain data."""
    hostvars = task_vars["hostvars"]
    entries: list[dict[str, t.Any]] = []
    for name in task_vars["ansible_play_hosts_all"]:
        registered = to_plain(hostvars[name].get(variable) or {})
        found = registered.get(key)
        error = None
        if found is None:
            error = str(registered.get("msg") or "it was not asked: the host is not in this play")
        entry = {"name": str(name), "answered": found is not None, "error": error, key: found}
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
