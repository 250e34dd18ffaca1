# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines in a journal, from a socket of the test's own."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_syslog as syslog,
)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    path = str(tmp_path / "log")
    monkeypatch.setattr(syslog, "SOCKET", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        yield sock


def test_each_line_is_a_message_with_its_tag(reader: socket.socket) -> None:
    assert syslog.write(["first", "second"])
    for line in ("first", "second"):
        assert reader.recv(4096).decode() == f"<86>fleet.virt[{os.getpid()}]: {line}"


def test_reader_that_stands_still_is_given_up(
    reader: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reader
    monkeypatch.setattr(syslog, "_SECONDS", 0.05)
    started = time.monotonic()
    assert not syslog.write("x" * 1000 for _ in range(100_000))
    assert time.monotonic() - started < 60


def test_host_without_journal_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syslog, "SOCKET", str(tmp_path / "missing"))
    assert not syslog.write(["lost"])
