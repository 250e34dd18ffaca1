# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Pacemaker's configuration (CIB) is to have, and how the present one differs from it."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ... import _lxml
from ..._records import dataclass
from .facts import HELD_BY, OTHER_PREFIX, PREFIX, VM_PREFIX, CellVm, FenceResource

if t.TYPE_CHECKING:
    from ..._lxml import Element

# A node whose state is unknown is switched off, and stays so until a person has looked at it. A
# minority stops its VMs. One refusal, by the lock of a disk for one, bans no hypervisor. The stop
# of a resource that was removed fails, with its parameters gone, and has its hypervisor fenced.
PROPERTIES = {
    "stonith-enabled": "true",
    "stonith-action": "off",
    "stonith-timeout": "30s",
    "no-quorum-policy": "stop",
    "start-failure-is-fatal": "false",
    "stop-orphan-resources": "false",
}
# VMs stay where they are; what a hypervisor could not start it may try again after a while
DEFAULTS = {"resource-stickiness": "1000", "failure-timeout": "120s"}
_SET, _DEFAULTS = "cib-bootstrap-options", "fleet-defaults"
# A permanent attribute of a member in maintenance. Pacemaker starts nothing where the score is
# below zero; the stickiness outweighs this one where a VM runs already.
MAINTENANCE = "fleet-maintenance"
_KEEP_AWAY = "-500"
# Fencing needs no started device. But each failure of a start ends what Pacemaker was about to do,
# and it starts VMs after fence devices: devices that do not answer, tried on one member after the
# other, would keep every VM from starting. So a failure is shown, and nothing more comes of it. VMs
# wait for a start that fails, and for the monitor that follows it at once: hence both are short.
_OF_DEVICES = {"failure-timeout": "60s"}
_OPERATIONS = (
    {"name": "start", "interval": "0", "timeout": "10s", "on-fail": "ignore"},
    {"name": "monitor", "interval": "60s", "timeout": "10s", "on-fail": "ignore"},
)


_AGENT = "ocf:fleet:domain"
_OPERATION = re.compile(r"(.*)_[a-z-]+_\d+")
_TARGETS: dict[str, t.Literal["Started", "Stopped"]] = {"Started": "Started", "Stopped": "Stopped"}


@dataclass(frozen=True)
class CibChange:
    """A call of cibadmin with ``xml`` as its input; only ``text`` is shown. The resource ``stop``
    is to be stopped before: what is removed while it runs goes on."""

    text: str
    words: tuple[str, ...]
    xml: str
    stop: str = ""


def changes(cib: Element, devices: t.Sequence[FenceResource]) -> list[CibChange]:
    """What makes the configuration as it is to be; nothing of others' is touched."""
    return [
        *_values(cib, "crm_config", "cluster_property_set", _SET, PROPERTIES),
        *_values(cib, "rsc_defaults", "meta_attributes", _DEFAULTS, DEFAULTS),
        *_location(cib),
        *_elsewhere(cib, devices),
        *_devices(cib, devices),
    ]


def _values(
    cib: Element, section: str, kind: str, name: str, wanted: t.Mapping[str, str]
) -> list[CibChange]:
    present = {
        pair.get("name"): pair.get("value")
        for pair in cib.iterfind(f"configuration/{section}/{kind}/nvpair")
    }
    differing = {key: value for key, value in wanted.items() if present.get(key) != value}
    if not differing:
        return []
    root = _lxml.new(section)
    ids = {key: f"{name}-{key}" for key in differing}
    _add_pairs(_lxml.add(root, kind, {"id": name}), ids, differing)
    shown = ", ".join(f"{key}={value}" for key, value in differing.items())
    words = ("--modify", "--allow-create", "--scope", section)
    return [CibChange(f"set {shown}", words, _lxml.tostring(root))]


def _add_pairs(parent: Element, ids: t.Mapping[str, str], values: t.Mapping[str, str]) -> None:
    for key, value in values.items():
        _lxml.add(parent, "nvpair", {"id": ids[key], "name": key, "value": value})


def _location(cib: Element) -> list[CibChange]:
    """What keeps VMs from starting on members in maintenance."""
    wanted = _lxml.new("rsc_location", {"id": MAINTENANCE, "rsc-pattern": f"^{VM_PREFIX}"})
    rule = _lxml.add(wanted, "rule", {"id": f"{MAINTENANCE}-rule", "score": _KEEP_AWAY})
    condition = {"attribute": MAINTENANCE, "operation": "eq", "value": "true"}
    _lxml.add(rule, "expression", {"id": f"{MAINTENANCE}-expression", **condition})
    text = "start no VM on members in maintenance"
    return _constraint(cib, wanted, text)


def _constraint(cib: Element, wanted: Element, text: str) -> list[CibChange]:
    name = str(wanted.get("id"))
    present = cib.find(f"configuration/constraints/rsc_location[@id='{name}']")
    if present is not None and _attributes(present) == _attributes(wanted):
        return []
    result = [_delete("constraints", "rsc_location", name)] if present is not None else []
    words = ("--create", "--scope", "constraints")
    return [*result, CibChange(text, words, _lxml.tostring(wanted))]


def _elsewhere(cib: Element, devices: t.Sequence[FenceResource]) -> list[CibChange]:
    """What has no member run its own devices. One that fails would take them along, and they would
    have to start elsewhere before its VMs do, where a controller may have failed with it."""
    by_host: dict[str, list[str]] = {}
    for device in devices:
        by_host.setdefault(device.host, []).append(device.id)
    names, result = {host: _away(host) for host in by_host}, []
    for host, ids in by_host.items():
        pattern = f"^({'|'.join(map(re.escape, ids))})$"
        values = {"id": names[host], "rsc-pattern": pattern, "node": host, "score": "-INFINITY"}
        text = f"run no device of {host} on {host}"
        result += _constraint(cib, _lxml.new("rsc_location", values), text)
    for item in cib.iterfind("configuration/constraints/rsc_location"):
        name, host = str(item.get("id")), str(item.get("node"))
        if name in (_away(host), f"{PREFIX}{host}-elsewhere") and name not in names.values():
            result.append(_delete("constraints", "rsc_location", name))
    return result


def _away(host: str) -> str:
    return f"{OTHER_PREFIX}elsewhere-{host}"


def _attributes(root: Element) -> list[tuple[str, dict[str, str]]]:
    return [
        (str(item.tag), {str(key): str(value) for key, value in item.attrib.items()})
        for item in root.iter()
    ]


def _devices(cib: Element, devices: t.Sequence[FenceResource]) -> list[CibChange]:
    """What makes the devices as they are wanted. New ones come first, and old ones go last: the
    level of a host names only devices that are its own, at each moment."""
    added, replaced = [], []
    present = {
        str(item.get("id")): item
        for item in cib.iterfind("configuration/resources/primitive[@class='stonith']")
    }
    for device in devices:
        item = present.get(device.id)
        if item is not None and _content(item) == _content(_primitive(device)):
            continue
        xml = _lxml.tostring(_primitive(device))
        words = ("--create", "--scope", "resources")
        create = CibChange(f"fence {device.host} by {device.agent}", words, xml)
        if item is None:
            added.append(create)
        else:
            replaced += [_delete("resources", "primitive", device.id), create]
    wanted = {device.id for device in devices}
    removed = [
        dataclasses.replace(_delete("resources", "primitive", name), stop=name)
        for name in present
        if name.startswith((PREFIX, OTHER_PREFIX)) and name not in wanted
    ]
    return [*added, *_topology(cib, devices), *replaced, *removed]


def _primitive(device: FenceResource) -> Element:
    root = _lxml.new("primitive", {"id": device.id, "class": "stonith", "type": device.agent})
    given = {**device.parameters, **device.secrets}
    for tag, kind, values in (
        ("instance_attributes", "parameters", given),
        ("meta_attributes", "meta", _OF_DEVICES),
    ):
        ids = {key: f"{OTHER_PREFIX}{kind}.{key}-{device.id}" for key in values}
        name = f"{OTHER_PREFIX}{kind}-{device.id}"
        _add_pairs(_lxml.add(root, tag, {"id": name}), ids, values)
    operations = _lxml.add(root, "operations")
    for operation in _OPERATIONS:
        name = f"{OTHER_PREFIX}{operation['name']}-{device.id}"
        _lxml.add(operations, "op", {"id": name, **operation})
    return root


def _content(item: Element) -> tuple[object, ...]:
    pairs = item.iterfind("*/nvpair")
    return (
        item.get("type"),
        {pair.get("name"): pair.get("value") for pair in pairs},
        [
            {key: value for key, value in operation.items() if key != "id"}
            for operation in item.iterfind("operations/op")
        ],
    )


def _topology(cib: Element, devices: t.Sequence[FenceResource]) -> list[CibChange]:
    """A host with several power supplies is off when all of them are: one level with them all."""
    by_host: dict[str, list[str]] = {}
    for device in devices:
        by_host.setdefault(device.host, []).append(device.id)
    wanted = {host: ",".join(ids) for host, ids in by_host.items() if len(ids) > 1}
    taken = {device.id for device in devices}
    result = []
    present: dict[str, tuple[str, str | None]] = {}
    for level in cib.iterfind("configuration/fencing-topology/fencing-level"):
        name, host = str(level.get("id")), str(level.get("target"))
        if name not in (_level(host), f"{PREFIX}{host}-level"):
            continue
        if host in wanted and host not in present and name not in taken:
            present[host] = (name, level.get("devices"))
        else:
            result.append(_delete("fencing-topology", "fencing-level", name))
    for host, ids in wanted.items():
        # changed in its place: without it one device alone would count as proof
        name, devices_now = present.get(host, (_level(host), None))
        if devices_now != ids:
            root = _lxml.new("fencing-topology")
            values = {"id": name, "target": host, "index": "1", "devices": ids}
            _lxml.add(root, "fencing-level", values)
            words = ("--modify", "--allow-create", "--scope", "fencing-topology")
            text = f"fence {host} by all of {ids}"
            result.append(CibChange(text, words, _lxml.tostring(root)))
    return result


def _level(host: str) -> str:
    return f"{OTHER_PREFIX}level-{host}"


def _delete(section: str, tag: str, name: str) -> CibChange:
    xml = _lxml.tostring(_lxml.new(tag, {"id": name}))
    return CibChange(f"remove {name}", ("--delete", "--scope", section), xml)


@dataclass(frozen=True)
class Monitored:
    """What crm_mon says: nodes by their names, whether these have quorum, the VMs of the cell and
    the nodes that each runs on, and the fence devices that work."""

    online: t.AbstractSet[str]
    unclean: t.AbstractSet[str]
    quorate: bool
    vms: t.Mapping[str, t.Sequence[str]]
    devices: t.AbstractSet[str]


def monitored(root: Element) -> Monitored:
    """What the output of ``crm_mon --output-as=xml`` says."""
    nodes = [*root.iterfind("nodes/node")]
    center = root.find("summary/current_dc")
    vms = {
        str(item.get("id")): [str(node.get("name")) for node in item.iterfind("node")]
        for item in _vms(root)
    }
    return Monitored(
        frozenset(
            str(node.get("name"))
            for node in nodes
            if node.get("online") == "true" and node.get("pending") != "true"
        ),
        frozenset(str(node.get("name")) for node in nodes if node.get("unclean") == "true"),
        center is not None and center.get("with_quorum") == "true",
        vms,
        frozenset(
            str(item.get("id"))
            for item in root.iter("resource")
            if str(item.get("resource_agent")).startswith("stonith:")
            and item.get("role") == "Started"
            and "true" not in (item.get("failed"), item.get("failure_ignored"))
        ),
    )


def _vms(root: Element) -> list[Element]:
    return [
        item
        for item in root.iter("resource")
        if str(item.get("resource_agent")).replace("::", ":") == _AGENT
    ]


def vms(root: Element, resources: Element) -> dict[str, CellVm]:
    """VMs by UUID, of the output of ``crm_mon --output-as=xml`` and of the section ``resources``
    of the configuration."""
    reasons = _reasons(root)
    primitives = {str(item.get("id")): item for item in resources.iter("primitive")}
    result = {}
    for item in _vms(root):
        name = str(item.get("id"))
        primitive = primitives.get(name)
        given = _pairs(primitive, "instance_attributes")
        meta = _pairs(primitive, "meta_attributes")
        uuid = given.get("uuid") or name[len(VM_PREFIX) :]
        nodes = tuple(str(node.get("name")) for node in item.iterfind("node"))
        target = _TARGETS.get(str(item.get("target_role")))
        missing = not nodes and target != "Stopped" and name in reasons
        failed = item.get("failed") == "true" or missing
        result[uuid] = CellVm(
            uuid=uuid,
            cards=given.get("cards", ""),
            nodes=nodes,
            managed=item.get("managed") == "true",
            failed=failed,
            reason=reasons.get(name) if failed else None,
            target_role=target,
            by=meta.get(HELD_BY),
            pending=role if (role := str(item.get("role"))).endswith("ing") else None,
        )
    return result


def _pairs(primitive: Element | None, kind: str) -> dict[str, str]:
    if primitive is None:
        return {}
    pairs = primitive.iterfind(f"{kind}/nvpair")
    return {str(pair.get("name")): str(pair.get("value")) for pair in pairs}


def _reasons(root: Element) -> dict[str, str]:
    """What failed last of each resource, with what its agent said of it."""
    reasons = {}
    for item in root.iterfind("failures/failure"):
        resource = _OPERATION.fullmatch(str(item.get("op_key")))
        if resource is not None:
            said = item.get("exitreason") or str(item.get("exitstatus")).lower()
            reasons[resource[1]] = f"{item.get('task')} on {item.get('node')}: {said}"
    return reasons
