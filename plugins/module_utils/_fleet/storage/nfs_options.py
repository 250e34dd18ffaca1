# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How NFS is to be mounted for disks of VMs, and what is wrong with another way.

A lock must hold a second QEMU off, on every hypervisor, and end with a hypervisor that died; a
write must not fail because a server is restarted; a new or renamed file must be seen at once.
"""

from __future__ import annotations

import re
import typing as t

from ..._records import dataclass

VERSIONS = ("4.2", "4.1")
# In definitions; the version has an element of its own, and locks are on unless switched off
REQUIRED = ("hard", "lookupcache=none")
_OLDEST = (4, 1)
_VERSION = re.compile(r"(?:(?:nfs)?vers=|v)([0-9]+(?:\.[0-9]+)?)")
_MINOR = re.compile(r"minorversion=([0-9]+)")
_OPTION = re.compile(r"[A-Za-z0-9_]+(=[A-Za-z0-9_.:/%@+-]+)?")
_OWN = re.compile(r"(nfs)?vers=.*|v[0-9.]+|minorversion=.*|hard|lookupcache=.*")

VERSION, SOFT, LOCKS, LOOKUPS = "nfs_version", "nfs_soft", "nfs_locks", "nfs_lookups"


class NfsSource(t.NamedTuple):
    """What an NFS pool mounts, and how; ``options`` are those beyond the required ones."""

    server: str
    export: str
    version: str = VERSIONS[0]
    options: tuple[str, ...] = ()

    @property
    def mount_options(self) -> tuple[str, ...]:
        """All options of the mount but the version."""
        return (*REQUIRED, *self.options)


@dataclass(frozen=True)
class Weakness:
    """What is wrong; ``id`` is that of the finding of preflight."""

    id: str
    text: str


def weaknesses(options: t.Iterable[str]) -> list[Weakness]:
    """What these options leave unsafe: those of a mount, or of a pool's definition. Of several that
    contradict each other the last one counts, as for mount(8)."""
    version, minor = "", ""
    soft, locks, lookups = "", "", "all"
    for option in options:
        above, below = _VERSION.fullmatch(option), _MINOR.fullmatch(option)
        name, _equals, value = option.partition("=")
        if above:
            version = above[1]
        elif below:
            minor = below[1]
        elif name in ("soft", "softerr", "hard"):
            soft = "" if name == "hard" else name
        elif name in ("nolock", "lock"):
            locks = "" if name == "lock" else name
        elif name == "local_lock":
            locks = "" if value == "none" else option
        elif name == "lookupcache":
            lookups = value
    number = f"{version}.{minor}" if minor and "." not in version else version
    weak = []
    if not number:
        text = "no version is given, so client and server may agree on one below 4.1"
        weak.append(Weakness(VERSION, text))
    elif _parts(number) < _OLDEST:
        text = (
            f"version {number}: only from 4.1 on is a lock bound to a lease that ends with a"
            " hypervisor that died, and no request is carried out twice"
        )
        weak.append(Weakness(VERSION, text))
    if soft:
        text = (
            f"{soft}: a write that the server does not answer in time fails, and the guest's data"
        )
        weak.append(Weakness(SOFT, f"{text} with it"))
    if locks:
        text = f"{locks}: locks are held on this hypervisor only, so two may run a VM on one disk"
        weak.append(Weakness(LOCKS, text))
    if lookups != "none":
        text = (
            f"lookupcache={lookups}: a file that another hypervisor makes, renames or removes may"
            " be seen late"
        )
        weak.append(Weakness(LOOKUPS, text))
    return weak


def lockless(options: t.Iterable[str]) -> list[str]:
    """Why with these options a lock promises nothing once its hypervisor has vanished."""
    return [weak.text for weak in weaknesses(options) if weak.id in (VERSION, SOFT, LOCKS)]


def _parts(version: str) -> tuple[int, ...]:
    major, _point, minor = version.partition(".")
    return int(major), int(minor or 0)


def problems(source: NfsSource) -> list[str]:
    """What is wrong with a requested source."""
    wrong = []
    if not source.server or re.search(r"[\s,/'\"<>]", source.server):
        wrong.append(f"server: {source.server!r} is not a name or an address")
    if not source.export.startswith("/") or re.search(r"[\n,]", source.export):
        wrong.append(f"export: {source.export!r} is not the absolute path that the server exports")
    if source.version not in VERSIONS:
        wrong.append(f"version: {source.version!r} is none of {', '.join(VERSIONS)}; use one")
    for option in source.options:
        if not _OPTION.fullmatch(option):
            wrong.append(f"options: {option!r} is not one mount option; give a list of them")
        elif _OWN.fullmatch(option):
            wrong.append(
                f"options: {option} is none to choose; the pool has version,"
                f" {' and '.join(REQUIRED)} without it, so leave it out"
            )
    given = (f"vers={VERSIONS[0]}", *REQUIRED, *source.options)
    wrong += [f"options: {weak.text}; leave it out" for weak in weaknesses(given) if not wrong]
    return wrong
