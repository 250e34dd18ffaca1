# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's side of consoles, as far as it needs no hypervisor."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.plugin_utils.console import (
    _console,
    _console_agent,
    _console_local,
    _console_remote,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _sent, _ssh


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    bare.chmod(0o755)
    missing = {"browser": ("novnc", tmp_path, "rfb.js"), "serial_browser": ("x", tmp_path, "x")}
    monkeypatch.setattr(_console, "_DRAWING", missing)
    monkeypatch.setattr(_console, "_SYSTEM", str(bare))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(FleetVirtError, match="apt-get install novnc python3-websockify"):
        _console._python("browser")
    with pytest.raises(FleetVirtError, match="apt-get install x python3-websockify"):
        _console._python("serial_browser")
    assert _console._python("viewer") == sys.executable


def _reset(link: socket.socket) -> None:
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()


@pytest.mark.parametrize(
    ("end", "known"),
    [
        (socket.socket.getsockname, True),
        (lambda link: link.sendall(b"RFB 003.008\n"), True),
        (lambda link: link.shutdown(socket.SHUT_WR), False),
        (lambda link: link.close(), False),
        (lambda link: (link.sendall(b"RFB 003.008\n"), link.close()), False),
        (_reset, False),
    ],
    ids=["open", "sent", "shut", "closed", "sent-closed", "reset"],
)
def test_viewer_that_has_closed_belongs_to_no_user(
    end: Callable[[socket.socket], object], known: bool
) -> None:
    """The kernel lists what is closed as root's, and what was sent before can still be read."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = socket.create_connection(server.getsockname())
        taken, peer = server.accept()
        with link, taken:
            here = taken.getsockname()
            assert _console_local.owner(peer, here) == os.getuid()
            assert _console_local.owner((peer[0], 1), here) is None
            end(link)
            assert _console_local.owner(peer, here) == (os.getuid() if known else None)


def test_the_program_is_whole() -> None:
    """It runs as it is sent, without this collection; libvirt's test driver has no screens."""
    uuid = "6695eb01-f6a4-8304-79aa-97f2502e193f"
    command = _sent.command(_ssh.Reached("test:///default", local=True))
    assert command is not None
    for do, kind, why in (
        ("screen", "vnc", "the VM has no graphics device of type vnc"),
        ("hold", "spice", "the VM has no graphics device of type spice"),
    ):
        request = {"do": do, "uri": "test:///default", "uuid": uuid, "kind": kind}
        with pytest.raises(FleetVirtError, match=why):
            _console_remote.RemoteSide(command, _console_agent.program(), request)


def test_what_answers_is_somebody_else() -> None:
    """A hypervisor's words end nothing here but the console, and move no cursor."""
    shells = {
        "echo hello": "is not from this collection's program",
        'echo \'{"failed": "\\u001b[2Jno"}\'': r"\?\[2Jno",
        r"printf '\033[2Jno way\n' >&2; exit 255": r"ended: \?\[2Jno way",
        "exit 1": "the connection to the hypervisor ended$",
        "head -c 100000 /dev/zero": "the connection to the hypervisor ended",
    }
    for shell, why in shells.items():
        with pytest.raises(FleetVirtError, match=why):
            _console_remote.RemoteSide(["/bin/sh", "-c", f"cat >/dev/null & {shell}"], b"0\n", {})


def test_nothing_secret_is_an_argument() -> None:
    reached = _ssh.Reached("", _ssh.Ssh("hv1", user="admin", become=True))
    command = _sent.command(reached)
    assert command is not None
    assert command[-1].startswith("sudo -n python3 -c ")
    assert _sent.command(_ssh.Reached("test:///default")) is None
