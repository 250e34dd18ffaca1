# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An answer without end."""

from __future__ import annotations

import os
import signal

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _flood

MIB = 1 << 20


def test_what_goes_on_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_flood, "MOST_READ", 32 * MIB)
    kept: list[bytes] = []

    class Connection:
        def exec_command(self, command: str, *, sudoable: bool) -> tuple[int, bytes]:
            assert (command, sudoable) == ("python", True)
            while len(kept) < 4000:
                kept.append(os.urandom(MIB))
            return 0, b""

    connection = Connection()
    _flood.guard(connection)
    once = connection.exec_command
    _flood.guard(connection)
    assert connection.exec_command is once
    with pytest.raises(FleetVirtError, match=r"^its response exceeds the limit of"):
        connection.exec_command("python", sudoable=True)
    assert len(kept) < 4000
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
    os.kill(os.getpid(), signal.SIGPROF)  # the last one, which was on its way


def test_what_ends_is_left_alone() -> None:
    with _flood.bounded():
        assert sum(range(10**6)) == 499999500000
