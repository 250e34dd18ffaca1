# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What preflight may find: every kind with its stable id, its severity and its remedy.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

Severity = t.Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

_SET_UP = "run fleet.virt.setup_hypervisors on it"

# id: severity, remedy
KINDS: dict[str, tuple[Severity, str]] = {
    "host_silent": ("error", "see that it runs and that Ansible reaches it as root"),
    "host_not_asked": ("info", "run preflight without --limit to ask all"),
    "libvirt_silent": (
        "error",
        "run fleet.virt.renew_keys, which starts a daemon that has failed, as with expired keys, or"
        " says why it cannot; where libvirt is not installed, run fleet.virt.setup_hypervisors",
    ),
    "check_failed": ("warning", "do what the message says, and run preflight again"),
    "kvm_missing": (
        "warning",
        "switch on VT-x or AMD-V in its firmware and load kvm_intel or kvm_amd; in a virtual"
        " machine, have its host pass virtualization on; guests are emulated, and slow, until then",
    ),
    "kvm_crashes": (
        "error",
        "do not use KVM there: have the machine's own host pass virtualization on properly,"
        " or remove /dev/kvm so that guests are emulated",
    ),
    "kvm_not_offered": ("warning", "restart libvirt's daemon: it looked before KVM was there"),
    "kvm_not_tried": ("info", "start a guest there to see"),
    "iommu_off": (
        "info",
        "only for guests that are given a host's device: switch on VT-d or AMD-Vi in the firmware"
        " and boot with intel_iommu=on or amd_iommu=on",
    ),
    "uuid_duplicate": (
        "error",
        "set another host_uuid in /etc/libvirt/libvirtd.conf (or virtqemud.conf) on all but one,"
        " and restart the daemon; until then no guest moves between them",
    ),
    "clock_differs": ("warning", "synchronise the clocks: systemctl enable --now chrony"),
    "clock_wrong": (
        "error",
        "synchronise the clocks (systemctl enable --now chrony): certificates are judged by them",
    ),
    "cpu_differs": (
        "info",
        "give guests that may move the CPU model of the message; the collection does by itself",
    ),
    "cpu_incompatible": (
        "warning",
        "guests cannot move between these: put hosts of one kind into a group of their own",
    ),
    "cpu_not_compared": ("error", "run preflight again"),
    "arch_differs": ("info", "guests move within one architecture only"),
    "versions_differ": (
        "warning",
        "move guests from the older to the newer only, and bring all to one version soon",
    ),
    "machines_apart": (
        "error",
        "no guest can move between these: bring qemu to versions that share a machine type",
    ),
    "bridge_missing": ("error", f"{_SET_UP}, or name another bridge in virt_nic_profiles"),
    "bridge_down": ("error", "set it up: ip link set BRIDGE up, and see why it was not"),
    "bridge_no_uplink": (
        "warning",
        f"guests there reach nobody outside the host, unless that is meant: {_SET_UP}",
    ),
    "bridge_uplink_down": ("error", "see to the cable, the switch and the interface"),
    "bridge_filtered": (
        "error",
        "guests on the bridge are cut off silently: set net.bridge.bridge-nf-call-iptables=0 (and"
        " ip6tables), or accept the bridge's packets in that chain",
    ),
    "libvirt_plain": (
        "error",
        f"whoever reaches it is root there: switch the listener off, then {_SET_UP}",
    ),
    "libvirt_unverified": (
        "error",
        "whoever reaches it is root there: remove tls_no_verify_certificate from libvirtd.conf"
        " (virtproxyd.conf) and restart the daemon",
    ),
    "qemu_exposed": (
        "error",
        "have consoles and disks listen on 127.0.0.1 (vnc_listen, spice_listen in qemu.conf) and"
        " go there through SSH",
    ),
    "tls_keys_missing": ("error", _SET_UP),
    "tls_failed": (
        "error",
        "run fleet.virt.renew_keys, which renews keys and starts a daemon that has failed; if that"
        " changes nothing, fleet.virt.setup_hypervisors, which opens port and firewall",
    ),
    "tls_not_known": (
        "warning",
        "they do not know it yet: run fleet.virt.setup_hypervisors on all, without --limit",
    ),
    "key_expired": ("error", "run fleet.virt.renew_keys"),
    "key_expires": ("warning", "run fleet.virt.renew_keys"),
    "key_readable": ("error", "chmod 0600, find out who read it, and renew it"),
    "crl_expired": ("error", "nobody is let in with it: run fleet.virt.renew_keys"),
    "crl_expires": ("warning", "run fleet.virt.renew_keys"),
    "pool_missing": ("error", _SET_UP),
    "pool_inactive": ("error", "virsh pool-start POOL, and see why it was not"),
    "pool_no_autostart": ("warning", "virsh pool-autostart POOL, else it is gone after a reboot"),
    "pool_unreadable": ("error", "do what the message says"),
    "pool_low": ("warning", "remove what nobody needs, or make the file system larger"),
}


@dataclass(frozen=True)
class Finding:
    """Something an administrator should know; ``hosts`` are those it is about."""

    id: str
    hosts: tuple[str, ...]
    message: str

    @property
    def severity(self) -> Severity:
        return KINDS[self.id][0]

    @property
    def remedy(self) -> str:
        return KINDS[self.id][1]

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "severity": self.severity,
            "hosts": list(self.hosts),
            "message": self.message,
            "remedy": self.remedy,
        }


def merged(findings: t.Iterable[Finding]) -> list[Finding]:
    """What several hosts have in common is one finding."""
    hosts: dict[tuple[str, str], dict[str, None]] = {}
    for one in findings:
        hosts.setdefault((one.id, one.message), {}).update(dict.fromkeys(one.hosts))
    return [Finding(kind, tuple(names), message) for (kind, message), names in hosts.items()]


def ordered(findings: t.Iterable[Finding]) -> list[Finding]:
    """Errors first, then by id and host."""
    return sorted(findings, key=lambda one: (SEVERITIES.index(one.severity), one.id, one.hosts))
