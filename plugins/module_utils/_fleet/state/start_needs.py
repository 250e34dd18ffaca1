# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a definition needs of its hypervisor in order to start, and what of that is missing.

Only what libvirt itself certainly refuses is listed: a start that may succeed is left to it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping

from ..._records import dataclass

if t.TYPE_CHECKING:
    from ..._lxml import Element

# Elements of <os> whose text is a file that QEMU opens
_BOOT_FILES = ("loader", "kernel", "initrd", "dtb")
_FILE_SOURCES = {"file": "file", "block": "dev", "dir": "dir"}
_ROOT = "/"


@dataclass(frozen=True)
class StartNeeds:
    """``files`` are absolute paths and what uses each; ``images`` those of them whose backing
    files are needed too. ``networks`` and ``nwfilters`` are libvirt's, ``bridges`` interfaces of
    the hypervisor."""

    files: Mapping[str, str]
    images: frozenset[str] = frozenset()
    networks: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    nwfilters: tuple[str, ...] = ()
    vsock: bool = False


def of_definition(root: Element) -> StartNeeds:
    """The needs of an inactive definition."""
    files: dict[str, str] = {}
    images = set()
    for disk in root.iterfind("devices/disk"):
        source, target = disk.find("source"), disk.find("target")
        key = _FILE_SOURCES.get(disk.get("type") or "file")
        if source is None or key is None or source.get("startupPolicy") == "optional":
            continue
        path = source.get(key) or ""
        if not path.startswith(_ROOT):
            continue
        name = (target.get("dev") if target is not None else None) or "?"
        files.setdefault(path, f"its disk {name}")
        driver = disk.find("driver")
        if driver is not None and driver.get("type") == "qcow2":
            images.add(path)
    for tag in _BOOT_FILES:
        path = (root.findtext(f"os/{tag}") or "").strip()
        if path.startswith(_ROOT):
            files.setdefault(path, f"its {tag}")
    networks, bridges = [], []
    for nic in root.iterfind("devices/interface"):
        source = nic.find("source")
        kind = nic.get("type")
        if source is None:
            continue
        if kind == "network" and source.get("network"):
            networks.append(str(source.get("network")))
        elif kind == "bridge" and source.get("bridge"):
            bridges.append(str(source.get("bridge")))
    return StartNeeds(
        files,
        frozenset(images),
        tuple(dict.fromkeys(networks)),
        tuple(dict.fromkeys(bridges)),
        nwfilters_of(root),
        vsock=has_vsock(root),
    )


def nwfilters_of(root: Element) -> tuple[str, ...]:
    """The network filters that its NICs name."""
    names = (one.get("filter") for one in root.iterfind("devices/interface/filterref"))
    return tuple(dict.fromkeys(str(name) for name in names if name))


def has_vsock(root: Element) -> bool:
    """Whether it has a vsock device."""
    return root.find("devices/vsock") is not None


def missing_networks(
    needs: StartNeeds, active: Collection[str], known: Collection[str]
) -> list[str]:
    """Networks that are not there, or not active, each with the remedy."""
    return [
        f"its network {name!r} is not active; start it (virsh net-start {name})"
        if name in known
        else f"there is no network {name!r}; define it (virsh net-define), or change its NIC"
        for name in needs.networks
        if name not in active
    ]
