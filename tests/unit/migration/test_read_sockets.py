# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which connection to another hypervisor is a move's own: real sockets, listed by the real ss."""

from __future__ import annotations

import socket
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks as locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_programs as programs,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    read_sockets as migration_sockets,
)

_LISTED = """\
ESTAB 0 0 192.0.2.1:40001 192.0.2.2:16514 users:(("libvirtd",pid=612,fd=31)) ino:71 sk:1 <->
ESTAB 0 8 192.0.2.1:40002 192.0.2.2:16514 users:(("python3",pid=900,fd=9)) uid:1000 ino:72 sk:2 <->
ESTAB 0 0 [2001:db8::1]:40003 [2001:db8::2]:16514 users:(("virtqemud",pid=612,fd=32)) ino:73 sk:3
SYN-SENT 0 1 192.0.2.1:40004 192.0.2.3:16514 users:(("libvirtd",pid=612,fd=33)) ino:74 sk:4 <->
ESTAB 0 0 192.0.2.1:16514 192.0.2.2:40005 users:(("libvirtd",pid=612,fd=34)) ino:75 sk:5 <->
TIME-WAIT 0 0 192.0.2.1:40006 192.0.2.2:16514 ino:0 sk:6
ESTAB 0 0 192.0.2.1:40007 192.0.2.2:16514 users:(("libvirtd",pid=901,fd=3)) uid:1000 ino:77 sk:7
ESTAB 0 0 192.0.2.1:40008 192.0.2.2:16514 users:(("libvirtd",pid=902,fd=3),("x",pid=903,fd=3)) \
timer:(keepalive,1min,0) uid:33 ino:78 sk:8
FIN-WAIT-1 0 0 192.0.2.1:40009 192.0.2.2:16514 users:(("libvirtd",pid=901,fd=3)) ino:0 sk:9
"""


def test_connections_of_roots_daemon_alone_are_the_moves() -> None:
    assert migration_sockets.ports(_LISTED) == {40001, 40003, 40004}


class Moves:
    """Connections to something on this machine that stands for another hypervisor."""

    def __init__(self, server: socket.socket) -> None:
        self.server = server
        self.open: list[socket.socket] = []

    def connect(self) -> int:
        """One more; its port at this end."""
        self.open.append(socket.create_connection(self.server.getsockname()))
        return int(self.open[-1].getsockname()[1])


@pytest.fixture
def moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moves]:
    """This process is the daemon, and a free port is libvirt's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = Moves(server)
        port = server.getsockname()[1]
        me = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
        monkeypatch.setattr(migration_sockets, "_DAEMONS", (me,))
        monkeypatch.setattr(migration_sockets, "_PORT", f":{port}")
        pattern = migration_sockets._LINE.pattern.replace("16514", str(port))
        monkeypatch.setattr(migration_sockets, "_LINE", migration_sockets.re.compile(pattern))
        monkeypatch.setattr(locks, "_place", lambda: tmp_path / "locks")
        yield found
        for one in found.open:
            one.close()


def test_each_move_cuts_its_own_and_nobody_elses(
    moves: Moves, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[t.Sequence[str]] = []
    real = programs.attempt

    def attempt(argv: t.Sequence[str], **more: t.Any) -> programs.Done | None:
        if "-K" not in argv:
            return real(argv, **more)
        killed.append(argv)  # the kernel that the tests run on may not be able to
        return None

    monkeypatch.setattr(programs, "attempt", attempt)
    moves.connect()  # somebody else's
    own = []
    for uuid in ("one", "two"):
        with migration_sockets.noted(uuid, lambda: True):
            own.append(moves.connect())
    moves.connect()
    migration_sockets.cut("two")
    assert [argv[:5] for argv in killed] == [["ss", "-K", "sport", "=", f":{own[1]}"]]
    moves.open[1].close()
    migration_sockets.cut("one")
    assert len(killed) == 1, "what is closed may be another's by now"
    migration_sockets.forget("two")
    migration_sockets.cut("two")
    assert len(killed) == 1, "nothing is known of it"
    assert [one.name for one in (tmp_path / "locks").glob("*.ports")] == ["migrate-one.ports"]


@pytest.mark.usefixtures("moves")
def test_a_move_that_ends_at_once_has_none(tmp_path: Path) -> None:
    with migration_sockets.noted("one", lambda: False):
        pass
    assert (tmp_path / "locks/migrate-one.ports").read_text() == ""
