# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of one hypervisor that preflight judges (``_model.preflight_host``).

Each check stands alone: one that cannot be made leaves an entry in ``errors``.

This file is private to the collection.
"""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass

from ..._errors import FleetVirtError, LibvirtFailure
from ..._libvirt import CPU_COMPARE_IDENTICAL, CPU_COMPARE_SUPERSET
from ..._pure.domain import cpu_xml
from ..._pure.machine import host_info
from ..base.connection import Connection, connect
from ..machine import host
from ..machine.pools import list_pools, pool_entries
from . import preflight_machine, preflight_tls

_FITS = (CPU_COMPARE_IDENTICAL, CPU_COMPARE_SUPERSET)


@dataclass(frozen=True)
class Settings:
    """What is looked for: where libvirt is, the names of bridges and pools, and the peers."""

    uri: str
    timeout: float
    bridges: t.Sequence[str]
    pools: t.Sequence[str]
    peers: t.Sequence[t.Mapping[str, str]]


def read(settings: Settings) -> dict[str, t.Any]:
    """All facts; changes nothing."""
    facts: dict[str, t.Any] = {"errors": {}, "time": time.time()}

    def check(name: str, work: t.Callable[[], t.Any]) -> None:
        try:
            facts[name] = work()
        except (FleetVirtError, OSError) as error:
            facts["errors"][name] = str(error)

    try:
        with connect(settings.uri, settings.timeout) as connection:
            check("hypervisor", lambda: _hypervisor(connection))
            facts.update(facts.pop("hypervisor", {}))
            if "arch" in facts:
                check("cpu", lambda: _cpu(connection, facts))
            check("pools", lambda: _pools(connection, settings.pools))
    except FleetVirtError as error:
        facts["errors"]["libvirt"] = str(error)
    emulator = facts.get("cpu", {}).get("emulator")
    offered = "kvm" in facts["domain_types"] if "domain_types" in facts else None
    check(
        "kvm",
        lambda: {**preflight_machine.kvm(emulator, facts.get("arch")), "offered": offered},
    )
    check("iommu", preflight_machine.iommu)
    check("bridges", lambda: [preflight_machine.bridge(name) for name in settings.bridges])
    check("bridge_filter", lambda: preflight_machine.bridge_filter(settings.bridges))
    check("listeners", preflight_machine.open_sockets)
    check("tls", lambda: preflight_tls.reach(settings.peers, facts.get("listeners", ())))
    check("keys", preflight_tls.keys)
    return facts


def _hypervisor(connection: Connection) -> dict[str, t.Any]:
    raw = connection.raw
    text = connection.call("read capabilities", raw.getCapabilities)
    found = host_info.capabilities(text)
    return {
        "uuid": found["uuid"],
        "arch": found["arch"],
        "domain_types": found["domain_types"],
        "machines": found["machines"],
        "libvirt_version": host.version(connection.call("read the version", raw.getLibVersion)),
        "hypervisor_version": host.version(connection.call("read the version", raw.getVersion)),
    }


def _kind(facts: t.Mapping[str, t.Any]) -> str:
    return "kvm" if "kvm" in facts["domain_types"] else "qemu"


def _cpu(connection: Connection, facts: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    text = connection.call(
        "read domain capabilities",
        connection.raw.getDomainCapabilities,
        *(None, facts["arch"], None, _kind(facts), 0),
    )
    return {**cpu_xml.guest_cpu(text), "type": _kind(facts)}


def _pools(connection: Connection, names: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """The named pools; one that is not there has no state."""
    raw = {str(pool.name()): pool for pool in list_pools(connection)}
    known = {entry["name"]: entry for entry in pool_entries(connection)}
    found = []
    for name in names:
        entry = known.get(name) or dict.fromkeys(
            ("state", "error", "path", "capacity_mib", "available_mib")
        )
        autostart = None
        if name in raw:
            autostart = bool(connection.call(f"read pool {name}", raw[name].autostart))
        found.append({**entry, "name": name, "autostart": autostart})
    return found


def compare(uri: str, timeout: float, cpus: t.Sequence[str]) -> dict[str, t.Any]:
    """The CPU that all of ``cpus`` have (virConnectBaselineHypervisorCPU), and if this host has it.

    Every hypervisor is asked: each libvirt knows other models.
    """
    found: dict[str, t.Any] = {"model": None, "xml": None, "runs": None, "error": None}
    try:
        with connect(uri, timeout) as connection:
            facts = _hypervisor(connection)
            where = (None, facts["arch"], None, _kind(facts))
            raw = connection.raw
            found["xml"] = _baseline(connection, where, list(cpus))
            found["model"] = cpu_xml.describe(found["xml"])
            answer = connection.call(
                "compare the common CPU", raw.compareHypervisorCPU, *where, found["xml"], 0
            )
            found["runs"] = answer in _FITS
    except FleetVirtError as error:
        found["error"] = str(error)
    return found


def _baseline(
    connection: Connection, where: tuple[None, str | None, None, str], cpus: list[str]
) -> str:
    """The common CPU; features that this libvirt is too old to know are left out of all."""
    while True:
        try:
            function = connection.raw.baselineHypervisorCPU
            return str(connection.call("compute the common CPU", function, *where, cpus, 0))
        except LibvirtFailure as error:
            name = cpu_xml.unknown_feature(str(error))
            shorter = [cpu_xml.without_feature(xml, name) for xml in cpus] if name else cpus
            if list(map(len, shorter)) == list(map(len, cpus)):
                raise
            cpus = shorter
