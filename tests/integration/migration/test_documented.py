# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of the guide are run as they are shown, and the module's examples too."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support import blank

from .conftest import Movers

_GUIDE = Path(__file__).resolve().parents[3] / "docs" / "docsite" / "rst" / "migrating.rst"
_MOVE = "ansible-playbook fleet.virt.migrate_vm"
_EVACUATE = "ansible-playbook fleet.virt.evacuate -e virt_host=hv1"
# Each with what it must print; web1 begins on hv1
COMMANDS = {
    "ansible-playbook fleet.virt.repair_vms --check": "nothing to do: no move was interrupted",
    "ansible-playbook fleet.virt.repair_vms": "nothing to do: no move was interrupted",
    f"{_EVACUATE} --check": r"web1 +hv1 +hv2 +would move \(overlay\)",
    _EVACUATE: r"db1 +hv1 +hv2 +moved \(offline\)",
    "ansible-playbook fleet.virt.return_vms -e virt_host=hv1": r"web1 +hv2 +hv1 +moved \(overlay\)",
    f"{_MOVE} -e vm_name=web1 --check": r"web1 +hv1 +hv2 +would move \(overlay\)",
    f"{_MOVE} -e vm_name=web1": r"web1 +hv1 +hv2 +moved \(overlay\)",
    f"{_MOVE} -e vm_name=web1 -e vm_host=hv1": r"web1 +hv2 +hv1 +moved \(overlay\)",
    f"{_MOVE} -e virt_names=web1,db1 -e vm_host=hv2 -e virt_bandwidth=100": (
        r"db1 +hv1 +hv2 +moved \(offline\)"
    ),
    f"{_MOVE} -e 'virt_names=web*' -e vm_host=hv1 --check": r"web1 +hv2 +hv1 +would move",
    "ansible-playbook fleet.virt.state -e vm_name=shop1 -e vm_state=shutoff": r"shop1 +hv1",
    f"{_MOVE} -e vm_name=shop1 -e vm_host=hv2": r"shop1 +hv1 +hv2 +moved \(offline\)",
    "ansible-playbook fleet.virt.snapshots -e vm_name=shop1": r"shop1 +hv2 +before +- +yes",
}


def test_the_guide_shows_these() -> None:
    shown = re.findall(r"^    (ansible-playbook .*)$", _GUIDE.read_text("utf-8"), re.MULTILINE)
    assert shown == list(COMMANDS)


def test_commands_of_the_guide(movers: Movers) -> None:
    movers.make("web1", image=blank.NAME)
    movers.make("db1", start=False)
    movers.make("shop1", start=False)
    movers.fleet.host("hv1", "virsh -q snapshot-create-as shop1 before")
    for command, pattern in COMMANDS.items():
        program, *words = shlex.split(command)
        run = movers.ansible.run(program, words).succeeded()
        assert re.search(pattern, run.stdout), str(run)
    found = movers.fleet.domains()
    assert (found["hv1"], sorted(found["hv2"])) == ([], ["db1", "shop1", "web1"])


def test_examples_run_as_written(movers: Movers) -> None:
    """The address of the last one is the laboratory's."""
    movers.make("web1", start=False)
    movers.make("db1", start=False)
    tasks = [example.task for example in documentation.examples("virt_migrate")]
    address = movers.lab.host("hv2").address
    tasks[-1]["fleet.virt.virt_migrate"]["vms"][0]["destination"]["address"] = address
    run = movers.ansible.play(tasks, "hv1", become=True).succeeded()
    assert [event.status for event in run.events] == ["ok"] * len(tasks)
    assert [event.result["changed"] for event in run.events] == [True, False, True]
