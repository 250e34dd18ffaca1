# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor that loses its power in the middle of moves and is declared lost: what its
destination has of them is settled, and what comes back with it is nobody's second copy."""

from __future__ import annotations

import json
import shlex

from ansible_collections.fleet.virt.tests.integration.support.ansible import Run
from ansible_collections.fleet.virt.tests.integration.support.killing import kill_tree
from ansible_collections.fleet.virt.tests.integration.support.process import Process
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from .conftest import IMAGES, KILL, Movers

# Shown in the guide
OF_A_LOST_SOURCE = "ansible-playbook fleet.virt.repair_vms -e virt_hypervisors_lost=hv1"
_WHOLE, _LIVE, _LATE = "whole", "live", "late"
_UNIT = "systemctl is-active fleet-virt-migrate-$(virsh domuuid {name}).service"


def _begin(movers: Movers, name: str, bandwidth: int) -> Process:
    """A move that goes on."""
    args = json.dumps(movers.args(name, bandwidth=bandwidth))
    words = ("--become", "-m", "fleet.virt.virt_migrate", "-a", args)
    first = movers.ansible.begin("ansible", "hv1", *words, heard=True)

    def begun() -> bool:
        active = movers.lab.ssh("hv1", _UNIT.format(name=name), check=False).returncode == 0
        return active or first.poll() is not None

    wait_for(begun, 60, "the move begins")
    return first


def _arrive(movers: Movers, name: str) -> None:
    """Have a VM arrive whose module is killed on the way, so that the rest is left to do."""
    movers.make(name, autostart=True)
    first = _begin(movers, name, 8)
    movers.lab.ssh("hv1", KILL.format(name=name))
    first.communicate(timeout=120)
    wait_for(
        lambda: (movers.state("hv1", name), movers.state("hv2", name)) == ("", "running"),
        120,
        f"{name} arrives",
    )


def _repair(movers: Movers, *words: str) -> Run:
    program, *shown = shlex.split(OF_A_LOST_SOURCE)
    return movers.ansible.run(program, [*shown, *words], limit=300)


def _rows(run: Run) -> dict[str, str]:
    """The lines of the table, by VM; messages about them follow it."""
    names = (_WHOLE, _LIVE, _LATE)
    lines = [line.split() for line in run.stdout.splitlines()]
    rows = [line for line in lines if line and line[0] in names and line[1:2] != ["on"]]
    return {line[0]: " ".join(line[1:]) for line in rows}


def _copied(movers: Movers) -> bool:
    """Whether something of the slow one's disk is on the destination."""
    show = f"qemu-img map -U --output=json {IMAGES}/{_LATE}_system.qcow2"
    text = movers.lab.ssh("hv2", show, check=False).stdout
    return any('"depth": 0' in line and '"data": true' in line for line in text.splitlines())


def test_what_a_lost_source_had_begun_is_settled_on_the_destination(movers: Movers) -> None:
    _arrive(movers, _WHOLE)
    _arrive(movers, _LIVE)
    movers.fleet.host("hv2", f"virsh -q undefine {_LIVE}")  # it only runs now
    movers.make(_LATE)
    movers.count(_LATE)
    first = _begin(movers, _LATE, 2)
    try:
        wait_for(lambda: _copied(movers), 60, "some of its disk is copied")
        refused = _repair(movers)
        assert refused.returncode != 0
        assert "accepts connections" in str(refused), str(refused)
        assert movers.state("hv1", _LATE) == "running"
        movers.lab.kill("hv1")
        kill_tree(first.pid)
        first.communicate(timeout=60)
        _settled(movers)
    finally:
        kill_tree(first.pid)
        movers.lab.start("hv1")
        movers.listen("hv1")
    # it came back after all: its copy of the slow one was the right one
    back = movers.ansible.playbook("repair_vms", {"vm_name": _LATE}, limit=300).succeeded()
    assert "stays (its move was undone)" in str(back), str(back)
    assert movers.state("hv1", _LATE) == "shut off"
    movers.clean("hv2", _LATE)
    movers.fleet.host("hv1", f"virsh -q start {_LATE}")
    movers.guests.wait_agent("hv1", _LATE)
    assert movers.shown("hv1", _LATE) > 0


def _settled(movers: Movers) -> None:
    """While the source is away."""
    before = movers.metadata("hv2", _WHOLE)
    plan = _repair(movers, "--check")
    said = _rows(plan)
    for name in (_WHOLE, _LIVE):
        assert said[name].startswith("hv1 hv2 would move (finish)"), str(plan)
    assert plan.returncode != 0
    assert movers.metadata("hv2", _WHOLE) == before
    run = _repair(movers)
    said = _rows(run)
    for name in (_WHOLE, _LIVE):
        assert said[name].startswith("hv1 hv2 moved (finish)"), str(run)
        assert movers.state("hv2", name) == "running"
        assert "migrating" not in movers.metadata("hv2", name)
        info = movers.fleet.host("hv2", f"virsh dominfo {name}")
        assert "enable" in info.split("Autostart:")[1].split("\n")[0], info
        assert "yes" in info.split("Persistent:")[1].split("\n")[0], info
    assert "hv1, which is declared lost, may still have its old definition" in str(run)
    assert run.returncode != 0, "the slow one is not settled"
    wait_for(lambda: not movers.state("hv2", _LATE), 120, "libvirt gives up what does not come")
    for _turn in range(2):
        run = _repair(movers)
        assert run.returncode != 0
        assert _rows(run)[_LATE].startswith("hv1 hv2 lost"), str(run)
        assert f"{IMAGES}/{_LATE}_system.qcow2" in str(run)
        assert sorted(movers.fleet.domains()["hv2"]) == [f"{_LATE}.migration", _LIVE, _WHOLE]
        assert f"{_LATE}_system.qcow2" in movers.fleet.files("hv2")
    for name in (_WHOLE, _LIVE):
        again = _repair(movers, "-e", f"vm_name={name}").succeeded()
        assert "stays" in _rows(again)[name], str(again)
