# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checking whether an SSH server responds at an address, and whether it holds the host key that a
VM was seeded with.

A server responds if it sends its banner. For the key, ``ssh`` itself is asked, and ends after the
key exchange, before any login. Unlike ``ssh-keyscan``, which prints any key that is presented, it
verifies the signature (RFC 4253, 8): a public key is not secret, so presenting it proves nothing.
"""

from __future__ import annotations

import enum
import re
import socket
import tempfile
import time
import typing as t
from pathlib import Path

from ..._records import dataclass
from ..base import effects_programs as programs

_CONNECT_SECONDS = 3.0
_BANNER_SECONDS = 8.0
_MOST = 4096  # bytes; RFC 4253 allows other lines before the banner
_SSH_SECONDS = 10
_SSH_CONNECT_SECONDS = 5
_KEY = re.compile(r"([a-z0-9@.-]+) ([A-Za-z0-9+/]+=*)(?: .*)?")
_NAME = "the-vm"
# The signature algorithms of a server with an RSA key (RFC 8332)
_ALGORITHMS = {"ssh-rsa": "rsa-sha2-512,rsa-sha2-256"}
# Old and universally supported, and a fraction of the work of ssh's default for an emulated guest;
# nothing secret is sent that would need protection from quantum computers
_EXCHANGES = "curve25519-sha256@libssh.org,ecdh-sha2-nistp256"


@dataclass(frozen=True)
class Answer:
    """``ok`` with the banner, or what happened instead.

    ``refused``: the machine exists, but nothing listens on the port yet. ``silent``: there was no
    response at all.
    """

    ok: bool
    text: str
    refused: bool = False
    silent: bool = False


def probe(address: str, port: int, note: t.Callable[[Answer], None] = lambda _: None) -> Answer:
    """Connect and wait for the line that every SSH server begins with (RFC 4253, 4.2).

    ``note`` is called with preliminary results, for callers that cannot wait for the end.
    """
    try:
        link = socket.create_connection((address, port), timeout=_CONNECT_SECONDS)
    except socket.timeout:
        return Answer(False, f"port {port} does not answer", silent=True)
    except OSError as error:
        refused = isinstance(error, ConnectionRefusedError)
        text = f"port {port}: {error.strerror or error}"
        return Answer(False, text, refused, silent=not refused)
    with link:
        note(Answer(False, f"port {port} is open, but sends no SSH banner"))
        if link.getsockname()[0] == link.getpeername()[0]:
            return Answer(False, "this is an address of the hypervisor itself")
        return _banner(link, port)


def _banner(link: socket.socket, port: int) -> Answer:
    end = time.monotonic() + _BANNER_SECONDS
    received = b""
    try:
        while len(received) < _MOST:
            link.settimeout(max(0.01, end - time.monotonic()))
            part = link.recv(_MOST)
            received += part
            for line in received.split(b"\n")[:-1]:
                if line.startswith((b"SSH-2.0-", b"SSH-1.99-")):
                    return Answer(True, line.decode("utf-8", "replace").strip())
            if not part or time.monotonic() >= end:
                break
    except OSError:  # the limit, or the connection was reset
        pass
    text = "".join(c for c in received[:40].decode("utf-8", "replace") if c.isprintable())
    but = f"but sends {text!r}, which is no SSH banner" if text else "but sends no SSH banner"
    return Answer(False, f"port {port} is open, {but}")


class Proof(enum.Enum):
    """The result for a server: it holds the key, it has another, or it presented none."""

    HOLDS = "holds"
    OTHER = "other"
    NONE = "none"


# Messages of ``ssh -v``
_DECIDES = {
    "SSH2_MSG_NEWKEYS received": Proof.HOLDS,
    "Permission denied (": Proof.HOLDS,  # login refused; without "(", connecting was refused
    "Host key verification failed": Proof.OTHER,
}
_NO_EXCHANGE = "no matching key exchange method"


def judge(line: str) -> Proof | None:
    """The result that a line of ``ssh -v`` output implies; None if it implies none."""
    return next((proof for words, proof in _DECIDES.items() if words in line), None)


def ask(address: str, port: int, key: str) -> Proof | None:
    """Whether the server at that address holds ``key``, a line as in a ``.pub`` file.

    Proof.NONE if there is no response in time, or no key of that type; None without ``ssh``.
    """
    match = _KEY.fullmatch(key)
    if match is None:
        return Proof.NONE
    with tempfile.TemporaryDirectory(prefix="fleet-virt-") as folder:
        known = Path(folder) / "known_hosts"
        known.write_text(f"{_NAME} {match[1]} {match[2]}\n", encoding="ascii")
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": str(_SSH_CONNECT_SECONDS),
            "GlobalKnownHostsFile": "/dev/null",
            "HostKeyAlgorithms": _ALGORITHMS.get(match[1], match[1]),
            "HostKeyAlias": _NAME,
            "PreferredAuthentications": "none",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(known),
        }
        line = _deciding_line(address, port, {**options, "KexAlgorithms": _EXCHANGES})
        if line is not None and _NO_EXCHANGE in line:
            line = _deciding_line(address, port, options)
    return None if line is None else judge(line) or Proof.NONE


def _deciding_line(address: str, port: int, options: dict[str, str]) -> str | None:
    """The output line of ``ssh -v`` that decides, or the last one."""
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    # every machine has the user root: an unknown name would be logged
    argv = ["ssh", "-v", "-T", "-F", "/dev/null", *words, "-l", "root", "-p", str(port)]
    return programs.first_matching_line(
        [*argv, "--", address], lambda line: judge(line) is not None, seconds=_SSH_SECONDS
    )
