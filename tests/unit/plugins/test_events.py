# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook of a user's that gets the events of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_syslog as syslog,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.events import (
    Caller,
    Event,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _events

CALLER = Caller("alice", "run-1", "virt_state")
EVENTS = [
    Event(CALLER, "hv1", "web1", "changed"),
    Event(CALLER, "hv1", "web2", "unchanged"),
    Event(CALLER, "hv2", "web3", "failed", "web3 on hv2: no"),
]


@pytest.fixture(autouse=True)
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []

    def write(given: list[str]) -> bool:
        lines.extend(given)
        return True

    monkeypatch.setattr(syslog, "write", write)
    return lines


def test_hook_gets_every_event_on_its_input(tmp_path: Path, written: list[str]) -> None:
    hook = tmp_path / "hook"
    hook.write_text(f'#!/bin/sh\n[ "$*" = "a b" ] && cat >> {tmp_path}/events\n')
    hook.chmod(0o755)
    assert _events.tell(EVENTS, f"{hook} a b") is None
    assert _events.tell(EVENTS[:1], [str(hook), "a", "b"]) is None
    lines = (tmp_path / "events").read_text().splitlines()
    assert [json.loads(line)["vm"] for line in lines] == ["web1", "web2", "web3", "web1"]
    assert lines[:3] == [event.json for event in EVENTS]
    assert [json.loads(line)["vm"] for line in written] == ["web1", "web3", "web1"]


def test_hook_is_not_run_by_a_shell(tmp_path: Path) -> None:
    target = tmp_path / "made"
    assert _events.tell(EVENTS[:1], f"true; touch {target}") is not None
    assert not target.exists()


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("/nonexistent/hook", "/nonexistent/hook"),
        ("sh -c 'echo broken >&2; exit 3'", "exit status 3: broken"),
        ("'", "is no command (No closing quotation)"),
        (["sh", "-c", "sleep 60"], "no answer within 0.2 seconds"),
    ],
)
def test_hook_that_fails_is_reported_with_number_of_unsent_events(
    hook: object, said: str, monkeypatch: pytest.MonkeyPatch, written: list[str]
) -> None:
    monkeypatch.setattr(_events, "ONE", 0.2)
    problem = _events.tell(EVENTS, hook)
    assert problem is not None
    assert said in problem
    assert "3 of 3 events were not sent" in problem or "no event was sent" in problem
    assert len(written) == 2


def test_hook_that_is_slow_for_all_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_events, "ALL", 0.0)
    problem = _events.tell(EVENTS, "true")
    assert problem is not None
    assert "it takes too long; 3 of 3 events were not sent, from web1 on" in problem


def test_person_is_who_became_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_events.os, "getuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", "alice")
    assert _events.person() == "alice"
    monkeypatch.delenv("SUDO_USER")
    assert _events.person() == "root"
    monkeypatch.setattr(_events.os, "getuid", lambda: 4_000_000_000)
    assert _events.person() == "uid 4000000000"
