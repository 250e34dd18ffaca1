# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random
import time
import typing as t
import uuid

from ansible.utils.display import Display
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import durations, tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.arguments import Spec
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mapping,
    as_mappings,
    as_text,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import show, to_boolean
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.results import GENERATED
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope, outcomes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import Work
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import fleet_seen
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_neighbours import (
    own_addresses,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import demand, unlike
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.facts import (
    Placing,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import (
    Claims,
    Made,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.work import PlaceWork
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import BaseName
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    texts,
    to_plain,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import shares as shares_of
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import hosts, registered
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch, _cloned, _placing

# rounds lost to other controllers before giving up on a VM
_ATTEMPTS = 6
_INIT = "virt_init"
_NOT_TRIED = "not tried, because the request as a whole failed"
# What virt_restart may be
RESTART = ("never", "when_required")
_ARGUMENTS: Spec = {
    "vms": {"type": "list", "elements": "dict"},
    "results": {"type": "str", "required": True},
    "expected": {"type": "list", "elements": "str"},
    "lost": {"type": "list", "elements": "str"},
}


class VirtPlaceOptions(Connected):
    vms: list[dict[str, object]] | None
    results: str
    expected: list[str] | None
    lost: list[str] | None


class ActionModule(StagedAction[PlaceWork]):
    WORK = PlaceWork
    CONTROLLER = ("place", "confirm")
    _requires_connection = False

    def alone(self, task_vars: Values) -> Answer:
        return self._batch(PlaceWork(), task_vars).place()

    def decided(self, work: PlaceWork) -> t.Mapping[str, object]:
        batch = self._batch(work, self._values)
        return batch.confirm() if work.stage == "confirm" else batch.place()

    def _batch(self, work: PlaceWork, task_vars: Values) -> _PlacedBatch:
        options = self.options(VirtPlaceOptions, _ARGUMENTS)
        restart = self._templar.template(task_vars.get("virt_restart", RESTART[0]))
        if restart not in RESTART:
            raise PlanRefused(f"virt_restart: {show(restart)} is not one of {', '.join(RESTART)}")
        return _PlacedBatch(self, options, work, task_vars)


class _PlacedBatch:
    """One call: the batch, the hypervisors' facts, and the decisions from both."""

    def __init__(
        self,
        action: StagedAction[PlaceWork],
        options: VirtPlaceOptions,
        work: PlaceWork,
        task_vars: Values,
    ) -> None:
        self.action = action
        self.round = work.round
        self.check = action.check
        self.task_vars = task_vars
        self.names = hosts(task_vars)
        self.lost = action.lost(options["lost"])
        self.expected = action.expected(options["expected"])
        self.variables = _batch.Variables(task_vars, action._templar)
        self.answers: dict[str, Placing] = {}
        reading = "read" if work.stage == "confirm" else "look"
        self.looked = (
            action.answers(options["results"], Claims, reading, work.round, _INIT)
            if action.staged
            else registered(task_vars, options["results"], Claims)
        )
        self.answers.update(self.looked)
        self.limits = {name: _placing.limits_of(name, task_vars) for name in self.names}
        self.policy = placement.Policy(
            pool_paths=self.variables.pool_paths(), base_pool=self.variables.base_pool()
        )
        # what the round before this one left to place, and decided
        self.earlier: Answer = {}
        self.only: list[str] | None = None
        if work.round:
            self.earlier = action.decision("virt_confirmed", "confirm", work.round - 1)
            self.only = texts(self.earlier["pending"])
        self.cloned = _cloned.of(action)
        self.options = {**options, **({"vms": self.cloned["vms"]} if self.cloned else {})}
        vms = _batch.requested(self.options, self.variables, self.only)
        chosen = _batch.defaults(self.variables)
        self.domains = _batch.validated(
            vms, chosen, _batch.written_as(self.options, self.variables)
        )
        self.has_fleet_cpu = chosen.fleet_cpu is not None
        _peers.refuse_hypervisors([domain.name for domain in self.domains], task_vars)
        local = _batch.controller_images(self.domains, self.variables, check=self.check)
        self.images = {name: image.facts for name, image in local.items()}
        self.images.update(_batch.known_images(as_mapping(self.cloned.get("images"))))

    def place(self) -> Answer:
        """Place each VM; fails, with every reason, when one of them fits nowhere."""
        if not self.round:
            _batch.warn_of_ignored(self.options, self.variables)
        unproven = self._unproven()
        if unproven:
            raise PlanRefused(unproven)
        if self.round:
            # others were faster, perhaps in step with us: controllers have no order
            time.sleep(random.uniform(0.2, 1.5) * self.round)  # noqa: S311
        seen = _placing.hosts_of(self.answers, self.limits, self.lost)
        leftovers = as_text(as_mapping(self.cloned.get("leftovers")).get("carried"))
        placements = _placing.place(self.domains, self.images, seen, self.policy, leftovers)
        every = Display().verbosity > 0
        rows = [{**placed.as_dict(), "why": placed.why} for placed in placements]
        table = tables.placements(rows, every=every)
        if not placements:
            table = "nothing to do: virt_vms is empty"
        _output.say(table)
        nowhere = [placed for placed in placements if placed.host is None and not placed.existing]
        if nowhere:
            raise PlanRefused("\n".join(placement.describe(placed) for placed in nowhere))
        own = own_addresses()
        for remark in _placing.require_unique(self.domains, placements, self.answers, own):
            _output.warn(remark)
        unlike_cpus = unlike.find(self.domains, placements, seen, fleet_cpu=self.has_fleet_cpu)
        for remark in unlike.told(unlike_cpus):
            _output.warn(remark)
        up_to_date = self._up_to_date(placements)
        done = {entry["name"] for entries in up_to_date.values() for entry in entries}
        shares: dict[str, list[str]] = {}
        requested: dict[str, list[str]] = {}
        copies: dict[str, list[str]] = {}
        for domain, placed in zip(self.domains, placements):
            host = placed.host or placed.existing[0]
            requested.setdefault(host, []).append(domain.name)
            if domain.name in done:
                continue
            shares.setdefault(host, []).append(domain.name)
            vms = _placing.vms_of(self.answers[host]) if placed.existing else []
            vm = next((vm for vm in vms if vm["name"] == domain.name), None)
            wanted = _batch.images_of(domain, vm)
            for name in sorted(wanted & set(self.images)):
                if self.images[name].pending:
                    continue  # in check mode: it is yet to be made
                absent = host not in self._holders(name)
                if absent and name not in copies.setdefault(host, []):
                    copies[host].append(name)
        return {
            "changed": False,
            "placements": [placed.as_dict() for placed in placements],
            "shares": shares,
            "images": copies,
            "peers": {
                name: [_peers.address(host, self.task_vars) for host in self._holders(name)]
                for name in sorted({name for names in copies.values() for name in names})
            },
            "limits": {host: self._limit(names) for host, names in shares.items()},
            "transfers": {
                name: durations.transfer(image.virtual_bytes) for name, image in self.images.items()
            },
            "waits": self._waits(requested),
            "seen": self._seen() if len(shares) == 1 and not self.check else [],
            "machine": _placing.common_machine(self.answers),
            "run": GENERATED if self.check else str(uuid.uuid4()),
            "refresh_inventory": self._refreshes(),
            "creates": bool(self._placed_before().get("creates"))
            or any(not placed.existing for placed in placements),
            "attempt": self.round,
            # The results of all, if the hypervisors finish what they claim
            "settled": up_to_date,
            "requested": requested,
            "done": up_to_date,
            "refused": {},
            "problems": [],
        }

    def _placed_before(self) -> Answer:
        """How the round before this one placed the VMs."""
        return self.action.decision("virt_placed", "place", self.round - 1) if self.round else {}

    def _refreshes(self) -> bool:
        """Whether the inventory is to be refreshed."""
        try:
            value = self.task_vars.get("virt_refresh_inventory", True)
            return to_boolean(to_plain(self.action._templar.template(value)))
        except ValueError as error:
            raise PlanRefused(f"virt_refresh_inventory: {error}") from None

    def _up_to_date(self, placements: t.Sequence[placement.Placement]) -> dict[str, list[Answer]]:
        """The entries of VMs that exist and are up to date, by hypervisor."""
        entries_read = {
            (host, entry["name"]): entry
            for host, answer in self.looked.items()
            for entry in answer.get("vms") or ()
        }
        up_to_date: dict[str, list[Answer]] = {}
        for domain, placed in zip(self.domains, placements):
            if not placed.existing:
                continue
            host = placed.existing[0]
            _sizes, problems = demand.disk_sizes(domain, self.images)
            entry = entries_read.get((host, domain.name))
            if entry and not (entry["changed"] or entry["failed"] or problems):
                up_to_date.setdefault(host, []).append({**entry})
        return up_to_date

    def _limit(self, names: t.Collection[str]) -> int:
        """Seconds that creating these VMs may take."""
        return durations.creation(
            sum(demand.disk_sizes(domain, self.images)[0].values())
            for domain in self.domains
            if domain.name in names
        )

    def _holders(self, name: str) -> list[str]:
        """The hypervisors that have an image of the controller among their base images."""
        digest = self.images[name].digest
        return [
            host
            for host, answer in self.answers.items()
            if (seen := answer.get("host")) is not None
            for volume in seen.get("images") or ()
            if digest is not None
            if (base := BaseName.parse(volume)) is not None and base.digest == digest
        ]

    def _seen(self) -> list[dict[str, str]]:
        """The hypervisors that answered, as suboptions of virt_init."""
        return [
            {
                "name": name,
                "address": _peers.address(name, self.task_vars),
                "uuid": str(host.get("uuid")),
                "domains": fleet_seen.domains(host["vms"]),
            }
            for name, answer in self.answers.items()
            if (host := answer.get("host")) is not None
        ]

    def _waits(self, shares: t.Mapping[str, t.Collection[str]]) -> dict[str, list[str]]:
        """The VMs to wait for, by hypervisor, if they run then: the others are left out later."""
        again = {domain.name for domain in self.domains}
        before = shares_of(self._placed_before().get("waits"))
        waits = {host: [name for name in before[host] if name not in again] for host in before}
        for host, names in shares.items():
            defined = {vm["name"]: vm for vm in _placing.vms_of(self.answers[host])}
            for domain in self.domains:
                vm = defined.get(domain.name)
                if domain.name in names and _placing.is_awaited(domain, vm):
                    waits.setdefault(host, []).append(domain.name)
        return waits

    def confirm(self) -> Answer:
        """Decide which claims to finish, which to withdraw and retry, and which failed for good."""
        confirmed: dict[str, list[str]] = {}
        refused: dict[str, list[str]] = {}
        retry: dict[str, tuple[str, str]] = {}  # hypervisor and reason
        permanent: list[str] = []
        ended: dict[tuple[str, str], Answer] = {}  # failed, or finished with the claim
        known = {domain.name: domain for domain in self.domains}
        self.placed = self.action.decision("virt_placed", "place", self.round)
        claimed = self.action.answers("virt_claim", Claims, "claim", self.round, _INIT)
        if sum(bool(answer.get("host")) for answer in claimed.values()) == 1:
            # no other hypervisor of this run claimed after it read itself
            self.answers.update(
                {host: answer for host, answer in claimed.items() if answer.get("host")}
            )
        unproven = self._unproven()
        permanent += self._not_brought()
        for outcome in outcomes.outcomes(shares_of(self.placed["shares"]), claimed):
            host, name, entry = outcome.host, outcome.name, outcome.entry
            if entry is None:
                permanent.append(str(outcome.problem))
                ended[host, name] = outcomes.failed_entry(outcome, claimed.get(host) or {})
                if claimed.get(host) and not self.check:
                    refused.setdefault(host, []).append(name)  # it may have claimed it before
                continue
            if claimed[host].get("finished"):  # its failures are reported with the results
                confirmed.setdefault(host, []).append(name)
                ended[host, name] = {**entry}
                continue
            if outcome.problem:
                if entry.get("refused"):
                    retry[name] = host, str(entry["msg"])
                else:
                    permanent.append(outcome.problem)
                    ended[host, name] = {**entry}
                continue
            reasons = self._reasons(entry, known[name], host, unproven)
            if unproven and unproven in reasons:
                permanent.append(unproven)
            elif reasons:
                retry[name] = host, "; ".join(reasons)
            (refused if reasons else confirmed).setdefault(host, []).append(name)
        if permanent:  # any error stops the batch before the first VM is touched
            for host, names in confirmed.items():
                refused.setdefault(host, []).extend(names)
            confirmed = {}
        attempt = self.round + 1
        if attempt >= _ATTEMPTS:
            for name, (host, reason) in retry.items():
                permanent.append(f"{name} on {host}: {reason}")
                ended[host, name] = {"name": name, "changed": False, "failed": True, "msg": reason}
        elif not permanent:
            for name, (host, reason) in retry.items():
                _output.say(f"{name}: claim on {host}: {reason}; retrying")
        settled = as_mapping(self.placed["settled"])
        up_to_date = {host: as_mappings(entries) for host, entries in settled.items()}
        known_to_end = up_to_date if not permanent else self._stopped(up_to_date, ended)
        return {
            "changed": False,
            "confirmed": confirmed,
            "refused": refused,
            "requested": self._requested(confirmed, known_to_end),
            "pending": [] if permanent else sorted(retry),
            "attempt": attempt,
            "problems": list(dict.fromkeys(permanent)),
            "done": self._done(known_to_end),
        }

    def _reasons(
        self, entry: outcomes.Answer, domain: Domain, host: str, unproven: str
    ) -> list[str]:
        """Why a claim that the hypervisor made, or might have made, is not to be finished."""
        if entry.get("not_tried"):
            return ["it was not tried, because another VM of the request failed there"]
        if not entry["changed"] or self.check:
            return []
        return [unproven] if unproven else self._conflicts(domain, host)

    def _stopped(
        self,
        up_to_date: t.Mapping[str, t.Sequence[Values]],
        ended: t.Mapping[tuple[str, str], Answer],
    ) -> dict[str, list[Values]]:
        """The entries of all VMs of a batch that goes no further, by hypervisor."""
        entries_by_host = {host: [*entries] for host, entries in up_to_date.items()}
        for host, names in shares_of(self.placed["shares"]).items():
            for name in names:
                entry = {"name": name, "changed": False, "failed": True, "msg": _NOT_TRIED}
                entry["not_tried"] = True
                entries_by_host.setdefault(host, []).append(ended.get((host, name)) or entry)
        return entries_by_host

    def _unproven(self) -> str:
        """Why it is unproven that the VMs do not exist yet; empty if it is proven."""
        try:
            _placing.require_all(self.answers, self.lost, self.expected)
        except PlanRefused as error:
            return f"{', '.join(domain.name for domain in self.domains)}: {error}"
        return ""

    def _not_brought(self) -> list[str]:
        """Messages for images that a hypervisor did not get, with the VMs that need them."""
        problems = []
        expected = Work(self.action.header.run, "virt_image", "act", self.round)
        for host, answer in registered(self.task_vars, "virt_brought").items():
            names = ", ".join(texts(as_mapping(self.placed["shares"]).get(host)))
            for result in as_mappings(answer.get("results")):
                item = envelope.opened(result, expected)
                if not isinstance(item.get("image"), dict):
                    image = item.get(str(item.get("ansible_loop_var")))
                    problems.append(
                        f"{host}: {image} for {names} was not transferred:"
                        f" {outcomes.error_message(item)}"
                    )
        return problems

    def _conflicts(self, domain: Domain, host: str) -> list[str]:
        return _placing.conflicts(
            domain,
            host,
            self.images,
            self.answers,
            self.limits,
            self.policy,
            self.lost,
        )

    def _requested(
        self, confirmed: t.Mapping[str, list[str]], up_to_date: t.Mapping[str, t.Sequence[Values]]
    ) -> dict[str, list[str]]:
        """The VMs requested in this round and before it, by hypervisor."""
        requested = shares_of(self.earlier.get("requested"))
        host_by_name = {
            str(entry["name"]): host for host, entries in up_to_date.items() for entry in entries
        }
        host_by_name.update({name: host for host, names in confirmed.items() for name in names})
        for domain in self.domains:
            if domain.name in host_by_name:
                requested.setdefault(host_by_name[domain.name], []).append(domain.name)
        return requested

    def _done(self, up_to_date: t.Mapping[str, t.Sequence[Values]]) -> dict[str, list[Answer]]:
        """The results of earlier rounds, and of VMs up to date in this one, by hypervisor."""
        earlier = self.earlier
        done = {
            host: [{**entry} for entry in as_mappings(entries)]
            for host, entries in as_mapping(earlier.get("done")).items()
        }
        if self.round:
            answers = self.action.answers("virt_created", Made, "finish", self.round - 1, _INIT)
            for outcome in outcomes.outcomes(shares_of(earlier.get("confirmed")), answers):
                entry = outcome.entry or outcomes.failed_entry(
                    outcome, answers.get(outcome.host) or {}
                )
                done.setdefault(outcome.host, []).append(dict(entry))
        for host, entries in up_to_date.items():
            done.setdefault(host, []).extend({**entry} for entry in entries)
        return done
