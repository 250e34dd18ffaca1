# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The laboratory's network: one namespace with a bridge, and one cable to this machine."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
from collections.abc import Sequence
from pathlib import Path

from . import processes
from .errors import LabError, Progress
from .paths import RUN
from .record import Record

__all__ = [
    "RANGE",
    "inside",
    "keeper",
    "leases",
    "link_name",
    "lower_inotify",
    "pick_network",
    "raise_inotify",
    "raised",
    "remove_link",
    "start",
    "watch",
]

# Set aside for measurements between networks: nobody's addresses (RFC 2544).
RANGE = ipaddress.IPv4Network("198.18.0.0/15")
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
# A host takes about eight instances out of one budget for everything root runs: the kernel's
# default of 128 silently kills the eighteenth host at its start.
_INSTANCES = 1024

_KEEPER = """
ip -batch - <<EOF
link set lo up
link add br0 type bridge forward_delay 0 mcast_snooping 0
addr add "$1" dev br0
link set br0 up
EOF
exec sleep infinity
"""

_CABLE = """
link add {link} type veth peer name machine netns {keeper}
addr add {gateway}/24 dev {link}
link set {link} up
route change {network} dev {link} proto kernel scope link src {gateway} quickack 1
"""

_DHCP = """\
interface=br0
bind-interfaces
port=0
user=nobody
group=nogroup
pid-file
no-ping
dhcp-authoritative
dhcp-ignore-clid
dhcp-range={first},{last},255.255.255.0,1h
dhcp-option=option:router,{gateway}
dhcp-option=option:dns-server
dhcp-leasefile={leases}
"""


def link_name(name: str) -> str:
    """The name of a laboratory's cable on this machine: at most 15 characters, and its own."""
    plain = f"fv-{name}"
    return plain if len(plain) <= 15 else f"fv-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def pick_network(taken: Sequence[str]) -> ipaddress.IPv4Network:
    """A /24 of RANGE that no address, route or other laboratory of this machine touches.

    :raises LabError: all 512 are in use.
    """
    used = [ipaddress.IPv4Network(network) for network in taken]
    for interface in json.loads(processes.run(["ip", "-4", "-j", "addr"]).stdout or "[]"):
        for entry in interface.get("addr_info", ()):
            used.append(
                ipaddress.IPv4Network(f"{entry['local']}/{entry['prefixlen']}", strict=False)
            )
    routes = processes.run(["ip", "-4", "-j", "route", "show", "table", "all"]).stdout
    for route in json.loads(routes or "[]"):
        if route["dst"] != "default":
            used.append(ipaddress.IPv4Network(route["dst"], strict=False))
    for network in RANGE.subnets(new_prefix=24):
        if not any(network.overlaps(other) for other in used):
            return network
    raise LabError(f"no free /24 is left in {RANGE}: take laboratories down (`lab status`)")


def keeper(record: Record) -> int | None:
    """The process that holds the laboratory's network namespace, or None."""
    directory = Path(record.directory)
    return processes.started(directory, "keeper", directory / "keeper.log")


def inside(record: Record, command: Sequence[str], check: bool = True) -> str:
    """Run a command in the laboratory's network namespace.

    :raises LabError: the namespace is gone, or the command failed.
    """
    pid = keeper(record)
    if pid is None:
        raise LabError(f"laboratory {record.name!r} has no network: bring it up again")
    done = processes.run(
        ["nsenter", f"--net=/proc/{pid}/ns/net", *command],
        check=check,
        role=f"{record.directory}:fabric",
    )
    return done.stdout


def start(record: Record, progress: Progress) -> None:
    """Bring up what is not there yet of namespace, cable, DHCP and package proxy."""
    directory = Path(record.directory)
    pid = keeper(record)
    if pid is None:
        pid = processes.spawn(
            directory,
            "keeper",
            f"exec unshare --net bash -c '{_KEEPER}' _ \"$1\"",
            [f"{record.subnet[2]}/24"],
            directory / "keeper.log",
        )
        processes.wait_for(
            lambda: (
                "br0" in inside(record, ["ip", "-o", "link"], check=False)
                and "state"
                in inside(record, ["ip", "-o", "link", "show", "br0", "up"], check=False)
            ),
            10,
            lambda: f"no bridge: {processes.tail(directory / 'keeper.log')}",
            pause=0.01,
        )
    if not os.path.exists(f"/sys/class/net/{record.link}"):
        batch = _CABLE.format(
            link=record.link, keeper=pid, gateway=record.gateway, network=record.network
        )
        processes.run(["ip", "-batch", "-"], text=batch)
        inside(record, ["ip", "link", "set", "machine", "master", "br0", "up"])
        progress(f"network {record.network}, this machine is {record.gateway} ({record.link})")
    if not processes.find(directory, "dhcp"):
        configuration = directory / "dhcp.conf"
        configuration.write_text(
            _DHCP.format(
                first=record.subnet[100],
                last=record.subnet[250],
                gateway=record.gateway,
                leases=directory / "dhcp.leases",
            )
        )
        processes.spawn(
            directory,
            "dhcp",
            'exec nsenter "--net=/proc/$1/ns/net" dnsmasq --keep-in-foreground --conf-file="$2"',
            [str(pid), str(configuration)],
            directory / "dhcp.log",
        )


def watch(record: Record) -> None:
    """See that the helpers that were started are there.

    :raises LabError: one is not, with what it said last.
    """
    for role in ("dhcp", "proxy"):
        _watch(Path(record.directory), role)


def _watch(directory: Path, role: str) -> None:
    log = directory / f"{role}.log"
    processes.wait_for(
        lambda: processes.started(directory, role, log),
        2,
        lambda: f"{role} died: {processes.tail(log)}",
    )


def remove_link(link: str) -> None:
    """Take this machine's end of the cable away (it may be gone with the namespace)."""
    processes.run(["ip", "link", "del", link], check=False)
    processes.wait_for(
        lambda: not os.path.exists(f"/sys/class/net/{link}"), 10, lambda: f"{link} does not go"
    )


def leases(record: Record) -> list[tuple[str, str, str, int]]:
    """DHCP leases as (mac, address, name, expiry in seconds since 1970), the newest first."""
    try:
        lines = (Path(record.directory) / "dhcp.leases").read_text().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        fields = line.split()
        if len(fields) >= 4 and fields[0].isdigit():
            found.append(
                (fields[1], fields[2], "" if fields[3] == "*" else fields[3], int(fields[0]))
            )
    return sorted(found, key=lambda lease: -lease[3])


def raised() -> bool:
    """Whether the limit on inotify instances is the one a laboratory sets."""
    return int(_INOTIFY.read_text()) == _INSTANCES


def raise_inotify(progress: Progress) -> None:
    """Allow root enough inotify instances for many hosts; call with the machine's lock held."""
    former = int(_INOTIFY.read_text())
    if former >= _INSTANCES:
        return
    note = RUN / "inotify"
    if not note.exists():
        note.write_text(str(former))
    _INOTIFY.write_text(str(_INSTANCES))
    progress(f"fs.inotify.max_user_instances raised from {former} to {_INSTANCES} while up")


def lower_inotify(progress: Progress) -> None:
    """Give back the value from before the first laboratory; with the machine's lock held."""
    note = RUN / "inotify"
    if not note.exists():
        return
    former = int(note.read_text())
    if raised():
        _INOTIFY.write_text(str(former))
        progress(f"fs.inotify.max_user_instances is {former} again")
    note.unlink()
