#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_query
short_description: Read the domains of a hypervisor
version_added: 0.1.0
description:
  - Reads, live from libvirt, the domains of a hypervisor with their state, disks, NICs, consoles,
    snapshots and metadata.
  - Reading never refreshes a pool, starts a process or changes anything. A domain that is broken,
    hangs or disappears meanwhile has its own error and does not affect the rest.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._attributes.reading
options:
  names:
    description:
      - Names of the domains to read, or patterns such as V(test*); defaults to all of them.
      - A name that is not defined on the hypervisor is an error, unless O(ignore_missing) is set;
        so is a pattern that matches none.
    type: list
    elements: str
  ignore_missing:
    description:
      - Skip names that are not defined on this hypervisor, for searching a fleet.
    type: bool
    default: false
  addresses:
    description:
      - Return the addresses of running guests, from the guest agent if one is connected, else from
        the DHCP leases of libvirt's networks.
    type: bool
    default: false
  stats:
    description:
      - Return counters of CPU, memory, NICs and disks.
    type: bool
    default: false
seealso:
  - module: fleet.virt.virt_host_info
    description: Reads the hypervisor itself.
"""

EXAMPLES = r"""
- name: Read all domains of the hypervisor
  fleet.virt.virt_query:
  register: fleet

- name: Read one domain with its addresses and counters
  fleet.virt.virt_query:
    names: [web1]
    addresses: true
    stats: true

- name: Read libvirt's test driver, with only the Python binding installed
  fleet.virt.virt_query:
    uri: test:///default
"""

RETURN = r"""
domains:
  description: The domains, sorted by name. Every entry has every key; what is unknown is null.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the domain.
      type: str
    uuid:
      description: UUID of the domain.
      type: str
    state:
      description: State in libvirt's own terms, V(running), V(blocked), V(paused), V(shutdown),
        V(shutoff), V(crashed), V(pmsuspended) or V(nostate); null if it could not be read.
      type: str
    reason:
      description: libvirt's reason for the state.
      type: str
      sample: booted
    domain_type:
      description: Domain type, for example V(kvm) or V(qemu).
      type: str
    arch:
      description: Architecture of the guest.
      type: str
    machine:
      description: Machine type of the guest.
      type: str
    firmware:
      description: Firmware of the domain.
      type: dict
      contains:
        type:
          description: V(bios) or V(efi); null if the definition does not specify it.
          type: str
        loader:
          description: Path of the firmware's image.
          type: str
        nvram:
          description: Path of the variable store.
          type: str
    cpu_mode:
      description: CPU mode, for example V(host-model).
      type: str
    cpu_model:
      description: CPU model, where one is named.
      type: str
    vcpus:
      description: Current number of virtual CPUs.
      type: int
    vcpus_max:
      description: Maximum number of virtual CPUs.
      type: int
    memory_mib:
      description: Current memory.
      type: int
    memory_max_mib:
      description: Maximum memory.
      type: int
    hugepages:
      description: How much of the maximum memory is in huge pages, by their size.
      returned: if some is
      type: list
      elements: dict
      contains:
        size_kib:
          description: Size of a page, in KiB; 0 for the default of the hypervisor.
          type: int
        memory_mib:
          description: Memory in such pages, in MiB.
          type: int
    autostart:
      description: Whether it starts with its hypervisor.
      type: bool
    persistent:
      description: Whether its definition is persistent.
      type: bool
    managed_save:
      description: Whether its memory was saved; the next start resumes from there.
      type: bool
    title:
      description: Title of the domain.
      type: str
    description:
      description: Description of the domain.
      type: str
    agent:
      description: Whether a guest agent is connected.
      type: bool
    disks:
      description: Disks, in the order of the definition.
      type: list
      elements: dict
      contains:
        target:
          description: Target name of the disk.
          type: str
          sample: vda
        bus:
          description: Bus of the disk.
          type: str
          sample: virtio
        device:
          description: Kind of device, V(disk), V(cdrom), V(floppy) or V(lun).
          type: str
        type:
          description: Kind of source, V(file), V(block), V(volume), V(network) and others.
          type: str
        source:
          description: Path, pool and volume, or, on a network, protocol, servers and name; null for
            a drive without medium.
          type: str
        pool:
          description: Pool that holds it, if one lists it.
          type: str
        volume:
          description: Volume of that pool.
          type: str
        format:
          description: Format that libvirt passes to QEMU.
          type: str
          sample: qcow2
        backing:
          description: First backing file.
          type: str
        backing_known:
          description: Whether the definition states the backing chain.
          type: bool
        readonly:
          description: Whether the guest may not write.
          type: bool
        shareable:
          description: Whether several guests may use it at once.
          type: bool
        size_mib:
          description: Virtual size; null if it cannot be determined, see RV(domains[].error) for
            the reason.
          type: int
        allocation_mib:
          description: Space that it occupies on the hypervisor.
          type: int
    nics:
      description: NICs, in the order of the definition.
      type: list
      elements: dict
      contains:
        mac:
          description: MAC address.
          type: str
        type:
          description: Kind of connection, V(bridge), V(network) and others.
          type: str
        source:
          description: Name of the bridge, network or device.
          type: str
        model:
          description: Model of the NIC.
          type: str
        link:
          description: State of the link, V(up) or V(down).
          type: str
        target:
          description: Name of the interface on the host.
          type: str
        vlan:
          description: VLAN tags.
          type: list
          elements: int
        addresses:
          description: Addresses of the guest, with O(addresses=true).
          type: list
          elements: str
    graphics:
      description: All graphics, in the order of the definition.
      type: list
      elements: dict
      contains:
        type:
          description: Kind of graphics.
          type: str
          sample: vnc
        listen:
          description: Address it listens on.
          type: str
          sample: 127.0.0.1
        port:
          description: Port; null while the domain is off if the port is assigned at its start.
          type: int
          sample: 5900
        tls_port:
          description: TLS port of SPICE.
          type: int
        socket:
          description: Path of the socket that it listens on instead.
          type: str
    consoles:
      description: Serial lines, then consoles, in the order of the definition.
      type: list
      elements: dict
      contains:
        type:
          description: Type of its host end.
          type: str
          sample: pty
        path:
          description: Path of its host end, or host and port.
          type: str
          sample: /dev/pts/3
        target:
          description: Device type in the guest.
          type: str
          sample: isa-serial
        log:
          description: File on the hypervisor that receives a copy of the output.
          type: str
    hostdevs:
      description: Host devices passed through to the guest.
      type: list
      elements: dict
      contains:
        type:
          description: Kind of device.
          type: str
          sample: pci
        source:
          description: PCI address, vendor and product, or path of the device.
          type: str
          sample: '0000:01:00.0'
    snapshots:
      description: Snapshots, oldest first.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the snapshot.
          type: str
        created:
          description: When it was created, in seconds since 1970.
          type: int
        state:
          description: State the domain was in.
          type: str
        current:
          description: Whether this is the domain's current snapshot.
          type: bool
    metadata:
      description: Metadata that this collection stores in the domain's own definition.
      type: dict
      contains:
        managed:
          description: Whether there is any; if not, the rest is empty.
          type: bool
        phase:
          description: Phase of a run that is working on the domain, V(creating), V(migrating),
            V(seeding) or V(purging); null normally.
          type: str
        owner:
          description: The process on the hypervisor that does so; null normally.
          type: dict
          contains:
            boot_id:
              description: Id of the hypervisor's boot that it belongs to.
              type: str
            pid:
              description: Process number.
              type: int
            start_time:
              description: When it started, in clock ticks since the boot.
              type: int
            run:
              description: The run that it belongs to.
              type: str
        home:
          description: Home hypervisor of the domain, by its inventory name.
          type: str
        image:
          description: Image the domain was created from; null if there was none.
          type: dict
          contains:
            name:
              description: Name that the administrator gave it.
              type: str
            digest:
              description: Digest of its content.
              type: str
            format:
              description: Format of its content.
              type: str
        groups:
          description: Inventory groups.
          type: list
          elements: str
        affinity:
          description: Groups of which a VM must share its hypervisor.
          type: list
          elements: str
        anti_affinity:
          description: Groups with whose members it must not share a hypervisor.
          type: list
          elements: str
        tags:
          description: Tags a hypervisor must have.
          type: list
          elements: str
        zone:
          description: Zone a hypervisor must be in.
          type: str
        user:
          description: User to log in as.
          type: str
        host_key:
          description: Public SSH host key of the guest.
          type: str
        volumes:
          description: Volumes that were created for this domain and are removed with it.
          type: list
          elements: dict
          contains:
            pool:
              description: Pool of the volume.
              type: str
            name:
              description: Name of the volume.
              type: str
            path:
              description: Path of the volume.
              type: str
            target:
              description: Target of its disk.
              type: str
            role:
              description: V(disk) or V(seed).
              type: str
        start_order:
          description: Its position in the start order; null if it has none.
          type: int
        start_delay:
          description: Seconds to wait after its start before the next ones are started.
          type: int
        ha:
          description: Whether it is, or is to be, one of the VMs of its hypervisor's cell.
          type: bool
        problem:
          description:
            - Why the metadata cannot be used, and what to do; null normally. Nothing changes such a
              domain. Its name, UUID, MAC addresses, memory and disks count like those of others.
          type: str
        addresses:
          description: Static addresses that the guest was given.
          type: list
          elements: str
        evacuated_from:
          description: Hypervisors that C(fleet.virt.evacuate) moved it away from, the latest last,
            to which C(fleet.virt.return_vms) moves it back; empty normally.
          type: list
          elements: str
        first_boot:
          description:
            - V(pending) or V(written) while it is not known whether the guest's first boot, with
              its packages and commands, has ended, V(unknown) if that cannot be determined,
              V(failed:) followed by what failed, null otherwise.
          type: str
        move:
          description: Where a domain in phase V(migrating) is moved to; null normally.
          type: dict
          contains:
            source:
              description: Source hypervisor.
              type: str
            destination:
              description: Destination hypervisor.
              type: str
            run:
              description: The run that moves it.
              type: str
            autostart:
              description: Whether it starts with its hypervisor afterwards, V(yes) or V(no).
              type: str
            state:
              description: What it is to be afterwards, V(running) or V(shutoff).
              type: str
    stats:
      description: Counters since the domain started; null unless O(stats=true), and null each
        where nothing counts it.
      type: dict
      contains:
        cpu:
          description: Time spent, in nanoseconds.
          type: dict
          contains:
            time_ns:
              description: In all.
              type: int
            user_ns:
              description: In user space.
              type: int
            system_ns:
              description: In the kernel.
              type: int
        memory:
          description: Memory in MiB.
          type: dict
          contains:
            actual_mib:
              description: What the balloon leaves to the guest.
              type: int
            unused_mib:
              description: Unused, as the guest reports it.
              type: int
            available_mib:
              description: What the guest sees in all.
              type: int
            usable_mib:
              description: What the guest could use without swapping.
              type: int
            rss_mib:
              description: What the process occupies on the hypervisor.
              type: int
        nics:
          description: One entry for each NIC that has an interface on the hypervisor.
          type: list
          elements: dict
          contains:
            target:
              description: Name of the interface on the hypervisor.
              type: str
            receive_bytes:
              description: Bytes received.
              type: int
            receive_packets:
              description: Packets received.
              type: int
            receive_errors:
              description: Errors while receiving.
              type: int
            receive_dropped:
              description: Packets dropped while receiving.
              type: int
            transmit_bytes:
              description: Bytes sent.
              type: int
            transmit_packets:
              description: Packets sent.
              type: int
            transmit_errors:
              description: Errors while sending.
              type: int
            transmit_dropped:
              description: Packets dropped while sending.
              type: int
        disks:
          description: One entry for each disk.
          type: list
          elements: dict
          contains:
            target:
              description: Name of the disk, as in RV(domains[].disks[].target).
              type: str
            read_bytes:
              description: Bytes read.
              type: int
            read_requests:
              description: Requests to read.
              type: int
            write_bytes:
              description: Bytes written.
              type: int
            write_requests:
              description: Requests to write.
              type: int
            flush_requests:
              description: Requests to flush.
              type: int
            errors:
              description: Errors, where the driver counts them.
              type: int
    cell:
      description: What its cell says of it; null for a VM of no cell, and where that is unknown.
      type: dict
      contains:
        name:
          description: Name of the cell.
          type: str
          sample: rack1
        managed:
          description: Whether the cell may start and stop it. If not, a run holds it, or was killed
            while it did.
          type: bool
        held_by:
          description: The hypervisor of that run; null if none holds it.
          type: str
        failed:
          description: Whether it should run and does not, or did not stop.
          type: bool
        reason:
          description: What the cell's agent said of that; else null.
          type: str
        defined:
          description: Whether a hypervisor has its definition. If not it is off, and known from its
            card on shared storage, which each member of the cell returns.
          type: bool
    error:
      description: What could not be read of this domain and why, or that it is only a leftover of a
        VM that was restarted elsewhere; else null.
      type: str
cell:
  description: The cell that the hypervisor is a member of, as Pacemaker says there; null if it is
    in none, or was read from elsewhere.
  returned: success
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
"""

from collections.abc import Mapping

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_cell, read_noted
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes.silent import NotedWork


def main() -> None:
    module = create_module(
        {
            "names": {"type": "list", "elements": "str"},
            "ignore_missing": {"type": "bool", "default": False},
            "addresses": {"type": "bool", "default": False},
            "stats": {"type": "bool", "default": False},
        },
        envelope.SPEC,
    )
    params = module.params
    wanted = DomainQuery(
        names=None if params["names"] is None else tuple(params["names"]),
        ignore_missing=params["ignore_missing"],
        addresses=params["addresses"],
        stats=params["stats"],
    )

    def read() -> Mapping[str, object]:
        work = envelope.read(NotedWork, module.options)
        with connect(params["uri"], params["timeout"]) as connection:
            if work.stage == "noted":
                return read_noted.of_silent(connection, work.silent)
            return read_cell.domains(connection, wanted)

    run(module, read)


if __name__ == "__main__":
    main()
