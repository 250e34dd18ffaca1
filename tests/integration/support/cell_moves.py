# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves of a VM of a cell that are hit on their way, and what is there of the VM then."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import cib
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.facts import CellVm
from ansible_collections.fleet.virt.tests.integration.keys.conftest import LISTEN, Keys
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .ansible import Ansible
from .guests import Guests
from .killing import kill_tree
from .process import Process
from .waiting import wait_for

_BANDWIDTH = 4  # MiB/s: so a move takes longer than hitting it does
# Seconds after which libvirt gives up an end that is silent, and how often it asks; 30 by default
_GIVES_UP = "printf 'keepalive_interval = 1\\nkeepalive_count = 3\\n' >>/etc/libvirt/qemu.conf"
_ON_ITS_WAY = (
    "[ $(systemctl show --value -p SubState fleet-virt-migrate-{uuid}) = running ]"
    " && virsh -q domjobinfo {name} | grep -q 'Data processed: *[1-9]' && echo yes"
)
# libvirt and QEMU speak TCP; Corosync speaks UDP
_BROKEN = """
nft add table inet broken
for way in 'input saddr' 'output daddr'; do
  nft add chain inet broken ${{way% *}} "{{ type filter hook ${{way% *}} priority 0; }}"
  nft add rule inet broken ${{way% *}} ip ${{way#* }} {address} meta l4proto tcp drop
done
"""


class CellMoves:
    """Moves of the VM ``name`` by the playbook, from ``here``, where it is now, to ``there`` and
    back."""

    def __init__(
        self, lab: Laboratory, ansible: Ansible, folder: Path, name: str, ends: tuple[str, str]
    ) -> None:
        self.lab, self.ansible, self.name = lab, ansible, name
        self.here, self.there = ends
        self.guests = Guests(lab)
        Keys(lab, ansible, folder).run().succeeded()
        for host in ends:
            lab.ssh(host, _GIVES_UP)
            lab.ssh(host, LISTEN)
        self.uuid = self.guests.virsh(self.here, "domuuid", name).strip()
        self.guests.wait_agent(self.here, name)

    def boot(self, host: str) -> str:
        """What the guest has drawn when it booted."""
        show = "cat /proc/sys/kernel/random/boot_id"
        return self.guests.output(host, self.name, show)[0]

    def seen(self, host: str) -> CellVm:
        """What Pacemaker says of it there."""
        commands = ("crm_mon --one-shot --output-as=xml", "cibadmin --query --scope resources")
        seen, resources = (
            _lxml.parse(self.lab.ssh(host, command).stdout, command) for command in commands
        )
        return cib.vms(seen, resources)[self.uuid]

    def begin(self, source: str, to: str) -> Process:
        """The playbook ``migrate_vm``; memory is on its way."""
        given = {"vm_name": self.name, "vm_host": to, "virt_bandwidth": _BANDWIDTH}
        words = ("fleet.virt.migrate_vm", "-e", json.dumps(given))
        first = self.ansible.begin("ansible-playbook", *words, heard=True)
        script = _ON_ITS_WAY.format(uuid=self.uuid, name=self.name)

        def begun() -> bool:
            return "yes" in self.lab.ssh(source, script, check=False).stdout

        try:
            wait_for(lambda: begun() or first.poll() is not None, 60, "memory is on its way")
            assert first.poll() is None, first.communicate(timeout=10)[0]
        except BaseException:
            kill_tree(first.pid)
            raise
        return first

    @contextlib.contextmanager
    def broken(self) -> Iterator[None]:
        """Nothing of what libvirt says to the other end arrives; their cell still sees both."""
        address = self.lab.host(self.there).address
        try:
            self.lab.ssh(self.here, _BROKEN.format(address=address))
            yield
        finally:
            self.lab.ssh(self.here, "nft delete table inet broken")
