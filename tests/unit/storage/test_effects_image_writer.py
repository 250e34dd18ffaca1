# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The folders in which qemu-nbd listens."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    effects_image_writer as writer,
)


def test_folder_of_process_that_was_killed_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_RUN", str(tmp_path))
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    dead, alive = (tmp_path / f"fleet-virt-nbd.{pid}.x" for pid in (ended.pid, os.getppid()))
    for folder in (dead, alive, tmp_path / "fleet-virt-proofs"):
        folder.mkdir()
    (dead / "nbd").touch()
    made = Path(writer._folder())
    assert made.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [alive.name, made.name, "fleet-virt-proofs"]
    )
