# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A console for a viewer on this machine: a loopback port that only its user may connect to.

The viewer reads port and password from a file in remote-viewer's format that only its user can
read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_programs as programs,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import listeners
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_tcp_table as tcp_table,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.console._console_session import Session

VIEWER = "remote-viewer"
_FILE = """\
[virt-viewer]
type={kind}
host=127.0.0.1
port={port}
password={password}
title={title}
"""
_BLOCK = 65536


class _Socket:
    """A socket as a viewer."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def fileno(self) -> int:
        return self._link.fileno()

    def receive(self) -> bytes | None:
        return self._link.recv(_BLOCK) or None

    def deliver(self, data: bytes) -> None:
        self._link.sendall(data)


class Port:
    """A port for viewers of ``session``, its file, and a viewer if one is installed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.number: int = self._listening.getsockname()[1]
        self._folder = Path(tempfile.mkdtemp(prefix="fleet-virt-console-"))  # of mode 0700
        self.file = self._folder / "console.vv"
        self._viewer: programs.Running | None = None

    def open(self) -> str:
        """Accept viewers; returns the message for the user."""
        wanted = self._session.wanted
        text = _FILE.format(
            kind=wanted.kind,
            port=self.number,
            password=wanted.password or "",
            title=_line(wanted.title),
        )
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        threading.Thread(target=self._accept, daemon=True).start()
        program = shutil.which(VIEWER)
        if program is None or not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            return f"{VIEWER} {self.file}"
        self._viewer = programs.beside([program, str(self.file)], talks=False)
        threading.Thread(target=self._watch, args=[self._viewer], daemon=True).start()
        return f"{VIEWER} was started"

    def close(self) -> None:
        """Remove the port, the file and the viewer."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._viewer is not None:
            self._viewer.terminate()

    def _watch(self, viewer: programs.Running) -> None:
        viewer.wait()
        self._session.end("the viewer was closed")

    def _accept(self) -> None:
        while not self._session.over.is_set():
            try:
                link, peer = self._listening.accept()
            except OSError:
                return
            if owner(peer, link.getsockname()) != os.getuid():
                self._session.say("a connection by another user of this machine was refused")
                link.close()
                continue
            threading.Thread(target=self._look, args=[link], daemon=True).start()

    def _look(self, link: socket.socket) -> None:
        with link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._session.look(_Socket(link))


def owner(peer: tuple[str, int], here: tuple[str, int]) -> int | None:
    """The user of the other end of a local connection; None if it is not known, or has closed."""
    return listeners.peer_uid(tcp_table.read(["tcp"]), peer, here)


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
