# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The definition that a VM is restored with."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import definition

_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_OWN = "/var/log/libvirt/qemu/web1-console.log"
_TEXT = """
<domain type='kvm'><name>web1</name><uuid>x</uuid><devices>
 <serial type='pty'><log file='{}' append='off'/></serial>
</devices></domain>
"""


@pytest.mark.parametrize(
    ("log", "copy", "kept"),
    [
        (_OWN, True, "/var/log/libvirt/qemu/web2-console.log"),
        ("/var/log/web1.log", True, None),
        ("/var/log/web1.log", False, "/var/log/web1.log"),
    ],
)
def test_copy_does_not_write_to_the_log_of_the_vm_that_was_saved(
    log: str, copy: bool, kept: str | None
) -> None:
    root = _lxml.parse(_TEXT.format(log), "domain web1")
    who = definition.Identity("web2", _UUID, copy)
    found = definition.adapted(root, who, {}, {}).find("devices/serial/log")
    assert (found.get("file") if found is not None else None) == kept


def test_restored_vm_is_in_no_cell_until_that_is_requested_again() -> None:
    text = _TEXT.format(_OWN).replace(
        "<devices>",
        "<metadata><fleet:fleet xmlns:fleet='urn:fleet.virt:1'><fleet:ha>yes</fleet:ha>"
        "<fleet:zone>a</fleet:zone></fleet:fleet></metadata><devices>",
    )
    root = _lxml.parse(text, "domain web1")
    who = definition.Identity("web1", _UUID, False)
    stored = definition.stored_of(root, who, (), "x::web1", None)
    assert (stored.in_cell, stored.zone) == (False, "a")
