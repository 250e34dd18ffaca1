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
  name:
    description:
      - Name of the VM, and its host name unless O(seed) has another.
    type: str
  vcpus:
    description:
      - Number of virtual CPUs, 1 if left out.
    type: raw
  memory:
    description:
      - Memory, in whole MiB or with a unit such as V(4GiB) or V(0.5GiB), at least 16 MiB; 1024 if
        left out.
    type: raw
  memory_max:
    description:
      - Memory it can be given while it runs; as O(memory) if left out.
    type: raw
  image:
    description:
      - What its first disk is made from. A file name in C(virt_image_dir) on the controller, an
        absolute path on the hypervisor, a volume as C(pool/volume), or an https URL with its
        checksum as C(https://host/file.qcow2#sha256:...), which the hypervisor downloads. The
        format is found out from the content.
    type: str
  disk_profile:
    description:
      - Name of a profile in C(virt_disk_profiles). Without any, V(default) is one disk C(system)
        of 8192 MiB, qcow2, virtio; V(none) has no disks.
    type: str
  nic_profile:
    description:
      - Name of a profile in C(virt_nic_profiles). Without any, V(default) is one virtio NIC C(eth0)
        on the bridge C(br0); V(none) has no NICs.
    type: str
  disks:
    description:
      - Disks beside those of the profile; one of the same name changes that of the profile.
      - Keys are C(name), C(size), C(format) (V(qcow2), V(raw)), C(bus) (or C(model)), C(cache),
        C(discard), C(io), C(pool), C(device) (V(disk), V(cdrom)), C(image), C(overlay),
        C(readonly), C(serial). Sizes are whole MiB, or have a unit such as V(8GiB).
      - A drive (C(device) V(cdrom)) is created empty and takes no C(image). Insert its medium with
        C(virsh change-media).
    type: raw
  nics:
    description:
      - NICs beside those of the profile; one of the same name changes that of the profile.
      - Keys are C(name), C(bridge) or C(network), C(model), C(mac), C(vlan), C(link). Without
        C(mac) the address follows from the names of fleet, VM and NIC.
      - A C(vlan) is refused where libvirt sets no VLAN tags, as on a Linux bridge without
        C(vlan_filtering), or on any before libvirt 11. Give the NIC a bridge that is on that VLAN,
        or a network on Open vSwitch.
    type: raw
  overlay:
    description:
      - Make the disk copy-on-write over the immutable base image, instead of a full copy; true if
        left out.
    type: raw
  start:
    description:
      - Start the VM once it is complete; true if left out.
    type: raw
  autostart:
    description:
      - Start the VM with its hypervisor; false if left out.
    type: raw
  console:
    description:
      - Graphical console with C(type) (V(none), V(vnc), V(spice)), C(listen) (V(127.0.0.1)) and
        C(password). There is none if left out. A serial console is always there.
      - On loopback it is reached through SSH. Any other address is refused where the hypervisor's
        C(qemu.conf) has no C(vnc_tls) with C(vnc_tls_x509_verify), or for SPICE C(spice_tls).
    type: raw
  seed:
    description:
      - What the guest is told before its first boot, by a medium that cloud-init reads. Keys are
        the options of M(fleet.virt.virt_seed) from C(hostname) to C(method). False for none.
        Left out, a VM made from an image is seeded with the defaults.
      - With C(method) V(offline) it is written into the VM's own disk instead, for images without
        cloud-init; V(auto) looks which of both it is.
      - The guest's SSH host key is made for it, so that it is known before it boots; its public
        half is in the VM's metadata.
    type: raw
  groups:
    description:
      - Inventory groups of the VM.
    type: raw
  anti_affinity:
    description:
      - Groups none of whose VMs may be on the same hypervisor.
    type: raw
  zone:
    description:
      - Zone the hypervisor must be in.
    type: raw
  tags:
    description:
      - Tags the hypervisor must have.
    type: raw
  host:
    description:
      - Hypervisor it must be on, by its name in the inventory.
    type: raw
  placement:
    description:
      - The four options O(host), O(zone), O(tags) and O(anti_affinity) in one mapping.
    type: raw
  firmware:
    description:
      - V(bios) or V(uefi). V(uefi) is refused where libvirt finds no such firmware (package C(ovmf)
        or C(edk2-ovmf)).
    type: raw
  cpu:
    description:
      - CPU with C(mode) and C(model). Left out, a KVM guest has the host's model.
    type: raw
  machine:
    description:
      - Machine type. Left out, or for a family such as V(q35), the newest versioned type that qemu
        has.
    type: raw
  arch:
    description:
      - Architecture.
    type: raw
  domain_type:
    description:
      - V(kvm) or V(qemu); left out, the best the hypervisor has.
    type: raw
  boot:
    description:
      - Names of disks and NICs in the order the firmware tries them.
    type: raw
  watchdog:
    description:
      - Watchdog with C(model) and C(action).
    type: raw
  rng:
    description:
      - Give the guest a random number generator; true if left out.
    type: raw
  title:
    description:
      - Title of the VM.
    type: raw
  description:
    description:
      - Description of the VM.
    type: raw
  wait:
    description:
      - Whether C(fleet.virt.provision_vm) waits until the VM answers; not looked at here.
    type: raw
  vms:
    description:
      - Several VMs, each with the options above as keys.
    type: list
    elements: dict
  only:
    description:
      - Names of the VMs of the batch to take, and leave the others.
    type: list
    elements: str
  stage:
    description:
      - V(claim) reserves name and capacity, V(finish) makes what O(run) has claimed. V(all) does
        everything at once.
      - V(read) only reads the hypervisor, as M(fleet.virt.virt_host_info) does with
        O(fleet.virt.virt_host_info#module:placement=true). A playbook that goes on to create sends
        one module to its hypervisors then, not two.
    type: str
    choices: [all, read, claim, finish]
    default: all
  withdraw:
    description:
      - Names of VMs whose claims by O(run) are taken back first.
    type: list
    elements: str
    default: []
  run:
    description:
      - Identity of the run that claims belong to; a new one if left out.
    type: str
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
  home:
    description:
      - Name of the hypervisor in the inventory; filled in.
    type: str
    default: ""
  fleet_machine:
    description:
      - Machine type of VMs that name none; C(fleet.virt.provision_vm) gives the newest that all
        hypervisors have.
    type: str
  fleet_seen:
    description:
      - With O(stage=claim), every hypervisor of the fleet as it was when the VMs were placed;
        C(fleet.virt.provision_vm) gives it if they all go to this one. Once they are claimed, this
        hypervisor looks at the others itself, over libvirt's verified TLS. If all answer and have
        the domains they had, the VMs are finished at once, and nobody needs to be asked again.
      - Used with O(uri=qemu:///system) only.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Its name in the inventory.
        type: str
        required: true
      address:
        description: Where other hypervisors reach its libvirt, which its certificate has to name.
        type: str
        required: true
      uuid:
        description: Its UUID, of its capabilities.
        type: str
        required: true
      domains:
        description: SHA-256 of what placing needs to know of its domains.
        type: str
        required: true
  earlier:
    description:
      - With O(stage=finish), what O(stage=claim) returned here. If that has finished the VMs, it is
        returned again, and nothing is done.
    type: dict
    default: {}
  images:
    description:
      - Facts of the controller's images, by name; filled in.
    type: dict
    default: {}
  passwords:
    description:
      - Console passwords by VM; filled in from O(console), so that they are never shown.
    type: dict
    default: {}
  seeds:
    description:
      - Seeds by VM; filled in from O(seed), so that what is secret in them is never shown.
    type: str
    default: ""
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
  returned: with O(stage=read), and with O(stage=claim) if something was claimed
  type: dict
finished:
  description: Whether the VMs were finished as well, see O(fleet_seen).
  returned: with O(stage=claim)
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
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._pure.domain.init_options import ARGUMENTS


def main() -> None:
    module = create_module(ARGUMENTS)
    params = module.params

    def read() -> dict[str, t.Any]:
        from ansible_collections.fleet.virt.plugins.module_utils._effects.machine import (
            placement_facts,
        )

        base = params["base_pool"]
        path = str(params["pool_paths"].get(base, ""))
        with connect(params["uri"], params["timeout"]) as connection:
            return {"changed": False, "host": placement_facts.read(connection, base, path)}

    def work() -> dict[str, t.Any]:
        from ansible_collections.fleet.virt.plugins.module_utils._effects.domain import init

        domains, settings = init.read_options(params)
        with connect(params["uri"], params["timeout"]) as connection:
            return init.run(
                connection,
                domains,
                settings,
                stage=params["stage"],
                check=module.check_mode,
                withdraw=params["withdraw"],
            )

    # Each stage imports its own: what is imported is compiled anew at every call
    if params["stage"] == "read":
        run(module, read)
    run(module, work, commands=("qemu-img",))


if __name__ == "__main__":
    main()
