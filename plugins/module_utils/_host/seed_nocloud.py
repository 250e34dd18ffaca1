# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Making a NoCloud seed medium.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import typing as t
from pathlib import Path

from .._errors import DependencyMissing, PlanRefused

# Programs that make an ISO 9660 image, best first, with what precedes the options they share
_PROGRAMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("xorriso", ("-as", "genisoimage")),
    ("genisoimage", ()),
    ("mkisofs", ()),
)
_SECONDS = 60
_FOLDER = Path("/run/fleet-virt-seed")


def program() -> tuple[str, ...]:
    """The command that makes media here; raises DependencyMissing when there is none."""
    for name, first in _PROGRAMS:
        if shutil.which(name):
            return (name, *first)
    raise DependencyMissing(
        "a seed medium needs xorriso or genisoimage on the hypervisor; install the package xorriso"
    )


def medium(files: t.Mapping[str, bytes], uuid: str) -> bytes:
    """An ISO 9660 image labelled ``cidata`` that holds ``files``, for the VM ``uuid``.

    It is built in memory-backed /run, in a folder nobody else may enter: what goes into a guest
    before its first boot may be secret. The folder is the VM's own; :func:`clear` removes what a
    killed call left of it.
    """
    command = program()
    folder = _FOLDER / uuid
    clear(uuid)
    folder.mkdir(mode=0o700, parents=True)
    try:
        content = folder / "content"
        content.mkdir(mode=0o700)
        for name, data in files.items():
            (content / name).write_bytes(data)
        output = folder / "seed.iso"
        options = ["-quiet", "-V", "cidata", "-J", "-r", "-o", str(output), str(content)]
        result = subprocess.run(
            [*command, *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
        if result.returncode or not output.is_file():
            text = result.stderr.decode("utf-8", "replace").strip()[-500:]
            raise PlanRefused(f"{command[0]} could not make the seed medium: {text}")
        return output.read_bytes()
    finally:
        clear(uuid)


def clear(uuid: str) -> None:
    """Remove the folder that the medium of the VM ``uuid`` was built in, if it is there."""
    shutil.rmtree(_FOLDER / uuid, ignore_errors=True)
    with contextlib.suppress(OSError):  # another VM's medium is being built
        _FOLDER.rmdir()
