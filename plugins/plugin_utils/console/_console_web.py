# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A console for the browser: one page on loopback, below a path that only its user knows.

Requests without the path's token, with another host name, or from another site's page are refused.
websockify handles the WebSocket, noVNC is served as installed.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ansible_collections.fleet.virt.plugins.plugin_utils.console import _console_page
from ansible_collections.fleet.virt.plugins.plugin_utils.console._console_session import (
    BUSY,
    Session,
)

try:
    from websockify.websocket import WebSocket
    from websockify.websocketserver import WebSocketRequestHandlerMixIn
except ImportError:  # the helper is started with a Python that has it
    WebSocket = WebSocketRequestHandlerMixIn = type("Missing", (), {})

_SECONDS = 30.0  # for a browser to send a request
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data: blob:;"
    " connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Server(ThreadingHTTPServer):
    """The console of ``session``; ``drawing`` is the folder of noVNC, or of xterm.js."""

    daemon_threads = True

    def __init__(self, session: Session, drawing: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.session = session
        self.drawing = drawing
        self.serial = session.wanted.kind == "serial"
        self.token = secrets.token_urlsafe(32)
        self.authority = f"127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        """The URL of the page."""
        return f"http://{self.authority}/{self.token}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: browsers close connections at any time."""


class _Page:
    """A WebSocket as a viewer."""

    def __init__(self, link: WebSocket) -> None:
        self._link = link

    def fileno(self) -> int:
        return int(self._link.fileno())

    def receive(self) -> bytes | None:
        message = b""
        while True:
            part = self._link.recv()
            if part is None:
                return None
            message += bytes(part)
            if not self._link.pending():
                return message

    def deliver(self, data: bytes) -> None:
        self._link.send(data)


class Handler(WebSocketRequestHandlerMixIn, BaseHTTPRequestHandler):  # type: ignore[misc]
    """One request of a browser."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "fleet.virt"
    sys_version = ""
    timeout = _SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: the path contains the token."""

    def _path(self) -> str | None:
        """The requested path below the token; None after refusing the request."""
        head, _slash, path = self.path.lstrip("/").partition("/")
        own = hmac.compare_digest(head.encode("latin-1"), self.server.token.encode())
        origin = self.headers.get("Origin")
        same = self.headers.get("Host") == self.server.authority
        same = same and origin in (None, f"http://{self.server.authority}")
        same = same and self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
        if own and same:
            return path
        self._answer(404, "text/plain", b"")
        return None

    def do_GET(self) -> None:
        """Serve the page and its files."""
        path = self._path()
        if path is None:
            return
        serial, title = self.server.serial, self.server.session.wanted.title
        busy = f"const BUSY = {json.dumps(BUSY)};\n"
        script = busy + _console_page.SERIAL if serial else _console_page.SCREEN
        made = {
            "": ("text/html", _console_page.page(title, serial=serial)),
            "console.css": ("text/css", _console_page.STYLE),
            "console.js": ("text/javascript", script),
        }
        if path in made:
            kind, text = made[path]
            self._answer(200, f"{kind}; charset=utf-8", text.encode())
            return
        folder, _slash, below = path.partition("/")
        content = self._file(below) if folder == ("xterm" if serial else "novnc") else None
        if content is None:
            self._answer(404, "text/plain", b"")
        else:
            kind = "text/css" if below.endswith(".css") else "text/javascript"
            self._answer(200, f"{kind}; charset=utf-8", content)

    def do_POST(self) -> None:
        """Serve the password, only to the page: other sites cannot read the response."""
        path = self._path()
        if path is None:
            return
        if path == "password" and self.headers.get("Origin"):
            secret = {"password": self.server.session.wanted.password}
            self._answer(200, "application/json", json.dumps(secret).encode())
        else:
            self._answer(404, "text/plain", b"")

    def handle_upgrade(self) -> None:
        """Accept a WebSocket, only from the page."""
        path = self._path()
        if path is None:
            return
        if path != "websocket" or not self.headers.get("Origin"):
            self._answer(404, "text/plain", b"")
            return
        super().handle_upgrade()

    def handle_websocket(self) -> None:
        """Connect the viewer until it ends."""
        link: WebSocket = self.request
        link.socket.settimeout(None)
        link.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        why = self.server.session.look(_Page(link))
        with contextlib.suppress(OSError):
            link.shutdown(socket.SHUT_RDWR, 1000, (why or "")[:100])

    def _file(self, below: str) -> bytes | None:
        """A file of noVNC or xterm.js; their symbolic links may lead to other packages."""
        parts = below.split("/")
        if self.server.serial:
            known = below in ("xterm.js", "xterm.css")
        else:
            known = parts[0] in ("core", "vendor") and below.endswith(".js")
        if not known or any(part in ("", ".", "..") for part in parts):
            return None
        try:
            if below == "xterm.js":
                return _console_page.xterm(self.server.drawing / "lib").encode()
            if below == "xterm.css":
                return self.server.drawing.joinpath("lib", below).read_bytes()
            return self.server.drawing.joinpath(*parts).read_bytes()
        except (OSError, ValueError):
            return None

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.close_connection = True
        self.send_response(status)
        headers = {
            **_HEADERS,
            "Content-Security-Policy": _POLICY.format(host=self.server.authority),
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Connection": "close",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(content)


__all__ = ["Server"]
