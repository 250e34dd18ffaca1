# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The possible findings of preflight and doctor, each kind with its stable id, severity, remedy.

Of a finding about one VM or volume the remedy is a command of its own (``fix``), which is made
where the finding is; what stands here says what it does.
"""

from __future__ import annotations

import shlex
import typing as t

from ..._records import dataclass

Severity = t.Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

# HYPERVISORS stands for those that the finding is about
_SET_UP = "run ansible-playbook fleet.virt.setup_hypervisors --limit HYPERVISORS"
_RENEW = "run ansible-playbook fleet.virt.renew_keys"
_MOUNT = (
    "with no VM running from it: virsh pool-destroy POOL, virsh pool-edit POOL (or the line in"
    " /etc/fstab) for OPTION, virsh pool-start POOL"
)

# Of doctor alone: of the fleet as it is
OF_FLEETS: dict[str, tuple[Severity, str]] = {
    "host_off": ("warning", "switch it on, and end its maintenance"),
    "name_twice": ("error", "rename the one that is wrong while it is shut off"),
    "uuid_twice": ("error", "remove the definition that is wrong; its disks stay"),
    "mac_twice": ("error", "give one of the NICs another MAC address"),
    "address_twice": ("warning", "seed one of the VMs with another address"),
    "note_differs": (
        "info",
        "nothing while it answers: the next run that creates a VM writes the notes anew",
    ),
    "note_ahead": ("warning", "delete the note: the next run that creates a VM writes it anew"),
    "machine_unlisted": (
        "error",
        "add it to the inventory; only if it is permanently gone, name its machine UUID in"
        " virt_hypervisors_lost in the group_vars",
    ),
    "work_unfinished": ("warning", "run again what was interrupted"),
    "move_unfinished": ("warning", "run ansible-playbook fleet.virt.repair_vms"),
    "rolling_unfinished": ("warning", "run the command that began it again"),
    "metadata_unusable": ("error", "remove them, and adopt the VM"),
    "card_differs": ("warning", "run ansible-playbook fleet.virt.repair_vms"),
    "card_unusable": ("error", "follow the message"),
    "definition_left": ("error", "run ansible-playbook fleet.virt.repair_vms"),
    "cell_no_quorum": (
        "error",
        "see why on it (journalctl -u corosync -u pacemaker): members reach each other by UDP on"
        " the ports 5405 to 5412",
    ),
    "cell_member_not_proven_off": ("error", "look at it, and state that it is off, if it is"),
    "cell_vm_unmanaged": ("warning", "run ansible-playbook fleet.virt.repair_vms"),
    "cell_vm_unknown": ("error", "run ansible-playbook fleet.virt.repair_vms"),
    "cell_vm_failed": ("error", "follow the message"),
    "volume_unused": ("info", "delete it once you know that nobody needs it"),
    "memory_overcommitted": ("warning", "move a VM away, or raise virt_memory_ratio"),
    "vcpus_overcommitted": ("warning", "move a VM away, or raise virt_vcpu_ratio"),
    "pool_overcommitted": (
        "warning",
        "enlarge the pool, move disks or VMs away, or raise virt_disk_ratio",
    ),
    "loss_not_survived": ("warning", "add a hypervisor, or make VMs smaller"),
    "arch_differs": ("info", "guests migrate within one architecture only"),
    "versions_differ": (
        "warning",
        "migrate guests only from older to newer, and upgrade all to the same version soon",
    ),
    "machines_apart": (
        "error",
        "no guest can migrate between these: install QEMU versions that share a machine type",
    ),
    "setup_differs": ("warning", _SET_UP),
}

# Of preflight: of a hypervisor, and of what it has to do with others
OF_HOSTS: dict[str, tuple[Severity, str]] = {
    "host_silent": ("error", "check that it is running and that Ansible can reach it as root"),
    "host_not_asked": (
        "info",
        "run it without --limit to look at all",
    ),
    "libvirt_silent": (
        "error",
        f"{_RENEW}, which starts a failed daemon (as after keys expired) or reports why it cannot;"
        f" where libvirt is not installed, {_SET_UP}",
    ),
    "check_failed": (
        "warning",
        "follow the message, then run ansible-playbook fleet.virt.preflight again",
    ),
    "uuid_made_up": (
        "error",
        f"{_SET_UP}, which has libvirt take its machine ID, or says why not",
    ),
    "uuid_duplicate": (
        "error",
        "if these are names of one machine, remove all but one from the inventory; else set a"
        " different host_uuid in /etc/libvirt/libvirtd.conf (or virtqemud.conf) on all but one, and"
        " restart the daemon; until then no guest can migrate between them",
    ),
    "kvm_missing": (
        "warning",
        "enable VT-x or AMD-V in its firmware and load kvm_intel or kvm_amd; in a virtual machine,"
        " enable nested virtualization on its host; until then, guests are emulated and slow",
    ),
    "kvm_crashes": (
        "error",
        "do not use KVM there: fix nested virtualization on the machine's own host, or remove"
        " /dev/kvm so that guests are emulated",
    ),
    "kvm_not_offered": (
        "warning",
        "restart the libvirt daemon: it started before KVM was available",
    ),
    "kvm_not_tried": ("info", "start a guest there to find out"),
    "iommu_off": (
        "info",
        "needed only to pass host devices through to guests: enable VT-d or AMD-Vi in the firmware"
        " and boot with intel_iommu=on or amd_iommu=on",
    ),
    "clock_differs": ("warning", "synchronise the clocks: systemctl enable --now chrony"),
    "clock_wrong": (
        "error",
        "synchronise the clocks (systemctl enable --now chrony): certificates depend on them",
    ),
    "cpu_differs": (
        "info",
        "run ansible-playbook fleet.virt.preflight and set virt_cpu to the line below its findings,"
        " so that new VMs can move to all of them",
    ),
    "cpu_incompatible": (
        "warning",
        "guests cannot migrate between these: put hosts of the same kind into their own group",
    ),
    "cpu_not_compared": ("error", "run ansible-playbook fleet.virt.preflight again"),
    "bridge_missing": ("error", f"{_SET_UP}, or name another bridge in virt_nic_profiles"),
    "bridge_unavailable": (
        "warning",
        "VMs with that profile are not placed there; if they should be, add the bridge to"
        f" bridge_list and {_SET_UP}",
    ),
    "bridge_down": ("error", "run ip link set BRIDGE up, and find out why it was down"),
    "bridge_no_uplink": (
        "warning",
        f"guests on it cannot reach anything outside the host; if that is not intended, {_SET_UP}",
    ),
    "bridge_uplink_down": ("error", "check the cable, the switch and the interface"),
    "bridge_filtered": (
        "error",
        "guests on the bridge silently lose their traffic: set net.bridge.bridge-nf-call-iptables=0"
        " (and ip6tables), or accept the bridge's packets in that chain",
    ),
    "libvirt_plain": (
        "error",
        f"anyone who can reach it is root there: disable the listener, then {_SET_UP}",
    ),
    "libvirt_unverified": (
        "error",
        "anyone who can reach it is root there: remove tls_no_verify_certificate from libvirtd.conf"
        " (virtproxyd.conf) and restart the daemon",
    ),
    "qemu_exposed": (
        "error",
        "make consoles and disks listen on 127.0.0.1 (vnc_listen, spice_listen in qemu.conf) and"
        " access them through SSH",
    ),
    "tls_keys_missing": ("error", _SET_UP),
    "tls_failed": (
        "error",
        f"{_RENEW}, which renews keys and starts a failed daemon; if that does not help, {_SET_UP},"
        " which opens the port and the firewall",
    ),
    "tls_not_known": (
        "warning",
        "they do not know it yet: run ansible-playbook fleet.virt.setup_hypervisors without"
        " --limit",
    ),
    "key_expired": ("error", _RENEW),
    "key_expires": ("warning", _RENEW),
    "key_readable": ("error", "chmod 0600, find out who read it, and renew it"),
    "crl_expired": ("error", f"no client is let in until it is renewed: {_RENEW}"),
    "crl_expires": ("warning", _RENEW),
    "nfs_version": ("warning", _MOUNT.replace("OPTION", "<protocol ver='4.2'/> in <source>")),
    "nfs_soft": ("error", _MOUNT.replace("OPTION", "the option hard")),
    "nfs_locks": ("error", _MOUNT.replace("OPTION", "neither nolock nor local_lock")),
    "nfs_lookups": ("warning", _MOUNT.replace("OPTION", "the option lookupcache=none")),
    "nfs_recovers_locks": (
        "error",
        "another hypervisor may have run the VM meanwhile: write options nfs recover_lost_locks=0"
        " into /etc/modprobe.d/nfs.conf and restart the hypervisor",
    ),
    "pool_not_mounted": ("error", "until then nothing is done in it there: follow the message"),
    "pool_not_shared": (
        "warning",
        f"if it is the same storage, declare it shared there too (storage_pools), and {_SET_UP};"
        " else give it another path",
    ),
    "pool_ids_differ": (
        "warning",
        "VMs are copied between these; if it should be one storage, mount the same on all",
    ),
    "pool_lock_unseen": (
        "error",
        "start no VM from it before locks hold: mount NFS with version 4.1 or newer and without"
        " nolock or local_lock; on a cluster file system, start its lock manager",
    ),
    "pool_copied": (
        "error",
        "it is a copy: mount the same storage on both, or remove fleet-virt.pool-id from the copy,"
        f" and {_SET_UP}",
    ),
    "pool_lock_untried": (
        "warning",
        "follow the message, then run ansible-playbook fleet.virt.preflight again",
    ),
    "pool_missing": ("error", _SET_UP),
    "pool_inactive": ("error", "run virsh pool-start POOL, and find out why it was not running"),
    "pool_no_autostart": (
        "warning",
        "run virsh pool-autostart POOL; otherwise it is inactive after a reboot",
    ),
    "pool_unreadable": ("error", "follow the message"),
    "pool_low": ("warning", "remove what is no longer needed, or enlarge the file system"),
}
# Of preflight, and of doctor as well
_OF_BOTH = (
    *("host_silent", "host_not_asked", "libvirt_silent", "uuid_duplicate"),
    *("clock_differs", "clock_wrong", "cpu_differs"),
    *("key_expired", "key_expires", "crl_expired", "crl_expires", "pool_low"),
)
OF_DOCTOR = {**OF_FLEETS, **{kind: OF_HOSTS[kind] for kind in _OF_BOTH}}
KINDS = {**OF_HOSTS, **OF_FLEETS}


@dataclass(frozen=True)
class Finding:
    """Something an administrator should know; ``hosts`` are the hypervisors concerned, ``fix`` the
    remedy, where it names more than these."""

    id: str
    hosts: tuple[str, ...]
    message: str
    fix: str = ""

    @property
    def severity(self) -> Severity:
        return KINDS[self.id][0]

    @property
    def remedy(self) -> str:
        names = shlex.quote(",".join(self.hosts))
        return self.fix or KINDS[self.id][1].replace("HYPERVISORS", names)

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "severity": self.severity,
            "hosts": list(self.hosts),
            "message": self.message,
            "remedy": self.remedy,
        }


def merged(findings: t.Iterable[Finding]) -> list[Finding]:
    """Merge findings that several hosts share into one."""
    hosts: dict[tuple[str, str, str], dict[str, None]] = {}
    for finding in findings:
        key = (finding.id, finding.message, finding.fix)
        hosts.setdefault(key, {}).update(dict.fromkeys(finding.hosts))
    return [Finding(kind, tuple(names), text, fix) for (kind, text, fix), names in hosts.items()]


def ordered(findings: t.Iterable[Finding]) -> list[Finding]:
    """Errors first, then by id and host."""
    return sorted(
        findings,
        key=lambda finding: (SEVERITIES.index(finding.severity), finding.id, finding.hosts),
    )
