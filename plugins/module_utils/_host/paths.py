# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding out which files hang, before libvirt is asked about them.

libvirt reads a disk's header while it holds the domain's or the pool's lock. On a mount that hangs
(a dead NFS server) it never lets go, and from then on every listing of that host hangs, whoever
asks. A thread of ours that hangs in its place harms nobody.

This file is private to the collection.
"""

from __future__ import annotations

import os
import stat
import typing as t
from dataclasses import dataclass, field

from .._errors import DeadlineExceeded
from . import deadline
from .deadline import Failed

_PARALLEL = 32


@dataclass
class Probed:
    """What was found: paths that do not answer, and the errors of others."""

    hanging: set[str] = field(default_factory=set)
    errors: dict[str, str] = field(default_factory=dict)


def probe(paths: t.Iterable[str], seconds: float) -> Probed:
    """Open each of ``paths`` (absolute; of this machine) for reading, and close it again.

    The paths of a folder are tried by one thread; one that hangs makes the whole folder count as
    hanging, ``seconds`` later. All folders are tried at the same time.
    """
    folders: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        folders.setdefault(os.path.dirname(path), []).append(path)
    found = Probed()
    groups = list(folders.items())
    outcomes = deadline.each(
        lambda group: _try_all(group[1]),
        groups,
        seconds=seconds,
        what=lambda group: f"look into {group[0]}",
        parallel=_PARALLEL if len(groups) > 1 else 1,
    )
    for (_, members), outcome in zip(groups, outcomes):
        if not isinstance(outcome, Failed):
            found.errors.update(outcome.value)
        elif isinstance(outcome.error, DeadlineExceeded):
            found.hanging.update(members)
    return found


def _try_all(paths: t.Sequence[str]) -> dict[str, str]:
    errors = {}
    for path in paths:
        try:
            if stat.S_ISREG(os.stat(path).st_mode):  # opening a device may do something to it
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            errors[path] = error.strerror or str(error)
    return errors
