# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an agent is told, and what its answers prove."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing import plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing.plan import Status

from .test_options import device

AN_AGENT = device(
    parameters={"ip": "192.0.2.9", "plug": 7, "lanplus": True, "ssl": False},
    secrets={"password": "xyzzy"},
)


def test_input_of_agent_has_action_and_secrets() -> None:
    lines = plan.input_of(AN_AGENT, plan.STATUS).splitlines()
    assert lines == [
        "action=status",
        "ip=192.0.2.9",
        "plug=7",
        "lanplus=1",
        "ssl=0",
        "password=xyzzy",
    ]


A_COMMAND = device(agent=None, command=["rack", "off"], status_command=["rack", "status"])


@pytest.mark.parametrize(
    ("ended", "out", "state"),
    [
        (0, "Status: ON\n", plan.ON),
        (2, "Status: OFF\n", plan.OFF),
        (2, "Status: OFF", plan.OFF),
        (2, "Connecting\nStatus: OFF\r\n", plan.OFF),
        (2, "", plan.UNKNOWN),
        (0, "", plan.UNKNOWN),
        (2, "Status: ON\n", plan.UNKNOWN),
        (0, "Status: OFF\n", plan.UNKNOWN),
        (1, "Status: OFF\n", plan.UNKNOWN),
        (-9, "Status: OFF\n", plan.UNKNOWN),
        (2, "Status: OFF\nStatus: ON\n", plan.UNKNOWN),
        (2, "status: off\n", plan.UNKNOWN),
        (2, "off\n", plan.UNKNOWN),
        (2, "plug 6 Status: OFF\n", plan.UNKNOWN),
        (2, "Status: OFFLINE\n", plan.UNKNOWN),
        (2, "checking\rStatus: OFF\n", plan.UNKNOWN),
        (127, "", plan.UNKNOWN),
    ],
)
def test_status_of_agent_is_exit_status_and_complete_line(ended: int, out: str, state: str) -> None:
    status = plan.status_of(AN_AGENT, ended, out.encode(), "Connection timed out\nplease retry")
    assert (status.device, status.state) == ("fence_ipmilan (plug 7)", state)
    assert ("Connection timed out please retry" in status.why) is (state == plan.UNKNOWN)


@pytest.mark.parametrize(
    ("ended", "out", "state"),
    [
        (0, "on\n", plan.ON),
        (2, "off\n", plan.OFF),
        (2, "asking rack 7\noff\n", plan.OFF),
        (2, "", plan.UNKNOWN),
        (2, "power off\n", plan.UNKNOWN),
        (2, "usage: rack COMMAND\n  on\n  off\n  status\n", plan.UNKNOWN),
        (2, "on\noff\n", plan.UNKNOWN),
        (2, "Status: OFF\n", plan.UNKNOWN),
        (2, "offline\n", plan.UNKNOWN),
        (2, "\xff off\n", plan.UNKNOWN),
    ],
)
def test_status_of_command_is_exit_status_and_complete_line(
    ended: int, out: str, state: str
) -> None:
    assert plan.status_of(A_COMMAND, ended, out.encode("latin-1"), "").state == state


def test_unknown_status_says_what_was_printed_and_what_was_expected() -> None:
    why = plan.status_of(A_COMMAND, 2, b"", "sh: 0: cannot open /missing").why
    assert why.startswith("exit status 2: sh: 0: cannot open /missing; a status is the line 'on'")
    assert "'off' with 2" in why


@pytest.mark.parametrize(
    ("states", "proven"),
    [
        ((), False),
        ((plan.OFF,), True),
        ((plan.OFF, plan.OFF), True),
        ((plan.OFF, plan.ON), False),
        ((plan.OFF, plan.UNKNOWN), False),
    ],
)
def test_host_is_off_when_all_its_power_supplies_are(states: tuple[str, ...], proven: bool) -> None:
    assert plan.is_proven([Status("a", state) for state in states]) is proven


def test_message_names_what_is_not_off_and_the_remedy() -> None:
    statuses = [Status("a", plan.OFF), Status("b", plan.UNKNOWN, "exit status 1: no route")]
    message = plan.not_proven("hv3", statuses, ["b failed (1): no route"])
    assert message.startswith(
        "hv3 is not proven off: b failed (1): no route; b says unknown (exit status 1: no route)"
    )
    assert "-e virt_fenced=hv3" in message
    assert "a says" not in message


def test_statement_says_what_it_claims() -> None:
    text = plan.statement("hv3", 100)
    for claim in ("without power or destroyed", "no process", "nothing here has proven it"):
        assert claim in text
    assert "100 seconds" in text
