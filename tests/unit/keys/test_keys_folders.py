# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Folders of keys have their mode from the moment they exist: nobody gives it to them later."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import effects as keys


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o700])
@pytest.mark.parametrize("mask", [0o077, 0o022, 0o000])
def test_a_folder_has_its_mode_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, mask: int
) -> None:
    def killed(*_words: object, **_options: object) -> None:
        raise AssertionError("killed before the mode was changed")

    former = os.umask(mask)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "chmod", killed)
            keys._folder(tmp_path / "pki" / "qemu", mode)
        assert os.umask(mask) == mask
    finally:
        os.umask(former)
    assert (tmp_path / "pki").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "pki" / "qemu").stat().st_mode & 0o777 == mode
