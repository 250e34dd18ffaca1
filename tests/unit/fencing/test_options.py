# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of a fence agent's options is refused, and which of them are secrets."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
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


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("password", True),
        ("passwd", True),
        ("snmp_priv_passwd", True),
        ("snmp-auth-passwd", True),
        ("community", True),
        ("token", True),
        ("secret_key", True),
        ("api_key", True),
        ("passwd_script", False),
        ("username", False),
        ("ip", False),
        ("plug", False),
        ("identity_file", False),
        ("shell_timeout", False),
    ],
)
def test_parameter_is_secret_by_its_name(name: str, secret: bool) -> None:
    assert is_secret(name) is secret
