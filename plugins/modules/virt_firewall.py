#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_firewall
short_description: Let the hypervisors of the fleet through the firewall of each
version_added: 0.1.0
description:
  - Opens the ports of libvirt's TLS and of migration to the other hypervisors and the controller,
    in the firewall that is active. That is firewalld, ufw or a ruleset of nftables, in this order.
    Where none is active nothing is made up, and RV(note) says so.
  - The rules are there at once and after a reboot. A changed list of peers changes only rules of
    this module; those of others are neither changed nor loaded anew.
  - With nftables, each input chain that drops gets one rule at its head, a jump into the chain
    C(fleet_virt) of the same table, because a table of its own could not undo a drop. For the next
    boot the same is written to C(/etc/fleet-virt/firewall.nft), which a last line of the
    distribution's ruleset (C(/etc/nftables.conf), on Red Hat C(/etc/sysconfig/nftables.conf))
    includes. A chain that is not loaded from there, and the chain C(INPUT) of iptables, are an
    error that says what to do.
  - With firewalld they are rich rules of the priority -16514, in the default zone and the zones of
    interfaces and sources; with ufw, rules with the comment C(fleet.virt) before all others.
  - Needs root, and neither libvirt nor lxml.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  uri:
    description:
      - Not used; libvirt need not be there yet.
  timeout:
    description:
      - Not used.
  networks:
    description:
      - Who is let in, as addresses, networks (C(192.0.2.0/24)) or host names, which the hypervisor
        resolves. An empty list closes what this module opened.
      - By default all hosts of O(group), each by its C(virt_migration_address) and its
        C(ansible_host) or name, and the address that this SSH connection comes from.
    type: list
    elements: str
  group:
    description:
      - Group of the inventory whose hosts are the default of O(networks).
    type: str
    default: hypervisors
  controller:
    description:
      - Let in the address that this SSH connection comes from. By default so without O(networks).
    type: bool
  ports:
    description:
      - TCP ports and ranges of them. The first is libvirt's TLS, the second that of migration
        (C(migration_port_min) and C(migration_port_max) in C(qemu.conf)).
    type: list
    elements: str
    default: ['16514', 49152-49215]
"""

EXAMPLES = r"""
- name: Let the hypervisors and this controller in
  fleet.virt.virt_firewall:

- name: Let in two networks
  fleet.virt.virt_firewall:
    networks:
      - 198.51.100.0/24
      - 2001:db8:1::/64
"""

RETURN = r"""
backend:
  description: The firewall that is active, V(firewalld), V(ufw), V(nftables) or V(none).
  returned: success
  type: str
peers:
  description: Addresses and networks that are let in.
  returned: success
  type: list
  elements: str
rules:
  description: The rules of this module, in the words of the firewall.
  returned: success
  type: list
  elements: str
note:
  description: Why there is nothing to open; null where there is.
  returned: success
  type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.hypervisor.firewall import (
    Result,
    open_ports,
)


def main() -> None:
    module = create_module(
        {
            "networks": {"type": "list", "elements": "str"},
            "group": {"type": "str", "default": "hypervisors"},
            "controller": {"type": "bool"},
            "ports": {"type": "list", "elements": "str", "default": ["16514", "49152-49215"]},
        }
    )
    params = module.params

    def work() -> Result:
        return open_ports(
            params["networks"] or [],
            params["ports"],
            controller=bool(params["controller"]),
            check=module.check_mode,
        )

    run(module, work, needs_libvirt=False)


if __name__ == "__main__":
    main()
