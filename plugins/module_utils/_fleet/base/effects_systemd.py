# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""systemd units: those of libvirt, their error messages, and units of our own."""

from __future__ import annotations

import re
import time
import typing as t

from ..._errors import DeadlineExceeded, DependencyMissing, PlanRefused
from . import effects_programs as programs

# Error messages of libvirt's daemons, and of systemd when it cannot open a port
_COMPLAINT = re.compile(
    r"failed: |Can't load config file|[Cc]ertificate .*(expired|activ|revoked)"
    r"|Failed to create listening socket"
)
_COMPLAINING = (
    *("libvirtd.service", "virtqemud.service", "virtproxyd.service"),
    *("libvirtd-tls.socket", "virtproxyd-tls.socket"),
)
_LIMIT = 120.0
_TRIES = 20
_STARTS = 3
# Verbs after which a unit may not be as it was to be, for a reason that its journal alone has
_ACTING = ("start", "restart", "stop", "enable", "disable")
_LINES = 6  # of the journal in a message, the last ones
_LINE = 300  # characters of each
_JOURNAL_SECONDS = 20.0
_NEEDS = ("Requires", "Requisite", "BindsTo")


def systemctl(*words: str, may_fail: bool = False) -> str:
    """The output of ``systemctl``; raises PlanRefused with its error output if it fails, and with
    the last lines of the journal of the units that it was to start or stop."""
    command = ["systemctl", "--no-pager", *words]
    began = int(time.time())
    try:
        done = programs.execute(command, seconds=_LIMIT)
    except FileNotFoundError:
        raise DependencyMissing("systemctl is missing: this collection needs systemd") from None
    except DeadlineExceeded:
        what = f"{' '.join(command)} timed out after {_LIMIT:g} seconds"
        raise PlanRefused(f"{what}{_why(words, began)}") from None
    if done.status and not may_fail:
        what = f"{' '.join(command)} failed: {' '.join(done.error_text.split())}"
        raise PlanRefused(f"{what}{_why(words, began)}")
    return done.out


def _why(words: t.Sequence[str], began: int) -> str:
    verb, *names = [word for word in words if not word.startswith("-")] or [""]
    if verb not in _ACTING:
        return ""
    return journal([*names, *_failed_needs(names)], began)


def _failed_needs(names: t.Sequence[str]) -> list[str]:
    """The failed units that these need: what is said of a unit is then only that another failed."""
    shown = systemctl("show", f"--property={','.join(_NEEDS)}", *names, may_fail=True)
    needed = {unit for line in shown.splitlines() for unit in line.partition("=")[2].split()}
    states = units(sorted(needed)) if needed else {}
    return [unit for unit, fields in states.items() if fields["ActiveState"] == "failed"]


def journal(names: t.Sequence[str], began: int | None = None) -> str:
    """The last lines that the journal has of these units, since then, as the end of a message:
    what they printed and what systemd says of them. Empty if there are none."""
    since = [] if began is None else [f"--since=@{began}"]
    command = ["journalctl", "--no-pager", "--output=cat", f"--lines={_LINES}", *since]
    command += [*(f"_SYSTEMD_UNIT={name}" for name in names), "+", *(f"UNIT={n}" for n in names)]
    try:
        # include what a busy machine has yet to write
        for words in (["journalctl", "--sync"], command):
            done = programs.execute(words, seconds=_JOURNAL_SECONDS)
    except (FileNotFoundError, DeadlineExceeded):
        return ""
    lines = [" ".join(line.split())[:_LINE] for line in done.out.splitlines()]
    told = " | ".join(line for line in dict.fromkeys(lines) if line)
    return f"; its journal: {told}" if told and not done.status else ""


_PROPERTIES = ("Id", "LoadState", "ActiveState", "SubState", "UnitFileState")


def units(names: t.Sequence[str]) -> dict[str, dict[str, str]]:
    """The state of those units that exist and can start."""
    # Where systemd does not run, as in a chroot, nothing can start
    shown = systemctl("show", f"--property={','.join(_PROPERTIES)}", *names, may_fail=True)
    loaded = {}
    for block in shown.split("\n\n"):
        fields = _fields(block)
        if fields.get("LoadState") == "loaded":
            loaded[fields["Id"]] = {name: fields.get(name, "") for name in _PROPERTIES}
    return loaded


def restart(service: str, sockets: t.Sequence[str] = ()) -> None:
    """Restart a daemon behind ``sockets``, of which some may not be open yet.

    Guests keep running: they are not children of the daemon that systemd would end with it.
    """
    if not sockets:
        systemctl("reset-failed", service, may_fail=True)
        systemctl("restart", service)
        return
    for left in range(_TRIES, 0, -1):
        systemctl("stop", service)
        # A unit that failed too often, perhaps without keys, is not started again without this
        systemctl("reset-failed", service, *sockets, may_fail=True)
        try:
            systemctl("start", *sockets)
            break
        except PlanRefused:
            # A client connected in between, and an open socket started the service again
            if left == 1 or not is_active(service):
                raise
    _start(service)


def _start(service: str) -> None:
    """Start a daemon that was just stopped; tried again, as its own ``Restart=on-failure`` does.

    On a busy machine libvirtd may fail once and start a moment later (seen twice in eight set-ups
    at a load of 10), which is no reason to put its settings back. With settings that it refuses it
    fails each time.
    """
    for left in range(_STARTS, 0, -1):
        try:
            systemctl("start", service)
            return
        except PlanRefused:
            if left == 1:
                raise
        time.sleep(1.0)
        systemctl("reset-failed", service, may_fail=True)


def is_active(unit: str, seconds: float = _LIMIT) -> bool:
    """Whether the unit is active; false where there is no systemd."""
    return _succeeds("is-active", unit, seconds=seconds)


def is_enabled(unit: str) -> bool:
    """Whether the unit starts at boot; false where there is no systemd."""
    return _succeeds("is-enabled", unit)


def properties(unit: str, *names: str) -> dict[str, str]:
    """Properties of a unit (``systemctl show``), which need not exist; raises as ``systemctl``."""
    return _fields(systemctl("show", f"--property={','.join(names)}", unit))


def stop(unit: str, seconds: float = _LIMIT) -> None:
    """Stop the unit, or all units matching the pattern; there may be none."""
    _succeeds("stop", unit, seconds=seconds)


def clear(unit: str) -> None:
    """Stop the unit and clear its failed state; it may not exist."""
    stop(unit)
    _succeeds("reset-failed", unit)


def _succeeds(*words: str, seconds: float = _LIMIT) -> bool:
    """Whether ``systemctl`` succeeds; raises DeadlineExceeded."""
    try:
        return programs.execute(["systemctl", *words], seconds=seconds).status == 0
    except FileNotFoundError:
        return False


def _fields(block: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in block.splitlines())


def own_unit(
    unit: str,
    argv: t.Sequence[str],
    *,
    after: float | None = None,
    properties: t.Sequence[str] = (),
) -> list[str]:
    """The command that runs ``argv`` as a systemd unit, which outlives this process.

    It starts at once and remains loaded when it has ended; with ``after``, it starts that many
    seconds later and is unloaded when it ends. Without AccuracySec a timer is a minute late.
    """
    words = ["systemd-run", "--quiet", f"--unit={unit}"]
    if after is not None:
        words += ["--collect", f"--on-active={after:g}s", "--timer-property=AccuracySec=100ms"]
    return [*words, *(f"--property={one}" for one in properties), "--", *argv]


def complaints(began: int, said: str = "") -> str:
    """Errors that libvirt's daemons have logged since then, without those that were ``said``; they
    may take a moment to appear."""
    command = ["journalctl", "--no-pager", "--output=cat", f"--since=@{began}"]
    command += [f"_SYSTEMD_UNIT={unit}" for unit in _COMPLAINING]
    # systemd opens a port in a short-lived child, which is gone before the journal looks up its
    # unit; --unit only finds what the first process logs about a unit
    command += ["+", *(f"UNIT={unit}" for unit in _COMPLAINING)]
    for _try in range(_TRIES):
        try:
            # include what a busy machine has yet to write
            for words in (["journalctl", "--sync"], command):
                done = programs.execute(words, seconds=_LIMIT)
        except (FileNotFoundError, DeadlineExceeded):
            break
        lines = [line for line in done.out.splitlines() if _COMPLAINT.search(line)]
        if lines:
            return " | ".join(line for line in dict.fromkeys(lines[-3:]) if line not in said)
        time.sleep(0.1)
    return ""
