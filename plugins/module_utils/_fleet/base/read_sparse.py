# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a sparse file, whose holes may be much larger than its data."""

from __future__ import annotations

import errno
import os
import typing as t

from . import read_caller as company

BLOCK = 1 << 18
ZERO = bytes(BLOCK)  # every full block of a hole is this very object


def blocks(descriptor: int) -> t.Iterator[bytes]:
    """The content of an open file from its start; holes are not read.

    Raises Abandoned when the caller is gone.
    """
    position, end = 0, os.fstat(descriptor).st_size
    while position < end:
        data = _sought(descriptor, position, os.SEEK_DATA, position, end)
        if data < end:
            hole = _sought(descriptor, data, os.SEEK_HOLE, end, end)
            begin, stop = data // BLOCK * BLOCK, min(end, -(-hole // BLOCK) * BLOCK)
        else:  # the rest of the last hole is read, as it is not a full block
            begin, stop = end, end
        while position + BLOCK <= begin:
            company.require()
            yield ZERO
            position += BLOCK
        while position < stop:
            company.require()
            block = os.pread(descriptor, min(BLOCK, stop - position), position)
            if not block:
                return  # the file was truncated meanwhile
            yield block
            position += len(block)


def _sought(descriptor: int, position: int, what: int, otherwise: int, end: int) -> int:
    """Where data or a hole begins; ``otherwise`` if the file system cannot tell."""
    try:
        return os.lseek(descriptor, position, what)
    except OSError as error:
        return end if error.errno == errno.ENXIO else otherwise  # no data up to the end
