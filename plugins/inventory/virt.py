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
    and in parallel in one process, and makes each VM of this collection a host.
  - The file must end in C(virt.yml) or C(virt.yaml), and sort after the one that lists the
    hypervisors, for example C(10-hypervisors.yml) and C(20-guests.virt.yml) in one folder.
  - A hypervisor that does not answer costs at most O(host_timeout) seconds and is named in a
    warning; it gets the variable C(virt_unreachable) with the reason.
  - Whatever a guest or its definition says (titles, metadata, answers of its agent) is data and
    never evaluated.
  - A guest's variables are C(virt_hypervisor), C(virt_uuid), C(virt_state), C(virt_vcpus),
    C(virt_memory_mib), C(virt_title), C(virt_metadata) and C(virt_error), with the meaning of the
    return values of M(fleet.virt.virt_query); C(virt_managed), C(virt_groups), C(virt_tags) and
    C(virt_image) from the metadata; C(virt_zone), the hypervisor's or else the one that was asked
    for; C(virt_hostname) as its agent says; C(virt_addresses), all that are known; and
    C(virt_address_source), which is V(static), V(lease), V(agent), V(arp), V(neighbour) or
    V(console).
  - C(ansible_host) is the first address, in the order of these sources. C(ansible_user) is set
    where the metadata names a user.
  - An address is dropped with a warning when it belongs to a hypervisor, to the controller, or by a
    better source to another guest, and where it cannot be told which of two guests has it. Of two
    that say so themselves it cannot, whoever answers to ARP. A guest whose host key is known keeps
    one that is only in doubt.
  - A guest whose host key is in its metadata is connected to with this key only, whatever files of
    known hosts and C(host_key_checking) say. This needs OpenSSH 8.5 or newer on the controller.
  - A guest on a network of libvirt that translates addresses (NAT) or has no way out is connected
    to through its hypervisor, with the hypervisor's own connection variables.
  - No connection that ssh keeps (ControlPersist) is shared by a guest and another machine, whatever
    address the guest claims. C(ansible_control_path), or C(ControlPath) where the user sets one, is
    each guest's own, in the folder where it would be otherwise.
  - For that, C(ansible_ssh_args) of a guest is what it would be otherwise, with options before it.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - constructed
  - inventory_cache
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
        instead of O(uri) if it is set.
    type: str
    default: hypervisors
  uri:
    description:
      - What to open on each hypervisor of O(group).
      - With V(qemu+tls:///system) libvirt's TLS is used, to the hypervisor's C(ansible_host) or
        name, for which its certificate has to be; V(qemu+tls:///system?pkipath=FOLDER) says where
        the controller's own certificate is.
      - V(qemu:///system) and V(qemu+ssh:///system) go over SSH.
    type: str
    default: qemu:///system
  uris:
    description:
      - Connection URIs to read instead of a group, as libvirt understands them.
    type: list
    elements: str
  unmanaged:
    description:
      - Also list domains that were not made by this collection.
    type: bool
    default: false
  metadata_groups:
    description:
      - Put each guest into the groups that its metadata name (C(vm_groups) when it was created).
      - No guest gets into a group that a hypervisor is in, into one below that, or into one with
        the name of a host or of the controller, neither that way nor by O(groups) or
        O(keyed_groups).
    type: bool
    default: true
  filters:
    description:
      - Jinja2 expressions over a guest's variables, without braces. A guest is listed if it meets
        all of them.
      - An expression that fails leaves the guest out, or is an error with O(strict).
    type: list
    elements: str
    default: []
  addresses:
    description:
      - Find the addresses of running guests. Without it only those in the metadata are known.
    type: bool
    default: true
  probe:
    description:
      - Ask the hypervisor's machine over SSH for guests whose address neither metadata nor libvirt
        tell, in its neighbour table after an empty datagram to each address of its bridge, and on
        the guests' consoles. It needs Python there.
      - Also ask each hypervisor's machine for its addresses, and for who has the addresses that
        guests without a known host key claim.
    type: bool
    default: true
  strict_host_keys:
    description:
      - Connect to guests whose host key is in their metadata with that key only.
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
  cache_prefix:
    description:
      - Prefix of the cache plugin's files or tables.
    type: str
  parallel:
    description:
      - How many hypervisors are read at the same time.
    type: int
    default: 64
notes:
  - The cache, which is off unless it is asked for, keeps what hypervisors answered. One that did
    not answer is asked again by each run, as is every one with C(--flush-cache).
  - Variables of the hypervisors are also taken from C(group_vars) and C(host_vars).
"""

EXAMPLES = r"""
# 20-guests.virt.yml beside 10-hypervisors.yml: all guests of the group hypervisors
plugin: fleet.virt.virt
---
# Groups by everything that is known of a guest, and a group of what runs
plugin: fleet.virt.virt
groups:
  running_guests: virt_state == 'running'
keyed_groups:
  - key: virt_hypervisor
    prefix: "on"
  - key: virt_zone
    prefix: zone
  - key: virt_image
    prefix: image
  - key: virt_tags
    prefix: tag
  - key: virt_state
    prefix: state
---
# All domains, also those that were made otherwise, with at least 1 GiB of memory
plugin: fleet.virt.virt
unmanaged: true
filters:
  - virt_memory_mib >= 1024
compose:
  virt_memory_gib: virt_memory_mib / 1024
---
# libvirt's TLS instead of SSH, and what was read is kept for a minute
plugin: fleet.virt.virt
uri: qemu+tls:///system?pkipath=/home/me/.local/share/fleet-virt/keys/fleet/client
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/fleet-virt-inventory
cache_timeout: 60
---
# libvirt's test driver, with nothing installed but the binding
plugin: fleet.virt.virt
uris: [test:///default]
unmanaged: true
"""

import contextlib
import tempfile
import typing as t
from dataclasses import asdict
from pathlib import Path

from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.inventory.group import Group
from ansible.inventory.helpers import get_group_vars, sort_groups
from ansible.inventory.host import Host
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.unsafe_proxy import wrap_var
from ansible.utils.vars import combine_vars
from ansible.vars.plugins import get_vars_from_inventory_sources
from ansible_collections.fleet.virt.plugins.module_utils._effects.base import requirements
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.deadline import Failed
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._pure.base import ip
from ansible_collections.fleet.virt.plugins.module_utils._pure.base.json_values import (
    Json,
    as_list,
    as_mapping,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values, to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import (
    _claims,
    _group_guard,
    _guest_ssh,
    _guests,
    _machines,
    _reading,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _ssh

# Variables of a hypervisor that count here, besides those for connecting
_WANTED = ("ansible_python_interpreter", "virt_migration_address", "virt_zone")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "fleet.virt.virt"

    machines: _claims.Machines
    taken: set[str]  # names of other machines, in small letters

    if t.TYPE_CHECKING:  # ansible-core states no types for these
        inventory: InventoryData
        loader: DataLoader
        get_option: t.Callable[..., object]
        _read_config_data: t.Callable[..., object]
        _set_composite_vars: t.Callable[..., None]
        _add_host_to_composed_groups: t.Callable[..., None]
        _add_host_to_keyed_groups: t.Callable[..., None]

    def _flag(self, name: str) -> bool:
        return bool(self.get_option(name))

    def _text(self, name: str) -> str:
        return str(self.get_option(name))

    def _number(self, name: str) -> float:
        return float(str(self.get_option(name)))

    def verify_file(self, path: str) -> bool:
        return Path(path).is_file() and path.endswith(("virt.yml", "virt.yaml"))

    def parse(
        self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True
    ) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            requirements.require()
            with tempfile.TemporaryDirectory(prefix="fleet-virt-") as folder:
                hypervisors = self._hypervisors(Path(folder), path)
                found, near = self._read(hypervisors, path, cache)
        except FleetVirtError as error:
            raise AnsibleParserError(f"{path}: {error}") from None
        self.machines = _machines.known(hypervisors, self.inventory.hosts.values(), near)
        self.taken = _machines.names(hypervisors, self.inventory.hosts.values())
        guests = [(one.name, guest) for one in hypervisors for guest in found.get(one.name, ())]
        problems = _claims.settle(guests, self.machines, self._is_pinned)
        chosen, more = _guests.choose(guests)
        for problem in (*problems, *more):
            self.display.warning(problem)
        self._add_all(chosen, {one.name: one for one in hypervisors}, path)
        silent = [one.name for one in hypervisors if one.name not in found]
        if silent:
            hosts = map(self.inventory.hosts.get, (guest["name"] for _name, guest in chosen))
            known = {group.name for host in hosts if host for group in host.get_groups()}
            known |= {str(name) for name in as_mapping(self.get_option("groups"))}
            self.display.warning(_guests.lacking(silent, known))

    # The hypervisors

    def _hypervisors(self, folder: Path, path: str) -> list[_reading.Hypervisor]:
        uris = self.get_option("uris")
        timeout = self._number("timeout")
        if uris is not None:
            listed = [str(uri) for uri in as_list(uris)]
            return [_reading.Hypervisor(uri, _ssh.from_uri(uri, timeout)) for uri in listed]
        group = self._text("group")
        if group not in self.inventory.groups:
            self.display.warning(
                f"no group {group!r} in the inventory: there are no hypervisors to read;"
                " it must be in a file that sorts before this one"
            )
            return []
        found = []
        for number, host in enumerate(self.inventory.groups[group].get_hosts()):
            variables = self._connection_variables(host, path)
            reached = _ssh.reach(host.name, variables, self._text("uri"), timeout, folder, number)
            name = str(host.name)
            known = (variables.get("ansible_host") or name, variables.get("virt_migration_address"))
            found.append(
                _reading.Hypervisor(
                    name,
                    reached,
                    variables.get("virt_zone"),
                    tuple(str(one) for one in known if one),
                )
            )
        return found

    def _connection_variables(self, host: Host, path: str) -> dict[str, Json]:
        """What decides how a hypervisor is reached, its administrator's templates resolved."""
        raw = combine_vars(self._group_variables(self._groups_of(host), path), host.get_vars())
        raw = combine_vars(raw, self._files([host], path))
        self.templar.available_variables = raw
        return {
            key: to_plain(self.templar.template(value))
            for key, value in raw.items()
            if _ssh.is_for_connecting(key) or key in _WANTED
        }

    def _groups_of(self, host: Host) -> list[Group]:
        """A host's groups with ``all``, which Ansible itself adds when everything is read."""
        every = self.inventory.groups["all"]
        others = [group for group in host.get_groups() if group is not every]
        return [every, *sort_groups(others)]

    def _group_variables(self, groups: list[Group], path: str) -> dict[str, object]:
        return {**combine_vars(get_group_vars(groups), self._files(groups, path))}

    def _files(self, entities: t.Sequence[Group | Host], path: str) -> dict[str, object]:
        """Variables of groups or hosts from vars plugins: group_vars and host_vars."""
        sources = [*(getattr(self.inventory, "processed_sources", None) or ()), path]
        sources = list(dict.fromkeys(str(source) for source in sources if source))
        return {**get_vars_from_inventory_sources(self.loader, sources, entities, "all")}

    def _read(
        self, hypervisors: list[_reading.Hypervisor], path: str, cache: bool
    ) -> tuple[dict[str, list[_guests.Guest]], _machines.Kept]:
        """The guests by hypervisor, and what is known of the hypervisors' addresses.

        From the cache, or asked; the silent ones are marked.
        """
        settings = _reading.Settings(
            unmanaged=self._flag("unmanaged"),
            addresses=self._flag("addresses"),
            near=self._flag("probe"),
            timeout=self._number("timeout"),
            host_timeout=self._number("host_timeout"),
            parallel=max(1, int(self._number("parallel"))),
        )
        use_cache = self._flag("cache")
        key = self.get_cache_key(path)
        # what was read otherwise is of no use
        asked = {"settings": asdict(settings), "uri": self._text("uri"), "format": 2}
        found: dict[str, list[_guests.Guest]] = {}
        near: _machines.Kept = {}
        if use_cache and cache:
            try:
                kept = self._cache[key]
            except KeyError:
                kept = {}
            if isinstance(kept, dict) and kept.get("asked") == asked:
                found, near = dict(kept["guests"]), dict(kept["near"])
        missing = [one for one in hypervisors if one.name not in found]
        for one, outcome in zip(missing, _reading.read_all(missing, settings)):
            if isinstance(outcome, Failed):
                self._mark(one.name, str(outcome.error))
            else:
                found[one.name] = outcome.value
        if missing:
            claimed = {
                name: _machines.doubtful(guests, self._is_pinned) for name, guests in found.items()
            }
            near = _machines.ask(hypervisors, claimed, settings)
        if use_cache and missing:
            self._cache[key] = {"asked": asked, "guests": found, "near": near}
        return found, near

    def _is_pinned(self, guest: _guests.Guest) -> bool:
        """Whether only a server with the guest's own host key is talked to."""
        key = _guest_ssh.host_key(guest["metadata"]["host_key"])
        return key is not None and self._flag("strict_host_keys")

    def _mark(self, name: str, reason: str) -> None:
        self.display.warning(f"hypervisor {name}: {reason}")
        if name in self.inventory.hosts:
            host = self.inventory.hosts[name]
            host.set_variable("virt_unreachable", wrap_var(reason))

    # Their guests

    def _add_all(
        self,
        chosen: list[_guests.Found],
        hypervisors: dict[str, _reading.Hypervisor],
        path: str,
    ) -> None:
        guard = _group_guard.Guard(self.inventory, hypervisors, self._text("group"))
        added = []
        for name, guest in chosen:
            host = self._add(hypervisors[name], guest)
            if host is not None:
                added.append((host, name, guest))
        for host, _name, guest in added:
            if self._flag("metadata_groups"):
                for group in map(self._sanitize_group_name, guest["metadata"]["groups"]):
                    guard.add_host(host.name, guard.add_group(group))
        strict = self._flag("strict")
        compose, groups, keyed = map(self.get_option, ("compose", "groups", "keyed_groups"))
        ssh_args: dict[tuple[str, ...], _ssh.Arguments] = {}
        for host, name, guest in added:
            if compose:
                self._set_composite_vars(compose, host.get_vars(), host.name, strict=strict)
                self._check_composed(host, guest)
            values = host.get_vars()
            with self._guarded(guard):
                self._add_host_to_composed_groups(groups, values, host.name, strict=strict)
                self._add_host_to_keyed_groups(keyed, values, host.name, strict=strict)
            self._set_connection(host, hypervisors[name], guest, ssh_args, path)
        for problem in guard.warnings():
            self.display.warning(problem)
        self._tell_of_later({host.name: name for host, name, _guest in added}, path)

    @contextlib.contextmanager
    def _guarded(self, guard: _group_guard.Guard) -> t.Iterator[None]:
        """Ansible's own code makes groups, but not every one."""
        inventory = self.inventory
        self.inventory = t.cast("InventoryData", guard)  # it has all of its methods
        try:
            yield
        finally:
            self.inventory = inventory

    def _check_composed(self, host: Host, guest: _guests.Guest) -> None:
        """An address that ``compose`` chose is not another machine's either."""
        chosen = str(host.vars.get("ansible_host", ""))
        known = {one["address"] for one in guest["addresses"]}
        usual = ip.usable(chosen)
        if not chosen or usual in known or self._is_pinned(guest):
            return
        other = usual is None and (chosen.casefold() in self.taken or _guests.name_problem(chosen))
        if usual is not None:
            other = self.machines.hypervisor_at(usual) or self.machines.local(usual)
        if other:
            del host.vars["ansible_host"]
            self.display.warning(f"{host.name}: {chosen!r} is another machine: not connected to")

    def _tell_of_later(self, ours: dict[str, str], path: str) -> None:
        """Warn of files read later in which a host has a guest's name: they cannot be known yet."""
        inventory, add_host, source = self.inventory, self.inventory.add_host, str(path)
        warn = self.display.warning

        def told(host: str, group: str | None = None, port: int | str | None = None) -> str:
            where = inventory.current_source
            if where is not None and str(where) != source and str(host) in ours:
                hypervisor = ours.pop(str(host))
                warn(
                    f"host {host!r} of {where} has the name of a VM of {hypervisor}: to Ansible"
                    " they are one host, with the variables of both, those of that file first; if"
                    " it is another machine, rename one of them, or have"
                    f" that file sort before {path}, so that the VM is left out"
                )
            return add_host(host, group, port)

        inventory.add_host = told  # type: ignore[method-assign]

    def _compose(
        self, template: object, variables: Values, *more: object, **options: object
    ) -> object:
        """The value of an expression; that of one of our variables without a template.

        A template takes Ansible a millisecond, and keyed groups need some for each guest. Our
        variables are data, so there is nothing in them to evaluate.
        """
        name = str(template)
        ours = name.startswith("virt_") and name.isidentifier() and name in variables
        if ours and name not in (self._vars or {}):
            return variables[name]
        ansibles: t.Callable[..., object] = super()._compose
        return ansibles(template, variables, *more, **options)

    def _add(self, hypervisor: _reading.Hypervisor, guest: _guests.Guest) -> Host | None:
        """The new host; None if the name is taken, or the guest meets not all filters."""
        name = str(guest["name"])
        taken = "group" if name in self.inventory.groups else "host"
        if name in self.inventory.hosts or name in self.inventory.groups:
            self.display.warning(
                f"hypervisor {hypervisor.name}: domain {name!r} is left out,"
                f" a {taken} of that name is in the inventory already"
            )
            return None
        address = _guests.address_of(guest, hypervisor.reached.ssh is not None)
        if address is None and name.casefold() in self.taken and not self._is_pinned(guest):
            self.display.warning(
                f"hypervisor {hypervisor.name}: domain {name!r} is left out, it has no address that"
                " is known, and another machine is reached by that name"
            )
            return None
        values = {
            key: wrap_var(value)
            for key, value in _guests.variables(
                hypervisor.name, hypervisor.zone, guest, address
            ).items()
        }
        if not self._meets_filters(name, values):
            return None
        self.inventory.add_host(name)
        host = self.inventory.hosts[name]
        for key, value in values.items():
            host.set_variable(key, value)
        return host

    def _meets_filters(self, name: str, values: dict[str, object]) -> bool:
        for expression in as_list(self.get_option("filters")):
            try:
                met = self._compose(expression, {**values, "inventory_hostname": wrap_var(name)})
                met = boolean(met) if isinstance(met, str) else bool(met)
            except Exception as error:  # whatever a template may raise
                if self._flag("strict"):
                    raise AnsibleParserError(f"filter {expression!r}, {name}: {error}") from error
                return False
            if not met:
                return False
        return True

    def _set_connection(
        self,
        host: Host,
        hypervisor: _reading.Hypervisor,
        guest: _guests.Guest,
        ssh_args: dict[tuple[str, ...], _ssh.Arguments],
        path: str,
    ) -> None:
        """Strict checking of the host key, the way through the hypervisor, connections apart."""
        # compose may have chosen another of its addresses
        connected = str(host.vars.get("ansible_host", ""))
        behind = {one["address"] for one in guest["addresses"] if one["behind"]}
        through = hypervisor.reached.ssh if connected in behind else None
        values = _guest_ssh.variables(
            hypervisor.name,
            guest,
            connected,
            through,
            self._ssh_args(host, ssh_args, path),
            strict=self._is_pinned(guest),
        )
        for key, value in values.items():
            host.set_variable(key, wrap_var(value))

    def _ssh_args(
        self, host: Host, known: dict[tuple[str, ...], _ssh.Arguments], path: str
    ) -> _ssh.Arguments:
        """What Ansible would give ssh for this guest without us; ``known``: by groups."""
        groups = self._groups_of(host)
        key = tuple(sorted(group.name for group in groups))
        names = _ssh.ARGUMENTS
        composed = {name: host.vars[name] for name in names if name in host.vars}
        if not composed and key in known:
            return known[key]
        inherited = combine_vars(self._group_variables(groups, path), composed)
        self.templar.available_variables = combine_vars(inherited, host.get_vars())
        given = {
            name: self.templar.template(inherited[name]) for name in names if name in inherited
        }
        try:
            found = _ssh.configured_args(given)
        except FleetVirtError as error:
            raise AnsibleParserError(f"{path}: {host.name}: {error}") from None
        if not composed:
            known[key] = found
        return found
