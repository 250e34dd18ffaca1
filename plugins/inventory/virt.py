# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: virt
short_description: The guests of a fleet of libvirt hypervisors as Ansible hosts
version_added: 0.1.0
description:
  - Reads the domains of all hypervisors of an inventory group (or of given connection URIs), live
    and in parallel in one process, and makes each a host.
  - The file must end in C(virt.yml) or C(virt.yaml), and sort after the one that lists the
    hypervisors, for example C(10-hypervisors.yml) and C(20-guests.virt.yml) in one folder.
  - A hypervisor that does not answer costs at most O(host_timeout) seconds and is named in a
    warning; it gets the variable C(virt_unreachable) with the reason.
  - Whatever a guest or its definition says (titles, metadata, answers of its agent) is data and
    never evaluated.
  - A guest's variables are C(virt_hypervisor), C(virt_uuid), C(virt_state), C(virt_vcpus),
    C(virt_memory_mib), C(virt_title), C(virt_metadata), C(virt_addresses) and C(virt_error), with
    the meaning of the return values of M(fleet.virt.virt_query). C(ansible_host) is set where an
    address is known, C(ansible_user) where the metadata names a user.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - constructed
requirements:
  - libvirt's Python binding on the controller (package python3-libvirt or PyPI's libvirt-python)
  - lxml on the controller (package python3-lxml or PyPI's lxml)
options:
  plugin:
    description:
      - Marks the file as this plugin's.
    type: str
    required: true
    choices: [fleet.virt.virt]
  group:
    description:
      - Inventory group whose hosts are the hypervisors. Each is reached over SSH as Ansible itself
        would reach it (user, port, key, arguments, checking of host keys, become), or directly
        where C(ansible_connection) is V(local). A host's variable C(virt_inventory_uri) is used
        instead if it is set, for example V(qemu+tls://hv1.example.org/system).
    type: str
    default: hypervisors
  uri:
    description:
      - What to open on each hypervisor of O(group).
    type: str
    default: qemu:///system
  uris:
    description:
      - Connection URIs to read instead of a group.
    type: list
    elements: str
  addresses:
    description:
      - Ask running guests for their addresses; the first becomes C(ansible_host).
    type: bool
    default: true
  timeout:
    description:
      - Limit for a single call to libvirt, in seconds.
    type: float
    default: 10.0
  host_timeout:
    description:
      - Limit for all of one hypervisor, in seconds.
    type: float
    default: 30.0
"""

EXAMPLES = r"""
# 20-guests.virt.yml beside 10-hypervisors.yml: all guests of the group hypervisors
plugin: fleet.virt.virt
---
# Groups by state and hypervisor, and a group of what runs
plugin: fleet.virt.virt
groups:
  running_guests: virt_state == 'running'
keyed_groups:
  - key: virt_hypervisor
    prefix: "on"
---
# libvirt's test driver, with nothing installed but the binding
plugin: fleet.virt.virt
uris: [test:///default]
"""

import tempfile
import typing as t
from pathlib import Path

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._host import fleet, requirements
from ansible_collections.fleet.virt.plugins.module_utils._host.deadline import Failed
from ansible_collections.fleet.virt.plugins.module_utils._host.domains import Wanted
from ansible_collections.fleet.virt.plugins.plugin_utils import _guests, _ssh


class InventoryModule(BaseInventoryPlugin, Constructable):
    NAME = "fleet.virt.virt"

    if t.TYPE_CHECKING:  # ansible-core states no types for these
        inventory: t.Any
        _read_config_data: t.Any
        get_option: t.Any
        _set_composite_vars: t.Any
        _add_host_to_composed_groups: t.Any
        _add_host_to_keyed_groups: t.Any

    def verify_file(self, path: str) -> bool:
        return Path(path).is_file() and path.endswith(("virt.yml", "virt.yaml"))

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            requirements.require()
            with tempfile.TemporaryDirectory(prefix="fleet-virt-") as folder:
                self._read(Path(folder))
        except FleetVirtError as error:
            raise AnsibleParserError(f"{path}: {error}") from None

    def _read(self, folder: Path) -> None:
        targets = self._targets(folder)
        outcomes = fleet.read_fleet(
            targets,
            Wanted(addresses=self.get_option("addresses"), storage=False),
            call_timeout=self.get_option("timeout"),
            host_timeout=self.get_option("host_timeout"),
        )
        for target, outcome in zip(targets, outcomes):
            if isinstance(outcome, Failed):
                self.display.warning(f"hypervisor {target.name}: {outcome.error}")
                if target.name in self.inventory.hosts:
                    self.inventory.set_variable(
                        target.name, "virt_unreachable", wrap_var(str(outcome.error))
                    )
                continue
            for domain in outcome.value:
                self._add(target.name, domain)

    def _add(self, hypervisor: str, domain: dict[str, t.Any]) -> None:
        name = str(domain["name"])
        if name in self.inventory.hosts:
            self.display.warning(
                f"hypervisor {hypervisor}: domain {name!r} is left out,"
                " a host of that name is in the inventory already"
            )
            return
        self.inventory.add_host(name)
        for key, value in _guests.variables(hypervisor, domain).items():
            self.inventory.set_variable(name, key, wrap_var(value))
        strict = self.get_option("strict")
        values = self.inventory.get_host(name).get_vars()
        self._set_composite_vars(self.get_option("compose"), values, name, strict=strict)
        values = self.inventory.get_host(name).get_vars()
        self._add_host_to_composed_groups(self.get_option("groups"), values, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), values, name, strict=strict)

    def _targets(self, folder: Path) -> list[fleet.Target]:
        uris = self.get_option("uris")
        if uris is not None:
            return [fleet.Target(str(uri), str(uri)) for uri in uris]
        group = self.get_option("group")
        if group not in self.inventory.groups:
            self.display.warning(
                f"no group {group!r} in the inventory: there are no hypervisors to read;"
                " it must be in a file that sorts before this one"
            )
            return []
        hosts = self.inventory.groups[group].get_hosts()
        return [self._target(host, folder, number) for number, host in enumerate(hosts)]

    def _target(self, host: t.Any, folder: Path, number: int) -> fleet.Target:
        options = (self.get_option("uri"), self.get_option("timeout"))
        uri = _ssh.uri_for(host.name, self._variables(host), *options, folder, number)
        return fleet.Target(str(host.name), uri)

    def _variables(self, host: t.Any) -> dict[str, t.Any]:
        """The connection variables of a hypervisor, its administrator's templates resolved."""
        raw = self.inventory.groups["all"].get_vars()
        for group in sorted(host.get_groups(), key=lambda one: (one.depth, one.priority, one.name)):
            raw = {**raw, **group.get_vars()}
        raw = {**raw, **host.get_vars()}
        self.templar.available_variables = raw
        wanted = ("virt_inventory_uri", "virt_become")
        return {
            key: self.templar.template(value)
            for key, value in raw.items()
            if key.startswith("ansible_") or key in wanted
        }
