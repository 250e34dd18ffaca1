# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NAT network of libvirt on hypervisors of a laboratory."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_XML = """\
<network>
  <name>{name}</name><forward mode='nat'/><bridge name='{bridge}'/>
  <ip address='{prefix}.1' netmask='255.255.255.0'>
    <dhcp><range start='{prefix}.10' end='{prefix}.{last}'/></dhcp>
  </ip>
</network>
"""
# A laboratory's host may not write its own network settings until it is let
_START = """
set -e
mount -o remount,bind,rw /proc/sys
virsh -q net-define /dev/stdin
virsh -q net-start {name}
"""
_END = """
virsh -q net-destroy {name}; virsh -q net-undefine {name}
echo 0 > /proc/sys/net/ipv4/ip_forward
mount -o remount,bind,ro /proc/sys
"""


@dataclass(frozen=True)
class Nat:
    """The network ``name`` in ``prefix``.0/24, whose guests are given .10 to .``last``."""

    name: str
    bridge: str
    prefix: str
    last: int = 20

    def start(self, lab: Laboratory, host: str) -> None:
        """Have it on a hypervisor."""
        lab.ssh(host, _START.format(name=self.name), input=_XML.format(**vars(self)))

    def end(self, lab: Laboratory, host: str) -> None:
        """Have the hypervisor without it, whatever became of it."""
        lab.ssh(host, _END.format(name=self.name), check=False)
