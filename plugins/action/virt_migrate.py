# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import collections
import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import durations
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mapping,
    as_mappings,
    as_number,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import outcomes, proofs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    bases as migration_bases,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    decide as migration_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    evacuation as migration_evacuation,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    options as migration_options,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    report as migration_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.facts import (
    MigrateLook,
    Moved,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.options import (
    ARGUMENTS,
    INTERNAL,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._units import MIB
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import (
    LIMITS,
    Variables,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    texts,
    to_plain,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import of_host, registered
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _images
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _placing
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _moving


class Base(t.TypedDict):
    volume: str
    peers: list[str]


class VirtMigrateOptions(Connected):
    vms: list[dict[str, object]]
    state: str
    source: str | None
    keep_volumes: bool
    parallel: int
    bandwidth: int | None
    max_downtime: int | None
    auto_converge: bool
    tunnelled: bool
    parallel_connections: int | None
    seconds_per_gib: int
    on_timeout: str
    base_pool: str
    _stage: str
    _bases: list[Base]
    _names: list[str]
    _problems: list[str]
    _host: str | None
    _evacuated: str | None
    _home: str | None
    _base_path: str
    _results: str | None
    _shares: dict[str, object] | None
    _marked: str | None


class ActionModule(FleetAction):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        given = self.given
        stage = str(given.get("_stage", "all"))
        works = {"decide": self._decide, "bases": self._bases, "report": self._report}
        if stage in works:
            return works[stage](self.options(VirtMigrateOptions, ARGUMENTS, INTERNAL), task_vars)
        given.setdefault("source", str(task_vars["inventory_hostname"]))
        if self.check and given.get("_results"):
            vms = as_mappings(to_plain(given["vms"]))
            given["vms"] = _with_incoming(vms, str(given["_results"]), task_vars)
        return self.module(task_vars, given) if stage != "all" else self._move(given, task_vars)

    def _move(self, given: Answer, task_vars: Values) -> Answer:
        """Run the module and show its progress; returns its result."""
        if self.check:
            return self.module(task_vars, given)
        vms = as_mappings(to_plain(given.get("vms")))
        host = str(task_vars["inventory_hostname"])
        with _moving.Moving(host, [str(vm.get("name")) for vm in vms], task_vars) as moving:
            answer = self.module(task_vars, given)
        moving.ended(answer)
        return answer

    def _bases(self, options: VirtMigrateOptions, task_vars: Values) -> Answer:
        host = str(task_vars["inventory_hostname"])
        present: list[str] = []
        needed: collections.Counter[str] = collections.Counter()
        changed = False
        diffs: list[object] = []
        for base in options["_bases"]:
            volume = base["volume"]
            word = "looking for" if self.check else "ensuring"
            _output.say(f"{host}: {word} base image {volume}")
            source = migration_bases.as_source(volume)
            arguments = {
                "uri": options["uri"],
                "timeout": options["timeout"],
                "base_pool": options["base_pool"],
                "base_path": options["_base_path"],
                "peers": base["peers"],
                "image": source["name"],
                "_source": source,
            }
            answer = _images.run_module(self, task_vars, arguments)
            steps = texts(answer.get("steps"))
            if answer.get("failed") or answer.get("missing"):
                why = answer.get("msg") or answer.get("alone") or "; ".join(steps)
                _output.say(f"{host}: base image {volume} could not be transferred: {why}")
                continue
            needed.update(
                {k: as_number(v) or 0 for k, v in as_mapping(answer.get("needed")).items()}
            )
            present.append(str(as_mapping(answer.get("image")).get("path")))
            changed = changed or bool(answer.get("changed"))
            diffs += [answer["diff"]] if answer.get("diff") else []
            _output.say(f"{host}: {migration_bases.outcome(volume, steps, check=self.check)}")
        return {"changed": changed, "bases": present, "needed": dict(needed), "diff": diffs}

    def _decide(self, options: VirtMigrateOptions, task_vars: Values) -> Answer:
        migration_options.options(options)  # before a hypervisor is marked in vain
        answers = registered(task_vars, options["_results"], MigrateLook)
        lost = self.lost()
        expected = self.expected()
        problem = proofs.unknown_lost(lost, list(dict.fromkeys([*answers, *expected])))
        if problem:
            raise PlanRefused(problem)
        answered = {
            name: answer for name, answer in answers.items() if answer.get("host") is not None
        }
        silent = proofs.silences(answers, answered, expected, lost)
        limits = {name: _limits(_peers.of_host(name, task_vars)) for name in answers}
        variables = Variables(task_vars, self._templar)
        policy = placement.Policy(
            pool_paths=variables.pool_paths(), base_pool=variables.base_pool()
        )
        if options["state"] == "repaired":
            decision = migration_decision.repair(options["_names"], answered, silent, lost)
        else:
            hosts = _placing.hosts_of(answers, limits, lost)
            if options["_evacuated"]:
                decision = migration_evacuation.leave(
                    options["_evacuated"], answered, hosts, silent, policy
                )
            elif options["_home"]:
                decision = migration_evacuation.come_back(
                    options["_home"], answered, hosts, silent, policy
                )
            else:
                decision = migration_decision.decide(
                    options["_names"], options["_host"], answered, hosts, silent, policy
                )
        # the mark is removed before they arrive, which check mode does not do
        marked = {"marked": True} if options["_home"] else {}
        shares = {
            source: [
                {
                    "name": name,
                    "destination": {**self._destination(to, answers, task_vars), **marked},
                }
                for name, to in moves
            ]
            for source, moves in decision.shares.items()
        }
        for to, moves in decision.left.items():
            shares.setdefault(to, []).extend(
                {
                    "name": name,
                    "destination": self._destination(to, answers, task_vars),
                    "lost_source": {"name": gone, "addresses": _peers.addresses(gone, task_vars)},
                }
                for name, gone in moves
            )
        bases = {
            to: [
                {"volume": volume, "peers": [_peers.address(name, task_vars) for name in have]}
                for volume, have in sorted(wanted.items())
            ]
            for to, wanted in migration_bases.lacking(decision.shares, answered).items()
        }
        return {
            "changed": False,
            "shares": shares,
            "limits": {
                host: _limit(host, [str(vm["name"]) for vm in share], answers, options)
                for host, share in shares.items()
            },
            "bases": bases,
            "settled": sorted(decision.settled),
            "problems": decision.problems,
        }

    @staticmethod
    def _destination(name: str, answers: t.Mapping[str, MigrateLook], task_vars: Values) -> Answer:
        destination: Answer = {"name": name, "address": _peers.address(name, task_vars)}
        destination["expired"] = answers[name].get("expired") or []
        destination["missing_certificates"] = answers[name].get("missing_certificates") or []
        host = answers[name].get("host")
        bridges = None if host is None else host.get("bridges")
        return destination if bridges is None else {**destination, "bridges": bridges}

    def _report(self, options: VirtMigrateOptions, task_vars: Values) -> Answer:
        problems = [*_unmarked(options, task_vars), *options["_problems"]]
        if options["_shares"] is None:
            raise AnsibleActionFail("_shares: missing; give what _stage: decide returned as shares")
        text, failures = migration_report.report(
            options["_names"],
            {host: as_mappings(vms) for host, vms in options["_shares"].items()},
            registered(task_vars, options["_results"], Moved),
            problems,
            state=options["state"],
            check=self.check,
        )
        return self.shown(text + _marked(options, task_vars, check=self.check), failures)


def _limits(values: Values) -> Answer:
    """The settings of a hypervisor that placement looks at."""
    limits = {key: to_plain(values.get(key)) for key in LIMITS}
    return {key: value for key, value in limits.items() if value is not None}


def _limit(
    source: str,
    names: t.Sequence[str],
    answers: t.Mapping[str, MigrateLook],
    options: VirtMigrateOptions,
) -> int:
    """Seconds that these moves may take; a half-moved VM is not at its source."""
    sizes = {
        vm["name"]: vm["memory_mib"] * MIB + sum(disk["bytes"] for disk in vm["disks"])
        for vm in answers[source].get("vms") or ()
    }
    return durations.moves(
        [sizes.get(name, 0) for name in names], options["seconds_per_gib"], options["parallel"]
    )


def _with_incoming(
    vms: list[t.Mapping[str, object]], variable: str, task_vars: Values
) -> list[Answer]:
    """The VMs, their destinations with the base images that check mode would transfer there."""
    with_incoming = []
    for vm in vms:
        destination = as_mapping(vm.get("destination"))
        predicted = of_host(task_vars, str(destination.get("name")), variable)
        incoming = {
            "coming": predicted.get("bases") or [],
            "needed": predicted.get("needed") or {},
        }
        with_incoming.append({**vm, "destination": {**destination, **incoming}})
    return with_incoming


def _marked(options: VirtMigrateOptions, task_vars: Values, *, check: bool) -> str:
    """Say that the hypervisor is in maintenance now, or no longer, whatever happened to its VMs."""
    host = options["_evacuated"] or options["_home"]
    if not options["_marked"] or not host:
        return ""
    mark = (registered(task_vars, options["_marked"]).get(host) or {}).get("maintenance")
    return "" if mark is None else migration_report.mark(host, present=bool(mark), check=check)


def _unmarked(options: VirtMigrateOptions, task_vars: Values) -> list[str]:
    """Messages for a maintenance mark that could not be set or removed."""
    host = options["_evacuated"] or options["_home"]
    if not options["_marked"] or not host:
        return []
    answers = registered(task_vars, options["_marked"])
    done = "set" if options["_evacuated"] else "removed"
    return [
        f"{name}: its maintenance mark could not be {done}, so no VM was moved:"
        f" {outcomes.error_message(answers.get(name) or {})}"
        for name in outcomes.without_answer([host], answers, "maintenance")
    ]
