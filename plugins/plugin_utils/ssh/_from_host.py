# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses that only the hypervisor's own machine knows, queried over SSH.

A guest without an agent and without a lease of libvirt can be found in the hypervisor's neighbour
table, after a query to all machines on its bridge, and in cloud-init's output on its console.
libvirt reports neither. So a program is sent, made of the files that do the same for ``virt_wait``;
it needs only Python there, and leaves nothing behind.
"""

from __future__ import annotations

import json
import sys
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_programs as programs,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import ip
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_neighbours as neighbours,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    serial_output as console,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _sent, _ssh

if t.TYPE_CHECKING:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.snapshot import DomainEntry

SOURCES = ("neighbour", "console")
_MOST_CLAIMS = 1024  # addresses looked up in the neighbour table
_PATIENCE = 1.0  # seconds for replies from the machines on a bridge
_MOST_SAID = 4 * 1024 * 1024  # bytes of an answer

_MAIN = r"""
import json, os, stat, time

def tail(path):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return ""
        file.seek(max(0, status.st_size - 256 * 1024))
        return file.read(256 * 1024).decode("utf-8", "replace")

def missing():
    known = set(read_neighbours.table().values())
    return [guest for guest in request["guests"].values() if not known & set(guest["macs"])]

bridges = {
    bridge
    for guest in missing()
    for bridge in map(read_neighbours.bridge_of, guest["targets"])
    if bridge
}
if any([read_neighbours.trigger_arp(bridge) for bridge in sorted(bridges)]):
    end = time.monotonic() + request["patience"]
    while missing() and time.monotonic() < end:
        time.sleep(0.05)
table = read_neighbours.table()
answer = {}
for uuid, guest in request["guests"].items():
    macs = guest["macs"]
    neighbour = [address for mac in macs for address, owner in table.items() if owner == mac]
    addresses = []
    if not neighbour:
        text = next(filter(None, map(tail, guest["logs"])), "")
        addresses = serial_output.addresses(text, macs)
    answer[uuid] = {"neighbour": neighbour, "console": addresses}
print(json.dumps(answer))
"""

_ABOUT = r"""
import json
print(json.dumps({
    "own": read_neighbours.own_addresses(),
    "owners": read_neighbours.ask_for(request["addresses"], request["patience"]),
}))
"""


def request(guests: t.Iterable[DomainEntry]) -> dict[str, object]:
    """The program's request for these domains (entries of ``read_domains``)."""
    queries = {}
    for guest in guests:
        nics = guest["nics"]
        queries[guest["uuid"]] = {
            "macs": [str(nic["mac"]).lower() for nic in nics if nic["mac"]],
            "targets": [nic["target"] for nic in nics if nic["target"]],
            "logs": [console["log"] for console in guest["consoles"] if console["log"]],
        }
    return {"guests": queries, "patience": _PATIENCE}


def program(wanted: t.Mapping[str, object], main: str = _MAIN) -> str:
    """The Python program, which writes its answer to its standard output."""

    lines = ["import json", *_sent.sources((ip, neighbours, console))]
    lines.append(f"request = json.loads({json.dumps(wanted)!r})")
    return "\n".join(lines) + main


def ask(
    reached: _ssh.Reached, guests: t.Sequence[DomainEntry], seconds: float
) -> dict[str, dict[str, list[str]]]:
    """Addresses by source, by UUID; empty if nothing is known or there is no response.

    A failed login is no error here: libvirt may be reachable in another way.
    """
    if not guests:
        return {}
    return _answer(_asked(reached, program(request(guests)), seconds))


class About(t.NamedTuple):
    """The addresses of a hypervisor, and the MAC addresses of requested addresses."""

    own: list[str]
    owners: dict[str, str]


def about(reached: _ssh.Reached, addresses: t.Sequence[str], seconds: float) -> About:
    """The machine's own addresses, and the owners of these addresses near it, from its kernel.

    Empty if there is no response.
    """
    wanted = {"addresses": list(addresses)[:_MOST_CLAIMS], "patience": _PATIENCE}
    try:
        answer = json.loads(_asked(reached, program(wanted, _ABOUT), seconds))
    except (ValueError, RecursionError):
        answer = None
    own, owners = (answer.get(key) if isinstance(answer, dict) else None for key in About._fields)
    return About(
        [str(address) for address in own[:_MOST_CLAIMS]] if isinstance(own, list) else [],
        {str(key): str(mac) for key, mac in owners.items()} if isinstance(owners, dict) else {},
    )


def _asked(reached: _ssh.Reached, text: str, seconds: float) -> str:
    """The output of the program there; empty if it cannot run, or takes too long."""
    if not (reached.local or reached.ssh):
        return ""

    command = [sys.executable, "-"]
    if not reached.local and reached.ssh is not None:
        command = _ssh.python_command(reached.ssh)
    return programs.limited(command, text, seconds=seconds, most=_MOST_SAID) or ""


def _answer(output: str) -> dict[str, dict[str, list[str]]]:
    """The parsed answer, without anything malformed."""
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(answer, dict):
        return {}
    addresses: dict[str, dict[str, list[str]]] = {}
    for uuid, sources in answer.items():
        if isinstance(sources, dict):
            addresses[str(uuid)] = {
                source: [str(address) for address in sources[source]]
                for source in SOURCES
                if isinstance(sources.get(source), list)
            }
    return addresses
