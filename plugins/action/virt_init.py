# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t
import uuid

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mapping,
    as_mappings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import playbook_command
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import to_boolean
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.fleet_seen import (
    SeenHypervisor,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import handed
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import (
    Claims,
    Made,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.work import (
    ProvisionWork,
    WorkImage,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    plain,
    texts,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import read
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _images
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import (
    _batch,
    _cloned,
    _elsewhere,
    _noted,
    _seeds,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.provision._noted import texts_by_name

_AD_HOC = "Ansible Ad-Hoc"
_SYSTEM = "qemu:///system"
_PLACE = "virt_place"
_PLAN = "virt_plan"


class ActionModule(StagedAction[ProvisionWork]):
    WORK = ProvisionWork
    CONTROLLER = ()

    def asked(self, work: ProvisionWork, task_vars: Values) -> Answer:
        host = str(task_vars["inventory_hostname"])
        cloned = _cloned.of(self)
        given = {**self.given, **({"vms": cloned["vms"]} if cloned else {})}
        if work.stage == "read":
            reading = self._reading(given, work, None)
            return self.module(task_vars, {**reading, "_notes": self._noting(work, host)})
        if work.stage == "look":
            only = self._pending(work.round - 1) if work.round else None
            return self.module(task_vars, self._looking(given, work, only))
        only, notes = None, handed.Handed()
        if work.stage in ("claim", "finish") and not work.claimed_by:
            placed = self.decision("virt_placed", "place", work.round, _PLACE)
            work = dataclasses.replace(
                work, claimed_by=str(placed["run"]), machine=str(placed["machine"] or "")
            )
            only = texts(as_mapping(placed["shares"]).get(host))
            if work.stage == "claim":
                work = dataclasses.replace(work, seen=_seen(placed["seen"]))
                if work.seen:
                    readings = texts_by_name(placed["readings"])
                    macs = texts(placed["compared_macs"])
                    notes = handed.Handed(readings=readings, macs=macs)
            else:
                confirmed = self.decision("virt_confirmed", "confirm", work.round, _PLACE)
                only = texts(as_mapping(confirmed["confirmed"]).get(host))
                withdrawn = texts(as_mapping(confirmed["refused"]).get(host))
                work = dataclasses.replace(work, withdraw=withdrawn)
                claimed = self.answers("virt_claim", Made, "claim", work.round)[host]
                if claimed.get("finished"):
                    return _again(claimed)
                if self.check:  # predicts as the claim did: there is none to finish
                    work = dataclasses.replace(work, stage="claim")
        arguments = self._arguments(given, cloned, work, only)
        return self._asked({**arguments, "_notes": handed.packed(notes)}, task_vars)

    def alone(self, task_vars: Values) -> Answer:
        arguments = self._arguments(self.given, {}, ProvisionWork(), None)
        if arguments["vms"] and _elsewhere.others(task_vars):
            return self._all_stages(arguments, task_vars)
        return self._asked(arguments, task_vars)

    def _asked(self, arguments: Answer, task_vars: Values) -> Answer:
        work = envelope.read(ProvisionWork, arguments)
        if work.stage != "compare" and not arguments["vms"] and not work.withdraw:
            return {"changed": False, "vms": []}
        return self.module(task_vars, arguments)

    def _noting(self, work: ProvisionWork, host: str) -> str:
        """What the hypervisor is to note before it is read: the claims of this round, and readings
        that it lacks. Of those that do not answer it tells what it has noted."""
        plan = as_mapping(as_mapping(self._values.get(self.REPORTED)).get(envelope.OPTION))
        if (plan.get("run"), plan.get("verb")) == (self.header.run, _PLAN):
            return handed.packed(handed.Handed(answering=texts(plan.get("answering"))))
        placed = self.latest("virt_placed", _PLACE)
        if placed.get("attempt") != work.round:
            return ""  # read on its own
        answering = texts(placed["answering"])
        if self.check:
            return handed.packed(handed.Handed(answering=answering))
        readings = texts_by_name(placed["readings"])
        lacks = texts(as_mapping(placed["lacks"]).get(host))
        claimed = self.answers("virt_claim", Claims, "claim", work.round)
        claims = _noted.claims(claimed, str(placed["run"]), but=host)
        return handed.packed(
            handed.Handed(
                [*claims, *(volume for volume in lacks if volume not in readings)],
                {volume: readings[volume] for volume in lacks if volume in readings},
                answering,
            )
        )

    def _pending(self, number: int) -> list[str]:
        """The VMs that the round before this one left to place."""
        return texts(self.decision("virt_confirmed", "confirm", number, _PLACE)["pending"])

    def _reading(self, given: Answer, work: ProvisionWork, only: list[str] | None) -> Answer:
        variables = _batch.Variables(self._values, self._templar)
        paths = _batch.image_paths(given, variables, only)
        work = dataclasses.replace(work, image_paths=paths)
        return {
            "pool_paths": variables.pool_paths(),
            "base_pool": variables.base_pool(),
            **given,
            envelope.OPTION: envelope.plain(work),
        }

    def _looking(self, given: Answer, work: ProvisionWork, only: list[str] | None) -> Answer:
        """Options with all VMs of the batch as written; placement validates them too.

        Each hypervisor finds out which of them it has. VMs that may hold secrets are left out, so
        that no hypervisor learns the secrets of VMs it does not have.
        """
        given = self._reading(given, work, only)
        variables = _batch.Variables(self._values, self._templar)
        chosen = _chosen(given, variables)
        batch = _seeds.packed(_seeds.fit_for_all(_batch.requested(given, variables, only)))
        return {
            **{key: value for key, value in given.items() if key != "vms"},
            **_of_all(chosen),
            "limits": variables.limits(),
            "_asked": batch,
        }

    def _all_stages(self, arguments: Answer, task_vars: Values) -> Answer:
        """Run all stages, and read the other hypervisors while the claims are held.

        A run that claims a name elsewhere at the same moment sees this claim, or is seen here.
        """
        work = dataclasses.replace(
            envelope.read(ProvisionWork, arguments), claimed_by=str(uuid.uuid4())
        )

        def ask(stage: str, withdraw: list[str], vms: object) -> Answer:
            part = dataclasses.replace(work, stage=stage, withdraw=withdraw)
            options = {**arguments, "vms": vms, envelope.OPTION: envelope.plain(part)}
            return self.module(task_vars, options)

        answer = ask("claim", [], arguments["vms"])
        for key in ("host", "finished"):  # of that stage
            answer.pop(key, None)
        claimed = read(plain(answer), Made)
        names = [vm["name"] for vm in claimed.get("vms") or () if vm["changed"]]
        changing = any(vm.get("steps") for vm in as_mappings(answer.get("vms")))
        if claimed.get("failed") or claimed.get("unreachable") or not (names or changing):
            return {**claimed}
        try:
            _elsewhere.require_absent(  # VMs that exist are not claimed
                names,
                task_vars,
                _batch.Variables(task_vars, self._templar),
                str(arguments.get("uri", _SYSTEM)),
                float(str(arguments.get("timeout", 10.0))),
            )
        except BaseException as error:
            if not self.check:
                ask("finish", names, [])
            if isinstance(error, FleetVirtError):
                return {"failed": True, "changed": False, "msg": str(error)}
            raise
        if self.check:
            return {**claimed}
        return ask("finish", [], arguments["vms"])

    def _arguments(
        self, given: Answer, cloned: Answer, work: ProvisionWork, only: list[str] | None
    ) -> Answer:
        """The module's options, with all that variables and files on the controller determine;
        ``only`` names the VMs of the batch that are meant, and all are if it is None."""
        task_vars = self._values
        variables = _batch.Variables(task_vars, self._templar)
        hosts = as_list(task_vars.get("ansible_play_hosts_all"))
        single, common = _batch.divided(given)
        if single:
            if common.get("vms") is not None:
                raise PlanRefused(
                    f"vms and {', '.join(sorted(single))} are given; describe one VM or a list"
                )
            if len(hosts) > 1 and task_vars.get("ansible_play_name") == _AD_HOC:
                command = playbook_command("provision_vm", vm_name=str(single.get("name")))
                raise PlanRefused(
                    f"{single.get('name')!r} would be created on {len(hosts)} hypervisors"
                    f" ({', '.join(str(host) for host in hosts)}); a VM exists once: name one"
                    f" hypervisor, or let {command} choose"
                )
            common["vms"] = [single]
        path = "" if single else _batch.written_as(common, variables)
        vms, passwords = _batch.without_passwords(_batch.requested(common, variables, only))
        chosen = _chosen(common, variables)
        domains = _batch.validated(vms, chosen, path)
        _peers.refuse_hypervisors([domain.name for domain in domains], task_vars)
        check = self.check
        comparing = work.stage == "compare"
        images = {} if comparing else _batch.controller_images(domains, variables, check=check)
        if work.stage == "all" and not check:
            self._bring(images, common, task_vars, variables)
        unseeded, seeds = _seeds.taken_out(as_mappings(vms))
        arguments = {key: common[key] for key in ("uri", "timeout") if common.get(key) is not None}
        known = {name: local.facts for name, local in images.items()}
        known.update(_batch.known_images(as_mapping(cloned.get("images"))))
        leftovers = as_mapping(cloned.get("leftovers"))
        work = dataclasses.replace(
            work,
            home=str(task_vars["inventory_hostname"]),
            # the others are read at that URI
            seen=work.seen if arguments.get("uri", _SYSTEM) == _SYSTEM else [],
            images={name: WorkImage(**facts.as_dict()) for name, facts in known.items()},
            image_paths=_batch.image_paths(common, variables, only) if comparing else [],
            clone_of=str(cloned.get("clone_of") or ""),
            carried=str(leftovers.get("carried") or ""),
            requested=texts(leftovers.get("requested")),
        )
        return {
            **arguments,
            "vms": unseeded,
            "_passwords": passwords,
            "_seeds": seeds,
            **_of_all(chosen),
            "pool_paths": common.get("pool_paths") or variables.pool_paths(),
            "base_pool": common.get("base_pool") or variables.base_pool(),
            "limits": variables.limits(),
            "converge": _converges(common.get("converge"), variables),
            envelope.OPTION: envelope.plain(work),
        }

    def _bring(
        self,
        images: t.Mapping[str, _images.LocalImage],
        common: Answer,
        task_vars: Values,
        variables: _batch.Variables,
    ) -> None:
        """Ensure that this hypervisor has each image of the controller as a base image."""
        base_pool = str(common.get("base_pool") or variables.base_pool())
        options = {
            "base_pool": base_pool,
            "base_path": variables.pool_paths().get(base_pool),
            "uri": common.get("uri"),
            "timeout": common.get("timeout"),
        }
        for name, local in images.items():
            transferred = _images.ensure_on_host(self, task_vars, local, options)
            if transferred.get("failed") or transferred.get("unreachable"):
                raise PlanRefused(f"image {name}: {transferred.get('msg')}")


def _converges(option: object, variables: _batch.Variables) -> bool:
    value = variables.get("virt_converge", True) if option is None else option
    try:
        return to_boolean(value)
    except ValueError as error:
        raise PlanRefused(f"virt_converge: {error}") from None


def _seen(given: object) -> list[SeenHypervisor]:
    return [
        SeenHypervisor(
            str(host["name"]),
            str(host["address"]),
            str(host["uuid"]),
            str(host["domains"]),
            claims=texts(host["claims"]),
            lacks=texts(host["lacks"]),
        )
        for host in as_mappings(given)
    ]


def _again(earlier: Made) -> Answer:
    """The result of an earlier task, failed if a VM failed, whatever its failed_when said."""
    vms = earlier.get("vms")
    if vms is None:
        return {**earlier}
    shown = ("changed", "vms", "diff", "msg")
    result = {key: value for key, value in earlier.items() if key in shown}
    return {**result, "failed": any(vm["failed"] for vm in vms)}


def _of_all(chosen: Defaults) -> Answer:
    """The settings for all VMs, as options."""
    return {
        "disk_profiles": chosen.disk_profiles or {},
        "nic_profiles": chosen.nic_profiles or {},
        "pool": chosen.pool,
        "ssh_public_keys": list(chosen.ssh_public_keys),
        "fleet": chosen.fleet,
        "fleet_cpu": chosen.fleet_cpu,
    }


def _chosen(common: Answer, variables: _batch.Variables) -> Defaults:
    """The fleet's variables, each overridden by the option of that name if it is set."""
    chosen = _batch.defaults(variables)
    given = {key: value for key, value in common.items() if value is not None}
    keys = chosen.ssh_public_keys
    if "ssh_public_keys" in given:
        keys = tuple(_batch.public_keys("ssh_public_keys", given["ssh_public_keys"]))
    return dataclasses.replace(
        chosen,
        disk_profiles=given.get("disk_profiles", chosen.disk_profiles),
        nic_profiles=given.get("nic_profiles", chosen.nic_profiles),
        pool=str(given.get("pool", chosen.pool)),
        ssh_public_keys=keys,
        fleet=str(given.get("fleet", chosen.fleet)),
        fleet_cpu=given.get("fleet_cpu", chosen.fleet_cpu),
    )
