# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What VMs name of their hypervisor: who is asked for it, and what the answers mean."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import immovable, named
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.decide import request_of
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.filters import (
    fixed_rejection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.hosts import PlacementHost
from ansible_collections.fleet.virt.plugins.module_utils._lxml import parse

_VM: dict[str, t.Any] = {
    "name": "web1",
    "error": None,
    "names": [
        {"kind": "program", "value": "/opt/qemu", "use": "its emulator"},
        {"kind": "file", "value": "/fw/code.fd", "use": "its loader"},
    ],
    "vcpus": 1,
    "memory_mib": 128,
    "disks": [],
    **{key: [] for key in ("networks", "bridges", "tags", "groups", "affinity", "anti_affinity")},
    **dict.fromkeys(("domain_type", "arch", "zone")),
}


def _answers() -> dict[str, t.Any]:
    """hv1 has the VM, hv2 reports both files, hv3 one of them, and hv4 did not answer."""
    known = {"hv1": [], "hv2": ["/opt/qemu", "/fw/code.fd"], "hv3": ["/fw/code.fd"]}
    answers = {
        host: {"host": {"offers": {"files": files}}, "vms": []} for host, files in known.items()
    }
    answers["hv1"]["vms"] = [dict(_VM)]
    return {**answers, "hv4": {"msg": "unreachable"}}


def test_hypervisor_that_reports_the_files_is_not_compared() -> None:
    wanted = named.to_compare(_answers(), None)
    assert named.plain(wanted["hv3"]) == {"web1": [_VM["names"][0]]}
    assert {*wanted} == {"hv3"}
    assert named.to_compare(_answers(), "hv2") == {}


def test_vm_with_leftover_or_error_is_not_compared() -> None:
    answers = _answers()
    answers["hv1"]["vms"] = [{**_VM, "error": "hangs"}, {**_VM, "leftover": "hv2"}]
    assert named.to_compare(answers, None) == {}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"lacking": {"web1": ["/opt/qemu: gone"]}}, "lacks what the VM names: /opt/qemu: gone"),
        ({"msg": "timed out", "failed": True}, "whether it has what the VM names is not known: "),
        (None, "whether it has what the VM names is not known: "),
        ({"lacking": {}}, None),
    ],
)
def test_hypervisor_that_lacks_names_or_is_silent_is_not_chosen(
    answer: t.Any, reason: str | None
) -> None:
    answers = _answers()
    compared = {} if answer is None else {"hv3": answer}
    named.with_lacking(answers, named.to_compare(answers, None), compared)
    (vm,) = answers["hv1"]["vms"]
    host = PlacementHost("hv3", maintenance=False, domain_types=frozenset(["kvm"]))
    rejection = fixed_rejection(host, request_of("web1", vm, None))
    if reason is None:
        assert rejection is None
    else:
        assert rejection is not None
        assert rejection.reason.startswith(reason)
        assert rejection.filter == "names"


_MOVABLE = (
    "<devices><shmem name='a' role='master'><model type='ivshmem-plain'/></shmem><filesystem>"
    "<driver type='virtiofs'/><source socket='/run/fs'/></filesystem><interface type='bridge'/>"
    "<tpm><backend type='emulator'/></tpm></devices><cpu><feature name='invtsc' policy='require'/>"
    "</cpu><clock><timer name='tsc' frequency='2000'/></clock>"
)
_IMMOVABLE = {
    "it has the shared memory 'a' (ivshmem)": (" role='master'", "", "-plain", ""),
    "it has the shared memory 'a' (ivshmem-plain)": ("master", "peer"),
    "it has the folder /srv of its hypervisor": ("socket='/run/fs'", "dir='/srv'"),
    "it has a NIC of type vdpa": ("'bridge'", "'vdpa'"),
    "it has a NIC of type hostdev": ("'bridge'", "'hostdev'"),
    "it has its hypervisor's own TPM": ("emulator", "passthrough"),
    "its memory is encrypted": ("<clock>", "<launchSecurity type='sev'/><clock>"),
    "its CPU requires invtsc": (" frequency='2000'", ""),
}


def test_definition_of_movable_devices_moves() -> None:
    assert immovable.reasons(parse(f"<domain>{_MOVABLE}</domain>", "domain"), 11_003_000) == ()


@pytest.mark.parametrize("reason", _IMMOVABLE)
def test_device_that_libvirt_does_not_move_is_named(reason: str) -> None:
    text, changes = _MOVABLE, _IMMOVABLE[reason]
    for before, after in zip(changes[::2], changes[1::2]):
        assert before in text
        text = text.replace(before, after)
    (said,) = immovable.reasons(parse(f"<domain>{text}</domain>", "domain"), 11_003_000)
    assert said.startswith(reason)


def test_external_virtiofs_does_not_move_from_an_old_libvirt() -> None:
    """Debian 12 has 9.0, which refuses any virtiofs of a VM that runs."""
    root = parse(f"<domain>{_MOVABLE}</domain>", "domain")
    (why,) = immovable.reasons(root, 9_000_000)
    assert "by virtiofs (/run/fs), which its hypervisor's libvirt before 10.0 does not move" in why
