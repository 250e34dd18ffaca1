# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Locks between our processes on one host: each is gone with its holder, however that ends.

Their files lie in a folder that nobody else may enter: a file in /run/lock could be held for ever,
or be a link, by any user.

This file is private to the collection.
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


def own_folder() -> Path:
    """The folder for what lasts until the next boot, which is made: of root, or of this user.

    Raises PlanRefused for one that somebody else could have made or may look into.
    """
    path = _place()
    try:
        if path != _ROOTS:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        status = path.lstat()
    except OSError as error:
        raise PlanRefused(
            f"{path}, where locks are kept, cannot be made: {error.strerror}"
        ) from None
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.geteuid()
        or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ):
        raise PlanRefused(
            f"{path}, where locks are kept, is not a folder with mode 0700 of user {os.geteuid()};"
            " see who made it, remove it, and try again"
        )
    return path


def _place() -> Path:
    if os.geteuid() == 0:
        return _ROOTS
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return Path(runtime, "fleet-virt")
    return Path("~/.cache/fleet.virt/run").expanduser()


def shared(
    name: str,
    seconds: float,
    what: str,
    lock: t.Callable[[int], None] | None = None,
) -> contextlib.AbstractContextManager[int]:
    """While the lock ``name`` of all our processes on this host, of this user, is held.

    ``what`` another run has been doing when it is not had within ``seconds``: PlanRefused then.
    """
    path = own_folder() / f"{name}.lock"
    refusal = (
        f"another run has {what.format(path=path)} for {seconds:g} seconds; see who with fuser"
        f" {path}, and try again"
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
    """While a lock on the file ``path``, which is made, or on that ``folder`` is held; its
    descriptor.

    ``lock`` is given the descriptor and raises BlockingIOError or PermissionError (fcntl(2)) while
    somebody else holds it; by default it is flock(2) on the whole file. Raises PlanRefused with
    ``refusal`` when it is not had within ``seconds``.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY if folder else os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        limit = time.monotonic() + seconds
        while True:
            try:
                (lock or whole)(descriptor)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() > limit:
                    raise PlanRefused(refusal) from None
                time.sleep(_POLL)
        yield descriptor
    finally:
        os.close(descriptor)


def whole(descriptor: int) -> None:
    """flock(2) on all of the file; raises BlockingIOError while somebody else holds it."""
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
