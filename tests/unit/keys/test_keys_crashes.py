# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Putting keys in place, killed before each change of a file."""

from __future__ import annotations

import contextlib
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks as locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import key_files as keys_layout
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.key_files import (
    FILES,
    KEY,
    first,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import effects as keys
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import (
    effects_reload as key_reload,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import (
    effects_start as key_start,
)
from ansible_collections.fleet.virt.tests.unit._crash import Effects, Killed, counted

_KINDS = ("control", "data")


class _Tool:
    """Keys whose identity is their content; making one takes no second."""

    def key_id(self, path: Path) -> str | None:
        return path.read_text() if path.exists() else None

    def make(self, path: Path) -> None:
        _Tool.made += 1
        path.write_text(f"key {_Tool.made} of {path.stem}")

    def request(self, path: Path) -> str:
        return f"request for {path.read_text()}"

    made = 0


@pytest.fixture
def pki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folders of a new hypervisor; whoever runs the tests is root there."""
    monkeypatch.setattr(keys, "_owner", lambda *_given: (os.geteuid(), os.getegid()))
    monkeypatch.setattr(keys, "_tool", lambda _timeout: _Tool())
    monkeypatch.setattr(keys, "qemu_user", lambda _given: "qemu")
    monkeypatch.setattr(key_start, "failed", lambda _daemon: [])
    monkeypatch.setattr(key_reload, "reload", lambda *_given: ["libvirtd"])
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    return _new(tmp_path, monkeypatch, 0)


def _new(root: Path, patch: pytest.MonkeyPatch, number: int) -> Path:
    """Another hypervisor."""
    pki = root / str(number)
    pki.mkdir()
    for module in (keys, keys_layout):
        patch.setattr(module, "PKI", str(pki))
        patch.setattr(module, "BASE", f"{pki}/libvirt/fleet-virt")
        patch.setattr(module, "CURRENT", f"{pki}/libvirt/fleet-virt/current")
    patch.setattr(locks, "own_folder", lambda: root)
    return pki


def _renew(number: int) -> None:
    """New keys, and certificates for them."""
    asked = keys.request(dict.fromkeys(_KINDS, True), 10, check=False)["requests"]
    _deploy({kind: text.removeprefix("request for ") for kind, text in asked.items()}, number)


def _deploy(key_ids: t.Mapping[str, str], number: int) -> None:
    kinds = {
        kind: {
            "ca": f"CA {number}",
            "crl": f"CRL {number}",
            "certificate": f"certificate for {key_ids[kind]}",
            "key_id": key_ids[kind],
        }
        for kind in _KINDS
    }
    keys.deploy(kinds, (), None, 10, check=False)


def _killed(pki: Path, work: t.Callable[[], None], number: int) -> Effects:
    effects = Effects(pki, number)
    with contextlib.suppress(Killed), counted(effects):
        work()
    return effects


def _mismatches(pki: Path) -> list[str]:
    """Where what a daemon would read now does not belong together."""
    text = {file.path: _text(pki / file.path) for file in FILES}
    found = []
    for kind in _KINDS:
        key, certificate = text[first(kind, KEY)], text[first(kind, "certificate")]
        if certificate != f"certificate for {key}":
            found.append(f"{certificate!r} with {key!r}")
    for file in FILES:
        if text[file.path] != text[first(file.kind, file.content)]:
            found.append(f"{file.path} is {text[file.path]!r}")
    return found


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def test_a_renewal_is_there_at_once_or_not(
    pki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _renew(1)
    assert _mismatches(pki) == []
    effects = len(_killed(pki, lambda: _renew(2), 0).done)
    assert effects > 30
    assert keys._faults("qemu") == []
    for number in range(1, effects + 1):
        pki = _new(tmp_path, monkeypatch, number)
        _renew(1)
        step = _killed(pki, lambda: _renew(2), number).done[-1]
        where = f"killed before {step!r} ({number})"
        assert _mismatches(pki) == [], where
        _renew(3)
        assert _mismatches(pki) == [], where
        assert keys._faults("qemu") == [], where
        assert _text(pki / "CA/cacert.pem") == "CA 3", where
        base = pki / "libvirt" / "fleet-virt"
        left = sorted(path.name for path in base.iterdir())
        versions = [name for name in left if name.startswith("v")]
        assert len(versions) <= 2, where
        assert left == ["current", "reloaded", *versions], where
        secrets = {path.stat().st_mode & 0o777 for path in base.rglob("*key.pem")}
        assert secrets == {0o600}, where


def test_files_of_others_are_kept_and_read_until_there_are_ours(
    pki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def theirs(folder: Path) -> None:
        for file in FILES:
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"their {file.kind} {file.content}")
            path.chmod(file.mode)

    theirs(pki)
    effects = len(_killed(pki, lambda: _renew(1), 0).done)
    for number in range(1, effects + 1, 3):
        pki = _new(tmp_path, monkeypatch, number)
        theirs(pki)
        step = _killed(pki, lambda: _renew(1), number).done[-1]
        where = f"killed before {step!r} ({number})"
        read = {_text(pki / file.path) for file in FILES}
        old = {f"their {file.kind} {file.content}" for file in FILES}
        assert read <= old or not read & old, where
        _renew(2)
        assert _mismatches(pki) == [], where
        found = pki / "libvirt" / "fleet-virt" / "found"
        stored = {file.path: _text(found / file.path) for file in FILES}
        assert stored == {file.path: f"their {file.kind} {file.content}" for file in FILES}, where


@pytest.mark.usefixtures("pki")
def test_a_key_nobody_has_used_is_taken() -> None:
    first_asked = keys.request({"control": True}, 10, check=False)
    assert keys.request({"control": True}, 10, check=False) == first_asked
