# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hypervisors form a cell, and in which order members are added and removed."""

from __future__ import annotations

import re
import typing as t

from ..._records import dataclass
from ..base.names import playbook_command
from ..cell.facts import CellLook

FEWEST, MOST = 3, 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class CellHost:
    """A hypervisor of the inventory that is to be in the cell, or to leave it (not ``stays``).

    ``look`` is what it answered; None if it did not, and then ``silence`` says why.
    ``device_problem``: why nothing proves that it is off.
    """

    name: str
    stays: bool
    addresses: tuple[str, ...]
    look: CellLook | None
    silence: str = ""
    device_problem: str = ""


def refusals(cell: str, hosts: t.Sequence[CellHost], *, qdevice: bool) -> list[str]:
    """Why the cell can not be made, or changed, so."""
    problems: list[str] = []
    staying = [host for host in hosts if host.stays]
    names = [cell, *(host.name for host in hosts)]
    problems += [
        f"{name!r} is no name that corosync and Pacemaker can use; letters, digits, '._-' are"
        for name in names
        if not _NAME.fullmatch(name)
    ]
    problems += _size(cell, staying, qdevice=qdevice)
    problems += [
        f"{host.name} does not answer ({host.silence}), and every member must; if it is gone for"
        " good, give it virt_ha_state: absent"
        for host in staying
        if host.look is None
    ]
    problems += _releases(cell, staying)
    problems += [host.device_problem for host in staying if host.device_problem]
    problems += _addresses(staying)
    problems += _alike(staying)
    problems += _others(cell, hosts)
    if not problems:
        problems += _membership(cell, hosts)
    return problems


def _size(cell: str, staying: t.Sequence[CellHost], *, qdevice: bool) -> t.Iterator[str]:
    names = ", ".join(host.name for host in staying)
    if len(staying) == 2 and not qdevice:
        yield (
            f"cell {cell!r} has two hypervisors, {names}: neither can know whether the other has"
            " failed; add a third, or a quorum device by virt_ha_qdevice"
        )
    elif len(staying) == 1:
        yield f"cell {cell!r} has {names} alone; a cell has {FEWEST} to {MOST} hypervisors"
    elif len(staying) > MOST:
        yield (
            f"cell {cell!r} has {len(staying)} hypervisors; a cell has at most {MOST}: make several"
        )


def _releases(cell: str, staying: t.Sequence[CellHost]) -> t.Iterator[str]:
    releases: dict[str, list[str]] = {}
    for host in staying:
        if host.look is not None:
            releases.setdefault(host.look.get("release", ""), []).append(host.name)
    if len(releases) > 1:
        shown = "; ".join(f"{release}: {', '.join(names)}" for release, names in releases.items())
        yield (
            f"cell {cell!r} has hypervisors of several releases ({shown}), of which the older can"
            " no longer join once a newer one has been alone; make a cell for each release"
        )


def _addresses(staying: t.Sequence[CellHost]) -> t.Iterator[str]:
    known: dict[str, str] = {}
    for host in staying:
        for address in host.addresses:
            if address in known or address.startswith("127."):
                other = known.get(address, "the loopback interface")
                yield (
                    f"{host.name} has the address {address} of {other}; give it one of its own by"
                    " virt_ha_addresses"
                )
            known.setdefault(address, host.name)
    if len({len(host.addresses) for host in staying}) > 1:
        yield "the members have different numbers of addresses in virt_ha_addresses; give as many"


def _alike(staying: t.Sequence[CellHost]) -> t.Iterator[str]:
    """Pacemaker takes two of these for one node, and would have the devices of one prove that the
    other is off."""
    known: dict[str, str] = {}
    for host in staying:
        other = known.setdefault(host.name.lower(), host.name)
        if other != host.name:
            yield (
                f"{other} and {host.name} are one name to Pacemaker, which does not tell capitals"
                " from small letters; rename one in the inventory"
            )


def _others(cell: str, hosts: t.Sequence[CellHost]) -> t.Iterator[str]:
    for host in hosts:
        look = host.look or {}
        other, foreign = look.get("cell"), look.get("foreign")
        if other not in (None, cell):
            yield (
                f"{host.name} is a member of the cell {other!r}; take it out of that first, with"
                f" virt_ha_cell: {other} and virt_ha_state: absent"
            )
        elif foreign is not None:
            yield (
                f"{host.name} is a node of the cluster {foreign!r}, which fleet.virt did not make;"
                " it is left as it is"
            )
        elif host.stays and look.get("missing"):
            agents = look.get("missing") or []
            names = ",".join(agent.partition("_")[2] for agent in agents)
            yield (
                f"{host.name} does not have the fence agents {', '.join(agents)}; install them by"
                f" {playbook_command('setup_hypervisors', libvirtd_fence_agents=names)}"
            )
        elif host.stays and look.get("unfit"):
            reasons = "; ".join((look.get("unfit") or {}).values())
            yield (
                f"{host.name} has a fence agent that is no proof that a host is off: {reasons};"
                " declare in virt_fence of each hypervisor what switches its power"
            )


def _membership(cell: str, hosts: t.Sequence[CellHost]) -> t.Iterator[str]:
    """Why members cannot be added or removed now."""
    current, looks = numbers(cell, hosts), _running(cell, hosts)
    known = {host.name: host for host in hosts}
    leaving = [name for name in current if name not in known or not known[name].stays]
    joining = [host.name for host in hosts if host.stays and host.name not in current]
    if not looks or not (leaving or joining):
        return
    online = {name for look in looks.values() for name in look.get("online") or []}
    unclean = {name for look in looks.values() for name in look.get("unclean") or []}
    for name in current:
        gone = name in leaving and (name not in known or known[name].look is None)
        if name in unclean:
            yield f"{name} is not proven off; members change once it is, or is back"
        elif gone and name in online:
            what = "is no host of the inventory" if name not in known else "does not answer"
            yield (
                f"{name} {what}, but is online in the cell {cell!r}; give it virt_ha_cell: {cell}"
                " and virt_ha_state: absent, or switch it off"
            )
        elif not gone and name not in online and name not in leaving:
            yield (
                f"{name} is not online in the cell {cell!r}, whose members change only while all"
                " are: start corosync and pacemaker there"
            )
    if not any(look.get("quorate") for look in looks.values()):
        yield f"cell {cell!r} has no quorum; its members change only with it"
    vms = sorted({vm for look in looks.values() for vm in look.get("resources") or []})
    if not any(host.stays for host in hosts) and vms:
        yield (
            f"cell {cell!r} still has VMs ({', '.join(vms)}); make them plain ones first, with"
            " ha: false"
        )
        return
    for name in leaving:
        here = (looks.get(name) or {}).get("here") or []
        if here:
            yield f"{name} runs {', '.join(here)} of the cell {cell!r}; evacuate it first"


def _running(cell: str, hosts: t.Sequence[CellHost]) -> dict[str, CellLook]:
    """What the members say whose Pacemaker runs."""
    return {
        host.name: host.look
        for host in hosts
        if host.look is not None and host.look.get("cell") == cell and host.look.get("running")
    }


def is_running(cell: str, hosts: t.Sequence[CellHost]) -> bool:
    """Whether the cell runs on any of them."""
    return bool(_running(cell, hosts))


def numbers(cell: str, hosts: t.Sequence[CellHost]) -> dict[str, int]:
    """The members that the cell has now, by what its own members say."""
    known: dict[str, int] = {}
    looks = [host.look for host in hosts if host.look is not None]
    for look in sorted(looks, key=lambda look: not look.get("running")):
        if look.get("cell") == cell:
            for name, number in (look.get("numbers") or {}).items():
                if number not in known.values() and number > 0 and _NAME.fullmatch(name):
                    known.setdefault(name, number)
    return known


def rounds(cell: str, hosts: t.Sequence[CellHost]) -> list[list[str]]:
    """The members after each round: one more or one less than before, so that the cell keeps its
    quorum; all at once where nothing runs. Those that the inventory does not have are off, and
    removed first: the others are left without an address of theirs."""
    staying = [host.name for host in hosts if host.stays]
    if not staying or not is_running(cell, hosts):
        return [staying]
    known = {host.name for host in hosts}
    current = [*numbers(cell, hosts)]
    members = [name for name in current if name in known]
    steps: list[list[str]] = [members] if members != current else []
    for name in [name for name in members if name not in staying]:
        members = [member for member in members if member != name]
        steps.append(members)
    for name in staying:
        if name not in members:
            members = [*members, name]
            steps.append(members)
    return steps or [members]


def all_numbers(cell: str, hosts: t.Sequence[CellHost]) -> dict[str, int]:
    """A number for every member; those that are there keep theirs."""
    known = numbers(cell, hosts)
    for host in hosts:
        if host.stays and host.name not in known:
            known[host.name] = max(known.values(), default=0) + 1
    return known
