# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the laboratory keeps things, and the locks around them."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

__all__ = ["RUN", "Layout", "cache", "control_folder", "lab_folder", "locked", "valid_name"]

# Known to every laboratory of this machine, whatever cache folder it lives in; gone with the last.
RUN = Path("/run/fleet-virt-lab")

# overlayfs separates its options with these, and systemd-nspawn its binds.
_UNUSABLE = re.compile(r"[\s,:\\\"']")


def cache() -> Path:
    """The folder for what is worth keeping: FLEET_VIRT_CACHE, or fleet-virt in the user's cache.

    :raises LabError: its path contains what overlayfs cannot take.
    """
    named = os.environ.get("FLEET_VIRT_CACHE")
    if named:
        folder = Path(named)
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        folder = (Path(base) if base else Path.home() / ".cache") / "fleet-virt"
    folder = Path(os.path.realpath(folder))
    if _UNUSABLE.search(str(folder)):
        raise LabError(
            f"the cache folder {folder} has a space, comma, colon, quote or backslash in its "
            "path, which overlayfs cannot take: set FLEET_VIRT_CACHE to another folder"
        )
    return folder


def valid_name(name: str) -> str:
    """The name of a laboratory, checked.

    :raises LabError: it is not a short lower-case name.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name):
        raise LabError(
            f"{name!r} cannot name a laboratory: begin with a letter, go on with at most 31 "
            "lower-case letters, digits and hyphens"
        )
    return name


def lab_folder(name: str) -> Path:
    """The folder of a running laboratory."""
    return cache() / "labs" / valid_name(name)


def control_folder(name: str) -> Path:
    """The folder for ssh's control sockets: short, because a socket's path is at most 108 bytes."""
    return RUN / "labs" / valid_name(name)


@dataclass(frozen=True)
class Layout:
    """Where the files of a laboratory are."""

    name: str

    @property
    def directory(self) -> Path:
        """Its folder; gone with it."""
        return lab_folder(self.name)

    @property
    def key(self) -> Path:
        """The private key of the inventory's users."""
        return self.directory / "key"

    @property
    def control_key(self) -> Path:
        """The laboratory's own key: root's on every host."""
        return self.directory / "control_key"

    @property
    def known_hosts(self) -> Path:
        """The hosts' real keys."""
        return self.directory / "known_hosts"

    @property
    def inventory(self) -> Path:
        """The folder of Ansible's inventory."""
        return self.directory / "inventory"

    @property
    def control(self) -> Path:
        """The folder of ssh's control sockets."""
        return control_folder(self.name)


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold a lock; the kernel drops it when we die. Yields whether it was got (with ``wait``, yes).

    The file may be removed by its holder, so a lock counts only on the file that still has its
    name.
    """
    while True:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # another holder has just removed the folder with the file
            continue
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            try:
                same = os.path.samestat(os.fstat(descriptor), os.stat(path))
            except FileNotFoundError:
                same = False
            if not same:
                continue
            yield True
            return
        finally:
            os.close(descriptor)
