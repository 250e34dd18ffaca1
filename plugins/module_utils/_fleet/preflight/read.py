# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of one hypervisor that preflight evaluates (``_fleet.preflight.decide_host``).

Each check is independent: one that cannot be performed leaves an entry in ``errors``.
"""

from __future__ import annotations

import time
import typing as t

from ..._errors import FleetVirtError, LibvirtFailure
from ..._libvirt import CPU_COMPARE_IDENTICAL, CPU_COMPARE_SUPERSET
from ..._records import dataclass
from ..base.effects_connection import Connection, connect
from ..hosts import cpu_xml, host_info, read_bridges
from ..hosts import read_host as host
from ..notes import read as read_notes
from ..notes.note import MaintenanceMark, notes
from ..storage.read_pools import list_pools, pool_entries
from . import read_host as preflight_machine
from . import read_pools
from . import read_tls as preflight_tls

if t.TYPE_CHECKING:
    from .facts import (
        AbsentPool,
        Baseline,
        Hypervisor,
        Peer,
        PreflightBridge,
        PreflightCpu,
        PreflightFacts,
        PreflightPool,
    )

Made = t.TypeVar("Made")
_FITS = (CPU_COMPARE_IDENTICAL, CPU_COMPARE_SUPERSET)


@dataclass(frozen=True)
class PreflightRequest:
    """What to check: libvirt's URI, the names of bridges and pools, and the peers.

    ``profile_bridges`` are those that VMs may be on."""

    uri: str
    timeout: float
    bridges: t.Sequence[str]
    pools: t.Sequence[str]
    peers: t.Sequence[Peer]
    profile_bridges: t.Sequence[str] = ()


class _Checks:
    """Independent checks; ``errors`` has the reason for each that could not be performed."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}

    def made(self, name: str, work: t.Callable[[], Made]) -> Made | None:
        """What ``work`` returns; None if that fails."""
        try:
            return work()
        except (FleetVirtError, OSError) as error:
            self.errors[name] = str(error)
            return None


def read(settings: PreflightRequest) -> PreflightFacts:
    """All facts; changes nothing."""
    checks = _Checks()
    facts: PreflightFacts = {"errors": checks.errors, "time": time.time()}
    hypervisor: Hypervisor | None = None
    used: set[str] | None = None
    names = [*settings.bridges, *settings.profile_bridges]
    try:
        with connect(settings.uri, settings.timeout) as connection:
            hypervisor = checks.made("hypervisor", lambda: _hypervisor(connection))
            if hypervisor is not None:
                lasts = _uuid_lasts(connection, hypervisor["uuid"])
                facts = {**facts, **hypervisor, "uuid_lasts": lasts}
                known = hypervisor
                cpu = checks.made("cpu", lambda: _cpu(connection, known))
                if cpu is not None:
                    facts["cpu"] = cpu
            pools = checks.made("pools", lambda: _pools(connection, settings.pools))
            if pools is not None:
                facts["pools"] = pools
            folders = checks.made("folders", lambda: read_pools.folder_pools(connection))
            if folders is not None:
                facts["folder_pools"] = folders
            facts["marks"] = [
                note.volume
                for note in notes(read_notes.volumes(connection))
                if isinstance(note, MaintenanceMark)
            ]
            used = checks.made("bridges of VMs", lambda: read_bridges.used(connection))
    except FleetVirtError as error:
        checks.errors["libvirt"] = str(error)
    emulator = facts["cpu"]["emulator"] if "cpu" in facts else None
    offered = "kvm" in hypervisor["domain_types"] if hypervisor is not None else None
    device = checks.made("kvm", lambda: preflight_machine.kvm(emulator, facts.get("arch")))
    if device is not None:
        facts["kvm"] = {**device, "offered": offered}
    facts["recovers_locks"] = read_pools.recovers_locks()
    iommu = checks.made("iommu", preflight_machine.iommu)
    if iommu is not None:
        facts["iommu"] = iommu
    bridges = checks.made("bridges", lambda: [_bridge(name, settings, used) for name in names])
    if bridges is not None:
        facts["bridges"] = bridges
    chains = checks.made("bridge_filter", lambda: preflight_machine.bridge_filter(names))
    if chains is not None:
        facts["bridge_filter"] = chains
    sockets = checks.made("listeners", preflight_machine.open_sockets)
    if sockets is not None:
        facts["listeners"] = sockets
    tls = checks.made("tls", lambda: preflight_tls.reach(settings.peers, sockets or ()))
    if tls is not None:
        facts["tls"] = tls
    keys = checks.made("keys", preflight_tls.keys)
    if keys is not None:
        facts["keys"] = keys
    return facts


def _bridge(name: str, settings: PreflightRequest, used: set[str] | None) -> PreflightBridge:
    needed = name in settings.bridges or (None if used is None else name in used)
    return {**preflight_machine.bridge(name), "needed": needed}


def _hypervisor(connection: Connection) -> Hypervisor:
    conn = connection.conn
    text = connection.call("read capabilities", conn.getCapabilities)
    capabilities = host_info.capabilities(text)
    return {
        "uuid": capabilities["uuid"],
        "arch": capabilities["arch"],
        "domain_types": capabilities["domain_types"],
        "machines": capabilities["machines"],
        "libvirt_version": host.version(connection.call("read the version", conn.getLibVersion)),
        "hypervisor_version": host.version(connection.call("read the version", conn.getVersion)),
    }


def _uuid_lasts(connection: Connection, uuid: str | None) -> bool | None:
    return preflight_machine.has_lasting(uuid) if uuid and connection.local else None


def _kind(facts: Hypervisor) -> str:
    return "kvm" if "kvm" in facts["domain_types"] else "qemu"


def _cpu(connection: Connection, facts: Hypervisor) -> PreflightCpu:
    text = connection.call(
        "read domain capabilities",
        connection.conn.getDomainCapabilities,
        *(None, facts["arch"], None, _kind(facts), 0),
    )
    return {**cpu_xml.guest_cpu(text), "type": _kind(facts)}


def _pools(connection: Connection, names: t.Sequence[str]) -> list[PreflightPool | AbsentPool]:
    """The named pools; missing ones have no state."""
    handles = {str(pool.name()): pool for pool in list_pools(connection)}
    known = {entry["name"]: entry for entry in pool_entries(connection)}
    entries: list[PreflightPool | AbsentPool] = []
    for name in names:
        if name in known:
            autostart = None
            if name in handles:
                autostart = bool(connection.call(f"read pool {name}", handles[name].autostart))
            entries.append({**known[name], "autostart": autostart})
        else:
            entries.append(
                {
                    "name": name,
                    "state": None,
                    "error": None,
                    "path": None,
                    "capacity_mib": None,
                    "available_mib": None,
                    "autostart": None,
                }
            )
    return entries


def compare(uri: str, timeout: float, cpus: t.Sequence[str]) -> Baseline:
    """The CPU common to all ``cpus`` (virConnectBaselineHypervisorCPU), and if this host has it.

    Every hypervisor computes this, as each libvirt supports different models.
    """
    baseline: Baseline = {"model": None, "xml": None, "runs": None, "error": None}
    try:
        with connect(uri, timeout) as connection:
            facts = _hypervisor(connection)
            where = (None, facts["arch"], None, _kind(facts))
            conn = connection.conn
            xml = baseline["xml"] = _baseline(connection, where, list(cpus))
            baseline["model"] = cpu_xml.describe(xml)
            answer = connection.call(
                "compare the common CPU", conn.compareHypervisorCPU, *where, xml, 0
            )
            baseline["runs"] = answer in _FITS
    except FleetVirtError as error:
        baseline["error"] = str(error)
    return baseline


def _baseline(
    connection: Connection, where: tuple[None, str | None, None, str], cpus: list[str]
) -> str:
    """The common CPU, without features and names that this libvirt is too old to know."""
    while True:
        try:
            function = connection.conn.baselineHypervisorCPU
            return str(connection.call("compute the common CPU", function, *where, cpus, 0))
        except LibvirtFailure as error:
            name = cpu_xml.unknown_feature(str(error))
            shorter = [
                cpu_xml.without_feature(xml, name) if name else cpu_xml.unversioned(str(error), xml)
                for xml in cpus
            ]
            if list(map(len, shorter)) == list(map(len, cpus)):
                raise
            cpus = shorter
