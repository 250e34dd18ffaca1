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
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import Made
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, plain
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import read
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _images
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch, _elsewhere, _seeds

_AD_HOC = "Ansible Ad-Hoc"
_SYSTEM = "qemu:///system"


class ActionModule(FleetAction):
    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        if self.given.get("_stage") == "read":
            return self.module(task_vars, self._reading(task_vars))
        if self.given.get("_stage") == "look":
            return self.module(task_vars, self._looking(task_vars))
        earlier = plain(as_mapping(self.given.get("_earlier")))
        if earlier.get("finished"):
            return _again(read(earlier, Made))
        arguments = self._module_arguments(task_vars)
        if arguments.get("_stage") == "compare":
            return self.module(task_vars, arguments)
        if not arguments["vms"] and not arguments.get("_withdraw"):
            return {"changed": False, "vms": []}
        if arguments.get("_stage", "all") == "all" and _elsewhere.others(task_vars):
            return self._all_stages(arguments, task_vars)
        return self.module(task_vars, arguments)

    def _reading(self, task_vars: Values) -> Answer:
        given = self.given
        variables = _batch.Variables(task_vars, self._templar)
        given.setdefault("pool_paths", variables.pool_paths())
        given.setdefault("base_pool", variables.base_pool())
        given.setdefault("_image_paths", _batch.image_paths(given, variables))
        return given

    def _looking(self, task_vars: Values) -> Answer:
        """Options with all VMs of the batch as written; placement validates them too.

        Each hypervisor finds out which of them it has. VMs that may hold secrets are left out, so
        that no hypervisor learns the secrets of VMs it does not have.
        """
        given = self._reading(task_vars)
        variables = _batch.Variables(task_vars, self._templar)
        chosen = _chosen(given, variables)
        batch = _seeds.packed(_seeds.fit_for_all(_batch.requested(given, variables)))
        return {
            **{key: value for key, value in given.items() if key not in ("vms", "_only")},
            **_of_all(chosen),
            "limits": variables.limits(),
            "_asked": batch,
        }

    def _all_stages(self, arguments: Answer, task_vars: Values) -> Answer:
        """Run all stages, and read the other hypervisors while the claims are held.

        A run that claims a name elsewhere at the same moment sees this claim, or is seen here.
        """
        arguments = {**arguments, "_run": arguments.get("_run") or str(uuid.uuid4())}
        answer = self.module(task_vars, {**arguments, "_stage": "claim"})
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
                self.module(
                    task_vars, {**arguments, "vms": [], "_withdraw": names, "_stage": "finish"}
                )
            if isinstance(error, FleetVirtError):
                return {"failed": True, "changed": False, "msg": str(error)}
            raise
        if self.check:
            return {**claimed}
        return self.module(task_vars, {**arguments, "_stage": "finish"})

    def _module_arguments(self, task_vars: Values) -> Answer:
        """The module's options, with all that variables and files on the controller determine."""
        given = self.given
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
        vms, passwords = _batch.without_passwords(_batch.requested(common, variables))
        chosen = _chosen(common, variables)
        domains = _batch.validated(vms, chosen, path)
        _peers.refuse_hypervisors([domain.name for domain in domains], task_vars)
        check = self.check
        comparing = common.get("_stage") == "compare"
        images = {} if comparing else _batch.controller_images(domains, variables, check=check)
        if common.get("_stage", "all") == "all" and not check:
            self._bring(images, common, task_vars, variables)
        unseeded, seeds = _seeds.taken_out(as_mappings(vms))
        passed_on = (
            "uri",
            "timeout",
            "_stage",
            "_run",
            "_clone_of",
            "_leftovers",
            "_fleet_machine",
            "_fleet_seen",
            "_withdraw",
        )
        arguments = {key: common[key] for key in passed_on if common.get(key) is not None}
        if arguments.get("uri", _SYSTEM) != _SYSTEM:
            arguments.pop("_fleet_seen", None)  # the others are read at that URI
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
            "_home": str(task_vars["inventory_hostname"]),
            "_image_paths": _batch.image_paths(common, variables) if comparing else [],
            "_images": {
                name: facts.as_dict()
                for name, facts in {
                    **{name: local.facts for name, local in images.items()},
                    **_batch.known_images(as_mapping(common.get("_images"))),
                }.items()
            },
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
    )
