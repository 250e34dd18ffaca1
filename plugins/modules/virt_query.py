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
        V(shutoff), V(crashed), V(pmsuspended) or V(nostate).
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
      description: Firmware with its V(type) (V(bios) or V(efi)), V(loader) and V(nvram).
      type: dict
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
          description: Path, volume or network name; null for a drive without medium.
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
          description: Virtual size.
          type: int
        allocation_mib:
          description: What it occupies.
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
      description: All graphics, with V(type), V(listen), V(port), V(tls_port) and V(socket).
      type: list
      elements: dict
    consoles:
      description: Serial lines and consoles, with V(type), V(path), V(target) and V(log).
      type: list
      elements: dict
    hostdevs:
      description: Devices of the host given to the guest.
      type: list
      elements: dict
    snapshots:
      description: Snapshots, oldest first, with V(name), V(created) (seconds since 1970), V(state)
        and V(current).
      type: list
      elements: dict
    metadata:
      description: What this collection keeps with the domain; V(managed) tells whether it made it.
      type: dict
    stats:
      description: Counters since the domain started, by CPU, memory, NIC and disk; null unless
        O(stats=true).
      type: dict
    error:
      description: What could not be read of this domain, else null.
      type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._host.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._host.domains import Wanted, read_domains


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
