# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Public SSH keys as people write them, and the problems of invalid ones."""

from __future__ import annotations

import base64
import binascii
import typing as t

from ..._errors import Problem
from ..base.options import Reader

_KEY_TYPES = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)


def public_keys(
    reader: Reader, key: str, default: t.Sequence[str], *, required: bool = True
) -> tuple[str, ...]:
    """The public keys under ``key``: a list, or text with one on each line."""
    written = reader.structure(key, secret=True)
    origin = reader.at(key)
    lines: object = list(default) if written is None else written
    if isinstance(lines, str):
        lines = [lines] if "PRIVATE KEY" in lines else lines.splitlines()
    if not isinstance(lines, (list, tuple)):
        reader.problem(key, "this is not a list of public keys; write [ssh-ed25519 AAAA...]")
        return ()
    keys: list[str] = []
    findings = 0
    for index, line in enumerate(lines):
        text = line.strip() if isinstance(line, str) else line
        if text == "":
            continue
        message = public_key_problem(text)
        if message:
            findings += 1
            reader.problems.append(Problem(f"{origin}[{index}]", message))
        elif text not in keys:
            keys.append(str(text))
    if required and not keys and not findings:
        reader.problem(
            key,
            "no public key, so no login would be possible; set virt_ssh_public_key, create one "
            "with ssh-keygen -t ed25519, or set seed to false",
        )
    return tuple(keys)


def public_key_problem(text: object) -> str | None:
    """The problem with one line of ``authorized_keys``; never shows any of its content."""
    remedy = "give the one line of the .pub file, such as ssh-ed25519 AAAA... name"
    if not isinstance(text, str):
        return f"this is not text; {remedy}"
    if "PRIVATE KEY" in text or text.startswith("-----") or "openssh-key-v1" in text:
        return f"this is a PRIVATE key, which must not be in a variable; {remedy}"
    if not text.isprintable():
        return f"this is more than one line, or has control characters; {remedy}"
    kind, _dummy, rest = text.partition(" ")
    if kind not in _KEY_TYPES:
        return f"this does not start with a known type ({', '.join(_KEY_TYPES)}); {remedy}"
    try:
        blob = base64.b64decode(rest.split(" ", 1)[0], validate=True)
    except (binascii.Error, ValueError):
        return f"the {kind} key is not base64; {remedy}"
    if blob[: 4 + len(kind)] != len(kind).to_bytes(4, "big") + kind.encode("ascii") or (
        len(blob) < len(kind) + 32
    ):
        return f"the {kind} key is truncated, or of a different type than stated; {remedy}"
    return None
