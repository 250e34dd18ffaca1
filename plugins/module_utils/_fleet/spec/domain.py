# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The specification of a VM: one type from the playbook's variables to libvirt's XML.

``from_options`` reads one, ``many`` a batch; both report every problem at once, each with its
path. What a host decides (paths, machine type, CPU baseline, UUID) is not here: ``domain_xml``
takes it as arguments.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..._errors import Problem
from ..base import systems
from ..base.names import check_vm_name, volume_name
from ..base.options import Reader, join, show, unknown_message
from ..base.settings import Setting, fields_of, names, read_generated_fields
from ..images.source import ImageSource
from ..seed.specification import from_options as seed_from
from ..seed.specification import wanted as seed_wanted
from ..seed.types import ReadYaml, Seed, SeededNic
from . import (
    device_groups,
    devices,
    fragment,
    rules,
    settings,
    settings_devices,
    settings_machine,
    written,
)
from . import settings_sources as sources
from .device_groups import (
    Cell,
    Channel,
    Clock,
    Cputune,
    Features,
    Filesystem,
    Hostdev,
    Hyperv,
    MemoryBacking,
    Memtune,
    Numatune,
    Panic,
    Serial,
    Sound,
    Tpm,
    Video,
    Watchdog,
)
from .devices import Console, Cpu, Disk, Nic
from .profiles import WrittenDevice, resolve_disks, resolve_nics


@dataclass(frozen=True)
class Placement:
    """Where the VM may run: a given host, a zone, hosts with tags, away from groups."""

    host: str | None = None
    zone: str | None = None
    tags: tuple[str, ...] = ()
    anti_affinity: tuple[str, ...] = ()


@dataclass(frozen=True)
class Defaults:
    """Values for what a VM's own options leave out: the fleet's variables.

    ``fleet`` identifies the fleet in MAC addresses; ``ssh_public_keys`` are the controller's.
    ``read_yaml`` reads user-data that is YAML text; only the controller has it.
    """

    disk_profiles: t.Any = None
    nic_profiles: t.Any = None
    pool: str = "default"
    ssh_public_keys: tuple[str, ...] = ()
    fleet: str = ""
    read_yaml: ReadYaml | None = None


@dataclass(frozen=True)
@fields_of(settings.VM)
class Domain:
    """The specification of one VM; memory in MiB, ``written`` as of :func:`written.options`."""

    name: str
    vcpus: int = 1
    vcpus_max: int | None = None
    memory: int = 1024
    memory_max: int | None = None
    disks: tuple[Disk, ...] = ()
    nics: tuple[Nic, ...] = ()
    absent_disks: tuple[str, ...] = ()
    absent_nics: tuple[str, ...] = ()
    disk_profile: str = "default"
    nic_profile: str = "default"
    start: bool = True
    autostart: bool = False
    wait: bool = True
    console: Console = field(default_factory=Console)
    firmware: str | None = None
    cpu: Cpu = field(default_factory=Cpu)
    machine: str | None = None
    arch: str | None = None
    domain_type: str | None = None
    boot: tuple[str, ...] = ()
    watchdog: Watchdog | None = None
    tpm: Tpm | None = None
    memory_backing: MemoryBacking | None = None
    numatune: Numatune | None = None
    numa: tuple[Cell, ...] = ()
    cputune: Cputune | None = None
    memtune: Memtune | None = None
    clock: Clock | None = None
    features: Features | None = None
    hyperv: Hyperv | None = None
    video: Video | None = None
    sound: Sound | None = None
    panic: Panic | None = None
    filesystems: tuple[Filesystem, ...] = ()
    hostdevs: tuple[Hostdev, ...] = ()
    serials: tuple[Serial, ...] = ()
    channels: tuple[Channel, ...] = ()
    seed: Seed | None = None
    placement: Placement = field(default_factory=Placement)
    groups: tuple[str, ...] = ()
    start_order: int | None = None
    start_delay: int | None = None
    description: str | None = None
    xml: str | None = None
    written: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @property
    def image(self) -> ImageSource | None:
        """The image of the first disk that has one, else that of the first CD."""
        disks = sorted((d for d in self.disks if d.image), key=lambda disk: disk.device != "disk")
        return disks[0].image if disks else None

    def volume_name(self, disk: Disk) -> str:
        """The name of the volume that is this disk's own."""
        return volume_name(self.name, disk.name, disk.format)

    def without_secrets(self) -> Domain:
        """The same VM without secrets, for output."""
        console = dataclasses.replace(self.console, password=None)
        seed = self.seed.without_secrets(self.name) if self.seed else None
        return dataclasses.replace(self, console=console, seed=seed)

    @property
    def seeded_nics(self) -> list[SeededNic]:
        """Its NICs as its seed describes them."""
        return [SeededNic(nic.name, nic.mac) for nic in self.nics]


def from_options(
    options: t.Any, *, path: str = "", defaults: Defaults | None = None
) -> tuple[Domain | None, list[Problem]]:
    """The VM that ``options`` describe, or every problem with them."""
    chosen = defaults or Defaults()
    problems: list[Problem] = []
    if not isinstance(options, Mapping):
        Reader(options, path, problems)
        if options is None:
            problems.append(Problem(path, "no VM is given; write name: value pairs"))
        return None, problems
    asked = Reader(options, path, [])
    reader = Reader(systems.beneath(options), path, problems)
    seed = _seed(reader, chosen)
    name = reader.value("name")
    host_name = seed is not None and seed.hostname is None and seed.fqdn is None
    problems.extend(check_vm_name(name, reader.at("name"), host_name=host_name))
    memory = settings.MEMORY.read(reader)
    memory_max = settings.MEMORY_MAX.read(reader)
    if memory_max is not None and memory_max < memory:
        reader.problem(
            "memory_max",
            f"{show(reader.value('memory_max'))} is less than memory "
            f"({memory} MiB); make it at least that",
        )
    vcpus, vcpus_max = settings.VCPUS.read(reader), settings.VCPUS_MAX.read(reader)
    if vcpus_max is not None and vcpus_max < vcpus:
        reader.problem(
            "vcpus_max", f"{vcpus_max} is less than vcpus ({vcpus}); make it at least that"
        )
    disk_profile = settings.DISK_PROFILE.read(reader)
    nic_profile = settings.NIC_PROFILE.read(reader)
    disk_entries, nic_entries = _entries(reader, disk_profile, nic_profile, chosen)
    disk_entries, absent_disks = _present(
        disk_entries, settings_devices.DiskSettings.state, problems
    )
    nic_entries, absent_nics = _present(nic_entries, settings_devices.NicSettings.state, problems)
    known = written.options(asked, disk_entries, nic_entries)
    disks = _disks(reader, _fit("disk", disk_entries, reader, known), chosen)
    nics = _nics(reader, _fit("nic", nic_entries, reader, known), chosen, str(name))
    if seed is not None and seed.network:
        from ..seed import network as seed_network

        seeded = [SeededNic(nic.name, nic.mac) for nic in nics]
        problems.extend(seed_network.problems(seed, seeded, reader.at("seed")))
    domain = Domain(
        name=str(name),
        vcpus=vcpus,
        vcpus_max=vcpus_max,
        memory=memory,
        memory_max=memory_max,
        disks=disks,
        nics=nics,
        absent_disks=absent_disks,
        absent_nics=absent_nics,
        disk_profile=disk_profile,
        nic_profile=nic_profile,
        start=settings.START.read(reader),
        autostart=settings.AUTOSTART.read(reader),
        wait=settings.WAIT.read(reader),
        console=devices.console_from(reader.structure("console"), reader.at("console"), problems),
        firmware=settings.FIRMWARE.read(reader),
        cpu=devices.cpu_from(reader.structure("cpu"), reader.at("cpu"), problems),
        machine=settings.MACHINE.read(reader),
        arch=settings.ARCH.read(reader),
        domain_type=settings.DOMAIN_TYPE.read(reader),
        boot=_boot(reader, disks, nics),
        seed=seed,
        placement=_placement(reader),
        groups=settings.GROUPS.read(reader),
        start_order=settings_machine.START_ORDER.read(reader),
        start_delay=settings_machine.START_DELAY.read(reader),
        description=_description(reader),
        xml=fragment.XML.read(reader),
        written=known,
        **device_groups.read(reader),
        **read_generated_fields(Domain, reader),
    )
    rules.check(domain, domain.placement.host, reader)
    fragment.check(reader, domain.xml, settings.VM)
    reader.finish(names(settings.VM))
    return (None if problems else domain), problems


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


def machine_problems(domain: Domain, *, machine: str, arch: str, path: str = "") -> list[Problem]:
    """What the machine type that was chosen for the VM does not support."""
    problems: list[Problem] = []
    modern = "q35" in machine or machine == "microvm" or arch not in ("x86_64", "i686")
    for index, disk in enumerate(domain.disks):
        if disk.bus == "ide" and modern:
            problems.append(
                Problem(
                    f"{join(path, 'disks')}[{index}].bus",
                    f"machine type {machine} has no 'ide'; use virtio, scsi or sata, or machine pc",
                )
            )
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
            devices.disk_from(
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
    nics = [_nic(entry, reader, defaults, vm) for entry in entries]
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


def _nic(entry: WrittenDevice, reader: Reader, defaults: Defaults, vm: str) -> Nic:
    return devices.nic_from(entry, reader.problems, fleet=defaults.fleet, vm=vm)


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
    """``placement: {host, zone, tags, anti_affinity}``, each also accepted beside it."""
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
