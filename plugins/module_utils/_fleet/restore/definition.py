# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The definition of a VM from its archive, as this hypervisor is to have it.

What the guest sees stays: devices, their order and addresses, the CPU. What lies below it is new:
each disk is a file of its own, without the images it had, in a pool of this hypervisor.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import json
import posixpath
import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass
from ..backup import definition as archived
from ..backup.archives import SavedDisk
from ..base import metadata, names
from ..base.metadata import Metadata, OwnVolume
from ..base.xml_values import nvram_file
from ..cell import requirements
from ..rename.plan import LOG_FOLDER, NVRAM_FOLDER
from ..spec import identity
from ..storage import data_files

if t.TYPE_CHECKING:
    from ..._lxml import Element

TPM_FOLDER = "/var/lib/libvirt/swtpm"
HOSTDEV = "hostdev"
# What settings of a request say of one VM alone, and where they name its NICs
_OWN_SETTINGS = {"disks": ("serial", "wwn"), "console": ("port",), "network": ("addresses",)}
_WITH_MACS = ("nics", "network")
_BELOW = ("backingStore", "mirror", "source", "encryption", "auth")


@dataclass(frozen=True)
class RestoreTarget:
    """A disk and the volume that it gets; ``disk`` is what the collection calls the disk. It was in
    ``folder``, or is called by its ``pool``."""

    saved: SavedDisk
    disk: str
    folder: str
    pool: str = ""

    def volume(self, vm: str, pool: str, folder: str) -> OwnVolume:
        """Its volume in a pool, with the name that creation would give it."""
        name = names.volume_name(vm, self.disk, self.saved.format)
        path = f"{folder}/{name}"
        return OwnVolume(pool, name, path, self.disk, "disk", metadata.NOT_MADE)


def targets(root: Element, disks: t.Sequence[SavedDisk]) -> list[RestoreTarget]:
    """The disks of an archive as its definition has them.

    Raises PlanRefused unless each is a disk of the definition, and each of those is saved.
    """
    problems = archived.unrestorable(root, [disk.target for disk in disks])
    if problems:
        raise PlanRefused("; ".join(problems))
    return [target_of(root, disk) for disk in disks]


def target_of(root: Element, disk: SavedDisk) -> RestoreTarget:
    """A disk of an archive as its definition has it, if it does."""
    stored = metadata.parse(root) or Metadata()
    element = archived.disks_of(root).get(disk.target)
    source = None if element is None else element.find("source")
    if source is None:
        return RestoreTarget(disk, disk.target, "")
    path = source.get("file") or source.get("dev") or ""
    pool, volume = source.get("pool", ""), source.get("volume", "")
    called = [
        own.target
        for own in stored.volumes
        if own.path == path or (pool and (own.pool, own.name) == (pool, volume))
    ]
    name = called[0] if called else disk.target
    return RestoreTarget(disk, name, posixpath.dirname(path), pool)


def host_devices(root: Element) -> list[Element]:
    """The devices that its hypervisor passed to it; not those that one makes for each VM."""
    return [one for one in root.iterfind("devices/hostdev") if one.get("type") != "mdev"]


def name_of(root: Element) -> str:
    """The name of the VM that was saved."""
    return root.findtext("name") or ""


def nvram_of(root: Element, name: str) -> str | None:
    """The file of UEFI variables that a VM of that ``name`` gets, None without any."""
    element = root.find("os/nvram")
    if element is None:
        return None
    suffix = posixpath.splitext(nvram_file(element) or "")[1] or ".fd"
    return f"{NVRAM_FOLDER}/{name}_VARS{suffix}"


def has_tpm(root: Element) -> bool:
    """Whether a TPM is emulated for it, which has a state."""
    return root.find("devices/tpm/backend[@type='emulator']") is not None


def blockers(root: Element, machine_types: t.Collection[str]) -> list[str]:
    """Why this hypervisor cannot have it, whatever it is called."""
    problems = []
    machine = root.find("os/type")
    kind = None if machine is None else machine.get("machine")
    if kind is not None and machine_types and kind not in machine_types:
        problems.append(f"its QEMU has no machine type {kind!r}")
    if host_devices(root):
        problems.append(
            "its former hypervisor passed a device of its own to it; restore it without:"
            f" -e virt_restore_without={HOSTDEV}"
        )
    return problems


def reaches(root: Element, folders: t.Collection[str]) -> list[str]:
    """What the definition has beside its disks that is neither in the ``folders`` of pools nor the
    distribution's own. Whoever can write to the place of backups can have put it there, such as a
    log that libvirt's daemon writes as root, or a medium that is a private file."""
    reached = requirements.foreign_paths(root, {*folders, NVRAM_FOLDER}, media=True)
    reached += requirements.foreign_hosts(root)
    reached += ["arguments of QEMU's own"] if requirements.has_arguments(root) else []
    reached += ["a label that QEMU runs with"] if requirements.has_label(root) else []
    return reached


@dataclass(frozen=True)
class Identity:
    """What the restored VM is: ``copy``: another VM than the one that was saved."""

    name: str
    uuid: str
    copy: bool


def adapted(
    root: Element, who: Identity, volumes: t.Mapping[str, OwnVolume], formats: t.Mapping[str, str]
) -> tuple[Element, tuple[str, ...]]:
    """The definition with the disks on ``volumes``, by target. What identifies one VM is new in a
    copy, or is what it lacks: the second value, with the data files of disks, which become one."""
    changed = copy.deepcopy(root)
    old, lacks = name_of(root), []
    changed.attrib.pop("id", "")
    _set(changed, "name", who.name)
    _set(changed, "uuid", who.uuid)
    for disk in changed.iterfind("devices/disk"):
        place = disk.find("target")
        volume = volumes.get("" if place is None else place.get("dev", ""))
        if volume is not None:
            data = data_files.named_in(disk)
            lacks += [f"a data file ({data}) of disk {volume.target}"] if data else []
            _on_file(disk, volume.path, formats[volume.path])
    _files(changed, old, who.name)
    stored = metadata.parse(root)
    seeds = {volume.path for volume in stored.volumes if volume.role == "seed"} if stored else set()
    for disk in changed.iterfind("devices/disk"):
        source = disk.find("source")
        if source is None or disk.get("device", "disk") not in archived.DRIVES:
            continue
        if source.get("file") in seeds:
            disk.remove(source)  # its medium was for the first boot, which is over or is repeated
        else:
            source.set("startupPolicy", "optional")
    return changed, (*lacks, *(_as_copy(changed, who.uuid) if who.copy else ()))


def missing_devices(wanted: Element, defined: Element) -> list[str]:
    """The kinds of devices of which libvirt has fewer than were wanted: it left them out."""
    left = collections.Counter(str(one.tag) for one in wanted.iterfind("devices/*"))
    left.subtract(str(one.tag) for one in defined.iterfind("devices/*"))
    return sorted(tag for tag, count in left.items() if count > 0)


def _set(root: Element, tag: str, text: str) -> None:
    element = root.find(tag)
    if element is None:
        raise PlanRefused(f"the definition in the archive has no {tag}")
    element.text = text


def _on_file(disk: Element, path: str, volume_format: str) -> None:
    """Put a disk on a file: nothing of what was below it stays."""
    for tag in _BELOW:
        for element in disk.findall(tag):
            disk.remove(element)
    disk.set("type", "file")
    driver = disk.find("driver")
    if driver is None:
        driver = disk.makeelement("driver", {"name": "qemu"})
        disk.insert(0, driver)
    driver.set("type", volume_format)
    source = disk.makeelement("source", {"file": path})
    disk.insert(list(disk).index(driver) + 1, source)


def _files(root: Element, old: str, new: str) -> None:
    """Files that are named after the VM."""
    path = nvram_of(root, new)
    nvram = root.find("os/nvram")
    if nvram is not None and path is not None:
        source = nvram.find("source")
        if source is not None and nvram.get("type") == "file":
            source.set("file", path)
        else:
            nvram.text = path
    for log in root.iterfind("devices/*/log"):
        if log.get("file") == f"{LOG_FOLDER}/{old}-console.log":
            log.set("file", f"{LOG_FOLDER}/{new}-console.log")


def _as_copy(root: Element, uuid: str) -> tuple[str, ...]:
    own = f"{LOG_FOLDER}/{name_of(root)}-console.log"
    for device in root.iterfind("devices/*"):
        log = device.find("log")
        if log is not None and log.get("file") != own:  # one VM at a time can write to a file
            device.remove(log)
    own_macs = _macs(root, uuid)
    for mac in root.iterfind("devices/interface/mac"):
        mac.set("address", own_macs[mac.get("address", "").lower()])
    return identity.take_out(root)


def _macs(root: Element, uuid: str) -> dict[str, str]:
    """The MAC addresses of the copy's NICs, by those of the VM that was saved."""
    return {
        mac.get("address", "").lower(): names.mac_address("copy", uuid, str(number))
        for number, mac in enumerate(root.iterfind("devices/interface/mac"))
    }


def stored_of(
    root: Element, who: Identity, volumes: t.Sequence[OwnVolume], source: str, home: str | None
) -> Metadata:
    """What the collection stores with the VM in the end; ``source`` is the archive.

    A VM that the collection had not made is not its own afterwards either. One of a cell is so once
    that is requested again.
    """
    stored = metadata.parse(root) or Metadata()
    own = stored.made_here
    return dataclasses.replace(
        stored,
        phase=None,
        owner=None,
        move=None,
        home=home,
        image=None if not own else stored.image,
        addresses=() if who.copy else stored.addresses,
        evacuated_from=(),
        ha=None,  # where it is now may be in no cell
        first_boot=None,
        volumes=tuple(volumes) if own else (),
        request=_request(stored.request, who.name, _macs(root, who.uuid) if who.copy else None),
        restored_from=source,
        broken=None,
    )


def _request(text: str | None, name: str, macs: t.Mapping[str, str] | None) -> str | None:
    """The request in the archive for a VM of that name. ``macs`` are the new MAC addresses in a
    copy, whose request says nothing else either that identifies the VM that was saved."""
    if text is None:
        return None
    try:
        request = json.loads(text)
    except ValueError:
        return text
    if not isinstance(request, dict):
        return text
    if macs is not None:
        request = {key: _of_copy(key, value, macs) for key, value in request.items()}
    return json.dumps({**request, "name": name}, sort_keys=True, separators=(",", ":"))


def _of_copy(key: str, value: object, macs: t.Mapping[str, str]) -> object:
    """A part of the request, in a copy."""
    if isinstance(value, list):
        return [_of_copy(key, one, macs) for one in value]
    if not isinstance(value, dict):
        return value
    inner = {name: _of_copy(name, one, macs) for name, one in value.items()}
    for name in _OWN_SETTINGS.get(key, ()):
        if inner.get(name):
            inner[name] = [] if isinstance(inner[name], list) else None
    if key in _WITH_MACS and isinstance(value.get("mac"), str):
        inner["mac"] = macs.get(value["mac"].lower())
    return inner
