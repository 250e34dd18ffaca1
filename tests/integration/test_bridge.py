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
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support import networks
from ansible_collections.fleet.virt.tests.integration.support.ansible import SERVERS, Ansible
from ansible_collections.fleet.virt.tests.integration.support.killing import kill_tree
from ansible_collections.fleet.virt.tests.integration.support.networks import Probe
from ansible_collections.fleet.virt.tests.integration.support.process import Process
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_WINDOW = 8  # seconds until it comes back
_TASK = "fleet.virt.bridge : Create the bridges"
# What a bridge is wrongly given; each cuts the connection in another way
_WRONG: dict[str, dict[str, Any]] = {
    "another network": {"addresses": ["203.0.113.5/24"], "gateways": ["203.0.113.1"]},
    "IPv6 only": {"addresses": ["fd00:1::5/64"]},
    "too long a prefix": {"addresses": ["{address}/32"]},
    "spanning tree": {"addresses": ["{address}/24"], "stp": True},
    "another address by DHCP": {"dhcp": True},
}


class Fleet:
    """Bare hosts, one for each backend, and the role's play on all of them at once."""

    def __init__(self, lab: Laboratory, folder: Path) -> None:
        self.lab = lab
        self.ansible = Ansible(lab.inventory, folder / "ansible", SERVERS)
        self._folder = folder
        self.hosts: dict[str, str] = {}  # name by backend

    def add(self, backend: str) -> str:
        """One more bare host, as it comes, under ifupdown; its name."""
        suite = networks.SUITES.get(backend, "bookworm")
        self.hosts[backend] = self.lab.add(bare=True, suite=suite).name
        return self.hosts[backend]

    def each(self, function: Callable[[str, str], Any]) -> dict[str, Any]:
        """Call ``function`` with every backend and its host, all at once; results by backend."""
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            futures = {
                backend: pool.submit(function, backend, name)
                for backend, name in self.hosts.items()
            }
        return {backend: future.result() for backend, future in futures.items()}

    def address(self, backend: str) -> str:
        return self.lab.host(self.hosts[backend]).address

    def _command(self, lists: Mapping[str, Any], window: int) -> list[str]:
        """A play that gives each host a list of its own; hosts without one are left out."""
        named = {self.hosts[backend]: value for backend, value in lists.items()}
        for backend, name in self.hosts.items():
            text = json.dumps(named.get(name)).replace("{address}", self.address(backend))
            named[name] = json.loads(text)
        play = {
            "hosts": ",".join(self.hosts[backend] for backend in lists),
            "gather_facts": False,
            "become": True,
            "roles": ["fleet.virt.bridge"],
        }
        path = self._folder / "play.yml"
        path.write_text(json.dumps([play]))
        variables = {
            "lists": named,
            "bridge_list": "{{ lists[inventory_hostname] }}",
            "bridge_rollback_seconds": window,
        }
        return [str(path), "-e", json.dumps(variables)]

    def run(
        self, lists: Mapping[str, Any], *, check: bool = False, window: int = _WINDOW
    ) -> dict[str, dict[str, Any]]:
        """Run the role on the hosts of these backends; what its task returned by backend."""
        more = ["--diff", *(["--check"] if check else [])]
        run = self.ansible.run(
            "ansible-playbook", [*self._command(lists, window), *more], limit=150
        )
        found = run.of(_TASK)
        assert set(found) == {self.hosts[backend] for backend in lists}, run
        return {
            backend: {
                key: value
                for key, value in found[self.hosts[backend]].items()
                if not key.startswith("_ansible")
            }
            for backend in lists
        }

    def start(self, lists: Mapping[str, Any], window: int) -> Process:
        """Start the play in a session of its own, to be killed."""
        return self.ansible.begin("ansible-playbook", *self._command(lists, window))

    def states(self) -> dict[str, dict[str, Any]]:
        """Files, addresses, ports and routes of each, by backend."""
        return self.each(lambda _, name: networks.state(self.lab, name))

    def identities(self, link: str) -> dict[str, str]:
        """What each goes by at the DHCP server, by backend."""
        return self.each(lambda backend, name: networks.identity(self.lab, name, backend, link))

    def settle(self, count: int) -> dict[str, dict[str, Any]]:
        """The states once each has that many addresses: one comes from DHCP, in its own time."""

        def settled() -> dict[str, dict[str, Any]] | None:
            found = self.states()
            there = [
                sum(len(link[1]) for name, link in one["links"].items() if name != "lo")
                for one in found.values()
            ]
            return found if set(there) == {count} else None

        return wait_for(settled, 40, f"{count} addresses on each") or {}

    @contextmanager
    def probes(self) -> Iterator[dict[str, Probe]]:
        """A probe of each, which has an answer before the block begins."""
        with ExitStack() as stack:
            found = {
                backend: stack.enter_context(Probe(self.address(backend))) for backend in self.hosts
            }
            wait_for(lambda: all(probe.up for probe in found.values()), 10, "answers of all")
            yield found

    def power_cycle(self) -> None:
        """Cut the power of all, and start them; returns when all answer at their addresses."""
        self.each(lambda _, name: self.lab.kill(name))
        self.each(lambda _, name: self.lab.start(name))


@pytest.fixture(scope="module")
def bridge_lab() -> Iterator[Laboratory]:
    """A laboratory of its own: its hosts lose their network."""
    laboratory = Laboratory(f"b{os.getpid()}", os.getpid())
    laboratory.preloaded = True
    laboratory.up(1)
    yield laboratory
    laboratory.down()


@pytest.fixture(scope="module")
def fleet(bridge_lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A bare host for each backend, and this manages its network."""
    found = Fleet(bridge_lab, tmp_path_factory.mktemp("bridge"))
    for backend in networks.BACKENDS:
        found.add(backend)
    found.each(lambda backend, name: networks.hand_over(bridge_lab, name, backend))
    found.settle(2)
    return found


_RIGHT = [{"name": "br0"}]


def _wrong(trial: int) -> dict[str, str]:
    """For each backend the name of another wrong configuration."""
    names = list(_WRONG)
    return {
        backend: names[(number + trial) % len(names)]
        for number, backend in enumerate(networks.BACKENDS)
    }


@pytest.mark.parametrize("trial", range(min(_TRIALS, len(_WRONG))))
def test_a_wrong_one_cuts_and_comes_back_by_itself(fleet: Fleet, trial: int) -> None:
    wrong = _wrong(trial)
    before = fleet.states()
    with fleet.probes() as probes:
        results = fleet.run({b: [{"name": "br0", **_WRONG[wrong[b]]}] for b in wrong})
    after = fleet.settle(2)
    for backend, result in results.items():
        outages = probes[backend].outages()
        longest = max(outages, default=0.0)
        print(f"{backend}, {wrong[backend]}: cut for {longest:.1f} s of {_WINDOW}")
        assert "rolled back, the former network configuration is in place" in result["msg"], result
        assert not result["changed"]
        assert 3 < longest < _WINDOW + 5, (backend, outages)
        assert after[backend] == before[backend], backend


def test_a_power_cut_within_the_window(fleet: Fleet) -> None:
    before = fleet.states()
    wrong = {**_WRONG["another network"], "name": "br0"}
    with fleet.probes() as probes:
        process = fleet.start({backend: [wrong] for backend in fleet.hosts}, 300)
        wait_for(lambda: not any(probe.up for probe in probes.values()), 30, "the cut")
        time.sleep(1.5)  # beyond the moment of the switch itself, which is short
        assert not any(probe.up for probe in probes.values())
        fleet.power_cycle()
    kill_tree(process.pid)
    process.wait(timeout=30)
    assert fleet.settle(2) == before
    predicted = fleet.run(dict.fromkeys(fleet.hosts, _RIGHT), check=True)
    for result in predicted.values():
        assert "restarted" in result["earlier"]["reason"]
    assert fleet.states() == before


# What is not there after a boot, or is written again at one, and how each comes to be
_PASSING = {
    "ifupdown": [
        (
            "/run/network/interfaces.d/eth0",
            "mkdir -p /run/network/interfaces.d; cd /etc/network; sed '/lo/d' interfaces > {path};"
            " printf 'auto lo\\niface lo inet loopback\\nsource /run/network/interfaces.d/*\\n'"
            " > interfaces",
        ),
    ],
    "netplan": [
        (
            "/run/netplan/50-lan.yaml",
            "mkdir -p /run/netplan; mv /etc/netplan/50-lan.yaml {path}",
        ),
        (
            "/etc/netplan/50-cloud-init.yaml",
            "mv /etc/netplan/50-lan.yaml {path}; mkdir -p /etc/cloud/cloud.cfg.d;"
            " printf '#!/bin/sh\\n' > /usr/bin/cloud-init; chmod +x /usr/bin/cloud-init",
        ),
    ],
}


def test_bridge_over_passing_configuration_is_refused_until_it_lasts(fleet: Fleet) -> None:
    """The remedies are typed; the tests below make the bridge, and boot."""
    for backend, cases in _PASSING.items():
        for path, prepare in cases:
            fleet.lab.ssh(fleet.hosts[backend], prepare.format(path=path))
            before = fleet.states()[backend]
            refused = fleet.run({backend: _RIGHT})[backend]["msg"]
            assert path in refused
            assert fleet.states()[backend] == before
            match = re.search("`(.*)`", refused)
            assert match, refused
            print(refused)
            fleet.lab.ssh(fleet.hosts[backend], match[1])
        assert "msg" not in fleet.run({backend: _RIGHT}, check=True)[backend]


def test_a_right_one_has_the_same_address(fleet: Fleet) -> None:
    right = dict.fromkeys(fleet.hosts, _RIGHT)
    before = fleet.states()
    predicted = fleet.run(right, check=True)
    assert fleet.states() == before
    known = fleet.identities("eth0")
    assert all(known.values()), known
    with fleet.probes() as probes:
        real = fleet.run(right, window=60)
    after = fleet.states()
    assert fleet.identities("br0") == known
    for backend, result in real.items():
        print(f"{backend}: not reached for {probes[backend].outages()} s")
        assert "msg" not in result, result["msg"]
        assert result["changed"], result
        assert result["bridges"][0]["backend"] == backend
        assert documentation.undocumented("virt_bridge", result) == []
        for key in ("changed", "bridges", "diff", "earlier"):
            assert predicted[backend][key] == result[key], (backend, key)
        assert any(entry["before"] != entry["after"] for entry in result["diff"])
        links = after[backend]["links"]
        assert links["br0"][1] == before[backend]["links"]["eth0"][1]
        assert links["eth0"] == ["br0", []]
        routes = [[route[:2] for route in s[backend]["routes"]] for s in (before, after)]
        assert routes[0] == routes[1]
    for check in (True, False):
        assert not any(result["changed"] for result in fleet.run(right, check=check).values())
    assert fleet.states() == after


def test_it_is_there_after_the_next_boot(fleet: Fleet) -> None:
    before = fleet.states()
    fleet.power_cycle()
    assert fleet.settle(2) == before
    again = fleet.run(dict.fromkeys(fleet.hosts, _RIGHT))
    assert not any(result["changed"] for result in again.values()), again


@pytest.fixture(scope="module")
def spare(bridge_lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """One bare host under ifupdown, besides."""
    found = Fleet(bridge_lab, tmp_path_factory.mktemp("spare"))
    found.add("ifupdown")
    return found


def test_what_cannot_be_is_refused_and_nothing_touched(spare: Fleet) -> None:
    name = spare.hosts["ifupdown"]
    stranger = f"{spare.lab.network[250]}/24"
    spare.lab.ssh(name, f"ip address add {stranger} dev eth0")
    before = spare.states()
    said = [spare.run({"ifupdown": _RIGHT}, check=check)["ifupdown"] for check in (True, False)]
    assert f"has {stranger}, which ifupdown" in said[0]["msg"]
    assert said[0]["msg"] == said[1]["msg"]
    said = [spare.run({"ifupdown": [{"name": "br0", "uplink": "eth7"}]})["ifupdown"]]
    assert "uplink eth7 does not exist; existing interfaces: eth0" in said[0]["msg"]
    assert spare.states() == before
    spare.lab.ssh(name, f"ip address del {stranger} dev eth0")


def _interrupted(spare: Fleet, window: int) -> None:
    """Start the play and kill it as soon as the switch is armed, which it is before it begins."""
    process = spare.start({"ifupdown": _RIGHT}, window)
    armed = "test -e /var/lib/fleet-virt/bridge/armed"
    wait_for(
        lambda: spare.lab.ssh(spare.hosts["ifupdown"], armed, check=False).returncode == 0,
        30,
        "the switch armed",
    )
    kill_tree(process.pid)
    process.wait(timeout=30)


def test_an_interrupted_run_goes_back_by_itself(spare: Fleet) -> None:
    before = spare.states()
    _interrupted(spare, _WINDOW)
    wait_for(lambda: "br0" in spare.states()["ifupdown"]["links"], _WINDOW, "the bridge")
    wait_for(lambda: spare.states() == before, _WINDOW + 15, "the former network")


def test_an_interrupted_run_is_finished_by_the_next(spare: Fleet) -> None:
    _interrupted(spare, 60)
    again = spare.run({"ifupdown": _RIGHT})["ifupdown"]
    assert again["changed"], again
    name = spare.hosts["ifupdown"]
    spare.lab.ssh(name, "test -e /var/lib/fleet-virt/bridge/confirmed")
    timers = spare.lab.ssh(name, "systemctl list-timers --all --no-legend 'fleet-virt-*'").stdout
    assert timers == ""
    assert not spare.run({"ifupdown": _RIGHT})["ifupdown"]["changed"]


def test_examples_and_a_bridge_of_somebody_else(
    bridge_lab: Laboratory, spare: Fleet, checkout: Path, tmp_path: Path
) -> None:
    """The ready host has br0 by its own configuration: it is left alone."""
    before = networks.state(bridge_lab, "hv1")
    readme = (checkout / "roles" / "bridge" / "README.md").read_text(encoding="utf-8")
    (play,) = re.findall(r"^```yaml\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    (tmp_path / "play.yml").write_text(play)
    run = spare.ansible.playbook(str(tmp_path / "play.yml")).succeeded()
    assert [one["changed"] for one in run.of(_TASK)["hv1"]["bridges"]] == [False]
    assert networks.state(bridge_lab, "hv1") == before
    changed = []
    for example in documentation.examples("virt_bridge"):
        run = spare.ansible.play([example.task], "hv1", become=True).succeeded()
        result = run.of(example.name)["hv1"]
        changed.append([bridge["changed"] for bridge in result["bridges"]])
        if len(changed) == 1:
            assert networks.state(bridge_lab, "hv1") == before
    assert changed == [[False], [False, True]]
    after = networks.state(bridge_lab, "hv1")
    assert after["links"]["br1"] == [None, []]
    assert after["links"]["br0"] == before["links"]["br0"]
    assert spare.ansible.module(
        "hv1", "virt_bridge", {"bridges": [{"name": "br2", "uplink": "eth0"}]}
    )["hv1"]["msg"].startswith("bridge br2: uplink eth0 is a port of br0 (bridge)")
