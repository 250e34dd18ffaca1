# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the facts of one hypervisor (``_host.preflight``) to findings.

A check that could not be made has an entry in ``errors`` and no facts.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..._units import format_size
from ..base.findings import Finding
from ..hosts import listeners
from . import decide_pools

if t.TYPE_CHECKING:
    from .facts import PreflightFacts, PrivateKey, Validity

_DAY = 86400


@dataclass(frozen=True)
class Limits:
    """The thresholds for findings."""

    min_free_mib: int = 10240
    expiry_days: int = 30
    clock_seconds: float = 1.0


def find(
    name: str,
    facts: PreflightFacts,
    limits: Limits,
    asked: t.Collection[str],
    silent: t.Collection[str] = (),
) -> list[Finding]:
    """The findings about hypervisor ``name``; ``asked`` are the hosts of this run, ``silent`` those
    of them that did not answer."""
    findings: list[Finding] = []
    for check, error in sorted((facts.get("errors") or {}).items()):
        kind = "libvirt_silent" if check == "libvirt" else "check_failed"
        findings.append(
            Finding(kind, (name,), error if check == "libvirt" else f"{check}: {error}")
        )
    for judge in (_uuid, _kvm, _iommu, _bridges, _bridge_filter, _listeners):
        findings += judge(name, facts)
    findings += _tls(name, facts, asked, silent)
    findings += _pools(name, facts, limits)
    findings += decide_pools.find(name, facts)
    for entry in facts.get("keys") or ():
        if entry["kind"] == "key":
            findings += _private_key(name, entry)
        else:
            findings += expiry(name, entry, facts["time"], limits)
    return findings


def _uuid(name: str, facts: PreflightFacts) -> list[Finding]:
    if facts.get("uuid_lasts") is not False:
        return []
    text = (
        f"libvirt's UUID of it ({facts.get('uuid')}) is neither its firmware's nor its machine ID"
        " nor set as host_uuid: after the next start of the daemon it is another machine for the"
        " others, which then create no VM"
    )
    return [Finding("uuid_made_up", (name,), text)]


def _kvm(name: str, facts: PreflightFacts) -> list[Finding]:
    kvm = facts.get("kvm")
    if kvm is None:
        return []
    if not kvm["device"]:
        return [Finding("kvm_missing", (name,), "there is no /dev/kvm: emulation only")]
    if not kvm["tried"]:
        return [Finding("kvm_not_tried", (name,), f"/dev/kvm exists, {kvm['problem']}")]
    if kvm["problem"]:
        # if libvirt does not offer KVM either, no guest can crash because of it
        kind = "kvm_crashes" if kvm["offered"] is not False else "kvm_missing"
        return [Finding(kind, (name,), f"/dev/kvm exists, but {kvm['problem']}")]
    if kvm["offered"] is False:
        text = "KVM works, but libvirt offers emulation only"
        return [Finding("kvm_not_offered", (name,), text)]
    return []


def _iommu(name: str, facts: PreflightFacts) -> list[Finding]:
    if facts.get("iommu") is not False:
        return []
    return [Finding("iommu_off", (name,), "no IOMMU is active (/sys/kernel/iommu_groups is empty)")]


def _bridges(name: str, facts: PreflightFacts) -> list[Finding]:
    findings = []
    for bridge in facts.get("bridges") or ():
        label = bridge["name"]
        if not bridge["exists"]:
            text = f"there is no bridge {label}"
            if bridge["needed"] is False:
                text += ", which a NIC profile names; no VM here is on it"
                findings.append(Finding("bridge_unavailable", (name,), text))
            else:
                findings.append(Finding("bridge_missing", (name,), text))
            continue
        if not bridge["up"]:
            findings.append(Finding("bridge_down", (name,), f"bridge {label} is down"))
        uplinks = [port for port in bridge["ports"] if not port["guest"]]
        if not uplinks:
            text = f"bridge {label} has no uplink (no host interface is a port of it)"
            findings.append(Finding("bridge_no_uplink", (name,), text))
        elif not any(port["active"] for port in uplinks):
            named = ", ".join(port["name"] for port in uplinks)
            text = f"bridge {label}: no uplink is active ({named})"
            findings.append(Finding("bridge_uplink_down", (name,), text))
    return findings


def _bridge_filter(name: str, facts: PreflightFacts) -> list[Finding]:
    chains = facts.get("bridge_filter") or ()
    if not chains:
        return []
    text = f"br_netfilter passes the bridges' packets to {', '.join(chains)}, which drops them"
    return [Finding("bridge_filtered", (name,), text)]


def _listeners(name: str, facts: PreflightFacts) -> list[Finding]:
    sockets = [listeners.Listener(**fields) for fields in facts.get("listeners") or ()]
    findings = [
        Finding("libvirt_plain", (name,), f"libvirt listens without TLS: {listener}")
        for listener in listeners.plain(sockets)
    ]
    tls = facts.get("tls")
    if tls and tls["anonymous"]:
        text = "libvirt's TLS port accepts clients without a certificate"
        findings.append(Finding("libvirt_unverified", (name,), text))
    findings += [
        Finding("qemu_exposed", (name,), f"{listener} is reachable from outside")
        for listener in listeners.exposed(sockets)
    ]
    return findings


def _tls(
    name: str, facts: PreflightFacts, asked: t.Collection[str], silent: t.Collection[str]
) -> list[Finding]:
    tls = facts.get("tls")
    if tls is None:
        return []
    if tls["missing"]:
        text = f"the control keys are missing: {', '.join(tls['missing'])}"
        return [Finding("tls_keys_missing", (name,), text)]
    findings = []
    unknown = []
    for peer in tls["peers"]:
        # that one which does not even answer Ansible is not reached is no finding of its own
        if peer["error"] is None or peer["name"] in silent:
            continue
        text = f"TLS to {peer['name']} ({peer['address']}:{listeners.TLS_PORT}): {peer['error']}"
        if peer["name"] not in asked:
            unknown.append(peer)
        else:
            findings.append(Finding("tls_failed", (name, peer["name"]), text))
    if unknown:
        hosts = (name, *(peer["name"] for peer in unknown))
        listed = "; ".join(f"{peer['name']} ({peer['error']})" for peer in unknown)
        findings.append(Finding("tls_not_known", hosts, f"{name} is not accepted by {listed}"))
    return findings


def _pools(name: str, facts: PreflightFacts, limits: Limits) -> list[Finding]:
    findings = []
    absent = {pool["name"] for pool in facts.get("folder_pools") or () if pool["absent"]}
    for pool in facts.get("pools") or ():
        if pool["name"] in absent:  # which is a finding of its own
            continue
        label = f"pool {pool['name']}"
        if pool["state"] is None and not pool["error"]:
            findings.append(Finding("pool_missing", (name,), f"there is no {label}"))
        elif pool["error"]:
            findings.append(Finding("pool_unreadable", (name,), f"{label}: {pool['error']}"))
        elif pool["state"] != "running":
            findings.append(Finding("pool_inactive", (name,), f"{label} is {pool['state']}"))
        else:
            space = (pool["available_mib"], pool["capacity_mib"])
            findings += pool_low(name, pool["name"], space, limits)
        if pool["autostart"] is False:
            text = f"{label} does not start at boot"
            findings.append(Finding("pool_no_autostart", (name,), text))
    return findings


def pool_low(
    name: str, pool: str, space: tuple[int | None, int | None], limits: Limits
) -> list[Finding]:
    """That a pool is nearly full, if so; ``space`` is what is free, and all of it."""
    free, total = space
    if free is None or free >= limits.min_free_mib:
        return []
    of = f" of {format_size(total)}" if total is not None else ""
    text = f"pool {pool} has {format_size(free)} free{of}"
    return [Finding("pool_low", (name,), f"{text}, less than {format_size(limits.min_free_mib)}")]


def _private_key(name: str, entry: PrivateKey) -> list[Finding]:
    if not entry["mode"] & 0o077:
        return []
    path, mode = entry["path"], entry["mode"]
    text = f"{path} has mode {mode:04o}: users other than its owner can access it"
    return [Finding("key_readable", (name,), text)]


def expiry(name: str, entry: Validity, now: float, limits: Limits) -> list[Finding]:
    """What is to be said of a certificate or revocation list of a hypervisor at that time."""
    word = "crl" if entry["kind"] == "crl" else "key"
    days = (entry["until"] - now) / _DAY
    what = f"{entry['path']} ({entry['subject']})"
    if days < 0:
        return [Finding(f"{word}_expired", (name,), f"{what} expired {-days:.0f} days ago")]
    # a CRL is short-lived: a tenth of its own validity is early enough
    if days < (limits.expiry_days if word == "key" else entry["days"] / 10):
        return [Finding(f"{word}_expires", (name,), f"{what} expires in {days:.0f} days")]
    return []
