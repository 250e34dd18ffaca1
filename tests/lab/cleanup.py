# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking a laboratory down, also one whose program was killed at any moment.

The order makes every step repeatable: the entry in RUN goes last, and names the folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from . import cgroups, counts, fabric, processes, roots
from .errors import LabError, Progress
from .paths import RUN, cache, control_folder, locked
from .record import Record

__all__ = ["check_ours", "lock_of", "register", "registered", "remove", "stale", "sweep"]


def lock_of(directory: Path) -> Path:
    """The lock of the laboratory in a folder."""
    return directory.parent.parent / "locks" / f"lab-{directory.name}"


def registered() -> Iterator[tuple[str, Path]]:
    """Name and folder of every laboratory of this machine."""
    folder = RUN / "labs"
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            yield entry.name, Path((entry / "directory").read_text())
        except OSError:
            continue  # being made or taken down at this moment


def check_ours(name: str, directory: Path) -> None:
    """See that nobody else has a laboratory of this name on this machine.

    :raises LabError: another cache folder has.
    """
    theirs = dict(registered()).get(name, directory)
    if theirs != directory:
        raise LabError(
            f"a laboratory named {name!r} is up in {theirs}: choose another --name, or take it "
            f"down with FLEET_VIRT_CACHE={theirs.parent.parent}"
        )


def register(name: str, directory: Path) -> None:
    """Enter a laboratory into RUN; with the machine's lock held.

    :raises LabError: another cache folder has a laboratory of this name.
    """
    check_ours(name, directory)
    control = control_folder(name)
    control.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = control / "directory.new"
    new.write_text(str(directory))
    os.replace(new, control / "directory")


def stale(record: Record) -> str | None:
    """Why nobody can want this laboratory any more, or None."""
    if record.boot != processes.boot_id():
        return "the machine was restarted"
    if record.builder is not None and not record.builder.alive:
        return f"process {record.builder.pid} died while bringing it up"
    if record.owner is not None and not record.owner.alive:
        return f"its owner, process {record.owner.pid}, is dead"
    return None


def _force_remove(directory: Path) -> None:
    if not directory.exists():
        return
    try:
        shutil.rmtree(directory)
    except PermissionError:  # a test made files in a host immutable
        processes.run(["chattr", "-R", "-f", "-i", "-a", str(directory)], check=False)
        shutil.rmtree(directory)


def _leave(progress: Progress) -> None:
    """After the last laboratory, restore the machine; with the machine's lock held."""
    labs = RUN / "labs"
    if labs.is_dir() and os.listdir(labs):
        return
    fabric.lower_inotify(progress)
    with contextlib.suppress(FileNotFoundError):
        labs.rmdir()
    (RUN / "lock").unlink()
    # From here on somebody else may have begun anew, with a lock of his own.
    with contextlib.suppress(OSError):
        RUN.rmdir()


def remove(name: str, directory: Path, progress: Progress) -> int:
    """Take everything of a laboratory away; its lock is held.

    :returns: how many processes had to be ended.
    :raises LabError: the laboratory of this name is in another cache folder, or will not go.
    """
    check_ours(name, directory)
    count = processes.kill(directory, control=control_folder(name))
    fabric.remove_link(fabric.link_name(name))
    cgroups.remove(name)
    counts.keep(directory)
    _force_remove(directory)
    with locked(RUN / "lock"):
        _force_remove(control_folder(name))
        _leave(progress)
    lock_of(directory).unlink(missing_ok=True)
    return count


def sweep(progress: Progress, but: str) -> None:
    """Take down every laboratory whose owner is dead, except ``but`` (which the caller handles)."""
    if roots.sweep():
        progress("removed half-built root trees of a killed program")
    known = dict(registered())
    folder = cache() / "labs"
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        known.setdefault(path.name, path)
    for name, directory in known.items():
        if name == but:
            continue
        with locked(lock_of(directory), wait=False) as got:
            if not got:
                continue  # somebody is at work on it
            try:
                record = Record.load(directory)
                why = stale(record) if record else "nothing is written down about it"
            except LabError as error:
                why = str(error)
            if why:
                remove(name, directory, progress)
                progress(f"took down laboratory {name!r}: {why}")
