# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading the cards in the folder of a pool, which may be on a mount that hangs: call with a limit.

What is read was written by some hypervisor that has the storage, which may be hostile.
"""

from __future__ import annotations

import os
import stat
import typing as t

from ..._errors import PlanRefused, XmlError
from ..base import read_file_identity as file_identity
from .card import MOST_BYTES, Card, CardFile, CardName, parse, parse_name


def names(folder: str) -> list[CardName]:
    """The cards in a folder, by the names of their files; nothing is opened."""
    with os.scandir(folder) as entries:
        names = [parse_name(entry.name) for entry in entries]
    return sorted((at for at in names if at is not None), key=lambda at: at.file)


def load(folder: str, at: CardName) -> CardFile:
    """Read one card. One that cannot be read has a problem, and is still there.

    Raises FileNotFoundError if there is none.
    """
    path = os.path.join(folder, at.file)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        return CardFile(folder, at, problem=f"{path}: {error.strerror or error}")
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            what = f"this is no regular file of at most {MOST_BYTES} bytes"
            return CardFile(folder, at, problem=f"{path}: {what}")
        identity = file_identity.of_open(descriptor)
        content = os.pread(descriptor, MOST_BYTES, 0)
    finally:
        os.close(descriptor)
    try:
        card = parse(at.file, content.decode("utf-8"))
    except (XmlError, UnicodeDecodeError) as error:
        return CardFile(folder, at, identity=identity, problem=f"{path}: {error}")
    return CardFile(folder, at, card, identity)


def distinct(folders: t.Iterable[str]) -> list[str]:
    """These folders without those that are another of them under a second name: what is mounted
    twice has each card once. One that is not there is left out."""
    places: dict[tuple[int, int], str] = {}
    for folder in folders:
        try:
            status = os.stat(folder)
        except FileNotFoundError:
            continue
        places.setdefault((status.st_dev, status.st_ino), folder)
    return list(places.values())


def load_all(folder: str, wanted: t.Callable[[CardName], bool]) -> list[CardFile]:
    """Read the cards in a folder whose names are ``wanted``; one that vanished is left out."""
    return load_those(folder, filter(wanted, names(folder)))


def load_those(folder: str, wanted: t.Iterable[CardName]) -> list[CardFile]:
    """Read these cards of a folder; one that vanished is left out."""
    files = []
    for at in wanted:
        try:
            files.append(load(folder, at))
        except FileNotFoundError:
            continue
    return files


def require(folder: str, at: CardName) -> Card:
    """The card; raises PlanRefused if there is none, or it cannot be read."""
    try:
        read = load(folder, at)
    except FileNotFoundError:
        raise PlanRefused(f"{os.path.join(folder, at.file)} is gone; run this again") from None
    if read.card is None:
        raise PlanRefused(f"{read.problem}; it is no card that can be used")
    return read.card
