# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Confirming the claims of a round: which are finished, and which are withdrawn."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mapping,
    as_mappings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope, outcomes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import Work
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import unique
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import (
    Claims,
    Made,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    texts,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import shares as shares_of
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import (
    _noted,
    _placing,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.provision._round import (
    Round,
    not_tried,
    wanted_of,
)

# rounds lost to other controllers before giving up on a VM
_ATTEMPTS = 6
_INIT = "virt_init"


class ConfirmRound(Round):
    """The second decision of a round, from hypervisors that were read with its claims."""

    def confirm(self) -> Answer:
        """Decide which claims to finish, which to withdraw and retry, and which failed for good."""
        confirmed: dict[str, list[str]] = {}
        refused: dict[str, list[str]] = {}
        retry: dict[str, tuple[str, str]] = {}  # hypervisor and reason
        permanent: list[str] = []
        ended: dict[tuple[str, str], Answer] = {}  # failed, or finished with the claim
        known = {domain.name: domain for domain in self.domains}
        self.placed = self.action.decision("virt_placed", "place", self.round)
        if self.placed["asks"]:
            return self._asked()
        claimed = self.action.answers("virt_claim", Claims, "claim", self.round, _INIT)
        if sum(bool(answer.get("host")) for answer in claimed.values()) == 1:
            # no other hypervisor of this run claimed after it read itself
            self.answers.update(
                {host: answer for host, answer in claimed.items() if answer.get("host")}
            )
        unproven = self._unproven(claimed)
        permanent += [*texts(self.placed["problems"]), *self._not_brought()]
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
            reasons = self._reasons(entry, known[name], host, unproven, claimed[host])
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
        for name, (host, reason) in retry.items():
            if attempt >= _ATTEMPTS:
                permanent.append(f"{name} on {host}: {reason}")
                ended[host, name] = {"name": name, "changed": False, "failed": True, "msg": reason}
            elif not permanent:
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
            "noted": self.texts,
            "problems": list(dict.fromkeys(permanent)),
            "done": self._done(known_to_end),
        }

    def _unproven(self, claimed: t.Mapping[str, Claims]) -> str:
        """Why it is unproven that the claimed VMs exist nowhere else; empty if it is proven. Check
        mode claims none."""
        if self.check:
            return ""
        try:
            self.standing = self.standing_now(
                claimed, str(self.placed["run"]), only_macs=not self.placed["creates"]
            )
        except PlanRefused as error:
            return f"{', '.join(domain.name for domain in self.domains)}: {error}"
        if not self.standing.problem:
            return ""
        return f"{', '.join(domain.name for domain in self.domains)}: {self.standing.problem}"

    def _reasons(
        self,
        entry: outcomes.Answer,
        domain: Domain,
        host: str,
        unproven: str,
        answer: Claims,
    ) -> list[str]:
        """Why a claim that the hypervisor made, or might have made, is not to be finished."""
        added = (answer.get("added_macs") or {}).get(domain.name, [])
        if entry.get("not_tried"):
            return ["it was not tried, because another VM of the request failed there"]
        if self.check or not (added or entry["changed"]):
            return []
        if entry.get("existed") and not added:  # it is where it is, and claims nothing
            return self._conflicts(domain, host)
        if unproven:
            return [unproven]
        if entry.get("existed"):
            taken = unique.Taken(self.answers).mac_problems(domain, host, added)
            return taken + self._noted(wanted_of(domain, added))
        return self._conflicts(domain, host) + self._noted(wanted_of(domain))

    def _noted(self, wanted: rule.Wanted) -> list[str]:
        """Conflicts with what is noted of silent hypervisors, and with claims of other runs."""
        run, there = str(self.placed["run"]), _noted.answering(self.answers)
        return [
            *rule.conflicts(wanted, self.standing, self.uuids(), run),
            *rule.claimed(wanted, there, run, texts(self.placed["claims"])),
        ]

    def _asked(self) -> Answer:
        """The round in which hypervisors told what they noted: all is yet to be placed."""
        return {
            "changed": False,
            "confirmed": {},
            "refused": {},
            "requested": self._requested({}, {}),
            "pending": [domain.name for domain in self.domains],
            "attempt": self.round + 1,
            "noted": _noted.noted(self.looked),
            "problems": [],
            "done": self._done({}),
        }

    def _stopped(
        self,
        up_to_date: t.Mapping[str, t.Sequence[Values]],
        ended: t.Mapping[tuple[str, str], Answer],
    ) -> dict[str, list[Values]]:
        """The entries of all VMs of a batch that goes no further, by hypervisor."""
        entries_by_host = {host: [*entries] for host, entries in up_to_date.items()}
        for host, names in shares_of(self.placed["shares"]).items():
            for name in names:
                entry = ended.get((host, name)) or not_tried(name)
                entries_by_host.setdefault(host, []).append(entry)
        return entries_by_host

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
