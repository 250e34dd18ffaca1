# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Argument specifications as values that compose, and the frame that every module runs in."""

from __future__ import annotations

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import remove_values
from ansible.module_utils.common.respawn import (
    has_respawned,
    probe_interpreters_for_module,
    respawn_module,
)

from . import _bytecode

_bytecode.cache()  # before the rest of the collection is imported

from ._errors import FleetVirtError, LibvirtFailure, SpecError
from ._fleet.base import read_caller as company
from ._fleet.base import read_requirements as requirements
from ._fleet.base.json_values import as_list
from ._fleet.engine import effects_syslog as syslog
from ._fleet.engine import envelope, events
from ._libvirt import LIBVIRT_IMPORT_ERROR

if t.TYPE_CHECKING:
    from ._fleet.base.arguments import Spec

# Twin of the documentation fragment ``fleet.virt._connection``
CONNECTION: Spec = {
    "uri": {"type": "str", "default": "qemu:///system"},
    "timeout": {"type": "float", "default": 10.0},
}
# What every action tells its module: the hypervisor's name in the inventory
HOST = "_host"
# and who runs it, as the controller says
PERSON = "_person"
# and whether the variable vm_force is set
FORCE = "_force"
_OF_CALLER: Spec = {
    HOST: {"type": "str", "default": ""},
    PERSON: {"type": "str", "default": ""},
    FORCE: {"type": "bool", "default": False},
}
# Where a distribution's own Python, which has its libvirt binding, is found
_INTERPRETERS = ("/usr/bin/python3", "/usr/libexec/platform-python")


class FleetModule(AnsibleModule):
    """An AnsibleModule that also accepts the internal options that playbooks, roles and action
    plugins of the collection pass between their steps.

    Such options begin with an underscore. They are not part of the module's interface: no
    documentation, no error about unknown options and no shown invocation names them.
    """

    def __init__(self, options: Spec, internal: Spec, **settings: object) -> None:
        self._internal_spec = {**internal, **_OF_CALLER}
        self._internal_problems: list[str] = []
        self._internal: dict[str, object] = {}
        super().__init__(  # type: ignore[no-untyped-call]
            argument_spec={**options, **CONNECTION}, supports_check_mode=True, **settings
        )
        company.set_host(str(self._internal.pop(HOST, None) or ""))
        company.set_person(str(self._internal.pop(PERSON, None) or ""))
        company.set_forced(bool(self._internal.pop(FORCE, None)))
        if self._internal_problems:
            self.fail_json(msg="; ".join(self._internal_problems))

    def _load_params(self) -> None:
        """Remove internal options before Ansible validates the rest; their secrets stay hidden."""
        load: t.Callable[[], None] = super()._load_params
        load()
        given = {name: self.params.pop(name) for name in self._internal_spec if name in self.params}
        validated = ArgumentSpecValidator(self._internal_spec).validate(given)
        self._internal = validated.validated_parameters
        self._internal_problems = validated.error_messages
        self.no_log_values.update(validated._no_log_values)

    @property
    def options(self) -> dict[str, t.Any]:
        """All options, public and internal, with the types of their specifications."""
        return {**self.params, **self._internal}


def create_module(options: Spec, internal: Spec | None = None, **settings: object) -> FleetModule:
    """A module with the connection options, ``options`` and, undocumented, ``internal``."""
    return FleetModule(options, internal or {}, **settings)


def run(
    module: AnsibleModule,
    function: t.Callable[[], t.Mapping[str, object]],
    commands: t.Sequence[str] = (),
    *,
    needs_libvirt: bool = True,
) -> t.NoReturn:
    """Exit with what ``function`` returns, or fail with what it raises.

    If the interpreter lacks libvirt's binding, the module respawns under the distribution's
    Python, if that has it. ``commands`` are programs the work needs. Without ``needs_libvirt`` the
    machine need not be a hypervisor yet.
    """
    company.mark_as_module()
    if needs_libvirt and LIBVIRT_IMPORT_ERROR is not None and not has_respawned():
        interpreter = probe_interpreters_for_module(_INTERPRETERS, "libvirt")
        if interpreter is not None:
            respawn_module(interpreter)
    try:
        if module.params["timeout"] <= 0:
            raise FleetVirtError(
                f"timeout: {module.params['timeout']:g} is not a time limit;"
                " use a number of seconds above 0"
            )
        if needs_libvirt:
            requirements.require(*commands)
        result = {**function()}
    except FleetVirtError as error:
        module.fail_json(msg=str(error), **_details(error))
    if not module.check_mode:
        _note(module, result)
    for warning in as_list(result.pop("warnings", [])):
        module.warn(str(warning))
    if result.get("failed"):
        failure: dict[str, t.Any] = {"msg": "failed", **result}
        module.fail_json(**failure)
    module.exit_json(**result)


def _note(module: AnsibleModule, result: t.Mapping[str, object]) -> None:
    """Write to this machine's journal what the module has changed, and for whom."""
    work = module.options.get(envelope.OPTION) if isinstance(module, FleetModule) else None
    run = str(work.get("run") or "") if isinstance(work, dict) else ""
    verb = str(module._name).rpartition(".")[2]
    caller = events.Caller(company.person() or "unknown", run, verb)
    host = company.host() or os.uname().nodename
    # as Ansible does with what it prints
    safe = remove_values(dict(result), module.no_log_values)
    happened = events.of_module(caller, host, safe)
    if happened:
        syslog.write(event.json for event in happened)


def _details(error: FleetVirtError) -> dict[str, t.Any]:
    """Details of the error for playbooks, besides the text."""
    details: dict[str, t.Any] = {"error": type(error).__name__}
    if isinstance(error, SpecError):
        details["problems"] = [
            {"path": problem.path, "message": problem.message} for problem in error.problems
        ]
    if isinstance(error, LibvirtFailure):
        details["libvirt"] = {"code": error.code, "domain": error.domain}
    return details
