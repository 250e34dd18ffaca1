# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating a NoCloud seed medium and the host key on it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import typing as t
from pathlib import Path

from ..._errors import DependencyMissing, PlanRefused
from ..base import effects_programs as programs
from ..base.effects_connection import Connection
from ..storage import effects_storage as storage
from .types import HostKey, Seed, SeededNic

if t.TYPE_CHECKING:
    from ..base.json_values import Json
    from .guest_image import Seeded

# Programs that create an ISO 9660 image, best first, with what precedes their common options
_PROGRAMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("xorriso", ("-as", "genisoimage")),
    ("genisoimage", ()),
    ("mkisofs", ()),
)
_SECONDS = 60
# How a VM is seeded by default, as shown in results
CHOSEN: Seeded = {"method": "nocloud", "reason": "as set", "found": None}
_FOLDER = Path("/run/fleet-virt-seed")
_ENTROPY = 64  # bytes


class Medium(t.NamedTuple):
    """A medium's content, which is secret, and the public half of the host key on it."""

    content: bytes
    host_key: str


def unpacked(text: str) -> dict[str, Json]:
    """Decode what the controller packed into a hidden option; empty if that is empty."""
    files: dict[str, Json] = json.loads(base64.b64decode(text)) if text else {}
    return files


def program() -> tuple[str, ...]:
    """The command that creates media here; raises DependencyMissing if there is none."""
    for name, first in _PROGRAMS:
        if shutil.which(name):
            return (name, *first)
    raise DependencyMissing(
        "creating a seed medium needs xorriso or genisoimage on the hypervisor; install the package"
        " xorriso"
    )


def require_programs() -> None:
    """Raise DependencyMissing unless media can be created here."""
    program()
    require_keys()


def require_keys() -> None:
    """Raise DependencyMissing unless host keys can be generated here."""
    if shutil.which("ssh-keygen") is None:
        raise DependencyMissing(
            "generating a VM's host key needs ssh-keygen on the hypervisor; install the package"
            " openssh-client (Debian, Ubuntu) or openssh (others)"
        )


def make(seed: Seed, name: str, uuid: str, nics: t.Sequence[SeededNic]) -> Medium:
    """Create the medium for the VM ``name``, with a host key and random numbers of its own.

    The private key exists only on the medium.
    """
    from . import documents as seed_documents

    clear(uuid)
    try:
        key = _host_key(name, uuid)
        files = seed_documents.nocloud(seed, name, uuid, nics, key, os.urandom(_ENTROPY))
        return Medium(_image(files, uuid), key.public)
    except OSError as error:
        raise PlanRefused(
            f"{_FOLDER}, where seed media are created, cannot be used: {error.strerror or error};"
            " it needs a few megabytes of memory"
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
    """Store a medium's content in the volume ``name``, readable by root only, and flush it.

    ``made`` is called when the volume exists and is still empty. The volume stays on failure.
    """
    volume = storage.create_volume(
        connection, pool, name, size=len(content), volume_format="raw", mode="0600"
    )
    made()
    storage.upload(connection, volume, name, content)
    path = pool.volume_path(name)
    storage.flush(path)
    _require_complete(path, content)


def _require_complete(path: str, content: bytes) -> None:
    """Raise PlanRefused unless the file holds ``content``.

    A stream that libvirt has closed without an error may still have met a full disk: the missing
    part then reads as zeros, and a guest would boot without its seed.
    """
    with open(path, "rb") as file:
        if file.read(len(content)) == content:
            return
    space = os.statvfs(path)
    raise PlanRefused(
        f"{path} is incomplete after it was written, although libvirt reported no error; it needs"
        f" {len(content) // 1024 + 1} KiB, and {space.f_bavail * space.f_frsize // 1024} KiB are"
        " free there"
    )


def _folder(uuid: str) -> Path:
    """The VM's own folder in /run (in memory), accessible to this user only."""
    folder = _FOLDER / uuid
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def new_host_key(name: str, uuid: str) -> HostKey:
    """Generate a host key for the VM, which is on this hypervisor in memory only."""
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
    """Create an ISO 9660 image labelled ``cidata`` with ``files``."""
    content = _folder(uuid) / "content"
    content.mkdir(mode=0o700)
    for name, data in files.items():
        (content / name).write_bytes(data)
    output = _folder(uuid) / "seed.iso"
    options = ["-quiet", "-V", "cidata", "-J", "-r", "-o", str(output), str(content)]
    _run("the seed medium", [*program(), *options])
    return output.read_bytes()


def _run(what: str, command: t.Sequence[str | Path]) -> None:
    done = programs.attempt([str(word) for word in command], seconds=_SECONDS)
    if done is None or done.status:
        detail = done.error_text[-500:] if done else "it is not installed"
        raise PlanRefused(f"{command[0]} could not create {what}: {detail}")


def clear(uuid: str) -> None:
    """Remove the folder that the medium of the VM ``uuid`` was created in, if it exists."""
    shutil.rmtree(_FOLDER / uuid, ignore_errors=True)
    with contextlib.suppress(OSError):  # another VM's medium is being created
        _FOLDER.rmdir()
