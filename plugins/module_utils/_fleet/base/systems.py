# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Operating systems by their names in libosinfo, and what each kind needs to be installed.

The defaults of settings suit Linux (virtio, a random number generator), so only what differs from
that is here. The names are those of libosinfo's database, in which a system has
an identifier (``http://debian.org/debian/12``) and a short one (``debian12``).
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ... import _lxml
from ..._records import dataclass, field
from . import places
from .options import Reader, show, unknown_message
from .places import Pair
from .settings import LIVE, Setting

if t.TYPE_CHECKING:
    from ..._lxml import Element

PREFIX = "libosinfo"
NAMESPACE = "http://libosinfo.org/xmlns/libvirt/domain/1.0"
_ELEMENT, _OS = f"{{{NAMESPACE}}}libosinfo", f"{{{NAMESPACE}}}os"
_MOST_KNOWN = 8  # names that an error lists


@dataclass(frozen=True)
class Needs:
    """The default settings that a system gives a VM, its disks, CD drives and NICs."""

    vm: Mapping[str, object] = field(default_factory=dict)
    disk: Mapping[str, object] = field(default_factory=dict)
    cdrom: Mapping[str, object] = field(default_factory=dict)
    nic: Mapping[str, object] = field(default_factory=dict)


_WINDOWS = {"machine": "q35", "clock": {"offset": "localtime"}, "hyperv": True}
# Devices that Windows' installer has drivers for: it has none for virtio
_DEVICES = {"disk": {"bus": "sata"}, "cdrom": {"bus": "sata"}, "nic": {"model": "e1000e"}}
LINUX = Needs()
BSD = Needs(cdrom={"bus": "sata"})
WINDOWS = Needs(vm=_WINDOWS, **_DEVICES)
WINDOWS_11 = Needs(
    vm={
        **_WINDOWS,
        "vcpus": 2,
        "memory": 4096,
        "firmware": "uefi",
        "secure_boot": True,
        "tpm": True,
    },
    **_DEVICES,
)
# Short name and identifier up to the version, what it needs, and the versions; one with a colon is
# written otherwise in the identifier
_FAMILIES: tuple[tuple[str, str, Needs, str], ...] = (
    ("debian", "http://debian.org/debian/", LINUX, "9 10 11 12 13 testing"),
    (
        "ubuntu",
        "http://ubuntu.com/ubuntu/",
        LINUX,
        "16.04 18.04 20.04 22.04 23.04 23.10 24.04 24.10 25.04 25.10",
    ),
    ("fedora", "http://fedoraproject.org/fedora/", LINUX, "38 39 40 41 42 43"),
    ("fedora-", "http://fedoraproject.org/fedora/", LINUX, "rawhide eln unknown"),
    ("centos", "http://centos.org/centos/", LINUX, "7.0 8"),
    ("centos-stream", "http://centos.org/centos-stream/", LINUX, "8 9 10"),
    (
        "rhel",
        "http://redhat.com/rhel/",
        LINUX,
        "7.9 8.6 8.8 8.9 8.10 9.0 9.1 9.2 9.3 9.4 9.5 9.6 9.7 10.0 10.1 8-unknown 9-unknown"
        " 10-unknown",
    ),
    ("almalinux", "http://almalinux.org/almalinux/", LINUX, "8 9 10"),
    ("rocky", "http://rockylinux.org/rocky/", LINUX, "8 9 10"),
    ("ol", "http://oracle.com/ol/", LINUX, "8.5 8.8 9.0 9.1 9.2 9.3 9.4"),
    ("opensuse", "http://opensuse.org/opensuse/", LINUX, "15.4 15.5 15.6 tumbleweed"),
    ("sle", "http://suse.com/sle/", LINUX, "15sp4:15.4 15sp5:15.5 15sp6:15.6"),
    ("sles", "http://suse.com/sles/", LINUX, "12sp5:12.5"),
    (
        "alpinelinux",
        "http://alpinelinux.org/alpinelinux/",
        LINUX,
        "3.16 3.17 3.18 3.19 3.20 3.21 3.22",
    ),
    ("archlinux", "http://archlinux.org/archlinux/", LINUX, ":rolling"),
    ("gentoo", "http://gentoo.org/gentoo/", LINUX, ":rolling"),
    ("nixos-", "http://nixos.org/nixos/", LINUX, "23.11 24.05 24.11 25.05 unstable unknown"),
    ("cirros", "http://cirros-cloud.net/cirros/", LINUX, "0.5.2"),
    ("linux", "http://libosinfo.org/linux/", LINUX, "2018 2020 2022 2024"),
    ("freebsd", "http://freebsd.org/freebsd/", BSD, "13.2 13.3 13.4 14.0 14.1 14.2 14.3"),
    ("netbsd", "http://netbsd.org/netbsd/", BSD, "9.3 9.4 10.0 10.1"),
    ("openbsd", "http://openbsd.org/openbsd/", BSD, "7.4 7.5 7.6 7.7"),
    (
        "win",
        "http://microsoft.com/win/",
        WINDOWS,
        "7 8.1 10 2k8r2 2k12r2 2k16 2k19 2k22 2k25",
    ),
    ("win", "http://microsoft.com/win/", WINDOWS_11, "11"),
)
# The last is no name of libosinfo's, where server and desktop have one name since version 15 only
ALIASES = {"windows": "win11", "linux": "linux2022", "sle12sp5": "sles12sp5"}


def _all() -> t.Iterator[tuple[str, str, Needs]]:
    for name, start, needs, versions in _FAMILIES:
        for version in versions.split():
            short, colon, other = version.partition(":")
            yield f"{name}{short}", f"{start}{other if colon else short}", needs


_SYSTEMS = tuple(_all())
_IDS = {short: whole for short, whole, _needs in _SYSTEMS}
_SHORT = {whole: short for short, whole, _needs in _SYSTEMS}
_NEEDS = {whole: needs for _short, whole, needs in _SYSTEMS}


def identifier(value: object) -> str:
    """The full identifier of a system; ValueError, with the closest match, if it is unknown."""
    if not isinstance(value, str):
        raise ValueError(f"{show(value)} is no system; write its libosinfo name, as debian12")
    if value in _NEEDS:
        return value
    short = ALIASES.get(value, value)
    if short in _IDS:
        return _IDS[short]
    known = _SHORT if "/" in value else {**ALIASES, **_IDS}
    message = unknown_message("operating system", value, known).partition("; known: ")[0]
    raise ValueError(
        f"{message}; write a name or identifier of libosinfo, for example debian12, win11 or"
        " http://debian.org/debian/12, or a similar one such as linux: it sets what the VM needs",
    )


def needs(value: object) -> Needs:
    """What a system needs; nothing for an unknown one, which its row reports."""
    try:
        return LINUX if value is None else _NEEDS[identifier(value)]
    except ValueError:
        return LINUX


def beneath(options: Mapping[str, object]) -> dict[str, object]:
    """``options`` of a VM with what its system needs where nothing is written.

    If a firmware or machine is written, no firmware is added: they depend on each other.
    """
    needed = dict(needs(options.get("os")).vm)
    if any(options.get(key) is not None for key in ("firmware", "machine")):
        for key in ("firmware", "secure_boot"):
            needed.pop(key, None)
    written = {key: value for key, value in options.items() if value is not None}
    return {**options, **needed, **written}


def device(
    kind: t.Literal["disk", "nic"],
    system: object,
    options: Mapping[str, object],
    written: t.Collection[str],
) -> dict[str, object]:
    """``options`` of a disk or NIC with what its system needs; those ``written`` stay."""
    what = needs(system)
    wanted = what.nic if kind == "nic" else what.disk
    if kind == "disk" and options.get("device") in ("cdrom", "floppy"):
        wanted = what.cdrom if options["device"] == "cdrom" else {}
    device_options = dict(options)
    for key, value in wanted.items():
        both = (key, "model") if key == "bus" else (key,)
        if not any(option in written for option in both):
            for option in both:
                device_options.pop(option, None)
            device_options[key] = value
    return device_options


def _write(root: Element, whole: t.Any) -> None:
    if whole.os is not None:
        places.reach(root, "metadata").append(to_element(whole.os))


def to_element(whole: str) -> Element:
    """The element that virt-manager and others read too."""
    element = _lxml.parse(f'<{PREFIX}:libosinfo xmlns:{PREFIX}="{NAMESPACE}"/>', PREFIX)
    _lxml.add(element, _OS, {"id": whole})
    return element


def to_plain_element(whole: str) -> Element:
    """Our element without namespace, for virDomainSetMetadata, which adds them."""
    element = _lxml.new("libosinfo")
    _lxml.add(element, "os", {"id": whole})
    return element


def _read(root: Element) -> str | None:
    for metadata in root.findall("metadata"):
        for system in metadata.iterfind(f"{_ELEMENT}/{_OS}"):
            return system.get("id")
    return None


class System(Setting[None]):
    """The operating system, as its whole identifier."""

    def read(self, reader: Reader) -> str | None:
        value = reader.value(self.name)
        try:
            return None if value is None else identifier(value)
        except ValueError as error:
            reader.problem(self.name, str(error))
            return None

    def show(self, value: object) -> str:
        return _SHORT.get(str(value), str(value)) if value is not None else "none"


OS = System(
    "os",
    (
        "Operating system by its name in libosinfo, such as V(debian12), V(win11) or"
        " V(http://debian.org/debian/12). V(windows) is V(win11), V(linux) is V(linux2022). It is"
        " stored with the VM, where virt-manager finds it. It provides defaults for settings that"
        " are not given. For Windows these are the clock at local time, O(hyperv) on KVM, the"
        " machine type V(q35), disks and drives on SATA and NICs of the model e1000e, for which"
        " its installer has drivers; for Windows 11 also UEFI with secure boot, a TPM, 2 vCPUs and"
        " 4 GiB of memory.",
        "It does not change other settings of an existing VM. libosinfo itself is needed neither"
        " on the controller nor on hypervisors.",
    ),
    default=None,
    xml=Pair(_write, _read, ("metadata/{*}libosinfo",)),
    change=LIVE,
)
