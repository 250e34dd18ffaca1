# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The definition of a VM from its card: what it needs, and how it is changed for another host."""

from __future__ import annotations

import copy
import dataclasses
import posixpath
import typing as t

from ..base import metadata
from ..base.xml_values import nvram_file
from ..cards.card import Card
from ..migration.records import remove_unknown
from ..storage import encryption, host_names

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..storage.host_names import HostNames

_DRIVES = ("cdrom", "floppy")


def with_disks(root: Element, names: t.Mapping[str, str]) -> Element:
    """A copy of a definition, or of a snapshot's document, in which the files of its disks have
    other ``names``, also in our metadata. What is below them keeps its own."""
    changed = copy.deepcopy(root)
    for disk in changed.iter("disk"):
        source = disk.find("source")
        path = source.get("file") if source is not None else None
        if source is not None and path in names:
            source.set("file", names[str(path)])
    for domain in [changed] if changed.tag == "domain" else changed.findall("domain"):
        stored = metadata.parse(domain)
        if stored is not None and stored.broken is None:
            metadata.put(domain, _renamed(stored, names))
    return changed


def _renamed(stored: metadata.Metadata, names: t.Mapping[str, str]) -> metadata.Metadata:
    volumes = tuple(
        dataclasses.replace(
            volume, path=names[volume.path], name=posixpath.basename(names[volume.path])
        )
        if volume.path in names
        else volume
        for volume in stored.volumes
    )
    return dataclasses.replace(stored, volumes=volumes)


def without_media(root: Element, missing: t.Collection[str]) -> Element:
    """A copy in which drives may start empty whose media are ``missing`` here."""
    changed = copy.deepcopy(root)
    for disk in changed.iterfind("devices/disk"):
        source = disk.find("source")
        drive = disk.get("device") in _DRIVES
        if drive and source is not None and source.get("file") in missing:
            source.set("startupPolicy", "optional")
    return changed


def for_libvirt(root: Element, version: int) -> Element:
    """A copy that a libvirt of this version understands, which may be older than that of the
    hypervisor that wrote it."""
    changed = copy.deepcopy(root)
    remove_unknown(changed, version)
    return changed


def media_of(root: Element) -> list[str]:
    """The files of media in its drives."""
    sources = [
        disk.find("source")
        for disk in root.iterfind("devices/disk")
        if disk.get("device") in _DRIVES
    ]
    return [
        str(source.get("file")) for source in sources if source is not None and source.get("file")
    ]


def secrets_of(root: Element) -> list[str]:
    """UUIDs or usages of libvirt's secrets that it needs."""
    volumes = [encryption.secret_of(disk) for disk in root.iterfind("devices/disk")]
    auth = [
        secret.get("uuid") or secret.get("usage")
        for secret in root.iterfind("devices/disk//auth/secret")
    ]
    return sorted({str(secret) for secret in [*volumes, *auth] if secret})


def blockers(card: Card, folders: t.Collection[str]) -> list[str]:
    """Why no other hypervisor can run it, by its card alone; ``folders`` are those of storage that
    is shared."""
    name, root, stored = card.name, card.root, card.stored
    problems = []
    if stored.broken is not None:
        problems.append(metadata.remedy(name, stored.broken))
    if stored.phase is not None:
        problems.append(
            f"it is in phase {stored.phase}, so it is not complete; only the hypervisor that began"
            " that can end it"
        )
    nvram = root.find("os/nvram")
    path = nvram_file(nvram) or ""
    uses_efi = root.get("firmware") == "efi" or root.find("os[@firmware='efi']") is not None
    if (nvram is not None or uses_efi) and posixpath.dirname(path) not in folders:
        problems.append(f"its UEFI variables ({path or 'NVRAM'}) are not on shared storage")
    if root.find("devices/tpm/backend[@type='emulator']") is not None:
        problems.append("the state of its TPM is not on shared storage")
    for disk in root.iterfind("devices/disk"):
        if disk.get("device", "disk") in _DRIVES:
            continue
        source, target = disk.find("source"), disk.find("target")
        is_file = disk.get("type", "file") == "file"
        file = source.get("file") if source is not None and is_file else None
        what = file or (target.get("dev") if target is not None else None) or "a disk"
        if file is None:
            problems.append(f"{what} is no file")
        elif posixpath.dirname(file) not in folders:
            problems.append(f"{what} is not on storage that this hypervisor shares with it")
        if disk.find("shareable") is not None:
            problems.append(f"{what} is shareable, so other VMs may write to it")
    if any(graphics.get("passwdValidTo") for graphics in root.iterfind("devices/graphics")):
        problems.append("the password of its console is on its hypervisor alone")
    problems += [f"its hypervisor passes {kind} to it" for kind in _passed(root)]
    return problems


def _passed(root: Element) -> list[str]:
    return ["a device of its own"] if root.find("devices/hostdev") is not None else []


def demand(card: Card) -> HostNames:
    """What it needs of a hypervisor to be started."""
    return host_names.of_definition(card.root)
