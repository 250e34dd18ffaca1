# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_list
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import outcomes, proofs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import decide as keys
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import report as keys_report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.facts import (
    KeysLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.options import (
    ARGUMENTS,
    INTERNAL,
    ON_HYPERVISOR,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, plain
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import (
    hosts,
    of_host,
    read,
    registered,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import (
    _keys,
    _keys_apply,
    _keys_signing,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._cryptography import require
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._key_store import KeyStore

_ROUNDS = 5  # the rotation of a CA takes four
_NOT_CONTACTED = "this task contacts its own hypervisor only"
_ALONE = "use the role fleet.virt.libvirt_keys, which contacts all"


class VirtKeysOptions(Connected):
    keys_dir: str | None
    organization: str
    client_name: str
    days: int
    ca_days: int
    renew_days: int
    passphrase_variable: str | None
    control_ca_variable: str | None
    data_ca_variable: str | None
    expected: list[str] | None
    lost: list[str]
    names: list[str]
    renew: bool
    rotate: list[str]
    revoke: list[str]
    readmit: list[str]
    replace: bool
    qemu_user: str | None
    _stage: str
    _results: str | None
    _prepared: str | None
    _applied: str | None
    _new_keys: dict[str, object] | None
    _files: dict[str, object] | None
    _revoked: list[str]


class ActionModule(FleetAction):
    """Handles the CAs on the controller; the module handles a hypervisor's own files."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        if self._task.args.get("_stage") in ON_HYPERVISOR:
            return self.module(task_vars)
        options = self.options(VirtKeysOptions, ARGUMENTS, INTERNAL)
        if options["_stage"] == "report":
            return _report(options, task_vars)
        require()
        if options["_stage"] == "all":
            return self._all_stages(options, task_vars)
        host = str(task_vars["inventory_hostname"])

        def look(name: str) -> _keys.Look | None:
            return _look(task_vars, name, options["_results"])

        if options["_stage"] == "prepare":
            answers = registered(task_vars, options["_results"], KeysLook)
            return self._prepare(options, task_vars, look, answers)
        prepared = _keys_apply.Prepared.of(of_host(task_vars, host, options["_prepared"]))
        return self._apply(options, task_vars, look(host), prepared).result()

    def _all_stages(self, options: VirtKeysOptions, values: Values) -> Answer:
        """Run all stages for one hypervisor; the rest of the fleet is not read, so it is silent.

        The rotation of a CA takes several rounds; orders are carried out in the first.
        """
        host = str(values["inventory_hostname"])
        given = options["expected"] or _peers.names("hypervisors", values)
        options = {**options, "expected": given}
        prepared_result: Answer = {}
        changed = False
        diffs: list[dict[str, str]] = []
        issued: dict[str, str] = {}
        reloaded: set[str] = set()
        for _round in range(_ROUNDS):
            answer = self._on_hypervisor(options, values, "look", {})
            if answer.get("failed") or answer.get("unreachable"):
                return answer
            own = read(plain(answer), KeysLook)
            if own.get("failed"):
                return {**own}
            look = _keys.look_of(own)
            prepared = self._prepare(options, values, {host: look}.get, None)
            prepared_result.update(prepared)
            changed = changed or prepared["changed"]
            diffs.append(prepared["diff"])
            if host not in prepared["revoked"]:
                applied = self._apply(options, values, look, _keys_apply.Prepared.of(prepared))
                if applied.failure is not None:
                    return applied.failure
                diffs += [] if applied.diff is None else [applied.diff]
                changed = changed or applied.changed
                issued.update(applied.issued)
                reloaded.update(applied.reloaded)
            steady = set(prepared["phases"].values()) == {keys.STEADY}
            if steady or prepared["waiting"] or self.check:
                break
            options = {**options, "renew": False, "rotate": [], "revoke": [], "readmit": []}
        done = {"changed": changed, "diff": diffs, "issued": issued, "reloaded": sorted(reloaded)}
        return {**prepared_result, **done}

    def _on_hypervisor(
        self, options: VirtKeysOptions, values: Values, stage: str, more: t.Mapping[str, object]
    ) -> Answer:
        arguments = {
            "_stage": stage,
            "qemu_user": options["qemu_user"],
            "timeout": options["timeout"],
            **more,
        }
        return self._execute_module(
            module_name="fleet.virt.virt_keys", module_args=arguments, task_vars=values
        )

    def _prepare(
        self,
        options: VirtKeysOptions,
        values: Values,
        look: t.Callable[[str], _keys.Look | None],
        answers: t.Mapping[str, t.Mapping[str, object]] | None,
    ) -> _keys.Prepared:
        """The controller's part; ``answers`` are the play's, None for a task on its own."""
        store, now = self._store(options, values), time.time()
        all_kinds = options["rotate"] == ["all"]
        orders = _keys.Orders(
            tuple(keys.KINDS if all_kinds else options["rotate"]),
            tuple(options["revoke"]),
            tuple(options["readmit"]),
            options["replace"],
        )
        refused = {*store.refused(), *orders.revoke} - set(orders.readmit)
        away = {*options["lost"], *refused}
        expected = [*(options["expected"] or ()), *hosts(values)]
        looks = {name: look(name) for name in dict.fromkeys(expected) if name not in away}
        answered = [name for name, found in looks.items() if found is not None]
        silent = proofs.silences(answers or {}, answered, [*looks], away)
        silent = {name: silence for name, silence in silent.items() if name not in answered}
        advice = None
        if answers is None:
            silent = {name: proofs.Silence(_NOT_CONTACTED, asked=False) for name in silent}
            advice = _ALONE
        fleet = _keys.KeysFleet(looks, silent, advice)
        preparation = _keys.Preparation(store, _settings(options), fleet, now, check=self.check)
        return preparation.run(orders)

    def _apply(
        self,
        options: VirtKeysOptions,
        values: Values,
        look: _keys.Look | None,
        prepared: _keys_apply.Prepared,
    ) -> _keys_apply.Applied:
        host = str(values["inventory_hostname"])
        if look is None:
            raise FleetVirtError(f"{host} did not respond")
        address = Variables(values, self._templar).get("ansible_host")
        others = [*_peers.names("hypervisors", values), *hosts(values)]
        job = _keys_apply.KeysJob(
            store=self._store(options, values),
            host=host,
            look=look,
            wanted=_keys_signing.wanted_on(
                _settings(options),
                host,
                None if address is None else str(address),
                options["names"],
                others,
            ),
            prepared=prepared,
            replace=options["replace"],
            check=self.check,
        )

        def module(stage: str, more: t.Mapping[str, object]) -> Answer:
            return self._on_hypervisor(options, values, stage, more)

        return _keys_apply.run(job, module, time.time())

    def _store(self, options: VirtKeysOptions, values: Values) -> KeyStore:
        if not options["keys_dir"]:
            raise FleetVirtError("keys_dir: name the folder of the fleet's CAs")
        variables = Variables(values, self._templar)
        named = options["passphrase_variable"]
        value = variables.get(named) if named else None
        passphrase = None if value is None else str(value)
        handed_in = {
            "control": options["control_ca_variable"],
            "data": options["data_ca_variable"],
        }
        given = {}
        for kind, name in handed_in.items():
            value = variables.get(name) if name else None
            ca = _keys.given_ca(kind, value, passphrase, time.time())
            if ca is not None:
                given[kind] = ca
        return KeyStore(options["keys_dir"], passphrase, given)


def _settings(options: VirtKeysOptions) -> _keys_signing.SigningSettings:
    problem = keys.organization_problem(options["organization"])
    if problem is not None:
        raise FleetVirtError(f"libvirt_keys_organization: {problem}")
    days, renew_days = options["days"], options["renew_days"]
    if not 1 <= renew_days < days or options["ca_days"] < days:
        raise FleetVirtError(
            f"libvirt_keys_renew_days ({renew_days}) must be at least 1 and less than"
            f" libvirt_keys_days ({days}), which must not exceed libvirt_keys_ca_days"
            f" ({options['ca_days']}): a certificate is renewed before it expires"
        )
    return _keys_signing.SigningSettings(
        options["organization"],
        days,
        options["ca_days"],
        renew_days,
        options["client_name"],
        options["renew"],
    )


def _report(options: VirtKeysOptions, values: Values) -> Answer:
    """A failure if hypervisors of the play gave no answer, other than revoked or lost ones."""
    first = str(values["inventory_hostname"])
    refused = [
        str(name) for name in as_list(of_host(values, first, options["_prepared"]).get("refused"))
    ]
    looks = registered(values, options["_results"], KeysLook)
    silent = keys_report.unanswered(
        looks,
        registered(values, options["_applied"]),
        [*options["lost"], *refused],
    )
    if not silent:
        return {"changed": False}
    text = keys_report.problem(silent, refused, renew=options["renew"])
    return {"changed": False, "failed": True, "msg": text}


def _look(values: Values, host: str, variable: str | None) -> _keys.Look | None:
    """What a host of the play returned, or None."""
    if host not in hosts(values):
        return None
    answer = of_host(values, host, variable, KeysLook)
    look = None if answer.get("failed") else _keys.look_of(answer)
    if look is None and answer.get("msg"):
        _output.warn(f"{host}: {outcomes.reason(answer)}")
    return look
