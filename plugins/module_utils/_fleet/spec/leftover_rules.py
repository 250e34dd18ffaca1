# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of a part of libvirt's domain XML, in a copy of the VM, that no setting describes.

The table is complete: what no line of it names is refused, like what libvirt adds in a later
version. A line is about its element or attribute and everything below; of several lines that match
the longest decides. ``*`` is any element. Conditions in brackets are about an element's attributes
(``[@type='pci'|'usb']``) or its text (``[text='/dev/random']``, ``[text]`` for any).
"""

from __future__ import annotations

import ipaddress
import re
import typing as t
from collections.abc import Iterator

from ..._records import dataclass
from ..base.metadata import NAMESPACE

if t.TYPE_CHECKING:
    from ..._lxml import Element

# CARRIED: the copy has it too. MADE: the copy gets its own from libvirt, its hypervisor or a
# setting, or none (its ``value``, if the line has one). LEFT: the copy lacks it, and that is said.
# REFUSED: two VMs cannot both have it, or it is of no use on another hypervisor.
Fate = t.Literal["carried", "made", "left", "refused"]
CARRIED: t.Final = "carried"
MADE: t.Final = "made"
LEFT: t.Final = "left"
REFUSED: t.Final = "refused"

# The data of a disk in a file of its own, which is one file in a copy
DATA_STORE = "devices/disk/source/dataStore"

_LIBOSINFO = "{http://libosinfo.org/xmlns/libvirt/domain/1.0}libosinfo"
_COCKPIT = "{https://github.com/cockpit-project/cockpit/tree/main/pkg/machines}data"
_ADDRESS = "<address>"  # in a condition: any IP or MAC address
_MAC = re.compile(r"(?:[0-9A-Fa-f]{1,2}:){5}[0-9A-Fa-f]{1,2}")
_CONDITION = re.compile(r"\[(?P<what>@[\w:-]+|text)(?:=(?P<values>[^\]]+))?\]")


@dataclass(frozen=True)
class Line:
    """A line of the table; ``value`` is what a part that is made anew has in the copy. ``own``: it
    identifies one VM, so a whole definition that becomes that of another VM is without it."""

    path: str
    fate: Fate
    value: str | None = None
    own: bool = False

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path; a namespace and a condition may have slashes in them."""
        return _split(self.path)


def _split(path: str) -> tuple[str, ...]:
    parts, depth, start = [], 0, 0
    for index, char in enumerate(path):
        depth += (char in "[{") - (char in "]}")
        if char == "/" and not depth:
            parts.append(path[start:index])
            start = index + 1
    return (*parts, path[start:])


def _lines(fate: Fate, *paths: str) -> tuple[Line, ...]:
    return tuple(Line(path, fate) for path in paths)


def _own(fate: Fate, *paths: str) -> tuple[Line, ...]:
    return tuple(Line(path, fate, own=True) for path in paths)


_IDENTITIES = (
    Line("genid", MADE, "", own=True),  # libvirt generates one
    *_own(MADE, "hwuuid", "sysinfo/system/entry[@name='uuid']"),  # libvirt takes the VM's own
    # programs in the guest, and inventories, take these for the machine
    *_own(LEFT, "sysinfo/system/entry[@name='serial']", "sysinfo/chassis/entry[@name='serial']"),
    *_own(LEFT, "sysinfo/baseBoard/entry[@name='serial']"),
    *_own(LEFT, "sysinfo/chassis/entry[@name='asset']", "sysinfo/baseBoard/entry[@name='asset']"),
    *_own(MADE, "devices/disk/serial", "devices/disk/wwn"),
    # the filter of libvirt binds the NIC to them; it has the MAC address of the NIC by itself
    *_own(MADE, "devices/interface/filterref/parameter[@name='MAC'][@value]"),
    *_own(LEFT, "devices/interface/filterref/parameter[@name='IP'|'IPV6']"),
    *_own(LEFT, f"devices/interface/filterref/parameter[@value={_ADDRESS}]"),
    *_own(MADE, "devices/interface/target", "devices/interface/source/@portid"),
    *_own(MADE, "devices/interface/virtualport/parameters/@interfaceid"),
    *_own(MADE, "devices/interface/virtualport/parameters/@instanceid"),
    *_own(MADE, "devices/interface/backend/@logFile"),
    Line("devices/vsock/cid/@auto", MADE, "yes", own=True),
    *_own(MADE, "devices/vsock/cid/@address"),
    # memory and devices that only one VM has; whoever shares them writes into the other's
    *_own(REFUSED, "devices/shmem", "devices/hostdev[@type='mdev']"),
    *_own(REFUSED, "devices/lease"),
    # a socket has one VM at its other end
    *_own(REFUSED, "devices/interface[@type='vhostuser']", "devices/disk[@type='vhostuser']"),
    *_own(REFUSED, "devices/tpm/backend/source"),
    *_own(MADE, "os/varstore/@path", "devices/pstore/path"),
    *_own(REFUSED, "devices/memory[@model='nvdimm'|'virtio-pmem']"),
)

_MACHINE = (
    # identities, and what libvirt counts
    *_lines(MADE, "name", "uuid", "@id", f"metadata/{{{NAMESPACE}}}*"),
    *_lines(CARRIED, f"metadata/{_LIBOSINFO}"),
    *_lines(MADE, f"metadata/{_COCKPIT}"),  # how it was installed
    # the settings say it, in their units
    *_lines(MADE, "@type", "memory", "currentMemory", "features/tcg"),
    *_lines(CARRIED, "title", "description", "vcpu", "vcpus", "maxMemory", "memoryBacking"),
    *_lines(CARRIED, "iothreads", "iothreadids", "defaultiothread", "cpu", "cputune", "memtune"),
    *_lines(CARRIED, "numatune", "blkiotune/weight", "resource", "features", "clock", "pm", "perf"),
    *_lines(REFUSED, "blkiotune/device"),  # a path of its hypervisor
    *_lines(CARRIED, "blkiotune", "keywrap", "throttlegroups", "launchSecurity"),
    *_lines(REFUSED, "launchSecurity/dhCert", "launchSecurity/session", "launchSecurity/idBlock"),
    *_lines(REFUSED, "launchSecurity/idAuth", "launchSecurity/hostData"),
    *_lines(CARRIED, "on_poweroff", "on_reboot", "on_crash", "on_lockfailure"),
    *_lines(CARRIED, "seclabel"),
    *_lines(MADE, "seclabel[@type='dynamic']/label", "seclabel/imagelabel"),
    *_lines(CARRIED, "sysinfo"),
    *_lines(REFUSED, "sysinfo/entry/@file"),  # a file of its hypervisor
    *_lines(CARRIED, "os/type/@machine", "os/boot", "os/bootmenu", "os/bios", "os/smbios"),
    *_lines(CARRIED, "os/kernel", "os/initrd", "os/cmdline"),
    *_lines(REFUSED, "os/type", "os/dtb", "os/shim", "os/acpi", "os/loader/@stateless"),
    *_lines(REFUSED, "os/root", "os/init", "os/initarg", "os/initenv", "os/initdir", "os/inituser"),
    *_lines(REFUSED, "os/initgroup", "os/idmap", "bootloader", "bootloader_args", "idmap"),
    # libvirt chooses the files of the firmware that the settings name
    *_lines(MADE, "os/type/@arch", "os/@firmware", "os/firmware", "os/loader", "os/nvram"),
    *_lines(MADE, "os/varstore"),
    *_lines(REFUSED, "os/loader[@type='rom'][text]"),
)
_OF_EVERY_DEVICE = (
    *_lines(MADE, "devices/*/address"),
    *_lines(CARRIED, "devices/*/alias", "devices/*/boot", "devices/*/acpi", "devices/*/driver"),
    *_lines(CARRIED, "devices/*/rom"),
    *_lines(REFUSED, "devices/*/rom/@file"),  # a file of its hypervisor
    *_lines(MADE, "devices/emulator"),
)
_DISKS = (
    *_lines(REFUSED, "devices/disk"),  # one that the settings cannot describe
    # a copy of the source's, with its own name, path and format
    *_lines(MADE, "devices/disk/@type", "devices/disk/source", "devices/disk/backingStore"),
    *_lines(MADE, "devices/disk/mirror", "devices/disk/target/@dev"),
    *_lines(MADE, "devices/disk/driver/@name", "devices/disk/driver/@type"),
    *_lines(CARRIED, "devices/disk/source/seclabel"),
    *_lines(MADE, "devices/disk/source/seclabel/label"),
    *_lines(REFUSED, "devices/disk/source/reservations", "devices/disk/source/encryption"),
    *_lines(REFUSED, "devices/disk/source/slices", "devices/disk/encryption", "devices/disk/auth"),
    *_lines(REFUSED, "devices/disk/shareable", "devices/disk/backenddomain"),
    *_lines(LEFT, DATA_STORE),
    *_lines(CARRIED, "devices/disk/@device", "devices/disk/@model", "devices/disk/@snapshot"),
    *_lines(CARRIED, "devices/disk/@rawio", "devices/disk/@sgio", "devices/disk/target"),
    *_lines(CARRIED, "devices/disk/vendor", "devices/disk/product", "devices/disk/geometry"),
    *_lines(CARRIED, "devices/disk/blockio", "devices/disk/iotune", "devices/disk/readonly"),
    *_lines(CARRIED, "devices/disk/transient", "devices/disk/throttlefilters"),
)
_NICS = (
    *_lines(REFUSED, "devices/interface"),  # one that the settings cannot describe
    *_lines(CARRIED, "devices/interface[@type='user'|'null']"),
    *_lines(MADE, "devices/interface/mac"),
    *_lines(CARRIED, "devices/interface/filterref", "devices/interface/virtualport"),
    # of a server, which VMs share
    *_lines(CARRIED, "devices/interface/filterref/parameter[@name='DHCPSERVER'][@value]"),
    *_lines(CARRIED, "devices/interface/model", "devices/interface/bandwidth"),
    *_lines(CARRIED, "devices/interface/vlan", "devices/interface/link", "devices/interface/mtu"),
    *_lines(CARRIED, "devices/interface/coalesce", "devices/interface/guest"),
    *_lines(CARRIED, "devices/interface/backend", "devices/interface/tune"),
    *_lines(CARRIED, "devices/interface/port", "devices/interface/teaming"),
    *_lines(CARRIED, "devices/interface/@trustGuestRxFilters"),
    *_lines(REFUSED, "devices/interface/source", "devices/interface/script"),
    *_lines(REFUSED, "devices/interface/downscript", "devices/interface/backenddomain"),
    *_lines(REFUSED, "devices/interface/ip", "devices/interface/route"),
    *_lines(REFUSED, "devices/interface/portForward", "devices/interface/@managed"),
    *_lines(REFUSED, "devices/interface/@type", "devices/interface/backend/@hostname"),
    *_lines(CARRIED, "devices/interface[@type='user'|'null']/@type"),
)
_CONTROLLERS = (
    *_lines(CARRIED, "devices/controller"),
    # the settings' devices have their own topology, with spare ports
    *_lines(MADE, "devices/controller[@type='pci']"),
    *_lines(CARRIED, "devices/controller[@type='pci']/pcihole64"),
    *_lines(
        REFUSED, "devices/controller[@type='pci'][@model='pci-expander-bus'|'pcie-expander-bus']"
    ),
)
_CHARACTER_DEVICES = (
    *_lines(REFUSED, "devices/serial", "devices/parallel", "devices/channel", "devices/smartcard"),
    *_lines(CARRIED, "devices/parallel[@type='pty'|'null']"),
    *_lines(REFUSED, "devices/console"),
    *_lines(CARRIED, "devices/console[@type='pty']"),
    *_lines(CARRIED, "devices/channel[@type='qemu-vdagent'|'spiceport'|'dbus']"),
    *_lines(CARRIED, "devices/smartcard[@mode='host']", "devices/smartcard[@type='spicevmc']"),
    # paths, sockets and logs of its hypervisor
    *_lines(MADE, "devices/serial/source", "devices/serial/log", "devices/console/log"),
    # the first console is the first serial port
    *_lines(MADE, "devices/console/@type", "devices/console/protocol"),
    *_lines(CARRIED, "devices/console[@type='pty']/@type"),
    *_lines(MADE, "devices/console/source", "devices/console/@tty", "devices/parallel/source"),
    *_lines(MADE, "devices/serial/@tty", "devices/channel/@tty", "devices/channel/log"),
    *_lines(MADE, "devices/channel[@type='unix'|'pty']/source", "devices/channel/target/@state"),
    *_lines(MADE, "devices/serial/target/@port", "devices/console/target/@port"),
    *_lines(CARRIED, "devices/serial/target", "devices/serial/protocol"),
    *_lines(REFUSED, "devices/serial/@type"),
    *_lines(CARRIED, "devices/channel/target"),
)
_SCREENS = (
    *_lines(REFUSED, "devices/graphics"),  # a second one
    *_lines(CARRIED, "devices/graphics[@type='egl-headless']"),
    # where it listens is the settings' part
    *_lines(MADE, "devices/graphics/@port", "devices/graphics/@autoport"),
    *_lines(MADE, "devices/graphics/@tlsPort", "devices/graphics/@websocket"),
    *_lines(MADE, "devices/graphics/@listen", "devices/graphics/listen"),
    *_lines(MADE, "devices/graphics/@socket", "devices/graphics/@passwd"),
    *_lines(MADE, "devices/graphics/@passwdValidTo", "devices/graphics/@connected"),
    *_lines(MADE, "devices/graphics/gl/@rendernode", "devices/video/*/*/@rendernode"),
    *_lines(CARRIED, "devices/graphics/@keymap", "devices/graphics/@sharePolicy"),
    *_lines(CARRIED, "devices/graphics/@powerControl", "devices/graphics/@defaultMode"),
    *_lines(CARRIED, "devices/graphics/@websocketGenerated"),
    *_lines(CARRIED, "devices/graphics/channel", "devices/graphics/image"),
    *_lines(CARRIED, "devices/graphics/jpeg", "devices/graphics/zlib"),
    *_lines(CARRIED, "devices/graphics/playback", "devices/graphics/streaming"),
    *_lines(CARRIED, "devices/graphics/clipboard", "devices/graphics/mouse"),
    *_lines(CARRIED, "devices/graphics/filetransfer", "devices/graphics/gl"),
    *_lines(CARRIED, "devices/graphics/audio", "devices/video", "devices/sound", "devices/audio"),
    *_lines(REFUSED, "devices/audio[@type='file']"),
    *_lines(CARRIED, "devices/input"),
    *_lines(REFUSED, "devices/input[@type='passthrough'|'evdev']"),
)
_FURTHER_DEVICES = (
    *_lines(CARRIED, "devices/memballoon", "devices/panic", "devices/watchdog", "devices/hub"),
    *_lines(CARRIED, "devices/iommu", "devices/vsock", "devices/nvram", "devices/redirfilter"),
    *_lines(CARRIED, "devices/crypto", "devices/pstore"),
    *_lines(CARRIED, "devices/rng"),
    *_lines(REFUSED, "devices/rng/backend"),  # a socket, or any file
    *_lines(CARRIED, "devices/rng/backend[@model='builtin']"),
    *_lines(
        CARRIED,
        "devices/rng/backend[@model='random'][text='/dev/random'|'/dev/urandom'|'/dev/hwrng']",
    ),
    *_lines(REFUSED, "devices/redirdev"),
    *_lines(CARRIED, "devices/redirdev[@type='spicevmc']"),
    *_lines(REFUSED, "devices/memory"),  # persistent, or a device of its hypervisor
    *_lines(CARRIED, "devices/memory[@model='dimm'|'virtio-mem'|'sgx-epc']"),
    *_lines(MADE, "devices/memory/target/current", "devices/memory/target/address"),
    *_lines(REFUSED, "devices/memory/source/path"),
    # the TPM's state stays with its VM
    *_lines(REFUSED, "devices/tpm"),
    *_lines(CARRIED, "devices/tpm/backend"),
    *_lines(REFUSED, "devices/tpm/backend/@type", "devices/tpm/backend/encryption"),
    *_lines(REFUSED, "devices/tpm/backend/device"),
    *_lines(MADE, "devices/tpm/backend/@debug"),
    # directories and devices of its hypervisor, as far as no setting has them
    *_lines(REFUSED, "devices/filesystem", "devices/hostdev"),
    *_lines(CARRIED, "devices/filesystem/@accessmode", "devices/filesystem/@model"),
    *_lines(CARRIED, "devices/filesystem/@multidevs", "devices/filesystem/@fmode"),
    *_lines(CARRIED, "devices/filesystem/@dmode", "devices/filesystem/binary"),
    *_lines(REFUSED, "devices/filesystem/binary/@path"),
    *_lines(CARRIED, "devices/filesystem/idmap", "devices/filesystem/readonly"),
    *_lines(CARRIED, "devices/filesystem/space_hard_limit"),
    *_lines(CARRIED, "devices/filesystem/space_soft_limit"),
    *_lines(CARRIED, "devices/hostdev/@managed", "devices/hostdev/teaming"),
    *_lines(CARRIED, "devices/hostdev/source/@startupPolicy"),
    *_lines(CARRIED, "devices/hostdev/source/@guestReset"),
    *_lines(CARRIED, "devices/hostdev/source/@writeFiltering"),
)
LINES: tuple[Line, ...] = (
    *_IDENTITIES,
    *_MACHINE,
    *_OF_EVERY_DEVICE,
    *_DISKS,
    *_NICS,
    *_CONTROLLERS,
    *_CHARACTER_DEVICES,
    *_SCREENS,
    *_FURTHER_DEVICES,
)


# What stands in a definition though nobody wrote it: libvirt's own choice, which a new VM gets as
# well. It is not worth naming to people; what is below it is.
_BY_ITSELF = _lines(
    CARRIED,
    *("resource", "resource/partition", "os/boot[@dev='hd']", "cpu/numa/cell/@id"),
    *(f"cpu/@{name}" for name in ("check", "migratable", "match")),
    "cpu/model/@fallback",
    "vcpu/@placement",
    *("on_poweroff", "on_reboot", "on_crash"),
    *("devices/*/alias", "devices/*/address"),
    *("devices/controller", "devices/controller/@model", "devices/controller/@ports"),
    *(f"devices/{name}/target" for name in ("controller", "console", "channel")),
    "devices/input[@bus='ps2']",
    "devices/audio[@id='1'][@type='none'|'spice']",
    *("devices/console", "devices/console/@type"),
    *("devices/serial/target", "devices/serial/target/@type", "devices/serial/target/model"),
    *("devices/memballoon[@model='virtio']", "devices/hub"),
    "devices/watchdog[@model='itco'][@action='reset']",
    *(
        "devices/video/model",
        *(f"devices/video/model/@{one}" for one in ("ram", "vgamem", "primary")),
    ),
    *("devices/graphics/@keymap", "devices/graphics/image", "devices/graphics/gl[@enable='no']"),
    *("devices/channel[@type='spicevmc']", "devices/redirdev/target"),
    "sysinfo/system/entry[@name='uuid']",
    *("devices/interface/source/@portid", "devices/interface/virtualport/parameters/@interfaceid"),
)


class _Segment(t.NamedTuple):
    name: re.Pattern[str]
    conditions: tuple[tuple[str, tuple[str, ...] | None], ...]

    def matches(self, name: str, element: Element | None) -> bool:
        """Whether this is the element of that name, or the attribute (``element`` None)."""
        if self.name.fullmatch(name) is None:
            return False
        return element is None or all(self._has(element, *one) for one in self.conditions)

    @staticmethod
    def _has(element: Element, what: str, values: tuple[str, ...] | None) -> bool:
        text = (element.text or "").strip() if what == "text" else element.get(what[1:])
        if values == (_ADDRESS,):
            return _is_address(text or "")
        return bool(text) if values is None else text in values


def _is_address(text: str) -> bool:
    """Whether it is an IP address, with or without a prefix, or a MAC address."""
    if _MAC.fullmatch(text):
        return True
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return not text.isdigit()  # a port is a number


_Table = dict[str, list[tuple[tuple[_Segment, ...], Line]]]


def _parsed(segment: str) -> _Segment:
    head, bracket, rest = segment.partition("[")
    conditions = tuple(
        (
            str(one["what"]),
            None
            if one["values"] is None
            else tuple(value.strip("'") for value in one["values"].split("|")),
        )
        for one in _CONDITION.finditer(bracket + rest)
    )
    name = re.escape(head).replace(r"\*", "[^@]*")
    return _Segment(re.compile(name), conditions)


def _by_head(lines: tuple[Line, ...]) -> _Table:
    """The lines by the first parts of their paths, the most specific first."""
    lines_by_head: _Table = {}
    for line in sorted(lines, key=_rank, reverse=True):
        head = line.segments[0].partition("[")[0]
        lines_by_head.setdefault(head, []).append((tuple(map(_parsed, line.segments)), line))
    return lines_by_head


def _rank(line: Line) -> tuple[int, int, int]:
    return (len(line.segments), line.path.count("["), -line.path.count("*"))


_BY_HEAD = _by_head(LINES)
_ITSELF_BY_HEAD = _by_head(_BY_ITSELF)


class Place(t.NamedTuple):
    """An element of a definition with its ancestors below the domain, or one of its attributes."""

    elements: tuple[Element, ...]
    attribute: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The tags, and the attribute with an ``@``."""
        tags = tuple(str(one.tag) for one in self.elements)
        return tags if self.attribute is None else (*tags, f"@{self.attribute}")

    def below(self, child: Element) -> Place:
        """The place of a child."""
        return Place((*self.elements, child))

    def at(self, attribute: str) -> Place:
        """The place of an attribute."""
        return Place(self.elements, attribute)


def line_of(place: Place) -> Line | None:
    """The line of the table that decides about a part of a definition, None if there is none."""
    return next((line for _count, line in _matches(_BY_HEAD, place)), None)


def is_by_itself(place: Place) -> bool:
    """Whether the part itself, whatever is below it, is what libvirt writes of its own accord."""
    return any(count == len(place.names) for count, _line in _matches(_ITSELF_BY_HEAD, place))


def _matches(table: _Table, place: Place) -> Iterator[tuple[int, Line]]:
    """The lines about a part, the longest first, with the number of their segments."""
    names = place.names
    elements: list[Element | None] = [*place.elements]
    elements += [None] * (len(names) - len(elements))
    for segments, line in table.get(names[0], ()):
        if len(segments) <= len(names) and all(
            one.matches(name, element) for one, name, element in zip(segments, names, elements)
        ):
            yield len(segments), line
