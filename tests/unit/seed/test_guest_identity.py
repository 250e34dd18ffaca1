# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a copy loses of its source's identity, beside what virt-sysprep removes."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import guest_files
from ansible_collections.fleet.virt.tests import sysprep_operations


def _copied() -> guest_files.GuestFilesPlan:
    """What is done to the disk of a guest that has every file."""
    return guest_files.anonymous(lambda _path: "")


def _is_gone(path: str, plan: guest_files.GuestFilesPlan) -> bool:
    """Whether the plan removes or empties this file, or makes it a link to such a file."""
    empty = {file.path for file in plan.files if not file.content}
    removed = any(PurePosixPath(path).match(pattern) for pattern in plan.removed)
    return removed or dict(plan.links).get(path, path) in empty


@pytest.mark.parametrize("operation", sysprep_operations.REMOVED)
def test_copy_loses_what_the_operation_of_virt_sysprep_removes(operation: str) -> None:
    plan = _copied()
    kept = [path for path in sysprep_operations.REMOVED[operation] if not _is_gone(path, plan)]
    assert not kept


def test_operation_of_virt_sysprep_is_either_done_or_left_with_a_reason() -> None:
    assert not set(sysprep_operations.REMOVED) & set(sysprep_operations.LEFT)


def test_file_that_no_operation_names_stays_in_a_copy() -> None:
    plan = _copied()
    for path in ("/etc/ssh/sshd_config", "/etc/passwd", "/var/lib/dhcp/dhclient.conf"):
        assert not _is_gone(path, plan)


def test_guide_names_what_copies_still_share(checkout: Path) -> None:
    text = (checkout / "docs/docsite/rst/copies_and_snapshots.rst").read_text(encoding="utf-8")
    guide = " ".join(text.split())
    for word in ("Kerberos", "FreeIPA", "Samba", "Puppet", "subscription", "network configuration"):
        assert word in guide
