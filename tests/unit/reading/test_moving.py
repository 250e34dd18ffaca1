# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is shown of moves while the module works, and that nobody waits for it."""

from __future__ import annotations

import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import progress
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _moving
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _sent, _ssh
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

VALUES: dict[str, t.Any] = {"hostvars": {"hv1": {"ansible_connection": "local"}}}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said, and no waiting before that."""
    found: list[str] = []
    monkeypatch.setattr(_moving, "_say", found.extend)
    monkeypatch.setattr(progress, "SECONDS", 0.01)
    monkeypatch.setattr(progress, "_FASTEST", 0.0)
    return found


def _program(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The program as it is sent, but for the folder that it looks at."""
    main = f"from pathlib import Path; effects_locks.own_folder = lambda: Path({str(folder)!r})"
    whole = _sent.program

    def program(modules: t.Any, text: str) -> bytes:
        return whole(modules, f"{main}; {text}")

    monkeypatch.setattr(_sent, "program", program)


def test_lines_come_from_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shown: list[str]
) -> None:
    """The program runs as it is sent, without this collection."""
    _program(monkeypatch, tmp_path)
    file = tmp_path / "migrate-5a8c.progress"
    with _moving.Moving("hv1", ["web1"], VALUES) as moving:
        file.write_bytes(progress.encode("web1", "web1: 10 %"))
        wait_for(lambda: shown == ["web1: 10 %"], 20, "the first line")
        file.write_bytes(progress.encode("web1", "web1: 20 %"))
        wait_for(lambda: shown == ["web1: 10 %", "web1: 20 %"], 20, "the second line")
    thread = moving._thread
    assert thread is not None
    thread.join(5)
    assert not thread.is_alive()
    vm = {"name": "web1", "progress": ["web1: 10 %", "web1: 20 %", "web1: 30 %"]}
    moving.ended({"vms": [vm, 5]})
    assert shown[2:] == ["web1: 30 %"]
    moving.ended({"failed": True})
    assert shown[3:] == []


@pytest.mark.parametrize("shell", ["sleep 60", "exit 255", "cat /dev/zero", "echo {}; sleep 60"])
def test_a_hypervisor_that_says_nothing_or_too_much_keeps_nobody(
    monkeypatch: pytest.MonkeyPatch, shown: list[str], shell: str
) -> None:
    monkeypatch.setattr(_sent, "command", lambda _reached: ["/bin/sh", "-c", shell])
    monkeypatch.setattr(_moving, "_PATIENCE", 0.2)
    with _moving.Moving("hv1", ["web1"], VALUES) as moving:
        assert moving._thread is not None
        time.sleep(0.2)  # it is at work
        began = time.monotonic()
    assert time.monotonic() - began < 10
    assert shown == []


def test_a_short_move_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr(_moving, "RemoteSide", lambda *words: opened.append(words))
    with _moving.Moving("hv1", ["web1"], VALUES) as moving:
        pass
    assert moving._thread is not None
    moving._thread.join(5)
    assert opened == []


def test_nothing_says_how_it_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ssh, "login", lambda *_words: _ssh.Reached("test:///default"))
    with _moving.Moving("hv1", ["web1"], VALUES) as moving:
        assert moving._thread is None
    with _moving.Moving("hv1", ["web1"], {"hostvars": {}}) as moving:
        assert moving._thread is None
