#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_bridge
short_description: Make bridges for virtual machines, also over the interface that carries SSH
version_added: 0.1.0
description:
  - Makes bridges with an interface of the machine as uplink. A bridge takes over the uplink's MAC
    address, its addresses (also those from DHCP, with the same identity), routes and name servers,
    so that the machine is reached as before.
  - Works with what manages the uplink, which is NetworkManager, systemd-networkd, netplan or
    ifupdown, and changes its files.
  - Before anything is changed, the way back is armed. A timer on the machine puts the former files
    back, byte for byte, and brings them up, unless the controller has reached the machine over a
    new connection and found all as it has to be. A power cut meanwhile has the same effect at the
    next boot. It also goes back at once when the new configuration cannot be brought up.
  - A run that was interrupted after the switch is finished by the next one, or goes back by itself.
  - A bridge that is there with its uplink is left alone, whoever made it.
  - The files of before stay in C(/var/lib/fleet-virt/bridge/saved) until the next switch.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Shows the files before and after, without passwords.
  idempotent:
    support: full
options:
  bridges:
    description:
      - The bridges. All are made in one switch.
    type: list
    elements: dict
    default: [{"name": "br0"}]
    suboptions:
      name:
        description:
          - Name of the bridge, at most 15 characters.
        type: str
        required: true
      uplink:
        description:
          - Name of the interface that connects the bridge to the outside, which may be a network
            card, a bond or a VLAN interface that is there.
          - V(auto) is the interface of the default route, V(none) makes a bridge without any.
          - Refused are a wireless interface, a port of another bridge or bond, and an interface
            with an address that its configuration does not know of.
        type: str
        default: auto
      stp:
        description:
          - Take part in the spanning tree protocol. A port then forwards nothing for 30 seconds,
            so O(rollback_seconds) has to be longer.
        type: bool
        default: false
      dhcp:
        description:
          - Ask a DHCP server, in place of taking over the uplink's addresses.
        type: bool
        default: false
      addresses:
        description:
          - Addresses with their prefix lengths, in place of the uplink's.
          - The switch is confirmed only if the controller reaches the machine at the address in
            the inventory, so that has to be among them.
        type: list
        elements: str
        default: []
      gateways:
        description:
          - Default gateways for O(bridges[].addresses), one for each family.
        type: list
        elements: str
        default: []
      nameservers:
        description:
          - Name servers, with O(bridges[].addresses) or O(bridges[].dhcp).
        type: list
        elements: str
        default: []
  rollback_seconds:
    description:
      - Seconds after which the former configuration comes back, unless the controller has reached
        the machine; 5 to 3600. With DHCP, or a switch that learns slowly, not less than 30.
    type: int
    default: 60
  uri:
    description:
      - Accepted so that it can be a default of the action group; it makes no difference here.
    type: str
    default: qemu:///system
  timeout:
    description:
      - Accepted so that it can be a default of the action group; it makes no difference here.
    type: float
    default: 10.0
"""

EXAMPLES = r"""
- name: Bridge br0 over the interface of the default route
  fleet.virt.virt_bridge:

- name: A second bridge that connects virtual machines of this hypervisor only
  fleet.virt.virt_bridge:
    bridges:
      - name: br0
      - name: br1
        uplink: none
"""

RETURN = r"""
bridges:
  description: The bridges, in the order of O(bridges).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the bridge.
      type: str
    uplink:
      description: Its uplink, or null.
      type: str
    changed:
      description: Whether it was made.
      type: bool
    backend:
      description: What manages it, V(ifupdown), V(networkd), V(networkmanager) or V(netplan); null
        for a bridge that was there.
      type: str
    mac:
      description: Its MAC address; empty for a new one without uplink.
      type: str
    addresses:
      description: Its addresses, with their prefix lengths.
      type: list
      elements: str
earlier:
  description: What became of an earlier switch that did not last, null if there was none or nothing
    is to be done now.
  returned: success
  type: dict
  contains:
    outcome:
      description: V(rolled back), or V(under way) in check mode.
      type: str
    armed:
      description: When it began.
      type: str
    reason:
      description: Why it did not last.
      type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module
from ansible_collections.fleet.virt.plugins.module_utils._effects.bridge import bridge
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._pure.bridge.options import (
    ARGUMENTS,
    INTERNAL,
    parse,
)


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    params = module.options
    try:
        wanted = parse(params["bridges"], params["rollback_seconds"])
        result = (
            bridge.confirm(params["_switch"])
            if params["_stage"] == "confirm"
            else bridge.begin(wanted, params["rollback_seconds"], check=module.check_mode)
        )
    except FleetVirtError as error:
        module.fail_json(msg=str(error), error=type(error).__name__)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
