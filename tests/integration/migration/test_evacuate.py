# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor of five VMs is emptied, which is interrupted, and filled again.

One of them cannot move, one cannot be read, and one is shut off. Where they were made decides
nothing about who comes back.
"""

from __future__ import annotations

import time

from ansible_collections.fleet.virt.tests.integration.support import blank
from ansible_collections.fleet.virt.tests.integration.support.killing import kill_tree
from ansible_collections.fleet.virt.tests.integration.support.process import Process
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from .conftest import Movers

_NAMES = [f"leaves{number}" for number in range(4)]
_OFF = _NAMES[1]
_STUCK = "stuck"
# The first to leave boots, so that its move takes long enough to be interrupted
_IMAGE = dict.fromkeys(_NAMES[2:], blank.NAME)
_HOST = {"virt_host": "hv1"}
_UNMARK = "virsh -q vol-delete fleet-virt.maintenance fleet-notes"


_ILL = (
    "<domain type='qemu'><name>ill</name><memory>1024</memory><os><type>hvm</type></os><devices>"
    "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>"
    "<source file='/nowhere/ill.qcow2'/><target dev='vda'/></disk></devices></domain>"
)


def _made_on(movers: Movers, name: str, host: str, home: str) -> None:
    """Have the metadata of a VM say that it was made on another hypervisor."""
    edit = f"sed 's|<fleet:home>.*</fleet:home>|<fleet:home>{home}</fleet:home>|'"
    movers.fleet.host(
        host,
        f"virsh -q dumpxml --inactive {name} | {edit} > /run/x; virsh -q define /run/x;"
        f" grep -q '<fleet:home>{home}<' /run/x",
    )


def _mark(movers: Movers) -> bool:
    listed = movers.fleet.host("hv1", "virsh -q vol-list fleet-notes 2>/dev/null || :")
    return "fleet-virt.maintenance" in listed


def _domains(movers: Movers) -> dict[str, list[str]]:
    return {host: sorted(names) for host, names in movers.fleet.domains().items()}


def _begin(movers: Movers, bandwidth: int, *, heard: bool = False) -> Process:
    words = ("-e", "virt_host=hv1", "-e", f"virt_bandwidth={bandwidth}")
    return movers.ansible.begin("ansible-playbook", "fleet.virt.evacuate", *words, heard=heard)


def _begin_and_kill(movers: Movers) -> None:
    """The playbook, killed when the first VM is on its way."""
    process = _begin(movers, 8)
    unit = "systemctl is-active 'fleet-virt-migrate-*' | grep -q . && echo yes"
    wait_for(
        lambda: "yes" in movers.lab.ssh("hv1", unit, check=False).stdout,
        120,
        "the first VM is on its way",
    )
    kill_tree(process.pid)
    process.wait()
    assert len(movers.fleet.domains()["hv1"]) > 2, "it was interrupted"
    assert _mark(movers)


def test_emptied_and_filled_again(movers: Movers) -> None:
    for name in [*_NAMES, _STUCK]:
        image = _IMAGE.get(name, "tiny.qcow2")
        movers.make(name, image=image, start=name != _OFF)
    movers.fleet.host("hv1", f"virsh -q snapshot-create-as {_STUCK} before")
    movers.fleet.host("hv1", f"virsh -q checkpoint-create-as {_NAMES[0]} noted")
    movers.lab.ssh("hv1", "virsh -q define /dev/stdin", input=_ILL)
    _made_on(movers, _OFF, "hv1", "hv2")
    try:
        plan = movers.ansible.playbook("evacuate", _HOST, check=True, limit=300)
        for name in _NAMES:
            assert f"{name} " in plan.stdout, str(plan)
        assert "'ill' stays on hv1: it was not made by this collection" in str(plan)
        assert "virt_hypervisors_lost" not in str(plan)
        assert len(movers.fleet.domains()["hv1"]) == len(_NAMES) + 2
        assert not _mark(movers)
        _begin_and_kill(movers)
        began = time.monotonic()
        run = movers.ansible.playbook("evacuate", _HOST, limit=600)
        print(f"the rest of {len(_NAMES)} VMs left within {time.monotonic() - began:.1f} s")
        assert run.returncode != 0
        assert f"'{_STUCK}' runs and has snapshots (before)" in str(plan), str(plan)
        assert f"'{_STUCK}' runs and has snapshots (before)" in str(run), str(run)
        assert "'ill' stays on hv1: it was not made by this collection" in str(run)
        movers.fleet.host("hv1", "virsh -q undefine ill")
        assert _mark(movers)
        assert _domains(movers) == {"hv1": [_STUCK], "hv2": sorted(_NAMES)}, str(run)
        for name in _NAMES:
            assert movers.state("hv2", name) == ("shut off" if name == _OFF else "running")
            assert "migrating" not in movers.metadata("hv2", name)

        movers.fleet.host("hv1", f"virsh -q snapshot-delete {_STUCK} before")
        movers.ansible.playbook("evacuate", _HOST, limit=300).succeeded()
        again = movers.ansible.playbook("evacuate", _HOST, limit=300).succeeded()
        assert [event for event in again.events if event.result.get("changed")] == []

        movers.make("moved", "hv2", start=False)
        _made_on(movers, "moved", "hv2", "hv1")
        back = movers.ansible.playbook("return_vms", _HOST, limit=600).succeeded()
        assert not _mark(movers)
        assert _domains(movers) == {
            "hv1": sorted([*_NAMES, _STUCK]),
            "hv2": ["moved"],
        }, str(back)
        assert "evacuated" not in movers.metadata("hv1", _NAMES[0])
        movers.clean("hv2", *_NAMES, _STUCK)
        assert movers.state("hv1", _OFF) == "shut off"
    finally:
        movers.lab.ssh("hv1", f"virsh -q snapshot-delete {_STUCK} before", check=False)
        movers.lab.ssh("hv1", _UNMARK, check=False)


def test_two_at_once(movers: Movers) -> None:
    """Neither fails because the other was quicker; every VM moves once."""
    states = {_NAMES[0]: "running", _NAMES[1]: "shut off"}
    names = list(states)
    for name, state in states.items():
        movers.make(name, start=state == "running")
    try:
        both = [_begin(movers, 32, heard=True) for _run in range(2)]
        said = [run.communicate(timeout=300)[0] for run in both]
        print(*(line for text in said for line in text.splitlines() if "leaves" in line), sep="\n")
        assert [run.returncode for run in both] == [0, 0], "\n".join(said)
        assert _domains(movers) == {"hv1": [], "hv2": names}, "\n".join(said)
        movers.clean("hv1", *names)
        for name, state in states.items():
            assert movers.state("hv2", name) == state
            assert "migrating" not in movers.metadata("hv2", name)
    finally:
        movers.lab.ssh("hv1", _UNMARK, check=False)


def test_bad_input(movers: Movers) -> None:
    """One playbook for each: an unknown hypervisor is refused by both in test_evacuation.py of the
    unit tests, a wrong on_timeout by the module in test_bad_input_migrate.py."""
    missing = "virt_host is missing; name the hypervisor"
    for book, variables, words in (
        (
            "evacuate",
            {"virt_host": "hv9"},
            "hv9 is no hypervisor of this play; there are: hv1, hv2",
        ),
        ("evacuate", {"virt_host": ""}, missing),
        ("return_vms", {}, missing),
        ("evacuate", {**_HOST, "virt_parallel": 0}, "parallel: 0 is not above 0"),
    ):
        run = movers.ansible.playbook(book, variables, limit=120)
        assert run.returncode != 0
        assert words in str(run)
    assert not _mark(movers)
