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
from ansible_collections.fleet.virt.plugins.module_utils._model import fleet_seen, placement, tables
from ansible_collections.fleet.virt.plugins.module_utils._model.init_options import GENERATED
from ansible_collections.fleet.virt.plugins.plugin_utils import _batch, _peers, _placing
from ansible_collections.fleet.virt.plugins.plugin_utils._action import FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils._plain import to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils._registered import registered

# rounds in which others may be faster before a VM is given up
_ATTEMPTS = 6
_ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "vms": {"type": "list", "elements": "dict"},
    "only": {"type": "list", "elements": "str"},
    "results": {"type": "str", "required": True},
    "claims": {"type": "str"},
    "run": {"type": "str"},
    "expected": {"type": "list", "elements": "str"},
    "lost": {"type": "list", "elements": "str", "default": []},
    "attempt": {"type": "int", "default": 0},
    "earlier": {"type": "dict", "default": {}},
    "created": {"type": "str"},
}


class ActionModule(FleetAction):
    _requires_connection = False

    def work(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        options = self.options(_ARGUMENTS)
        work = _Work(self, options, task_vars)
        return work.confirm() if options["claims"] else work.place()


class _Work:
    """One call: the batch, the answers of the hypervisors, and what to make of both."""

    def __init__(
        self, action: t.Any, options: t.Mapping[str, t.Any], task_vars: t.Mapping[str, t.Any]
    ) -> None:
        self.options = options
        self.check = bool(action._task.check_mode)
        self.task_vars = task_vars
        self.hostvars = task_vars["hostvars"]
        self.names = [str(name) for name in task_vars["ansible_play_hosts_all"]]
        self.variables = _batch.Variables(task_vars, action._templar)
        self.answers = registered(task_vars, options["results"])
        self.limits = {name: self._limits(name) for name in self.names}
        self.policy = placement.Policy(
            pool_paths=self.variables.pool_paths(), base_pool=self.variables.base_pool()
        )
        vms = _batch.requested(options, self.variables)
        self.domains = _batch.validated(vms, _batch.defaults(self.variables))
        self._refuse_hypervisors()
        local = _batch.controller_images(self.domains, self.variables, check=self.check)
        self.images = {name: _batch.image_facts(one) for name, one in local.items()}

    def _limits(self, name: str) -> dict[str, t.Any]:
        found = {key: self.hostvars[name].get(key) for key in _batch.LIMITS}
        return {key: to_plain(value) for key, value in found.items() if value is not None}

    def _refuse_hypervisors(self) -> None:
        for domain in self.domains:
            if domain.name in self.names:
                raise PlanRefused(
                    f"{domain.name!r} is the name of a hypervisor of this play; a VM of that name"
                    " would take its place in the inventory: choose another"
                )

    def place(self) -> dict[str, t.Any]:
        """Where each VM goes; fails, with every reason, when one of them fits nowhere."""
        lost = self.options["lost"]
        _placing.require_all(self.answers, lost, self.options["expected"])
        if self.options["attempt"]:
            # others were faster, perhaps in step with us: no order between controllers is known
            time.sleep(random.uniform(0.2, 1.5) * self.options["attempt"])  # noqa: S311
        hosts = _placing.hosts_of(self.answers, self.limits, lost)
        found = _placing.place(self.domains, self.images, hosts, self.policy)
        Display().display(tables.placements([one.as_dict() for one in found]).rstrip("\n"))
        nowhere = [one for one in found if one.host is None and not one.existing]
        if nowhere:
            raise PlanRefused("; ".join(placement.describe(one) for one in nowhere))
        _placing.require_own_macs(self.domains, found, self.answers)
        shares: dict[str, list[str]] = {}
        copies: dict[str, list[str]] = {}
        for domain, one in zip(self.domains, found):
            host = one.host or one.existing[0]
            shares.setdefault(host, []).append(domain.name)
            wanted = {disk.image.value for disk in domain.disks if disk.image is not None}
            for name in sorted(wanted & set(self.images)):
                absent = host not in self._holders(name)
                if absent and not one.existing and name not in copies.setdefault(host, []):
                    copies[host].append(name)
        return {
            "changed": False,
            "placements": [one.as_dict() for one in found],
            "shares": shares,
            "images": copies,
            "peers": {
                name: [_peers.address(host, self.task_vars) for host in self._holders(name)]
                for name in sorted({name for names in copies.values() for name in names})
            },
            "waits": self._waits(shares),
            "seen": self._seen() if len(shares) == 1 and not self.check else [],
            "machine": _placing.common_machine(self.answers),
            "run": GENERATED if self.check else str(uuid.uuid4()),
        }

    def _holders(self, name: str) -> list[str]:
        """The hypervisors that have an image of the controller among their base images."""
        digest = self.images[name].digest
        return [
            host
            for host, answer in self.answers.items()
            for volume in (answer.get("host") or {}).get("images") or ()
            if digest and volume.startswith(f"{digest}-")
        ]

    def _seen(self) -> list[dict[str, str]]:
        """The hypervisors that answered, as suboptions of virt_init."""
        return [
            {
                "name": name,
                "address": _peers.address(name, self.task_vars),
                "uuid": str(answer["host"]["uuid"]),
                "domains": fleet_seen.domains(answer["host"]["vms"]),
            }
            for name, answer in self.answers.items()
            if answer.get("host")
        ]

    def _waits(self, shares: t.Mapping[str, t.Collection[str]]) -> dict[str, list[str]]:
        """Those of each share that are to answer: seeded, started, and not shut off before."""
        again = {domain.name for domain in self.domains}
        before = dict(self.options["earlier"]).get("waits") or {}
        waits = {host: [name for name in before[host] if name not in again] for host in before}
        for host, names in shares.items():
            defined = {vm["name"]: vm for vm in self.answers[host]["host"]["vms"]}
            for domain in self.domains:
                vm = defined.get(domain.name)
                runs = vm is None or vm["active"] or vm["phase"] is not None
                wanted = domain.start and domain.wait and domain.seed is not None
                if domain.name in names and wanted and runs:
                    waits.setdefault(host, []).append(domain.name)
        return waits

    def confirm(self) -> dict[str, t.Any]:
        """Which claims may be finished, which go back and are tried again, and what is hopeless."""
        confirmed: dict[str, list[str]] = {}
        refused: dict[str, list[str]] = {}
        retry: dict[str, str] = {}
        hopeless: dict[str, str] = {}
        known = {domain.name: domain for domain in self.domains}
        claimed = registered(self.task_vars, self.options["claims"])
        if sum(bool(answer.get("host")) for answer in claimed.values()) == 1:
            # nobody else of this run claimed later than it looked at itself
            self.answers.update({host: one for host, one in claimed.items() if one.get("host")})
        unproven = ""
        try:
            _placing.require_all(self.answers, self.options["lost"], self.options["expected"])
        except PlanRefused as error:
            unproven = str(error)
        for host, claims in claimed.items():
            if claims.get("finished"):
                confirmed[host] = [vm["name"] for vm in claims["vms"]]
                continue
            if claims.get("vms") is None and (claims.get("failed") or claims.get("unreachable")):
                hopeless[host] = str(claims.get("msg") or "did not answer when claiming")
            for vm in claims.get("vms") or ():
                if vm["failed"]:
                    (retry if vm["refused"] else hopeless)[vm["name"]] = f"{host}: {vm['msg']}"
                    continue
                reasons = []
                if vm["changed"] and unproven and not self.check:
                    reasons = [unproven]
                    hopeless[vm["name"]] = unproven
                elif vm["changed"] and not self.check:
                    reasons = _placing.conflicts(
                        known[vm["name"]],
                        host,
                        self.images,
                        self.answers,
                        self.limits,
                        self.policy,
                        self.options["lost"],
                    )
                    if reasons:
                        retry[vm["name"]] = f"{host}: {'; '.join(reasons)}"
                (refused if reasons else confirmed).setdefault(host, []).append(vm["name"])
        if hopeless:  # every error of all of them counts before the first is touched
            for host, names in confirmed.items():
                refused.setdefault(host, []).extend(names)
            confirmed = {}
        attempt = self.options["attempt"] + 1
        if attempt >= _ATTEMPTS:
            hopeless.update(retry)
        elif not hopeless:
            for name, reason in retry.items():
                Display().display(f"{name}: the claim on {reason}; trying again")
        return {
            "changed": False,
            "confirmed": confirmed,
            "refused": refused,
            "pending": [] if hopeless else sorted(retry),
            "attempt": attempt,
            "msg": "; ".join(f"{name}: {reason}" for name, reason in hopeless.items()),
            "done": self._done(),
        }

    def _done(self) -> dict[str, list[dict[str, t.Any]]]:
        """What the rounds before this one have created, by hypervisor."""
        done = dict(self.options["earlier"]).get("done") or {}
        if self.options["created"]:
            for host, answer in registered(self.task_vars, self.options["created"]).items():
                if answer.get("vms"):
                    done = {**done, host: [*done.get(host, ()), *answer["vms"]]}
        return t.cast("dict[str, list[dict[str, t.Any]]]", to_plain(done))
