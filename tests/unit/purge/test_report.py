# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What became of domains that were to be removed, in one table."""

from __future__ import annotations

import re

from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.report import report


def test_every_column_holds_what_its_head_says() -> None:
    disk = {"kind": "volume", "path": "/pool/a.qcow2", "name": "a.qcow2", "size_mib": 48}
    entry = {
        "name": "a",
        "failed": False,
        "msg": None,
        "removed": [disk, {"kind": "domain", "path": None, "name": "a", "size_mib": None}],
        "kept": [{"path": "/srv/data.raw", "reason": "not made for 'a'"}],
    }
    answers = {"hv1": {"vms": [entry]}, "hv2": {"msg": "killed"}}
    text, failures = report(["a", "b", "c"], {"hv1": ["a"], "hv2": ["b"]}, answers, check=False)
    rows = [re.split(r"  +", line) for line in text.splitlines()]
    assert rows == [
        ["VM", "HYPERVISOR", "RESULT", "KIND", "WHAT", "MIB", "WHY"],
        ["a", "hv1", "removed", "volume", "/pool/a.qcow2", "48"],
        ["a", "hv1", "removed", "domain", "a", "-"],
        ["a", "hv1", "stays", "file", "/srv/data.raw", "-", "not made for 'a'"],
        ["b", "hv2", "failed", "-", "-", "-"],
        ["c", "-", "not there", "-", "-", "-"],
    ]
    assert len(failures) == 1
    assert "killed" in failures[0]
