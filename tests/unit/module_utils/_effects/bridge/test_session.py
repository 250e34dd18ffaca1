# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

from ansible_collections.fleet.virt.plugins.module_utils._effects.bridge import (
    session as bridge_session,
)


def test_fields_of_a_process_whose_name_is_odd() -> None:
    rest = " ".join(["S", "17", *["0"] * 17, "4711", "0"])
    assert bridge_session.fields(f"99 (sshd: (x) y) {rest}") == ("sshd: (x) y", 17, 4711)


def test_a_process_of_this_machine() -> None:
    with open("/proc/self/stat", encoding="utf-8") as file:
        name, parent, started = bridge_session.fields(file.read())
    assert name
    assert parent == os.getppid()
    assert started > 0
