# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that were bare until a playbook made hypervisors of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.fleet.virt.tests.lab.host import Host
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .ansible import Ansible, Run
from .process import Process

SETUP = "fleet.virt.setup_hypervisors"


@dataclass
class Newcomers:
    """Machines that were bare, in an inventory of their own."""

    lab: Laboratory
    ansible: Ansible
    folder: Path
    hosts: list[Host]

    def write(self) -> None:
        """The inventory: what the laboratory says of them, as group hypervisors."""
        known = yaml.safe_load((self.lab.inventory / "10-hypervisors.yml").read_text())
        members = {host.name: known["bare"]["hosts"][host.name] for host in self.hosts}
        text = yaml.safe_dump({"hypervisors": {"hosts": members}})
        (self.folder / "10-hypervisors.yml").write_text(text)

    def add(self, suite: str) -> Host:
        self.hosts.append(self.lab.add(bare=True, suite=suite))
        self.write()
        return self.hosts[-1]

    @property
    def variables(self) -> dict[str, str]:
        """What every run is given: the keys are not where a user's own are."""
        return {"libvirt_keys_dir": str(self.folder.parent / "keys")}

    def run(self, *args: str, check: bool = False, **variables: Any) -> Run:
        return self.ansible.playbook(
            SETUP,
            {**self.variables, **variables},
            args,
            check=check,
            diff=True,
            inventory=self.folder,
            limit=900,
        )

    def start(self) -> Process:
        """The playbook as a process, to be killed."""
        words = [
            word for name, value in self.variables.items() for word in ("-e", f"{name}={value}")
        ]
        return self.ansible.begin("ansible-playbook", SETUP, *words, inventory=self.folder)

    def take_down(self) -> None:
        for host in self.hosts:
            self.lab.kill(host.name)

    def sh(self, host: Host, command: str) -> str:
        return self.lab.ssh(host.name, command).stdout.strip()

    def stops(self) -> dict[str, str]:
        """How often somebody ended a daemon of those that are hypervisors already.

        One that is idle ends by itself, which is no matter.
        """
        units = "--unit libvirtd.service --unit libvirt-guests.service"
        count = f"journalctl --no-pager {units} | grep -c 'Stopping ' || true"
        return {host.name: self.sh(host, count) for host in self.hosts[:2]}


def changed(run: Run) -> list[tuple[str, str]]:
    """Who says that something changed."""
    return [(event.host, event.task) for event in run.events if event.result.get("changed")]
