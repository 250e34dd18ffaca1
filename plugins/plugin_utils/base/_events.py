# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Telling the journal of the controller, and a hook of the user's, what came of a verb.

Neither changes what came of it: a hook that fails is a warning, which says what it did not take.
"""

from __future__ import annotations

import os
import pwd
import shlex
import time
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_programs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import show
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_syslog as syslog,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.events import Event

VARIABLE = "virt_event_hook"
ONE, ALL = 30.0, 300.0  # seconds for an event, and for those of a run


def person() -> str:
    """The login name of who runs Ansible, also of one who became root for it with sudo."""
    user = os.getuid()
    by_sudo = os.environ.get("SUDO_USER", "")
    if user == 0 and by_sudo:
        return by_sudo
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}"


def tell(events: t.Sequence[Event], hook: object) -> str | None:
    """Write the events to the journal and give each to the ``hook``; why it has not taken all."""
    syslog.write(event.json for event in events if event.is_news)
    if not hook or not events:
        return None
    try:
        argv = _argv(hook)
    except ValueError as error:
        return f"{VARIABLE}: {show(hook)} is no command ({error}); no event was sent"
    end = time.monotonic() + ALL
    for number, event in enumerate(events):
        seconds = min(ONE, end - time.monotonic())
        problem = "it takes too long" if seconds <= 0 else _run(argv, event, seconds)
        if problem:
            left = len(events) - number
            return (
                f"{VARIABLE}: {argv[0]}: {problem}; {left} of {len(events)} events were not sent,"
                f" from {event.vm} on; what was done stays done"
            )
    return None


def _argv(hook: object) -> list[str]:
    words = [*map(str, hook)] if isinstance(hook, (list, tuple)) else shlex.split(str(hook))
    if not words:
        raise ValueError("it is empty")
    return [os.path.expanduser(words[0]), *words[1:]]


def _run(argv: t.Sequence[str], event: Event, seconds: float) -> str:
    """Give the hook an event; why it failed, or nothing."""
    try:
        done = effects_programs.execute(argv, text=f"{event.json}\n", seconds=seconds)
    except (OSError, FleetVirtError) as error:
        return str(error)
    if done.status == 0:
        return ""
    said = " ".join(done.error_text.split())[:200]
    return f"exit status {done.status}{': ' if said else ''}{said}"
