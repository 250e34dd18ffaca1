# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: the CPU of the fleet, and whether this hypervisor supports it."""

from __future__ import annotations

import dataclasses
import typing as t

from ... import _lxml
from ..._libvirt import CPU_COMPARE_IDENTICAL, CPU_COMPARE_SUPERSET
from ..base.settings import write
from ..spec import fleet_cpu, settings_devices

if t.TYPE_CHECKING:
    from ..spec.domain import Domain
    from .effects_batch import Host


def given(host: Host, domain: Domain) -> Domain:
    """The VM with the CPU that it gets here, if that is the fleet's."""
    fleet = host.settings.fleet_cpu
    if fleet is None or domain.cpu.mode is not None or domain.domain_type not in (None, host.kind):
        return domain  # a VM that is emulated beside KVM lacks features that others have
    return dataclasses.replace(domain, cpu=fleet_cpu.combined(domain.cpu, fleet))


def told(host: Host, domain: Domain) -> str:
    """The CPU for people, if the VM has the fleet's (:func:`given`)."""
    fleet = host.settings.fleet_cpu
    has = fleet is not None and (domain.cpu.mode, domain.cpu.model) == (fleet.mode, fleet.model)
    return fleet_cpu.describe(domain.cpu) if has else ""


def problems(host: Host, domain: Domain) -> list[str]:
    """Why the VM, which has the fleet's CPU (:func:`given`), could not start with it here."""
    element = _lxml.new("cpu")
    write(settings_devices.CPU, element, domain.cpu)
    where = (None, host.arch, None, host.kind)
    answer = host.connection.call(
        "compare the CPU",
        host.connection.conn.compareHypervisorCPU,
        *where,
        _lxml.tostring(element),
        0,
    )
    if answer in (CPU_COMPARE_IDENTICAL, CPU_COMPARE_SUPERSET):
        return []
    return [
        f"{host.settings.home} does not support the CPU {fleet_cpu.describe(domain.cpu)} of"
        f" {fleet_cpu.VARIABLE}; ansible-playbook fleet.virt.preflight prints one that all support,"
        " or give the VM its own (vm_cpu=host-model)"
    ]
