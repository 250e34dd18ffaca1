# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mapping,
    as_mappings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge.options import (
    ARGUMENTS,
    INTERNAL,
    parse,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values

_ROUNDS = 3  # first an interrupted run is finished or reported, then this one runs
_CONNECT = 3  # seconds to connect to a machine that may be cut off
_PAUSE = 0.5
_GRACE = 60.0  # seconds after the window for the former network to respond again


class BridgeResult(t.TypedDict):
    name: str
    uplink: str
    stp: bool
    dhcp: bool
    addresses: list[str]
    gateways: list[str]
    nameservers: list[str]


class VirtBridgeOptions(Connected):
    bridges: list[BridgeResult]
    rollback_seconds: int
    _stage: str
    _switch: str | None


class ActionModule(FleetAction):
    """Starts the switch and confirms it over a new connection."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        options = self.options(VirtBridgeOptions, ARGUMENTS, INTERNAL)
        parse(options["bridges"], options["rollback_seconds"])
        host = str(task_vars.get("inventory_hostname"))
        finished = False
        for _round in range(_ROUNDS):
            answer = self.module(task_vars, {**options, "_stage": "switch"})
            pending = answer.pop("pending", None)
            window = _seconds(answer.pop("window", 0))
            resumed = bool(answer.pop("resumed", False))
            if pending is None:
                return {**answer, "changed": bool(answer.get("changed")) or finished}
            if resumed:
                _say(
                    f"{host}: an earlier run was interrupted after its switch; checking the result"
                )
            else:
                _tell(host, answer, window)
            outcome, why = self._confirm({**options, "_switch": pending}, window, task_vars)
            if outcome == "confirmed":
                finished = True
                if resumed:
                    continue
                return answer
            if resumed and outcome == "rolled back":
                continue
            return {**answer, **_failure(outcome, why)}
        raise AnsibleActionFail("other runs are changing this machine's bridges at the same time")

    def _confirm(
        self, options: t.Mapping[str, object], window: float, task_vars: Values
    ) -> tuple[str, str]:
        """The outcome of the switch, and the reason."""
        deadline = time.monotonic() + window + _GRACE
        self._impatient()
        why = ""
        while time.monotonic() < deadline:
            # The shared connection is from before the switch: it proves nothing, and may hang
            with contextlib.suppress(Exception):
                self._connection.reset()
            time.sleep(_PAUSE)
            try:
                answer = self.module(task_vars, {**options, "_stage": "confirm"})
            except AnsibleConnectionFailure as error:
                why = f"it cannot be reached ({error})"
                continue
            if "outcome" not in answer:  # cut off in the middle of the call
                why = str(answer.get("msg", answer))
                continue
            outcome, why = str(answer["outcome"]), str(answer.get("why"))
            if outcome in ("confirmed", "rolled back"):
                return outcome, why
        return "silent", why

    def _impatient(self) -> None:
        """Make a connection to a machine that is cut off fail soon, whatever is configured."""
        with contextlib.suppress(Exception):  # other connections than ssh have no such options
            common = self._connection.get_option("ssh_common_args") or ""
            alive = "-o ServerAliveInterval=2 -o ServerAliveCountMax=2"  # ssh takes the first
            self._connection.set_option("ssh_common_args", f"{alive} {common}".strip())
        with contextlib.suppress(Exception):
            self._connection.set_option("timeout", _CONNECT)


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _tell(host: str, answer: t.Mapping[str, object], window: float) -> None:
    earlier = as_mapping(answer.get("earlier"))
    if earlier:
        armed, reason = earlier.get("armed"), earlier.get("reason")
        _say(f"{host}: the switch of {armed} was rolled back: {reason}")
    for bridge in as_mappings(answer.get("bridges")):
        if bridge.get("changed"):
            over = f"over {bridge['uplink']}" if bridge.get("uplink") else "without uplink"
            name, backend = bridge.get("name"), bridge.get("backend")
            _say(
                f"{host}: bridge {name} {over} ({backend}); the former network configuration"
                f" is restored after {window:g} s unless this controller can connect again"
            )


def _failure(outcome: str, why: str) -> Answer:
    if outcome == "rolled back":
        text = f"rolled back, the former network configuration is in place again: {why}"
    else:
        text = (
            f"no response, although the former network configuration should be restored: {why};"
            " check the machine's console and /var/lib/fleet-virt/bridge/rollback.log there"
        )
    return {"failed": True, "changed": False, "msg": text}


def _say(line: str) -> None:
    _output.say(line)
