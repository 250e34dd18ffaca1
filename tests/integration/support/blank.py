# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk without an operating system, for guests that have to run but are never talked to.

Its boot sector halts the virtual CPU. Under emulation such a guest takes a third of a second of
CPU time for its firmware and then next to none; the tiny guest takes four seconds to boot.
"""

from __future__ import annotations

import base64
import shlex
import subprocess
from pathlib import Path

NAME = "blank.qcow2"
MIB = 48  # as large as the tiny guest's disk
# cli, hlt, a jump back to hlt, and the signature that a PC looks for
SECTOR = bytes.fromhex("faf4ebfd").ljust(510, b"\0") + b"\x55\xaa"


def script(path: str) -> str:
    """Shell commands that make the image, the same byte for byte wherever they run."""
    place, raw = shlex.quote(path), shlex.quote(f"{path}.raw")
    sector = base64.b64encode(SECTOR).decode()
    return (
        f"echo {sector} | base64 -d > {raw} && truncate -s {MIB}M {raw}"
        f" && qemu-img convert -f raw -O qcow2 {raw} {place} && rm {raw}"
    )


def make(path: Path) -> None:
    """Make the image on this machine."""
    subprocess.run(["sh", "-c", script(str(path))], check=True)
