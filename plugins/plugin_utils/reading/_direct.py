# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading hypervisors in this process, in threads, where the controller can connect to libvirt.

A hypervisor's variable ``virt_inventory_uri`` enables that. Only the inventory determines what is
opened, never a result from a hypervisor.
"""

from __future__ import annotations

import re
import tempfile
import typing as t
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    read_requirements as requirements,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_deadline import Failed
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import show
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_fleet as fleet
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_noted
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
    read_domains,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_host import read_host
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _alive
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _become, _ssh

Reader = t.Callable[[Connection], Answer]

_VARIABLE = "virt_inventory_uri"
_CALL_SECONDS = 10.0
_DAY = 86400.0
_BASE = ("base", "/var/lib/libvirt/base")  # the module's defaults


def domains(names: t.Sequence[str], *, addresses: bool, storage: bool) -> Reader:
    """A reader that returns the result of ``virt_query``; no ``names`` means all."""
    wanted = DomainQuery(
        names=tuple(names) or None, ignore_missing=True, addresses=addresses, storage=storage
    )
    return lambda connection: {"domains": read_domains(connection, wanted)}


def noted(silent: t.Collection[str]) -> Reader:
    """A reader that returns what is noted of these hypervisors."""
    return lambda connection: {**read_noted.of_silent(connection, silent)}


def host_info(connection: Connection) -> Answer:
    """The result of ``virt_host_info``."""
    return {"host": read_host(connection, *_BASE)}


def answers(
    names: t.Sequence[str],
    reader: Reader,
    task_vars: Values,
    *,
    seconds: float,
    lost: t.Collection[str] = (),
) -> dict[str, Answer]:
    """The result of each of ``names`` in the shape of a module's, also if it failed.

    ``seconds`` is the limit for each hypervisor, 0 means none, as for Ansible's tasks; those in
    ``lost`` are not contacted.
    """
    answers: dict[str, Answer] = {}
    targets = []
    with tempfile.TemporaryDirectory(prefix="fleet-virt-") as folder:
        for number, name in enumerate(names):
            try:
                requirements.require()
                if name in lost:
                    raise PlanRefused(_alive.lost(name))
                targets.append(fleet.Target(name, _uri(name, task_vars, Path(folder), number)))
            except FleetVirtError as error:
                answers[name] = _failed(error, name)
        outcomes = fleet.read_each(
            targets, reader, call_timeout=_CALL_SECONDS, host_timeout=seconds or _DAY
        )
    for target, outcome in zip(targets, outcomes):
        answers[target.name] = (
            _failed(outcome.error, target.name) if isinstance(outcome, Failed) else outcome.value
        )
    return answers


def _failed(error: FleetVirtError, name: str) -> Answer:
    return {"failed": True, "msg": f"{error}{_become.remedy(str(error), name)}"}


def _uri(name: str, task_vars: Values, folder: Path, number: int) -> str:
    values = _ssh.connection_variables(_peers.of_host(name, task_vars))
    require_harmless(values.get(_VARIABLE))
    return _ssh.uri_for(name, values, "", _CALL_SECONDS, folder, number)


def require_harmless(uri: object) -> None:
    """Raise PlanRefused for a URI that makes libvirt start a program that it names.

    When a play reads variables, their templates may already contain results from hypervisors.
    """
    problem = None
    if not isinstance(uri, str) or not uri.isprintable() or not uri.strip():
        problem = "is not a libvirt URI, such as qemu+tls:///system"
    else:
        parts = urlsplit(uri)
        # libvirt accepts both separators, and names in upper case
        keys = [unquote(parameter.partition("=")[0]) for parameter in re.split("[&;]", parts.query)]
        starts = parts.scheme.endswith("+ext") or "command" in map(str.lower, keys)
        if starts:
            problem = (
                "names a program to start on the controller, which plays refuse; set virt_uri too,"
                " and the hypervisor is read over Ansible's own connection"
            )
    if problem:
        raise PlanRefused(f"{_VARIABLE}: {show(uri)} {problem}")
