# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What starts a VM asks first whether rolling work may reboot its hypervisor, or is named here."""

from __future__ import annotations

import ast

from ansible_collections.fleet.virt.tests.contract import _tools

# Calls of libvirt that start a domain, or make one that runs
_STARTS = {"create", "createWithFlags", "createXML", "revertToSnapshot"}
_OTHERS = {
    "keys/effects.py": "a file",
    "snapshots/plan.py": "a plan",
    "storage/effects_storage.py": "pools and volumes",
    "storage/effects_probe.py": "a volume",
    "migration/effects_volumes.py": "volumes",
    "pools/effects.py": "a pool",
    "migration/effects_move.py": "on the source, which is being emptied",
    "rolling/effects.py": "the trial VM of rolling work itself",
    "verify/effects_unit.py": "its module asked: verify/effects.py",
    "daemon/effects_start_guests.py": "what the restart of the daemon stopped",
    "roles/ha/files/domain.py": "Pacemaker, which would ban the VM for a start that fails",
}
_ASK = {
    "state/effects.py",
    "provision/effects_creation.py",
    "snapshots/effects.py",
}


def _starting() -> set[str]:
    files = set()
    for path in _tools.project_files():
        if path.suffix == ".py" and path.parts[0] in ("plugins", "roles"):
            tree = ast.parse((_tools.CHECKOUT / path).read_text())
            names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            if names & _STARTS:
                files.add(str(path).removeprefix("plugins/module_utils/_fleet/"))
    return files - {"plugins/module_utils/_libvirt.py"}


def test_what_starts_a_vm_asks_or_is_named() -> None:
    assert _starting() == _ASK | _OTHERS.keys()
    below = _tools.CHECKOUT / "plugins" / "module_utils" / "_fleet"
    for name in _ASK | {"verify/effects.py", "restart/read.py"}:
        assert "read_rolling." in (below / name).read_text(), f"{name} does not ask"
