# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeding an existing VM: the work of ``virt_seed`` on a hypervisor.

The medium is complete before anything but the metadata refers to it, and a single definition puts
it into the drive and its host key into the metadata: whenever the VM is started, it has either the
old medium or the complete new one. The metadata name every medium from before it is created until
after it is removed, so the next call removes what a killed one left.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from ... import _lxml
from ..._errors import DeadlineExceeded, PlanRefused, Problem, SpecError
from ..._libvirt import DOMAIN_XML_INACTIVE, DOMAIN_XML_SECURE
from ..._pure.base.metadata import BEGUN, Metadata, OwnVolume
from ..._pure.base.names import check_host_name
from ..._pure.base.results import GENERATED
from ..._pure.base.settings import argument_spec
from ..._pure.domain import request, seed_domain
from ..._pure.seed import network as seed_network
from ..._pure.seed import seed as seeds
from ..._pure.seed.settings import SEED
from ..._pure.seed.types import Seed, SeededNic
from ..base import domains, identity, lookup
from ..base import owner as owners
from ..base.connection import Connection
from ..machine import storage
from . import medium as seed_medium
from . import nocloud as seed_nocloud

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element
    from ..._pure.base.arguments import Spec
    from ..._pure.base.json_values import Json
    from ..._pure.base.results import Diff
    from ..._pure.seed.guest_image import Seeded

STATES = ("present", "absent")
ARGUMENTS: Spec = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": list(STATES), "default": "present"},
    "pool": {"type": "str"},
    # _pure/seed/seed.py reads them, and reports every problem at once
    **argument_spec(SEED),
}
INTERNAL: Spec = {"_seed": {"type": "str", "default": "", "no_log": True}}
_LOCK = "seed"  # two calls for one VM would undo each other
_NAMES = ("_seed.iso", "_seed2.iso")


@dataclass
class _Vm:
    """The current VM, and the changes to it."""

    dom: VirDomain
    name: str
    root: Element  # its definition
    stored: Metadata | None
    active: bool
    steps: list[str] = field(default_factory=list)
    host_key: str | None = None
    seeded: Seeded | None = None

    @property
    def uuid(self) -> str:
        return str(self.dom.UUIDString())

    @property
    def media(self) -> tuple[OwnVolume, ...]:
        volumes = self.stored.volumes if self.stored else ()
        return tuple(volume for volume in volumes if volume.role == "seed")


class _Diff(t.TypedDict, total=False):
    diff: list[Diff]


class Result(_Diff):
    """The module's result; ``seed`` is the method and the features of the image."""

    changed: bool
    name: str
    host_key: str | None
    steps: list[str]
    seed: Seeded | None


def run(
    connection: Connection,
    name: str,
    state: str,
    options: t.Mapping[str, object],
    pool: str | None,
    *,
    check: bool,
) -> Result:
    """Bring the seed medium of the VM ``name`` to ``state``; returns the module's result."""
    if not connection.local:
        raise PlanRefused(
            f"uri {connection.uri} is remote; a seed medium is created on the hypervisor itself"
        )
    with owners.host_lock(name=_LOCK):
        return _run(connection, name, state, options, pool, check=check)


def _run(
    connection: Connection,
    name: str,
    state: str,
    options: t.Mapping[str, object],
    pool: str | None,
    *,
    check: bool,
) -> Result:
    vm = _read(connection, name)
    if vm.stored is not None and vm.stored.phase not in (None, "seeding"):
        raise PlanRefused(
            f"{name!r} is in phase {vm.stored.phase}: another run is working on it or died doing"
            " so; repeat that run, or remove the leftovers with virt_purge"
        )
    if state == "absent" and vm.stored is not None and vm.stored.phase is not None:
        raise PlanRefused(
            f"an interrupted run left {name!r} partially seeded; repeat that run, or recreate the"
            " VM"
        )
    if state == "absent":
        return _absent(connection, vm, check=check)
    problems: list[Problem] = []
    seed = seeds.from_options(dict(options), "", (), problems)
    nics = seed_domain.nics_of(vm.root, vm.stored)
    problems += seed_network.twins(nics)
    problems += seed_network.problems(seed, nics, "")
    if seed.hostname is None and seed.fqdn is None:
        problems += check_host_name(name, "hostname")
    if problems:
        raise SpecError(problems)
    return _present(connection, vm, seed, nics, pool, check=check)


def _read(connection: Connection, name: str) -> _Vm:
    dom = lookup.require_domains(connection, [name])[name]
    if not connection.call(f"read {name}", dom.isPersistent):
        raise PlanRefused(f"{name!r} is transient: it has no persistent definition; define it")
    flags = DOMAIN_XML_INACTIVE | DOMAIN_XML_SECURE  # it is defined again, with its passwords
    text = connection.call(f"read {name}", dom.XMLDesc, flags)
    active = bool(connection.call(f"read the state of {name}", dom.isActive))
    stored = lookup.read_metadata(connection, dom)
    return _Vm(dom, name, _lxml.parse(text, f"domain {name}"), stored, active)


def _absent(connection: Connection, vm: _Vm, *, check: bool) -> Result:
    vm.steps = [f"remove {one.pool}/{one.name}" for one in vm.media]
    media = bool(vm.steps)
    failed = vm.stored is not None and vm.stored.first_boot is not None
    if failed:
        vm.steps.append("clear the outcome of its first boot")
    if media and not check:
        unread = not vm.active and _started_since(vm) is False
        seed_medium.remove(connection, vm.dom, unread=unread)
    if failed and not check:
        stored = dataclasses.replace(
            lookup.read_metadata(connection, vm.dom) or Metadata(), first_boot=None
        )
        seed_medium.write(connection, vm.dom, stored, active=vm.active)
    return _result(vm, {"media": [one.path for one in vm.media]}, {"media": []})


def _present(
    connection: Connection,
    vm: _Vm,
    seed: Seed,
    nics: t.Sequence[SeededNic],
    pool_name: str | None,
    *,
    check: bool,
) -> Result:
    before = seed_domain.recorded(vm.stored)
    after = seed_domain.as_plain(seed, vm.name)
    drive = seed_domain.drive_with(vm.root, [one.path for one in vm.media])
    source = drive.find("source") if drive is not None else None
    current = source.get("file") if source is not None else None
    booted = vm.stored is not None and vm.stored.host_key is not None and not vm.media
    ready = booted or (current is not None and os.path.exists(current))
    shown: dict[str, Json] = {"media": [one.path for one in vm.media], "seed": before}
    if vm.stored is not None and vm.stored.phase is not None:
        from . import seeding_offline

        ready = not seeding_offline.unfinished(vm.stored, seed, vm.name)
        shown["seed"] = None
    if before is not None and not request.compare(before, after) and ready:
        vm.host_key = vm.stored.host_key if vm.stored else None
        rest = [one for one in vm.media if one.path != current]
        vm.steps = [f"remove {one.pool}/{one.name}" for one in rest]
        if rest and not check:
            _drop(connection, vm, rest)
        return _result(vm, shown, {"media": [current] if current else [], "seed": before})
    _require_unbooted(connection, vm, booted)
    if seed.method != "nocloud":
        from . import seeding_offline

        chosen = seeding_offline.choose(seed, vm.root, check=check)
        vm.seeded = chosen.shown()
        if chosen.method == "offline":
            return _offline(connection, vm, seed, nics, vm.seeded, shown, after, check=check)
    vm.seeded = vm.seeded or seed_nocloud.CHOSEN
    seed_nocloud.require_programs()
    pool = _pool(connection, vm, pool_name)
    volume = _new_volume(connection, vm, pool, current)
    vm.steps = [f"remove {one.pool}/{one.name}" for one in vm.media if one.path != current]
    vm.steps += [f"create {volume.pool}/{volume.name}", f"insert it into {vm.name}"]
    if current is not None:
        old = next(one for one in vm.media if one.path == current)
        vm.steps.append(f"remove {old.pool}/{old.name}")
    vm.host_key = GENERATED
    if not check:
        _seed(connection, vm, seed, nics, pool, volume, current)
    return _result(vm, shown, {"media": [volume.path], "seed": after})


def _offline(
    connection: Connection,
    vm: _Vm,
    seed: Seed,
    nics: t.Sequence[SeededNic],
    seeded: Seeded,
    before: t.Mapping[str, Json],
    after: t.Mapping[str, Json],
    *,
    check: bool,
) -> Result:
    """Write the seed into the VM's own disk."""
    from . import guest_disk, seeding_offline

    guest_disk.require()
    seed_nocloud.require_keys()
    if vm.media:
        raise PlanRefused(
            f"{vm.name!r} has a seed medium; remove it first, with state absent, so that the VM has"
            " only one seed"
        )
    seeding_offline.require_own(connection, vm.name, vm.uuid, vm.root)
    vm.steps = [f"write the seed into {path}" for path, _kind in seeding_offline.disks_of(vm.root)]
    vm.host_key = GENERATED
    if not check:
        vm.stored, chosen = seeding_offline.write(
            connection, vm.dom, vm.root, vm.stored, seed, nics
        )
        vm.host_key = vm.stored.host_key
        vm.seeded = {**seeded, "found": chosen.found}
    return _result(vm, before, {"media": [], "seed": after})


def _require_unbooted(connection: Connection, vm: _Vm, booted: bool) -> None:
    """Raise PlanRefused for a VM that has booted: a guest reads only one seed, and another would
    only make its host key unknown."""
    if vm.active:
        raise PlanRefused(
            f"{vm.name!r} is running, but a seed is only read at the first boot; shut it down"
            " first, for example with virt_state"
        )
    if connection.call(f"read {vm.name}", vm.dom.hasManagedSaveImage, 0):
        raise PlanRefused(
            f"{vm.name!r} has the saved memory of a running system; start it and shut it down first"
        )
    if booted and (seed_domain.recorded(vm.stored) or {}).get("method") in ("offline", "auto"):
        raise PlanRefused(
            f"{vm.name!r} was already seeded on its disk, and another seed would leave parts of"
            " that one; change it from inside, or recreate it with virt_purge and virt_init"
        )
    if booted or _started_since(vm):
        raise PlanRefused(
            f"{vm.name!r} was already seeded and has been started since; a guest only reads its"
            " seed at its first boot. Change it from inside, or recreate it with virt_purge and"
            " virt_init"
        )


def _started_since(vm: _Vm) -> bool | None:
    """Whether the VM was started with its medium; None if unknown.

    QEMU recreates the log of its console with each start.
    """
    logs = [one.get("file") for one in vm.root.findall("devices/serial/log")]
    started: bool | None = None
    for volume in vm.media:
        for log in filter(None, logs):
            try:
                made = os.stat(volume.path).st_mtime
            except OSError:
                continue
            try:
                started = bool(started) or os.stat(log).st_mtime >= made
            except FileNotFoundError:
                started = bool(started)
            except OSError:
                continue
    return started


def _pool(connection: Connection, vm: _Vm, name: str | None) -> storage.Pool:
    """The named pool, else that of the VM's own volumes, else that of the first disk."""
    own = next(iter(vm.stored.volumes), None) if vm.stored else None
    folder = None
    if name is None and own is not None:
        name = own.pool
    elif name is None:
        sources = [one.get("file") for one in vm.root.findall("devices/disk/source")]
        folder = next((str(Path(one).parent) for one in sources if one), None)
        name = "default"
    pool = storage.find_pool(connection, str(name), folder)
    if pool is None:
        raise PlanRefused(
            f"no pool {name!r} for the medium of {vm.name!r}; specify one with pool, or create it"
            " with virt_pool"
        )
    return pool


def _new_volume(
    connection: Connection, vm: _Vm, pool: storage.Pool, current: str | None
) -> OwnVolume:
    """A volume with a free name, or one that an earlier call of ours has left."""
    own = {one.path for one in vm.media}
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", vm.name)
    for ending in _NAMES:
        name = f"{stem}{ending}"
        path = pool.volume_path(name)
        if path == current:
            continue
        if path not in own and storage.is_taken(connection, pool, name):
            raise PlanRefused(
                f"{path} already exists and does not belong to this VM; refusing to overwrite it."
                " Remove or rename it"
            )
        return OwnVolume(pool.name, name, path, "seed", "seed")
    raise PlanRefused(f"{vm.name!r} has two seed media; remove one from its definition")


def _drop(connection: Connection, vm: _Vm, volumes: t.Sequence[OwnVolume]) -> None:
    """Remove media that are in no drive, then their names from the metadata."""
    seed_medium.delete(connection, vm.dom, volumes)
    if vm.stored is not None and volumes:
        left = tuple(one for one in vm.stored.volumes if one not in volumes)
        vm.stored = dataclasses.replace(vm.stored, volumes=left)
        seed_medium.write(connection, vm.dom, vm.stored, active=vm.active)


def _seed(
    connection: Connection,
    vm: _Vm,
    seed: Seed,
    nics: t.Sequence[SeededNic],
    pool: storage.Pool,
    volume: OwnVolume,
    current: str | None,
) -> None:
    medium = seed_nocloud.make(seed, vm.name, vm.uuid, nics)
    _drop(connection, vm, [one for one in vm.media if one.path != current])
    before, stored = vm.stored, vm.stored or Metadata()
    others = tuple(one for one in stored.volumes if one != volume)
    made: list[OwnVolume] = []  # a volume of that name is not ours before we created it

    def keep(noted: OwnVolume) -> None:
        nonlocal stored
        stored = dataclasses.replace(stored, volumes=(*others, noted))
        seed_medium.write(connection, vm.dom, stored, active=False)

    def noted() -> None:
        made.append(dataclasses.replace(volume, made=identity.of_file(volume.path)))
        keep(made[0])

    try:
        keep(dataclasses.replace(volume, made=BEGUN))
        try:
            seed_nocloud.store(connection, pool, volume.name, medium.content, noted)
        except DeadlineExceeded:  # libvirt may still complete a call that timed out
            made = made or [dataclasses.replace(volume, made=BEGUN)]
            raise
        final = dataclasses.replace(
            seed_domain.with_record(stored, seed, vm.name), host_key=medium.host_key
        )
        old = [current] if current else []
        text = seed_domain.with_medium(vm.root, final, volume.path, old)
        if connection.call(f"read the state of {vm.name}", vm.dom.isActive):
            raise PlanRefused(f"{vm.name!r} was started meanwhile; nothing was changed")
        domains.define(connection, f"define {vm.name}", text)
    except BaseException:
        seed_medium.delete(connection, vm.dom, made)
        lookup.restore_metadata(connection, vm.dom, before)
        raise
    vm.stored, vm.host_key = final, medium.host_key
    _drop(connection, vm, [one for one in vm.media if one.path != volume.path])


def _result(vm: _Vm, before: t.Mapping[str, Json], after: t.Mapping[str, Json]) -> Result:
    changed = bool(vm.steps)
    result: Result = {
        "changed": changed,
        "name": vm.name,
        "host_key": vm.host_key,
        "steps": vm.steps,
        "seed": vm.seeded,
    }
    if changed:
        result["diff"] = [
            {
                "before_header": vm.name,
                "after_header": vm.name,
                "before": json.dumps(before, indent=1, sort_keys=True) + "\n",
                "after": json.dumps(after, indent=1, sort_keys=True) + "\n",
            }
        ]
    return result
