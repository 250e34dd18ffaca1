# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: virt
short_description: Inventory of the guests of a fleet of libvirt hypervisors
version_added: 0.1.0
description:
  - Reads the domains of all hypervisors of an inventory group (or of given connection URIs), live
    and in parallel in one process, and adds each VM of this collection as a host.
  - The file must end in C(virt.yml) or C(virt.yaml), and sort after the one that lists the
    hypervisors, for example C(10-hypervisors.yml) and C(20-guests.virt.yml) in one folder.
  - A hypervisor that does not respond takes at most O(host_timeout) seconds and is named in a
    warning; its variable C(virt_unreachable) is set to the reason. Its guests are listed as the
    others noted them, see O(noted).
  - Anything from a guest or its definition (titles, metadata, responses of its agent) is data and
    never evaluated.
  - A VM of a cell that is off and defined on no hypervisor is not listed, as libvirt does not know
    it; the playbook C(fleet.virt.list) shows it.
  - A guest's variables are C(virt_hypervisor), C(virt_uuid), C(virt_state), C(virt_vcpus),
    C(virt_memory_mib), C(virt_title), C(virt_metadata) and C(virt_error), with the meaning of the
    return values of M(fleet.virt.virt_query); C(virt_managed), C(virt_groups), C(virt_tags) and
    C(virt_image) from the metadata; C(virt_zone), the hypervisor's or else the requested one;
    C(virt_cell), the C(virt_ha_cell) of its hypervisor for a VM of that cell, else null;
    C(virt_hostname), reported by its agent; C(virt_addresses), all that are known; and
    C(virt_address_source), which is V(static), V(lease), V(agent), V(arp), V(neighbour) or
    V(console).
  - C(ansible_host) is the first address, in the order of these sources. C(ansible_user) is set
    where the metadata names a user.
  - An address is dropped with a warning if it belongs to a hypervisor, to the controller, or (from
    a better source) to another guest, and if it cannot be determined which of two guests has it. If
    both guests claim it themselves it cannot, whichever responds to ARP. A guest whose host key is
    known keeps an address that is only in doubt.
  - For a guest whose host key is in its metadata, SSH accepts this key only, whatever known_hosts
    files and C(host_key_checking) say. This needs OpenSSH 8.5 or newer on the controller.
  - A guest on a libvirt network with NAT, or on an isolated one, is reached through its hypervisor,
    with the hypervisor's own connection variables.
  - A guest and another machine never share a persistent SSH connection (ControlPersist), whatever
    address the guest claims. Each guest has its own C(ansible_control_path), or C(ControlPath)
    where the user sets one, in the usual folder.
  - For this purpose, options are prepended to the usual C(ansible_ssh_args) of a guest.
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
      - Marks the file as a configuration of this plugin.
    type: str
    required: true
    choices: [fleet.virt.virt]
  group:
    description:
      - Inventory group whose hosts are the hypervisors. Each is reached over SSH as Ansible itself
        would reach it (user, port, key, arguments, host key checking, become), or directly where
        C(ansible_connection) is V(local). A host's variable C(virt_inventory_uri) is used instead
        of O(uri) if it is set.
    type: str
    default: hypervisors
  uri:
    description:
      - Connection URI to open on each hypervisor of O(group).
      - V(qemu+tls:///system) connects with libvirt's TLS to the hypervisor's C(ansible_host) or
        name, which its certificate has to contain; V(qemu+tls:///system?pkipath=FOLDER) specifies
        where the controller's own certificate is.
      - V(qemu:///system) and V(qemu+ssh:///system) connect over SSH.
    type: str
    default: qemu:///system
  uris:
    description:
      - Connection URIs to read instead of a group, as libvirt understands them.
    type: list
    elements: str
  unmanaged:
    description:
      - Also list domains that were not created by this collection.
    type: bool
    default: false
  metadata_groups:
    description:
      - Add each guest to the groups named in its metadata (C(vm_groups) when it was created).
      - No guest is added to a group that contains a hypervisor, to a child of such a group, or to
        one with the name of a host or of the controller, neither this way nor by O(groups) or
        O(keyed_groups).
      - A group that an earlier file of the inventory defines, with other hosts or empty, is joined
        only if O(guest_groups) names it. O(groups) and O(keyed_groups) may add guests to it.
    type: bool
    default: true
  guest_groups:
    description:
      - Groups defined in earlier files of the inventory that guests may join by their metadata.
    type: list
    elements: str
    default: []
  filters:
    description:
      - Jinja2 expressions on a guest's variables, without braces. A guest is listed if it matches
        all of them.
      - An expression that fails excludes the guest, or is an error with O(strict).
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
      - For guests whose address neither metadata nor libvirt provides, look on the hypervisor, over
        SSH, in its neighbour table after an empty datagram to each address of its bridge, and on
        the guests' consoles. It needs Python there.
      - Also query each hypervisor for its own addresses, and for the owners of addresses that
        guests without a known host key claim.
    type: bool
    default: true
  strict_host_keys:
    description:
      - Accept only that key for guests whose host key is in their metadata.
    type: bool
    default: true
  noted:
    description:
      - Add the guests of hypervisors that do not respond as well, as the others noted them, with
        C(virt_state) V(unknown), to their groups and to the group C(virt_unknown). They are
        unreachable, so that a play on their group fails for them instead of silently leaving them
        out. With V(false) they are not in the inventory.
      - Nothing more is read where all hypervisors respond. See the guide on hypervisors that do not
        answer.
    type: bool
    default: true
  lost:
    description:
      - Hypervisors of O(group) that are permanently gone. They are not contacted, and one warning
        names them.
      - Hypervisors in the variable C(virt_hypervisors_lost) are not contacted either, whether it is
        an extra variable or one of the inventory or of C(group_vars), a list or a text with commas.
        An extra variable overrides those of the inventory.
    type: list
    elements: str
    default: []
  timeout:
    description:
      - Limit for a single call to libvirt, in seconds.
    type: float
    default: 10.0
  host_timeout:
    description:
      - Limit for reading one hypervisor, in seconds.
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
  - The cache, which is off by default, stores the responses of hypervisors. One that did not
    respond is queried again in each run, as are all with C(--flush-cache).
  - Variables of the hypervisors are also taken from C(group_vars) and C(host_vars).
"""

EXAMPLES = r"""
# 20-guests.virt.yml next to 10-hypervisors.yml: all guests of the group hypervisors
plugin: fleet.virt.virt
---
# Groups by everything that is known of a guest, and a group of running guests
plugin: fleet.virt.virt
groups:
  running_guests: virt_state == 'running'
keyed_groups:
  - key: virt_hypervisor
    prefix: "on"
  - key: virt_zone
    prefix: zone
  - key: virt_cell
    prefix: cell
  - key: virt_image
    prefix: image
  - key: virt_tags
    prefix: tag
  - key: virt_state
    prefix: state
---
# All domains, including those created by other means, with at least 1 GiB of memory
plugin: fleet.virt.virt
unmanaged: true
filters:
  - virt_memory_mib >= 1024
compose:
  virt_memory_gib: virt_memory_mib / 1024
---
# libvirt's TLS instead of SSH, and results cached for a minute
plugin: fleet.virt.virt
uri: qemu+tls:///system?pkipath=/home/me/.local/share/fleet-virt/keys/fleet/client
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/fleet-virt-inventory
cache_timeout: 60
---
# libvirt's test driver, with only the Python binding installed
plugin: fleet.virt.virt
uris: [test:///default]
unmanaged: true
"""

import contextlib
import tempfile
import typing as t
from dataclasses import asdict
from pathlib import Path

from ansible.errors import AnsibleError, AnsibleParserError
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
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, visible
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import ip
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    read_requirements as requirements,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_deadline import Failed
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    Json,
    as_list,
    as_mapping,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes.silent import SilentHost
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _alive
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values, to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import (
    _claims,
    _group_guard,
    _guest_ssh,
    _guests,
    _machines,
    _reading,
    _silent,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _become, _ssh

_LOST = "virt_hypervisors_lost"
# Variables of a hypervisor that are used here, in addition to those for connecting
_CELL = "virt_ha_cell"
_WANTED = (
    *("ansible_python_interpreter", "virt_migration_address", "virt_zone"),
    *(_LOST, _CELL),
)


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "fleet.virt.virt"

    machines: _claims.Machines
    taken: set[str]  # lower-case names of other machines

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
                guests_by_host, addresses = self._read(hypervisors, path, cache)
                silent = [
                    hypervisor.name
                    for hypervisor in hypervisors
                    if hypervisor.name not in guests_by_host and not hypervisor.lost
                ]
                noted = self._noted(hypervisors, silent)
        except FleetVirtError as error:
            raise AnsibleParserError(f"{path}: {error}") from None
        self.machines = _machines.known(hypervisors, self.inventory.hosts.values(), addresses)
        self.taken = _machines.names(hypervisors, self.inventory.hosts.values())
        guests = [
            (hypervisor.name, guest)
            for hypervisor in hypervisors
            for guest in guests_by_host.get(hypervisor.name, ())
        ]
        problems = _claims.settle(guests, self.machines, self._is_pinned)
        unanswered = _silent.guests(noted, unmanaged=self._flag("unmanaged"))
        chosen, more = _guests.choose([*guests, *unanswered])
        for problem in (*problems, *more):
            _output.warn(problem)
        self._add_all(chosen, {hypervisor.name: hypervisor for hypervisor in hypervisors}, path)
        lost = [hypervisor.name for hypervisor in hypervisors if hypervisor.lost]
        if lost:
            _output.warn(_guests.not_contacted(lost))
        for name, host in noted.items():
            _output.warn(_silent.warning(name, host))
        unknown = [name for name in silent if name not in noted]
        if unknown:
            hosts = map(self.inventory.hosts.get, (guest["name"] for _name, guest in chosen))
            known = {group.name for host in hosts if host for group in host.get_groups()}
            known |= {str(name) for name in as_mapping(self.get_option("groups"))}
            _output.warn(_guests.lacking(unknown, known, asked=self._flag("noted")))

    # The hypervisors

    def _noted(
        self, hypervisors: list[_reading.Hypervisor], silent: t.Sequence[str]
    ) -> dict[str, SilentHost]:
        """Return what is noted of silent hypervisors; nobody is asked where there are none."""
        there = [host for host in hypervisors if host.name not in silent and not host.lost]
        if not (silent and there and self._flag("noted")):
            return {}
        return _silent.read(there, silent, self._settings())

    def _hypervisors(self, folder: Path, path: str) -> list[_reading.Hypervisor]:
        uris = self.get_option("uris")
        timeout = self._number("timeout")
        if uris is not None:
            listed = [str(uri) for uri in as_list(uris)]
            return [_reading.Hypervisor(uri, _ssh.from_uri(uri, timeout)) for uri in listed]
        group = self._text("group")
        if group not in self.inventory.groups:
            _output.warn(
                f"no group {group!r} in the inventory: there are no hypervisors to read;"
                " it must be in a file that sorts before this one"
            )
            return []
        hypervisors = []
        lost = _alive.named(self.get_option("lost"))
        for number, host in enumerate(self.inventory.groups[group].get_hosts()):
            variables = self._connection_variables(host, path)
            reached = _ssh.reach(host.name, variables, self._text("uri"), timeout, folder, number)
            name = str(host.name)
            known = (variables.get("ansible_host") or name, variables.get("virt_migration_address"))
            hypervisors.append(
                _reading.Hypervisor(
                    name,
                    reached,
                    variables.get("virt_zone"),
                    tuple(str(address) for address in known if address),
                    lost=name in lost | _alive.named(variables.get(_LOST)),
                    cell=variables.get(_CELL),
                )
            )
        return hypervisors

    def _connection_variables(self, host: Host, path: str) -> dict[str, Json]:
        """Return the variables for connecting to a hypervisor, with templates resolved."""
        raw = combine_vars(self._group_variables(self._groups_of(host), path), host.get_vars())
        raw = combine_vars(raw, self._files([host], path))
        extra = self._vars or {}
        if _LOST in extra:  # these override the inventory's
            raw = {**raw, _LOST: extra[_LOST]}
        given = {key: extra[key] for key in _become.PASSWORDS if key in extra}
        raw = {**raw, **given}
        self.templar.available_variables = raw
        templated = {}
        for key, value in raw.items():
            if _ssh.is_for_connecting(key) or key in _WANTED:
                # one that cannot be templated here is left out: sudo may ask for no password, and
                # without the cell all else is known of a VM
                spared = key in (*_become.PASSWORDS, _CELL)
                with contextlib.suppress(*((AnsibleError,) if spared else ())):
                    templated[key] = to_plain(self.templar.template(value))
        return templated

    def _groups_of(self, host: Host) -> list[Group]:
        """Return a host's groups and ``all``, which Ansible adds only after reading everything."""
        every = self.inventory.groups["all"]
        others = [group for group in host.get_groups() if group is not every]
        return [every, *sort_groups(others)]

    def _group_variables(self, groups: list[Group], path: str) -> dict[str, object]:
        return {**combine_vars(get_group_vars(groups), self._files(groups, path))}

    def _files(self, entities: t.Sequence[Group | Host], path: str) -> dict[str, object]:
        """Return variables of groups or hosts from vars plugins: group_vars and host_vars."""
        sources = [*(getattr(self.inventory, "processed_sources", None) or ()), path]
        sources = list(dict.fromkeys(str(source) for source in sources if source))
        return {**get_vars_from_inventory_sources(self.loader, sources, entities, "all")}

    def _read(
        self, hypervisors: list[_reading.Hypervisor], path: str, cache: bool
    ) -> tuple[dict[str, list[_guests.Guest]], _machines.Kept]:
        """Return the guests by hypervisor, and what is known of the hypervisors' addresses.

        Read from the cache or from the hypervisors; those that do not respond are marked.
        """
        settings = self._settings()
        use_cache = self._flag("cache")
        key = self.get_cache_key(path)
        # results read with other settings are of no use
        request = {"settings": asdict(settings), "uri": self._text("uri"), "format": 3}
        guests_by_host: dict[str, list[_guests.Guest]] = {}
        addresses: _machines.Kept = {}
        if use_cache and cache:
            try:
                stored = self._cache[key]
            except KeyError:
                stored = {}
            if isinstance(stored, dict) and stored.get("asked") == request:
                guests_by_host, addresses = dict(stored["guests"]), dict(stored["near"])
        for hypervisor in hypervisors:
            if hypervisor.lost:
                guests_by_host.pop(hypervisor.name, None)
                self._set_unreachable(hypervisor.name, _alive.lost(hypervisor.name))
        alive = [hypervisor for hypervisor in hypervisors if not hypervisor.lost]
        missing = [hypervisor for hypervisor in alive if hypervisor.name not in guests_by_host]
        for hypervisor, outcome in zip(missing, _reading.read_all(missing, settings)):
            if isinstance(outcome, Failed):
                self._mark(hypervisor.name, str(outcome.error))
            else:
                guests_by_host[hypervisor.name] = outcome.value
        if missing:
            claimed = {
                name: _machines.doubtful(guests, self._is_pinned)
                for name, guests in guests_by_host.items()
            }
            addresses = _machines.ask(alive, claimed, settings)
        if use_cache and missing:
            self._cache[key] = {"asked": request, "guests": guests_by_host, "near": addresses}
        return guests_by_host, addresses

    def _settings(self) -> _reading.ReadingSettings:
        return _reading.ReadingSettings(
            unmanaged=self._flag("unmanaged"),
            addresses=self._flag("addresses"),
            from_host=self._flag("probe"),
            timeout=self._number("timeout"),
            host_timeout=self._number("host_timeout"),
            parallel=max(1, int(self._number("parallel"))),
        )

    def _is_pinned(self, guest: _guests.Guest) -> bool:
        """Whether only a server with the guest's own host key is accepted."""
        key = _guest_ssh.host_key(guest["metadata"]["host_key"])
        return key is not None and self._flag("strict_host_keys")

    def _mark(self, name: str, reason: str) -> None:
        reason += _become.remedy(reason, name)
        _output.warn(f"hypervisor {name}: {reason}")
        self._set_unreachable(name, reason)

    def _set_unreachable(self, name: str, reason: str) -> None:
        if name in self.inventory.hosts:
            host = self.inventory.hosts[name]
            host.set_variable("virt_unreachable", wrap_var(reason))

    # The guests

    def _add_all(
        self,
        chosen: list[_guests.HostedGuest],
        hypervisors: dict[str, _reading.Hypervisor],
        path: str,
    ) -> None:
        permitted = [str(name) for name in as_list(self.get_option("guest_groups"))]
        guard = _group_guard.Guard(self.inventory, hypervisors, self._text("group"), permitted)
        added = []
        for name, guest in chosen:
            host = self._add(hypervisors[name], guest)
            if host is not None:
                added.append((host, name, guest))
        for host, _name, guest in added:
            if _silent.is_noted(guest):
                self.inventory.add_group(_silent.GROUP)
                self.inventory.add_child(_silent.GROUP, host.name)
            if self._flag("metadata_groups"):
                for group in map(self._sanitize_group_name, guest["metadata"]["groups"]):
                    guard.add_by_metadata(host.name, group)
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
            _output.warn(problem)
        self._warn_of_later({host.name: name for host, name, _guest in added}, path)

    @contextlib.contextmanager
    def _guarded(self, guard: _group_guard.Guard) -> t.Iterator[None]:
        """Let Ansible's own code create groups, but only those that are permitted."""
        inventory = self.inventory
        self.inventory = t.cast("InventoryData", guard)  # it has all of its methods
        try:
            yield
        finally:
            self.inventory = inventory

    def _check_composed(self, host: Host, guest: _guests.Guest) -> None:
        """Drop an address chosen by ``compose`` if it belongs to another machine."""
        chosen = str(host.vars.get("ansible_host", ""))
        known = {entry["address"] for entry in guest["addresses"]}
        address = ip.usable(chosen)
        if not chosen or address in known or self._is_pinned(guest):
            return
        other = address is None and (
            chosen.casefold() in self.taken or _guests.name_problem(chosen)
        )
        if address is not None:
            other = self.machines.hypervisor_at(address) or self.machines.local(address)
        if other:
            del host.vars["ansible_host"]
            _output.warn(f"{host.name}: {chosen!r} is another machine; not connecting to it")

    def _warn_of_later(self, ours: dict[str, str], path: str) -> None:
        """Warn when a file that is read later contains a host with a guest's name."""
        inventory, add_host, source = self.inventory, self.inventory.add_host, str(path)
        warn = _output.warn

        def add_and_warn(host: str, group: str | None = None, port: int | str | None = None) -> str:
            where = inventory.current_source
            if where is not None and str(where) != source and str(host) in ours:
                hypervisor = ours.pop(str(host))
                warn(
                    f"host {host!r} of {where} has the name of a VM of {hypervisor}: to Ansible"
                    " they are one host, with the variables of both, those of that file taking"
                    " precedence; if it is another machine, rename one of them, or let that file"
                    f" sort before {path}, so that the VM is left out"
                )
            return add_host(host, group, port)

        inventory.add_host = add_and_warn  # type: ignore[method-assign]

    def _compose(
        self, template: object, variables: Values, *more: object, **options: object
    ) -> object:
        """Return the value of an expression, without templating for this plugin's variables.

        Templating takes Ansible a millisecond, and keyed groups need several per guest. Variables
        of this plugin are data, so there is nothing in them to evaluate.
        """
        name = str(template)
        ours = name.startswith("virt_") and name.isidentifier() and name in variables
        if ours and name not in (self._vars or {}):
            return variables[name]
        compose: t.Callable[..., object] = super()._compose
        return compose(template, variables, *more, **options)

    def _add(self, hypervisor: _reading.Hypervisor, guest: _guests.Guest) -> Host | None:
        """Add a guest; return its host, or None if the name is taken or a filter does not match."""
        name = str(guest["name"])
        taken = "group" if name in self.inventory.groups else "host"
        if name in self.inventory.hosts or name in self.inventory.groups:
            _output.warn(
                f"hypervisor {hypervisor.name}: domain {name!r} is left out,"
                f" a {taken} of that name is already in the inventory"
            )
            return None
        address = _guests.address_of(guest, hypervisor.reached.ssh is not None)
        if address is None and name.casefold() in self.taken and not self._is_pinned(guest):
            _output.warn(
                f"hypervisor {hypervisor.name}: domain {name!r} is left out, it has no known"
                " address, and its name is that of another machine"
            )
            return None
        values = {
            key: wrap_var(value)
            for key, value in _guests.variables(
                hypervisor.name, hypervisor.zone, guest, address, hypervisor.cell
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
                    problem = visible(f"filter {expression!r}, {name}: {error}")
                    raise AnsibleParserError(problem) from error
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
        """Set strict host key checking, the jump through the hypervisor, separate connections."""
        if _silent.is_noted(guest):
            for key, value in _silent.variables(hypervisor.name).items():
                host.set_variable(key, wrap_var(value))
            return
        # compose may have chosen another of its addresses
        connected = str(host.vars.get("ansible_host", ""))
        behind = {entry["address"] for entry in guest["addresses"] if entry["behind"]}
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
        """Return the arguments Ansible itself would give ssh; ``known`` caches them by groups."""
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
            arguments = _ssh.configured_args(given)
        except FleetVirtError as error:
            raise AnsibleParserError(visible(f"{path}: {host.name}: {error}")) from None
        if not composed:
            known[key] = arguments
        return arguments
