# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading of other hypervisors by the controller, which is not needed where playbooks read them."""

from __future__ import annotations

import tempfile
import typing as t
from dataclasses import replace
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    DeadlineExceeded,
    FleetVirtError,
    HostUnreachable,
    PlanRefused,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_deadline as deadline,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import read_ports as ports
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    read_requirements as requirements,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_deadline import Failed
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_number
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import proofs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_fleet as fleet
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values, to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _become, _ssh

_HOST_SECONDS = 30.0


def require_absent(
    names: t.Collection[str],
    contacted: t.Sequence[str],
    task_vars: Values,
    uri: str,
    timeout: float,
) -> None:
    """Raise PlanRefused if one of the hypervisors ``contacted`` has a VM of ``names``, or may."""
    requirements.require()
    with tempfile.TemporaryDirectory(prefix="fleet-virt-") as folder:
        targets = []
        for number, name in enumerate(contacted):
            values = _ssh.connection_variables(_peers.of_host(name, task_vars))
            reached = _ssh.uri_for(name, values, uri, timeout, Path(folder), number)
            targets.append(fleet.Target(name, reached))
        outcomes = fleet.read_fleet(
            targets, DomainQuery(storage=False), call_timeout=timeout, host_timeout=_HOST_SECONDS
        )
    problems, failed = [], {}
    for name, outcome in zip(contacted, outcomes):
        if isinstance(outcome, Failed):
            failed[name] = outcome.error
        else:
            existing = sorted({str(domain["name"]) for domain in outcome.value} & set(names))
            problems += [f"{vm!r} is defined on {name}; a VM exists once" for vm in existing]
    if failed:
        silent = proofs.missing("create alone", _silences(failed, task_vars))
        problems.append(
            f"a hypervisor that gave no answer may have it ({proofs.named(silent)});"
            f" {proofs.remedy(silent)}"
        )
    if problems:
        raise PlanRefused("; ".join(problems))


def _silences(
    failed: t.Mapping[str, FleetVirtError], task_vars: Values
) -> dict[str, proofs.Silence]:
    """Why there is no answer. An open port of its machine counts as reached.

    ``--limit`` plays no part: all of them were contacted.
    """

    def reached(name: str) -> bool:
        port = as_number(to_plain(_peers.of_host(name, task_vars).get("ansible_port")))
        more = () if port is None else (port,)
        return ports.answering(_peers.addresses(name, task_vars), *more) is not None

    silences = {
        name: proofs.Silence(
            f"{error}{_become.remedy(str(error), name)}",
            reached=not isinstance(error, (DeadlineExceeded, HostUnreachable))
            or proofs.answers(str(error)),
        )
        for name, error in failed.items()
    }
    doubtful = [name for name, silence in silences.items() if not silence.reached]
    probed = deadline.each(
        reached,
        doubtful,
        seconds=_HOST_SECONDS,
        what=lambda name: f"look for an open port of {name}",
        parallel=len(doubtful) or 1,
    )
    for name, outcome in zip(doubtful, probed):
        if isinstance(outcome, deadline.Ok) and outcome.value:
            silences[name] = replace(silences[name], reached=True)
    return silences
