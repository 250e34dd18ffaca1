# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Proving that a host is off, by the agents or commands that switch its power supplies."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Mapping

from ..._errors import DeadlineExceeded, DependencyMissing, PlanRefused
from ..base import effects_programs as programs
from . import effects_heard, plan, read_metadata
from .options import FenceDevice, FenceOptions, require_sound
from .plan import Status
from .read_silence import listen

_SECONDS = 60.0  # of one call of an agent; a management controller may take half of it to log in
_PAUSE = 2.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def fence(options: FenceOptions, *, check: bool) -> Mapping[str, object]:
    """Prove that the host is off, switching it off if it is not; the module's result.

    Raises PlanRefused if it answers, before or after, and if its devices do not say that it is off.
    """
    require_sound(options)
    host = options["host"]
    _require_silence(options, fenced=False)
    if options["stated"]:
        text = plan.statement(host, options["lease"])
        if not check:
            time.sleep(options["lease"])
            _require_silence(options, fenced=True)
        return _result(plan.STATED, text, changed=False)
    _require_fit(options)
    before = [_status(device) for device in options["devices"]]
    if plan.is_proven(before):
        still = _require_silence(options, fenced=True)
        return _result(plan.ALREADY, f"{host} {plan.ALREADY}{still}", changed=False)
    if check:
        broken = [status for status in before if status.state == plan.UNKNOWN]
        if broken:
            raise PlanRefused(plan.not_proven(host, broken))
        return _result(plan.SWITCHED, f"{host} would be switched off", changed=True)
    failures = [
        failure
        for device, status in zip(options["devices"], before)
        if status.state != plan.OFF and (failure := _switch_off(device))
    ]
    statuses = _await(options)
    if not plan.is_proven(statuses):
        raise PlanRefused(plan.not_proven(host, statuses, failures))
    still = _require_silence(options, fenced=True)
    return _result(plan.SWITCHED, f"{host} {plan.SWITCHED}{still}", changed=True)


def _require_silence(options: FenceOptions, *, fenced: bool) -> str:
    """Raise PlanRefused for a sign of life, and where none could have been heard. What is said of a
    sign that a person has said is none; it counts for nothing without devices that say off."""
    host = options["host"]
    heard = listen(options["addresses"] or [host], options["ports"], effects_heard.volumes())
    if heard.sign is None:
        if not (heard.audible or options["_audible"] or options["stated"]):
            raise PlanRefused(plan.inaudible(host))
        return ""
    if options["ignore_signs"]:
        return plan.ignored(heard.sign)
    raise PlanRefused(plan.alive([host], heard.sign, fenced=fenced))


def _require_fit(options: FenceOptions) -> None:
    """Nothing is switched by an agent that could not say afterwards that the host is off."""
    agents = [device["agent"] for device in options["devices"] if device["agent"] is not None]
    reasons = read_metadata.unfit(agents)
    if reasons:
        raise PlanRefused(plan.unfit(options["host"], reasons.values()))


def _await(options: FenceOptions) -> list[Status]:
    """The status of all devices at one time: some say that they are done before they are."""
    end = time.monotonic() + options["off_timeout"]
    while True:
        statuses = [_status(device) for device in options["devices"]]
        if plan.is_proven(statuses) or time.monotonic() >= end:
            return statuses
        time.sleep(_PAUSE)


def _status(device: FenceDevice) -> Status:
    try:
        ended = _run(device, plan.STATUS)
    except DeadlineExceeded as error:
        return Status(plan.name_of(device), plan.UNKNOWN, str(error))
    return plan.status_of(device, ended.status, ended.stdout, ended.error_text)


def _switch_off(device: FenceDevice) -> str:
    """Switch off; why not, if the program says that it failed."""
    try:
        ended = _run(device, plan.SWITCH_OFF)
    except DeadlineExceeded as error:
        return f"{plan.name_of(device)}: {error}"
    if ended.status == 0:
        return ""
    return f"{plan.name_of(device)} failed ({ended.status}): {plan.shortened(ended.error_text)}"


def _run(device: FenceDevice, action: str) -> programs.Ended:
    words = [str(word) for word in _words(device, action)]
    try:
        return programs.execute(
            words, text=plan.input_of(device, action), seconds=_SECONDS, path=_PATH
        )
    except OSError as error:
        # such as a script without #!, which a shell would run
        raise DependencyMissing(plan.not_run(device, words[0], error.strerror or "")) from None


def _words(device: FenceDevice, action: str) -> t.Sequence[str]:
    agent = device["agent"]
    if agent is not None:
        return [programs.find(agent) or agent]
    return (device["command"] if action == plan.SWITCH_OFF else device["status_command"]) or []


def _result(outcome: str, text: str, *, changed: bool) -> dict[str, object]:
    return {"changed": changed, "outcome": outcome, "text": text}
