#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_host_info
short_description: Read a hypervisor's capacity, pools, networks and state
version_added: 0.1.0
description:
  - Reads, live from libvirt, what a hypervisor has, what is promised to its domains and whether
    it takes new ones.
  - Nothing is refreshed or changed. A pool, network or domain that cannot be read carries its own
    error and hides nothing else.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._attributes.reading
options:
  base_pool:
    description:
      - Name of the storage pool that holds base images and the maintenance mark.
    type: str
    default: base
  base_path:
    description:
      - Folder of the pool of base images, which is that pool whatever its name.
    type: str
    default: /var/lib/libvirt/base
  placement:
    description:
      - Return what placement needs besides, the V(vms), V(machines), V(firmwares), V(tpms) and
        V(images) of the host, where NICs may have VLAN tags, and what is promised in each pool. It
        opens every volume.
    type: bool
    default: false
seealso:
  - module: fleet.virt.virt_query
    description: The domains themselves.
"""

EXAMPLES = r"""
- name: Read the hypervisor
  fleet.virt.virt_host_info:
  register: hypervisor

- name: Read libvirt's test driver, with nothing installed but the binding
  fleet.virt.virt_host_info:
    uri: test:///default
"""

RETURN = r"""
host:
  description: The hypervisor.
  returned: success
  type: dict
  contains:
    name:
      description: Host name, as libvirt reports it.
      type: str
      sample: hv1
    uri:
      description: The connection it was read through.
      type: str
      sample: qemu:///system
    uuid:
      description: UUID of the host as libvirt knows it; no two hypervisors may share one.
      type: str
    libvirt_version:
      description: Version of libvirt; null from a driver that does not say.
      type: str
      sample: 9.0.0
    hypervisor_version:
      description: Version of QEMU; null from a driver that does not say.
      type: str
      sample: 7.2.17
    domain_types:
      description: What domains of the host's own architecture can be; V(kvm) is listed only where
        the host can run it.
      type: list
      elements: str
      sample: [kvm, qemu]
    arch:
      description: Architecture of the host.
      type: str
      sample: x86_64
    cpu:
      description: The host's CPUs, and the virtual CPUs promised.
      type: dict
      contains:
        model:
          description: CPU model in libvirt's terms.
          type: str
        sockets:
          description: Sockets of the host.
          type: int
        cores:
          description: Cores of each socket.
          type: int
        threads:
          description: Threads of each core.
          type: int
        total:
          description: Active CPUs of the host.
          type: int
        running:
          description: Current virtual CPUs of all active domains.
          type: int
        defined:
          description: Maximum of virtual CPUs of all defined domains.
          type: int
    memory_mib:
      description: Memory in MiB.
      type: dict
      contains:
        total:
          description: Memory of the host.
          type: int
        free:
          description: Free now, reclaimable caches included; null from a driver that does not say.
          type: int
        running:
          description: Promised to active domains; their maximum, whatever a balloon gave back.
          type: int
        defined:
          description: Promised to all defined domains.
          type: int
    numa:
      description: NUMA cells.
      type: list
      elements: dict
      contains:
        id:
          description: Number of the cell.
          type: int
        memory_mib:
          description: Memory of the cell.
          type: int
        free_mib:
          description: Free now, reclaimable caches not included; null where libvirt does not say.
          type: int
        cpus:
          description: CPUs of the cell.
          type: int
        hugepages:
          description: Pools of huge pages, the smallest pages first.
          type: list
          elements: dict
          contains:
            size_kib:
              description: Size of a page.
              type: int
            total:
              description: Number of pages.
              type: int
    pools:
      description: Storage pools, sorted by name. Values of an inactive pool are what libvirt last
        knew.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the pool.
          type: str
        type:
          description: Type of the pool.
          type: str
          sample: dir
        state:
          description: State of the pool, V(running), V(inactive), V(building), V(degraded) or
            V(inaccessible).
          type: str
        path:
          description: Target path.
          type: str
        capacity_mib:
          description: Size of what the pool lies on.
          type: int
        allocation_mib:
          description: Used there, by anybody.
          type: int
        available_mib:
          description: Free there.
          type: int
        promised_mib:
          description: The sum of the volumes' virtual sizes.
          returned: with O(placement=true)
          type: int
        volume_allocation_mib:
          description: What the volumes occupy.
          returned: with O(placement=true)
          type: int
        claimed_mib:
          description: Disks of VMs in creation that are not there yet.
          returned: with O(placement=true)
          type: int
        error:
          description: Why the pool could not be read, else null.
          type: str
    networks:
      description: libvirt's networks, sorted by name.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the network.
          type: str
        bridge:
          description: Bridge it uses on the host.
          type: str
        forward:
          description: How it is connected, for example V(nat) or V(bridge); null if it is isolated.
          type: str
        active:
          description: Whether it is active.
          type: bool
        autostart:
          description: Whether it starts with the host.
          type: bool
        error:
          description: Why it could not be read, else null.
          type: str
    bridges:
      description: Names of the host's bridges; null where neither the kernel nor libvirt tells.
      type: list
      elements: str
    domains:
      description: Number of domains by state, in libvirt's own terms, V(unknown) for those that
        could not be read.
      type: dict
      contains:
        nostate:
          description: Without a state.
          type: int
        running:
          description: Running.
          type: int
        blocked:
          description: Blocked on a resource.
          type: int
        paused:
          description: Paused.
          type: int
        shutdown:
          description: Shutting down.
          type: int
        shutoff:
          description: Shut off, saved ones included.
          type: int
        crashed:
          description: Crashed, and kept for a look at them.
          type: int
        pmsuspended:
          description: Suspended by the guest's own power management.
          type: int
        unknown:
          description: Could not be read.
          type: int
    maintenance:
      description: Whether the maintenance mark is set; null when the base pool is there but cannot
        be read.
      type: bool
    vms:
      description: The defined domains as placement sees them.
      returned: with O(placement=true)
      type: list
      elements: dict
      contains:
        name:
          description: Name of the domain.
          type: str
        uuid:
          description: UUID of the domain.
          type: str
        managed:
          description: Whether this collection made it.
          type: bool
        phase:
          description: What is being done with it, null in ordinary life.
          type: str
        run:
          description: The run that does it.
          type: str
        groups:
          description: Inventory groups.
          type: list
          elements: str
        anti_affinity:
          description: Groups whose members it is kept apart from.
          type: list
          elements: str
        macs:
          description: MAC addresses of its NICs.
          type: list
          elements: str
        active:
          description: Whether it is active.
          type: bool
    machines:
      description: Machine types of the host's architecture.
      returned: with O(placement=true)
      type: list
      elements: str
    firmwares:
      description:
        - Kinds of firmware that libvirt finds, V(bios) and V(efi), for the machine type that VMs
          get; null where libvirt does not tell.
      returned: with O(placement=true)
      type: list
      elements: str
    tpms:
      description:
        - Models of TPM 2.0 that can be emulated, for the machine type that VMs get; null where
          libvirt does not tell.
      returned: with O(placement=true)
      type: list
      elements: str
    tagging_bridges:
      description:
        - Linux bridges on which libvirt sets VLAN tags of NICs, those that filter VLANs since
          libvirt 11.0.
      returned: with O(placement=true)
      type: list
      elements: str
    tagging_networks:
      description:
        - Networks on which libvirt sets VLAN tags of NICs, for example on Open vSwitch.
      returned: with O(placement=true)
      type: list
      elements: str
    offers:
      description:
        - What VMs may want that not every hypervisor has. What cannot be told, as of a hypervisor
          that is read from another machine, is null.
      returned: with O(placement=true)
      type: dict
      contains:
        volumes:
          description: Names of the volumes of each active pool, by its name.
          type: dict
        devices:
          description: Block devices, by all their paths.
          type: list
          elements: str
        interfaces:
          description: Network interfaces.
          type: list
          elements: str
        openvswitch:
          description: Bridges of Open vSwitch.
          type: list
          elements: str
        hugepages:
          description: Huge pages of each size, those of the default size first.
          type: list
          elements: dict
          contains:
            size_kib:
              description: Size of one, in KiB.
              type: int
            total:
              description: How many are reserved.
              type: int
            free:
              description: How many of them are free.
              type: int
        virtiofs:
          description: Whether QEMU's helper for virtiofs is installed.
          type: bool
        secure_boot:
          description: Whether libvirt finds firmware with secure boot.
          type: bool
        secrets:
          description: What secrets of libvirt are known by, their UUIDs, and the usages of those
            for volumes. Their values are not read.
          type: list
          elements: str
    images:
      description: Volumes of the pool of base images.
      returned: with O(placement=true)
      type: list
      elements: str
    errors:
      description: Domains that could not be read, and why.
      type: list
      elements: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.machine import placement_facts
from ansible_collections.fleet.virt.plugins.module_utils._effects.machine.host import read_host


def main() -> None:
    module = create_module(
        {
            "base_pool": {"type": "str", "default": "base"},
            "base_path": {"type": "str", "default": "/var/lib/libvirt/base"},
            "placement": {"type": "bool", "default": False},
        }
    )
    params = module.params

    def read() -> dict[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            read_all = placement_facts.read if params["placement"] else read_host
            host = read_all(connection, params["base_pool"], params["base_path"])
            return {"changed": False, "host": host}

    run(module, read)


if __name__ == "__main__":
    main()
