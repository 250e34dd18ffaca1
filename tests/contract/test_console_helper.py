# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The helper of a console against a screen that is hostile: what gets to whoever looks.

The other end of the connection is a program here that says what a hypervisor that its guest has
taken over could say.
"""

from __future__ import annotations

import base64
import json
import os
import pty
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.plugin_utils.console import _console
from ansible_collections.fleet.virt.tests.integration.support import console
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

# What the other end says after its first line, and then what it is sent, into a file
_OTHER_END = """\
import json, os, sys
stream = sys.stdin.buffer
stream.read(int(stream.readline()))
request = json.loads(stream.readline())
print(json.dumps({"password": False, "connected": True}), flush=True)
if request["do"] != "hold":
    first, _dot, second = sys.argv[1].partition(".")
    os.write(1, bytes.fromhex(first))
    stream.read(13 if second else 0)
    os.write(1, bytes.fromhex(second))
    if len(sys.argv) > 3:
        sys.exit(3)
with open(sys.argv[2], "ab") as file:
    while data := os.read(0, 65536):
        if request["do"] != "hold":
            file.write(data)
            file.flush()
"""
_FORMAT = struct.pack("!BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
_EVIL = b"\x1b]0;evil\x07<script>alert(1)</script>"


_NOTHING = (b"", b"")
_HANDS = b"RFB 003.008\n" + b"\1\1"


def _screen(width: int = 2, height: int = 2, name: bytes = _EVIL) -> tuple[bytes, bytes]:
    """What it says first, and what after it was answered."""
    head = struct.pack("!HH", width, height) + _FORMAT + struct.pack("!I", len(name))
    cut = struct.pack("!B3xi", 3, len(_EVIL)) + _EVIL
    raw = struct.pack("!BxHHHHHi", 0, 1, 0, 0, width, height, 0)
    return _HANDS, bytes(4) + head + name + cut + raw + bytes(min(width * height, 4) * 4)


class Helper:
    """The helper as the action starts it."""

    def __init__(self, folder: Any, said: tuple[bytes, bytes], *more: str, **order: object) -> None:
        self.sent = folder / "sent"
        self.sent.touch()
        command = [
            sys.executable,
            "-c",
            _OTHER_END,
            f"{said[0].hex()}.{said[1].hex()}",
            str(self.sent),
            *more,
        ]
        wanted = {
            "command": command,
            "program": base64.b64encode(b"0\n").decode(),
            "uri": "",
            "uuid": "",
            "kind": "vnc",
            "view": "browser",
            "title": "web1 on hv1",
            "password": "",
            "until": "",
            "seconds": 60.0,
            "drawing": "/usr/share/novnc",
            "terminal": "",
            "playbook": os.getpid(),
            **order,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", _console._START, str(_console._COLLECTION)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()

    def answer(self, key: str) -> Any:
        """The value of the first line that has it."""
        assert self.process.stdout
        for line in self.process.stdout:
            if key in (found := json.loads(line)):
                return found[key]
        raise AssertionError(f"it said nothing of {key}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()


@pytest.fixture
def helpers() -> Iterator[list[Helper]]:
    """What a test started, which is ended."""
    started: list[Helper] = []
    yield started
    for one in started:
        one.close()


def test_of_a_hostile_screen_only_pictures_arrive(helpers: list[Helper], tmp_path: Any) -> None:
    before = console.listening()
    helpers.append(helper := Helper(tmp_path, _screen()))
    url = helper.answer("url")
    assert len(console.listening() - before) == 1
    tab = console.Tab(url)
    assert tab.look(None) == (2, 2)
    assert tab.title == b"web1 on hv1"
    tab.paste(b"my secrets")
    tab.key("a")
    wait_for(lambda: helper.sent.read_bytes().endswith(struct.pack("!BBxxI", 4, 1, 97)), 10, "a")
    assert b"secrets" not in helper.sent.read_bytes()
    tab.close()
    assert helper.answer("over") is None
    assert helper.process.wait(10) == 0
    assert console.listening() <= before


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (_screen(60000, 60000), "60000x60000 pixels"),
        ((_HANDS, bytes(4) + b"\xff" * 24), "65535x65535 pixels"),
        ((b"HTTP/1.1 200 OK\r\n", b""), "not a screen"),
        ((_HANDS + bytes(4), b""), "sends data before it is asked"),
    ],
)
def test_what_no_screen_says_is_told_and_not_shown(
    helpers: list[Helper], tmp_path: Any, said: tuple[bytes, bytes], why: str
) -> None:
    helpers.append(helper := Helper(tmp_path, said))
    tab = console.Tab(helper.answer("url"))
    with pytest.raises((console.Refused, AssertionError, OSError)):
        tab.look(None)
    tab.close()
    told = helper.answer("message")
    assert why in told
    assert "\x1b" not in told


def test_the_other_end_is_gone(helpers: list[Helper], tmp_path: Any) -> None:
    helpers.append(helper := Helper(tmp_path, _NOTHING, "gone"))
    with pytest.raises((console.Refused, OSError)):
        console.Tab(helper.answer("url")).look(None)
    assert "the connection to the hypervisor ended" in helper.answer("message")


def test_its_time_is_over(helpers: list[Helper], tmp_path: Any) -> None:
    helpers.append(helper := Helper(tmp_path, _NOTHING, seconds=1.0))
    assert helper.answer("message") == "the time limit was reached"
    assert helper.process.wait(10) == 0


def test_it_ends_with_its_input(helpers: list[Helper], tmp_path: Any) -> None:
    helpers.append(helper := Helper(tmp_path, _NOTHING))
    assert helper.answer("url")
    assert helper.process.stdin
    helper.process.stdin.close()
    assert helper.process.wait(10) == 0


def test_it_ends_where_nobody_hears_it(helpers: list[Helper], tmp_path: Any) -> None:
    """As with a playbook that is killed, which takes both of its pipes along."""
    helpers.append(helper := Helper(tmp_path, _NOTHING))
    assert helper.answer("url")
    assert helper.process.stdin
    assert helper.process.stdout
    helper.process.stdout.close()
    helper.process.stdin.close()
    assert helper.process.wait(10) == 0


def test_a_serial_console_on_a_page(helpers: list[Helper], tmp_path: Any) -> None:
    """One has it, whoever comes second is told so."""
    said = (b"login: \x1b[6n\x1b]52;c;eA==\x07\x1b[1mweb1\r\n", b"")
    drawing = "/usr/share/nodejs/xterm"
    more = {"view": "serial_browser", "kind": "serial", "drawing": drawing}
    helpers.append(helper := Helper(tmp_path, said, **more))
    url = helper.answer("url")
    assert b"xterm/xterm.js" in console.fetched(url)[1]
    assert console.fetched(f"{url}xterm/xterm.js")[0] == 200
    assert console.fetched(f"{url}novnc/core/rfb.js")[0] == 404
    tab = console.Tab(url)
    assert tab.read(b"web1\r\n") == b"login: \x1b[1mweb1\r\n"
    with pytest.raises(console.Refused, match="too many viewers"):
        console.Tab(url).read(b"never")
    tab.send(b"root\r\x03")
    wait_for(lambda: helper.sent.read_bytes() == b"root\r\x03", 10, "the keys")
    tab.close()
    assert helper.answer("over") is None


def test_a_serial_console_in_a_terminal(helpers: list[Helper], tmp_path: Any) -> None:
    """Keys go as they are, words as far as they may, and the terminal is as it was."""
    ours, theirs = pty.openpty()
    before = subprocess.run(
        ["stty", "-g"], stdin=theirs, capture_output=True, text=True, check=True
    ).stdout
    said = (b"login: \x1b[6n\x1b]52;c;eA==\x07\x1b[1mweb1\r\n", b"")
    path = os.ttyname(theirs)
    helpers.append(helper := Helper(tmp_path, said, view="serial", kind="serial", terminal=path))
    shown = _read(ours, b"\x1b[1mweb1\r\n")
    assert b"web1 on hv1: its serial console; Ctrl-] ends it" in shown
    assert b"login: \x1b[1mweb1" in shown
    os.write(ours, b"root\r\x03\x1b[A")
    wait_for(lambda: helper.sent.read_bytes() == b"root\r\x03\x1b[A", 10, "the keys")
    os.write(ours, b"more\x1dnever")
    assert helper.answer("over") is None
    assert helper.process.wait(10) == 0
    assert helper.sent.read_bytes() == b"root\r\x03\x1b[Amore"
    assert b"\x1b[?1049l" in _read(ours, b"\x1b[?1049l\r\n")
    after = subprocess.run(
        ["stty", "-g"], stdin=theirs, capture_output=True, text=True, check=True
    ).stdout
    assert after == before
    os.close(ours)
    os.close(theirs)


def _read(descriptor: int, end: bytes) -> bytes:
    found, limit = b"", time.monotonic() + 10
    while end not in found:
        assert select.select([descriptor], [], [], max(0, limit - time.monotonic()))[0], found
        found += os.read(descriptor, 65536)
    return found
