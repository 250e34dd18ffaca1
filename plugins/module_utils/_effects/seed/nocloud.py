# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Making a NoCloud seed medium, and the host key that is on it.

This file is private to the collection.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import typing as t
from pathlib import Path

from ..._errors import DependencyMissing, PlanRefused
from ..._pure.seed.types import HostKey, Seed, SeededNic
from ..base.connection import Connection
from ..machine import storage

if t.TYPE_CHECKING:
    from ..._pure.base.json_values import Json
    from ..._pure.seed.guest_image import Seeded

# Programs that make an ISO 9660 image, best first, with what precedes the options they share
_PROGRAMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("xorriso", ("-as", "genisoimage")),
    ("genisoimage", ()),
    ("mkisofs", ()),
)
_SECONDS = 60
# How a VM is seeded where nothing else was chosen, as results tell it
CHOSEN: Seeded = {"method": "nocloud", "reason": "as set", "found": None}
_FOLDER = Path("/run/fleet-virt-seed")
_ENTROPY = 64  # bytes


class Medium(t.NamedTuple):
    """A medium's content, which is secret, and the public half of the host key on it."""

    content: bytes
    host_key: str


def unpacked(text: str) -> dict[str, Json]:
    """What the controller packed into an option that is never shown; empty if that is empty."""
    found: dict[str, Json] = json.loads(base64.b64decode(text)) if text else {}
    return found


def program() -> tuple[str, ...]:
    """The command that makes media here; raises DependencyMissing when there is none."""
    for name, first in _PROGRAMS:
        if shutil.which(name):
            return (name, *first)
    raise DependencyMissing(
        "a seed medium needs xorriso or genisoimage on the hypervisor; install the package xorriso"
    )


def require_programs() -> None:
    """Raise DependencyMissing unless media can be made here."""
    program()
    require_keys()


def require_keys() -> None:
    """Raise DependencyMissing unless host keys can be made here."""
    if shutil.which("ssh-keygen") is None:
        raise DependencyMissing(
            "a VM's host key is made with ssh-keygen on the hypervisor; install the package"
            " openssh-client (Debian, Ubuntu) or openssh (others)"
        )


def make(seed: Seed, name: str, uuid: str, nics: t.Sequence[SeededNic]) -> Medium:
    """The medium for the VM ``name``, with a host key and random numbers made for it alone.

    The private half of the key is nowhere but on the medium.
    """
    from ..._pure.seed import documents as seed_documents

    clear(uuid)
    try:
        key = _host_key(name, uuid)
        files = seed_documents.nocloud(seed, name, uuid, nics, key, os.urandom(_ENTROPY))
        return Medium(_image(files, uuid), key.public)
    except OSError as error:
        raise PlanRefused(
            f"{_FOLDER}, where seed media are made, cannot be used: {error.strerror or error};"
            " it needs some megabytes of memory"
        ) from None
    finally:
        clear(uuid)


def store(
    connection: Connection,
    pool: storage.Pool,
    name: str,
    content: bytes,
    made: t.Callable[[], None],
) -> None:
    """The volume ``name`` with a medium's content, which nobody but root reads, flushed.

    ``made`` is called when the volume is there and nothing is in it yet. It stays when this fails.
    """
    volume = storage.create_volume(
        connection, pool, name, size=len(content), volume_format="raw", mode="0600"
    )
    made()
    storage.upload(connection, volume, name, content)
    path = pool.volume_path(name)
    storage.flush(path)
    _require_whole(path, content)


def _require_whole(path: str, content: bytes) -> None:
    """Raise PlanRefused unless the file holds ``content``.

    A stream that libvirt has closed without an error may still have met a full disk: what is not
    there then reads as zeros, and a guest would boot without its seed.
    """
    with open(path, "rb") as file:
        if file.read(len(content)) == content:
            return
    space = os.statvfs(path)
    raise PlanRefused(
        f"{path} is not whole after it was written, though libvirt reports no error; it needs"
        f" {len(content) // 1024 + 1} KiB, and {space.f_bavail * space.f_frsize // 1024} KiB are"
        " free there"
    )


def _folder(uuid: str) -> Path:
    """The VM's own folder, which nobody else may enter, in /run, which is memory."""
    folder = _FOLDER / uuid
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def new_host_key(name: str, uuid: str) -> HostKey:
    """A host key for the VM, which is on this hypervisor in memory only."""
    clear(uuid)
    try:
        return _host_key(name, uuid)
    finally:
        clear(uuid)


def _host_key(name: str, uuid: str) -> HostKey:
    path = _folder(uuid) / "host_key"
    _run("the host key", ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path])
    public = path.with_name("host_key.pub").read_text(encoding="utf-8").strip()
    return HostKey(public, path.read_text(encoding="ascii"))


def _image(files: t.Mapping[str, bytes], uuid: str) -> bytes:
    """An ISO 9660 image labelled ``cidata`` that holds ``files``."""
    content = _folder(uuid) / "content"
    content.mkdir(mode=0o700)
    for name, data in files.items():
        (content / name).write_bytes(data)
    output = _folder(uuid) / "seed.iso"
    options = ["-quiet", "-V", "cidata", "-J", "-r", "-o", str(output), str(content)]
    _run("the seed medium", [*program(), *options])
    return output.read_bytes()


def _run(what: str, command: t.Sequence[str | Path]) -> None:
    from ..base import programs  # of all that virt_init does, only a new seed needs it

    done = programs.attempt([str(word) for word in command], seconds=_SECONDS)
    if done is None or done.status:
        said = done.said[-500:] if done else "it is not installed"
        raise PlanRefused(f"{command[0]} could not make {what}: {said}")


def clear(uuid: str) -> None:
    """Remove the folder that the medium of the VM ``uuid`` was made in, if it is there."""
    shutil.rmtree(_FOLDER / uuid, ignore_errors=True)
    with contextlib.suppress(OSError):  # another VM's medium is being made
        _FOLDER.rmdir()
