# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a VM, read into its specification.

``from_options`` reads one, ``many`` a batch; both report every problem at once, each with its
path.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ..._errors import Problem
from ..._records import dataclass
from ..base import systems
from ..base.names import check_vm_name
from ..base.options import Reader, join, show, unknown_message
from ..base.settings import Setting, names, read_rows
from ..seed.specification import from_options as seed_from
from ..seed.specification import wanted as seed_wanted
from ..seed.types import ReadYaml, Seed, SeededNic
from . import device_groups, fleet_cpu, fragment, rules, settings, settings_devices, written
from . import settings_sources as sources
from .devices import Disk, Nic
from .domain import Domain, Placement
from .options_devices import console_from, cpu_from, disk_from, nic_from
from .profiles import WrittenDevice, resolve_disks, resolve_nics


@dataclass(frozen=True)
class Defaults:
    """Values for what a VM's own options leave out: the fleet's variables.

    ``fleet`` identifies the fleet in MAC addresses; ``fleet_cpu`` is checked here, and used where
    a VM is created: it is no setting of one that exists. ``ssh_public_keys`` are the controller's.
    ``read_yaml`` reads user-data that is YAML text; only the controller has it.
    """

    disk_profiles: t.Any = None
    nic_profiles: t.Any = None
    pool: str = "default"
    ssh_public_keys: tuple[str, ...] = ()
    fleet: str = ""
    fleet_cpu: object = None
    read_yaml: ReadYaml | None = None


def from_options(
    options: t.Any, *, path: str = "", defaults: Defaults | None = None
) -> tuple[Domain | None, list[Problem]]:
    """The VM that ``options`` describe, or every problem with them."""
    problems: list[Problem] = []
    if not isinstance(options, Mapping):
        Reader(options, path, problems)
        if options is None:
            problems.append(Problem(path, "no VM is given; write name: value pairs"))
        return None, problems
    reader = Reader(systems.beneath(options), path, problems)
    domain = _domain(reader, Reader(options, path, []), defaults or Defaults())
    _check_maximums(reader, domain)
    rules.check(domain, domain.placement.host, reader)
    fragment.check(reader, domain.xml, settings.VM)
    reader.finish(names(settings.VM))
    return (None if problems else domain), problems


def _domain(reader: Reader, asked: Reader, defaults: Defaults) -> Domain:
    """The VM; ``asked`` reads what the user wrote, ``reader`` what its system needs as well."""
    problems = reader.problems
    seed = _seed(reader, defaults)
    name = _name(reader, seed)
    values = read_rows(Domain, reader)
    profiles = values["disk_profile"], values["nic_profile"]
    disk_entries, nic_entries = _entries(reader, *profiles, defaults)
    disk_entries, absent_disks = _present(
        disk_entries, settings_devices.DiskSettings.state, problems
    )
    nic_entries, absent_nics = _present(nic_entries, settings_devices.NicSettings.state, problems)
    known = written.options(asked, disk_entries, nic_entries)
    disks = _disks(reader, _fit("disk", disk_entries, reader, known), defaults)
    nics = _nics(reader, _fit("nic", nic_entries, reader, known), defaults, name)
    _check_network(reader, seed, nics)
    return Domain(
        name=name,
        disks=disks,
        nics=nics,
        absent_disks=absent_disks,
        absent_nics=absent_nics,
        console=console_from(reader.structure("console"), reader.at("console"), problems),
        cpu=cpu_from(reader.structure("cpu"), reader.at("cpu"), problems),
        boot=_boot(reader, disks, nics),
        seed=seed,
        placement=_placement(reader),
        description=_description(reader),
        written=known,
        **device_groups.read(reader),
        **values,
    )


def _name(reader: Reader, seed: Seed | None) -> str:
    name = reader.value("name")
    host_name = seed is not None and seed.hostname is None and seed.fqdn is None
    reader.problems.extend(check_vm_name(name, reader.at("name"), host_name=host_name))
    return str(name)


def _check_maximums(reader: Reader, domain: Domain) -> None:
    most = domain.memory_max
    if most is not None and most < domain.memory:
        reader.problem(
            "memory_max",
            f"{show(reader.value('memory_max'))} is less than memory "
            f"({domain.memory} MiB); make it at least that",
        )
    most = domain.vcpus_max
    if most is not None and most < domain.vcpus:
        reader.problem(
            "vcpus_max", f"{most} is less than vcpus ({domain.vcpus}); make it at least that"
        )


def _check_network(reader: Reader, seed: Seed | None, nics: t.Sequence[Nic]) -> None:
    if seed is not None and seed.network:
        from ..seed import network as seed_network

        seeded = [SeededNic(nic.name, nic.mac) for nic in nics]
        reader.problems.extend(seed_network.problems(seed, seeded, reader.at("seed")))


def many(
    vms: t.Any, *, path: str = "vms", defaults: Defaults | None = None
) -> tuple[list[Domain], list[Problem]]:
    """All VMs of a batch, or every problem of all of them, and then no VM.

    ``path`` is where the list was written. If it is empty, or a prefix of variables (``vm_``), it
    is where the options of the only VM were written.
    """
    if isinstance(vms, Mapping) or not isinstance(vms, (list, tuple)):
        return [], [Problem(path, f"{show(vms)} is not a list of VMs; write - name: ... for each")]
    problems: list[Problem] = []
    fleet_cpu.read(defaults.fleet_cpu if defaults else None, problems)
    domains: list[tuple[str, Domain]] = []
    for index, options in enumerate(vms):
        where = path if not path or path.endswith("_") else f"{path}[{index}]"
        domain, vm_problems = from_options(options, path=where, defaults=defaults)
        problems.extend(vm_problems)
        if domain is not None:
            domains.append((where, domain))
    problems.extend(batch_problems(domains))
    return ([] if problems else [domain for _dummy, domain in domains]), problems


def batch_problems(domains: t.Sequence[tuple[str, Domain]]) -> list[Problem]:
    """Conflicts between VMs: names, MAC addresses and volumes given twice."""
    problems: list[Problem] = []
    seen: dict[tuple[str, str], str] = {}

    def once(kind: str, value: str, where: str, remedy: str, scope: str = "") -> bool:
        first = seen.setdefault((f"{kind} {scope}", value.lower()), where)
        if first != where:
            problems.append(
                Problem(where, f"{kind} {show(value)} is already used by {first}; {remedy}")
            )
        return first == where

    for path, domain in domains:
        where = join(path, "name")
        if not once("name", domain.name, where, "VM names are unique, ignoring case"):
            continue  # the rest would be the same as well
        for index, nic in enumerate(domain.nics):
            where = f"{join(path, 'nics')}[{index}].mac"
            once("MAC address", nic.mac, where, "give one of them another")
        for index, disk in enumerate(domain.disks):
            if disk.exists and not disk.readonly:
                where = f"{join(path, 'disks')}[{index}]"
                source, scope = sources.source(disk) or (), domain.placement.host or ""
                remedy = "two writers would destroy it: attach it once, or read-only"
                once("disk", " ".join(source), where, remedy, scope)
            elif disk.device == "disk" and not disk.exists:
                where = f"{join(path, 'disks')}[{index}].name"
                volume = f"{disk.pool}/{domain.volume_name(disk)}"
                once("volume", volume, where, "rename one of the VMs or disks")
        for config in domain.seed.network if domain.seed else ():
            for nic in domain.nics:
                if config.name == nic.name or config.mac == nic.mac:
                    where, scope = f"{join(path, 'seed')}.network", f"{nic.source} {nic.vlan}"
                    for address in config.addresses:
                        value = address.partition("/")[0]
                        once("address", value, where, "give one of them another", scope)
    return problems


def _seed(reader: Reader, defaults: Defaults) -> Seed | None:
    """The seed; by default a VM created from an image has one."""
    value = reader.structure("seed", secret=True)
    try:
        if not seed_wanted(value, default=reader.given("image")):
            return None
    except ValueError as error:
        reader.problem("seed", str(error))
        return None
    return seed_from(
        value, reader.at("seed"), defaults.ssh_public_keys, reader.problems, defaults.read_yaml
    )


def _entries(
    reader: Reader, disk_profile: str, nic_profile: str, defaults: Defaults
) -> tuple[list[WrittenDevice], list[WrittenDevice]]:
    """Disks and NICs as they were written, merged with their profiles."""
    disks, problems = resolve_disks(
        disk_profile, defaults.disk_profiles, reader.structure("disks"), reader.path
    )
    image, usable = reader.value("image"), any(_takes_image(entry) for entry in disks)
    if image is not None and not usable and not problems:
        reader.problem(
            "image", "the VM has no disk to put the image on; choose a disk profile or give disks"
        )
    nics, more = resolve_nics(
        nic_profile, defaults.nic_profiles, reader.structure("nics"), reader.path
    )
    reader.problems.extend([*problems, *more])
    return disks, nics


def _present(
    entries: t.Sequence[WrittenDevice], row: Setting[object], problems: list[Problem]
) -> tuple[list[WrittenDevice], tuple[str, ...]]:
    """The entries that should be present, and the names of the others."""
    states = [
        row.read(Reader(entry.options, entry.path, problems, entry.origins)) for entry in entries
    ]
    there = [entry for entry, state in zip(entries, states) if state != "absent"]
    return there, tuple(one.name for one, state in zip(entries, states) if state == "absent")


def _fit(
    kind: t.Literal["disk", "nic"],
    entries: t.Sequence[WrittenDevice],
    reader: Reader,
    known: t.Collection[str],
) -> list[WrittenDevice]:
    """Disks or NICs as the VM's operating system needs them, where nothing else is written."""
    system, fitted = reader.value("os"), []
    for entry in entries:
        own = {key for key in entry.options if f"{kind}s.{entry.name}.{key}" in known}
        options = systems.device(kind, system, entry.options, own)
        fitted.append(dataclasses.replace(entry, options=options))
    return fitted


def _takes_image(entry: WrittenDevice) -> bool:
    return entry.options.get("device") in (None, "disk") and not sources.given(entry.options)


def _disks(
    reader: Reader, entries: t.Sequence[WrittenDevice], defaults: Defaults
) -> tuple[Disk, ...]:
    overlay = settings.OVERLAY.read(reader)
    image = reader.value("image")
    first = next((entry.name for entry in entries if _takes_image(entry)), None)
    disks = []
    for entry in entries:
        taken = image if entry.name == first else None
        if taken is not None and entry.options.get("image") is not None:
            reader.problem("image", f"disk {show(entry.name)} has its own image; give only one")
        disks.append(
            disk_from(
                entry,
                reader.problems,
                pool=defaults.pool,
                overlay=overlay,
                image=taken,
                image_path=reader.at("image"),
            )
        )
    return tuple(disks)


def _nics(
    reader: Reader, entries: t.Sequence[WrittenDevice], defaults: Defaults, vm: str
) -> tuple[Nic, ...]:
    problems, fleet = reader.problems, defaults.fleet
    nics = [nic_from(entry, problems, fleet=fleet, vm=vm) for entry in entries]
    macs: dict[str, str] = {}
    for nic in nics:
        other = macs.setdefault(nic.mac, nic.name)
        if other != nic.name:
            reader.problem(
                "nics",
                f"{show(other)} and {show(nic.name)} have the same MAC address "
                f"{nic.mac}; give one of them another",
            )
    return tuple(nics)


def _boot(reader: Reader, disks: t.Sequence[Disk], nics: t.Sequence[Nic]) -> tuple[str, ...]:
    """Names of disks and NICs in the order the firmware tries them.

    Default: the first disk, then CD drives: an empty disk falls through to the installer.
    """
    order = settings.BOOT.read(reader)
    known = [disk.name for disk in disks] + [nic.name for nic in nics]
    for index, name in enumerate(order):
        if name not in known:
            reader.problems.append(
                Problem(
                    f"{reader.at('boot')}[{index}]", unknown_message("disk or NIC", name, known)
                )
            )
    if order:
        return order
    first = [disk.name for disk in disks if disk.device == "disk"][:1]
    return (*first, *(disk.name for disk in disks if disk.device == "cdrom"))


def _placement(reader: Reader) -> Placement:
    """``placement: {host, zone, tags, affinity, anti_affinity}``, each also accepted beside it."""
    inner = Reader(reader.structure("placement"), reader.at("placement"), reader.problems)
    places = {}
    for key in names(settings.PLACES):
        both = inner.given(key) and reader.given(key)
        if both:
            reader.problem(key, f"{key} is given here and in placement; give it once")
        places[key] = inner if inner.given(key) else reader
    inner.finish(names(settings.PLACES))
    return Placement(
        host=settings.HOST.read(places["host"]),
        zone=settings.ZONE.read(places["zone"]),
        tags=settings.TAGS.read(places["tags"]),
        affinity=settings.AFFINITY.read(places["affinity"]),
        anti_affinity=settings.ANTI_AFFINITY.read(places["anti_affinity"]),
    )


def _description(reader: Reader) -> str | None:
    value = reader.value("description")
    if value is None:
        return None
    if not isinstance(value, str) or not value.replace("\n", "").replace("\t", "").isprintable():
        reader.problem(
            "description",
            f"{show(value)} has control characters, or is not text; write printable text",
        )
        return None
    return str(value) or None
