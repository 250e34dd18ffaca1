# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's folder of a running domain, beside those that a loss of power left."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import read


@pytest.mark.parametrize("stale", [[], ["web2"], ["web0", "web2"]])
def test_folder_of_running_domain_is_chosen_among_stale_ones(
    stale: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as listening:
        monkeypatch.setattr(read, "_PRIVATE", f"{root}/domain-{{number}}-*")
        assert read.private_folder("2") is None
        for name in (*stale, "web1"):
            folder = Path(root, f"domain-2-{name}")
            folder.mkdir()
            monitor = socket.socket(socket.AF_UNIX)
            monitor.bind(f"{folder}/monitor.sock")
            monitor.listen()
            if name == "web1":
                listening.enter_context(monitor)
            else:
                monitor.close()
        assert read.private_folder("2") == f"{root}/domain-2-web1"
        assert read.private_folder("22") is None
        assert read.private_folder(None) is None
