# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What this hypervisor could prove, and what proofs that were killed have left on it."""

from __future__ import annotations

import os
import shutil
import typing as t
from pathlib import Path

from ... import _lxml
from ..._errors import FleetVirtError, PlanRefused
from ..backup import archives
from ..base import effects_programs as programs
from ..base import effects_systemd as systemd
from ..base.effects_connection import Connection
from ..base.names import is_proof
from ..hosts import domain_info, host_info
from ..hosts import read_placement_facts as placement_facts
from ..placement.facts import seen_host
from ..rename.plan import LOG_FOLDER
from ..restore import definition as restored
from ..restore import read as restoring
from ..storage import read_file_systems as file_systems
from . import definition
from .definition import ProofPlaces
from .facts import ProofEntry, ProofLook
from .options import FOLDER, SavedArchive, VerifyOptions

RUN = "/run/fleet-virt-proofs"  # which QEMU may enter; /run/fleet-virt is root's alone
_MIB = 1024**2


def unit_of(uuid: str) -> str:
    """The name of the unit in which the VM ``uuid`` proves a backup."""
    return f"{definition.name_of(uuid)}.service"


def libvirt_log(uuid: str) -> str:
    """What libvirt writes of a proof's VM."""
    return f"{LOG_FOLDER}/{definition.name_of(uuid)}.log"


def run_folder(uuid: str) -> str:
    """Where the archive is shown to that VM."""
    return f"{RUN}/{definition.name_of(uuid)}"


def files_folder(folder: str, uuid: str) -> str:
    """Where that VM has its overlays and the state of its firmware."""
    return f"{folder}/{definition.name_of(uuid)}"


def left(connection: Connection, folder: str) -> list[str]:
    """The UUIDs of VMs of proofs that are no longer at work and have left something here. In a
    folder that others have too, only they know whether theirs are at work."""
    listed = connection.call("list domains", connection.conn.listAllDomains, 0)
    names = {str(dom.name()) for dom in listed}
    for place in (RUN, FOLDER, *(() if _is_shared(folder) else (folder,))):
        if os.path.isdir(place):
            names.update(os.listdir(place))
    uuids = {name[len(definition.name_of("")) :] for name in names if is_proof(name)}
    return sorted(uuid for uuid in uuids if archives.is_uuid(uuid) and not _is_at_work(uuid))


def _is_shared(folder: str) -> bool:
    return folder != FOLDER and file_systems.is_shared(folder)


def _is_at_work(uuid: str) -> bool:
    try:
        state = systemd.properties(unit_of(uuid), "ActiveState").get("ActiveState")
    except FleetVirtError:  # where there is no systemd there are no units
        return False
    return state in ("active", "activating", "deactivating")


def look(
    connection: Connection, options: VerifyOptions, vms: t.Sequence[SavedArchive]
) -> ProofLook:
    """What this hypervisor could prove of these backups. Changes nothing."""
    if _is_shared(options["folder"]):
        raise PlanRefused(
            f"{options['folder']} (virt_proof_folder) is on storage that other hypervisors may have"
            " too, and each would remove what proofs of the others use; give a folder of the"
            " hypervisor's own"
        )
    text = connection.call("read capabilities", connection.conn.getCapabilities)
    machine_types = host_info.capabilities(text)["machines"]
    host = placement_facts.read(connection, options["base_pool"], options["base_path"])
    lacks = _lacking(options)
    return {
        "changed": False,
        "host": seen_host(host),
        "entries": [_read_entry(connection, vm, machine_types, lacks) for vm in vms],
    }


def _read_entry(
    connection: Connection,
    vm: SavedArchive,
    machine_types: t.Collection[str],
    lacks: t.Sequence[str],
) -> ProofEntry:
    """What this hypervisor says of a backup; one that it cannot read is only that one's."""
    try:
        return _entry(connection, vm, machine_types, lacks)
    except (FleetVirtError, ValueError) as error:
        connection.call("ask libvirt", connection.conn.getLibVersion)  # else all have failed
        return {
            "name": vm.name,
            "problems": [],
            "vcpus": 1,
            "memory_mib": 0,
            "domain_type": None,
            "arch": None,
            "error": str(error),
        }


def _lacking(options: VerifyOptions) -> list[str]:
    """Why nothing can be proven here."""
    problems = []
    for program, package in (("borg", "borgbackup"), ("qemu-img", "qemu-utils")):
        if programs.find(program) is None:
            problems.append(f"{program} is not installed on it; install Debian's {package}")
    if not os.path.exists("/dev/fuse"):
        problems.append("it has no FUSE; install Debian's fuse3 and python3-pyfuse3")
    place = Path(options["folder"])
    while not place.exists():
        place = place.parent
    free, most = shutil.disk_usage(place).free // _MIB, options["overlay_mib"]
    if free < most:
        problems.append(
            f"{free} MiB are free in {options['folder']} of the {most} that its guest may write"
        )
    return problems


def _entry(
    connection: Connection,
    vm: SavedArchive,
    machine_types: t.Collection[str],
    lacks: t.Sequence[str],
) -> ProofEntry:
    root = _lxml.parse(vm.definition, f"{archives.DOMAIN} of {vm.name}")
    manifest = archives.read_manifest(vm.manifest)
    info = domain_info.from_root(root, None)
    problems = [*lacks, *definition.blockers(root)]
    machine = root.find("os/type")
    kind = None if machine is None else machine.get("machine")
    if kind is not None and machine_types and kind not in machine_types:
        problems.append(f"its QEMU has no machine type {kind!r}")
    try:
        restored.targets(root, manifest.backup.disks)
    except FleetVirtError as error:
        problems.append(str(error))
    else:
        nowhere = {disk.target: f"/nowhere/{disk.target}" for disk in manifest.backup.disks}
        places = ProofPlaces(nowhere, nowhere, "/nowhere/nvram.fd", "/nowhere")
        of = (vm.vm, vm.archive)
        try:
            made = definition.proof(root, vm.proof, of, manifest.backup.disks, places, nvram=False)
        except PlanRefused as error:
            problems.append(str(error))
        else:
            problems += restoring.refused_by_libvirt(connection, made.root)
    return {
        "name": vm.name,
        "problems": problems,
        "vcpus": int(info["vcpus_max"] or 1),
        "memory_mib": int(info["memory_max_mib"] or 0),
        "domain_type": info["domain_type"],
        "arch": info["arch"],
        "error": None,
    }
