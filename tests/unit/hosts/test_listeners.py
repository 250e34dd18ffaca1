# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TCP sockets, as the kernel prints them."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import listeners

ANY = "0.0.0.0"  # noqa: S104 - read, not bound
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
LINE = "   0: {place} {other} {state} 00000000:00000000 00:00000000 00000000  0  0 {inode}\n"
NOBODY = "00000000:0000"


def line(place: str, state: str = "0A", inode: int = 7) -> str:
    return HEAD + LINE.format(place=place, other=NOBODY, state=state, inode=inode)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("0100007F:0016", ("127.0.0.1", 22)),
        ("00000000:407D", (ANY, 16509)),
        ("00000000000000000000000000000000:4082", ("::", 16514)),
        ("00000000000000000000000001000000:170C", ("::1", 5900)),
        ("B80D0120000000000000000001000000:170C", ("2001:db8::1", 5900)),
    ],
)
def test_address(place: str, expected: tuple[str, int]) -> None:
    rows = listeners.sockets(line(place))
    assert listeners.listening(rows) == {7: expected}


def test_connections_are_left_out() -> None:
    assert listeners.listening(listeners.sockets(line("0100007F:0016", state="01"))) == {}
    assert list(listeners.sockets("")) == []


@pytest.mark.parametrize("state", range(1, 13))  # all of net/tcp_states.h
@pytest.mark.parametrize("inode", [0, 7])
def test_peer_uid_is_known_only_while_established(state: int, inode: int) -> None:
    peer, local = ("127.0.0.1", 40000), ("127.0.0.1", 5900)
    others = [
        listeners.TcpSocket(local, peer, 1, 1000, 8),
        listeners.TcpSocket(("127.0.0.1", 40001), local, 1, 1000, 9),
    ]
    rows = [*others, listeners.TcpSocket(peer, local, state, 0, inode)]
    expected = 0 if state == 1 and inode else None
    assert listeners.peer_uid(rows, peer, local) == expected
    assert listeners.peer_uid(others, peer, local) is None


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.53", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::", False),
        (ANY, False),
    ],
)
def test_loopback(address: str, expected: bool) -> None:
    assert listeners.Listener(address, 1, "x").loopback is expected
