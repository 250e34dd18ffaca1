# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether an SSH server holds the host key that a VM was seeded with.

``ssh`` itself finds out, and ends when keys are exchanged, before anybody would log in. Unlike
``ssh-keyscan``, which prints whatever key is shown, it verifies the signature (RFC 4253, 8): a
public key is no secret, so showing it proves nothing.

This file is private to the collection.
"""

from __future__ import annotations

import enum
import re
import tempfile
from pathlib import Path

from ..base import programs

_SECONDS = 10
_CONNECT_SECONDS = 5
_KEY = re.compile(r"([a-z0-9@.-]+) ([A-Za-z0-9+/]+=*)(?: .*)?")
_NAME = "the-vm"
# A server with an RSA key signs by these (RFC 8332)
_ALGORITHMS = {"ssh-rsa": "rsa-sha2-512,rsa-sha2-256"}
# Old and everywhere, and for a guest that is emulated a fraction of the work of what ssh prefers;
# nothing secret is sent that would have to be kept from a quantum computer
_EXCHANGES = "curve25519-sha256@libssh.org,ecdh-sha2-nistp256"


class Proof(enum.Enum):
    """What is known of a server: it holds the key, or has another, or there is none to see."""

    HOLDS = "holds"
    OTHER = "other"
    NONE = "none"


# What ``ssh -v`` says
_DECIDES = {
    "SSH2_MSG_NEWKEYS received": Proof.HOLDS,
    "Permission denied (": Proof.HOLDS,  # to log in; without "(" it would be to connect
    "Host key verification failed": Proof.OTHER,
}
_NO_EXCHANGE = "no matching key exchange method"


def judge(line: str) -> Proof | None:
    """What a line that ``ssh -v`` prints says of the server; None if nothing."""
    return next((proof for words, proof in _DECIDES.items() if words in line), None)


def ask(address: str, port: int, key: str) -> Proof | None:
    """Whether the server there holds ``key``, a line as in a ``.pub`` file.

    Proof.NONE where nobody answers in time, or has no key of that type; None without ``ssh``.
    """
    match = _KEY.fullmatch(key)
    if match is None:
        return Proof.NONE
    with tempfile.TemporaryDirectory(prefix="fleet-virt-") as folder:
        known = Path(folder) / "known_hosts"
        known.write_text(f"{_NAME} {match[1]} {match[2]}\n", encoding="ascii")
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": str(_CONNECT_SECONDS),
            "GlobalKnownHostsFile": "/dev/null",
            "HostKeyAlgorithms": _ALGORITHMS.get(match[1], match[1]),
            "HostKeyAlias": _NAME,
            "PreferredAuthentications": "none",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(known),
        }
        line = _asked(address, port, {**options, "KexAlgorithms": _EXCHANGES})
        if line is not None and _NO_EXCHANGE in line:
            line = _asked(address, port, options)
    return None if line is None else judge(line) or Proof.NONE


def _asked(address: str, port: int, options: dict[str, str]) -> str | None:
    """The line that decides, or the last one."""
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    # root is a user that every machine has: a name that it does not know would be logged
    argv = ["ssh", "-v", "-T", "-F", "/dev/null", *words, "-l", "root", "-p", str(port)]
    return programs.heard(
        [*argv, "--", address], lambda line: judge(line) is not None, seconds=_SECONDS
    )
