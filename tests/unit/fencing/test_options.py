# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of a fence agent's options is refused, and which of them are secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing.options import (
    FenceDevice,
    FenceOptions,
    devices_of,
    is_secret,
    require_sound,
)


def device(**given: object) -> FenceDevice:
    usual: FenceDevice = {
        "agent": "fence_ipmilan",
        "command": None,
        "status_command": None,
        "parameters": {},
        "secrets": {},
    }
    return {**usual, **given}  # type: ignore[typeddict-item]


def options(*devices: FenceDevice, **given: object) -> FenceOptions:
    usual: FenceOptions = {
        "host": "hv3",
        "addresses": [],
        "ports": [],
        "devices": list(devices),
        "stated": False,
        "ignore_signs": False,
        "_audible": False,
        "lease": 100.0,
        "off_timeout": 60.0,
    }
    return {**usual, **given}  # type: ignore[typeddict-item]


def test_agent_with_parameters_is_accepted() -> None:
    require_sound(options(device(parameters={"ip": "192.0.2.9", "lanplus": True})))
    require_sound(options(device(agent=None, command=["off"], status_command=["status"])))
    require_sound(options(stated=True))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (options(), "nothing is given that could prove it"),
        (options(device(), stated=True), "devices are given too"),
        (options(stated=True, ignore_signs=True), "only what devices prove outweighs a sign"),
        (options(device(), lease=-1), "lease: -1 is no time to wait"),
        (options(device(), off_timeout=1e9), "off_timeout: 1e"),
        (options(device(agent="../bin/sh")), r"devices\[0\].agent: '../bin/sh' is no name"),
        (options(device(agent="fence_x -o off")), "is no name of a fence agent"),
        (options(device(command=["off"])), "a command is given too"),
        (options(device(agent=None)), "both command and status_command are needed"),
        (options(device(agent=None, command=["off"])), "both command and status_command"),
        (options(device(parameters={"action": "on"})), "parameters.action: is no parameter"),
        (options(device(parameters={"ip=1\nplug": 2})), "is no parameter"),
        (options(device(parameters={"plug": "1\naction=on"})), "not one line of text"),
        (options(device(secrets={"password": "a\naction=on"})), "not one line of text"),
        (options(device(parameters={"missing_as_off": True})), "which its device does not know"),
        (options(device(parameters={"missing-as-off": "on"})), "which its device does not know"),
        (options(device(parameters={"network_fencing": 1})), "is cut off from its network"),
        (options(device(parameters={"plug": ["1", "2"]})), "not one line of text"),
        (options(device(parameters={"password": 1}, secrets={"password": 2})), "give one"),
    ],
)
def test_unsound_option_is_refused(wrong: FenceOptions, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        require_sound(wrong)


def test_refused_secret_is_not_in_message() -> None:
    with pytest.raises(SpecError) as raised:
        require_sound(options(device(secrets={"password": "xyzzy\nplugh"})))
    assert "xyzzy" not in str(raised.value)


def test_declared_device_has_separate_secrets() -> None:
    declared = {"agent": "fence_ipmilan", "ip": "192.0.2.9", "username": "root", "password": "x"}
    assert devices_of(declared) == [
        {
            "agent": "fence_ipmilan",
            "parameters": {"ip": "192.0.2.9", "username": "root"},
            "secrets": {"password": "x"},
        }
    ]
    command = {"command": ["power", "off"], "status_command": ["power", "status"]}
    assert devices_of([command, declared])[0] == {**command, "parameters": {}, "secrets": {}}


def test_device_that_is_no_mapping_is_refused_without_its_value() -> None:
    with pytest.raises(SpecError, match=r"virt_fence\[1\]: is no mapping") as raised:
        devices_of([{"agent": "fence_ipmilan"}, "password=xyzzy"])
    assert "xyzzy" not in str(raised.value)


# Of all agents of Debian 12, and of those that came later
_AGENTS = json.loads((Path(__file__).parent / "agents.json").read_text())
_SECRETS = [
    "access_key",
    "api_token",
    "apikey",
    "community",
    "hexadecimal_kg",
    "hidden_page",
    "key",
    "page",
    "passwd",
    "password",
    "secret_key",
    "snmp_priv_passwd",
    "token",
]


def test_secrets_of_all_agents_are_separate() -> None:
    assert [name for name in _AGENTS["parameters"] if is_secret(name)] == _SECRETS


@pytest.mark.parametrize("name", ["snmp-auth-passwd", "api-key", "api_key", "Kg", "pwd", "pin"])
def test_other_spelling_of_secret_is_secret(name: str) -> None:
    assert is_secret(name)


def test_url_with_password_is_secret() -> None:
    declared = {"agent": "fence_x", "proxy": "http://u:xyzzy@192.0.2.1", "api_url": "http://h:80/"}
    (device,) = devices_of(declared)
    assert device["parameters"] == {"api_url": "http://h:80/"}
    assert device["secrets"] == {"proxy": "http://u:xyzzy@192.0.2.1"}


_NO_PROOF = {
    "reboot": "brocade cisco_mds compute ifmib kdump mpath sanbox2 scsi",
    "status": "heuristics_ping kdump ovh rcd_serial",
    "": "aws_vpc_net crosslink dummy evacuate sbd",
}


def test_agents_of_something_else_than_power_are_no_proof() -> None:
    found = {
        agent: metadata.unfit(
            agent,
            "<resource-agent><actions>"
            + "".join(f"<action name='{name}'/>" for name in actions.split())
            + "</actions></resource-agent>",
        )
        for agent, actions in _AGENTS["actions"].items()
    }
    assert len(found) == 93
    refused = {agent: why for agent, why in found.items() if why}
    expected = {f"fence_{name}" for names in _NO_PROOF.values() for name in names.split()}
    assert refused.keys() == expected
    for action, names in _NO_PROOF.items():
        for name in names.split():
            assert action in refused[f"fence_{name}"]


def test_metadata_that_are_none_are_no_proof() -> None:
    assert "cannot be parsed" in metadata.unfit("fence_x", "Status: OFF")
    assert "switches no power" not in metadata.unfit("fence_x", "<resource-agent/>")
    assert metadata.unfit("fence_x", "<resource-agent/>").startswith("fence_x cannot say")
