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
  - Reads, live from libvirt, a hypervisor's resources, how much of them is committed to its
    domains, and whether it accepts new ones.
  - Nothing is refreshed or changed. A pool, network or domain that cannot be read has its own error
    and does not affect the rest.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._attributes.reading
options:
  base_pool:
    description:
      - Name of the storage pool of base images, where an earlier version may have set the
        maintenance mark.
    type: str
    default: base
  base_path:
    description:
      - Folder of the pool of base images. A pool with this folder is used, whatever its name.
    type: str
    default: /var/lib/libvirt/base
  placement:
    description:
      - Also return what placement needs, that is the V(vms), V(machines), V(firmwares), V(tpms) and
        V(images) of the host, where NICs may have VLAN tags, and how much of each pool is
        committed. This opens every volume.
    type: bool
    default: false
seealso:
  - module: fleet.virt.virt_query
    description: Reads the domains themselves.
"""

EXAMPLES = r"""
- name: Read the hypervisor
  fleet.virt.virt_host_info:
  register: hypervisor

- name: Read libvirt's test driver, with only the Python binding installed
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
      description: Version of libvirt; null if the driver does not report it.
      type: str
      sample: 9.0.0
    hypervisor_version:
      description: Version of QEMU; null if the driver does not report it.
      type: str
      sample: 7.2.17
    domain_types:
      description: Types that domains of the host's own architecture can have; V(kvm) is listed only
        if the host can run it.
      type: list
      elements: str
      sample: [kvm, qemu]
    arch:
      description: Architecture of the host.
      type: str
      sample: x86_64
    cpu:
      description: The host's CPUs, and the virtual CPUs committed to domains.
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
          description: Current number of virtual CPUs of all active domains.
          type: int
        defined:
          description: Maximum number of virtual CPUs of all defined domains.
          type: int
    memory_mib:
      description: Memory in MiB.
      type: dict
      contains:
        total:
          description: Memory of the host.
          type: int
        free:
          description: Free now, reclaimable caches included; null if the driver does not report it.
          type: int
        running:
          description: Committed to active domains, without what is in huge pages; their maximum,
            whatever a balloon returned.
          type: int
        defined:
          description: Committed to all defined domains, without what is in huge pages.
          type: int
        hugepages:
          description: Memory that is set aside for huge pages, which is no room for other domains,
            by the size of the pages, the default size first. It is part of
            RV(host.memory_mib.total). From libvirt's capabilities; the default size is read from
            the machine itself, and is 2 MiB where only its libvirt is reached.
          type: list
          elements: dict
          contains:
            size_kib:
              description: Size of a page, in KiB.
              type: int
            total:
              description: Memory in such pages.
              type: int
            running:
              description: Committed to active domains.
              type: int
            defined:
              description: Committed to all defined domains.
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
          description: Free now, reclaimable caches not included; null if libvirt does not report
            it.
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
      description: Storage pools, sorted by name. Values of an inactive pool are the last ones known
        to libvirt.
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
          description: Size of the underlying storage.
          type: int
        allocation_mib:
          description: Space in use there, by anything.
          type: int
        available_mib:
          description: Free space there.
          type: int
        promised_mib:
          description: Sum of the volumes' virtual sizes.
          returned: with O(placement=true)
          type: int
        volume_allocation_mib:
          description: Space that the volumes occupy.
          returned: with O(placement=true)
          type: int
        claimed_mib:
          description: Size of disks, not yet created, of VMs that are being created.
          returned: with O(placement=true)
          type: int
        half_made:
          description: Whether it was made and never started, so that the creation of a VM may
            finish making it.
          returned: with O(placement=true), for inactive pools of type V(dir)
          type: bool
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
          description: Bridge that it uses on the host.
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
      description: Names of the host's bridges; null if neither the kernel nor libvirt reports them.
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
          description: Crashed, and preserved for inspection.
          type: int
        pmsuspended:
          description: Suspended by the guest's own power management.
          type: int
        unknown:
          description: Could not be read.
          type: int
    maintenance:
      description: Whether the maintenance mark is set; null if the base pool exists but cannot be
        read.
      type: bool
    cell:
      description: The cell that it is a member of, as Pacemaker says there; null if it is in none,
        or was read from elsewhere.
      type: dict
      contains:
        name:
          description: Name of the cell.
          type: str
          sample: rack1
        members:
          description: Its members.
          type: list
          elements: str
        running:
          description: Whether Pacemaker runs here; if not, the rest is unknown.
          type: bool
        quorate:
          description: Whether this member and those that it sees have quorum.
          type: bool
        online:
          description: Members that are online.
          type: list
          elements: str
        unclean:
          description: Members that are gone and not proven off, so that their VMs start nowhere.
          type: list
          elements: str
        device:
          description: Whether the quorum device votes as this member sees it, null without one.
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
          description: Whether this collection created or adopted it.
          type: bool
        phase:
          description: Phase of a run that is working on it; null normally.
          type: str
        seeded:
          description: Whether it was given a host key, which it presents once it responds.
          type: bool
        run:
          description: Id of that run.
          type: str
        groups:
          description: Inventory groups.
          type: list
          elements: str
        leftover:
          description: Which hypervisor has the VM by its card, where the definition here is only
            left from before it was restarted there.
          returned: where there is such a definition
          type: str
        nowhere:
          description: The cell of a VM that no hypervisor defines and its members know by its card.
          returned: for such a VM
          type: str
        anti_affinity:
          description: Groups with whose members it must not share a hypervisor.
          type: list
          elements: str
        macs:
          description: MAC addresses of its NICs.
          type: list
          elements: str
        active:
          description: Whether it is active.
          type: bool
        addresses:
          description: Static addresses that it was seeded with.
          type: list
          elements: str
        segments:
          description: Where its NICs are, each a bridge with its VLAN tag or a network.
          type: list
          elements: str
        disks:
          description: Names of its own disks in its definition.
          type: list
          elements: str
        targets:
          description: Targets of the other disks in its definition.
          type: list
          elements: str
    cell_vms:
      description: Names of the VMs of its cell that run nowhere, from their cards.
      returned: with O(placement=true)
      type: list
      elements: str
    at:
      description: When it was read, by its own clock, in milliseconds since 1970.
      returned: with O(placement=true)
      type: int
    notes:
      description: Names of the volumes in which it notes what others had, and what runs claim.
      returned: with O(placement=true)
      type: list
      elements: str
    machines:
      description: Machine types of the host's architecture.
      returned: with O(placement=true)
      type: list
      elements: str
    firmwares:
      description:
        - Kinds of firmware that libvirt finds, V(bios) and V(efi), for the default machine type of
          VMs; null if libvirt does not report them.
      returned: with O(placement=true)
      type: list
      elements: str
    tpms:
      description:
        - Models of TPM 2.0 that can be emulated, for the default machine type of VMs; null if
          libvirt does not report them.
      returned: with O(placement=true)
      type: list
      elements: str
    tagging_bridges:
      description:
        - Linux bridges on which libvirt can set VLAN tags of NICs, which are those with VLAN
          filtering since libvirt 11.0.
      returned: with O(placement=true)
      type: list
      elements: str
    tagging_networks:
      description:
        - Networks on which libvirt can set VLAN tags of NICs, for example on Open vSwitch.
      returned: with O(placement=true)
      type: list
      elements: str
    offers:
      description:
        - Features that VMs may need and that not every hypervisor has. What cannot be determined,
          such as for a hypervisor read from another machine, is null.
      returned: with O(placement=true)
      type: dict
      contains:
        volumes:
          description: Names of the volumes of each active pool, by its name.
          type: dict
        absent_files:
          description: Images that placement asked for by their path and that it does not have.
          type: list
          elements: str
        files:
          description: Paths of the emulators and of the firmware that libvirt finds.
          type: list
          elements: str
        devices:
          description: All paths of block devices.
          type: list
          elements: str
        interfaces:
          description: Network interfaces.
          type: list
          elements: str
        openvswitch:
          description: Open vSwitch bridges.
          type: list
          elements: str
        portgroups:
          description: Names of the port groups of each libvirt network that has some, by its name.
          type: dict
        nwfilters:
          description: Names of libvirt's network filters.
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
          description: Whether virtiofsd is installed.
          type: bool
        vsock:
          description: Whether the kernel offers vsock devices to VMs (C(/dev/vhost-vsock)).
          type: bool
        secure_boot:
          description: Whether libvirt finds firmware that supports secure boot.
          type: bool
        secrets:
          description: libvirt's secrets, by their UUIDs and, for volumes, their usages. Their
            values are not read.
          type: list
          elements: str
        cell:
          description: Cell that can run VMs there; null where it is in none, or that is unknown.
          type: str
        cpu:
          description: CPU of a VM with mode V(host-model); null where libvirt does not name its
            features.
          type: dict
          contains:
            vendor:
              description: Vendor, for example V(AMD).
              type: str
            features:
              description: All features that it has.
              type: list
              elements: str
    images:
      description: Volumes of the pool of base images.
      returned: with O(placement=true)
      type: list
      elements: str
    addresses:
      description: Addresses of the hypervisor itself; null if it is read from elsewhere.
      returned: with O(placement=true)
      type: list
      elements: str
    errors:
      description: Domains that could not be read, and why.
      type: list
      elements: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_placement_facts as placement_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_host import read_host


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
