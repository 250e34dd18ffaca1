# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning hosts, starting them, and telling everybody about them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import inventory, processes, roots
from .errors import LabError, Progress
from .host import Host
from .paths import Layout
from .record import HostRecord, Record

__all__ = ["MOST_HOSTS", "plan", "publish", "start"]

MOST_HOSTS = 50


def plan(record: Record, suite: str, bare: bool, progress: Progress) -> HostRecord:
    """Write down one more host, whose root tree is built if need be.

    :raises LabError: there are too many.
    """
    number = max((entry.number for entry in record.hosts), default=0) + 1
    if number > MOST_HOSTS:
        raise LabError(f"laboratory {record.name!r} has {MOST_HOSTS} hosts, and that is all")
    _, second, third, _ = record.subnet.network_address.packed
    entry = HostRecord(
        number=number,
        suite=suite,
        bare=bare,
        address=str(record.subnet[10 + number]),
        mac=f"52:54:00:{second:02x}:{third:02x}:{number:02x}",
        # As in production, not every host lets root in.
        user="root" if number % 2 else "admin",
        uuid=str(uuid.uuid4()),
        root=str(roots.ensure(suite, bare, progress)),
    )
    record.hosts.append(entry)
    record.save()
    return entry


def publish(record: Record, layout: Layout) -> None:
    """Write the inventory and the known host keys."""
    hosts = [Host(record, entry) for entry in record.hosts]
    keys = {host.name: (host, host.public_key) for host in hosts if host.prepared}
    inventory.write_known_hosts(layout.known_hosts, keys)
    inventory.write_inventory(
        layout.inventory, hosts, layout.key, layout.known_hosts, layout.control
    )


def start(
    record: Record, layout: Layout, entries: Sequence[HostRecord], progress: Progress
) -> None:
    """Start those hosts that do not run, all at once, and wait until they answer.

    :raises LabError: one does not start, or does not answer in time.
    """
    stopped = [host for host in (Host(record, e) for e in entries) if host.leader is None]
    running = [
        host
        for host in (Host(record, entry) for entry in record.hosts)
        if host.leader is not None and host.state == "running"
    ]
    if not stopped:
        return
    own = layout.control_key.with_suffix(".pub").read_text().strip()
    given = layout.key.with_suffix(".pub").read_text().strip()

    def prepare(host: Host) -> None:
        host.power_cut()  # what may be left of it from before
        if not host.prepared:
            root = host.user == "root"
            host.prepare([own, given] if root else [own], [] if root else [given])
        host.introduce(record.hosts)

    def begin(host: Host) -> None:
        host.power_on()
        _wait_ready(host, layout)
        progress(f"{host.name}: answers at {host.address} ({host.suite}, {host.user})")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(prepare, stopped))
        publish(record, layout)
        list(pool.map(begin, stopped))
        list(pool.map(lambda host: _tell(host, layout, stopped), running))


def _tell(host: Host, layout: Layout, newcomers: Sequence[Host]) -> None:
    """Let a running host know the newcomers by name."""
    lines = "".join(f"{new.address} {new.name}.lab.test {new.name}\n" for new in newcomers)
    host.execute(
        host.ssh_command(layout.control_key, layout.known_hosts, "root"),
        'while read -r line; do grep -qxF "$line" /etc/hosts || echo "$line" >> /etc/hosts; done',
        input=lines,
    )


def _wait_ready(host: Host, layout: Layout, limit: float = 60) -> None:
    def patiently(condition: Callable[[], bool], what: str) -> None:
        processes.wait_for(
            lambda: host.died() or condition(),
            limit,
            lambda: f"{host.name}: {what}: {processes.tail(host.console_log, 15)}",
            pause=0.02,
        )
        why = host.died()
        if why:
            raise LabError(why)

    check = "test ! -e /run/nologin"
    if not host.bare:
        check += " && virsh -q -c qemu:///system list >/dev/null"
    login = host.ssh_command(layout.control_key, layout.known_hosts, "root")
    # Not by connecting: a host that is not there yet leaves a neighbour entry behind for a second.
    patiently(lambda: _listens(host.leader, 22), "no ssh")
    patiently(lambda: host.execute(login, check, timeout=20).returncode == 0, "not ready")


def _listens(pid: int | None, port: int) -> bool:
    """Whether somebody in the network namespace of a process listens on a TCP port."""
    try:
        table = Path(f"/proc/{pid}/net/tcp").read_text()
    except OSError:
        return False
    local = f":{port:04X}"
    listening = "0A"
    rows = (line.split() for line in table.splitlines()[1:])
    return any(row[1].endswith(local) and row[3] == listening for row in rows)
