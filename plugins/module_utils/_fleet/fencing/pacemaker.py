# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fence resources of Pacemaker, from what hypervisors declare in ``virt_fence``."""

from __future__ import annotations

from ..._errors import SpecError
from ..base.json_values import as_mapping
from ..cell.facts import FenceResource, fence_id
from .options import devices_of, problems_of_off

_PLUGS = ("plug", "port")
_EXAMPLE = "{agent: fence_ipmilan, ip: 192.0.2.113, username: admin, password: ...}"


def problem(host: str, declared: object) -> str:
    """Why ``virt_fence`` does not let Pacemaker prove that the host is off; empty if it does."""
    if not declared:
        return (
            f"{host} has no fence device, so nothing could prove that it is off, and none of its"
            f" VMs would start elsewhere; declare virt_fence of {host}, for example {_EXAMPLE}"
        )
    try:
        devices = devices_of(declared, f"virt_fence of {host}")
    except SpecError as error:
        return str(error)
    if any(not device.get("agent") for device in devices):
        return (
            f"virt_fence of {host} has a command, and Pacemaker runs agents of fence-agents only;"
            f" give it an agent, for example {_EXAMPLE}"
        )
    wrong = [why for device in devices for why in problems_of_off(as_mapping(device["parameters"]))]
    if wrong:
        return f"virt_fence of {host}: {'; '.join(wrong)}"
    return ""


def agents_of(declared: object) -> list[str]:
    """The agents of a variable that has no problem."""
    return list(dict.fromkeys(str(device["agent"]) for device in devices_of(declared)))


def resources_of(host: str, declared: object) -> list[FenceResource]:
    """The fence resources of a host, whose devices have no problem.

    A plug is given as what the host is called there; without one the agent gets no name at all,
    where it would otherwise be the host's.
    """
    devices = devices_of(declared)
    resources = []
    for number, device in enumerate(devices, 1):
        name = fence_id(host, number if len(devices) > 1 else None)
        given = {key: _text(value) for key, value in as_mapping(device["parameters"]).items()}
        plugs = [given.pop(key) for key in _PLUGS if key in given]
        secrets = {key: _text(value) for key, value in as_mapping(device["secrets"]).items()}
        parameters = {**given, "pcmk_host_check": "static-list", "pcmk_host_list": host}
        if plugs:
            parameters["pcmk_host_map"] = f"{host}:{plugs[0]}"
        else:
            parameters["pcmk_host_argument"] = "none"
        resources.append(FenceResource(name, host, str(device["agent"]), parameters, secrets))
    return resources


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)
