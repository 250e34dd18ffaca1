# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far each setting of a VM was tried: three classes, which exclude each other.

*Proven*: a test sees its effect in the guest or in QEMU. *Accepted*: a VM with it is defined and
started by libvirt 9.0 and 11.3, and reads back as it was asked for. *Schema only*: its XML is
valid, and what it needs the laboratory has not.

What is in none of the first two tables is accepted, and must be in ``VMS``.
"""

from __future__ import annotations

from typing import Any

_UEFI = "provisioning/test_settings.py::test_a_guest_with_uefi_reports_its_tpm"
_THREADS = "provisioning/test_settings.py::test_disks_share_threads_and_detect_zeroes"
# Setting: the test that sees it, below tests/integration
PROVEN = {
    "boot": "provisioning/test_media.py::test_a_vm_boots_from_its_cd",
    "disks.device": "provisioning/test_media.py::test_a_guest_reads_its_cd",
    "disks.image": "provisioning/test_media.py::test_a_vm_boots_from_its_cd",
    "disks.read_bytes_sec": "provisioning/test_change.py::test_changes_of_a_guest_that_runs",
    "disks.serial": "provisioning/test_change.py::test_changes_of_a_guest_that_runs",
    "disks.detect_zeroes": _THREADS,
    **{
        f"disks.{key}": "provisioning/test_owned.py::test_disks_that_exist_are_attached_and_stay"
        for key in ("volume", "dev", "protocol", "source_name", "hosts")
    },
    "disks.iothread": _THREADS,
    "disks.encryption_secret": "provisioning/test_settings.py::test_disks_are_encrypted",
    "secure_boot": "provisioning/test_settings.py::test_secure_boot_looks_for_signatures",
    "firmware": _UEFI,
    "kernel": _UEFI,
    "initrd": _UEFI,
    "cmdline": _UEFI,
    "nics.link": "provisioning/test_change.py::test_changes_of_a_guest_that_runs",
    "nics.vlan": "provisioning/test_vlans.py",
    "vcpus": "provisioning/test_change.py::test_changes_of_a_guest_that_runs",
    "vcpus_max": "provisioning/test_change.py::test_changes_of_a_guest_that_runs",
    "tpm.model": _UEFI,
}
_CGROUPS = "the laboratory's hypervisors are containers without controllers of cgroups"
_KVM = "the laboratory has no KVM, and emulation has none of it"
_HARDWARE = "the laboratory has no device to give away"
SCHEMA_ONLY = {
    "arch": "the laboratory has PCs alone",
    "cputune.shares": _CGROUPS,
    "cputune.period": _CGROUPS,
    "cputune.quota": _CGROUPS,
    "memtune.hard_limit": _CGROUPS,
    "memtune.soft_limit": _CGROUPS,
    "features.kvm_hint_dedicated": _KVM,
    "hostdevs.pci": _HARDWARE,
    "hostdevs.usb": _HARDWARE,
    "disks.auth_user": "the laboratory has neither Ceph nor iSCSI",
    "disks.auth_secret": "the laboratory has neither Ceph nor iSCSI",
    "nics.mode": "the laboratory's hypervisors have no /dev/tap of macvtap",
    "nics.virtualport": "the laboratory has no Open vSwitch",
    "nics.isolated": "the laboratory may not write what it is set by, below /sys",
    "memory_backing.locked": "the laboratory's hypervisors may not lock memory",
    "memory_backing.hugepages": "the laboratory has reserved none",
    "memory_backing.page_size": "the laboratory has reserved none",
}
SCHEMA_ONLY.update(
    {
        f"nics.{way}_{key}": "the laboratory's kernel has no queue of the kind sfq"
        for way in ("inbound", "outbound")
        for key in ("average", "peak", "burst")
    }
)
_HYPERV = ("relaxed", "vapic", "spinlocks", "vpindex", "runtime", "synic", "stimer", "reset")
_HYPERV += ("frequencies", "reenlightenment", "tlbflush", "ipi", "vendor_id")
SCHEMA_ONLY.update({f"hyperv.{key}": _KVM for key in _HYPERV})
NETWORK = "bridged"
PORTGROUP = "office"
KERNEL = "/var/lib/libvirt/images/kernel"
_IOPS = {"read_iops_sec": 100, "write_iops_sec": 100}
VMS: list[dict[str, Any]] = [
    {
        "name": "machine",
        "os": "debian12",
        "title": "A <machine> & its parts",
        "description": "first\nsecond",
        "vcpus": 2,
        "cpuset": "0",
        "memory": 64,
        "memory_max": 64,
        "memory_backing": {
            "nosharepages": True,
            "source": "memfd",
            "access": "shared",
            "allocation": "immediate",
            "discard": True,
        },
        "numa": [{"cpus": "0", "memory": 32}, {"cpus": "1", "memory": 32}],
        "numatune": {"mode": "preferred", "nodeset": "0"},
        "cputune": {"vcpupin": ["1:0"], "emulatorpin": "0"},
        "cpu": {
            "mode": "custom",
            "model": "qemu64",
            "require": ["ssse3"],
            "disable": ["svm"],
            "sockets": 1,
            "dies": 1,
            "cores": 2,
            "threads": 1,
        },
        "machine": "q35",
        "domain_type": "qemu",
        "boot_menu": True,
        "clock": {
            "offset": "timezone",
            "timezone": "Europe/Berlin",
            "rtc": "catchup",
            "pit": "delay",
            "hpet": True,
            "kvmclock": False,
            "hypervclock": False,
        },
        "features": {"pae": True, "kvm_hidden": True, "pmu": False, "vmport": True, "smm": True},
        "on_poweroff": "destroy",
        "on_reboot": "destroy",
        "on_crash": "preserve",
        "watchdog": {"model": "i6300esb", "action": "pause"},
        "rng": False,
        "balloon": False,
        "panic": {"model": "isa"},
        "iommu": {"model": "intel"},
    },
    {
        "name": "devices",
        "memory": 64,
        "console": {
            "type": "vnc",
            "listen": "127.0.0.1",
            "port": 5977,
            "keymap": "de",
            "password": "s3cret&<",
        },
        "video": {"model": "virtio", "heads": 2},
        "sound": {"model": "ich9"},
        "serials": [
            {"type": "unix", "path": "/run/libvirt/port", "mode": "bind"},
            {"type": "tcp", "host": "127.0.0.1", "port": 5978, "mode": "bind", "protocol": "raw"},
        ],
        "channels": [{"name": "org.example.0", "type": "unix"}],
        "filesystems": [
            {
                "source": "/srv",
                "target": "srv",
                "driver": "path",
                "accessmode": "mapped",
                "readonly": True,
            }
        ],
        "disks": [
            {
                "name": "system",
                "size": 8,
                "format": "qcow2",
                "cache": "none",
                "io": "threads",
                "discard": "unmap",
                "queues": 1,
                "error_policy": "stop",
                "rerror_policy": "report",
                "total_bytes_sec": 1048576,
                "total_iops_sec": 1000,
                "pool": "default",
                "overlay": False,
                "serial": "A.b_1",
            },
            {
                "name": "data",
                "size": 8,
                "bus": "scsi",
                "readonly": True,
                "wwn": "5000c50015ea71ac",
                "logical_block_size": 4096,
                "physical_block_size": 4096,
                "read_bytes_sec": 1048576,
                "write_bytes_sec": 1048576,
                **_IOPS,
            },
        ],
        "nics": [
            {
                "name": "eth0",
                "bridge": "br0",
                "type": "bridge",
                "mac": "52:54:00:12:34:56",
                "model": "virtio",
                "mtu": 1400,
                "queues": 2,
                "link": False,
                "filter": "clean-traffic",
            }
        ],
    },
    {
        "name": "windows",
        "os": "win10",
        "memory": 64,
        "disks": [
            {"name": "system", "size": 8},
            {"name": "cd", "device": "cdrom"},
            {"name": "floppy", "device": "floppy"},
        ],
        "xml": "<domain><pm>"
        "<suspend-to-mem enabled='no'/></pm><devices>"
        "<input type='mouse' bus='virtio'/></devices></domain>",
        "memory_max": 96,
        "video": {"model": "vga", "vram": "32MiB"},
        "kernel": KERNEL,
        "initrd": KERNEL,
        "cmdline": "a='<b>'",
        "nics": [
            {"name": "eth0", "network": NETWORK, "portgroup": PORTGROUP},
            {"name": "eth1", "source": "br0"},
        ],
    },
]
