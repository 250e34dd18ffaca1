# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checking whether an SSH server holds the host key that a VM was seeded with.

``ssh`` itself checks that, and ends after the key exchange, before any login. Unlike
``ssh-keyscan``, which prints any key that is presented, it verifies the signature (RFC 4253, 8): a
public key is not secret, so presenting it proves nothing.
"""

from __future__ import annotations

import enum
import re
import tempfile
from pathlib import Path

from ..base import effects_programs as programs

_SECONDS = 10
_CONNECT_SECONDS = 5
_KEY = re.compile(r"([a-z0-9@.-]+) ([A-Za-z0-9+/]+=*)(?: .*)?")
_NAME = "the-vm"
# The signature algorithms of a server with an RSA key (RFC 8332)
_ALGORITHMS = {"ssh-rsa": "rsa-sha2-512,rsa-sha2-256"}
# Old and universally supported, and a fraction of the work of ssh's default for an emulated guest;
# nothing secret is sent that would need protection from quantum computers
_EXCHANGES = "curve25519-sha256@libssh.org,ecdh-sha2-nistp256"


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
            "ConnectTimeout": str(_CONNECT_SECONDS),
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
        [*argv, "--", address], lambda line: judge(line) is not None, seconds=_SECONDS
    )
