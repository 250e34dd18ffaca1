#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_bridge
short_description: Create bridges for virtual machines, even over the interface that carries SSH
version_added: 0.1.0
description:
  - Creates bridges with an interface of the machine as uplink. A bridge takes over the uplink's MAC
    address, its addresses (also those from DHCP, with the same identity), routes and name servers,
    so that the machine is reachable as before.
  - Works with the network manager of the uplink (NetworkManager, systemd-networkd, netplan or
    ifupdown), and changes its files.
  - Before anything is changed, a rollback is armed. A timer on the machine restores the previous
    files, byte for byte, and activates them, unless the controller has reached the machine over a
    new connection and verified the result. After a power failure in the meantime, the rollback
    happens at the next boot. It happens at once if the new configuration cannot be activated.
  - A run that was interrupted after the switch is finished by the next one, or rolled back
    automatically.
  - A bridge that already exists with its uplink is left unchanged, whatever created it.
  - Files that do not outlast a reboot (below C(/run)), and files that cloud-init would write again,
    are not changed. The error names the command that makes the configuration permanent.
  - The previous files stay in C(/var/lib/fleet-virt/bridge/saved) until the next switch.
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
      - The bridges. All are created in one switch.
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
            card, a bond or an existing VLAN interface.
          - V(auto) is the interface of the default route, V(none) creates a bridge without uplink.
          - A wireless interface, a port of another bridge or bond, and an interface with an address
            that is not in its configuration are refused.
        type: str
        default: auto
      stp:
        description:
          - Enable the spanning tree protocol. A port then forwards nothing for 30 seconds, so
            O(rollback_seconds) has to be longer.
        type: bool
        default: false
      dhcp:
        description:
          - Use DHCP instead of taking over the uplink's addresses.
        type: bool
        default: false
      addresses:
        description:
          - Addresses with their prefix lengths, instead of the uplink's.
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
      - Seconds after which the previous configuration is restored, unless the controller has
        reached the machine; 5 to 3600. With DHCP, or a network switch that learns slowly, at least
        30.
    type: int
    default: 60
  uri:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
    type: str
    default: qemu:///system
  timeout:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
    type: float
    default: 10.0
"""

EXAMPLES = r"""
- name: Create bridge br0 over the interface of the default route
  fleet.virt.virt_bridge:

- name: Create a second bridge that connects virtual machines of this hypervisor only
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
      description: Whether it was created.
      type: bool
    backend:
      description: What manages it, V(ifupdown), V(networkd), V(networkmanager) or V(netplan); null
        for a bridge that existed already.
      type: str
    mac:
      description: Its MAC address; empty for a new one without uplink.
      type: str
    addresses:
      description: Its addresses, with their prefix lengths.
      type: list
      elements: str
earlier:
  description: Outcome of an earlier switch that was not kept; null if there was none or nothing is
    to be done now.
  returned: success
  type: dict
  contains:
    outcome:
      description: V(rolled back), or V(under way) in check mode.
      type: str
    armed:
      description: When it was started.
      type: str
    reason:
      description: Why it was not kept.
      type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge import effects as bridge
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge.options import (
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
