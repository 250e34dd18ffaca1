#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_firewall
short_description: Open a hypervisor's firewall to the other hypervisors of the fleet
version_added: 0.1.0
description:
  - Opens the ports for libvirt's TLS and for migration to the other hypervisors and the controller,
    in the active firewall, which is firewalld, ufw or an nftables ruleset, in this order. Where
    none is active, nothing is changed, and RV(note) says so.
  - The rules are active at once and after a reboot. A changed list of peers changes only rules of
    this module; other rules are neither changed nor reloaded.
  - With nftables, each input chain that drops packets gets one rule at its top, a jump to the chain
    C(fleet_virt) of the same table, because a separate table could not override a drop. For the
    next boot the same rules are written to C(/etc/fleet-virt/firewall.nft), which the last line of
    the distribution's ruleset (C(/etc/nftables.conf), on Red Hat C(/etc/sysconfig/nftables.conf))
    includes. A chain that is not loaded from there, and the chain C(INPUT) of iptables, cause an
    error that explains what to do.
  - With firewalld the rules are rich rules with priority -16514, in the default zone and in the
    zones of interfaces and sources; with ufw they have the comment C(fleet.virt) and precede all
    others.
  - Needs root, but neither libvirt nor lxml.
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
      - Not used; libvirt need not be installed yet.
  timeout:
    description:
      - Not used.
  networks:
    description:
      - Peers that are allowed in, as addresses, networks (C(192.0.2.0/24)) or host names, which the
        hypervisor resolves. An empty list closes what this module opened.
      - Defaults to all hosts of O(group), each by its C(virt_migration_address) and its
        C(ansible_host) or name, and the address that this SSH connection comes from.
    type: list
    elements: str
  group:
    description:
      - Inventory group whose hosts are the default of O(networks).
    type: str
    default: hypervisors
  controller:
    description:
      - Also allow the address that this SSH connection comes from. Defaults to true without
        O(networks).
    type: bool
  ports:
    description:
      - TCP ports and port ranges. The first is for libvirt's TLS, the second for migration
        (C(migration_port_min) and C(migration_port_max) in C(qemu.conf)).
    type: list
    elements: str
    default: ['16514', 49152-49215]
"""

EXAMPLES = r"""
- name: Open the firewall to the hypervisors and this controller
  fleet.virt.virt_firewall:

- name: Open the firewall to two networks
  fleet.virt.virt_firewall:
    networks:
      - 198.51.100.0/24
      - 2001:db8:1::/64
"""

RETURN = r"""
backend:
  description: The active firewall, V(firewalld), V(ufw), V(nftables) or V(none).
  returned: success
  type: str
peers:
  description: Addresses and networks that are allowed in.
  returned: success
  type: list
  elements: str
rules:
  description: The rules of this module, in the firewall's own syntax.
  returned: success
  type: list
  elements: str
note:
  description: Why there is nothing to open; null where there is.
  returned: success
  type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.firewall.effects import (
    FirewallResult,
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

    def work() -> FirewallResult:
        return open_ports(
            params["networks"] or [],
            params["ports"],
            controller=bool(params["controller"]),
            check=module.check_mode,
        )

    run(module, work, needs_libvirt=False)


if __name__ == "__main__":
    main()
