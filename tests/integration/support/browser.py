# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chromium without a screen, told what to do by WebDriver (Debian's chromium-driver)."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .waiting import wait_for

_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # the tests are root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1000,700",
)


class Browser:
    """One window."""

    def __init__(self, port: int, profile: Path) -> None:
        self._port = port
        chrome = {"args": [*_FLAGS, f"--user-data-dir={profile}"], "binary": "/usr/bin/chromium"}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": chrome}}}
        self._session = self._call("POST", "/session", wanted)["sessionId"]

    def _call(self, method: str, path: str, content: object = None) -> Any:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        try:
            body = None if content is None else json.dumps(content)
            link.request(method, path, body, {"Content-Type": "application/json"})
            answer = json.loads(link.getresponse().read())["value"]
        finally:
            link.close()
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    def _do(self, method: str, path: str, content: object = None) -> Any:
        return self._call(method, f"/session/{self._session}/{path}", content)

    def open(self, url: str) -> None:
        self._do("POST", "url", {"url": url})

    def script(self, text: str) -> Any:
        """What a script returns."""
        return self._do("POST", "execute/sync", {"script": text, "args": []})

    def type(self, text: str) -> None:
        """Press keys; a line's end is Enter."""
        keys = [
            {"type": kind, "value": "\ue007" if one == "\n" else one}
            for one in text
            for kind in ("keyDown", "keyUp")
        ]
        typed = {"type": "key", "id": "keyboard", "actions": keys}
        self._do("POST", "actions", {"actions": [typed]})

    def picture(self, path: Path) -> None:
        """What the window shows."""
        path.write_bytes(base64.b64decode(self._do("GET", "screenshot")))

    def close(self) -> None:
        """Close the window, and with it the browser."""
        self._call("DELETE", f"/session/{self._session}")


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    driver = subprocess.Popen(
        ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def is_open() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(is_open, 30, "chromedriver")
        window = Browser(port, folder / "profile")
        try:
            yield window
        finally:
            with contextlib.suppress(AssertionError, OSError):
                window.close()
    finally:
        driver.terminate()
        driver.wait()
