# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role bridge on bare hosts, over the interface that carries SSH, with every backend.

Environment: FLEET_VIRT_TRIALS is the number of wrong configurations for each backend (default 1,
at most 5), each of which must cut SSH and come back by itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support import networks
from ansible_collections.fleet.virt.tests.integration.support.ansible import (
    PROGRAMS,
    Ansible,
    Run,
)
from ansible_collections.fleet.virt.tests.integration.support.networks import Probe
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_WINDOW = 8  # seconds until it comes back
_TASK = "fleet.virt.bridge : Make the bridges"
# What a bridge is wrongly given; each cuts the connection in another way
_WRONG: dict[str, dict[str, Any]] = {
    "another network": {"addresses": ["203.0.113.5/24"], "gateways": ["203.0.113.1"]},
    "IPv6 only": {"addresses": ["fd00:1::5/64"]},
    "too long a prefix": {"addresses": ["{address}/32"]},
    "spanning tree": {"addresses": ["{address}/24"], "stp": True},
    "another address by DHCP": {"dhcp": True},
}


class Bare:
    """One bare host, and the role's play on it."""

    def __init__(self, lab: Laboratory, name: str, backend: str, folder: Path) -> None:
        self.lab = lab
        self.name = name
        self.backend = backend
        self.address = lab.host(name).address
        self.ansible = Ansible(lab.inventory, folder / "ansible")
        self.play = folder / "play.yml"
        play = {
            "hosts": name,
            "gather_facts": False,
            "become": True,
            "roles": ["fleet.virt.bridge"],
        }
        self.play.write_text(json.dumps([play]))

    def bridges(self, wrong: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The role's variables."""
        text = json.dumps([{"name": "br0", **(wrong or {})}]).replace("{address}", self.address)
        return {"bridge_list": json.loads(text), "bridge_rollback_seconds": _WINDOW}

    def run(self, wrong: Mapping[str, Any] | None = None, *, check: bool = False) -> Run:
        """Run the role, as a site playbook would."""
        return self.ansible.playbook(
            str(self.play), self.bridges(wrong), check=check, diff=True, limit=120
        )

    def result(self, run: Run) -> dict[str, Any]:
        """What the role's task returned."""
        return run.of(_TASK)[self.name]

    def state(self) -> dict[str, Any]:
        return networks.state(self.lab, self.name)

    def start(self, wrong: Mapping[str, Any], seconds: int) -> subprocess.Popen[str]:
        """Start the play in a session of its own, to be killed."""
        variables = {**self.bridges(wrong), "bridge_rollback_seconds": seconds}
        return subprocess.Popen(
            [
                str(PROGRAMS / "ansible-playbook"),
                *("-i", str(self.lab.inventory), str(self.play), "-e", json.dumps(variables)),
            ],
            env=self.ansible.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def _kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)


@pytest.fixture(scope="module")
def bridge_lab() -> Iterator[Laboratory]:
    """A laboratory of its own: its hosts lose their network."""
    laboratory = Laboratory(f"b{os.getpid()}", os.getpid())
    laboratory.up(1)
    yield laboratory
    laboratory.down()


@pytest.fixture(scope="module")
def hosts() -> dict[str, Bare]:
    """The bare hosts by backend, each made when it is first asked for."""
    return {}


@pytest.fixture
def bare(
    request: pytest.FixtureRequest,
    hosts: dict[str, Bare],
    bridge_lab: Laboratory,
    tmp_path_factory: pytest.TempPathFactory,
) -> Bare:
    """The bare host whose network is managed by the backend that the test names."""
    backend = request.param
    if backend not in hosts:
        host = bridge_lab.add(bare=True, suite=networks.SUITES.get(backend, "bookworm"))
        networks.hand_over(bridge_lab, host.name, backend)
        hosts[backend] = Bare(bridge_lab, host.name, backend, tmp_path_factory.mktemp(backend))
    return hosts[backend]


def _trials() -> list[tuple[str, str]]:
    """For each backend as many wrong configurations as asked for, beginning with another one."""
    names = list(_WRONG)
    count = min(_TRIALS, len(names))
    return [
        (backend, names[(number + turn) % len(names)])
        for number, backend in enumerate(networks.BACKENDS)
        for turn in range(count)
    ]


@pytest.mark.parametrize(
    ("bare", "wrong"), _trials(), indirect=["bare"], ids=["-".join(one) for one in _trials()]
)
def test_a_wrong_one_cuts_and_comes_back_by_itself(bare: Bare, wrong: str) -> None:
    before = bare.state()
    with Probe(bare.address) as probe:
        wait_for(lambda: probe.up, 10, "an answer before the switch")
        run = bare.run(_WRONG[wrong])
    longest = max(probe.outages(), default=0)
    result = bare.result(run)
    print(f"{bare.backend}, {wrong}: cut for {longest:.1f} s, window {_WINDOW} s: {result['msg']}")
    assert run.returncode == 2, run
    assert "rolled back, the former network configuration is in place again" in result["msg"]
    assert not result["changed"]
    assert probe.up
    assert 3 < longest < _WINDOW + 5, probe.outages()
    assert bare.state() == before


@pytest.mark.parametrize("bare", networks.BACKENDS, indirect=True)
def test_a_power_cut_within_the_window(bare: Bare) -> None:
    before = bare.state()
    with Probe(bare.address) as probe:
        wait_for(lambda: probe.up, 10, "an answer before the switch")
        process = bare.start(_WRONG["another network"], 300)
        wait_for(lambda: not probe.up, 30, "the cut")
        time.sleep(1.5)  # beyond the moment of the switch itself, which is short
        assert not probe.up
        bare.lab.kill(bare.name)
    _kill(process)
    bare.lab.start(bare.name)  # waits until it answers at its address
    assert bare.state() == before
    predicted = bare.result(bare.run(check=True).succeeded())
    assert "started anew" in predicted["earlier"]["reason"]
    assert bare.state() == before


@pytest.mark.parametrize("bare", networks.BACKENDS, indirect=True)
def test_a_right_one_has_the_same_address(bare: Bare) -> None:
    before = bare.state()
    predicted = bare.result(bare.run(check=True).succeeded())
    assert bare.state() == before
    with Probe(bare.address) as probe:
        run = bare.run().succeeded()
    real = bare.result(run)
    print(f"{bare.backend}: outages {[f'{one:.1f}' for one in probe.outages()]} s")
    assert real["changed"]
    assert real["bridges"][0]["backend"] == bare.backend
    returned = {key: value for key, value in real.items() if not key.startswith("_ansible")}
    assert documentation.undocumented("virt_bridge", returned) == []
    for key in ("changed", "bridges", "diff", "earlier"):
        assert predicted[key] == real[key], key
    assert any(entry["before"] != entry["after"] for entry in real["diff"])
    after = bare.state()
    assert after["links"]["br0"][1] == before["links"]["eth0"][1]
    assert after["links"]["eth0"] == ["br0", []]
    assert [route[:2] for route in after["routes"]] == [route[:2] for route in before["routes"]]
    assert not bare.result(bare.run(check=True).succeeded())["changed"]
    assert not bare.result(bare.run().succeeded())["changed"]
    assert bare.state() == after


@pytest.mark.parametrize("bare", networks.BACKENDS, indirect=True)
def test_it_is_there_after_the_next_boot(bare: Bare) -> None:
    before = bare.state()
    bare.lab.kill(bare.name)
    bare.lab.start(bare.name)
    wait_for(lambda: bare.state() == before, 10, "the bridge after a boot")
    assert not bare.result(bare.run().succeeded())["changed"]
