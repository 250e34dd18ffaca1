#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_init
short_description: Create and change VMs on a hypervisor
version_added: 0.1.0
description:
  - Creates one VM from its options, or several from O(vms), on the hypervisor that the module runs
    on, with disks, NICs, consoles and a seed medium, and starts them.
  - All errors of all VMs are reported before the first is touched. What fails later is rolled back,
    and only that. A call that was killed is finished by running it again.
  - An existing VM is changed to match the request. Options that are given, not defaults, are
    compared with libvirt's definition, whoever changed it; options that matter only at creation
    (image, seed) are compared with the original request. Each option says whether it is changed at
    once, at the next start, or never; if any change in a batch is impossible, nothing is changed.
    Disks and NICs that are not listed are kept. Placement is not compared.
  - A change that fails is rolled back. Then the VM is read again, running and defined, and what
    remains of the change is named. Such a VM stays marked as being changed, with its volumes, until
    it is completed by running it again, as is a change that was killed.
  - On a hypervisor of the inventory group C(hypervisors) the controller asks the others of the
    group whether they have a VM of that name, and nothing is created while one of them does not
    respond. This needs libvirt's Python binding on the controller. The playbook
    C(fleet.virt.provision_vm) also chooses the hypervisor, compares MAC addresses with those of the
    whole fleet, and notes on the other hypervisors what it creates, so that it goes on while one of
    them does not respond. This module notes nothing, since it reaches only the hypervisor it runs
    on. A VM that it creates is noted when the playbook next creates one; if its hypervisor dies
    before that, the others do not know of the VM.
  - Profiles, keys and image files are looked up on the controller, in the variables named below.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._seed.option
attributes:
  check_mode:
    support: full
    details:
      - A UUID exists only afterwards and is shown as V((generated\)).
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  # written by tests/contract/test_settings.py
  name:
    description:
      - Name of the VM, and its host name unless O(seed) has another.
    type: str
  os:
    description:
      - Operating system by its name in libosinfo, such as V(debian12), V(win11) or
        V(http://debian.org/debian/12). V(windows) is V(win11), V(linux) is V(linux2022). It is
        stored with the VM, where virt-manager finds it. It provides defaults for settings that are
        not given. For Windows these are the clock at local time, O(hyperv) on KVM, the machine type
        V(q35), disks and drives on SATA and NICs of the model e1000e, for which its installer has
        drivers; for Windows 11 also UEFI with secure boot, a TPM, 2 vCPUs and 4 GiB of memory.
      - It does not change other settings of an existing VM. libosinfo itself is needed neither on
        the controller nor on hypervisors.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: str
  vcpus:
    description:
      - Number of virtual CPUs. From 1 to 4096.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: int
    default: 1
  cpuset:
    description:
      - Host CPUs that the vCPUs may run on, such as V(0-3,^2); any CPU if omitted.
      - In an existing VM, a change takes effect at the next start.
    type: str
  vcpus_max:
    description:
      - Maximum number of virtual CPUs that the VM can be given while it runs; defaults to O(vcpus).
        From 1 to 4096.
      - In an existing VM, a change takes effect at the next start.
    type: int
  memory:
    description:
      - Memory of the VM. In whole MiB, or with a unit such as V(4GiB) or V(0.5GiB), at least 16
        MiB.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: str
    default: "1024"
  memory_max:
    description:
      - Maximum memory that the VM can be given while it runs; defaults to O(memory). In whole MiB,
        or with a unit such as V(4GiB) or V(0.5GiB), at least 16 MiB.
      - In an existing VM, a change takes effect at the next start.
    type: str
  memory_backing:
    description:
      - How the VM's memory is backed.
    type: dict
    suboptions:
      hugepages:
        description:
          - Back the memory with huge pages, of the hypervisor's default size if
            O(memory_backing.page_size) is omitted. A hypervisor without enough free huge pages is
            not considered.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      page_size:
        description:
          - Size of the huge pages, such as V(2MiB) or V(1GiB); implies O(memory_backing.hugepages).
            In whole MiB, or with a unit such as V(4GiB) or V(0.5GiB).
          - In an existing VM, a change takes effect at the next start.
        type: str
      locked:
        description:
          - Lock the memory, so that none of it is swapped out.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      nosharepages:
        description:
          - Prevent the hypervisor from merging identical pages (KSM).
          - In an existing VM, a change takes effect at the next start.
        type: bool
      source:
        description:
          - Source of the memory. Defaults to libvirt's choice, and to V(memfd) with a virtiofs file
            system.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [anonymous, memfd, file]
      access:
        description:
          - Whether other processes may map the memory. Defaults to V(shared) with a virtiofs file
            system.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [private, shared]
      allocation:
        description:
          - When the memory is allocated.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [ondemand, immediate]
      discard:
        description:
          - Return the memory to the hypervisor before QEMU exits.
          - In an existing VM, a change takes effect at the next start.
        type: bool
  numa:
    description:
      - NUMA nodes of the guest. Its vCPUs and memory are divided among them.
    type: list
    elements: dict
    suboptions:
      cpus:
        description:
          - vCPUs of the node, such as V(0-3).
          - In an existing VM, a change takes effect at the next start.
        type: str
      memory:
        description:
          - Memory of the node. In whole MiB, or with a unit such as V(4GiB) or V(0.5GiB).
          - In an existing VM, a change takes effect at the next start.
        type: str
  numatune:
    description:
      - NUMA nodes of the hypervisor that the memory is allocated on.
    type: dict
    suboptions:
      mode:
        description:
          - Policy when these nodes have too little memory.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [strict, preferred, interleave, restrictive]
        default: strict
      nodeset:
        description:
          - NUMA nodes of the hypervisor, such as V(0-1).
          - In an existing VM, a change takes effect at the next start.
        type: str
  cputune:
    description:
      - CPU time of the VM, and pinning of its threads.
    type: dict
    suboptions:
      vcpupin:
        description:
          - Pinning of single vCPUs to host CPUs, each C(VCPU:CPUS), such as V(0:4) or V(1:4-7).
          - In an existing VM, a change takes effect at the next start.
        type: list
        elements: str
      emulatorpin:
        description:
          - Host CPUs for QEMU's other threads, such as V(0-1).
          - In an existing VM, a change takes effect at the next start.
        type: str
      shares:
        description:
          - Weight of the VM when CPU time is scarce; other VMs have 1024 or, with cgroups v2, 100.
            From 2 to 262144.
          - In an existing VM, a change takes effect at the next start.
        type: int
      period:
        description:
          - Length of the period, in microseconds, in which each vCPU may run for O(cputune.quota).
            From 1000 to 1000000.
          - In an existing VM, a change takes effect at the next start.
        type: int
      quota:
        description:
          - Time, in microseconds, that each vCPU may run in every O(cputune.period). From 1000 to
            1000000000.
          - In an existing VM, a change takes effect at the next start.
        type: int
  memtune:
    description:
      - Limits on QEMU's memory.
    type: dict
    suboptions:
      hard_limit:
        description:
          - Maximum memory of the QEMU process. It is killed if it needs more, so leave headroom
            above the guest's memory. In whole MiB, or with a unit such as V(4GiB) or V(0.5GiB).
          - In an existing VM, a change takes effect at the next start.
        type: str
      soft_limit:
        description:
          - Memory that the QEMU process is limited to when the hypervisor is short of memory. In
            whole MiB, or with a unit such as V(4GiB) or V(0.5GiB).
          - In an existing VM, a change takes effect at the next start.
        type: str
  image:
    description:
      - Image that the first disk is created from. A file name in C(virt_image_dir) on the
        controller, a name of the catalogue as V(debian12), an absolute path on the hypervisor, a
        volume as C(pool/volume), or an https URL with its checksum as
        C(https://host/file.qcow2#sha256:...), which the hypervisor downloads. The format is
        detected from the content.
      - Cannot be changed in an existing VM (a disk is created from its image once; create another
        VM, or another disk).
    type: str
  disk_profile:
    description:
      - Name of a profile in C(virt_disk_profiles). Predefined are V(default), one disk C(system) of
        8192 MiB, qcow2, virtio, and V(none), no disks.
    type: str
    default: default
  nic_profile:
    description:
      - Profile in C(virt_nic_profiles), or V(default), a virtio NIC C(eth0) on C(br0), or V(none).
    type: str
    default: default
  disks:
    description:
      - Disks in addition to those of the profile; one with the same name overrides its settings.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name; an entry with a name from the profile overrides settings of the profile's entry.
        type: str
        required: true
      state:
        description:
          - Whether the VM has the disk. V(absent) detaches it from an existing VM, and deletes its
            volume with all data if it was created for this VM. A disk that is not listed is kept.
        type: str
        choices: [present, absent]
        default: present
      size:
        description:
          - Size of the disk. Defaults to the size of its image, if it has one. In whole MiB, or
            with a unit such as V(4GiB) or V(0.5GiB).
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: str
      device:
        description:
          - Device type. A V(cdrom), or a V(floppy) (PCs only), is a drive. It is empty or holds its
            O(disks[].image), which must be raw (for a CD, an ISO image), and it takes no size.
          - Cannot be changed in an existing VM (a disk keeps its kind and format; add another
            disk).
        type: str
        choices: [disk, cdrom, floppy]
        default: disk
      format:
        description:
          - Format of the volume. Defaults to V(qcow2), and to V(raw) for a drive.
          - Cannot be changed in an existing VM (a disk keeps its kind and format; add another
            disk).
        type: str
        choices: [qcow2, raw]
      bus:
        description:
          - Bus that the disk is attached to. Defaults to V(virtio), to V(scsi) for a V(cdrom), and
            to V(fdc) for a V(floppy), the only device on it. The machine type V(q35) has no V(ide).
          - Cannot be changed in an existing VM (the guest would see the disk under another name;
            add another disk).
        type: str
        choices: [virtio, scsi, sata, ide, usb, fdc]
        aliases: [model]
      cache:
        description:
          - Cache mode on the hypervisor. V(none) and V(directsync) bypass the host's page cache.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: ["none", writeback, writethrough, directsync, unsafe]
        default: "none"
      io:
        description:
          - I/O mode; defaults to QEMU's choice. V(native) needs O(disks[].cache) V(none) or
            V(directsync).
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [native, threads, io_uring]
      pool:
        description:
          - Pool to create the volume in; defaults to the variable C(virt_pool).
          - Cannot be changed in an existing VM (a disk stays in its pool; move it (ansible-playbook
            fleet.virt.move_disk -e vm_name=NAME -e virt_disk=NAME -e virt_to_pool=NAME), or add
            another disk).
        type: str
      image:
        description:
          - Image that the disk is created from, in the form of the VM's own C(image). The first
            disk defaults to that one, others to none. The image of a drive stays among the base
            images, where all VMs with it in a drive read it; V(none) ejects what is in the drive. A
            VM without a system on its first disk boots from its V(cdrom).
          - Cannot be changed in an existing VM (a disk is created from its image once; create
            another VM, or another disk).
        type: str
      overlay:
        description:
          - Create the disk as a copy-on-write overlay on its image, instead of a full copy.
            Defaults to the VM's own C(overlay), and to false for V(raw).
          - Cannot be changed in an existing VM (a disk is created from its image once; create
            another VM, or another disk).
        type: bool
      readonly:
        description:
          - Prevent the guest from writing to the disk. A V(cdrom) or V(floppy) is always read-only.
          - In an existing VM, a change takes effect at the next start.
        type: bool
        default: false
      volume:
        description:
          - Existing volume of O(disks[].pool), attached as it is. Like a block device
            (O(disks[].dev)) and a network disk (O(disks[].protocol)), it is never created, grown or
            removed, whatever happens to the VM. It takes no O(disks[].size) or O(disks[].image). It
            has to exist, in O(disks[].format), and no other VM of that hypervisor may use it unless
            it is O(disks[].readonly). A VM with such a disk cannot be moved.
          - Cannot be changed in an existing VM (the source of a disk is fixed; add another disk,
            and remove this one).
        type: str
      dev:
        description:
          - Block device of the hypervisor, an absolute path below C(/dev), such as
            V(/dev/vg0/data). One that the hypervisor itself uses (mounted, swap, part of LVM or
            RAID) is refused.
          - Cannot be changed in an existing VM (the source of a disk is fixed; add another disk,
            and remove this one).
        type: str
      protocol:
        description:
          - Protocol of a network disk. Whether anything else uses the disk is not known here.
          - Cannot be changed in an existing VM (the source of a disk is fixed; add another disk,
            and remove this one).
        type: str
        choices: [nbd, rbd, iscsi]
      source_name:
        description:
          - Name of the disk on the server, such as V(pool/image) for V(rbd),
            V(iqn.2026-01.org.example:disks/1) for V(iscsi), or an export of V(nbd).
          - Cannot be changed in an existing VM (the source of a disk is fixed; add another disk,
            and remove this one).
        type: str
      hosts:
        description:
          - Servers of the disk, each with a port if it is not the default one, such as
            V(10.0.0.1:10809). V(rbd) defaults to those in the hypervisor's own C(ceph.conf).
          - Cannot be changed in an existing VM (the source of a disk is fixed; add another disk,
            and remove this one).
        type: list
        elements: str
      auth_user:
        description:
          - User to authenticate as.
          - Cannot be changed in an existing VM (the source of a disk is fixed; add another disk,
            and remove this one).
        type: str
      auth_secret:
        description:
          - Usage of the libvirt secret (C(virsh secret-list)) to authenticate with.
          - Cannot be changed in an existing VM (the source of a disk is fixed; add another disk,
            and remove this one).
        type: str
      encryption_secret:
        description:
          - UUID or usage of the libvirt secret (C(virsh secret-list), of type V(volume)) with which
            QEMU encrypts the disk (LUKS). The secret must exist on the hypervisor; its value is
            never read here. libvirt creates the volume encrypted; an existing one must be encrypted
            already. Data in the disk's base image and on the seed medium is not encrypted. Such a
            disk can be grown only while the VM runs, and the VM can be neither moved nor copied nor
            have snapshots.
          - Cannot be changed in an existing VM (encryption is decided when a disk is created; add
            another disk).
        type: str
      discard:
        description:
          - Whether blocks that the guest discards are returned to the pool.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [unmap, ignore]
        default: unmap
      detect_zeroes:
        description:
          - Whether QEMU detects zeroes in the guest's writes. V(on) stores them without allocating
            space where the format can; V(unmap) also releases the space, which needs
            O(disks[].discard) V(unmap).
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: ["off", "on", unmap]
      iothread:
        description:
          - Number of the QEMU I/O thread that serves the disk, separate from the vCPU threads.
            Disks with the same number share a thread. The VM has as many threads as the highest
            number. Only for O(disks[].bus) V(virtio). From 1 to 64.
          - In an existing VM, a change takes effect at the next start.
        type: int
      serial:
        description:
          - Serial number that the guest sees, at most 20 letters, digits or C(_.+-).
          - In an existing VM, a change takes effect at the next start.
        type: str
      wwn:
        description:
          - World Wide Name that the guest sees, 16 hexadecimal digits. Not for O(disks[].bus)
            V(virtio) and V(usb).
          - In an existing VM, a change takes effect at the next start.
        type: str
      queues:
        description:
          - Queues that the guest's CPUs use in parallel. Only for O(disks[].bus) V(virtio). From 1
            to 256.
          - In an existing VM, a change takes effect at the next start.
        type: int
      error_policy:
        description:
          - What happens when the disk's storage fails. V(stop) pauses the VM, V(report) reports the
            error to the guest, V(enospace) pauses the VM if space ran out and reports other errors
            to the guest.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [stop, report, ignore, enospace]
      rerror_policy:
        description:
          - The same for reading alone; O(disks[].error_policy) is for writing then.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [stop, report, ignore]
      logical_block_size:
        description:
          - Size in bytes of the blocks that the guest addresses, a power of two. From 512 to 32768.
          - In an existing VM, a change takes effect at the next start.
        type: int
      physical_block_size:
        description:
          - Size in bytes of the blocks that the guest should write as a whole, a power of two. From
            512 to 32768.
          - In an existing VM, a change takes effect at the next start.
        type: int
      total_bytes_sec:
        description:
          - Limit of reads and writes together, in bytes per second. V(0) is no limit. From 0 to
            1099511627776.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
      read_bytes_sec:
        description:
          - Limit of reads, in bytes per second. V(0) is no limit. From 0 to 1099511627776.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
      write_bytes_sec:
        description:
          - Limit of writes, in bytes per second. V(0) is no limit. From 0 to 1099511627776.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
      total_iops_sec:
        description:
          - Limit of reads and writes together, in operations per second. V(0) is no limit. From 0
            to 1099511627776.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
      read_iops_sec:
        description:
          - Limit of reads, in operations per second. V(0) is no limit. From 0 to 1099511627776.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
      write_iops_sec:
        description:
          - Limit of writes, in operations per second. V(0) is no limit. From 0 to 1099511627776.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
  nics:
    description:
      - NICs in addition to those of the profile; one with the same name overrides its settings.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name; an entry with a name from the profile overrides settings of the profile's entry.
        type: str
        required: true
      state:
        description:
          - Whether the VM has the NIC.
        type: str
        choices: [present, absent]
        default: present
      bridge:
        description:
          - Bridge on the hypervisor that the NIC is attached to. Either this or O(nics[].network)
            is required, here or in the profile.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: str
      network:
        description:
          - libvirt network that the NIC is attached to.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: str
      mac:
        description:
          - MAC address, in quotes. If omitted, it is derived from the names of fleet, VM and NIC.
          - Cannot be changed in an existing VM (a guest knows its NIC by its MAC address; add
            another NIC, and remove this one).
        type: str
      type:
        description:
          - Type of O(nics[].source); defaults to V(bridge). V(direct) is an existing interface of
            the hypervisor (macvtap); a VM with such a NIC cannot be moved.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [bridge, network, direct]
      source:
        description:
          - Name of the bridge or network, an alternative to O(nics[].bridge) or O(nics[].network),
            or of the interface for O(nics[].type) V(direct).
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: str
      vlan:
        description:
          - VLAN tag. Refused where libvirt cannot set VLAN tags, such as on a Linux bridge without
            C(vlan_filtering), or on any Linux bridge before libvirt 11. Use a bridge that is on
            that VLAN, or an Open vSwitch bridge (O(nics[].virtualport)). From 1 to 4094.
          - In an existing VM, a change takes effect at the next start.
        type: int
      model:
        description:
          - Device model that the guest sees.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices:
          - virtio
          - virtio-transitional
          - virtio-non-transitional
          - e1000
          - e1000e
          - igb
          - rtl8139
          - vmxnet3
          - usb-net
        default: virtio
      link:
        description:
          - Whether the link is up.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: bool
        default: true
      mode:
        description:
          - How VMs on the same interface of O(nics[].type) V(direct) reach each other. V(vepa), the
            default, is through the switch, V(bridge) directly, V(private) not at all;
            V(passthrough) gives the interface to this NIC alone. None of them reaches the
            hypervisor itself.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [vepa, bridge, private, passthrough]
      virtualport:
        description:
          - Type of the O(nics[].bridge) if it is not a Linux bridge. The bridge has to exist
            (C(ovs-vsctl add-br)).
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [openvswitch]
      portgroup:
        description:
          - Port group of the O(nics[].network), which decides on VLAN, bandwidth and virtual port.
            Without it libvirt takes the network's default one. A hypervisor whose network lacks it
            is not considered.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: str
      mtu:
        description:
          - MTU in bytes, which is also announced to the guest if O(nics[].model) is V(virtio). From
            68 to 65535.
          - In an existing VM, a change takes effect at the next start.
        type: int
      queues:
        description:
          - Queues that the guest's CPUs use in parallel. Only for O(nics[].model) V(virtio). From 1
            to 256.
          - In an existing VM, a change takes effect at the next start.
        type: int
      inbound_average:
        description:
          - Average bandwidth to the guest, in KiB per second. From 1 to 4294967295.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
      inbound_peak:
        description:
          - Peak bandwidth to the guest, in KiB per second. From 1 to 4294967295.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
      inbound_burst:
        description:
          - Amount that may be sent to the guest at peak bandwidth, in KiB. From 1 to 4294967295.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
      outbound_average:
        description:
          - Average bandwidth from the guest, in KiB per second. From 1 to 4294967295.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
      outbound_peak:
        description:
          - Peak bandwidth from the guest, in KiB per second. From 1 to 4294967295.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
      outbound_burst:
        description:
          - Amount that the guest may send at peak bandwidth, in KiB. From 1 to 4294967295.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: int
      filter:
        description:
          - libvirt network filter for the guest's traffic, such as V(clean-traffic); C(virsh
            nwfilter-list) lists them.
          - In an existing VM, a change takes effect at the next start.
        type: str
      isolated:
        description:
          - Isolate the NIC from other isolated NICs on the bridge.
          - In an existing VM, a change takes effect at the next start.
        type: bool
        default: false
  overlay:
    description:
      - Create the disk as a copy-on-write overlay on the immutable base image, not as a full copy.
      - Cannot be changed in an existing VM (a disk is created from its image once; create another
        VM, or another disk).
    type: bool
    default: true
  start:
    description:
      - Start the VM once it is complete. Where V(true) is written, an existing VM that is shut off
        or has saved memory is started too, unless its hypervisor is in maintenance. What is paused
        stays paused, and V(false) stops nothing.
    type: bool
    default: true
  autostart:
    description:
      - Start the VM when its hypervisor boots.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: bool
    default: false
  ha:
    description:
      - Have the cell of its hypervisor restart the VM when that hypervisor fails; see the role
        C(fleet.virt.ha). All its disks, with their base images, have to be on storage that the cell
        shares; it has no UEFI variables, no TPM, no device or folder of its hypervisor and no
        snapshots. The cell decides where it starts, so O(autostart) is V(false).
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: bool
    default: false
  start_order:
    description:
      - Position in the order in which VMs start, in one run of C(fleet.virt.state) and when their
        hypervisor boots. The lowest number starts first, equal numbers together, VMs without a
        number last. C(fleet.virt.state) shuts them down in reverse order. From 0 to 9999.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: int
  start_delay:
    description:
      - Seconds to wait after starting this VM before the next ones in the order are started. From 0
        to 3600.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: int
  console:
    description:
      - Graphical console, or just its type, such as V(vnc). None if omitted. A VM always has a
        serial console.
    type: raw
    suboptions:
      type:
        description:
          - Protocol of the console; V(vnc) if only other options are given.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: ["none", vnc, spice]
      listen:
        description:
          - Address on the hypervisor that the console listens on. On loopback it is reached through
            SSH. Any other is refused unless the hypervisor's C(qemu.conf) sets C(vnc_tls) with
            C(vnc_tls_x509_verify), or C(spice_tls) for SPICE.
          - In an existing VM, a change takes effect at the next start.
        type: str
        default: "127.0.0.1"
      password:
        description:
          - Password of the console; none if omitted. VNC takes at most 8 characters.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: str
      port:
        description:
          - Port that the console listens on. Defaults to the first free one; a fixed port may be in
            use on the hypervisor that the VM is moved to. From 1024 to 65535.
          - In an existing VM, a change takes effect at the next start.
        type: int
      keymap:
        description:
          - Keyboard layout of the viewer, such as V(de); needed for old viewers only.
          - In an existing VM, a change takes effect at the next start.
        type: str
  groups:
    description:
      - Inventory groups of the VM.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: list
    elements: str
  affinity:
    description:
      - Groups of which a VM must be on the VM's hypervisor when it is created or moved; with
        C(:soft) after its name, as in V(db:soft), it may be on another where none of those can take
        the VM. A group of which no VM is on a hypervisor in service binds nothing. A VM of that
        group moves away all the same.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: list
    elements: str
  anti_affinity:
    description:
      - Groups whose VMs must not run on the same hypervisor; with C(:soft) after its name, as in
        V(web:soft), they may where no other hypervisor can take the VM.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: list
    elements: str
  zone:
    description:
      - Zone of the hypervisor.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: str
  tags:
    description:
      - Tags the hypervisor must have.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: list
    elements: str
  host:
    description:
      - Hypervisor that the VM must be on, by its inventory name.
      - Cannot be changed in an existing VM (an existing VM is moved with ansible-playbook
        fleet.virt.migrate_vm -e vm_name=NAME).
    type: str
  placement:
    description:
      - Placement rules in one mapping; the same five options are also accepted at the top level.
    type: dict
    suboptions:
      host:
        description:
          - Hypervisor that the VM must be on, by its inventory name.
          - Cannot be changed in an existing VM (an existing VM is moved with ansible-playbook
            fleet.virt.migrate_vm -e vm_name=NAME).
        type: str
      zone:
        description:
          - Zone of the hypervisor.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: str
      tags:
        description:
          - Tags the hypervisor must have.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: list
        elements: str
      affinity:
        description:
          - Groups of which a VM must be on the VM's hypervisor when it is created or moved; with
            C(:soft) after its name, as in V(db:soft), it may be on another where none of those can
            take the VM. A group of which no VM is on a hypervisor in service binds nothing. A VM of
            that group moves away all the same.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: list
        elements: str
      anti_affinity:
        description:
          - Groups whose VMs must not run on the same hypervisor; with C(:soft) after its name, as
            in V(web:soft), they may where no other hypervisor can take the VM.
          - In an existing VM, a change takes effect at once where libvirt supports that.
        type: list
        elements: str
  firmware:
    description:
      - Firmware; defaults to that of the machine type. V(uefi) is refused where libvirt finds no
        UEFI firmware (package C(ovmf) or C(edk2-ovmf)).
      - Cannot be changed in an existing VM (an installed system boots with the firmware it was
        installed with; recreate the VM).
    type: str
    choices: [bios, uefi]
  secure_boot:
    description:
      - Boot signed systems only. Needs O(firmware) V(uefi), the machine type V(q35), and firmware
        with Microsoft's keys. It does not prevent an unsigned O(kernel) from booting.
      - Cannot be changed in an existing VM (an installed system boots with the firmware it was
        installed with; recreate the VM).
    type: bool
    default: false
  boot_menu:
    description:
      - Whether the firmware shows a boot menu at startup.
      - In an existing VM, a change takes effect at the next start.
    type: bool
    default: false
  kernel:
    description:
      - Kernel to boot directly, instead of what the firmware finds; an absolute path on the
        hypervisor.
      - In an existing VM, a change takes effect at the next start.
    type: str
  initrd:
    description:
      - Initial RAM disk of O(kernel), an absolute path on the hypervisor.
      - In an existing VM, a change takes effect at the next start.
    type: str
  cmdline:
    description:
      - Command line of O(kernel).
      - In an existing VM, a change takes effect at the next start.
    type: str
  cpu:
    description:
      - CPU, or just its mode or model, such as V(host-passthrough) or V(EPYC). If omitted, a KVM
        guest has the host's model.
    type: raw
    suboptions:
      mode:
        description:
          - CPU mode; V(custom) if only a model is given.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [host-model, host-passthrough, maximum, custom]
      model:
        description:
          - CPU model, such as V(EPYC); required for O(cpu.mode) V(custom), and not accepted with
            other modes.
          - In an existing VM, a change takes effect at the next start.
        type: str
      require:
        description:
          - Features that the CPU must have in addition to those of its model, such as V(pcid). The
            VM does not start on a hypervisor that lacks one.
          - In an existing VM, a change takes effect at the next start.
        type: list
        elements: str
      disable:
        description:
          - Features of the model to hide from the guest, such as V(svm).
          - In an existing VM, a change takes effect at the next start.
        type: list
        elements: str
      sockets:
        description:
          - Sockets that the guest sees. Multiplied by O(cpu.dies), O(cpu.cores) and O(cpu.threads),
            which default to 1, they must give the maximum number of vCPUs. From 1 to 4096.
          - In an existing VM, a change takes effect at the next start.
        type: int
      dies:
        description:
          - Dies per socket. From 1 to 4096.
          - In an existing VM, a change takes effect at the next start.
        type: int
      cores:
        description:
          - Cores per die. From 1 to 4096.
          - In an existing VM, a change takes effect at the next start.
        type: int
      threads:
        description:
          - Threads per core. From 1 to 4096.
          - In an existing VM, a change takes effect at the next start.
        type: int
  machine:
    description:
      - Machine type. If omitted, or for a family such as V(q35), the newest versioned type of QEMU.
      - In an existing VM, a change takes effect at the next start.
    type: str
  arch:
    description:
      - Architecture, such as V(aarch64); defaults to the hypervisor's own.
      - Cannot be changed in an existing VM (the architecture of a VM is fixed; recreate the VM).
    type: str
  domain_type:
    description:
      - Domain type, hardware-assisted (V(kvm)) or emulated (V(qemu)). Defaults to the best
        available.
      - Cannot be changed in an existing VM (the domain type of a VM is fixed; recreate the VM, or
        use virsh edit).
    type: str
    choices: [kvm, qemu]
  boot:
    description:
      - Names of disks and NICs in the order the firmware tries them. Defaults to the first disk,
        then the drives.
      - In an existing VM, a change takes effect at the next start.
    type: list
    elements: str
  clock:
    description:
      - Clock and timers.
    type: dict
    suboptions:
      offset:
        description:
          - Time that the hardware clock shows. V(localtime) is the hypervisor's local time, as
            Windows expects; V(timezone) needs O(clock.timezone). Defaults to V(utc).
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [utc, localtime, timezone]
      timezone:
        description:
          - Time zone of the hardware clock, such as V(Europe/Berlin); implies O(clock.offset)
            V(timezone).
          - In an existing VM, a change takes effect at the next start.
        type: str
      rtc:
        description:
          - What happens to late ticks of the real-time clock. A KVM guest defaults to V(catchup).
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [delay, catchup, merge, discard]
      pit:
        description:
          - What happens to late ticks of the interval timer (PIT). A KVM guest defaults to
            V(delay).
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [delay, catchup, merge, discard]
      hpet:
        description:
          - Whether there is a high precision event timer (HPET). A KVM guest has none by default.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      kvmclock:
        description:
          - Whether the guest has KVM's clock.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      hypervclock:
        description:
          - Whether the guest has Hyper-V's clock, which Windows uses.
          - In an existing VM, a change takes effect at the next start.
        type: bool
  features:
    description:
      - Optional features of the machine.
    type: dict
    suboptions:
      pae:
        description:
          - Let 32-bit guests use more than 4 GiB of memory.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      kvm_hidden:
        description:
          - Hide from the guest that it runs on KVM.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      kvm_hint_dedicated:
        description:
          - Tell the guest that its vCPUs have dedicated CPUs (pin them).
          - In an existing VM, a change takes effect at the next start.
        type: bool
      pmu:
        description:
          - Performance counters of the CPU.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      vmport:
        description:
          - VMware's I/O port, which mouse drivers look for.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      smm:
        description:
          - System management mode.
          - In an existing VM, a change takes effect at the next start.
        type: bool
  hyperv:
    description:
      - Hyper-V enlightenments, with which Windows runs better. An empty mapping enables
        O(hyperv.relaxed), O(hyperv.vapic), O(hyperv.spinlocks) 8191, O(hyperv.vpindex),
        O(hyperv.runtime), O(hyperv.synic) and O(hyperv.stimer), with Hyper-V's clock. For KVM
        guests.
    type: dict
    suboptions:
      relaxed:
        description:
          - Relaxed timing, with which watchdogs of the guest wait longer.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      vapic:
        description:
          - A virtual interrupt controller.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      spinlocks:
        description:
          - How often a spinlock is retried before the vCPU yields. From 4095 to 4294967295.
          - In an existing VM, a change takes effect at the next start.
        type: int
      vpindex:
        description:
          - Index of virtual processors.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      runtime:
        description:
          - Run time of processors.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      synic:
        description:
          - A synthetic interrupt controller; needs O(hyperv.vpindex).
          - In an existing VM, a change takes effect at the next start.
        type: bool
      stimer:
        description:
          - Synthetic timers; need O(hyperv.synic) and Hyper-V's clock.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      reset:
        description:
          - Hyper-V's way of resetting.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      frequencies:
        description:
          - Clock frequencies.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      reenlightenment:
        description:
          - Notification of changed frequencies after migration.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      tlbflush:
        description:
          - TLB flushes by the hypervisor.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      ipi:
        description:
          - Inter-processor interrupts by the hypervisor.
          - In an existing VM, a change takes effect at the next start.
        type: bool
      vendor_id:
        description:
          - Hypervisor vendor that the guest sees instead of KVM, at most 12 characters.
          - In an existing VM, a change takes effect at the next start.
        type: str
  on_poweroff:
    description:
      - What happens to the VM when the guest powers off. V(restart) needs O(on_reboot) V(restart).
      - In an existing VM, a change takes effect at the next start.
    type: str
    choices: [destroy, restart]
    default: destroy
  on_reboot:
    description:
      - What happens to the VM when the guest reboots. V(destroy) is for installers, after which the
        VM has to be started again from the disk.
      - In an existing VM, a change takes effect at the next start.
    type: str
    choices: [restart, destroy]
    default: restart
  on_crash:
    description:
      - What happens to the VM when the guest crashes and O(panic) reports it. The two values with
        V(coredump) first dump its memory below C(/var/lib/libvirt/qemu/dump).
      - In an existing VM, a change takes effect at the next start.
    type: str
    choices: [destroy, restart, preserve, coredump-destroy, coredump-restart]
    default: destroy
  watchdog:
    description:
      - Watchdog, or just its action, such as V(poweroff), or V(true). None if omitted.
    type: raw
    suboptions:
      model:
        description:
          - Device model; defaults to the one that fits the machine type. V(itco) needs libvirt 9.1.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [i6300esb, ib700, itco, diag288]
      action:
        description:
          - What the hypervisor does when the watchdog fires.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [reset, shutdown, poweroff, pause, "none", dump]
        default: reset
  tpm:
    description:
      - Emulated TPM 2.0; V(true), or just its model, such as V(tpm-tis). None if omitted. Where
        libvirt finds no emulator (packages C(swtpm) and C(swtpm-tools)), the VM is refused.
        Removing the VM deletes the contents of its TPM.
    type: raw
    suboptions:
      model:
        description:
          - Device model. Defaults to V(tpm-crb) on PCs, else V(tpm-tis).
          - Cannot be changed in an existing VM (the contents of the guest's TPM would be lost;
            recreate the VM).
        type: str
        choices: [tpm-crb, tpm-tis]
  rng:
    description:
      - Give the guest a random number generator.
      - In an existing VM, a change takes effect at the next start.
    type: bool
    default: true
  balloon:
    description:
      - Give the guest a memory balloon, with which it returns memory to the host while it runs.
      - In an existing VM, a change takes effect at the next start.
    type: bool
    default: true
  iommu:
    description:
      - IOMMU, with which the guest can hand devices on to VMs and programs of its own; an empty
        mapping selects the default model. On PCs it needs the machine type V(q35). None if omitted.
    type: dict
    suboptions:
      model:
        description:
          - Device model; defaults to the one that fits the architecture.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [intel, virtio, smmuv3]
  panic:
    description:
      - Panic device, with which the guest reports a crash so that O(on_crash) applies; an empty
        mapping selects the default model. None if omitted.
    type: dict
    suboptions:
      model:
        description:
          - Device model; defaults to the one that fits the architecture.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [isa, hyperv, pvpanic, pseries, s390]
  video:
    description:
      - Graphics card. By default a VM has one if it has a console.
    type: dict
    suboptions:
      model:
        description:
          - Device model. Defaults to V(vga) on PCs, else V(virtio).
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [vga, virtio, qxl, bochs, cirrus, ramfb, "none"]
      vram:
        description:
          - Video memory, for models where it can be set. In whole MiB, or with a unit such as
            V(4GiB) or V(0.5GiB).
          - In an existing VM, a change takes effect at the next start.
        type: str
      heads:
        description:
          - Maximum number of screens; only V(virtio) and V(qxl) have more than one. From 1 to 16.
          - In an existing VM, a change takes effect at the next start.
        type: int
  sound:
    description:
      - Sound card; an empty mapping selects the default model. None if omitted.
    type: dict
    suboptions:
      model:
        description:
          - Device model; defaults to the one that fits the machine type.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [ich9, ich6, ac97, usb]
  serials:
    description:
      - Serial ports in addition to the console, which is the first. PCs have four in total.
    type: list
    elements: dict
    suboptions:
      type:
        description:
          - Type of the host end of the port.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [pty, file, unix, tcp, dev, "null"]
        default: pty
      path:
        description:
          - Path on the hypervisor, for V(file), V(unix) and V(dev).
          - In an existing VM, a change takes effect at the next start.
        type: str
      mode:
        description:
          - Whether QEMU listens (V(bind)) or connects (V(connect)), for V(unix) and V(tcp).
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [bind, connect]
      host:
        description:
          - Address for V(tcp).
          - In an existing VM, a change takes effect at the next start.
        type: str
      port:
        description:
          - Port for V(tcp). From 1 to 65535.
          - In an existing VM, a change takes effect at the next start.
        type: int
      protocol:
        description:
          - Protocol for V(tcp).
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [raw, telnet]
  channels:
    description:
      - Channels between hypervisor and guest in addition to the guest agent's.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name under which the guest finds the channel below C(/dev/virtio-ports).
          - In an existing VM, a change takes effect at the next start.
        type: str
      type:
        description:
          - Type of the host end of the channel. V(spicevmc) is for the agent of a SPICE console.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [unix, pty, spicevmc]
        default: unix
  filesystems:
    description:
      - Folders of the hypervisor that the guest may mount. A VM with one cannot be moved while it
        runs.
    type: list
    elements: dict
    suboptions:
      source:
        description:
          - Folder of the hypervisor.
          - In an existing VM, a change takes effect at the next start.
        type: str
      target:
        description:
          - Tag that the guest mounts it by, with C(mount -t virtiofs TAG /mnt) or, for 9p, C(mount
            -t 9p -o trans=virtio TAG /mnt).
          - In an existing VM, a change takes effect at the next start.
        type: str
      driver:
        description:
          - How the folder is shared. V(path) is 9p, which QEMU serves itself; V(virtiofs) is
            faster, and needs virtiofsd on the hypervisor and memory shared with QEMU.
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [path, virtiofs]
        default: path
      accessmode:
        description:
          - How 9p handles ownership. V(mapped) stores the owner and permissions that the guest sets
            in extended attributes, V(passthrough) sets them on the files themselves, as far as
            QEMU's user is allowed to, and V(squash) ignores failures to do so. With V(virtiofs),
            V(passthrough).
          - In an existing VM, a change takes effect at the next start.
        type: str
        choices: [mapped, passthrough, squash]
      readonly:
        description:
          - Prevent the guest from writing to it. Not with V(virtiofs).
          - In an existing VM, a change takes effect at the next start.
        type: bool
        default: false
  hostdevs:
    description:
      - Host devices passed through to the guest, each C(pci) or C(usb). They tie the VM to one
        hypervisor, which O(host) names.
    type: list
    elements: dict
    suboptions:
      pci:
        description:
          - Address of a PCI device, such as V(0000:3b:00.1), as C(lspci -D) shows it.
          - In an existing VM, a change takes effect at the next start.
        type: str
      usb:
        description:
          - Vendor and product of a USB device, such as V(046d:c52b), as C(lsusb) shows them.
          - In an existing VM, a change takes effect at the next start.
        type: str
  title:
    description:
      - Title of the VM, one line of at most 256 characters.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: str
  description:
    description:
      - Description of the VM.
      - In an existing VM, a change takes effect at once where libvirt supports that.
    type: str
  xml:
    description:
      - Settings that have no option, as a fragment of libvirt's XML, a C(<domain>) with the
        elements to add. Those below C(<devices>) are added as additional devices. Any other is
        merged with the existing one at its place, or added there; its attributes and text take
        precedence. At most 64 KiB, without document type and secrets.
      - Anything that has an option is refused, as are the VM's identity and metadata, another
        C(<emulator>), anything that listens on addresses other than loopback, and other namespaces,
        including C(<qemu:commandline>), which starts anything that QEMU can, unseen by any check or
        move. The error names what to use instead. The whole definition is validated against
        libvirt's schema, also in check mode.
      - It is compared with the definition as libvirt stores it, so write it the way libvirt does
        (sizes in KiB, for example). If libvirt stores it differently, it is refused. Elements that
        are removed from it stay in the VM; remove them with C(virsh edit).
      - In an existing VM, a change takes effect at the next start.
    type: str
  wait:
    description:
      - Whether C(fleet.virt.provision_vm) waits until the VM responds; ignored by this module.
    type: bool
    default: true
  # end of what is written
  vms:
    description:
      - Multiple VMs, each with the options above as keys.
    type: list
    elements: dict
  disk_profiles:
    description:
      - Disk profiles; defaults to the variable C(virt_disk_profiles).
    type: dict
    default: {}
  nic_profiles:
    description:
      - NIC profiles; defaults to the variable C(virt_nic_profiles).
    type: dict
    default: {}
  pool:
    description:
      - Pool of disks that do not specify one; defaults to the variable C(virt_pool).
    type: str
    default: default
  base_pool:
    description:
      - Pool of base images; defaults to the variable C(virt_base_pool).
    type: str
    default: base
  pool_paths:
    description:
      - Pools to create if they are needed and missing, as name to folder. Defaults to O(pool) at
        C(virt_images_path) and O(base_pool) at C(virt_base_path).
    type: dict
    default: {}
  ssh_public_keys:
    description:
      - Public keys that may log in to seeded VMs that do not specify any. Defaults to the variable
        C(virt_ssh_public_key), else to the first of the controller's own keys.
    type: list
    elements: str
    default: []
  fleet:
    description:
      - Name of the fleet, from which MAC addresses are derived; defaults to the variable
        C(virt_fleet).
    type: str
    default: ""
  fleet_cpu:
    description:
      - CPU of new VMs that do not choose theirs, a model and the features that it has more
        (V(require)) or less (V(disable)); defaults to the variable C(virt_cpu). The playbook
        C(fleet.virt.preflight) prints one that all hypervisors support. Where libvirt offers KVM,
        only KVM guests get it.
      - Nothing of a VM that exists is changed by it.
    type: raw
  limits:
    description:
      - The hypervisor's C(virt_memory_reserve), C(virt_memory_ratio), C(virt_vcpu_ratio),
        C(virt_disk_ratio), C(virt_zone) and C(virt_tags); defaults to its variables.
    type: dict
    default: {}
  converge:
    description:
      - Whether an existing VM is changed to match the request; defaults to the variable
        C(virt_converge). If not, a VM that differs is refused, and the differences are named.
    type: bool
    default: true
seealso:
  - module: fleet.virt.virt_query
    description: Reads the result.
"""

EXAMPLES = r"""
- name: Create a VM from an image on the hypervisor, copy-on-write, with the default disk and NIC
  fleet.virt.virt_init:
    name: centos1
    vcpus: 2
    memory: 512
    image: /var/lib/libvirt/images/centos.qcow2

- name: Define an empty VM with two disks and a console, without starting it
  fleet.virt.virt_init:
    name: database1
    memory: 4GiB
    disks:
      - name: system
        size: 20GiB
      - name: data
        size: 100GiB
        bus: scsi
    console:
      type: vnc
    start: false

- name: Give the same VM more memory and a larger disk, as far as this is possible while it runs
  fleet.virt.virt_init:
    name: database1
    memory: 8GiB
    disks:
      - name: data
        size: 110GiB
"""

RETURN = r"""
host:
  description: The hypervisor, with its claims if there are any, as
    RV(fleet.virt.virt_host_info#module:host), read with
    O(fleet.virt.virt_host_info#module:placement=true).
  returned: in playbooks of this collection
  type: dict
finished:
  description: Whether the VMs were finished as well as claimed.
  returned: in playbooks of this collection
  type: bool
vms:
  description: One entry for each VM of the batch, in its order.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    uuid:
      description: UUID of the VM; V((generated\)) in check mode for one that would be created.
      type: str
    existed:
      description: Whether it existed before, so that at most its settings had to be changed.
      type: bool
    changed:
      description: Whether anything was changed, or would be in check mode.
      type: bool
    steps:
      description: Steps that were carried out, or would be, in order.
      type: list
      elements: str
      sample: [define web1, create default/web1_system.qcow2, start]
    restart_required:
      description: Whether a setting takes effect only at the next start.
      type: bool
    pending:
      description:
        - Settings that take effect at the next start, whoever changed them. They are read from the
          live and the stored definition, so they are listed until the VM is started again.
      type: list
      elements: str
      sample: [memory_max, disks.vda.cache]
    state:
      description:
        - The state that the VM is left in, in libvirt's own terms, or V(saved); in check mode, the
          one it would be left in. Null if it failed.
      type: str
      sample: running
    started:
      description:
        - Whether it existed and was started, or would be in check mode, because its request says
          O(start=true).
      type: bool
    note:
      description: What is unexpected about that state, and why it was left so; null if nothing is.
      type: str
      sample: shut off
    seed:
      description: How it is seeded, with C(method), C(reason) and, if its disk was inspected,
        C(found), as RV(fleet.virt.virt_seed#module:seed); null if it is not seeded, or existed
        before. C(method) is V(auto) in check mode.
      type: dict
    failed:
      description: Whether this VM could not be created or changed.
      type: bool
    refused:
      description: Whether it may succeed on another hypervisor, or later.
      type: bool
    not_tried:
      description:
        - Whether nothing was done for it because another one of the same call failed.
      type: bool
    msg:
      description: Why not; else null.
      type: str
"""

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.options import (
    ARGUMENTS,
    INTERNAL,
    OPTIONS,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.work import ProvisionWork

if t.TYPE_CHECKING:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
        read_up_to_date as up_to_date,
    )

# Each stage imports its own: what is imported is run again at every call


def _read(params: up_to_date.Options, given: ProvisionWork) -> t.Mapping[str, object]:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import read_up_to_date

    with connect(params["uri"], params["timeout"]) as connection:
        return read_up_to_date.facts(connection, params, given)


def _compare(params: up_to_date.Options, given: ProvisionWork) -> t.Mapping[str, object]:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
        effects,
        read_existing,
        read_up_to_date,
    )

    domains, settings = effects.read_options(params, given)
    with connect(params["uri"], params["timeout"]) as connection:
        facts = read_up_to_date.facts(connection, params, given)
        return {**facts, **read_existing.read(connection, domains, settings)}


def _work(
    params: up_to_date.Options, given: ProvisionWork, *, check: bool
) -> t.Mapping[str, object]:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import effects

    domains, settings = effects.read_options(params, given)
    stage, withdraw = given.stage, given.withdraw
    with connect(params["uri"], params["timeout"]) as connection:
        return effects.run(
            connection, domains, settings, stage=stage, check=check, withdraw=withdraw
        )


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    for name in OPTIONS:  # written ones come in vms; the defaults would only be shown beside them
        del module.params[name]
    params = t.cast("up_to_date.Options", module.options)
    given = envelope.read(ProvisionWork, params)
    if given.stage in ("look", "read"):
        run(module, lambda: _read(params, given))
    if given.stage == "compare":
        run(module, lambda: _compare(params, given))
    run(module, lambda: _work(params, given, check=module.check_mode), commands=("qemu-img",))


if __name__ == "__main__":
    main()
