# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the changes of an existing VM: what changes at once, what waits, what is refused.

The running VM is changed first, the definition last: until it is written, the next run finds the
same differences and finishes what was begun. What cannot be undone (growing a disk, removing a
volume) comes after it.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ... import _lxml
from ..._records import dataclass, field
from ..._units import MIB
from ..base.metadata import BEGUN, YES, Metadata, OwnVolume
from ..base.names import playbook_command
from ..engine.steps import Action, Effect, Plan, Step
from ..spec import request, settings
from ..spec.devices import Disk
from ..spec.difference import Difference, Existing
from ..spec.difference import differences as compare
from ..spec.difference_devices import with_links
from . import actions, definition, merged
from .definition import DefinitionRequest, Device, change_of, device_of
from .hotplug import Obstacles

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..spec.domain import Domain

PHASE = "changing"
How = t.Literal["live", "boot", "now", "refused"]
# Stored in our own metadata, or by libvirt beside the definition
_BESIDE = (
    *("autostart", "groups", "affinity", "anti_affinity", "tags", "zone"),
    *("start_order", "start_delay", "ha"),
)
_NOT_SEEN_LIVE = ("memory_max", "vcpus_max")


@dataclass(frozen=True)
class ChangeFacts:
    """A VM as libvirt has it. ``live`` is None while it is off; ``sizes`` are bytes by path.

    ``files`` are the paths of existing volumes, of those that are its own or will be; ``stays``
    says by path why a volume must not be removed. ``saved``: it has saved memory.
    ``balloon``: the running guest has a working memory balloon; None if that is unknown.
    ``not_grown`` says by path why libvirt cannot grow a disk now. ``state`` and ``reason`` are
    libvirt's.
    """

    name: str
    inactive: str = field(repr=False)
    live: str | None = field(repr=False)
    metadata: Metadata
    autostart: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    stays: Mapping[str, str] = field(default_factory=dict)
    running: bool = False
    saved: bool = False
    balloon: bool | None = None
    not_grown: Mapping[str, str] = field(default_factory=dict)
    state: str = "shutoff"
    reason: str = "unknown"


@dataclass(frozen=True)
class Changed:
    """One setting: ``how`` is ``now`` if the running VM is not affected."""

    path: str
    asked: str
    real: str
    how: How
    reason: str = ""

    @property
    def text(self) -> str:
        """``vcpus 2 -> 4, live``."""
        reason = f" ({self.reason})" if self.how == "boot" and self.reason else self.reason
        return f"{self.what}{_SUFFIX[self.how]}{reason}"

    @property
    def what(self) -> str:
        """``vcpus 2 -> 4``."""
        if self.asked == "absent":
            return f"{self.path} removed"
        if self.path.count(".") == 1 and self.real == "none":
            return f"{self.path} added"
        if self.path == "console.password":
            return f"{self.path} changed"
        return f"{self.path} {self.real} -> {self.asked}"


_SUFFIX = {"live": ", live", "boot": ", at the next start", "now": "", "refused": ", refused: "}


@dataclass(frozen=True)
class Converged:
    """The ``plan``, and what it means for each setting."""

    plan: Plan[ChangeFacts] = field(default_factory=Plan)
    changes: tuple[Changed, ...] = ()


def differences(facts: ChangeFacts, wanted: DefinitionRequest, xml: str) -> list[Difference]:
    """Settings written that differ in ``xml``, which is the stored or the live definition."""
    existing = Existing(xml, facts.metadata, facts.autostart, facts.sizes, wanted.bases)
    return compare(wanted.domain, existing)


def plan(
    facts: ChangeFacts,
    wanted: DefinitionRequest,
    volumes: Mapping[str, OwnVolume],
    stored: list[Difference] | None = None,
) -> Converged:
    """The steps to the request. ``volumes`` are those of disks that may have to be created,
    ``stored`` the differences in the definition, if they are known."""
    return _Planner(facts, wanted, volumes, stored).converged()


class _Planner:
    def __init__(
        self,
        facts: ChangeFacts,
        wanted: DefinitionRequest,
        volumes: Mapping[str, OwnVolume],
        stored: list[Difference] | None,
    ) -> None:
        self.facts, self.wanted, self.volumes = facts, wanted, volumes
        self.root = _lxml.parse(facts.inactive, facts.name)
        self.live = None if facts.live is None else _lxml.parse(facts.live, facts.name)
        self.stored = differences(facts, wanted, facts.inactive) if stored is None else stored
        self.running: list[Difference] = []
        self.obstacles: Obstacles | None = None
        if facts.live is not None and self.live is not None:
            links = with_links(wanted.domain, self.root, facts.metadata)
            self.running = differences(facts, dataclasses.replace(wanted, domain=links), facts.live)
            self.obstacles = Obstacles(facts, wanted, self.live, self.stored)

    def converged(self) -> Converged:
        changes = [self._changed(one) for one in self.stored]
        changes += self._drifted({one.path for one in self.stored})
        refusals = [one.text for one in changes if one.how == "refused"]
        if self.stored and not refusals:
            refusals += self._conflicts()
        left = [one for one in self.facts.metadata.volumes if one.role == "new"]
        stays = self.facts.stays
        refusals += [stays[one.path] for one in self._new(changes) if one.path in stays]
        if changes and self.facts.saved:
            command = playbook_command("state", vm_name=self.facts.name, vm_state="running")
            refusals.append(
                f"{self.facts.name!r} has saved memory, which fits only its present settings; start"
                f" it first ({command})"
            )
        if refusals:
            return Converged(Plan(refusals=tuple(refusals)), tuple(changes))
        if not changes and self.facts.metadata.phase != PHASE and not left:
            return Converged()
        return Converged(Plan(tuple(self._steps(changes))), tuple(changes))

    def _conflicts(self) -> list[str]:
        """What would exclude each other in the definition with what is requested."""
        facts, wanted = self.facts, self.wanted
        after = definition.changed(facts.inactive, wanted, self.stored, facts.metadata)
        root = _lxml.parse(after, facts.name)
        conflicts = merged.conflicts(self.root, root, wanted.domain.written)
        still = {difference.path for difference in differences(facts, wanted, after)}
        return conflicts or [
            f"{difference.path} {difference.real} -> {difference.asked}, refused:"
            f" {merged.excluded(difference, root)}"
            for difference in self.stored
            if difference.path in still and merged.is_of_definition(difference.path)
        ]

    def _drifted(self, known: t.Collection[str]) -> list[Changed]:
        """Settings that differ only in the running VM and can be changed there."""
        changes = []
        for difference in self.running:
            if difference.path in known or difference.path in (*_BESIDE, *_NOT_SEEN_LIVE):
                continue
            # a guest that boots, or has no balloon driver, has all its memory, whatever the request
            if difference.path == "memory" and not self.facts.balloon:
                continue
            if difference.path.endswith(".size") or difference.path.startswith("seed"):
                continue
            changed = self._changed(difference)
            if changed.how == "live":
                changes.append(changed)
        return changes

    def _changed(self, difference: Difference) -> Changed:
        how, reason = self._how(difference)
        return Changed(difference.path, difference.asked, difference.real, how, reason)

    def _how(self, difference: Difference) -> tuple[How, str]:
        change = change_of(self.wanted.domain, difference, self.root)
        if change.when == "never":
            return "refused", change.reason
        device = device_of(self.wanted.domain, difference.path)
        if device is not None and device.kind == "disks":
            reason = self._refused(device)
            if reason:
                return "refused", reason
        if self.obstacles is None or difference.path in _BESIDE:
            return "now", ""
        if change.when == "boot":
            return "boot", ""
        obstacle = self.obstacles.of(difference, device)
        if obstacle is None:
            return "live", ""
        if device is not None and device.spec is None and device.kind == "disks":
            return "refused", "it cannot be detached from a running VM; shut it down first"
        return "boot", obstacle

    def _refused(self, device: Device) -> str:
        facts, spec = self.facts, device.spec
        if spec is None:
            reasons = [
                facts.stays[one.path] for one in self._own(device) if one.path in facts.stays
            ]
            return "; ".join(reasons)
        if isinstance(spec, Disk) and device.key == "size":
            path = _path(definition.located(self.root, self.wanted.domain, device, facts.metadata))
            real = facts.sizes.get(path or "")
            if real is None:
                return "its size cannot be read"
            if self.live is None and spec.encryption_secret:
                return "libvirt grows an encrypted disk only while the VM runs; start it first"
            if spec.size is not None and spec.size * MIB < real:
                return (
                    "disks are never shrunk, the data at the end would be lost; add another disk,"
                    " copy what you need, and remove this one"
                )
            if path is not None and path in facts.not_grown:
                return facts.not_grown[path]
        if not device.key and device.name in self.volumes:
            own = self.volumes[device.name]
            known = {one.path for one in facts.metadata.volumes}
            if own.path in facts.files and own.path not in known:
                return (
                    f"{own.path} already exists and does not belong to this VM; remove or rename"
                    " it, or give the disk another name"
                )
        return ""

    def _own(self, device: Device) -> list[OwnVolume]:
        return [
            one
            for one in self.facts.metadata.volumes
            if one.target == device.name and one.role != "seed"
        ]

    # --- steps ---

    def _steps(self, changes: t.Sequence[Changed]) -> t.Iterator[Step[ChangeFacts]]:
        domain, facts = self.wanted.domain, self.facts
        new = {change.path: change for change in self._new(changes)}
        yield Step(
            actions.MarkChanging(),
            f"mark {facts.name} as being changed",
            _noted(tuple(new.values())),
        )
        attached = {
            _path(disk)
            for root in (self.root, self.live)
            if root is not None
            for disk in root.iterfind("devices/disk")
        }
        for left in facts.metadata.volumes:
            if left.role == "new" and left.path not in attached:
                again = _emptied(left.path) if left.path in new else _gone(left.path)
                yield (
                    Step(actions.ForgetLeft(left), f"forget {left.path}", _forgotten(left.path))
                    if left.path in facts.stays
                    else Step(actions.Discard(left), f"remove {left.path}", again)
                )
        sizes = {disk.name: disk.size for disk in domain.disks}
        for own in new.values():
            effect = _made(own.path, sizes[own.target])
            yield Step(actions.AddVolume(own.target), f"create {own.pool}/{own.name}", effect)
        differs = {difference.path for difference in self.running} | {"memory"}
        # what is removed makes room for what is added
        for change in sorted(changes, key=lambda change: change.asked != "absent"):
            device = device_of(domain, change.path)
            if change.how != "live" or change.path not in differs or change.path.endswith(".size"):
                continue
            if self._is_to_be_done(device):
                yield self._live_step(change, device)
        for change in changes:
            if change.path == "autostart":
                yield Step(actions.ChangeAutostart(), change.what, _autostart(domain.autostart))
        yield Step(actions.Redefine(), f"define {facts.name}", self._defined(changes))
        for change in changes:
            device = device_of(domain, change.path)
            if device is None or device.kind != "disks":
                continue
            if device.key == "size" and isinstance(device.spec, Disk):
                path = _path(definition.located(self.root, domain, device, facts.metadata)) or ""
                size = (device.spec.size or 0) * MIB
                effect = _grown(path, size)
                yield Step(actions.Growth(path, size), change.what, effect, irreversible=True)
            elif device.spec is None:
                for own in self._own(device):
                    text = f"remove {own.path}"
                    yield Step(actions.Removal(own), text, _gone(own.path), irreversible=True)
        yield Step(actions.EndChange(), f"{facts.name} is changed", _released, irreversible=False)

    def _new(self, changes: t.Sequence[Changed]) -> list[OwnVolume]:
        """The volumes to create; the volume of a disk that was detached by hand still exists."""
        volumes = []
        left = {volume.path for volume in self.facts.metadata.volumes if volume.role == "new"}
        attached = {
            _path(disk)
            for disk in (self.live if self.live is not None else self.root).iterfind("devices/disk")
        }
        for change in changes:
            device = device_of(self.wanted.domain, change.path)
            own = self.volumes.get(device.name) if device and not device.key else None
            if device is None or device.kind != "disks" or device.spec is None or own is None:
                continue
            there = own.path in self.facts.files and own.path not in left
            if not there and own.path not in attached:
                volumes.append(dataclasses.replace(own, role="new"))
        return volumes

    def _is_to_be_done(self, device: Device | None) -> bool:
        """Whether a device to remove exists, or a device to add does not."""
        if device is None or device.key or self.live is None:
            return True
        there = definition.located(self.live, self.wanted.domain, device, self.facts.metadata)
        return (there is None) == (device.spec is not None)

    def _live_step(self, change: Changed, device: Device | None) -> Step[ChangeFacts]:
        wanted = self.wanted
        mended = _mended(wanted, change)
        if device is None:
            return Step(_of_machine(wanted.domain, change.path), change.text, mended)
        if device.spec is None:
            return Step(actions.Detach(device), change.text, mended)
        if device.key:
            kind = actions.Limit if device.key in definition.LIMITS else actions.Update
            return Step(kind(device), change.text, mended)
        own = self.volumes.get(device.name) if device.kind == "disks" else None
        if own is None:
            return Step(actions.Attach(device), change.text, mended)
        owned = _owned(own.path)
        return Step(
            actions.Attach(device),
            change.text,
            lambda before: mended(owned(before)),
            torn=(owned,),
        )

    def _defined(self, changes: t.Sequence[Changed]) -> Effect[ChangeFacts]:
        stored = list(self.stored)
        wanted = self.wanted

        def effect(before: ChangeFacts) -> ChangeFacts:
            root = _lxml.parse(before.inactive, before.name)
            targets = definition.mended(root, wanted, stored, before.metadata)
            xml = _lxml.tostring(root)
            attached = {_path(one) for one in root.iterfind("devices/disk")}
            paths = [one.path for one in changes]
            kept = after(before.metadata, wanted, attached, paths, targets)
            return dataclasses.replace(before, inactive=xml, metadata=kept)

        return effect


def after(
    stored: Metadata,
    wanted: DefinitionRequest,
    attached: t.Collection[str | None],
    paths: t.Collection[str],
    targets: Mapping[str, str],
) -> Metadata:
    """The VM's metadata once its definition is as requested; ``targets`` are those of drives."""
    domain = wanted.domain
    volumes = tuple(
        dataclasses.replace(one, role="disk") if one.role == "new" else one
        for one in stored.volumes
        if one.role != "new" or one.path in attached
    )
    place = domain.placement
    asked: dict[str, object] = {
        "groups": domain.groups,
        "affinity": place.affinity,
        "anti_affinity": place.anti_affinity,
        "tags": place.tags,
        "zone": place.zone,
        "start_order": domain.start_order,
        "start_delay": domain.start_delay,
        "ha": YES if domain.ha else None,
    }
    changed: dict[str, t.Any] = {key: value for key, value in asked.items() if key in paths}
    return dataclasses.replace(
        stored, volumes=volumes, request=request.merged(stored.request, domain, targets), **changed
    )


def _of_machine(domain: Domain, path: str) -> Action:
    """What is done to change a setting of the running VM that is none of a device."""
    if path == "vcpus":
        return actions.Vcpus(domain.vcpus)
    if path == "memory":
        return actions.Memory(domain.memory)
    if path in ("title", "description"):
        return actions.Text("title" if path == "title" else "description")
    return actions.OperatingSystem() if path == "os" else actions.Console(path)


def disk_paths(root: Element) -> set[str]:
    """The files and devices that a VM's disks are."""
    return {path for one in root.iterfind("devices/disk") if (path := _path(one)) is not None}


def _path(element: Element | None) -> str | None:
    source = element.find("source") if element is not None else None
    return (source.get("file") or source.get("dev")) if source is not None else None


# --- what each step changes ---


def _noted(new: tuple[OwnVolume, ...]) -> Effect[ChangeFacts]:
    def effect(before: ChangeFacts) -> ChangeFacts:
        stored = before.metadata
        known = {one.path for one in stored.volumes}
        more = tuple(one for one in new if one.path not in known)
        stored = dataclasses.replace(stored, phase=PHASE, volumes=(*stored.volumes, *more))
        return dataclasses.replace(before, metadata=stored)

    return effect


def _made(path: str, size: int | None) -> Effect[ChangeFacts]:
    """``size`` in MiB; None for that of an image, which was not requested."""
    sizes = {} if size is None else {path: size * MIB}
    return lambda before: dataclasses.replace(
        before, files=before.files | {path}, sizes={**before.sizes, **sizes}
    )


def _emptied(path: str) -> Effect[ChangeFacts]:
    """The file is gone, and will be created again."""
    return lambda before: dataclasses.replace(
        before, files=before.files - {path}, metadata=_recorded(before, path, made=BEGUN)
    )


def _owned(path: str) -> Effect[ChangeFacts]:
    """The volume is one of the VM's disks: once its guest may write to it, no run removes it for
    having been left by a change that was not completed."""
    return lambda before: dataclasses.replace(before, metadata=_recorded(before, path, role="disk"))


def _gone(path: str) -> Effect[ChangeFacts]:
    return lambda before: dataclasses.replace(
        before, files=before.files - {path}, metadata=_recorded(before, path)
    )


def _forgotten(path: str) -> Effect[ChangeFacts]:
    """The file stays, and is no longer recorded."""
    return lambda before: dataclasses.replace(before, metadata=_recorded(before, path))


def _recorded(before: ChangeFacts, path: str, **changes: str) -> Metadata:
    """Our metadata with the volume changed, or without it."""
    volumes = tuple(
        dataclasses.replace(one, **changes) if one.path == path else one
        for one in before.metadata.volumes
        if changes or one.path != path
    )
    return dataclasses.replace(before.metadata, volumes=volumes)


def _mended(wanted: DefinitionRequest, change: Changed) -> Effect[ChangeFacts]:
    def effect(before: ChangeFacts) -> ChangeFacts:
        if before.live is None:
            return before
        root = _lxml.parse(before.live, before.name)
        if change.path == "vcpus":
            vcpu = root.find("vcpu")
            if vcpu is not None:
                vcpu.set("current", str(wanted.domain.vcpus))
        elif change.path == "memory":
            settings.Rows.memory.rewrite(root, wanted.domain)
        else:
            what = Difference(change.path, change.asked, change.real)
            definition.mend(root, wanted, what, before.metadata)
        return dataclasses.replace(before, live=_lxml.tostring(root))

    return effect


def _autostart(wanted: bool) -> Effect[ChangeFacts]:
    return lambda before: dataclasses.replace(before, autostart=wanted)


def _grown(path: str, size: int) -> Effect[ChangeFacts]:
    return lambda before: dataclasses.replace(before, sizes={**before.sizes, path: size})


def _released(before: ChangeFacts) -> ChangeFacts:
    stored = dataclasses.replace(before.metadata, phase=None, owner=None)
    return dataclasses.replace(before, metadata=stored)
