# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running a program of this machine: no shell, no locale, a limit, and an error that says what.

This file is private to the collection.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import typing as t
from dataclasses import dataclass

from ..._errors import DeadlineExceeded, FleetVirtError

_SECONDS = 60.0
# A session without root's login has no sbin in its path
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ProgramFailed(FleetVirtError):
    """A program ended with another status than 0; keeps what it said."""

    def __init__(self, argv: t.Sequence[str], status: int, said: str) -> None:
        self.status = status
        self.said = said
        super().__init__(f"{' '.join(argv[:3])} failed ({status}): {said[:1000]}")


@dataclass(frozen=True)
class Done:
    """How a program ended."""

    status: int
    out: str
    said: str  # standard error, or what there is instead


def find(name: str) -> str | None:
    """Where a program is; None where it is not installed."""
    return shutil.which(name, path=_PATH)


def attempt(
    argv: t.Sequence[str], *, text: str | None = None, seconds: float = _SECONDS
) -> Done | None:
    """Run a program with ``text`` as its input; None where it is not installed.

    Raises DeadlineExceeded after ``seconds``; the program is killed then.
    """
    if find(argv[0]) is None:
        return None
    try:
        done = subprocess.run(
            list(argv),
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            env=_environment(),
            timeout=seconds,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise DeadlineExceeded(argv[0], seconds) from None
    said = " ".join((done.stderr.strip() or done.stdout.strip()).split())
    return Done(done.returncode, done.stdout, said)


def heard(
    argv: t.Sequence[str], wanted: t.Callable[[str], bool], *, seconds: float = _SECONDS
) -> str | None:
    """The first line of a program's standard error that is wanted; it is ended then.

    Its last line if none was wanted until it ended, or was ended after ``seconds``; None where it
    is not installed.
    """
    if find(argv[0]) is None:
        return None
    last = ""
    with subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_environment(),
        encoding="utf-8",
        errors="replace",
    ) as process:
        limit = threading.Timer(seconds, process.kill)
        limit.start()
        try:
            for line in t.cast("t.Iterable[str]", process.stderr):
                last = line.strip()
                if wanted(last):
                    break
        finally:
            limit.cancel()
            process.kill()
    return last


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": _PATH, "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}


def run(argv: t.Sequence[str], *, text: str | None = None, seconds: float = _SECONDS) -> str:
    """What a program printed; raises ProgramFailed when it fails or is not there."""
    done = attempt(argv, text=text, seconds=seconds)
    if done is None:
        raise ProgramFailed(argv, 127, "it is not installed")
    if done.status != 0:
        raise ProgramFailed(argv, done.status, done.said)
    return done.out
