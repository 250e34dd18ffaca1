# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether an image has ever been written to: one that is as created holds no data."""

from __future__ import annotations

import struct
import typing as t

_MAGIC = b"QFI\xfb"
_HEADER = struct.Struct(">4sIQIIQIIQQIIQ")  # docs/interop/qcow2.txt in QEMU's source
_DATA_FILE = 1 << 2
_MAX_L1 = 1 << 22  # entries: QEMU's own limit of 32 MiB
_BITMAPS = struct.pack(">I", 0x23852875)


def is_blank(read: t.Callable[[int, int], bytes], *, hollow: bool) -> bool:
    """Whether the image holds nothing.

    ``read(offset, length)`` returns what the file has there, less at its end. ``hollow``: the file
    is a single hole, which is the only criterion for a raw image. A qcow2 image has an L1 table,
    which is empty as long as nothing was written; its backing file does not count.
    """
    head = read(0, 4096)
    if not head.startswith(_MAGIC) or len(head) < _HEADER.size:
        return hollow
    fields = _HEADER.unpack_from(head)
    version, l1_size, l1_at, snapshots = fields[1], fields[7], fields[8], fields[11]
    if version not in (2, 3) or snapshots or l1_size > _MAX_L1:
        return False
    if version == 3:
        features = int.from_bytes(head[72:80], "big")
        if features & _DATA_FILE or _BITMAPS in head[104:]:
            return False
    table = read(l1_at, l1_size * 8)
    return len(table) == l1_size * 8 and not any(table)
