# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of a VM that are groups of rows: an optional group, or a list of them.

A group is read, written and compared by its rows. ``check`` refuses what rows cannot; ``decide``
writes what is the same in each of its elements, or depends on the machine.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ... import _lxml
from ..._records import dataclass
from ..base import places
from ..base.options import Reader, show, to_boolean
from ..base.settings import Group, names, read_rows, write
from . import settings_machine as machine
from . import settings_peripherals as peripherals

if t.TYPE_CHECKING:
    from ..._errors import Problem
    from ..._lxml import Element

_PCS = ("x86_64", "i686")


class Machine(t.NamedTuple):
    """What was chosen for the VM."""

    arch: str
    machine: str
    domain_type: str


def _nothing(_reader: Reader) -> None:
    return


def _as_it_is(_element: Element, _chosen: Machine) -> None:
    return


@dataclass(frozen=True)
class Kind:
    """A group, the type it becomes, and ``shorthand``, the setting that a bare word sets.

    ``recommended`` is what a bare ``true`` means. ``before`` are the tags of devices that it stands
    before, for readers.
    """

    group: Group
    spec_class: type[t.Any]
    shorthand: str = ""
    check: Callable[[Reader], None] = _nothing
    decide: Callable[[Element, Machine], None] = _as_it_is
    recommended: t.Mapping[str, object] | None = None
    before: tuple[str, ...] = ()

    @property
    def several(self) -> bool:
        """Whether it is a list."""
        return self.group.of == "list"


def _needs(reader: Reader, *keys: str) -> None:
    for key in keys:
        if not reader.given(key):
            reader.problem(key, f"this is missing; write {key}")


def _check_cell(reader: Reader) -> None:
    _needs(reader, "cpus", "memory")


def _check_numatune(reader: Reader) -> None:
    _needs(reader, "nodeset")


def _check_clock(reader: Reader) -> None:
    if (reader.value("offset") == "timezone") != reader.given("timezone") and (
        reader.given("offset")
    ):
        reader.problem("timezone", "offset timezone and the zone go together; give both or neither")


def _check_hyperv(reader: Reader) -> None:
    for key, need in (("synic", "vpindex"), ("stimer", "synic")):
        if reader.is_true(key) and not reader.is_true(need):
            reader.problem(key, f"{key} needs {need}; set that too")


def _check_filesystem(reader: Reader) -> None:
    _needs(reader, "source", "target")
    if reader.value("driver") != "virtiofs":
        return
    if reader.value("accessmode") not in (None, "passthrough"):
        reader.problem("accessmode", "virtiofs supports only passthrough; leave it out")
    if reader.is_true("readonly"):
        reader.problem("readonly", "virtiofs cannot be read-only; use driver path, or leave it out")


def _check_hostdev(reader: Reader) -> None:
    given = [key for key in ("pci", "usb") if reader.given(key)]
    if len(given) != 1:
        reader.problem("pci", "a device is either pci or usb; give one of them")


_OF_SERIALS = {
    "file": ("path",),
    "dev": ("path",),
    "unix": ("path", "mode"),
    "tcp": ("host", "port", "mode"),
}


def _check_serial(reader: Reader) -> None:
    kind = str(reader.value("type") or "pty")
    needed = _OF_SERIALS.get(kind, ())
    _needs(reader, *needed)
    taken = (*needed, *(("protocol",) if kind == "tcp" else ()))
    for key in ("path", "mode", "host", "port", "protocol"):
        if reader.given(key) and key not in taken:
            reader.problem(key, f"a serial port of type {show(kind)} has no {key}; leave it out")


def _check_channel(reader: Reader) -> None:
    _needs(reader, "name")
    if reader.value("name") == "org.qemu.guest_agent.0":
        reader.problem("name", "the guest agent's channel always exists; leave it out")


def clock(root: Element, chosen: Machine) -> None:
    """Write the clock of a VM that does not set it."""
    _clock(places.reach(root, "clock"), chosen)


def _clock(element: Element, chosen: Machine) -> None:
    if element.get("timezone"):
        places.put(element, "@offset", "timezone")
    places.put(element, "@offset", "utc")
    if chosen.domain_type == "kvm" and chosen.arch in _PCS:
        # keeps guests of a busy host on time: late ticks are made up for, not dropped
        usual = {"rtc": ("tickpolicy", "catchup"), "pit": ("tickpolicy", "delay")}
        there = [one.get("name") for one in element.iterfind("timer")]
        for name, (key, value) in {**usual, "hpet": ("present", "no")}.items():
            if name not in there:
                _lxml.add(element, "timer", {"name": name, key: value})


def _hyperv(element: Element, _chosen: Machine) -> None:
    """Its timers need its clock."""
    if places.texts(element, "stimer/@state") == ["on"]:
        for root in element.iterancestors("domain"):
            clock = places.reach(root, "clock")
            if all(one.get("name") != "hypervclock" for one in clock.iterfind("timer")):
                _lxml.add(clock, "timer", {"name": "hypervclock", "present": "yes"})


def _watchdog(element: Element, chosen: Machine) -> None:
    places.put(element, "@model", "diag288" if chosen.arch == "s390x" else "i6300esb")


def _tpm(element: Element, chosen: Machine) -> None:
    places.put(element, "@model", "tpm-crb" if chosen.arch in _PCS else "tpm-tis")
    places.put(element, "backend/@type", "emulator")
    places.put(element, "backend/@version", "2.0")


def _video(element: Element, chosen: Machine) -> None:
    # the one that needs no driver in the guest; only virtio exists on anything but PCs
    places.put(element, "model/@type", "vga" if chosen.arch in _PCS else "virtio")


def _sound(element: Element, chosen: Machine) -> None:
    places.put(element, "@model", "ich9" if "q35" in chosen.machine else "ich6")


def _iommu(element: Element, chosen: Machine) -> None:
    places.put(element, "@model", "intel" if chosen.arch in _PCS else "smmuv3")


_PANICS = {"x86_64": "isa", "i686": "isa", "ppc64le": "pseries", "ppc64": "pseries"}


def _panic(element: Element, chosen: Machine) -> None:
    places.put(element, "@model", _PANICS.get(chosen.arch, "pvpanic"))


def _filesystem(element: Element, _chosen: Machine) -> None:
    places.put(element, "@type", "mount")
    places.put(element, "@accessmode", "passthrough" if _is_virtiofs(element) else "mapped")
    if _is_virtiofs(element):
        for root in element.iterancestors("domain"):
            places.put(root, "memoryBacking/source/@type", "memfd")
            places.put(root, "memoryBacking/access/@mode", "shared")


def _is_virtiofs(element: Element) -> bool:
    return places.texts(element, "driver/@type") == ["virtiofs"]


def _channel(element: Element, _chosen: Machine) -> None:
    places.put(element, "target/@type", "virtio")


_OF_EVERY_VM = ("rng", "memballoon")
KINDS: tuple[Kind, ...] = (
    Kind(
        peripherals.WATCHDOGS, peripherals.Watchdog, "action", decide=_watchdog, before=_OF_EVERY_VM
    ),
    Kind(peripherals.TPMS, peripherals.Tpm, "model", decide=_tpm, before=_OF_EVERY_VM),
    Kind(machine.MEMORY_BACKINGS, machine.MemoryBacking),
    Kind(machine.NUMATUNES, machine.Numatune, check=_check_numatune),
    Kind(machine.NUMAS, machine.Cell, check=_check_cell),
    Kind(machine.CPUTUNES, machine.Cputune),
    Kind(machine.MEMTUNES, machine.Memtune),
    Kind(machine.CLOCKS, machine.ClockSettings, "offset", _check_clock, _clock),
    Kind(machine.FEATURES, machine.Features),
    Kind(machine.HYPERVS, machine.Hyperv, "", _check_hyperv, _hyperv, machine.RECOMMENDED),
    Kind(peripherals.VIDEOS, peripherals.Video, "model", decide=_video),
    Kind(peripherals.SOUNDS, peripherals.Sound, "model", decide=_sound),
    Kind(peripherals.PANICS, peripherals.Panic, "model", decide=_panic),
    Kind(peripherals.IOMMUS, peripherals.Iommu, "model", decide=_iommu),
    Kind(peripherals.FILESYSTEMS, peripherals.Filesystem, "", _check_filesystem, _filesystem),
    Kind(peripherals.HOSTDEVS, peripherals.Hostdev, check=_check_hostdev),
    Kind(peripherals.SERIALS, peripherals.Serial, check=_check_serial),
    Kind(peripherals.CHANNELS, peripherals.Channel, "", _check_channel, _channel),
)


def read(reader: Reader) -> dict[str, t.Any]:
    """The value of each group of a VM's options: one, None, or a tuple of them."""
    return {kind.group.name: _read(kind, reader) for kind in KINDS}


def _read(kind: Kind, reader: Reader) -> object:
    name = kind.group.name
    value, path = reader.structure(name), reader.at(name)
    if not kind.several:
        device = optional_reader(value, path, reader.problems, kind.shorthand)
        if device is not None and not device.written and kind.recommended:
            device = Reader(kind.recommended, path, reader.problems)
        return None if device is None else _made(kind, device)
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        reader.problem(name, f"{show(value)} is not a list; write - and a mapping for each")
        return ()
    entries = enumerate(value)
    return tuple(
        _made(kind, Reader(entry or {}, f"{path}[{index}]", reader.problems))
        for index, entry in entries
    )


def _made(kind: Kind, reader: Reader) -> object:
    kind.check(reader)
    made = kind.spec_class(**read_rows(kind.spec_class, reader))
    reader.finish(names(kind.group.settings))
    return made


def optional_reader(
    value: object, path: str, problems: list[Problem], shorthand: str
) -> Reader | None:
    """The reader of an optional device; a bare word is its setting ``shorthand``."""
    if isinstance(value, str):
        try:
            value = to_boolean(value)  # as the command line gives it
        except ValueError:
            value = {shorthand: value} if shorthand else value
    if value is None or value is False:
        return None
    return Reader(None if value is True else value, path, problems)


def add(root: Element, domain: object, chosen: Machine) -> None:
    """Write every group that the specification ``domain`` has into its XML."""
    for kind in KINDS:
        value = getattr(domain, kind.group.name)
        place = str(kind.group.xml)
        for whole in value if kind.several else [value] if value is not None else []:
            if kind.several:
                below, _dummy, tag = place.rpartition("/")
                element = _lxml.add(places.reach(root, below), tag)
            else:
                element = places.reach(root, place)
            write(kind.group.settings, element, whole)
            kind.decide(element, chosen)
            _move_before(element, kind.before)


def _move_before(element: Element, tags: t.Sequence[str]) -> None:
    above = element.getparent()
    for tag in tags:
        later = above.find(tag) if above is not None else None
        if later is not None:
            later.addprevious(element)
            return
