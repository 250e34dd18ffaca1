# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether what a fence agent says of itself makes it one that can prove that a host is off."""

from __future__ import annotations

from ... import _lxml
from ..._errors import XmlError

REQUEST = "action=metadata\n"
# What only an agent has that switches power and reads it: of those that cut a host off from a
# network or from its storage fence-agents lists no reboot, of those that only tell others no status
_NEEDED = ("reboot", "status")
# These list both, and read something else than power
_OTHERS = {
    "fence_aws_vpc_net": "cuts a host off from its network, and reads that",
    "fence_crosslink": "asks by ping, and a host that is silent may run",
    "fence_dummy": "switches nothing, it is there for tests",
    "fence_evacuate": "asks OpenStack whether a service runs",
    "fence_sbd": "reads the message that it wrote, which a host whose sbd does not run never reads",
}


def unfit(agent: str, text: str) -> str:
    """Why an agent with these metadata is no proof that a host is off; empty if it is one."""
    if agent in _OTHERS:
        return f"{agent} {_OTHERS[agent]}"
    try:
        root = _lxml.parse(text, f"metadata of {agent}")
    except XmlError as error:
        return str(error)
    actions = {str(action.get("name")) for action in root.iterfind("actions/action")}
    missing = [action for action in _NEEDED if action not in actions]
    if not missing:
        return ""
    what = "cannot say whether a host is on" if "status" in missing else "switches no power"
    return f"{agent} {what}: its metadata have no action {' and none '.join(missing)}"
