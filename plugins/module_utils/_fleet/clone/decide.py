# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers whether a VM is copied, and what the copy is made with.

The copy is a VM like any other: its disks are created from base images, and the rest is requested
as in its source's definition, without what identifies the source.
"""

from __future__ import annotations

import copy
import re
import typing as t
from collections.abc import Mapping

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..._units import MIB
from ..base.answers import VmIdentity
from ..base.json_values import as_mapping, as_mappings
from ..base.metadata import UNREADABLE
from ..base.names import playbook_command, require_named
from ..base.results import GENERATED
from ..engine import leases, located
from ..engine.outcomes import outcomes
from ..images.facts import KnownImage
from ..spec import leftovers
from ..spec.leftover_rules import DATA_STORE
from ..spec.settings import VM
from ..storage.base_name import BaseName
from ..template.facts import CloneLook, CloneSource, Templated, TemplatedVm
from .options import MODES

_COPY = "-copy-"
State = t.Literal["new", "begun", "there"]
_STATES: tuple[State, ...] = ("new", "begun", "there")
# Named by a copy: an image with another name and the same content belongs to somebody else
_INTERMEDIATE = re.compile(rf".+{_COPY}[0-9a-f]{{8}}(-[a-z0-9]+)?")
_POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Phases of a copy being made: two runs of the same request are one
_BEGUN = ("creating", "starting")
# What a copy takes from its source and must not be requested
_DISKS = ("image", "disks", "disk_profile")
# What a VM's description never contains: giving it all the same has no effect
_NOT_DESCRIBED = ("image", "seed", "host", "zone", "tags", "wait", "ssh_public_keys")


Fleet = located.Fleet[CloneLook]


@dataclass(frozen=True)
class CloneDecision:
    """``state``: the copy is ``new``, or was ``begun`` by an interrupted run, or is ``there``.

    ``host`` has the source (of a copy that is there: the copy). ``image`` is the name of the base
    images that are made for it. ``volumes`` are the base images that it was made of, by target.
    """

    state: State
    host: str
    mode: str
    image: str = ""
    volumes: Mapping[str, str] | None = None

    def as_dict(self) -> dict[str, object]:
        """For the tasks after this one."""
        return {
            "state": self.state,
            "hypervisor": self.host,
            "mode": self.mode,
            "image": self.image,
            "volumes": dict(self.volumes or {}),
        }


def decision_of(values: Mapping[str, object]) -> CloneDecision:
    """What :meth:`Decision.as_dict` made."""
    state = next((state for state in _STATES if state == values.get("state")), None)
    if state is None:
        raise PlanRefused("decision: missing; give what this module returned before")
    volumes = {name: str(one) for name, one in as_mapping(values.get("volumes")).items()}
    return CloneDecision(
        state,
        str(values.get("hypervisor")),
        str(values.get("mode")),
        str(values.get("image")),
        volumes,
    )


def _vms_by_host(seen: Fleet) -> dict[str, list[VmIdentity]]:
    return {host: answer.get("defined") or [] for host, answer in seen.answers.items()}


def _source_on(host: str, name: str, seen: Fleet) -> CloneSource | None:
    """How the VM is described, if it is the source or the copy in question, and could be read."""
    sources = seen.answers[host].get("sources") or ()
    source = next((source for source in sources if source["name"] == name), None)
    if source is not None and source.get("error"):
        raise PlanRefused(f"{name!r} on {host}: {source.get('error')}")
    return source


def decide(
    name: str,
    clone_of: str,
    mode: str | None,
    seen: Fleet,
    token: str,
    requested: t.Collection[str] = (),
) -> CloneDecision:
    """What has to be done; raises PlanRefused with everything that is unproven.

    ``token`` tells the images of this run from those of another. ``requested`` are the settings
    whose value was requested for the copy.
    """
    require_named([name, clone_of])
    if name == clone_of:
        raise PlanRefused(f"vm_name: {name!r} is the VM to copy; give the name of the copy")
    # Whether a silent hypervisor may have it is judged where it is placed, by what others noted
    locations = located.locate([name], _vms_by_host(seen), {})
    if locations.problems:
        raise PlanRefused("; ".join(locations.problems))
    place = locations.places.get(name)
    if place is not None:
        host, vm = place
        source = _source_on(host, name, seen)
        decided = _existing(name, clone_of, mode, host, vm["phase"], source)
        if decided.state == "there":
            return decided
        host = _source_host(clone_of, seen, requested)
        return CloneDecision("begun", host, decided.mode, "", decided.volumes)
    taken = [
        f"{vm['name']!r} is on {host}; VM names are unique, ignoring case: choose another"
        for host, vms in _vms_by_host(seen).items()
        for vm in vms
        if vm["name"].lower() == name.lower()
    ]
    if taken:
        raise PlanRefused("; ".join(taken))
    host = _source_host(clone_of, seen, requested)
    return CloneDecision("new", host, mode or MODES[0], f"{clone_of}{_COPY}{token}")


def _source_host(clone_of: str, seen: Fleet, requested: t.Collection[str]) -> str:
    """The hypervisor of the VM that is copied."""
    locations = located.locate([clone_of], _vms_by_host(seen), seen.silent)
    problems = list(locations.problems)
    if locations.absent and not problems:
        problems.append(
            f"no hypervisor has a VM {clone_of!r}; ansible-playbook fleet.virt.list shows the VMs"
        )
    if problems:
        raise PlanRefused("; ".join(problems))
    host, vm = locations.places[clone_of]
    source = _source_on(host, clone_of, seen)
    if source is None or source["specification"] is None:
        _require_complete(vm)
        why = "; ".join(source["problems"] if source else ()) or "it cannot be described"
        raise PlanRefused(f"{clone_of!r} on {host} cannot be copied: {why}")
    _require_copyable(vm, source, host, requested)
    return host


def _require_complete(vm: VmIdentity) -> None:
    """Raise PlanRefused if another run changes the VM: what its definition lacks or has beyond
    need not be mended. One that can be copied nevertheless is waited for on its hypervisor."""
    if vm["phase"] not in (None, UNREADABLE):
        before = ", before the VM is copied"
        raise PlanRefused(leases.in_phase(vm["name"], vm["phase"], None, before))


def _require_copyable(
    vm: VmIdentity, source: CloneSource, host: str, requested: t.Collection[str]
) -> None:
    """Raise PlanRefused if the copy would lack something of its source without a word."""
    refused = leftovers.not_at(source["refused"], VM, requested)
    spec = source["specification"] or {}
    if "serials" not in requested:
        refused += [
            f"devices/serial[@type='{one.get('type')}']"
            for one in as_mappings(spec.get("serials"))
            if one.get("type") == "file" or one.get("mode") == "bind"
        ]
    if not refused:
        return
    _require_complete(vm)
    names = dict.fromkeys(f"vm_{one}" for one in leftovers.settings_at(refused, VM))
    own = f", or request the copy's own with {' and '.join(names)}" if names else ""
    raise PlanRefused(
        f"{vm['name']!r} on {host} cannot be copied: the copy would lack"
        f" {', '.join(dict.fromkeys(refused))} of its definition, which two VMs cannot share, or"
        f" which is not known here; remove that from it (virsh edit {vm['name']}){own}"
    )


def left_out(
    clone_of: str, decision: CloneDecision, seen: Fleet, requested: t.Collection[str]
) -> list[str]:
    """What people must know of the copy to be made: what it lacks of its source's definition."""
    source = _source_on(decision.host, clone_of, seen) if decision.state != "there" else None
    lacks = leftovers.not_at(source["left_out"], VM, requested) if source is not None else []
    said = []
    if DATA_STORE in lacks:
        lacks = [path for path in lacks if path != DATA_STORE]
        said.append(
            f"disks of {clone_of!r} have their data in another file ({DATA_STORE}); in its copy"
            " each is one file, with the same content"
        )
    if lacks:
        said.append(
            f"the copy of {clone_of!r} lacks {', '.join(lacks)}, which identify it: where the copy"
            " needs them, give it its own (virsh edit; a network filter gets the addresses that"
            " vm_seed gives its NIC)"
        )
    return said


def _existing(
    name: str,
    clone_of: str,
    mode: str | None,
    host: str,
    phase: str | None,
    source: CloneSource | None,
) -> CloneDecision:
    """Check whether a VM with the name of the copy is that copy."""
    request = (source["request"] if source else None) or {}
    disks = [one for one in as_mappings(request.get("disks")) if one.get("image") is not None]
    volumes = {
        str(one.get("name")): str(as_mapping(one["image"]).get("value") or "") for one in disks
    }
    known = all(is_base(*one.split("/", 1)) for one in volumes.values() if "/" in one)
    known = known and all("/" in one for one in volumes.values())
    if source is None or source["clone_of"] != clone_of or not volumes or not known:
        raise PlanRefused(
            f"a VM {name!r} already exists on {host} and is not a copy of {clone_of!r}; choose"
            " another name, or remove it first"
        )
    is_mode = MODES[0] if any(one.get("overlay") for one in disks) else MODES[1]
    if mode not in (None, is_mode):
        raise PlanRefused(
            f"{name!r} on {host} already is a {is_mode} copy of {clone_of!r}, requested is a {mode}"
            " one; choose another name, or remove it first"
        )
    if phase in _BEGUN:
        return CloneDecision("begun", host, is_mode, "", volumes)
    return CloneDecision("there", host, is_mode, "", volumes)


@dataclass(frozen=True)
class CloneRequest:
    """What is requested instead: ``vms`` is one VM, ``images`` describe its images for all
    hypervisors, ``intermediate`` ones are removed once a full copy exists. ``leftovers`` are what
    it gets of its source's definition beside its settings."""

    vms: list[dict[str, object]]
    images: dict[str, KnownImage]
    intermediate: list[str]
    leftovers: dict[str, object] = field(default_factory=dict)


def wanted(
    name: str,
    clone_of: str,
    decision: CloneDecision,
    seen: Fleet,
    copied: Mapping[str, Templated],
    overrides: Mapping[str, object],
) -> CloneRequest:
    """The copy as the request of any VM; raises PlanRefused if its source was not copied."""
    wrong = [f"vm_{key}" for key in _DISKS if key in overrides]
    if wrong:
        raise PlanRefused(
            f"{', '.join(wrong)}: a copy has the disks of its source; leave it out, and change"
            f" the copy's disks afterwards with {playbook_command('provision_vm', vm_name=name)}"
        )
    if decision.state == "there":
        # its present state, so that only differing requests change anything
        spec, _copy = _described(name, decision.host, seen)
        spec.pop("start", None)
        volumes = decision.volumes or {}
        return CloneRequest(
            [{**spec, **overrides, "name": name}], {}, _intermediate(decision, volumes)
        )
    volumes = decision.volumes or {}
    images: dict[str, KnownImage] = {}
    if decision.state == "new":
        volumes, images = _made(clone_of, decision.host, copied)
    described, source = _described(clone_of, decision.host, seen)
    spec = _of_source(clone_of, described, source, volumes, decision.mode)
    if any(answer.get("alone") for answer in seen.answers.values()) and "host" not in overrides:
        spec["host"] = decision.host  # where the images are: they cannot travel
    carried = source["carried"]
    return CloneRequest(
        [{**spec, **overrides, "name": name}],
        images,
        _intermediate(decision, volumes),
        {"carried": carried, "requested": sorted(overrides)} if carried else {},
    )


def _intermediate(decision: CloneDecision, volumes: Mapping[str, str]) -> list[str]:
    if decision.mode != MODES[1]:
        return []
    names = [BaseName.at(volume) for volume in volumes.values()]
    return [str(name) for name in names if name is not None and _is_intermediate(name)]


def _is_intermediate(name: BaseName) -> bool:
    return name.format == "qcow2" and _INTERMEDIATE.fullmatch(name.name) is not None


def is_base(pool: str, volume: str, digest: str | None = None) -> bool:
    """Whether it can only be the volume of a base image."""
    name = BaseName.parse(volume)
    if name is None or digest not in (None, str(name.digest)):
        return False
    return _POOL.fullmatch(pool) is not None


def _described(name: str, host: str, seen: Fleet) -> tuple[dict[str, object], CloneSource]:
    source = _source_on(host, name, seen)
    spec = source["specification"] if source else None
    if source is None or spec is None:
        raise PlanRefused(f"{host} returned no specification of {name!r}; run this again")
    options = {key: value for key, value in spec.items() if key not in _NOT_DESCRIBED}
    options = copy.deepcopy(options)
    disks = options.get("disks")
    if isinstance(disks, list):
        for disk in disks:
            if isinstance(disk, dict):
                disk.pop("image", None)
    return options, source


def _made(
    clone_of: str, host: str, copied: Mapping[str, Templated]
) -> tuple[dict[str, str], dict[str, KnownImage]]:
    """The base images that were created, by target, and what is known of each."""
    (outcome,) = outcomes({host: [clone_of]}, copied, TemplatedVm)
    if outcome.problem is not None:
        raise PlanRefused(f"{outcome.problem}; no copy was made")
    volumes: dict[str, str] = {}
    images: dict[str, KnownImage] = {}
    for entry in copied[host].get("images") or ():
        target, volume = entry["target"], entry["volume"]
        if volume == GENERATED:
            volume = f"{GENERATED}-{target}"
        elif not is_base(entry["pool"], volume, entry["digest"]):
            raise PlanRefused(f"{host}: {volume!r} is no base image; check what responds there")
        value = f"{entry['pool']}/{volume}"
        volumes[target] = value
        images[value] = {
            "name": entry["name"],
            "digest": entry["digest"],
            "format": entry["format"],
            "virtual_bytes": (entry["size_mib"] or 0) * MIB,
        }
    return volumes, images


def _of_source(
    name: str, spec: dict[str, object], source: CloneSource, volumes: Mapping[str, str], mode: str
) -> dict[str, object]:
    """The specification of the source ``name`` without what identifies it, on copies of its
    disks."""
    for key in ("start", "autostart", "disk_profile"):
        spec.pop(key, None)
    spec["disk_profile"] = "none"
    disks = []
    for disk in as_mappings(spec.get("disks")):
        copied = dict(disk)
        volume = volumes.get(str(copied.get("name")))
        if volume is not None:
            copied.update(image=volume, overlay=mode == MODES[0])
            if mode == MODES[0]:
                copied.pop("format", None)  # an overlay is qcow2
        copied.pop("serial", None)
        copied.pop("wwn", None)
        disks.append(copied)
    if disks:
        spec["disks"] = disks
    missing = set(volumes) - {str(disk.get("name")) for disk in disks}
    if missing:
        raise PlanRefused(
            f"disk {', '.join(sorted(missing))} of the source cannot be described, so a copy would"
            f" lack it; {playbook_command('adopt', vm_name=name)} --check shows why"
        )
    spec["nics"] = [
        {key: value for key, value in nic.items() if key != "mac"}
        for nic in as_mappings(spec.get("nics"))
    ]
    console = spec.get("console")
    if isinstance(console, Mapping):
        spec["console"] = {key: value for key, value in console.items() if key != "port"}
    spec["seed"] = _seed(source)
    return spec


def _seed(source: CloneSource) -> object:
    """The source's seed; if it is not known, the seed of any new VM."""
    request = source["request"]
    if request is None or "seed" not in request:
        return True
    seed = request["seed"]
    if not isinstance(seed, Mapping):
        return False
    return {key: seed[key] for key in ("user", "method") if seed.get(key) is not None}
