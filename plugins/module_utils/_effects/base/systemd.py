# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""systemd's units: those of libvirt, what they complain of, and units of our own.

This file is private to the collection.
"""

from __future__ import annotations

import re
import time
import typing as t

from ..._errors import DeadlineExceeded, DependencyMissing, PlanRefused
from . import programs

# Words of libvirt's daemons, and of systemd when it cannot open a port
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


def systemctl(*words: str, may_fail: bool = False) -> str:
    """What ``systemctl`` prints; raises PlanRefused with its words when it fails."""
    command = ["systemctl", "--no-pager", *words]
    try:
        done = programs.execute(command, seconds=_LIMIT)
    except FileNotFoundError:
        raise DependencyMissing("systemctl is missing: this collection needs systemd") from None
    except DeadlineExceeded:
        raise PlanRefused(f"{' '.join(command)}: no end within {_LIMIT:g} seconds") from None
    if done.status and not may_fail:
        raise PlanRefused(f"{' '.join(command)} failed: {done.said}")
    return done.out


_PROPERTIES = ("Id", "LoadState", "ActiveState", "SubState", "UnitFileState")


def units(names: t.Sequence[str]) -> dict[str, dict[str, str]]:
    """The state of those of the units that are there and can begin."""
    # Where systemd does not run, as in a chroot, nothing can begin
    shown = systemctl("show", f"--property={','.join(_PROPERTIES)}", *names, may_fail=True)
    found = {}
    for block in shown.split("\n\n"):
        fields = _fields(block)
        if fields.get("LoadState") == "loaded":
            found[fields["Id"]] = {name: fields.get(name, "") for name in _PROPERTIES}
    return found


def restart(service: str, sockets: t.Sequence[str] = ()) -> None:
    """Have a daemon begin anew, behind ``sockets``, of which some may not be open yet.

    Guests go on: they are no children of the daemon that systemd would end with it.
    """
    if not sockets:
        systemctl("reset-failed", service, may_fail=True)
        systemctl("restart", service)
        return
    for left in range(_TRIES, 0, -1):
        systemctl("stop", service)
        # One that failed too often, without keys perhaps, is not started again before
        systemctl("reset-failed", service, *sockets, may_fail=True)
        try:
            systemctl("start", *sockets)
            break
        except PlanRefused:
            # Somebody asked in between, and an open socket has begun the service again
            if left == 1 or not is_active(service):
                raise
    systemctl("start", service)


def is_active(unit: str, seconds: float = _LIMIT) -> bool:
    """Whether it has begun and has not ended; not so where there is no systemd."""
    return _succeeds("is-active", unit, seconds=seconds)


def is_enabled(unit: str) -> bool:
    """Whether a boot begins it; not so where there is no systemd."""
    return _succeeds("is-enabled", unit)


def properties(unit: str, *names: str) -> dict[str, str]:
    """What ``systemctl show`` says of a unit, which need not be there; raises as ``systemctl``."""
    return _fields(systemctl("show", f"--property={','.join(names)}", unit))


def stop(unit: str, seconds: float = _LIMIT) -> None:
    """End the unit, or those that the pattern names; none may be there."""
    _succeeds("stop", unit, seconds=seconds)


def clear(unit: str) -> None:
    """End the unit and forget how it ended; it may not be there."""
    stop(unit)
    _succeeds("reset-failed", unit)


def _succeeds(*words: str, seconds: float = _LIMIT) -> bool:
    """Raises DeadlineExceeded."""
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
    """The command that runs ``argv`` as a unit of systemd's, which outlives this process.

    At once, and it is kept when it has ended; or ``after`` some seconds, and then it is forgotten.
    Without AccuracySec a timer is a minute late.
    """
    words = ["systemd-run", "--quiet", f"--unit={unit}"]
    if after is not None:
        words += ["--collect", f"--on-active={after:g}s", "--timer-property=AccuracySec=100ms"]
    return [*words, *(f"--property={one}" for one in properties), "--", *argv]


def complaints(began: int) -> str:
    """What libvirt's daemons complained of since then; it may take a moment to be there."""
    command = ["journalctl", "--no-pager", "--output=cat", f"--since=@{began}"]
    command += [f"_SYSTEMD_UNIT={unit}" for unit in _COMPLAINING]
    # systemd opens a port in a short-lived child, which is gone before the journal asks for its
    # unit; --unit finds only what the first process says of a unit
    command += ["+", *(f"UNIT={unit}" for unit in _COMPLAINING)]
    for _try in range(_TRIES):
        try:
            # what a busy machine has still to write, too
            for words in (["journalctl", "--sync"], command):
                done = programs.execute(words, seconds=_LIMIT)
        except (FileNotFoundError, DeadlineExceeded):
            break
        lines = [line for line in done.out.splitlines() if _COMPLAINT.search(line)]
        if lines:
            return " | ".join(dict.fromkeys(lines[-3:]))
        time.sleep(0.1)
    return ""
