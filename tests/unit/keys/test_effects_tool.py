# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import effects_tool as key_tool
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _x509


def test_openssl_makes_a_key_and_a_request(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        tool = key_tool.KeyTool("openssl", 60)
        tool.make(tmp_path / "key.pem")
    finally:
        os.umask(before)
    assert [path.name for path in tmp_path.iterdir()] == ["key.pem"]
    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
    public = _x509.public_key_of(tool.request(tmp_path / "key.pem"), "hv1")
    assert _x509.key_id(public) == tool.key_id(tmp_path / "key.pem")
    assert public.key_size == key_tool.BITS
    assert [path.name for path in tmp_path.iterdir()] == ["key.pem"]


def test_what_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("no key")
    tool = key_tool.KeyTool("openssl", 60)
    assert tool.key_id(tmp_path / "key.pem") is None
    with pytest.raises(FleetVirtError, match="openssl req failed"):
        tool.request(tmp_path / "key.pem")


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FleetVirtError, match="timed out after"):
        key_tool.KeyTool("openssl", 0.0001).make(tmp_path / "key.pem")
    assert list(tmp_path.iterdir()) == []


def test_neither_program_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FleetVirtError, match="install the package openssl"):
        key_tool.require()
