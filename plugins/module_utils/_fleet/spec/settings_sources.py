# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Existing disks that do not belong to the VM: volumes, block devices, network disks.

Such a disk is neither created nor removed. A disk has at most one of ``KEYS``.
"""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..base import places
from ..base.json_values import as_list
from ..base.options import Reader
from ..base.places import Pair
from ..base.settings import Choice, Text, Words, never
from . import settings_encryption

if t.TYPE_CHECKING:
    from ..._lxml import Element

KEYS = ("volume", "dev", "protocol")
# What a medium is put into, in words
DRIVES = {"cdrom": "a CD drive", "floppy": "a floppy drive"}
# The image of a drive that is to be empty
EMPTY = "none"
_KEPT = "the source of a disk is fixed; add another disk, and remove this one"
_SECRETS = {"rbd": "ceph", "iscsi": "iscsi"}
_BEGUN = ("size", "image", "overlay")


class _DiskWithSource(t.Protocol):
    @property
    def volume(self) -> str | None: ...
    @property
    def dev(self) -> str | None: ...
    @property
    def protocol(self) -> str | None: ...
    @property
    def source_name(self) -> str | None: ...
    @property
    def hosts(self) -> tuple[str, ...]: ...
    @property
    def auth_user(self) -> str | None: ...
    @property
    def auth_secret(self) -> str | None: ...
    @property
    def pool(self) -> str: ...


def kind(disk: _DiskWithSource) -> str:
    """libvirt's type of the disk."""
    if disk.volume is not None:
        return "volume"
    return "block" if disk.dev is not None else "network" if disk.protocol is not None else "file"


def source(disk: _DiskWithSource) -> tuple[str, ...] | None:
    """The disk's source; None for one that is created. The same disk has the same source."""
    if disk.volume is not None:
        return ("volume", disk.pool, disk.volume)
    if disk.dev is not None:
        return ("block", disk.dev)
    if disk.protocol is not None:
        return ("network", disk.protocol, disk.source_name or "", *sorted(disk.hosts))
    return None


def source_of(element: Element) -> tuple[str, ...] | None:
    """The source of a ``<disk>`` of libvirt's."""
    source = element.find("source")
    if source is None:
        return None
    if element.get("type") == "volume":
        return ("volume", source.get("pool") or "", source.get("volume") or "")
    if element.get("type") == "block":
        return ("block", source.get("dev") or "")
    if element.get("type") == "network":
        name = source.get("name") or ""
        return ("network", source.get("protocol") or "", name, *sorted(_read_hosts(element)))
    return None


def source_made(made: t.Mapping[str, object]) -> tuple[str, ...] | None:
    """The source of a disk in the request that is stored with a VM."""
    if made.get("volume"):
        return ("volume", str(made.get("pool")), str(made["volume"]))
    if made.get("dev"):
        return ("block", str(made["dev"]))
    if made.get("protocol"):
        hosts = sorted(map(str, as_list(made.get("hosts"))))
        return ("network", str(made["protocol"]), str(made.get("source_name") or ""), *hosts)
    return None


def given(options: t.Mapping[str, object]) -> list[str]:
    """Which of ``KEYS`` are written."""
    return [key for key in KEYS if options.get(key) is not None]


def check(reader: Reader) -> str | None:
    """Report what excludes each other; return which of ``KEYS`` the disk has."""
    keys = [key for key in KEYS if reader.given(key)]
    if len(keys) > 1:
        reader.problem(keys[0], f"{' and '.join(keys)} are given; a disk has one source; give one")
    if keys:
        for key in _BEGUN:
            if reader.given(key):
                reader.problem(key, f"a disk with {keys[0]} exists, with its {key}; leave it out")
    if reader.given("pool") and keys and keys != ["volume"]:
        reader.problem("pool", f"a disk with {keys[0]} is in no pool; leave it out")
    _check_network(reader)
    return keys[0] if keys else None


def _check_network(reader: Reader) -> None:
    protocol = reader.value("protocol")
    if protocol is None:
        for key in ("source_name", "hosts", "auth_user", "auth_secret"):
            if reader.given(key):
                reader.problem(key, "it is for network disks; give protocol too")
        return
    if protocol != "rbd" and not reader.given("hosts"):
        reader.problem("hosts", f"{protocol} needs its servers; write for example [10.0.0.1:3260]")
    if protocol != "nbd" and not reader.given("source_name"):
        reader.problem("source_name", f"{protocol} needs the name of what it serves; give it")
    if reader.given("auth_user") != reader.given("auth_secret"):
        reader.problem("auth_user", "auth_user and auth_secret go together; give both or neither")
    if protocol == "nbd" and reader.given("auth_user"):
        reader.problem("auth_user", "nbd has no users; leave it out")


def _write_volume(element: Element, disk: _DiskWithSource) -> None:
    if disk.volume is not None:
        places.put(element, "source/@pool", disk.pool)
        places.put(element, "source/@volume", disk.volume)


def _read_volume(element: Element) -> str | None:
    volumes = places.texts(element, "source/@volume")
    return volumes[0] if volumes else None


def _split(host: str) -> tuple[str, str]:
    """Name and port, which may be missing; an IPv6 address with a port has brackets."""
    if host.startswith("["):
        name, _bracket, rest = host[1:].partition("]")
        return name, rest.removeprefix(":")
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and ":" not in name else (host, "")


def _write_hosts(element: Element, disk: _DiskWithSource) -> None:
    for host in disk.hosts:
        name, port = _split(host)
        attributes = {"name": name, **({"port": port} if port else {})}
        _lxml.add(places.reach(element, "source"), "host", attributes)


def _read_hosts(element: Element) -> tuple[str, ...]:
    hosts = []
    for host in element.iterfind("source/host"):
        name, port = host.get("name") or "", host.get("port")
        shown = f"[{name}]" if ":" in name and port else name
        hosts.append(f"{shown}:{port}" if port else shown)
    return tuple(hosts)


def _write_auth(element: Element, disk: _DiskWithSource) -> None:
    if disk.auth_user is None or disk.auth_secret is None:
        return
    places.put(element, "source/auth/@username", disk.auth_user)
    places.put(element, "source/auth/secret/@type", _SECRETS.get(str(disk.protocol), "ceph"))
    places.put(element, "source/auth/secret/@usage", disk.auth_secret)


def _read_auth(element: Element) -> str | None:
    usernames = places.texts(element, "source/auth/@username")
    return usernames[0] if usernames else None


def _with_the_user(_element: Element, _disk: _DiskWithSource) -> None:
    """The secret is written with its user."""


def _read_secret(element: Element) -> str | None:
    usages = places.texts(element, "source/auth/secret/@usage")
    return usages[0] if usages else None


_AUTH = ("source/auth",)


class DiskSourceSettings:
    """The source of an existing disk."""

    volume = Text(
        "volume",
        "Existing volume of O(pool), attached as it is. Like a block device (O(dev)) and a network"
        " disk (O(protocol)), it is never created, grown or removed, whatever happens to the VM."
        " It takes no O(size) or O(image). It has to exist, in O(format), and no other VM of that"
        " hypervisor may use it unless it is O(readonly). A VM with such a disk cannot be moved.",
        default=None,
        xml=Pair(_write_volume, _read_volume, ("source/@volume", "source/@pool")),
        pattern=r"[^\s/\\\0][^/\\\0]{0,254}",
        rule="use the name of the volume that virsh vol-list shows",
        change=never(_KEPT),
    )
    dev = Text(
        "dev",
        "Block device of the hypervisor, an absolute path below C(/dev), such as V(/dev/vg0/data)."
        " One that the hypervisor itself uses (mounted, swap, part of LVM or RAID) is refused.",
        default=None,
        xml="source/@dev",
        pattern=r"/dev/(?!(?:.*/)?\.\.?(?:/|$))[^\s\0]{1,250}",
        rule="write an absolute path below /dev, for example /dev/vg0/data",
        change=never(_KEPT),
    )
    protocol = Choice(
        "protocol",
        "Protocol of a network disk. Whether anything else uses the disk is not known here.",
        default=None,
        xml="source/@protocol",
        choices=("nbd", "rbd", "iscsi"),
        change=never(_KEPT),
    )
    source_name = Text(
        "source_name",
        "Name of the disk on the server, such as V(pool/image) for V(rbd),"
        " V(iqn.2026-01.org.example:disks/1) for V(iscsi), or an export of V(nbd).",
        default=None,
        xml="source/@name",
        pattern=r"[^\s\0]{1,255}",
        rule="1 to 255 characters without blanks",
        change=never(_KEPT),
    )
    hosts = Words(
        "hosts",
        "Servers of the disk, each with a port if it is not the default one, such as"
        " V(10.0.0.1:10809). V(rbd) defaults to those in the hypervisor's own C(ceph.conf).",
        xml=Pair(_write_hosts, _read_hosts, ("source/host",)),
        pattern=r"[A-Za-z0-9_.-]{1,253}(:[0-9]{1,5})?|\[[0-9a-fA-F:.]{2,45}\](:[0-9]{1,5})?",
        rule="a name or address and optionally a port, as 10.0.0.1:10809 or [fd00::1]:10809",
        change=never(_KEPT),
    )
    auth_user = Text(
        "auth_user",
        "User to authenticate as.",
        default=None,
        xml=Pair(_write_auth, _read_auth, _AUTH),
        pattern=r"[^\s\0]{1,64}",
        rule="1 to 64 characters without blanks",
        change=never(_KEPT),
    )
    auth_secret = Text(
        "auth_secret",
        "Usage of the libvirt secret (C(virsh secret-list)) to authenticate with.",
        default=None,
        xml=Pair(_with_the_user, _read_secret, _AUTH),
        pattern=r"[^\0]{1,128}",
        rule="the usage of a secret, as virsh secret-list shows it",
        change=never(_KEPT),
        secret=False,
    )
    encryption_secret = settings_encryption.SECRET
