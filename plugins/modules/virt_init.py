#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_init
short_description: Create VMs on a hypervisor
version_added: 0.1.0
description:
  - Creates one VM by its options or several by O(vms) on the hypervisor it runs on, with disks,
    NICs, consoles and a seed medium, and starts them.
  - Every error of every VM is reported before the first is touched. What fails later is undone,
    and only that. A call that was killed is finished by running it again.
  - A VM that exists is left alone. The options that are written, not defaults, are compared with
    the definition that libvirt has, by whomever it was changed; what only its creation knew (image,
    seed) with the request that made it. Differences are named, and nothing is changed. Passwords of
    consoles are not compared, nor is where the VM is to be.
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
  vcpus:
    description:
      - Number of virtual CPUs. From 1 to 4096.
    type: int
    default: 1
  memory:
    description:
      - Memory. In whole MiB, or with a unit such as V(4GiB) or V(0.5GiB), at least 16 MiB.
    type: str
    default: "1024"
  memory_max:
    description:
      - Memory it can be given while it runs; as O(memory) if left out. In whole MiB, or with a unit
        such as V(4GiB) or V(0.5GiB), at least 16 MiB.
    type: str
  image:
    description:
      - What its first disk is made from. A file name in C(virt_image_dir) on the controller, an
        absolute path on the hypervisor, a volume as C(pool/volume), or an https URL with its
        checksum as C(https://host/file.qcow2#sha256:...), which the hypervisor downloads. The
        format is found out from the content.
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
      size:
        description:
          - Size. Left out for a disk with an image, that of the image. In whole MiB, or with a unit
            such as V(4GiB) or V(0.5GiB).
        type: str
      device:
        description:
          - What it is. A V(cdrom) is a CD drive. It has its O(disks[].image) in it, an ISO image,
            or is empty, and takes no size.
        type: str
        choices: [disk, cdrom]
        default: disk
      format:
        description:
          - Format of its volume. Left out, V(qcow2), and V(raw) for a V(cdrom).
        type: str
        choices: [qcow2, raw]
      bus:
        description:
          - What it is attached to. Left out, V(virtio), and V(scsi) for a V(cdrom). Machine types
            such as V(q35) have no V(ide).
        type: str
        choices: [virtio, scsi, sata, ide, usb]
        aliases: [model]
      cache:
        description:
          - How the hypervisor caches it. V(none) and V(directsync) bypass the host's page cache.
        type: str
        choices: ["none", writeback, writethrough, directsync, unsafe]
        default: "none"
      io:
        description:
          - How QEMU does its input and output; QEMU's choice if left out. V(native) needs
            O(disks[].cache) V(none) or V(directsync).
        type: str
        choices: [native, threads, io_uring]
      discard:
        description:
          - Whether what the guest discards is given back to the pool.
        type: str
        choices: [unmap, ignore]
        default: unmap
      detect_zeroes:
        description:
          - Whether QEMU looks for zeroes in what the guest writes. V(on) writes them without taking
            space where the format can; V(unmap) gives the space back, for which O(disks[].discard)
            must be V(unmap).
        type: str
        choices: ["off", "on", unmap]
      iothread:
        description:
          - Number of the thread of QEMU that does its input and output, beside those of the vCPUs.
            Disks with the same number share it. The VM has as many as the highest number. Only for
            O(disks[].bus) V(virtio). From 1 to 64.
        type: int
      pool:
        description:
          - Pool its volume is made in; the variable C(virt_pool) if left out.
        type: str
      image:
        description:
          - What it is made from, written as the VM's own C(image). Left out, that one for the first
            disk, and none for the others. That of a V(cdrom) is read where it is, among the base
            images, by all VMs that have it in a drive; a VM without a system on its first disk
            boots from it.
        type: str
      overlay:
        description:
          - Make it copy-on-write over its image, instead of a full copy. Left out, as the VM's own
            C(overlay), and false for V(raw).
        type: bool
      readonly:
        description:
          - Keep the guest from writing to it. A V(cdrom) always is.
        type: bool
        default: false
      serial:
        description:
          - Serial number that the guest sees, at most 20 letters, digits or C(_.+-).
        type: str
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
      bridge:
        description:
          - Bridge of the hypervisor it is attached to. Either this or O(nics[].network) has to be
            given, here or by the profile.
        type: str
      network:
        description:
          - Network of libvirt it is attached to.
        type: str
      mac:
        description:
          - MAC address, in quotes. Left out, it follows from the names of fleet, VM and NIC.
        type: str
      vlan:
        description:
          - VLAN tag. Refused where libvirt sets no VLAN tags, as on a Linux bridge without
            C(vlan_filtering), or on any before libvirt 11. Give the NIC a bridge that is on that
            VLAN, or a network on Open vSwitch. From 1 to 4094.
        type: int
      model:
        description:
          - Device that the guest sees.
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
        type: bool
        default: true
      type:
        description:
          - What O(nics[].source) names; V(bridge) if left out.
        type: str
        choices: [bridge, network]
      source:
        description:
          - Name of the bridge or network, another way to write O(nics[].bridge) or
            O(nics[].network).
        type: str
  overlay:
    description:
      - Make the disk copy-on-write over the immutable base image, instead of a full copy.
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
    type: bool
    default: false
  console:
    description:
      - Graphical console, or its type alone, such as V(vnc). There is none if left out. A serial
        console is always there.
    type: raw
    suboptions:
      type:
        description:
          - What it speaks; V(vnc) if only the others are given.
        type: str
        choices: ["none", vnc, spice]
      listen:
        description:
          - Address of the hypervisor it listens on. On loopback it is reached through SSH. Any
            other is refused where the hypervisor's C(qemu.conf) has no C(vnc_tls) with
            C(vnc_tls_x509_verify), or for SPICE C(spice_tls).
        type: str
        default: "127.0.0.1"
      password:
        description:
          - Password it asks for, none if left out. VNC takes at most 8 characters.
        type: str
  groups:
    description:
      - Inventory groups of the VM.
    type: list
    elements: str
  anti_affinity:
    description:
      - Groups none of whose VMs may be on the same hypervisor.
    type: list
    elements: str
  zone:
    description:
      - Zone the hypervisor must be in.
    type: str
  tags:
    description:
      - Tags the hypervisor must have.
    type: list
    elements: str
  host:
    description:
      - Hypervisor it must be on, by its name in the inventory.
    type: str
  placement:
    description:
      - Where the VM may be, in one mapping; the same four options are taken beside it.
    type: dict
    suboptions:
      host:
        description:
          - Hypervisor it must be on, by its name in the inventory.
        type: str
      zone:
        description:
          - Zone the hypervisor must be in.
        type: str
      tags:
        description:
          - Tags the hypervisor must have.
        type: list
        elements: str
      anti_affinity:
        description:
          - Groups none of whose VMs may be on the same hypervisor.
        type: list
        elements: str
  firmware:
    description:
      - Firmware; that of the machine type if left out. V(uefi) is refused where libvirt finds no
        such firmware (package C(ovmf) or C(edk2-ovmf)).
    type: str
    choices: [bios, uefi]
  cpu:
    description:
      - CPU, or its mode or model alone, such as V(host-passthrough) or V(EPYC). Left out, a KVM
        guest has the host's model.
    type: raw
    suboptions:
      mode:
        description:
          - How it is chosen; V(custom) if only a model is given.
        type: str
        choices: [host-model, host-passthrough, maximum, custom]
      model:
        description:
          - Model, such as V(EPYC); needed for O(cpu.mode) V(custom), and not taken with the others.
        type: str
  machine:
    description:
      - Machine type. Left out, or for a family such as V(q35), the newest versioned type that qemu
        has.
    type: str
  arch:
    description:
      - Architecture, such as V(aarch64); the hypervisor's own if left out.
    type: str
  domain_type:
    description:
      - What runs it. Left out, the best the hypervisor has.
    type: str
    choices: [kvm, qemu]
  boot:
    description:
      - Names of disks and NICs in the order the firmware tries them. Left out, the first disk, then
        the drives.
    type: list
    elements: str
  watchdog:
    description:
      - Watchdog, or its action alone, such as V(poweroff), or V(true). There is none if left out.
    type: raw
    suboptions:
      model:
        description:
          - Device that the guest sees; the one that fits the machine type if left out. V(itco)
            needs libvirt 9.1.
        type: str
        choices: [i6300esb, ib700, itco, diag288]
      action:
        description:
          - What the hypervisor does when it fires.
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
        type: str
        choices: [tpm-crb, tpm-tis]
  rng:
    description:
      - Give the guest a random number generator.
    type: bool
    default: true
  title:
    description:
      - Title of the VM, one line of at most 256 characters.
    type: str
  description:
    description:
      - Description of the VM.
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
    changed:
      description: Whether something was done, or would be in check mode.
      type: bool
    steps:
      description: What was done, or would be, in order.
      type: list
      elements: str
      sample: [define web1, create default/web1_system.qcow2, start]
    restart_required:
      description: Whether a change takes effect at the next start only.
      type: bool
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

    def facts(connection: Connection) -> dict[str, object]:
        from ansible_collections.fleet.virt.plugins.module_utils._effects.machine import (
            placement_facts,
        )

        base = params["base_pool"]
        path = str(params["pool_paths"].get(base, ""))
        return {"changed": False, "host": placement_facts.read(connection, base, path)}

    def read() -> t.Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            return facts(connection)

    def compare() -> t.Mapping[str, object]:
        from ansible_collections.fleet.virt.plugins.module_utils._effects.domain import (
            existing,
            init,
        )

        domains, _settings = init.read_options(t.cast("init.Options", params))
        with connect(params["uri"], params["timeout"]) as connection:
            return {**facts(connection), "vms": existing.compare(connection, domains)}

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
    if params["_stage"] == "read":
        run(module, read)
    if params["_stage"] == "compare":
        run(module, compare)
    run(module, work, commands=("qemu-img",))


if __name__ == "__main__":
    main()
