# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is refused when VMs are placed, because a VM of the fleet has it already."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.hosts import (
    DefinedVm,
    PlacementHost,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.types import (
    Placement,
    Policy,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import (
    Defaults,
    from_options,
    many,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch, _placing

_MAC = "52:54:00:aa:bb:cc"
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def _domain(name: str, mac: str) -> Domain:
    options = {"name": name, "seed": False, "nic_profile": "none"}
    domain, problems = from_options(
        {**options, "nics": [{"name": "lan", "bridge": "br0", "mac": mac}]}
    )
    assert not problems, problems
    assert domain is not None
    return domain


def _answers(*macs: str) -> dict[str, dict[str, Any]]:
    return {
        "hv1": {"host": {"vms": []}},
        "hv2": {"host": {"vms": [{"name": "old", "macs": list(macs)}]}},
        "hv3": {"msg": "silent, and declared lost"},
    }


def test_hypervisor_without_answer_is_named_as_elsewhere() -> None:
    via = "Task failed: Failed to connect to the host via ssh: ssh: connect to host hv1 port 22: "
    answers: dict[str, Any] = {
        "hv1": {"unreachable": True, "msg": f"{via}Connection refused"},
        "hv2": {},
        "hv3": {"msg": "silent, and declared lost"},
        "hv4": {"failed": True, "msg": "there is no libvirt"},
        "hv5": {"failed": True, "rc": 137, "msg": "MODULE FAILURE", "module_stderr": "Killed"},
    }
    problems = {host.name: host.problem for host in _placing.hosts_of(answers, {}, ["hv3"])}
    assert problems == {
        "hv1": "connection refused",
        "hv2": "it did not answer",
        "hv3": "declared lost",
        "hv4": "there is no libvirt",
        "hv5": "its module returned no result: it was killed (SIGKILL)",
    }


@pytest.mark.parametrize("mac", [_MAC, _MAC.upper()])
def test_a_mac_address_of_the_fleet(mac: str) -> None:
    placed = [Placement("new", "hv1", (), ())]
    with pytest.raises(PlanRefused) as raised:
        _placing.require_unique([_domain("new", mac)], placed, _answers("52:54:00:00:00:01", mac))
    assert str(raised.value) == (
        f"new: MAC address {_MAC} of 'lan' is already used by 'old' on hv2; give the NIC another"
    )


def test_only_vm_whose_address_is_taken_is_refused() -> None:
    domains = [_domain("new", _MAC), _domain("other", "52:54:00:00:00:09"), _domain("big", _MAC)]
    placed = [Placement(name, "hv1", (), ()) for name in ("new", "other")]
    placed.append(Placement("big", None, (), ()))
    assert _placing.not_unique(domains, placed, _answers(_MAC), []) == {
        "new": f"MAC address {_MAC} of 'lan' is already used by 'old' on hv2; give the NIC another"
    }


def test_mac_addresses_that_are_free_or_its_own() -> None:
    domains = [_domain("new", _MAC), _domain("old", "52:54:00:00:00:01")]
    placed = [Placement("new", "hv1", (), ()), Placement("old", None, (), (), ("hv2",))]
    _placing.require_unique(domains, placed, _answers("52:54:00:00:00:01"))


@pytest.mark.parametrize(
    ("phases", "words"),
    [
        ((None, "creating"), "being created on hv2 by another run"),
        (("creating", "creating"), "being created on hv1 and hv2 by another run"),
        (
            (None, None),
            r"defined on hv1 and hv2; a VM may exist only once.* \(virsh domrename new new-2\)"
            r".* \(ansible hv2 -b -m fleet.virt.virt_purge -a name=new\)"
            r".*: ansible-playbook fleet.virt.state -e vm_name=new -e vm_host=hv2"
            r" -e vm_state=shutoff$",
        ),
    ],
)
def test_a_claim_of_another_controller_is_no_duplicate(
    phases: tuple[str | None, str | None], words: str
) -> None:
    hosts = [
        PlacementHost(name, vms=(DefinedVm("new", name, phase=phase),))
        for name, phase in zip(("hv1", "hv2"), phases)
    ]
    with pytest.raises(PlanRefused, match=words) as raised:
        _placing.place([_domain("new", _MAC)], {}, hosts, Policy())
    assert ("remove it there" in str(raised.value)) == ("only once" in words)


def test_a_vm_in_a_move_is_no_duplicate() -> None:
    hosts = [PlacementHost(name, vms=(DefinedVm("new", "u"),)) for name in ("hv1", "hv2")]
    with pytest.raises(
        PlanRefused, match="on hv1 and hv2 with the same UUID, so it is being moved"
    ):
        _placing.place([_domain("new", _MAC)], {}, hosts, Policy())


@pytest.mark.parametrize(
    ("vm", "needed"),
    [
        (None, {"debian.qcow2", "tools.iso", "data.qcow2"}),
        ({"disks": ["system"], "targets": []}, {"tools.iso", "data.qcow2"}),
        ({"disks": ["data"], "targets": []}, {"tools.iso", "debian.qcow2"}),
        ({"disks": ["data"], "targets": ["vda"]}, {"tools.iso"}),
        ({"disks": ["system", "data"], "targets": []}, {"tools.iso"}),
        ({"disks": [], "targets": []}, {"debian.qcow2", "tools.iso", "data.qcow2"}),
    ],
    ids=["no VM", "its first", "its last", "one not its own", "both", "being created"],
)
def test_images_of_disks_that_the_vm_has_are_not_needed(
    vm: dict[str, Any] | None, needed: set[str]
) -> None:
    disks = [
        {"name": "system", "size": 64, "image": "debian.qcow2"},
        {"name": "cd", "device": "cdrom", "image": "tools.iso"},
        {"name": "data", "size": 64, "image": "data.qcow2"},
    ]
    domain, problems = from_options({"name": "web1", "seed": False, "disks": disks})
    assert not problems, problems
    assert domain is not None
    answer: Any = None if vm is None else {"name": "web1", "macs": [], **vm}
    assert _batch.images_of(domain, answer) == needed


@pytest.mark.parametrize(
    ("options", "vm", "awaited"),
    [
        pytest.param({"image": "a.qcow2"}, None, True, id="new"),
        pytest.param({}, None, False, id="new, without a seed"),
        pytest.param({"image": "a.qcow2", "wait": False}, None, False, id="wait is off"),
        pytest.param({"image": "a.qcow2"}, {"active": True}, True, id="runs"),
        pytest.param({"image": "a.qcow2"}, {"seeded": True}, False, id="off"),
        pytest.param({"image": "a.qcow2", "start": True}, {}, True, id="off, to be started"),
        pytest.param({"image": "a.qcow2"}, {"phase": "starting"}, True, id="unfinished"),
        pytest.param({"start": True}, {"seeded": True}, True, id="off, its image not repeated"),
        pytest.param(
            {"start": True}, {"seeded": True, "phase": "changing"}, True, id="unfinished change"
        ),
        pytest.param({}, {"seeded": True, "active": True}, False, id="start is not written"),
        pytest.param({"start": True}, {"seeded": False}, False, id="it was never seeded"),
        pytest.param({"start": True, "seed": False}, {"seeded": True}, False, id="seed is off"),
    ],
)
def test_vm_seeded_and_started_is_awaited(
    options: dict[str, Any], vm: dict[str, Any] | None, awaited: bool
) -> None:
    defaults = Defaults(ssh_public_keys=(_KEY,))
    (domain,), problems = many([{"name": "web1", **options}], defaults=defaults)
    assert not problems, problems
    defined: Any = vm if vm is None else {"active": False, "phase": None, **vm}
    assert _placing.is_awaited(domain, defined) is awaited
