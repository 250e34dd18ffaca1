# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long storage calls may take, on libvirt's test driver."""

from __future__ import annotations

import shutil
import subprocess
import threading
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    DeadlineExceeded,
    PlanRefused,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    effects_storage as storage,
)

_MINUTES = 300.0


class _Noted(Connection):
    """A connection that notes the limit of every call."""

    limits: t.ClassVar[dict[str, float]] = {}

    def call(
        self,
        action: str,
        function: t.Callable[..., t.Any],
        *args: t.Any,
        seconds: float | None = None,
    ) -> t.Any:
        self.limits[action] = seconds or self.timeout
        return super().call(action, function, *args, seconds=seconds)


def test_nothing_that_is_asked_of_libvirt_may_take_hours() -> None:
    with connect("test:///default", 10) as opened:
        connection = _Noted(opened.conn, opened.uri, opened.timeout)
        pool = storage.find_pool(connection, "default-pool", None)
        assert pool is not None
        new = {"size": 1 << 20, "volume_format": "raw"}
        storage.create_volume(connection, pool, "empty", **new)
        storage.patiently(connection, "refresh", lambda: pool.handle.refresh(0))
        assert storage.delete_volume(connection, pool, "empty")
    long = {action: seconds for action, seconds in connection.limits.items() if seconds > _MINUTES}
    assert long == {}
    assert {"create volume empty", "remove volume empty", "refresh"} <= set(connection.limits)


def test_one_that_does_not_come_back_is_given_up() -> None:
    with connect("test:///default", 10) as connection:
        with pytest.raises(DeadlineExceeded, match="refresh"):
            storage.patiently(connection, "refresh", threading.Event().wait, 0.1)
        connection.hanging = 0


def _qemu_img(folder: Path, *words: str) -> None:
    subprocess.run(["qemu-img", *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
@pytest.mark.parametrize("kind", ["raw", "qcow2"])
@pytest.mark.parametrize("source", ["raw", "qcow2"])
def test_a_copy_is_whole_thin_and_may_be_larger(tmp_path: Path, source: str, kind: str) -> None:
    with (tmp_path / "plain").open("wb") as file:
        file.write(b"x" * 100_000)
        file.truncate(64 << 20)
    _qemu_img(tmp_path, "convert", "-f", "raw", "-O", source, "plain", "base")
    _qemu_img(tmp_path, "create", "-f", kind, "disk", "128M")
    storage.copy(str(tmp_path / "base"), source, str(tmp_path / "disk"), kind)
    _qemu_img(tmp_path, "compare", "-f", source, "-F", kind, "base", "disk")
    assert (tmp_path / "disk").stat().st_blocks * 512 < 2 << 20


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
def test_a_copy_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "base").write_bytes(b"x" * (1 << 20))
    (tmp_path / "disk").write_bytes(b"")
    with pytest.raises(PlanRefused, match=r"base could not be copied to \S+disk: qemu-img: "):
        storage.copy(str(tmp_path / "base"), "raw", str(tmp_path / "disk"), "raw")
