# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a new VM must not share: every kind of segment, owner and spelling of an address."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import unique
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import from_options

_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
_NETWORKS = [
    {"name": "default", "bridge": "virbr0", "forward": "nat"},
    {"name": "alone", "bridge": "virbr1", "forward": None},
    {"name": "lan", "bridge": "br0", "forward": "bridge"},
]


def _domain(nic: dict[str, t.Any], *addresses: str, name: str = "new") -> Domain:
    network = [{"name": "eth0", "addresses": list(addresses)}] if addresses else []
    seed = {"ssh_public_keys": [_KEY], "network": network}
    nics = [{"name": "eth0", **nic}]
    domain, problems = from_options({"name": name, "seed": seed, "nics": nics})
    assert not problems, problems
    assert domain is not None
    return domain


def _answers(**vm: t.Any) -> dict[str, t.Any]:
    """hv1 is where the new VM goes; ``vm`` is what hv2 has."""
    other = {"name": "old", "macs": [], "addresses": [], "segments": [], **vm}
    return {
        "hv1": {"host": {"vms": [], "networks": _NETWORKS, "addresses": ["10.0.0.1"]}},
        "hv2": {"host": {"vms": [other], "addresses": ["10.0.0.2", "fd00::2"]}},
    }


_BR0 = {"bridge": "br0"}
_USED = "already used by 'old' on hv2"
_ALSO = "also that of 'old' on hv2, on another segment"
ADDRESSES: list[tuple[dict[str, t.Any], list[str], str, str, str]] = [
    # the new VM's NIC, the other's segments, its address, the new one's, what is said
    (_BR0, ["br0"], "10.0.0.9", "10.0.0.9/24", _USED),
    (_BR0, ["br0", "br1"], "10.0.0.9", "10.0.0.9/24", _USED),
    (_BR0, ["br0"], "fd00::9", "fd00:0:0::0009/64", _USED),
    (_BR0, ["br0"], "10.0.0.9", "10.0.0.8/24", ""),
    ({"network": "lan"}, ["br0"], "10.0.0.9", "10.0.0.9/24", _USED),
    ({**_BR0, "vlan": 12}, ["br0, VLAN 12"], "10.0.0.9", "10.0.0.9/24", _USED),
    ({**_BR0, "vlan": 12}, ["br0, VLAN 13"], "10.0.0.9", "10.0.0.9/24", f"{_ALSO} (br0, VLAN 13)"),
    ({**_BR0, "vlan": 12}, ["br0"], "10.0.0.9", "10.0.0.9/24", f"{_ALSO} (br0)"),
    (_BR0, ["br1"], "10.0.0.9", "10.0.0.9/24", f"{_ALSO} (br1)"),
    (_BR0, [], "10.0.0.9", "10.0.0.9/24", ""),  # the other is on a NAT network
    ({"network": "default"}, ["br0"], "10.0.0.9", "10.0.0.9/24", ""),
    ({"network": "alone"}, ["br0"], "10.0.0.9", "10.0.0.9/24", ""),
    ({"network": "default"}, [], "192.168.122.9", "192.168.122.9/24", ""),
    (_BR0, [], "", "10.0.0.1/24", "the hypervisor hv1's"),
    (_BR0, [], "", "10.0.0.2/24", "the hypervisor hv2's"),
    (_BR0, [], "", "fd00::2/64", "the hypervisor hv2's"),
    (_BR0, [], "", "10.0.0.3/24", "the controller's"),
    ({"network": "default"}, [], "", "10.0.0.2/24", ""),
]


@pytest.mark.parametrize(("nic", "segments", "theirs", "ours", "said"), ADDRESSES)
def test_static_address_of_another_is_refused_on_its_segment(
    nic: dict[str, t.Any], segments: list[str], theirs: str, ours: str, said: str
) -> None:
    answers = _answers(segments=segments, addresses=[theirs] if theirs else [])
    findings = unique.Taken(answers, ["10.0.0.3"]).compare(_domain(nic, ours), "hv1")
    texts = findings.remarks if said.startswith(_ALSO) else findings.problems
    assert len(findings.problems + findings.remarks) == bool(said), findings
    assert all(said in text for text in texts), texts
    assert bool(texts) == bool(said)


def test_static_address_of_its_own_claim_is_free() -> None:
    claimed = {"name": "new", "macs": [], "addresses": ["10.0.0.9"], "segments": ["br0"]}
    answers = {**_answers(), "hv1": {"host": {"vms": [claimed]}}}
    findings = unique.Taken(answers).compare(_domain(_BR0, "10.0.0.9/24"), "hv1")
    assert (findings.problems, findings.remarks) == ([], [])


def test_silent_hypervisor_is_named_where_addresses_are_compared() -> None:
    answers = {**_answers(), "hv3": {"unreachable": True, "msg": "no route to host"}}
    (remark,) = unique.Taken(answers).compare(_domain(_BR0, "10.0.0.9/24"), "hv1").remarks
    assert remark == (
        "new: its static addresses were not compared with VMs on hv3, which did not answer"
    )
    assert not unique.Taken(answers).compare(_domain(_BR0), "hv1").remarks


@pytest.mark.parametrize(
    ("theirs", "refused"), [("NEW", True), ("New", True), ("new2", False), ("old", False)]
)
def test_name_that_differs_only_in_case_is_refused(theirs: str, refused: bool) -> None:
    findings = unique.Taken(_answers(name=theirs)).compare(_domain(_BR0), "hv1")
    assert bool(findings.problems) == refused
    assert all(f"{theirs!r} is on hv2; VM names are unique" in text for text in findings.problems)


def test_mac_of_added_nic_is_compared_with_other_vms_only() -> None:
    mac = "52:54:00:00:00:0a"
    domain = _domain({**_BR0, "mac": mac})
    taken = unique.Taken(_answers(macs=[mac.upper()]))
    (problem,) = taken.mac_problems(domain, "hv1", [mac])
    assert problem == f"new: MAC address {mac} of 'eth0' is {_USED}; give the NIC another"
    assert taken.mac_problems(domain, "hv1", []) == [], "it has that one already"
    own = unique.Taken(_answers(name="new", macs=[mac]))
    assert own.mac_problems(domain, "hv2", [mac]) == []


@pytest.mark.parametrize(("theirs", "refused"), [("new", True), ("NEW", True), ("other", False)])
def test_name_of_vm_that_a_cell_has_by_its_card_is_refused(theirs: str, refused: bool) -> None:
    answers = _answers()
    answers["hv2"]["host"]["cell_vms"] = [theirs]
    problems = unique.Taken(answers).compare(_domain(_BR0), "hv1").problems
    assert problems == [problem for problem in problems if "a VM of the cell of hv2" in problem]
    assert bool(problems) == refused
    # its own definition is not another VM
    answers["hv1"]["host"]["vms"] = [{"name": theirs, "macs": [], "addresses": []}]
    problems = unique.Taken(answers).compare(_domain(_BR0), "hv1").problems
    assert not [problem for problem in problems if "of the cell" in problem]
