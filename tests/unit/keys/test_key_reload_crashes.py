# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A daemon that reads its TLS files again, by a run that is killed at each command it gives."""

from __future__ import annotations

import contextlib
import shutil
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_systemd as systemd,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import (
    effects_reload as key_reload,
)
from ansible_collections.fleet.virt.tests.unit._crash import Effects, Killed, counted

_LIMITS = {"nclients_max": 5000, "nclients_unauth_max": 20}


class Daemon:
    """What virt-admin and systemd would do for one libvirtd that listens with TLS."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.limits = dict(_LIMITS)
        self.timer: list[str] = []  # what systemd gives virt-admin when it comes
        self.read = 0
        self.read_while_open = False
        self.clients = {"7": "C=DE,CN=good", "8": "CN=bad"}
        self.fails = ""
        self.effects = Effects(root)
        (root / "run").mkdir(parents=True)
        patch.setattr(key_reload, "_run", lambda words, _timeout: self.run(words))
        patch.setattr(systemd, "is_active", lambda unit, *_limit: "libvirtd" in unit)
        patch.setattr(systemd, "stop", lambda unit, *_limit: self.stop(unit))
        patch.setattr(key_reload, "a_client", self._a_client)
        patch.setattr(key_reload, "Path", lambda path: root / str(path).lstrip("/"))
        patch.setattr(key_reload.time, "sleep", lambda _seconds: None)
        patch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")

    @contextlib.contextmanager
    def _a_client(self, _daemon: str, _timeout: float) -> Iterator[None]:
        yield

    def stop(self, unit: str) -> None:
        self.effects.next(f"stop {unit}")
        self.timer = []

    def run(self, words: list[str]) -> tuple[int, str]:
        if words[0] == "systemd-run":
            self.effects.next("arm the timer")
            self.timer = words[words.index("-c") + 2 :]
        else:
            return self._admin(words[3:])
        return 0, ""

    def _admin(self, words: list[str]) -> tuple[int, str]:
        verb = words[0]
        if verb == "server-clients-info":
            return 0, "\n".join(f"{name}: {value}" for name, value in self.limits.items())
        if verb == "client-list":
            return 0, "\n".join(f" {client} tls now" for client in self.clients)
        if verb == "client-info":
            return 0, f"tls_x509_dname : {self.clients.get(words[2], '')}"
        self.effects.next(" ".join(words))
        if verb == self.fails:
            return 1, "it fails here"
        if verb == "server-clients-set":
            self.set_limits(words)
        elif verb == "server-update-tls":
            self.read += 1
            self.read_while_open |= self.limits["nclients_max"] != 1
        elif verb == "client-disconnect":
            del self.clients[words[2]]
        return 0, ""

    def set_limits(self, words: t.Sequence[str]) -> None:
        given = dict(zip(words[2::2], words[3::2]))
        self.limits = {
            "nclients_max": int(given["--max-clients"]),
            "nclients_unauth_max": int(given["--max-unauth-clients"]),
        }

    def reload(self, kill_at: int = 0) -> Effects:
        self.effects = Effects(self.root, kill_at)
        with contextlib.suppress(Killed), counted(self.effects):
            key_reload.reload(10, ["bad"])
        return self.effects

    @property
    def saved(self) -> list[str]:
        return [path.name for path in (self.root / "run").iterdir()]


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[], Daemon]:
    """Makes daemons."""
    count = iter(range(1000))
    return lambda: Daemon(tmp_path / str(next(count)), monkeypatch)


@pytest.mark.parametrize("timer", [False, True])
def test_people_get_in_again_whenever_it_is_killed(
    daemon: t.Callable[[], Daemon], timer: bool
) -> None:
    effects = len(daemon().reload().done)
    assert effects >= 7
    for number in range(1, effects + 1):
        one = daemon()
        step = one.reload(number).done[-1]
        where = f"killed before {step!r} ({number})"
        assert one.limits == _LIMITS or one.timer, where
        assert not one.read_while_open, where
        if timer and one.timer:
            one.set_limits(one.timer)
            one.timer = []
            assert one.limits == _LIMITS, where
        one.reload()
        assert one.limits == _LIMITS, where
        assert (one.timer, one.saved) == ([], []), where
        assert one.read, where
        assert not one.read_while_open, where
        assert list(one.clients) == ["7"], where


@pytest.mark.parametrize("verb", ["server-update-tls"])
def test_people_get_in_again_when_it_fails(daemon: t.Callable[[], Daemon], verb: str) -> None:
    one = daemon()
    one.fails = verb
    with pytest.raises(FleetVirtError, match="it fails here"):
        one.reload()
    assert one.limits == _LIMITS
    assert (one.timer, one.saved) == ([], [])
