# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines for the journal of this machine, or for whatever else reads its syslog socket.

Not by syslog(3), which waits for a reader that stands still.
"""

from __future__ import annotations

import os
import socket
import typing as t

TAG = "fleet.virt"
SOCKET = "/dev/log"
_PRIORITY = 10 << 3 | 6  # authpriv, for which a distribution keeps files that not everybody reads
_SECONDS = 1.0


def write(lines: t.Iterable[str]) -> bool:
    """Write lines, each of ASCII; whether all were. The first that is not ends it."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_SECONDS)
            sender.connect(SOCKET)
            for line in lines:
                sender.send(f"<{_PRIORITY}>{TAG}[{os.getpid()}]: {line}".encode("ascii", "replace"))
    except OSError:
        return False
    return True
