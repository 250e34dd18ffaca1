# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Preflight facts of the machine itself: KVM, IOMMU, bridges, filters, listeners."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import typing as t
from pathlib import Path

from ..._errors import DeadlineExceeded, FleetVirtError
from ..base import effects_programs as programs
from ..firewall import nft_rules
from ..hosts import listeners
from ..hosts import read_tcp_table as tcp_table
from . import trial_guest

if t.TYPE_CHECKING:
    from .facts import BridgeState, Device, Port, Socket

_TRIAL_SECONDS = 20.0
_NET = Path("/sys/class/net")
_UP = 1  # IFF_UP
# Where libvirt may have its UUID of this machine from
_UUID_FILES = (Path("/sys/class/dmi/id/product_uuid"), Path("/etc/machine-id"))
_SETTINGS = Path("/etc/libvirt")
_HOST_UUID = re.compile(r"""^\s*host_uuid\s*=\s*["']([^"']+)["']""", re.MULTILINE)


def kvm(emulator: str | None, arch: str | None) -> Device:
    """Whether the device exists, and the outcome of a trial guest."""
    if not os.path.exists("/dev/kvm"):
        return {"device": False, "tried": False, "problem": None}
    if arch != "x86_64" or emulator is None:
        problem = f"no trial guest is available for {arch}"
        return {"device": True, "tried": False, "problem": problem}
    with tempfile.TemporaryDirectory(prefix="fleet-virt-") as folder:
        disk = Path(folder) / "trial"
        disk.write_bytes(trial_guest.SECTOR)
        argv = trial_guest.arguments(emulator, "kvm", str(disk))
        try:
            done = programs.attempt(argv, seconds=_TRIAL_SECONDS)
        except DeadlineExceeded:
            problem = f"the trial guest did not finish within {_TRIAL_SECONDS:g} s"
            return {"device": True, "tried": True, "problem": problem}
    if done is None:
        raise FleetVirtError(f"libvirt reports the emulator {emulator}, but it does not exist")
    return {"device": True, **trial_guest.outcome(done.status, done.error_text)}


def iommu() -> bool:
    """Whether devices are in IOMMU groups."""
    groups = Path("/sys/kernel/iommu_groups")
    return groups.is_dir() and any(groups.iterdir())


def has_lasting(uuid: str) -> bool | None:
    """Whether libvirt's UUID of this machine is one that it will have after its next start as well:
    the firmware's, its machine ID, or set as ``host_uuid``. None if that cannot be read.

    Without any of them libvirt makes one up at each start of its daemon (virGetHostUUID).
    """
    unreadable = False
    sources = [(path, re.compile(r"(\S+)")) for path in _UUID_FILES]
    sources += [(path, _HOST_UUID) for path in sorted(_SETTINGS.glob("*.conf"))]
    for path, pattern in sources:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        except OSError:
            unreadable = True
            continue
        if any(_hex(value) == _hex(uuid) for value in pattern.findall(text)):
            return True
    return None if unreadable else False


def _hex(uuid: str) -> str:
    return uuid.replace("-", "").lower()


def bridge(name: str) -> BridgeState:
    """A bridge and its ports; a tap belongs to a guest and is not an uplink."""
    folder = _NET / name
    if not (folder / "bridge").is_dir():
        return {"name": name, "exists": False, "up": False, "ports": []}
    ports: list[Port] = []
    for link in sorted((folder / "brif").iterdir()):
        port = _NET / link.name
        state = _read(port / "operstate")
        ports.append(
            {
                "name": link.name,
                "guest": (port / "tun_flags").exists(),
                # a port that the bridge does not forward for is of no use either
                "active": state in ("up", "unknown") and _flags(port) & _UP != 0,
            }
        )
    return {"name": name, "exists": True, "up": _flags(folder) & _UP != 0, "ports": ports}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _flags(folder: Path) -> int:
    return int(_read(folder / "flags") or "0", 16)


def bridge_filter(bridges: t.Sequence[str]) -> list[str]:
    """Chains that drop traffic of guests on a bridge, to each other and to the network.

    That happens while br_netfilter passes frames to the IP filters and one of these forwards
    nothing that it does not know, as Docker leaves it.
    """
    switches = [Path("/proc/sys/net/bridge/bridge-nf-call-iptables")]
    switches += [_NET / name / "bridge" / "nf_call_iptables" for name in bridges]
    if all(_read(switch) in ("", "0") for switch in switches):
        return []
    words = {*bridges, "physdev"}
    filters = []
    if programs.find("nft") is not None:
        ruleset = nft_rules.parse(json.loads(programs.run(["nft", "-j", "list", "ruleset"])))
        filters += [
            f"the nftables chain {chain}"
            for chain in ruleset.base("forward")
            if ruleset.verdict(chain, nft_rules.Packet()) == "drop"
            and not ruleset.mentions(chain.key, words)
        ]
    if "filter" in _read(Path("/proc/net/ip_tables_names")).split():
        done = programs.attempt(["iptables-legacy", "-S", "FORWARD"])
        if done is not None and done.status == 0 and nft_rules.legacy_drops(done.out, words):
            filters.append("the iptables chain FORWARD (legacy)")
    return filters


def open_sockets() -> list[Socket]:
    """The listening TCP sockets, each with its process."""
    endpoints = listeners.listening(tcp_table.read())
    owners = _owners(set(endpoints))
    return [
        {"address": address, "port": port, "process": owners.get(inode, "")}
        for inode, (address, port) in sorted(endpoints.items(), key=lambda pair: pair[1][1])
    ]


def _owners(inodes: t.Collection[int]) -> dict[int, str]:
    """Process names by socket inode; systemd only if no other process has the socket."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    owners: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        name = ""
        with contextlib.suppress(OSError):
            for descriptor in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    inode = wanted.get(os.readlink(descriptor))
                    if inode is None:
                        continue
                    name = name or _read(folder / "comm")
                    if name != "systemd" or inode not in owners:
                        owners[inode] = name
    return owners
