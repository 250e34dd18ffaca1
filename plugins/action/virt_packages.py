# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mapping,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import packages
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _alive
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import (
    Connected,
    FleetAction,
    Foreign,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values

_LIMITS = {"read": 300.0, "install": 3600.0}  # seconds


class VirtPackagesOptions(Connected):
    names: list[str]


class ActionModule(FleetAction):
    """Ansible's own modules do the work on the host; their results are data, as those of ours."""

    _noted: list[Answer]

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        names = self.options(VirtPackagesOptions, packages.ARGUMENTS)["names"]
        self._noted = []
        try:
            result = self._ensure(names) if names else self._looked()
        except FleetVirtError as error:
            host = task_vars.get("inventory_hostname")
            result = {"failed": True, "msg": f"{host}: {error}"}
        return {**_beside(self._noted), **result}

    def _looked(self) -> Answer:
        return {"changed": False, "platform": self._platform()}

    def _platform(self) -> dict[str, str]:
        return packages.platform(self._facts(packages.SETUP, packages.SETUP_ARGUMENTS))

    def _ensure(self, names: list[str]) -> Answer:
        missing = packages.missing(names, self._facts(packages.PACKAGE_FACTS, {}))
        if missing and not self.check:
            self._install(missing)
        return {"changed": bool(missing), "missing": missing}

    def _install(self, names: list[str]) -> None:
        module, settings = packages.manager(self._platform()["pkg_mgr"])
        wanted = {"name": names, "state": "present", "update_cache": True}
        arguments = {**self._defaults(module), **settings, **wanted}
        answer = self._done(module, arguments, "install").answer
        if answer.get("failed") and module == packages.APT and self._finished():
            answer = self._done(module, arguments, "install").answer
        if answer.get("failed"):
            raise FleetVirtError(packages.refused(names, packages.reason(answer)))

    def _finished(self) -> bool:
        """Finish an interrupted installation; whether there was one."""
        audit = self._done(packages.COMMAND, packages.AUDIT, "read").answer
        if not audit.get("stdout"):
            return False
        answer = self._done(packages.COMMAND, packages.FINISH, "install").answer
        if answer.get("failed"):
            why = packages.reason({**answer, "msg": answer.get("stderr") or answer.get("msg")})
            raise FleetVirtError(
                "a package installation was interrupted, and 'dpkg --configure --pending' cannot"
                f" finish it: {why}"
            )
        return True

    def _defaults(self, module: str) -> Answer:
        """The play's ``module_defaults`` of a module, which Ansible applies to tasks only."""
        defaults: Answer = {}
        for by_module in self._task.module_defaults or ():
            defaults.update(by_module.get(module) or {})
        return {**as_mapping(self._templar.template(defaults))}

    def _facts(self, module: str, arguments: t.Mapping[str, object]) -> Answer:
        answer, facts = self._done(module, arguments, "read")
        if answer.get("failed"):
            raise FleetVirtError(f"{module} failed: {packages.reason(answer)}")
        return facts

    def _done(self, module: str, arguments: t.Mapping[str, object], kind: str) -> Foreign:
        """What a module returns, within the limit of its kind of work."""
        with _alive.limited(_LIMITS[kind], module):
            result = self.foreign(module, arguments)
        self._noted.append(result.answer)
        return result


def _beside(answers: list[Answer]) -> Answer:
    """What Ansible needs from several results: warnings, and the Python it discovered."""
    extras: Answer = {}
    for key in ("warnings", "deprecations"):
        texts = [text for answer in answers for text in as_list(answer.get(key))]
        if texts:
            extras[key] = texts
    for answer in answers:
        if "ansible_facts" in answer:
            extras["ansible_facts"] = answer["ansible_facts"]
    return extras
