# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_migrate``, for the module and its action plugin, and reading them:
everything that is wrong is reported."""

from __future__ import annotations

import re
import typing as t

from ..._errors import Problem, SpecError
from ..._records import dataclass, field
from ..base.json_values import as_number
from ..engine.envelope import SelectingWork
from .types import Destination, LostSource, MigrationOptions

if t.TYPE_CHECKING:
    from ..base.arguments import Spec


VM: Spec = {
    "name": {"type": "str", "required": True},
    "destination": {
        "type": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "address": {"type": "str"},
            "bridges": {"type": "list", "elements": "str"},
            "marked": {"type": "bool", "default": False},
            "expired": {"type": "list", "elements": "str", "default": []},
            "missing_certificates": {"type": "list", "elements": "str", "default": []},
            "needed": {"type": "dict", "default": {}},
            "coming": {"type": "list", "elements": "str", "default": []},
        },
    },
    "lost_source": {
        "type": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "default": []},
        },
    },
}
ARGUMENTS: Spec = {
    "vms": {"type": "list", "elements": "dict", "options": VM, "default": []},
    "state": {"type": "str", "choices": ["moved", "repaired"], "default": "moved"},
    "source": {"type": "str"},
    "keep_volumes": {"type": "bool", "default": False},
    "eject_media": {"type": "bool", "default": False},
    "parallel": {"type": "int", "default": 2},
    "bandwidth": {"type": "int"},
    "max_downtime": {"type": "int"},
    "auto_converge": {"type": "bool", "default": True},
    "tunnelled": {"type": "bool", "default": False},
    "parallel_connections": {"type": "int"},
    "seconds_per_gib": {"type": "int", "default": 800},
    "on_timeout": {"type": "str", "choices": ["abort", "pause"], "default": "abort"},
    "base_pool": {"type": "str", "default": "base"},
}

# A host name or an address: nothing that could be another part of a URI
_ADDRESS = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_POSITIVE = ("parallel", "bandwidth", "max_downtime", "parallel_connections", "seconds_per_gib")


class DestinationOption(t.TypedDict):
    """The suboptions of ``vms[].destination`` that are always there."""

    name: str


class DestinationOptions(DestinationOption, total=False):
    """Where a VM should go, as given by the playbook."""

    address: str | None
    bridges: list[str] | None
    marked: bool | None
    expired: list[str] | None
    missing_certificates: list[str] | None
    needed: dict[str, object] | None
    coming: list[str] | None


class LostOptions(t.TypedDict):
    """The lost hypervisor that a VM came from."""

    name: str
    addresses: list[str]


class MoveOption(t.TypedDict):
    """The suboptions of ``vms`` that are always there."""

    name: str
    destination: DestinationOptions


class MoveOptions(MoveOption, total=False):
    """A VM to move; Ansible has checked the types."""

    lost_source: LostOptions | None


def options(given: t.Mapping[str, t.Any]) -> MigrationOptions:
    """How to move; raises SpecError with every invalid number."""
    problems = [
        Problem(name, f"{given[name]} is not above 0")
        for name in _POSITIVE
        if given.get(name) is not None and given[name] <= 0
    ]
    if given["tunnelled"] and given.get("parallel_connections") is not None:
        text = "a tunnel is one connection; leave this out, or tunnelled"
        problems.append(Problem("parallel_connections", text))
    if problems:
        raise SpecError(problems)
    return MigrationOptions(
        keep_volumes=given["keep_volumes"],
        eject_media=given["eject_media"],
        bandwidth=given["bandwidth"],
        max_downtime=given["max_downtime"],
        auto_converge=given["auto_converge"],
        tunnelled=given["tunnelled"],
        parallel_connections=given["parallel_connections"],
        seconds_per_gib=given["seconds_per_gib"],
        on_timeout=given["on_timeout"],
    )


def moves(
    vms: t.Sequence[MoveOptions], here: str, *, repair: bool = False
) -> list[tuple[str, Destination, LostSource | None]]:
    """The VMs with their destinations, and with the hypervisor that each came from if that is lost;
    raises SpecError with everything that is wrong."""
    requested: list[tuple[str, Destination, LostSource | None]] = []
    problems = []
    seen: set[str] = set()
    for index, vm in enumerate(vms):
        name, to = str(vm["name"]), vm["destination"]
        address = str(to.get("address") or to["name"])
        where = f"vms[{index}]"
        if not name:
            problems.append(Problem(f"{where}.name", "it is empty; name the VM"))
        elif name in seen:
            problems.append(Problem(f"{where}.name", f"{name!r} is given twice; move it once"))
        seen.add(name)
        lost = vm.get("lost_source")
        if lost is not None:
            problems += _lost(f"{where}.lost_source", name, to["name"], lost, here, repair=repair)
        elif to["name"] == here:
            text = f"{name!r} is to go from {here} to {here}; name another hypervisor"
            problems.append(Problem(f"{where}.destination", text))
        if not _ADDRESS.fullmatch(address):
            text = f"{address!r} is no host name or address; give one that the certificate names"
            problems.append(Problem(f"{where}.destination.address", text))
        bridges = to.get("bridges")
        known = None if bridges is None else tuple(str(bridge) for bridge in bridges)
        destination = Destination(
            str(to["name"]),
            address,
            known,
            marked=bool(to.get("marked")),
            expired=tuple(str(text) for text in to.get("expired") or ()),
            missing_certificates=tuple(str(text) for text in to.get("missing_certificates") or ()),
            needed={key: as_number(size) or 0 for key, size in (to.get("needed") or {}).items()},
            incoming=tuple(str(path) for path in to.get("coming") or ()),
        )
        gone = None if lost is None else LostSource(lost["name"], tuple(lost["addresses"]))
        requested.append((name, destination, gone))
    if problems:
        raise SpecError(problems)
    return requested


def _lost(
    path: str, name: str, to: str, lost: LostOptions, here: str, *, repair: bool
) -> list[Problem]:
    """What is wrong with the options of a lost hypervisor."""
    problems = []
    if not repair:
        problems.append(Problem(path, "only with state: repaired; no VM moves from a lost one"))
    if to != here:
        text = f"{name!r} was to go to {to}, and this is {here}; run it there"
        problems.append(Problem(path, text))
    if lost["name"] == here:
        problems.append(Problem(f"{path}.name", f"{here} runs this; leave lost_source out"))
    return problems


@dataclass(frozen=True)
class MigrateWork(SelectingWork):
    """A stage of moving VMs: those selected, all of a hypervisor that is ``evacuated``, or those
    whose ``home`` one is; ``base_path`` is where base images are made, and ``relax`` allows an
    evacuation to break rules of anti-affinity. ``places`` are the destinations, their machine UUID
    and when they were read by their own clock, in milliseconds: ``UUID.AT``. ``cards`` are the VMs
    whose cards are to be written, ``unmanaged`` those, by UUID, that their cell is to manage again.
    ``partly``: VMs that a silent hypervisor may have, or that are off and cannot leave, stay there,
    and that is no failure. ``named`` is what VMs name, to compare with what is there."""

    STAGES = ("all", "look", "names", "compare", "decide", "bases", "act", "report")

    names: list[str] = field(default_factory=list)
    evacuated: str = ""
    home: str = ""
    base_path: str = "/var/lib/libvirt/base"
    relax: bool = False
    partly: bool = False
    places: dict[str, str] = field(default_factory=dict)
    cards: list[str] = field(default_factory=list)
    unmanaged: list[str] = field(default_factory=list)
    named: dict[str, list[dict[str, str]]] = field(default_factory=dict)
