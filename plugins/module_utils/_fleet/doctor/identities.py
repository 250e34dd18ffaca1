# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What two VMs have in common and must not: names, UUIDs, MAC and static addresses."""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..base.findings import Finding
from ..base.names import CLAIM, command_on, module_on, pipe_on, playbook_command
from ..placement.unique import normal_address

if t.TYPE_CHECKING:
    from .facts import Examined, ExaminedVm

_ARRIVING = ("creating", "migrating")


@dataclass(frozen=True)
class _Place:
    """A VM on a hypervisor."""

    host: str
    vm: ExaminedVm
    addresses: frozenset[str]
    segments: frozenset[str]

    @property
    def said(self) -> str:
        return f"{self.vm['name']!r} on {self.host}"

    @property
    def rank(self) -> tuple[bool, bool]:
        """The one to be changed of several is the last: shut off, and none of the collection's."""
        return (not self.vm["active"], not self.vm["managed"])


Key = t.Callable[[_Place], t.Iterable[str]]


def find(answers: t.Mapping[str, Examined]) -> list[Finding]:
    """All that several VMs have."""
    places = [place for host, answer in answers.items() for place in _places(host, answer)]
    arriving = {place.vm["uuid"] for place in places if place.vm["phase"] in _ARRIVING}
    settled = [place for place in places if place.vm["uuid"] not in arriving]
    findings = [_name(name, several) for name, several in _shared(settled, _names)]
    findings += [_uuid(uuid, several) for uuid, several in _shared(settled, _uuids, alike=True)]
    findings += [_mac(mac, several) for mac, several in _shared(settled, _macs)]
    findings += [
        _address(address, several)
        for address, several in _shared(settled, lambda place: place.addresses)
        if _meet(several)
    ]
    return findings


def _places(host: str, answer: Examined) -> t.Iterator[_Place]:
    checkup, seen = answer.get("checkup"), answer.get("host")
    more = {vm.get("uuid"): vm for vm in (seen["vms"] if seen is not None else ())}
    for vm in checkup["vms"] if checkup else ():
        if vm["name"].endswith(CLAIM):
            continue
        known = more.get(vm["uuid"])
        addresses = (known.get("addresses") if known else None) or ()
        segments = (known.get("segments") if known else None) or ()
        yield _Place(host, vm, frozenset(map(normal_address, addresses)), frozenset(segments))


def _shared(
    places: t.Iterable[_Place], key: Key, *, alike: bool = False
) -> t.Iterator[tuple[str, list[_Place]]]:
    """The values that several VMs have, those to be kept first. Of one UUID they count as one,
    unless that is what they have ``alike``."""
    values: dict[str, list[_Place]] = {}
    for place in places:
        for value in key(place):
            values.setdefault(value, []).append(place)
    for value, several in sorted(values.items()):
        distinct = (
            several if alike else list({place.vm["uuid"]: place for place in several}.values())
        )
        if len(distinct) > 1:
            yield value, sorted(distinct, key=lambda place: place.rank)


def _names(place: _Place) -> list[str]:
    return [place.vm["name"]]


def _uuids(place: _Place) -> list[str]:
    return [str(place.vm["uuid"])]


def _macs(place: _Place) -> set[str]:
    return {mac.lower() for mac in place.vm["nic_macs"]}


def _hosts(places: t.Iterable[_Place]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(place.host for place in places))


def _said(places: t.Iterable[_Place]) -> str:
    return " and ".join(
        f"{place.said} ({'active' if place.vm['active'] else 'shut off'}, UUID {place.vm['uuid']})"
        for place in places
    )


def _name(name: str, places: list[_Place]) -> Finding:
    other = places[-1]
    fix = command_on(other.host, "virsh", "domrename", name, f"{name}-2")
    if other.vm["active"]:
        shut = playbook_command("state", vm_name=name, vm_host=other.host, vm_state="shutoff")
        fix = f"{shut}; then {fix}"
    text = (
        "a VM may exist only once, and a verb acts on that name only where vm_host says which is"
        f" meant: {_said(places)}"
    )
    return Finding("name_twice", _hosts(places), text, f"if that is the wrong one: {fix}")


def _uuid(uuid: str, places: list[_Place]) -> Finding:
    other = places[-1]
    name = other.vm["name"]
    fix = command_on(other.host, "virsh", "undefine", "--keep-nvram", name)
    if {place.vm["name"] for place in places} == {name}:
        repair = playbook_command("repair_vms", vm_name=name)
        fix = f"{repair}; if that leaves both, and the one on {other.host} is the wrong one: {fix}"
    else:
        fix = f"if that is the wrong one (its disks stay): {fix}"
    return Finding("uuid_twice", _hosts(places), f"one UUID, {uuid}: {_said(places)}", fix)


def _mac(mac: str, places: list[_Place]) -> Finding:
    text = f"one MAC address, {mac}: {_said(places)}"
    return Finding("mac_twice", _hosts(places), text, _other_mac(places[-1], mac))


def _other_mac(place: _Place, mac: str) -> str:
    """The commands that leave the address to libvirt; all else of the NIC, as its VLAN, stays."""
    name = place.vm["name"]
    change = pipe_on(
        place.host,
        ("virsh", "dumpxml", "--inactive", "--security-info", name),
        ("sed", f"/mac.address=.{mac}/Id"),
        ("virsh", "define", "/dev/stdin"),
    )
    if not place.vm["active"]:
        return change
    shut, start = (
        playbook_command("state", vm_name=name, vm_host=place.host, vm_state=state)
        for state in ("shutoff", "running")
    )
    return f"{shut} && {change} && {start}"


def _meet(places: t.Sequence[_Place]) -> bool:
    """Whether two of them are on one segment."""
    seen: set[str] = set()
    for place in places:
        if seen & place.segments:
            return True
        seen |= place.segments
    return False


def _address(address: str, places: list[_Place]) -> Finding:
    other = places[-1]
    text = f"one static address on one segment, {address}: {_said(places)}"
    return Finding("address_twice", _hosts(places), text, _other_address(other))


def _other_address(place: _Place) -> str:
    """A guest reads a seed once."""
    name = place.vm["name"]
    if place.vm["active"]:
        shut = playbook_command("state", vm_name=name, vm_host=place.host, vm_state="shutoff")
        return (
            "recreate it with another address in vm_seed (what is changed in the guest is not seen"
            f" here); until then this ends the conflict: {shut}"
        )
    seed = module_on(place.host, "virt_seed", name=name)
    return (
        "recreate it with another address in vm_seed; if it was never started, seed it anew, by"
        f" DHCP unless network says otherwise: {seed}"
    )
