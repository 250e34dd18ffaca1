# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command console beside a test, and a browser's part in it: pages, WebSocket, RFB."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import pty
import queue
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import TripleDES

from .ansible import PROGRAMS, Ansible
from .killing import kill_tree

_URL = re.compile(r"http://(127\.0\.0\.1:\d+)/(\S+)/\s")
_FILE = re.compile(r"remote-viewer (/\S+)")


class Console:
    """``fleet.virt.console`` as it runs; ended on leaving, whatever happened."""

    def __init__(
        self, ansible: Ansible, command: str, vm: str, inventory: Path | None = None
    ) -> None:
        """``command`` as it is documented for web1, of ``vm``."""
        program, *words = shlex.split(command.replace("web1", vm))
        self.process = ansible.begin(program, *words, heard=True, inventory=inventory)
        self.said = ""
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Console:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            kill_tree(self.process.pid)
        self.process.wait()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _find(self, pattern: re.Pattern[str], limit: float = 60) -> re.Match[str]:
        end = time.monotonic() + limit
        while not (found := pattern.search(self.said)):
            line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            assert line is not None, self.said
            self.said += line
        return found

    @property
    def url(self) -> str:
        """The page, once it is there."""
        return self._find(_URL)[0].strip()

    @property
    def file(self) -> Path:
        """What a viewer is given, once it is there."""
        return Path(self._find(_FILE)[1])

    def ended(self, limit: float = 40) -> int:
        """Its status once it has ended; ``said`` is whole then."""
        end = time.monotonic() + limit
        while (line := self._lines.get(timeout=max(0.0, end - time.monotonic()))) is not None:
            self.said += line
        return self.process.wait(10)

    def interrupt(self) -> None:
        """As a terminal does it, to all of its group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def helper(self) -> int:
        """The helper's process."""
        return helper_of(self.process.pid)

    def connections(self) -> list[int]:
        """The helper's connections to the hypervisor."""
        found = _children(self.helper())
        return [pid for pid in found if "ssh" in _arguments(pid).split("\0")[0]]


def _children(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


def _arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    except OSError:
        return ""


def helper_of(command: int) -> int:
    """The process that a command started to hold its console."""
    waiting = [command]
    for pid in waiting:
        if "_console_helper" in _arguments(pid):
            return pid
        waiting += _children(pid)
    raise AssertionError(f"{command} has no helper")


def fetched(
    url: str, method: str = "GET", headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and content of an answer."""
    parts = urlsplit(url)
    link = http.client.HTTPConnection(parts.netloc, timeout=20)
    try:
        link.request(method, parts.path, headers=dict(headers or {}))
        answer = link.getresponse()
        return answer.status, answer.read()
    finally:
        link.close()


def own_headers(url: str) -> dict[str, str]:
    """What a browser sends along from the page itself."""
    return {"Origin": f"http://{urlsplit(url).netloc}", "Sec-Fetch-Site": "same-origin"}


def password(url: str) -> str | None:
    """The page's own, as it asks for it."""
    status, content = fetched(f"{url}password", "POST", own_headers(url))
    assert status == 200
    found: str | None = json.loads(content)["password"]
    return found


class Terminal:
    """The command in a terminal of its own, of which a test has the other end."""

    def __init__(self, ansible: Ansible, command: str, vm: str) -> None:
        program, *words = shlex.split(command.replace("web1", vm))
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [str(PROGRAMS / program), "-i", str(ansible.inventory), *words],
            env=ansible.environment(),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.said = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_reason: object) -> None:
        if self.process.poll() is None:
            kill_tree(self.process.pid)
        self.process.wait()
        os.close(self._ours)

    def wait(self, text: bytes, limit: float = 60) -> None:
        """Until it has said that."""
        end = time.monotonic() + limit
        while text not in self.said:
            ready = select.select([self._ours], [], [], max(0.0, end - time.monotonic()))[0]
            assert ready, self.said
            try:
                self.said += os.read(self._ours, 65536)
            except OSError:
                raise AssertionError(f"it ended: {self.said!r}") from None

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def ended(self, limit: float = 40) -> int:
        """Its status once it has ended."""
        end = time.monotonic() + limit
        with contextlib.suppress(OSError):  # all have closed it
            while select.select([self._ours], [], [], max(0.0, end - time.monotonic()))[0]:
                self.said += os.read(self._ours, 65536)
        return self.process.wait(10)


class Refused(Exception):
    """Nobody may look."""


class Tab:
    """A browser's tab: RFB over WebSocket up to pictures."""

    def __init__(self, url: str, origin: str | None = None) -> None:
        self._link = _Link(url, origin or own_headers(url)["Origin"])
        self._kept = b""
        self.title = b""

    def close(self) -> None:
        """Gone, as a tab is."""
        self._link.close()

    def look(self, given: str | None) -> tuple[int, int]:
        """Width and height of the screen, of which all pixels came."""
        assert self._get(12) == b"RFB 003.008\n"
        self.send(b"RFB 003.008\n")
        (count,) = self._get(1)
        offered = self._get(count)
        assert list(offered) == [1 if given is None else 2]
        self.send(offered)
        if given is not None:
            self.send(_answer(given, self._get(16)))
        if struct.unpack("!I", self._get(4))[0]:
            (length,) = struct.unpack("!I", self._get(4))
            raise Refused(self._get(length).decode())
        self.send(b"\0")
        width, height = struct.unpack("!HH", self._get(4))
        pixel = self._get(16)[0] // 8
        self.title = self._get(struct.unpack("!I", self._get(4))[0])
        self.send(struct.pack("!BxHi", 2, 1, 0))  # raw pixels only
        self.send(struct.pack("!BBHHHH", 3, 0, 0, 0, width, height))
        seen = 0
        while seen < width * height:
            kind, count = struct.unpack("!BxH", self._get(4))
            assert kind == 0, "the first message is no frame"
            for _ in range(count):
                wide, high, encoding = struct.unpack("!4xHHi", self._get(12))
                assert encoding == 0
                self._get(wide * high * pixel)
                seen += wide * high
        return width, height

    def key(self, letter: str) -> None:
        """Press it."""
        self.send(struct.pack("!BBxxI", 4, 1, ord(letter)))

    def paste(self, text: bytes) -> None:
        """Offer the own clipboard."""
        self.send(struct.pack("!B3xi", 6, len(text)) + text)

    def send(self, data: bytes) -> None:
        """Whatever it is."""
        self._link.send(data)

    def read(self, end: bytes) -> bytes:
        """What comes until that has come."""
        while end not in self._kept:
            self._kept += self._link.receive()
        found, self._kept = self._kept, b""
        return found

    def _get(self, count: int) -> bytes:
        while len(self._kept) < count:
            self._kept += self._link.receive()
        found, self._kept = self._kept[:count], self._kept[count:]
        return found


class _Link:
    """As much of a WebSocket (RFC 6455) as a browser has of it here."""

    def __init__(self, page: str, origin: str) -> None:
        parts = urlsplit(page)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = (
            f"GET {parts.path}websocket HTTP/1.1",
            f"Host: {parts.netloc}",
            f"Origin: {origin}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
        )
        self._file = self._socket.makefile("rwb")
        self._file.write("\r\n".join([*lines, "", ""]).encode())
        self._file.flush()
        status = self._file.readline().decode().strip()
        if " 101 " not in status:
            self.close()
            raise Refused(status)
        while self._file.readline().strip():
            pass

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        assert len(data) < 126
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))
        self._file.write(bytes([0x82, 0x80 | len(data)]) + mask + masked)
        self._file.flush()

    def receive(self) -> bytes:
        head = self._file.read(2)
        if len(head) < 2:
            raise Refused("it is closed")
        length = head[1] & 0x7F
        if length > 125:
            form = "!H" if length == 126 else "!Q"
            (length,) = struct.unpack(form, self._file.read(struct.calcsize(form)))
        data = self._file.read(length)
        if head[0] & 0x0F == 8:
            raise Refused(data[2:].decode())
        return bytes(data)


def _answer(given: str, challenge: bytes) -> bytes:
    """VNC's way with a password: DES, each byte of the key from its other end."""
    key = bytes(int(f"{byte:08b}"[::-1], 2) for byte in given.encode()[:8].ljust(8, b"\0"))
    encryptor = Cipher(TripleDES(key * 3), modes.ECB()).encryptor()  # noqa: S305
    return encryptor.update(challenge) + encryptor.finalize()


def spice_takes(port: int, given: str) -> bool:
    """Whether a screen of type SPICE lets in whoever has this password (its main channel)."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
        file = link.makefile("rwb")
        wanted = struct.pack("<IBBIII", 0, 1, 0, 0, 0, 18)
        file.write(b"REDQ" + struct.pack("<III", 2, 2, len(wanted)) + wanted)
        file.flush()
        magic, _major, _minor, size = struct.unpack("<4sIII", file.read(16))
        answer = file.read(size)
        assert magic == b"REDQ"
        assert struct.unpack("<I", answer[:4]) == (0,)
        key = serialization.load_der_public_key(answer[4:166])
        assert isinstance(key, rsa.RSAPublicKey)
        once = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)  # noqa: S303
        file.write(key.encrypt(given.encode() + b"\0", once))
        file.flush()
        return bool(struct.unpack("<I", file.read(4)) == (0,))


def listening() -> set[str]:
    """What listens on this machine's loopback of this test, or of consoles that lost their parent.

    Other tests of the same run have servers of their own.
    """
    done = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True)
    return {
        word
        for line in done.stdout.splitlines()
        if (word := line.split()[3]).startswith(("127.", "[::1]"))
        if any(_is_of_this_test(int(pid)) for pid in re.findall(r"pid=(\d+)", line))
    }


def _is_of_this_test(pid: int) -> bool:
    parents = [pid]
    while parents[-1] > 1 and parents[-1] != os.getpid():
        try:
            status = Path(f"/proc/{parents[-1]}/stat").read_text(encoding="utf-8")
        except OSError:
            return False  # it has just ended
        parents.append(int(status.rpartition(")")[2].split()[1]))
    if parents[-1] == os.getpid():
        return True
    words = _arguments(pid)
    return len(parents) == 2 and ("_console" in words or "ssh" in words.split("\0")[0])


def graphics(guests: Any, host: str, name: str) -> str:
    """A screen's element with its password, of what runs."""
    xml = guests.virsh(host, "dumpxml", name, "--security-info")
    found = re.search(r"<graphics .*?>", xml)
    assert found
    return found[0]
