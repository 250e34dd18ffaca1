# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import durations
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mapping,
    as_mappings,
    as_number,
    as_text,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.tables import clean
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.facts import CardEntry
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import repairs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.facts import UnmanagedVm
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    envelope,
    outcomes,
    proofs,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.marks import Marked
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
    named as migration_names,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    options as migration_options,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    report as migration_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.facts import (
    Based,
    Compared,
    MigrateLook,
    Moved,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.options import (
    ARGUMENTS,
    MigrateWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._units import MIB
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
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
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _images
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _placing
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _moving


class VirtMigrateOptions(Connected):
    vms: list[dict[str, object]]
    state: str
    source: str | None
    keep_volumes: bool
    eject_media: bool
    parallel: int
    bandwidth: int | None
    max_downtime: int | None
    auto_converge: bool
    tunnelled: bool
    parallel_connections: int | None
    seconds_per_gib: int
    on_timeout: str
    base_pool: str


class ActionModule(StagedAction[MigrateWork]):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    WORK = MigrateWork
    CONTROLLER = ("names", "decide", "report")

    def decided(self, work: MigrateWork) -> t.Mapping[str, object]:
        options = self.options(VirtMigrateOptions, ARGUMENTS)
        if work.stage == "names":
            return {"changed": False, "named": self._named()}
        stage = self._decide if work.stage == "decide" else self._report
        return stage(options, work, self._values)

    def asked(self, work: MigrateWork, task_vars: Values) -> Answer:
        path = str(Variables(task_vars, self._templar).get("virt_base_path", work.base_path))
        work = dataclasses.replace(work, base_path=path)
        if work.stage == "act" and not self.check:
            work = dataclasses.replace(work, places=self._places())
        if work.stage == "act":
            host = str(task_vars["inventory_hostname"])
            cards = [card["name"] for card in self._cards().get(host, ()) if not card["problem"]]
            unmanaged = [vm["uuid"] for vm in self._unmanaged().get(host, ()) if not vm["problem"]]
            work = dataclasses.replace(work, cards=cards, unmanaged=unmanaged)
        if work.stage == "compare":
            named = self._named()[str(task_vars["inventory_hostname"])]
            work = dataclasses.replace(work, named=migration_names.plain(named))
        given = {**self.given, envelope.OPTION: envelope.plain(work)}
        if work.stage == "bases":
            return self._bases(self.options(VirtMigrateOptions, ARGUMENTS), work, task_vars)
        if self.check and work.stage == "act":
            given["vms"] = self._with_incoming(as_mappings(to_plain(given["vms"])))
        return self._on_source(given, task_vars, moving=work.stage == "act")

    def alone(self, task_vars: Values) -> Answer:
        return self._on_source(self.given, task_vars, moving=True)

    def _on_source(self, given: Answer, task_vars: Values, *, moving: bool) -> Answer:
        given.setdefault("source", str(task_vars["inventory_hostname"]))
        return self._move(given, task_vars) if moving else self.module(task_vars, given)

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

    def _bases(self, options: VirtMigrateOptions, work: MigrateWork, task_vars: Values) -> Answer:
        host = str(task_vars["inventory_hostname"])
        present: list[str] = []
        needed: collections.Counter[str] = collections.Counter()
        changed = False
        diffs: list[object] = []
        bases = as_mapping(self.decision("virt_decision")["bases"]).get(host)
        for base in as_mappings(bases):
            volume = str(base["volume"])
            word = "looking for" if self.check else "ensuring"
            _output.say(f"{host}: {word} base image {volume}")
            source = migration_bases.as_source(volume)
            arguments = {
                "uri": options["uri"],
                "timeout": options["timeout"],
                "base_pool": options["base_pool"],
                "base_path": work.base_path,
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

    def _decide(self, options: VirtMigrateOptions, work: MigrateWork, task_vars: Values) -> Answer:
        migration_options.options(options)  # before a hypervisor is marked in vain
        answers = self.answers("virt_look", MigrateLook, "look")
        compared = self.answers("virt_compared", Compared, "compare")
        if options["state"] != "repaired":
            migration_names.with_lacking(answers, self._named(), compared)
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
            decision = migration_decision.repair(work.names, answered, silent, lost)
        else:
            hosts = _placing.hosts_of(answers, limits, lost)
            if work.evacuated:
                decision = migration_evacuation.leave(
                    *(work.evacuated, answered, hosts, silent, policy),
                    relax=work.relax,
                    partly=work.partly,
                )
            elif work.home:
                decision = migration_evacuation.come_back(
                    work.home, answered, hosts, silent, policy, partly=work.partly
                )
            else:
                wanted = as_text(variables.get("vm_host", variables.get("virt_host")))
                decision = migration_decision.decide(
                    work.names, wanted, answered, hosts, silent, policy, work.groups
                )
        lacking = migration_bases.lacking(
            decision.shares, answered, media=not options["eject_media"]
        )
        # the mark is removed before they arrive, which check mode does not do
        marked = {"marked": True} if work.home else {}
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
        for host, entries in [*self._cards().items(), *self._unmanaged().items()]:
            if any(entry["problem"] is None for entry in entries):
                shares.setdefault(host, [])
        bases = {
            to: [
                {"volume": volume, "peers": [_peers.address(name, task_vars) for name in have]}
                for volume, have in sorted(wanted.items())
            ]
            for to, wanted in lacking.items()
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
            "notes": decision.notes,
        }

    def _named(self) -> migration_names.Named:
        """What each hypervisor is to be asked for, of what VMs name that may move there."""
        variables = Variables(self._values, self._templar)
        host = as_text(variables.get("vm_host", variables.get("virt_host")))
        return migration_names.to_compare(self.answers("virt_look", MigrateLook, "look"), host)

    @staticmethod
    def _destination(name: str, answers: t.Mapping[str, MigrateLook], task_vars: Values) -> Answer:
        destination: Answer = {"name": name, "address": _peers.address(name, task_vars)}
        destination["expired"] = answers[name].get("expired") or []
        destination["missing_certificates"] = answers[name].get("missing_certificates") or []
        host = answers[name].get("host")
        bridges = None if host is None else host.get("bridges")
        return destination if bridges is None else {**destination, "bridges": bridges}

    def _report(self, options: VirtMigrateOptions, work: MigrateWork, _task_vars: Values) -> Answer:
        decision = self.decision("virt_decision")
        problems = [*self._unmarked(work), *texts(decision["problems"])]
        shares = {host: as_mappings(vms) for host, vms in as_mapping(decision["shares"]).items()}
        moved = self.answers("virt_moved", Moved, "act")
        names = {host: [str(vm["name"]) for vm in vms] for host, vms in shares.items()}
        self.happened(outcomes.outcomes(names, moved))
        text, failures = migration_report.report(
            texts(decision["settled"]),
            shares,
            moved,
            problems,
            cards=self._cards(),
            unmanaged=self._unmanaged(),
            state=options["state"],
            check=self.check,
        )
        notes = "".join(f"{clean(note)}\n" for note in texts(decision["notes"]))
        return self.shown(text + notes + self._marked(work), failures)

    def _cards(self) -> dict[str, t.Sequence[CardEntry]]:
        """The cards on each hypervisor that are not as they should be; read for repairs only."""
        answers = self.answers("virt_look", MigrateLook, "look")
        return {host: cards for host, answer in answers.items() if (cards := answer.get("cards"))}

    def _unmanaged(self) -> dict[str, t.Sequence[UnmanagedVm]]:
        """The VMs that each hypervisor is to have its cell manage again; read for repairs only."""
        answers = self.answers("virt_look", MigrateLook, "look")
        return repairs.assigned({host: one.get("unmanaged") or () for host, one in answers.items()})

    def _places(self) -> dict[str, str]:
        """The machine UUID of each hypervisor, and when it was read."""
        seen = {
            name: host
            for name, answer in self.answers("virt_look", MigrateLook, "look").items()
            if (host := answer.get("host")) is not None
        }
        return {
            name: f"{host.get('uuid')}.{at}"
            for name, host in seen.items()
            if (at := host.get("at"))
        }

    def _with_incoming(self, vms: list[t.Mapping[str, object]]) -> list[Answer]:
        """The VMs, their destinations with the base images that check mode would transfer there."""
        predicted = self.answers("virt_based", Based, "bases")
        with_incoming = []
        for vm in vms:
            destination = as_mapping(vm.get("destination"))
            answer = predicted.get(str(destination.get("name")), Based())
            incoming = {
                "coming": answer.get("bases") or [],
                "needed": answer.get("needed") or {},
            }
            with_incoming.append({**vm, "destination": {**destination, **incoming}})
        return with_incoming

    def _marks(self, work: MigrateWork) -> tuple[str, dict[str, Marked]]:
        """The hypervisor that is marked or was, empty if none is, and what marking it answered."""
        answers = self.answers("virt_marked", Marked, "act", verb="virt_maintenance")
        return work.evacuated or work.home, answers

    def _marked(self, work: MigrateWork) -> str:
        """Say that the hypervisor is in maintenance now, or no longer, whatever happened to its
        VMs."""
        host, answers = self._marks(work)
        mark = answers.get(host, Marked()).get("maintenance")
        check = self.check
        return "" if mark is None else migration_report.mark(host, present=bool(mark), check=check)

    def _unmarked(self, work: MigrateWork) -> list[str]:
        """Messages for a maintenance mark that could not be set or removed."""
        host, answers = self._marks(work)
        done = "set" if work.evacuated else "removed"
        return [
            f"{name}: its maintenance mark could not be {done}, so no VM was moved:"
            f" {outcomes.error_message(answers.get(name) or {})}"
            for name in outcomes.without_answer([host] if host else [], answers, "maintenance")
        ] + [f"{host}: {told}" for told in [answers.get(host, Marked()).get("cell")] if told]


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
