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
    hangs or vanishes meanwhile carries its own error and hides nothing else.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._attributes.reading
options:
  names:
    description:
      - Names of the domains to read; all of them when left out.
      - A name that is not defined on the hypervisor is an error, unless O(ignore_missing) is set.
    type: list
    elements: str
  ignore_missing:
    description:
      - Leave out names that are not defined on this hypervisor, for asking a fleet where one is.
    type: bool
    default: false
  addresses:
    description:
      - Ask running guests for their addresses, from the guest agent where one is connected, else
        from the leases of libvirt's networks.
    type: bool
    default: false
  stats:
    description:
      - Return counters of CPU, memory, NICs and disks.
    type: bool
    default: false
seealso:
  - module: fleet.virt.virt_host_info
    description: The hypervisor itself.
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

- name: Read libvirt's test driver, with nothing installed but the binding
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
      description: What runs it, for example V(kvm) or V(qemu).
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
          description: V(bios) or V(efi); null where the definition does not tell.
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
      description: Virtual CPUs it has now.
      type: int
    vcpus_max:
      description: Virtual CPUs it can have.
      type: int
    memory_mib:
      description: Memory it has now.
      type: int
    memory_max_mib:
      description: Memory it can have.
      type: int
    autostart:
      description: Whether it starts with its hypervisor.
      type: bool
    persistent:
      description: Whether its definition outlives it.
      type: bool
    managed_save:
      description: Whether its memory was saved; the next start goes on from there.
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
          description: Name the guest's bus gives it.
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
          description: Format libvirt gives to QEMU.
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
          description: Virtual size; null where it cannot be had, RV(domains[].error) tells why.
          type: int
        allocation_mib:
          description: What it occupies on the hypervisor.
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
          description: Port; null while the domain is off and the port is chosen when it starts.
          type: int
          sample: 5900
        tls_port:
          description: Port for TLS, of SPICE.
          type: int
        socket:
          description: Path of the socket it listens on instead.
          type: str
    consoles:
      description: Serial lines, then consoles, in the order of the definition.
      type: list
      elements: dict
      contains:
        type:
          description: What it is connected with on the hypervisor.
          type: str
          sample: pty
        path:
          description: Path there, or host and port.
          type: str
          sample: /dev/pts/3
        target:
          description: What it is in the guest.
          type: str
          sample: isa-serial
        log:
          description: File on the hypervisor that gets a copy of the output.
          type: str
    hostdevs:
      description: Devices of the hypervisor given to the guest.
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
          description: When it was made, in seconds since 1970.
          type: int
        state:
          description: State the domain was in.
          type: str
        current:
          description: Whether the domain goes on from this one.
          type: bool
    metadata:
      description: What this collection keeps with the domain, in the domain's own definition.
      type: dict
      contains:
        managed:
          description: Whether there is any; else the rest is empty.
          type: bool
        phase:
          description: What is being done with the domain, V(creating), V(migrating), V(seeding) or
            V(purging); null in ordinary life.
          type: str
        owner:
          description: The process on the hypervisor that does it; null in ordinary life.
          type: dict
          contains:
            boot_id:
              description: The boot of the hypervisor it belongs to.
              type: str
            pid:
              description: Process number.
              type: int
            start_time:
              description: When it started, in clock ticks since the boot.
              type: int
            run:
              description: The run it belongs to.
              type: str
        home:
          description: Hypervisor the domain belongs on, by its name in the inventory.
          type: str
        image:
          description: Image the domain was made from; null if there was none.
          type: dict
          contains:
            name:
              description: What the administrator called it.
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
        anti_affinity:
          description: Groups whose members it is kept apart from.
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
          description: Volumes that were made for this domain and go with it.
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
              description: Disk it is for.
              type: str
            role:
              description: V(disk) or V(seed).
              type: str
        start_order:
          description: Its place in the order of start; null if it has none.
          type: int
        start_delay:
          description: Seconds to wait after its start before those after it are started.
          type: int
        addresses:
          description: Addresses the guest was given.
          type: list
          elements: str
        evacuated_from:
          description: Hypervisors that C(fleet.virt.evacuate) took it from, the last one at the
            end, to which C(fleet.virt.return_vms) brings it back; empty in ordinary life.
          type: list
          elements: str
        first_boot:
          description:
            - V(pending) or V(written) while the end of the guest's first boot, with its packages
              and commands, is not known, V(unknown) where nobody can tell, what failed after
              V(failed:), null otherwise.
          type: str
        move:
          description: Where a domain in phase V(migrating) goes; null in ordinary life.
          type: dict
          contains:
            source:
              description: Hypervisor it came from.
              type: str
            destination:
              description: Hypervisor it goes to.
              type: str
            run:
              description: The run that moves it.
              type: str
            autostart:
              description: Whether it is to start with its hypervisor afterwards, V(yes) or V(no).
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
    error:
      description: What could not be read of this domain and why, else null.
      type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.machine.domains import (
    Wanted,
    read_domains,
)


def main() -> None:
    module = create_module(
        {
            "names": {"type": "list", "elements": "str"},
            "ignore_missing": {"type": "bool", "default": False},
            "addresses": {"type": "bool", "default": False},
            "stats": {"type": "bool", "default": False},
        }
    )
    params = module.params
    wanted = Wanted(
        names=None if params["names"] is None else tuple(params["names"]),
        ignore_missing=params["ignore_missing"],
        addresses=params["addresses"],
        stats=params["stats"],
    )

    def read() -> dict[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            return {"changed": False, "domains": read_domains(connection, wanted)}

    run(module, read)


if __name__ == "__main__":
    main()
