# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proving that a hypervisor is off: one that lives is not switched, and only what says off is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.power_switch import (
    PASSWORD,
    PowerSwitch,
    power_switch,
)
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory


@pytest.fixture
def switch(lab: Laboratory) -> Iterator[PowerSwitch]:
    """The power switch, whose agent hv1 has; hv2 is on afterwards."""
    with power_switch(lab, "hv1") as made:
        yield made
        if lab.host("hv2").leader is None:
            lab.start("hv2")
        else:
            lab.heal("hv2")


def _fence(ansible: Ansible, switch: PowerSwitch, **given: Any) -> dict[str, Any]:
    device = switch.device("hv2")
    secrets = {"password": device.pop("password")}
    agent = {"agent": device.pop("agent"), "parameters": device, "secrets": secrets}
    options = {"host": "hv2", "addresses": [switch.lab.host("hv2").address], "devices": [agent]}
    done = ansible.module("hv1", "virt_fence", {**options, "off_timeout": 5, **given})["hv1"]
    assert PASSWORD not in str(done), "the password is in no result"
    return done


def test_hypervisor_is_fenced_only_when_it_is_silent(
    ansible: Ansible, lab: Laboratory, switch: PowerSwitch
) -> None:
    done = _fence(ansible, switch)
    assert done["failed"]
    assert "hv2 answers on port 22" in done["msg"]
    assert not switch.calls, "it was not even asked"
    lab.cut("hv2")
    # ends as one that says "off" does, and says something else
    wrong = {"command": ["/bin/true"], "status_command": ["/bin/sh", "/missing"]}
    done = _fence(ansible, switch, devices=[wrong], off_timeout=0)
    assert done["failed"]
    assert "hv2 is not proven off: /bin/true says unknown (exit status 2: " in done["msg"], done
    switch.broken = True
    done = _fence(ansible, switch)
    assert done["failed"]
    assert "hv2 is not proven off: fence_lab (plug hv2) failed (1)" in done["msg"], done["msg"]
    assert "the management controller does not answer" in done["msg"]
    assert lab.host("hv2").leader is not None
    switch.broken, switch.calls = False, []
    done = _fence(ansible, switch)
    assert (done["failed"], done["changed"]) == (False, True), done
    assert switch.calls == ["status hv2", "off hv2", "status hv2"]
    assert lab.host("hv2").leader is None
    done = _fence(ansible, switch)
    assert (done["failed"], done["changed"], done["outcome"]) == (False, False, "was off already")


def test_hypervisor_that_lives_although_its_device_says_off_is_refused(
    ansible: Ansible, lab: Laboratory, switch: PowerSwitch
) -> None:
    """Its cable is in again while the agent is asked."""
    lab.cut("hv2")
    switch.lies = True
    answer = switch.answer

    def heal(verb: str, name: str) -> tuple[int, str]:
        lab.heal(name)
        return answer(verb, name)

    switch.answer = heal  # type: ignore[method-assign]
    done = _fence(ansible, switch)
    assert done["failed"]
    assert "although it is said to be off" in done["msg"], done["msg"]
    assert lab.host("hv2").leader is not None


def _replaced(value: Any, words: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(entry, words) for key, entry in value.items()}
    if isinstance(value, list):
        return [_replaced(entry, words) for entry in value]
    return words.get(value, value)


def test_examples_fence_a_host_without_power(
    ansible: Ansible, lab: Laboratory, switch: PowerSwitch
) -> None:
    address = lab.host("hv2").address
    words = {
        "fence_ipmilan": "fence_lab",
        "192.0.2.113": switch.place,
        "admin": "admin",
        "{{ vault_bmc_password }}": PASSWORD,
        "onoff": "onoff",
        "192.0.2.13": address,
        "192.0.2.14": address,
        "hv4": "hv2",
    }
    lab.kill("hv2")
    examples = documentation.examples("virt_fence")
    tasks = [_replaced(example.task, words) for example in examples]
    parameters = tasks[0]["fleet.virt.virt_fence"]["devices"][0]["parameters"]
    parameters["plug"] = "hv2"  # the laboratory's switch has many
    run = ansible.play(tasks, "hv1", become=True).succeeded()
    for example in examples:
        (result,) = run.of(example.name).values()
        assert (result["changed"], result["outcome"]) == (False, "was off already"), str(run)
