# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers of every kind on loopback addresses, and what is said of them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import read_ssh as ssh

SERVER = "127.0.0.2"  # not the address a connection to it comes from


@contextmanager
def server(say: Callable[[socket.socket], None], address: str = SERVER) -> Iterator[int]:
    """A port whose one connection ``say`` is called with."""
    with socket.create_server((address, 0)) as listener:
        listener.settimeout(10)

        def serve() -> None:
            link, _peer = listener.accept()
            with link:
                say(link)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join()


def sender(*parts: bytes) -> Callable[[socket.socket], None]:
    def send(link: socket.socket) -> None:
        for part in parts:
            link.sendall(part)

    return send


@pytest.mark.parametrize(
    "parts",
    [
        (b"SSH-2.0-OpenSSH_9.2p1\r\n",),
        (b"SSH-2.0-drop", b"bear\r\n"),
        (b"Welcome\r\nto this host\r\nSSH-2.0-x\r\n",),
        (b"SSH-1.99-old\n",),
    ],
)
def test_an_ssh_server_answers(parts: tuple[bytes, ...]) -> None:
    with server(sender(*parts)) as port:
        answer = ssh.probe(SERVER, port)
    assert answer.ok
    assert answer.text.startswith("SSH-")


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((), "is open, but sends no SSH banner"),
        ((b"220 mail.example ESMTP\r\n",), "220 mail.example ESMTP"),
        ((b"SSH-2.0-cut",), "SSH-2.0-cut"),
        ((b"\x00\x1b[31m",), "[31m"),
        ((b"x" * 10000,), "which is no SSH banner"),
    ],
)
def test_another_server_does_not(parts: tuple[bytes, ...], expected: str) -> None:
    with server(sender(*parts)) as port:
        answer = ssh.probe(SERVER, port)
    assert not answer.ok
    assert expected in answer.text
    assert answer.text.isprintable()


def test_a_silent_server_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "_BANNER_SECONDS", 0.2)

    def hold(link: socket.socket) -> None:
        link.settimeout(10)
        assert link.recv(1) == b""  # until the other side has had enough

    with server(hold) as port:
        assert ssh.probe(SERVER, port).text == (f"port {port} is open, but sends no SSH banner")


def test_a_closed_port_does_not_and_is_told_apart() -> None:
    with socket.create_server((SERVER, 0)) as listener:
        port = listener.getsockname()[1]
    assert ssh.probe(SERVER, port) == ssh.Answer(
        False, f"port {port}: Connection refused", refused=True
    )


def test_the_hypervisor_itself_is_no_vm() -> None:
    with server(sender(b"SSH-2.0-own\r\n"), "127.0.0.1") as port:
        answer = ssh.probe("127.0.0.1", port)
    assert answer == ssh.Answer(False, "this is an address of the hypervisor itself")
