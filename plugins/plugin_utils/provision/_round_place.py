# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Placing the VMs of a round: which hypervisor gets which, and what it lacks for that."""

from __future__ import annotations

import random
import time
import typing as t
import uuid

from ansible.utils.display import Display
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import durations, tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mapping,
    as_text,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import to_boolean
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.results import GENERATED
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import fleet_seen
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_neighbours import (
    own_addresses,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note, rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import demand, unlike
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import BaseName
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    to_plain,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import shares as shares_of
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import (
    _batch,
    _noted,
    _placing,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.provision._round import (
    NOT_TRIED,
    Round,
    not_tried,
    wanted_of,
)


class PlaceRound(Round):
    """The first decision of a round, from hypervisors as they were read."""

    def place(self) -> Answer:
        """Place each VM; fails, with every reason, when one of them fits nowhere."""
        if not self.round:
            _batch.warn_of_ignored(self.options, self.variables)
        new, added = self._new(), self._added()
        self.standing = standing = self.standing_now(only_macs=not new)
        if (new or added) and self._asks():
            return self._ask()
        problems = self._not_free(new, added)
        if problems and len(new) + len(added) == len(self.domains):
            raise PlanRefused("\n".join(problems))
        if problems:
            return self._only_existing([*new, *added], problems)
        if self.round:
            # others were faster, perhaps in step with us: controllers have no order
            time.sleep(random.uniform(0.2, 1.5) * self.round)  # noqa: S311
        seen = _placing.hosts_of(self.answers, self.limits, self.lost)
        leftovers = as_text(as_mapping(self.cloned.get("leftovers")).get("carried"))
        every = self.options["every"] is True or Display().verbosity > 0
        placements = _placing.place(
            self.domains, self.images, seen, self.policy, leftovers, every=every
        )
        rows = [{**placed.as_dict(), "why": placed.why} for placed in placements]
        table = tables.placements(rows, every=every)
        if not placements:
            table = "nothing to do: virt_vms is empty"
        nowhere = [placed for placed in placements if placed.host is None and not placed.existing]
        if nowhere:
            raise PlanRefused("\n".join(placement.describe(placed) for placed in nowhere))
        own = own_addresses()
        remarks = _placing.require_unique(self.domains, placements, self.answers, own, added)
        _output.say(table)  # nothing is said to be chosen where the whole is refused
        for remark in (*rule.remarks(standing, new), *self._never_built(new), *remarks):
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
        creates, claims = bool(new), bool(new or added)
        missing = self._missing() if claims else _noted.Distribution()
        return {
            **self._nothing(),
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
            # With a silent hypervisor it is decided on the controller whether a majority noted it
            "seen": (
                self._seen(missing.lacks)
                if len(shares) == 1 and not self.check and not (claims and standing.silent)
                else []
            ),
            "machine": _placing.common_machine(self.answers),
            "creates": bool(self.placed_before().get("creates")) or creates,
            "lacks": missing.lacks,
            "readings": missing.readings,
            "claims": sorted(
                {
                    volume
                    for host in _noted.answering(self.answers).values()
                    for volume in note.claims_in(host.held)
                }
            )
            if claims
            else [],
            "compared_macs": sorted({mac for macs in added.values() for mac in macs}),
            # The results of all, if the hypervisors finish what they claim
            "settled": up_to_date,
            "requested": requested,
            "done": up_to_date,
        }

    def _missing(self) -> _noted.Distribution:
        """What the hypervisors are to note; check mode writes nothing."""
        return _noted.Distribution() if self.check else _noted.distribution(self.answers)

    def _never_built(self, new: t.Collection[str]) -> list[str]:
        """Claims of others; in a later round those of this run are among them."""
        return [] if self.round else rule.never_built(new, _noted.answering(self.answers))

    def _nothing(self) -> Answer:
        """A decision by which nothing is done."""
        return {
            "changed": False,
            "placements": [],
            "shares": {},
            "images": {},
            "peers": {},
            "limits": {},
            "transfers": {},
            "waits": {},
            "seen": [],
            "machine": None,
            "run": GENERATED if self.check else str(uuid.uuid4()),
            "refresh_inventory": self._refreshes(),
            "creates": False,
            "attempt": self.round,
            "asks": False,
            "answering": sorted(host.machine for host in _noted.answering(self.answers).values())
            if self.standing.silent or self.standing.foreign
            else [],
            "lacks": {},
            "readings": {},
            "claims": [],
            "compared_macs": [],
            "settled": {},
            "requested": {},
            "done": {},
            "refused": {},
            "problems": [],
        }

    def _new(self) -> list[str]:
        """The requested VMs that no hypervisor that answered has, or that a dead run has only
        begun; a change of any other concerns that hypervisor."""
        there = {
            vm["name"]
            for answer in self.answers.values()
            for vm in _placing.vms_of(answer)
            if vm["phase"] != "creating"
        }
        return [domain.name for domain in self.domains if domain.name not in there]

    def _added(self) -> dict[str, list[str]]:
        """The MAC addresses that requested VMs get which exist, as their hypervisors say."""
        names = {domain.name for domain in self.domains}
        return {
            name: macs
            for answer in self.looked.values()
            for name, macs in (answer.get("added_macs") or {}).items()
            if name in names
        }

    def _asks(self) -> bool:
        """Whether what is noted of silent machines is to be asked first: it is long, and few runs
        need it."""
        first = not self.round and not self.told
        return first and bool(rule.silent_machines(_noted.answering(self.answers)))

    def _ask(self) -> Answer:
        """The decision to ask for it, and to place the VMs in the next round."""
        machines = sorted(host.machine for host in _noted.answering(self.answers).values())
        return {**self._nothing(), "asks": True, "answering": machines}

    def _only_existing(self, new: t.Sequence[str], problems: list[str]) -> Answer:
        """The decision of a batch of which some new VMs may exist elsewhere: nothing is changed,
        and each VM has its outcome."""
        placements = _placing.place(
            [domain for domain in self.domains if domain.name not in new],
            self.images,
            _placing.hosts_of(self.answers, self.limits, self.lost),
            self.policy,
        )
        done = self._up_to_date(placements)
        settled = {str(entry["name"]) for entries in done.values() for entry in entries}
        requested: dict[str, list[str]] = {}
        for placed in placements:
            host = placed.existing[0]
            requested.setdefault(host, []).append(placed.name)
            if placed.name not in settled:
                done.setdefault(host, []).append(not_tried(placed.name))
        ended = {"requested": requested, "settled": done, "done": done}
        return {**self._nothing(), **ended, "problems": problems}

    def _not_free(self, new: t.Sequence[str], added: t.Mapping[str, t.Sequence[str]]) -> list[str]:
        """Why VMs of ``new`` may exist on a silent hypervisor, or others have the addresses that
        are ``added``, with an entry for the others too."""
        names = [*new, *added]
        if not names:
            return []
        if self.standing.problem:
            return [f"{', '.join(names)}: {self.standing.problem}"]
        wanted = [
            wanted_of(domain, added.get(domain.name))
            for domain in self.domains
            if domain.name in names
        ]
        problems = rule.not_free(wanted, self.standing, self.uuids())
        if not problems:
            return []
        rest = [name for name in names if name not in problems]
        told = [f"{name}: {problem}" for name, problem in problems.items()]
        return [*told, *([f"{', '.join(rest)}: {NOT_TRIED}"] if rest else [])]

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

    def _seen(self, lacks: t.Mapping[str, list[str]]) -> list[dict[str, object]]:
        """The hypervisors that answered, as suboptions of virt_init."""
        return [
            {
                "name": name,
                "address": _peers.address(name, self.task_vars),
                "uuid": str(host.get("uuid")),
                "domains": fleet_seen.domains(host["vms"]),
                "claims": note.claims_in(host.get("notes") or ()),
                "lacks": lacks.get(name) or [],
            }
            for name, answer in self.answers.items()
            if (host := answer.get("host")) is not None
        ]

    def _waits(self, shares: t.Mapping[str, t.Collection[str]]) -> dict[str, list[str]]:
        """The VMs to wait for, by hypervisor, if they run then: the others are left out later."""
        again = {domain.name for domain in self.domains}
        before = shares_of(self.placed_before().get("waits"))
        waits = {host: [name for name in before[host] if name not in again] for host in before}
        for host, names in shares.items():
            defined = {vm["name"]: vm for vm in _placing.vms_of(self.answers[host])}
            for domain in self.domains:
                vm = defined.get(domain.name)
                if domain.name in names and _placing.is_awaited(domain, vm):
                    waits.setdefault(host, []).append(domain.name)
        return waits
