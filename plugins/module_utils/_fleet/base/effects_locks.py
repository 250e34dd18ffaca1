# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Locks between our processes on one host: each is released when its holder ends for any reason.

Their files are in a directory that no other user may enter: in /run/lock, any user could hold a
lock file for ever, or replace it with a link.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
import typing as t
from pathlib import Path

from ..._errors import PlanRefused

_POLL = 0.05
_ROOTS = Path("/run/fleet-virt")
# Until when this process, which waited for a lock in vain, does not wait for it again: its work for
# many VMs must not wait for the same holder as many times
_given_up: dict[str, float] = {}


def own_folder() -> Path:
    """Create the directory for files that last until the next boot, owned by root or this user.

    Raises PlanRefused if another user may have created it or can access it.
    """
    path = _place()
    try:
        if path != _ROOTS:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        status = path.lstat()
    except OSError as error:
        raise PlanRefused(f"cannot create the lock directory {path}: {error.strerror}") from None
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.geteuid()
        or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ):
        raise PlanRefused(
            f"the lock directory {path} is not a directory with mode 0700 owned by user"
            f" {os.geteuid()}; find out who created it, remove it, and try again"
        )
    return path


def _place() -> Path:
    if os.geteuid() == 0:
        return _ROOTS
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return Path(runtime, "fleet-virt")
    try:
        return Path("~/.cache/fleet.virt/run").expanduser()
    except RuntimeError:
        raise PlanRefused(
            f"user {os.geteuid()} has no home directory for locks; set HOME, or XDG_RUNTIME_DIR to"
            " a directory of this user"
        ) from None


def shared(
    name: str,
    seconds: float,
    what: str,
    lock: t.Callable[[int], None] | None = None,
) -> contextlib.AbstractContextManager[int]:
    """Hold the lock ``name``, shared by all processes of this collection and user on this host.

    Raises PlanRefused if it is not acquired within ``seconds``; ``what`` is what the other run has
    been doing.
    """
    path = own_folder() / f"{name}.lock"
    refusal = (
        f"another run has {what.format(path=path)} for {seconds:g} seconds; find the process with"
        f" fuser {path}, and try again"
    )
    return held(path, seconds, refusal, lock)


@contextlib.contextmanager
def held(
    path: str | os.PathLike[str],
    seconds: float,
    refusal: str,
    lock: t.Callable[[int], None] | None = None,
    *,
    folder: bool = False,
) -> t.Iterator[int]:
    """Hold a lock on the file ``path``, created if needed, or on that ``folder``; yields its
    descriptor.

    ``lock`` is given the descriptor and raises BlockingIOError or PermissionError (fcntl(2)) while
    another process holds it; the default is flock(2) on the entire file. Raises PlanRefused with
    ``refusal`` if it is not acquired within ``seconds``, or at once where this process has waited
    for it in vain within the last ``seconds``.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY if folder else os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        known, begun = os.fspath(path), time.monotonic()
        patience = 0 if begun < _given_up.get(known, begun) else seconds
        limit = begun + patience
        while True:
            try:
                (lock or lock_file)(descriptor)
                _given_up.pop(known, None)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() > limit:
                    if patience:
                        _given_up[known] = limit + seconds
                    raise PlanRefused(refusal) from None
                time.sleep(_POLL)
        yield descriptor
    finally:
        os.close(descriptor)


def lock_file(descriptor: int) -> None:
    """Lock the entire file (flock(2)); raises BlockingIOError while another process holds it."""
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
