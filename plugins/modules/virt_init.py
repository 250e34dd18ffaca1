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
  - Creates one VM by its options or several by O(vms) on the hypervisor it runs on, with disks,
    NICs, consoles and a seed medium, and starts them.
  - Every error of every VM is reported before the first is touched. What fails later is undone,
    and only that. A call that was killed is finished by running it again.
  - A VM that exists is changed to what is asked for. The options that are written, not defaults,
    are compared with the definition that libvirt has, by whomever it was changed; what only its
    creation knew (image, seed) with the request that made it. Each option says whether it is
    changed at once, at the next start, or never; if anything of a batch is never changed, nothing
    is. Disks and NICs that are not mentioned stay. Where the VM is to be is not compared.
  - A change that fails is taken back; what could not be is named. One that was killed is ended by
    running it again.
  - On a hypervisor of the inventory group C(hypervisors) the controller asks the others of the
    group whether they have a VM of that name, and nothing is created while one of them is silent.
    That needs libvirt's binding on the controller. The playbook C(fleet.virt.provision_vm) chooses
    the hypervisor as well.
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
      - A UUID exists only afterwards and reads V((generated\)).
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
        V(http://debian.org/debian/12). V(windows) is V(win11), V(linux) is V(linux2022). It is kept
        with the VM, where virt-manager finds it. What the system needs is what the VM has where
        nothing else is written. That is for Windows the clock at local time, O(hyperv) on KVM, the
        machine type V(q35), disks and drives on SATA and NICs of the model e1000e, for which its
        installer has drivers; for Windows 11 also UEFI with secure boot, a TPM, 2 vCPUs and 4 GiB
        of memory.
      - Other settings of a VM that exists are not changed by it. Nothing of libosinfo is needed,
        neither on the controller nor on hypervisors.
      - In a VM that exists it is changed at once, where libvirt can.
    type: str
  vcpus:
    description:
      - Number of virtual CPUs. From 1 to 4096.
      - In a VM that exists it is changed at once, where libvirt can.
    type: int
    default: 1
  cpuset:
    description:
      - CPUs of the hypervisor that its vCPUs run on, such as V(0-3,^2); any if left out.
      - In a VM that exists a change takes effect at the next start.
    type: str
  vcpus_max:
    description:
      - Virtual CPUs it can be given while it runs; as O(vcpus) if left out. From 1 to 4096.
      - In a VM that exists a change takes effect at the next start.
    type: int
  memory:
    description:
      - Memory. In whole MiB, or with a unit such as V(4GiB) or V(0.5GiB), at least 16 MiB.
      - In a VM that exists it is changed at once, where libvirt can.
    type: str
    default: "1024"
  memory_max:
    description:
      - Memory it can be given while it runs; as O(memory) if left out. In whole MiB, or with a unit
        such as V(4GiB) or V(0.5GiB), at least 16 MiB.
      - In a VM that exists a change takes effect at the next start.
    type: str
  memory_backing:
    description:
      - What the VM's memory is made of.
    type: dict
    suboptions:
      hugepages:
        description:
          - Take it from huge pages, of the hypervisor's default size if O(memory_backing.page_size)
            is left out. A hypervisor that has not reserved enough of them, or has given them away,
            is left out.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      page_size:
        description:
          - Size of the huge pages, such as V(2MiB) or V(1GiB); means O(memory_backing.hugepages).
            In whole MiB, or with a unit such as V(4GiB) or V(0.5GiB).
          - In a VM that exists a change takes effect at the next start.
        type: str
      locked:
        description:
          - Keep all of it in memory; nothing of it is swapped out.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      nosharepages:
        description:
          - Keep the hypervisor from merging equal pages (KSM).
          - In a VM that exists a change takes effect at the next start.
        type: bool
      source:
        description:
          - Kind of memory. Left out, libvirt's choice, and V(memfd) with a file system by virtiofs.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [anonymous, memfd, file]
      access:
        description:
          - Whether other processes may map it. Left out, V(shared) with a file system by virtiofs.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [private, shared]
      allocation:
        description:
          - When it is taken from the hypervisor.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [ondemand, immediate]
      discard:
        description:
          - Give it back to the hypervisor before QEMU ends.
          - In a VM that exists a change takes effect at the next start.
        type: bool
  numa:
    description:
      - NUMA nodes of the guest. They share its vCPUs and its memory out between them.
    type: list
    elements: dict
    suboptions:
      cpus:
        description:
          - Its vCPUs, such as V(0-3).
          - In a VM that exists a change takes effect at the next start.
        type: str
      memory:
        description:
          - Its memory. In whole MiB, or with a unit such as V(4GiB) or V(0.5GiB).
          - In a VM that exists a change takes effect at the next start.
        type: str
  numatune:
    description:
      - Nodes of the hypervisor that the memory is of.
    type: dict
    suboptions:
      mode:
        description:
          - What holds where they have not enough.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [strict, preferred, interleave, restrictive]
        default: strict
      nodeset:
        description:
          - Nodes, such as V(0-1).
          - In a VM that exists a change takes effect at the next start.
        type: str
  cputune:
    description:
      - CPU time of the VM, and where its threads run.
    type: dict
    suboptions:
      vcpupin:
        description:
          - CPUs of single vCPUs, each C(VCPU:CPUS), such as V(0:4) or V(1:4-7).
          - In a VM that exists a change takes effect at the next start.
        type: list
        elements: str
      emulatorpin:
        description:
          - CPUs of QEMU's other threads, such as V(0-1).
          - In a VM that exists a change takes effect at the next start.
        type: str
      shares:
        description:
          - Weight of the VM where CPU time is short; others have 1024 or, with cgroups 2, 100. From
            2 to 262144.
          - In a VM that exists a change takes effect at the next start.
        type: int
      period:
        description:
          - Microseconds in which each vCPU may run for O(cputune.quota). From 1000 to 1000000.
          - In a VM that exists a change takes effect at the next start.
        type: int
      quota:
        description:
          - Microseconds that each vCPU may run in every O(cputune.period). From 1000 to 1000000000.
          - In a VM that exists a change takes effect at the next start.
        type: int
  memtune:
    description:
      - Bounds of what QEMU takes.
    type: dict
    suboptions:
      hard_limit:
        description:
          - Most that QEMU may take in all. What needs more is killed, so leave room beside the
            guest's memory. In whole MiB, or with a unit such as V(4GiB) or V(0.5GiB).
          - In a VM that exists a change takes effect at the next start.
        type: str
      soft_limit:
        description:
          - What it is held to where the hypervisor's memory is short. In whole MiB, or with a unit
            such as V(4GiB) or V(0.5GiB).
          - In a VM that exists a change takes effect at the next start.
        type: str
  image:
    description:
      - What its first disk is made from. A file name in C(virt_image_dir) on the controller, an
        absolute path on the hypervisor, a volume as C(pool/volume), or an https URL with its
        checksum as C(https://host/file.qcow2#sha256:...), which the hypervisor downloads. The
        format is found out from the content.
      - In a VM that exists it is never changed (a disk is made from its image once; make another
        VM, or another disk).
    type: str
  disk_profile:
    description:
      - Name of a profile in C(virt_disk_profiles). Without any, V(default) is one disk C(system) of
        8192 MiB, qcow2, virtio; V(none) has no disks.
    type: str
    default: default
  nic_profile:
    description:
      - Name of a profile in C(virt_nic_profiles). Without any, V(default) is one virtio NIC C(eth0)
        on the bridge C(br0); V(none) has no NICs.
    type: str
    default: default
  disks:
    description:
      - Disks beside those of the profile; one of the same name changes that of the profile.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name; one that the profile has changes that of the profile.
        type: str
        required: true
      state:
        description:
          - Whether the VM has it. V(absent) takes it out of a VM that exists, and removes its
            volume with all that is on it if it was made for this VM. A disk that is not mentioned
            stays.
        type: str
        choices: [present, absent]
        default: present
      size:
        description:
          - Size. Left out for a disk with an image, that of the image. In whole MiB, or with a unit
            such as V(4GiB) or V(0.5GiB).
          - In a VM that exists it is changed at once, where libvirt can.
        type: str
      device:
        description:
          - What it is. A V(cdrom) or V(floppy), which PCs alone have, is a drive. It has its
            O(disks[].image) in it, which is raw (of a CD an ISO image), or is empty, and takes no
            size.
          - In a VM that exists it is never changed (a disk keeps its kind and format; add another
            disk).
        type: str
        choices: [disk, cdrom, floppy]
        default: disk
      format:
        description:
          - Format of its volume. Left out, V(qcow2), and V(raw) for a drive.
          - In a VM that exists it is never changed (a disk keeps its kind and format; add another
            disk).
        type: str
        choices: [qcow2, raw]
      bus:
        description:
          - What it is attached to. Left out, V(virtio), V(scsi) for a V(cdrom), and V(fdc) for a
            V(floppy), which nothing else is on. Machine types such as V(q35) have no V(ide).
          - In a VM that exists it is never changed (the guest would find it under another name; add
            another disk).
        type: str
        choices: [virtio, scsi, sata, ide, usb, fdc]
        aliases: [model]
      cache:
        description:
          - How the hypervisor caches it. V(none) and V(directsync) bypass the host's page cache.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: ["none", writeback, writethrough, directsync, unsafe]
        default: "none"
      io:
        description:
          - How QEMU does its input and output; QEMU's choice if left out. V(native) needs
            O(disks[].cache) V(none) or V(directsync).
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [native, threads, io_uring]
      discard:
        description:
          - Whether what the guest discards is given back to the pool.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [unmap, ignore]
        default: unmap
      detect_zeroes:
        description:
          - Whether QEMU looks for zeroes in what the guest writes. V(on) writes them without taking
            space where the format can; V(unmap) gives the space back, for which O(disks[].discard)
            must be V(unmap).
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: ["off", "on", unmap]
      iothread:
        description:
          - Number of the thread of QEMU that does its input and output, beside those of the vCPUs.
            Disks with the same number share it. The VM has as many as the highest number. Only for
            O(disks[].bus) V(virtio). From 1 to 64.
          - In a VM that exists a change takes effect at the next start.
        type: int
      pool:
        description:
          - Pool its volume is made in; the variable C(virt_pool) if left out.
          - In a VM that exists it is never changed (a disk stays in the pool that it was made in;
            add another disk).
        type: str
      image:
        description:
          - What it is made from, written as the VM's own C(image). Left out, that one for the first
            disk, and none for the others. That of a drive is read where it is, among the base
            images, by all VMs that have it in one; a VM without a system on its first disk boots
            from its V(cdrom).
          - In a VM that exists it is never changed (a disk is made from its image once; make
            another VM, or another disk).
        type: str
      overlay:
        description:
          - Make it copy-on-write over its image, instead of a full copy. Left out, as the VM's own
            C(overlay), and false for V(raw).
          - In a VM that exists it is never changed (a disk is made from its image once; make
            another VM, or another disk).
        type: bool
      readonly:
        description:
          - Keep the guest from writing to it. A V(cdrom) or V(floppy) always is.
          - In a VM that exists a change takes effect at the next start.
        type: bool
        default: false
      serial:
        description:
          - Serial number that the guest sees, at most 20 letters, digits or C(_.+-).
          - In a VM that exists a change takes effect at the next start.
        type: str
      volume:
        description:
          - Volume of O(disks[].pool) that exists and is attached as it is. Like a O(disks[].dev)
            and a disk over the network (O(disks[].protocol)), it is never made, grown or removed,
            whatever becomes of the VM. It takes no O(disks[].size) or O(disks[].image). It has to
            be there, in O(disks[].format), and no other VM of that hypervisor may have it unless it
            is O(disks[].readonly). A VM with such a disk is not moved.
          - In a VM that exists it is never changed (a disk keeps what it is on; add another disk,
            and remove this one).
        type: str
      dev:
        description:
          - Block device of the hypervisor, an absolute path below C(/dev), such as
            V(/dev/vg0/data). One that the hypervisor itself uses (mounted, swap, part of LVM or
            RAID) is refused.
          - In a VM that exists it is never changed (a disk keeps what it is on; add another disk,
            and remove this one).
        type: str
      protocol:
        description:
          - What a disk over the network is reached by. Whether others use it is not known here.
          - In a VM that exists it is never changed (a disk keeps what it is on; add another disk,
            and remove this one).
        type: str
        choices: [nbd, rbd, iscsi]
      source_name:
        description:
          - What is served, such as V(pool/image) for V(rbd), V(iqn.2026-01.org.example:disks/1) for
            V(iscsi), or an export of V(nbd).
          - In a VM that exists it is never changed (a disk keeps what it is on; add another disk,
            and remove this one).
        type: str
      hosts:
        description:
          - Who serves it, each with a port if that is not the usual one, as V(10.0.0.1:10809). Left
            out for V(rbd), those of the hypervisor's own C(ceph.conf).
          - In a VM that exists it is never changed (a disk keeps what it is on; add another disk,
            and remove this one).
        type: list
        elements: str
      auth_user:
        description:
          - User it is reached as.
          - In a VM that exists it is never changed (a disk keeps what it is on; add another disk,
            and remove this one).
        type: str
      auth_secret:
        description:
          - The usage of the secret of libvirt (C(virsh secret-list)) by which it proves itself.
          - In a VM that exists it is never changed (a disk keeps what it is on; add another disk,
            and remove this one).
        type: str
      encryption_secret:
        description:
          - The UUID or usage of the secret of libvirt (C(virsh secret-list), of type V(volume)) by
            which QEMU encrypts it (LUKS). The secret has to be on the hypervisor; its value is
            never read here. libvirt makes the volume encrypted; one that exists has to be. What is
            on an image that it lies on, and on the seed medium, is not encrypted. Such a disk grows
            only while the VM runs, and the VM is neither moved, copied nor given snapshots.
          - In a VM that exists it is never changed (a disk is encrypted when it is made, or not;
            add another disk).
        type: str
      wwn:
        description:
          - World wide name that the guest sees, 16 hexadecimal digits. Not for O(disks[].bus)
            V(virtio) and V(usb).
          - In a VM that exists a change takes effect at the next start.
        type: str
      queues:
        description:
          - Queues by which the guest's CPUs reach it beside each other. Only for O(disks[].bus)
            V(virtio). From 1 to 256.
          - In a VM that exists a change takes effect at the next start.
        type: int
      error_policy:
        description:
          - What becomes of the VM when its storage fails. V(stop) pauses it, V(report) tells the
            guest, V(enospace) pauses it where space ran out and tells the guest of the rest.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [stop, report, ignore, enospace]
      logical_block_size:
        description:
          - Bytes of the blocks that the guest addresses, a power of two. From 512 to 32768.
          - In a VM that exists a change takes effect at the next start.
        type: int
      physical_block_size:
        description:
          - Bytes of the blocks that the guest should write whole, a power of two. From 512 to
            32768.
          - In a VM that exists a change takes effect at the next start.
        type: int
      total_bytes_sec:
        description:
          - At most so many bytes a second, reading and writing. V(0) is no limit. From 0 to
            1099511627776.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
      read_bytes_sec:
        description:
          - At most so many bytes a second, reading. V(0) is no limit. From 0 to 1099511627776.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
      write_bytes_sec:
        description:
          - At most so many bytes a second, writing. V(0) is no limit. From 0 to 1099511627776.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
      total_iops_sec:
        description:
          - At most so many operations a second, reading and writing. V(0) is no limit. From 0 to
            1099511627776.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
      read_iops_sec:
        description:
          - At most so many operations a second, reading. V(0) is no limit. From 0 to 1099511627776.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
      write_iops_sec:
        description:
          - At most so many operations a second, writing. V(0) is no limit. From 0 to 1099511627776.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
  nics:
    description:
      - NICs beside those of the profile; one of the same name changes that of the profile.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name; one that the profile has changes that of the profile.
        type: str
        required: true
      state:
        description:
          - Whether the VM has it.
        type: str
        choices: [present, absent]
        default: present
      bridge:
        description:
          - Bridge of the hypervisor it is attached to. Either this or O(nics[].network) has to be
            given, here or by the profile.
          - In a VM that exists it is changed at once, where libvirt can.
        type: str
      network:
        description:
          - Network of libvirt it is attached to.
          - In a VM that exists it is changed at once, where libvirt can.
        type: str
      mac:
        description:
          - MAC address, in quotes. Left out, it follows from the names of fleet, VM and NIC.
          - In a VM that exists it is never changed (a guest knows its NIC by its MAC address; add
            another NIC, and remove this one).
        type: str
      vlan:
        description:
          - VLAN tag. Refused where libvirt sets no VLAN tags, as on a Linux bridge without
            C(vlan_filtering), or on any before libvirt 11. Give the NIC a bridge that is on that
            VLAN, or one of Open vSwitch (O(nics[].virtualport)). From 1 to 4094.
          - In a VM that exists a change takes effect at the next start.
        type: int
      model:
        description:
          - Device that the guest sees.
          - In a VM that exists a change takes effect at the next start.
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
          - Whether its cable is plugged in.
          - In a VM that exists it is changed at once, where libvirt can.
        type: bool
        default: true
      type:
        description:
          - What O(nics[].source) names; V(bridge) if left out. V(direct) is an interface of the
            hypervisor (macvtap), which has to be there; a VM with such a NIC is not moved.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [bridge, network, direct]
      source:
        description:
          - Name of the bridge or network, another way to write O(nics[].bridge) or
            O(nics[].network), or of the interface of O(nics[].type) V(direct).
          - In a VM that exists it is changed at once, where libvirt can.
        type: str
      mode:
        description:
          - How those on the interface of O(nics[].type) V(direct) reach each other; V(vepa),
            through the switch, if left out. V(bridge) is directly, V(private) not at all,
            V(passthrough) gives the interface to this NIC alone. The hypervisor itself is reached
            by none of them.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [vepa, bridge, private, passthrough]
      virtualport:
        description:
          - What the O(nics[].bridge) is, if no Linux bridge. It has to be there (C(ovs-vsctl
            add-br)).
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [openvswitch]
      mtu:
        description:
          - Largest packet, in bytes, which the guest is told as well if O(nics[].model) is
            V(virtio). From 68 to 65535.
          - In a VM that exists a change takes effect at the next start.
        type: int
      queues:
        description:
          - Queues by which the guest's CPUs reach it beside each other. Only for O(nics[].model)
            V(virtio). From 1 to 256.
          - In a VM that exists a change takes effect at the next start.
        type: int
      inbound_average:
        description:
          - Bandwidth to the guest, in KiB a second. From 1 to 4294967295.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
      inbound_peak:
        description:
          - Most for a moment to the guest, in KiB a second. From 1 to 4294967295.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
      inbound_burst:
        description:
          - What may go at that speed to the guest, in KiB. From 1 to 4294967295.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
      outbound_average:
        description:
          - Bandwidth from the guest, in KiB a second. From 1 to 4294967295.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
      outbound_peak:
        description:
          - Most for a moment from the guest, in KiB a second. From 1 to 4294967295.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
      outbound_burst:
        description:
          - What may go at that speed from the guest, in KiB. From 1 to 4294967295.
          - In a VM that exists it is changed at once, where libvirt can.
        type: int
      filter:
        description:
          - Filter of libvirt for what the guest sends and gets, such as V(clean-traffic), as
            C(virsh nwfilter-list) lists them.
          - In a VM that exists a change takes effect at the next start.
        type: str
      isolated:
        description:
          - Keep it from others of the bridge that are isolated as well.
          - In a VM that exists a change takes effect at the next start.
        type: bool
        default: false
  overlay:
    description:
      - Make the disk copy-on-write over the immutable base image, instead of a full copy.
      - In a VM that exists it is never changed (a disk is made from its image once; make another
        VM, or another disk).
    type: bool
    default: true
  start:
    description:
      - Start the VM once it is complete.
    type: bool
    default: true
  autostart:
    description:
      - Start the VM with its hypervisor.
      - In a VM that exists it is changed at once, where libvirt can.
    type: bool
    default: false
  start_order:
    description:
      - Place among the VMs that C(fleet.virt.state) starts in one run, the lowest number first,
        those of one number at the same time, those without any last. It shuts them down the other
        way round. From 0 to 9999.
      - In a VM that exists it is changed at once, where libvirt can.
    type: int
  start_delay:
    description:
      - Seconds that C(fleet.virt.state) waits after it has started this VM before it starts those
        that come after it. From 0 to 3600.
      - In a VM that exists it is changed at once, where libvirt can.
    type: int
  console:
    description:
      - Graphical console, or its type alone, such as V(vnc). There is none if left out. A serial
        console is always there.
    type: raw
    suboptions:
      type:
        description:
          - What it speaks; V(vnc) if only the others are given.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: ["none", vnc, spice]
      listen:
        description:
          - Address of the hypervisor it listens on. On loopback it is reached through SSH. Any
            other is refused where the hypervisor's C(qemu.conf) has no C(vnc_tls) with
            C(vnc_tls_x509_verify), or for SPICE C(spice_tls).
          - In a VM that exists a change takes effect at the next start.
        type: str
        default: "127.0.0.1"
      port:
        description:
          - Port it listens on. Left out, the first that is free; a fixed one may be taken where the
            VM is moved to. From 1024 to 65535.
          - In a VM that exists a change takes effect at the next start.
        type: int
      keymap:
        description:
          - Layout of the viewer's keyboard, such as V(de); needed for old viewers only.
          - In a VM that exists a change takes effect at the next start.
        type: str
      password:
        description:
          - Password it asks for, none if left out. VNC takes at most 8 characters.
          - In a VM that exists it is changed at once, where libvirt can.
        type: str
  groups:
    description:
      - Inventory groups of the VM.
      - In a VM that exists it is changed at once, where libvirt can.
    type: list
    elements: str
  anti_affinity:
    description:
      - Groups none of whose VMs may be on the same hypervisor.
      - In a VM that exists it is changed at once, where libvirt can.
    type: list
    elements: str
  zone:
    description:
      - Zone the hypervisor must be in.
      - In a VM that exists it is changed at once, where libvirt can.
    type: str
  tags:
    description:
      - Tags the hypervisor must have.
      - In a VM that exists it is changed at once, where libvirt can.
    type: list
    elements: str
  host:
    description:
      - Hypervisor it must be on, by its name in the inventory.
      - In a VM that exists it is never changed (a VM that exists is moved by
        fleet.virt.migrate_vm).
    type: str
  placement:
    description:
      - Where the VM may be, in one mapping; the same four options are taken beside it.
    type: dict
    suboptions:
      host:
        description:
          - Hypervisor it must be on, by its name in the inventory.
          - In a VM that exists it is never changed (a VM that exists is moved by
            fleet.virt.migrate_vm).
        type: str
      zone:
        description:
          - Zone the hypervisor must be in.
          - In a VM that exists it is changed at once, where libvirt can.
        type: str
      tags:
        description:
          - Tags the hypervisor must have.
          - In a VM that exists it is changed at once, where libvirt can.
        type: list
        elements: str
      anti_affinity:
        description:
          - Groups none of whose VMs may be on the same hypervisor.
          - In a VM that exists it is changed at once, where libvirt can.
        type: list
        elements: str
  firmware:
    description:
      - Firmware; that of the machine type if left out. V(uefi) is refused where libvirt finds no
        such firmware (package C(ovmf) or C(edk2-ovmf)).
      - In a VM that exists it is never changed (what is installed boots with the firmware that it
        was installed with; make it anew).
    type: str
    choices: [bios, uefi]
  secure_boot:
    description:
      - Boot signed systems only. Needs O(firmware) V(uefi), the machine type V(q35), and a firmware
        that has Microsoft's keys. It does not hold a O(kernel) back that nobody signed.
      - In a VM that exists it is never changed (what is installed boots with the firmware that it
        was installed with; make it anew).
    type: bool
    default: false
  boot_menu:
    description:
      - Whether the firmware asks at its start what to boot.
      - In a VM that exists a change takes effect at the next start.
    type: bool
    default: false
  kernel:
    description:
      - Kernel that is started instead of what the firmware finds, an absolute path on the
        hypervisor.
      - In a VM that exists a change takes effect at the next start.
    type: str
  initrd:
    description:
      - Its initial file system, an absolute path on the hypervisor.
      - In a VM that exists a change takes effect at the next start.
    type: str
  cmdline:
    description:
      - Its command line.
      - In a VM that exists a change takes effect at the next start.
    type: str
  cpu:
    description:
      - CPU, or its mode or model alone, such as V(host-passthrough) or V(EPYC). Left out, a KVM
        guest has the host's model.
    type: raw
    suboptions:
      mode:
        description:
          - How it is chosen; V(custom) if only a model is given.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [host-model, host-passthrough, maximum, custom]
      model:
        description:
          - Model, such as V(EPYC); needed for O(cpu.mode) V(custom), and not taken with the others.
          - In a VM that exists a change takes effect at the next start.
        type: str
      require:
        description:
          - Features that the CPU must have beside those of its model, such as V(pcid). Where the
            hypervisor lacks one the VM does not start.
          - In a VM that exists a change takes effect at the next start.
        type: list
        elements: str
      disable:
        description:
          - Features of the model that the guest does not see, such as V(svm).
          - In a VM that exists a change takes effect at the next start.
        type: list
        elements: str
      sockets:
        description:
          - Sockets that the guest sees. With O(cpu.dies), O(cpu.cores) and O(cpu.threads), each 1
            if left out, as many as it can have vCPUs. From 1 to 4096.
          - In a VM that exists a change takes effect at the next start.
        type: int
      dies:
        description:
          - Dies of each socket. From 1 to 4096.
          - In a VM that exists a change takes effect at the next start.
        type: int
      cores:
        description:
          - Cores of each die. From 1 to 4096.
          - In a VM that exists a change takes effect at the next start.
        type: int
      threads:
        description:
          - Threads of each core. From 1 to 4096.
          - In a VM that exists a change takes effect at the next start.
        type: int
  machine:
    description:
      - Machine type. Left out, or for a family such as V(q35), the newest versioned type that qemu
        has.
      - In a VM that exists a change takes effect at the next start.
    type: str
  arch:
    description:
      - Architecture, such as V(aarch64); the hypervisor's own if left out.
      - In a VM that exists it is never changed (another architecture is another VM; make it anew).
    type: str
  domain_type:
    description:
      - What runs it. Left out, the best the hypervisor has.
      - In a VM that exists it is never changed (a VM is defined for what runs it; make it anew, or
        use virsh edit).
    type: str
    choices: [kvm, qemu]
  boot:
    description:
      - Names of disks and NICs in the order the firmware tries them. Left out, the first disk, then
        the drives.
      - In a VM that exists a change takes effect at the next start.
    type: list
    elements: str
  clock:
    description:
      - Clock and timers.
    type: dict
    suboptions:
      offset:
        description:
          - What its hardware clock shows. V(localtime) is the hypervisor's time, as Windows wants
            it; V(timezone) needs O(clock.timezone). V(utc) if left out.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [utc, localtime, timezone]
      timezone:
        description:
          - Time zone of the hardware clock, such as V(Europe/Berlin); means O(clock.offset)
            V(timezone).
          - In a VM that exists a change takes effect at the next start.
        type: str
      rtc:
        description:
          - What becomes of ticks of the real time clock that come late. For a KVM guest V(catchup).
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [delay, catchup, merge, discard]
      pit:
        description:
          - What becomes of ticks of the interval timer that come late. For a KVM guest V(delay).
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [delay, catchup, merge, discard]
      hpet:
        description:
          - Whether there is a high precision event timer. A KVM guest has none unless this is true.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      kvmclock:
        description:
          - Whether there is KVM's clock.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      hypervclock:
        description:
          - Whether there is Hyper-V's clock, which Windows uses.
          - In a VM that exists a change takes effect at the next start.
        type: bool
  features:
    description:
      - What the machine has beyond its type.
    type: dict
    suboptions:
      pae:
        description:
          - Let 32-bit guests use more than 4 GiB of memory.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      kvm_hidden:
        description:
          - Hide from the guest that it runs on KVM.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      kvm_hint_dedicated:
        description:
          - Tell the guest that its vCPUs have CPUs for themselves (pin them).
          - In a VM that exists a change takes effect at the next start.
        type: bool
      pmu:
        description:
          - Performance counters of the CPU.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      vmport:
        description:
          - VMware's port, which mouse drivers look for.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      smm:
        description:
          - System management mode.
          - In a VM that exists a change takes effect at the next start.
        type: bool
  hyperv:
    description:
      - What Windows runs better with. An empty mapping is O(hyperv.relaxed), O(hyperv.vapic),
        O(hyperv.spinlocks) 8191, O(hyperv.vpindex), O(hyperv.runtime), O(hyperv.synic) and
        O(hyperv.stimer), with Hyper-V's clock. For KVM guests.
    type: dict
    suboptions:
      relaxed:
        description:
          - Watchdogs of the guest wait longer.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      vapic:
        description:
          - A virtual interrupt controller.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      spinlocks:
        description:
          - How often a lock is tried before the vCPU gives way. From 4095 to 4294967295.
          - In a VM that exists a change takes effect at the next start.
        type: int
      vpindex:
        description:
          - Numbers of virtual processors.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      runtime:
        description:
          - Time that processors ran.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      synic:
        description:
          - A synthetic interrupt controller; needs O(hyperv.vpindex).
          - In a VM that exists a change takes effect at the next start.
        type: bool
      stimer:
        description:
          - Synthetic timers; need O(hyperv.synic) and Hyper-V's clock.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      reset:
        description:
          - Reset by Hyper-V's way.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      frequencies:
        description:
          - Frequencies of clocks.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      reenlightenment:
        description:
          - Told of changed frequencies after moves.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      tlbflush:
        description:
          - Address caches emptied by the hypervisor.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      ipi:
        description:
          - Interrupts between processors by the hypervisor.
          - In a VM that exists a change takes effect at the next start.
        type: bool
      vendor_id:
        description:
          - Vendor that the guest sees instead of KVM's, at most 12 characters.
          - In a VM that exists a change takes effect at the next start.
        type: str
  on_poweroff:
    description:
      - What becomes of the VM when the guest powers off. V(restart) needs O(on_reboot) V(restart).
      - In a VM that exists a change takes effect at the next start.
    type: str
    choices: [destroy, restart]
    default: destroy
  on_reboot:
    description:
      - What becomes of it when the guest reboots. V(destroy) is for installers that have to be
        started anew from the disk.
      - In a VM that exists a change takes effect at the next start.
    type: str
    choices: [restart, destroy]
    default: restart
  on_crash:
    description:
      - What becomes of it when the guest crashes, as far as O(panic) tells. The two with
        V(coredump) write its memory below C(/var/lib/libvirt/qemu/dump) first.
      - In a VM that exists a change takes effect at the next start.
    type: str
    choices: [destroy, restart, preserve, coredump-destroy, coredump-restart]
    default: destroy
  watchdog:
    description:
      - Watchdog, or its action alone, such as V(poweroff), or V(true). There is none if left out.
    type: raw
    suboptions:
      model:
        description:
          - Device that the guest sees; the one that fits the machine type if left out. V(itco)
            needs libvirt 9.1.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [i6300esb, ib700, itco, diag288]
      action:
        description:
          - What the hypervisor does when it fires.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [reset, shutdown, poweroff, pause, "none", dump]
        default: reset
  tpm:
    description:
      - TPM 2.0, V(true) or its model alone, such as V(tpm-tis). There is none if left out. It is
        emulated. Where libvirt finds no emulator (packages C(swtpm) and C(swtpm-tools)), the VM is
        refused. Removing the VM removes what the guest keeps in it.
    type: raw
    suboptions:
      model:
        description:
          - Device that the guest sees. Left out, V(tpm-crb) on PCs, else V(tpm-tis).
          - In a VM that exists it is never changed (what the guest keeps in its TPM would be lost;
            make the VM anew).
        type: str
        choices: [tpm-crb, tpm-tis]
  rng:
    description:
      - Give the guest a random number generator.
      - In a VM that exists a change takes effect at the next start.
    type: bool
    default: true
  balloon:
    description:
      - Give the guest a memory balloon, by which it gives memory back while it runs.
      - In a VM that exists a change takes effect at the next start.
    type: bool
    default: true
  panic:
    description:
      - Device by which the guest tells that it crashed, so that O(on_crash) holds; an empty mapping
        is the usual one. There is none if left out.
    type: dict
    suboptions:
      model:
        description:
          - Device that the guest sees; the one that fits the architecture if left out.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [isa, hyperv, pvpanic, pseries, s390]
  video:
    description:
      - Graphics card. Left out, there is one with a console.
    type: dict
    suboptions:
      model:
        description:
          - Device that the guest sees. Left out, V(vga) on PCs, else V(virtio).
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [vga, virtio, qxl, bochs, cirrus, ramfb, "none"]
      vram:
        description:
          - Its memory, where the model has any to be chosen. In whole MiB, or with a unit such as
            V(4GiB) or V(0.5GiB).
          - In a VM that exists a change takes effect at the next start.
        type: str
      heads:
        description:
          - Screens that it can have; V(virtio) and V(qxl) have more than one. From 1 to 16.
          - In a VM that exists a change takes effect at the next start.
        type: int
  sound:
    description:
      - Sound card; an empty mapping is the usual one. There is none if left out.
    type: dict
    suboptions:
      model:
        description:
          - Device that the guest sees; the one that fits the machine type if left out.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [ich9, ich6, ac97, usb]
  serials:
    description:
      - Serial ports beside the console, which is the first. PCs have four in all.
    type: list
    elements: dict
    suboptions:
      type:
        description:
          - What is at its other end.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [pty, file, unix, tcp, dev, "null"]
        default: pty
      path:
        description:
          - Path on the hypervisor, for V(file), V(unix) and V(dev).
          - In a VM that exists a change takes effect at the next start.
        type: str
      mode:
        description:
          - Whether QEMU listens (V(bind)) or calls, for V(unix) and V(tcp).
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [bind, connect]
      host:
        description:
          - Address of V(tcp).
          - In a VM that exists a change takes effect at the next start.
        type: str
      port:
        description:
          - Port of V(tcp). From 1 to 65535.
          - In a VM that exists a change takes effect at the next start.
        type: int
      protocol:
        description:
          - What V(tcp) speaks.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [raw, telnet]
  channels:
    description:
      - Channels between hypervisor and guest beside that of the guest's agent.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name, by which the guest finds it below C(/dev/virtio-ports).
          - In a VM that exists a change takes effect at the next start.
        type: str
      type:
        description:
          - What is at its other end. V(spicevmc) is for the agent of a SPICE console.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [unix, pty, spicevmc]
        default: unix
  filesystems:
    description:
      - Folders of the hypervisor that the guest may mount. A VM with one is not moved while it
        runs.
    type: list
    elements: dict
    suboptions:
      source:
        description:
          - Folder of the hypervisor.
          - In a VM that exists a change takes effect at the next start.
        type: str
      target:
        description:
          - Tag that the guest mounts it by, as C(mount -t virtiofs TAG /mnt) or, by 9p, C(mount -t
            9p -o trans=virtio TAG /mnt).
          - In a VM that exists a change takes effect at the next start.
        type: str
      driver:
        description:
          - How the guest reaches it. V(path) is 9p, which QEMU does itself; V(virtiofs) is faster,
            and needs the program virtiofsd on the hypervisor and memory that it shares with QEMU.
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [path, virtiofs]
        default: path
      accessmode:
        description:
          - Whose the files are, by 9p. V(mapped) keeps owner and rights that the guest gives in
            extended attributes, V(passthrough) gives the files themselves, as far as QEMU's user
            may, and V(squash) ignores that it may not. With V(virtiofs) V(passthrough).
          - In a VM that exists a change takes effect at the next start.
        type: str
        choices: [mapped, passthrough, squash]
      readonly:
        description:
          - Keep the guest from writing to it. Not with V(virtiofs).
          - In a VM that exists a change takes effect at the next start.
        type: bool
        default: false
  hostdevs:
    description:
      - Devices of the hypervisor that the guest has for itself, each C(pci) or C(usb). They tie the
        VM to one hypervisor, which O(host) names.
    type: list
    elements: dict
    suboptions:
      pci:
        description:
          - Address of a PCI device, such as V(0000:3b:00.1), as C(lspci -D) shows it.
          - In a VM that exists a change takes effect at the next start.
        type: str
      usb:
        description:
          - Vendor and product of a USB device, such as V(046d:c52b), as C(lsusb) shows them.
          - In a VM that exists a change takes effect at the next start.
        type: str
  title:
    description:
      - Title of the VM, one line of at most 256 characters.
      - In a VM that exists it is changed at once, where libvirt can.
    type: str
  description:
    description:
      - Description of the VM.
      - In a VM that exists it is changed at once, where libvirt can.
    type: str
  xml:
    description:
      - What no setting says, as a fragment of libvirt's XML, a C(<domain>) with the elements that
        are wanted. Those of C(<devices>) are added as further devices. Any other is merged with the
        one at its place, or added there, and its attributes and text win. At most 64 KiB, without
        document type and secrets.
      - Refused, with what to use instead, are what a setting says, the VM's identity and metadata,
        another C(<emulator>), what listens on other addresses than loopback, and other namespaces,
        thus C(<qemu:commandline>), which starts anything that QEMU can, unseen by any check or
        move. The whole is held against libvirt's schema, in check mode too.
      - It is compared with the definition as libvirt keeps it, so it has to be written as libvirt
        writes it (sizes in KiB, for example). If libvirt keeps it otherwise, it is refused. What is
        no longer in it stays in the VM; remove that with C(virsh edit).
      - In a VM that exists a change takes effect at the next start.
    type: str
  wait:
    description:
      - Whether C(fleet.virt.provision_vm) waits until the VM answers; not looked at here.
    type: bool
    default: true
  # end of what is written
  vms:
    description:
      - Several VMs, each with the options above as keys.
    type: list
    elements: dict
  disk_profiles:
    description:
      - Disk profiles; the variable C(virt_disk_profiles) if left out.
    type: dict
    default: {}
  nic_profiles:
    description:
      - NIC profiles; the variable C(virt_nic_profiles) if left out.
    type: dict
    default: {}
  pool:
    description:
      - Pool of disks that name none; the variable C(virt_pool) if left out.
    type: str
    default: default
  base_pool:
    description:
      - Pool of base images; the variable C(virt_base_pool) if left out.
    type: str
    default: base
  pool_paths:
    description:
      - Pools that are made if they are needed and absent, name to folder. Left out, those of
        O(pool) at C(virt_images_path) and of O(base_pool) at C(virt_base_path).
    type: dict
    default: {}
  ssh_public_keys:
    description:
      - Keys that may log in to seeded VMs that name none. Left out, the variable
        C(virt_ssh_public_key), else the first of the controller's own.
    type: list
    elements: str
    default: []
  fleet:
    description:
      - Name of the fleet, which MAC addresses follow from; the variable C(virt_fleet) if left out.
    type: str
    default: ""
  limits:
    description:
      - The hypervisor's C(virt_memory_reserve), C(virt_memory_ratio), C(virt_vcpu_ratio),
        C(virt_disk_ratio), C(virt_zone) and C(virt_tags); its variables if left out.
    type: dict
    default: {}
  converge:
    description:
      - Whether a VM that exists is changed to what is asked for; the variable C(virt_converge) if
        left out. If not, one that differs is refused, with what differs.
    type: bool
    default: true
seealso:
  - module: fleet.virt.virt_query
    description: What became of it.
"""

EXAMPLES = r"""
- name: A VM from an image on the hypervisor, copy-on-write, on the default disk and NIC
  fleet.virt.virt_init:
    name: centos1
    vcpus: 2
    memory: 512
    image: /var/lib/libvirt/images/centos.qcow2

- name: An empty VM with two disks and a console, not started
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

- name: The same VM with more memory and a larger disk, as far as it can be changed while it runs
  fleet.virt.virt_init:
    name: database1
    memory: 8GiB
    disks:
      - name: data
        size: 110GiB
"""

RETURN = r"""
host:
  description: The hypervisor, with the claims if there are any, as
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
      description: Whether it was there before, so that nothing but its settings was to be changed.
      type: bool
    changed:
      description: Whether something was done, or would be in check mode.
      type: bool
    steps:
      description: What was done, or would be, in order.
      type: list
      elements: str
      sample: [define web1, create default/web1_system.qcow2, start]
    restart_required:
      description: Whether a setting takes effect at the next start only.
      type: bool
    pending:
      description:
        - The settings that take effect at the next start, whoever changed them; read from what runs
          and what is stored, so that they are there until the VM is started again.
      type: list
      elements: str
      sample: [memory_max, disks.vda.cache]
    seed:
      description: How it is seeded, with C(method), C(reason) and, if its disk was looked into,
        C(found), as RV(fleet.virt.virt_seed#module:seed); null for one that is not, or exists.
        C(method) is V(auto) in check mode.
      type: dict
    failed:
      description: Whether this VM could not be made.
      type: bool
    refused:
      description: Whether another hypervisor, or another moment, may do better.
      type: bool
    msg:
      description: Why it could not be made, else null.
      type: str
"""

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._pure.domain.init_options import (
    ARGUMENTS,
    INTERNAL,
    OPTIONS,
)


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    for name in OPTIONS:  # written ones come in vms; the defaults would only be shown beside them
        del module.params[name]
    params = module.options

    def facts(connection: Connection) -> t.Mapping[str, object]:
        from ansible_collections.fleet.virt.plugins.module_utils._effects.domain import settled

        return settled.facts(connection, t.cast("settled.Options", params))

    def read() -> t.Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            return facts(connection)

    def compare() -> t.Mapping[str, object]:
        from ansible_collections.fleet.virt.plugins.module_utils._effects.domain import (
            existing,
            init,
        )

        domains, settings = init.read_options(t.cast("init.Options", params))
        with connect(params["uri"], params["timeout"]) as connection:
            return {**facts(connection), "vms": existing.compare(connection, domains, settings)}

    def work() -> t.Mapping[str, object]:
        from ansible_collections.fleet.virt.plugins.module_utils._effects.domain import init

        domains, settings = init.read_options(t.cast("init.Options", params))
        with connect(params["uri"], params["timeout"]) as connection:
            return init.run(
                connection,
                domains,
                settings,
                stage=params["_stage"],
                check=module.check_mode,
                withdraw=params["_withdraw"],
            )

    # Each stage imports its own: what is imported is compiled anew at every call
    if params["_stage"] in ("look", "read"):
        run(module, read)
    if params["_stage"] == "compare":
        run(module, compare)
    run(module, work, commands=("qemu-img",))


if __name__ == "__main__":
    main()
