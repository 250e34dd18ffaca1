# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs of hypervisors that do not answer, for the inventory, as others noted them.

Nobody connects to one: a note is another hypervisor's word, and must not say which machine it is.
"""

from __future__ import annotations

import shlex
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_deadline as deadline,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import noted, read_noted
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import silent as notes
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _guests, _reading

GROUP = "virt_unknown"


def read(
    answering: t.Sequence[_reading.Hypervisor],
    silent: t.Collection[str],
    settings: _reading.ReadingSettings,
) -> dict[str, notes.SilentHost]:
    """What those that answer have noted of the silent ones; who does not tell is left out."""

    def told(hypervisor: _reading.Hypervisor) -> notes.Told:
        with connect(hypervisor.reached.uri, settings.timeout) as connection:
            connection.limit(settings.host_timeout)
            return read_noted.of_silent(connection, silent)

    outcomes = deadline.each(
        told,
        answering,
        seconds=settings.host_timeout,
        what=lambda hypervisor: f"read the notes of {hypervisor.name}",
        parallel=settings.parallel,
    )
    answers = {
        hypervisor.name: outcome.value
        for hypervisor, outcome in zip(answering, outcomes)
        if isinstance(outcome, deadline.Ok)
    }
    return notes.known(answers, silent)


def guests(
    known: t.Mapping[str, notes.SilentHost], *, unmanaged: bool
) -> list[_guests.HostedGuest]:
    """The VMs that the inventory lists, each with its hypervisor."""
    return [
        (name, _guest(name, vm))
        for name, host in known.items()
        for vm in host.vms
        if vm.managed or unmanaged
    ]


def _guest(hypervisor: str, vm: notes.SilentVm) -> _guests.Guest:
    entry = noted.domain(vm)
    return {
        "name": entry["name"],
        "uuid": entry["uuid"],
        "state": entry["state"],
        "vcpus": None,
        "memory_mib": None,
        "title": None,
        "metadata": entry["metadata"],
        "error": f"{hypervisor} does not answer; the VM was {vm.reason}",
        "macs": list(vm.macs),
        "hostname": None,
        "addresses": [],
    }


def is_noted(guest: _guests.Guest) -> bool:
    """Whether it is a VM of a hypervisor that does not answer."""
    return guest["state"] == noted.STATE


def variables(hypervisor: str) -> dict[str, object]:
    """Connection variables with which Ansible finds the VM unreachable, and says why."""
    message = f"it is on {hypervisor}, which does not answer"
    program = f"sh -c {shlex.quote(f'echo {shlex.quote(message)} >&2; exit 1')}"
    proxy = program.replace("%", "%%")
    options = ["-o", "ControlPath=none", "-o", f"ProxyCommand={proxy}"]
    return {"ansible_connection": "ssh", "ansible_ssh_args": shlex.join(options)}


def warning(name: str, host: notes.SilentHost) -> str:
    """What people are told of a hypervisor that does not answer, and of its VMs."""
    since = f" (in maintenance since {host.maintenance})" if host.maintenance else ""
    return (
        f"{name} does not answer{since}: its VMs are in the inventory as {host.by} noted them at"
        f" {host.at}, also in the group {GROUP}, and are unreachable"
    )
