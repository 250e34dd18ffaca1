# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of a card's definition is changed for the hypervisor that takes the VM over."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import definition

_Q35 = """<domain type='kvm'><devices><watchdog model='itco' action='reset'/>
<watchdog model='i6300esb' action='poweroff'/></devices></domain>"""


@pytest.mark.parametrize(
    ("version", "models"),
    [(9_000_000, ["i6300esb"]), (9_001_000, ["itco", "i6300esb"])],
)
def test_watchdog_that_older_libvirt_does_not_know_is_left_out(
    version: int, models: list[str]
) -> None:
    """Debian 12 has 9.0, and Debian 13 writes it down: the machine has it in any case."""
    root = _lxml.parse(_Q35, "domain")
    changed = definition.for_libvirt(root, version)
    assert [one.get("model") for one in changed.iterfind("devices/watchdog")] == models
    assert len(root.findall("devices/watchdog")) == 2
