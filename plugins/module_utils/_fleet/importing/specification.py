# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The specification of a VM that is imported: options of any new VM, and nothing else.

Where a VM comes from says what its guest has drivers for. So disks are on SATA and NICs have a
model that the guest knows, unless it had virtio before.
"""

from __future__ import annotations

import json
import shlex
import typing as t
from collections.abc import Mapping

from ..._errors import PlanRefused
from ..._units import MIB
from ..base.names import playbook_command, valid_vm_name
from ..base.options import show
from ..spec.profiles import resolve_nics
from .ovf import OvfNic, OvfVm

NETWORKS = "virt_import_networks"
# What the import decides; the disks can be changed once the VM exists
_OWN = ("image", "disks", "disk_profile", "overlay")
_OWN_NICS = ("nics", "nic_profile")
_SAFE_BUS = "sata"

Specification = dict[str, object]


def example(*names: str) -> str:
    """How these networks are mapped, as an argument of a command."""
    table = {NETWORKS: {name: {"bridge": "br0"} for name in names}}
    return f"-e {shlex.quote(json.dumps(table, ensure_ascii=False))}"


def disk_name(index: int) -> str:
    """The name of a disk in the specification, counted from 0."""
    return f"disk{index + 1}"


def boots_from(vm: OvfVm) -> str:
    """Which disk a guest's firmware finds first: its BIOS or UEFI looks at the others only later,
    and a wrong one may boot without a word."""
    file = vm.disks[0].file
    return f"it boots from {disk_name(0)} ({'empty' if file is None else show(file)})"


def of_archive(
    vm: OvfVm,
    sizes: t.Sequence[int],
    networks: object,
    profiles: object,
    bus: str | None,
    overrides: Mapping[str, object],
) -> Specification:
    """The VM as the archive describes it, without what ``overrides`` say; ``sizes`` are those of
    its disks in bytes. Raises PlanRefused with every problem."""
    wrong = [f"vm_{key}" for key in _OWN if key in overrides]
    if wrong:
        raise PlanRefused(
            f"{', '.join(wrong)}: an imported VM has the disks that it comes with; leave it out,"
            " and change the VM's disks once it exists, with"
            f" {playbook_command('provision_vm', vm_name=valid_vm_name(vm.name))}"
        )
    spec: Specification = {"name": valid_vm_name(vm.name)}
    if vm.vcpus is not None:
        spec["vcpus"] = vm.vcpus
    if vm.memory_mib is not None:
        spec["memory"] = vm.memory_mib
    spec.update(
        disk_profile="none",
        disks=[
            {
                "name": disk_name(index),
                "size": -(-size // MIB),
                "format": "qcow2",
                "bus": bus or ("virtio" if disk.virtio else _SAFE_BUS),
            }
            for index, (disk, size) in enumerate(zip(vm.disks, sizes))
        ],
    )
    if vm.uefi:
        spec["firmware"] = "uefi"
    if vm.secure_boot:
        spec.update(secure_boot=True, machine="q35")
    if vm.nics is not None and not any(key in overrides for key in _OWN_NICS):
        spec.update(nic_profile="none", nics=_nics(vm.nics, networks, profiles))
    return {key: value for key, value in spec.items() if key not in overrides}


def with_images(spec: Specification, images: Mapping[str, str]) -> Specification:
    """The specification with full copies of these images, by the names of disks."""
    disks = spec["disks"]
    listed = disks if isinstance(disks, list) else []
    filled = [
        {**disk, "image": images[disk["name"]], "overlay": False}
        if disk["name"] in images
        else disk
        for disk in listed
    ]
    return {**spec, "disks": filled}


def _nics(nics: t.Sequence[OvfNic], networks: object, profiles: object) -> list[dict[str, object]]:
    if networks is not None and not isinstance(networks, Mapping):
        raise PlanRefused(
            f"{NETWORKS}: {show(networks)} is not a mapping of networks; write"
            f" {example(*(nic.network for nic in nics))}"
        )
    table = networks or {}
    missing = list(dict.fromkeys(nic.network for nic in nics if nic.network not in table))
    if missing:
        raise PlanRefused(
            f"{NETWORKS}: it does not say what is {', '.join(map(show, missing))}, to which the VM"
            f" is connected where it comes from; write {example(*missing)}, each with its"
            " bridge, or with the name of a NIC profile in place of that"
        )
    return [
        {"name": f"eth{index}", "model": nic.model, **_settings(nic.network, table, profiles)}
        for index, nic in enumerate(nics)
    ]


def _settings(network: str, table: Mapping[object, object], profiles: object) -> dict[str, object]:
    """The settings of a NIC in this network."""
    value = table[network]
    if isinstance(value, Mapping):
        return {str(key): setting for key, setting in value.items()}
    if not isinstance(value, str):
        raise PlanRefused(
            f"{NETWORKS}: {show(value)} for {show(network)} is neither settings of a NIC nor the"
            f" name of a profile; write {example(network)}"
        )
    entries, problems = resolve_nics(value, profiles, None)
    if problems:
        raise PlanRefused(f"{NETWORKS}: {'; '.join(str(problem) for problem in problems)}")
    if len(entries) != 1:
        raise PlanRefused(
            f"{NETWORKS}: the profile {show(value)} has {len(entries)} NICs, and {show(network)} is"
            " one network; name a profile with one, or write its settings"
        )
    return {key: setting for key, setting in entries[0].options.items() if key != "model"}
