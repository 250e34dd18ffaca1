# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Locks between our processes on one host: each is gone with its holder, however that ends.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import typing as t

from .._errors import PlanRefused

_POLL = 0.05


@contextlib.contextmanager
def held(
    path: str | os.PathLike[str],
    seconds: float,
    refusal: str,
    lock: t.Callable[[int], None] | None = None,
    *,
    folder: bool = False,
) -> t.Iterator[None]:
    """While a lock on the file ``path``, which is made, or on that ``folder`` is held.

    ``lock`` is given the descriptor and raises BlockingIOError or PermissionError (fcntl(2)) while
    somebody else holds it; by default it is flock(2) on the whole file. Raises PlanRefused with
    ``refusal`` when it is not had within ``seconds``.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY if folder else os.O_RDWR | os.O_CREAT
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
        yield
    finally:
        os.close(descriptor)


def whole(descriptor: int) -> None:
    """flock(2) on all of the file; raises BlockingIOError while somebody else holds it."""
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
