# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible.utils.display import Display
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._pure.base import answer_shapes
from ansible_collections.fleet.virt.plugins.module_utils._pure.hypervisor import keys
from ansible_collections.fleet.virt.plugins.module_utils._pure.hypervisor.keys_options import (
    ARGUMENTS,
    INTERNAL,
    ON_HYPERVISOR,
)
from ansible_collections.fleet.virt.plugins.plugin_utils import (
    _keys,
    _keys_apply,
    _keys_signing,
    _peers,
)
from ansible_collections.fleet.virt.plugins.plugin_utils._action import FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils._batch import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils._cryptography import require
from ansible_collections.fleet.virt.plugins.plugin_utils._key_store import KeyStore
from ansible_collections.fleet.virt.plugins.plugin_utils._plain import to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils._registered import Answer, of_host, unsound

_ROUNDS = 5  # an exchange of a CA takes four


class ActionModule(FleetAction):
    """CAs are here, on the controller; a hypervisor's own files are the module's."""

    def work(self, task_vars: Answer) -> Answer:
        if self._task.args.get("_stage") in ON_HYPERVISOR:
            return self.module(task_vars)
        options = to_plain(self.options(ARGUMENTS, INTERNAL))
        require()
        if options["_stage"] == "all":
            return self._alone(options, task_vars)
        host = str(task_vars["inventory_hostname"])

        def look(name: str) -> _keys.Look | None:
            return _answer(task_vars, name, options["_results"])

        if options["_stage"] == "prepare":
            return self._prepare(options, task_vars, look)
        prepared = _registered(task_vars, host, options["_prepared"])
        return self._apply(options, task_vars, look(host), prepared)

    def _alone(self, options: Answer, values: Answer) -> Answer:
        """All of it for one hypervisor; the others of the fleet are not asked, so they are silent.

        An exchange of a CA takes several rounds; what was ordered is done in the first.
        """
        host = str(values["inventory_hostname"])
        given = options["expected"] or _peers.names("hypervisors", values)
        options = {**options, "expected": given}
        done: Answer = {"changed": False, "diff": [], "issued": {}, "reloaded": []}
        for _round in range(_ROUNDS):
            found = self._on_hypervisor(options, values, "look")
            if found.get("failed") or found.get("unreachable"):
                return found
            own = to_plain(found)
            problem = answer_shapes.problem(own, "keys")
            if problem:
                return unsound(problem)
            prepared = self._prepare(options, values, {host: own}.get)
            diffs = [prepared.pop("diff")]
            changed = prepared.pop("changed")
            done.update(prepared)
            if host not in prepared["revoked"]:
                applied = self._apply(options, values, own, prepared)
                if applied.get("failed") or applied.get("unreachable"):
                    return applied
                diffs += [applied["diff"]] if "diff" in applied else []
                changed = changed or applied["changed"]
                done["issued"].update(applied["issued"])
                done["reloaded"] = sorted({*done["reloaded"], *applied["reloaded"]})
            done["changed"] = done["changed"] or changed
            done["diff"] += diffs
            steady = set(prepared["phases"].values()) == {keys.STEADY}
            if steady or prepared["waiting"] or self._task.check_mode:
                break
            options = {**options, "renew": False, "rotate": [], "revoke": [], "readmit": []}
        return done

    def _on_hypervisor(self, options: Answer, values: Answer, stage: str, **more: t.Any) -> Answer:
        arguments = {
            "_stage": stage,
            "qemu_user": options["qemu_user"],
            "timeout": options["timeout"],
            **more,
        }
        answer: Answer = self._execute_module(
            module_name="fleet.virt.virt_keys", module_args=arguments, task_vars=values
        )
        return answer

    def _prepare(
        self,
        options: Answer,
        values: Answer,
        look: t.Callable[[str], _keys.Look | None],
    ) -> Answer:
        store, now = self._store(options, values), time.time()
        everybody = options["rotate"] == ["all"]
        orders = _keys.Orders(
            tuple(keys.KINDS if everybody else options["rotate"]),
            tuple(options["revoke"]),
            tuple(options["readmit"]),
            options["replace"],
        )
        refused = {*store.refused(), *orders.revoke} - set(orders.readmit)
        away = {*options["lost"], *refused}
        hosts = values["ansible_play_hosts_all"]
        expected = [*(options["expected"] or ()), *hosts]
        looks: dict[str, _keys.Look | None] = {}
        for name in dict.fromkeys(str(name) for name in expected):
            if name not in away:
                looks[name] = look(name)
        preparation = _keys.Preparation(
            store, _settings(options), _keys.Fleet(looks), now, check=bool(self._task.check_mode)
        )
        return preparation.run(orders)

    def _apply(
        self,
        options: Answer,
        values: Answer,
        look: _keys.Look | None,
        prepared: t.Mapping[str, t.Any],
    ) -> Answer:
        host = str(values["inventory_hostname"])
        if look is None:
            raise FleetVirtError(f"{host} gave no answer")
        address = Variables(values, self._templar).get("ansible_host")
        others = [*_peers.names("hypervisors", values), *map(str, values["ansible_play_hosts_all"])]
        job = _keys_apply.Job(
            store=self._store(options, values),
            host=host,
            look=look,
            wanted=_keys_signing.wanted_on(
                _settings(options), host, address, options["names"], others
            ),
            prepared=prepared,
            replace=options["replace"],
            check=bool(self._task.check_mode),
        )

        def module(stage: str, **more: t.Any) -> Answer:
            return self._on_hypervisor(options, values, stage, **more)

        return _keys_apply.run(job, module, time.time())

    def _store(self, options: Answer, values: Answer) -> KeyStore:
        if not options["keys_dir"]:
            raise FleetVirtError("keys_dir: name the folder of the fleet's CAs")
        variables = Variables(values, self._templar)

        def variable(name: str) -> t.Any:
            return variables.get(options[name]) if options[name] else None

        passphrase = variable("passphrase_variable")
        passphrase = str(passphrase) if passphrase is not None else None
        given = {
            kind: _keys.given_ca(kind, variable(f"{kind}_ca_variable"), passphrase, time.time())
            for kind in keys.KINDS
        }
        found = {kind: ca for kind, ca in given.items() if ca is not None}
        return KeyStore(options["keys_dir"], passphrase, found)


def _settings(options: t.Mapping[str, t.Any]) -> _keys_signing.Settings:
    problem = keys.organization_problem(options["organization"])
    if problem is not None:
        raise FleetVirtError(f"libvirt_keys_organization: {problem}")
    days, renew_days = options["days"], options["renew_days"]
    if not 1 <= renew_days < days or options["ca_days"] < days:
        raise FleetVirtError(
            f"libvirt_keys_renew_days ({renew_days}) has to be at least 1 and below"
            f" libvirt_keys_days ({days}), and that at most libvirt_keys_ca_days"
            f" ({options['ca_days']}): a certificate is renewed before it expires"
        )
    return _keys_signing.Settings(
        options["organization"],
        days,
        options["ca_days"],
        renew_days,
        options["client_name"],
        options["renew"],
    )


def _registered(values: t.Mapping[str, t.Any], host: str, variable: str | None) -> Answer:
    """What a host registered, as plain data."""
    return of_host(values, host, variable)


def _answer(values: t.Mapping[str, t.Any], host: str, variable: str | None) -> Answer | None:
    """What a host of the play answered, or None."""
    if host not in values["ansible_play_hosts_all"]:
        return None
    found = of_host(values, host, variable, "keys")
    if "kinds" in found and not found.get("failed"):
        return found
    if found.get("msg"):
        Display().warning(f"{host}: {found['msg']}")
    return None
