# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Private keys and requests on a hypervisor, made by the program it has: openssl or certtool.

A private key goes from the program straight into a file that nobody else may read; it is in no
argument, no environment and no output.

This file is private to the collection.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import typing as t
from pathlib import Path

from ..._errors import DeadlineExceeded, DependencyMissing, FleetVirtError
from ..base import files, programs

# libvirt 9.0 refuses elliptic curves (their usual key usage has no key encipherment)
BITS = 3072
_REQUEST = "[req]\ndistinguished_name = subject\nprompt = no\n[subject]\nCN = request\n"


def find() -> str | None:
    """Name of the program that is there, or None."""
    return next((name for name in ("openssl", "certtool") if shutil.which(name)), None)


def require() -> str:
    """Name of the program; raises DependencyMissing when there is none."""
    found = find()
    if found is None:
        raise DependencyMissing(
            "neither openssl nor certtool is here, and one of them makes the keys; install the"
            " package openssl (or gnutls-bin, on RHEL and SUSE gnutls-utils)"
        )
    return found


class KeyTool:
    """One of the two programs."""

    def __init__(self, program: str, timeout: float) -> None:
        self._program = program
        self._timeout = timeout

    def make(self, path: Path) -> None:
        """A new private key at ``path``, there as a whole or not at all."""
        commands = {
            "openssl": ("genpkey", "-algorithm", "RSA", "-pkeyopt", f"rsa_keygen_bits:{BITS}"),
            "certtool": ("--generate-privkey", "--key-type", "rsa", "--bits", str(BITS)),
        }
        with files.replacing(path, durable=files.Durable.CONTENT) as file:
            self._run(commands[self._program], file)

    def key_id(self, path: Path) -> str | None:
        """SHA-256 of the public half; None for what is no private key."""
        words = {
            "openssl": ("pkey", "-in", str(path), "-pubout", "-outform", "DER"),
            "certtool": ("--pubkey-info", "--outder", "--load-privkey", str(path)),
        }[self._program]
        try:
            public = self._run(words)
        except FleetVirtError:
            return None
        return hashlib.sha256(public).hexdigest() if public else None

    def request(self, path: Path) -> str:
        """A certificate request, proof that its sender has the key; what it says is not used."""
        with tempfile.NamedTemporaryFile("w", prefix=".request.", dir=path.parent) as file:
            openssl = self._program == "openssl"
            file.write(_REQUEST if openssl else 'cn = "request"\n')
            file.flush()
            words: tuple[str, ...] = (
                *("--generate-request", "--load-privkey", str(path), "--template", file.name),
                *("--hash", "SHA256"),
            )
            if openssl:
                words = ("req", "-new", "-sha256", "-key", str(path), "-config", file.name)
            text = self._run(words).decode("ascii", "replace")
        # certtool writes the request in words before it
        begin = text.find("-----BEGIN")
        if begin < 0:
            raise FleetVirtError(f"{self._program} made no request for the key {path}")
        return text[begin:]

    def _run(self, words: t.Sequence[str], into: t.IO[bytes] | None = None) -> bytes:
        try:
            done = programs.execute([self._program, *words], into=into, seconds=self._timeout)
        except DeadlineExceeded:
            raise FleetVirtError(
                f"{self._program} {words[0]}: no end within {self._timeout:g} seconds"
            ) from None
        if done.status != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise FleetVirtError(
                f"{self._program} {words[0]} failed: {lines[-1] if lines else 'it says nothing'}"
            )
        return done.stdout
