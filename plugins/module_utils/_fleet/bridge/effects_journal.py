# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The journal folder of a switch in progress: old state, new state, and current phase.

A file's name is the state: C(armed) from the moment the rollback can happen, then C(confirmed) or
C(rolling-back) and C(rolled-back). Renaming that file decides, so it can never be both.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import typing as t
from dataclasses import replace

from ..._errors import FleetVirtError, PlanRefused
from ..base import effects_files as files
from ..base import effects_locks as locks
from ..base import effects_systemd as systemd
from . import scripts
from .read import read, run
from .types import BridgePlan, Expected, Switch

FOLDER = scripts.FOLDER
_APPLY_AFTER = 1.0  # seconds for the result of the arming call to reach the controller
_STATES = ("confirmed", "rolling-back", "rolled-back", "armed")


def state() -> str:
    """The state of the last switch, or an empty string."""
    return next((name for name in _STATES if os.path.exists(f"{FOLDER}/{name}")), "")


class Awaited(t.TypedDict):
    """:class:`Expected`, as stored in JSON."""

    bridge: str
    uplink: str
    mac: str
    addresses: list[str]
    routes: list[tuple[str, str]]
    nameservers: list[str]


class Record(t.TypedDict):
    """The record that is written when a switch is armed."""

    id: str
    window: int
    deadline: float  # in seconds since the boot
    armed: str
    expected: list[Awaited]
    files: list[str]


def record() -> Record | None:
    """The record written when the switch was armed, None if there is none."""
    text = read(f"{FOLDER}/plan.json")
    stored: Record | None = json.loads(text) if text else None
    return stored


def expected(entries: t.Sequence[Awaited]) -> list[Expected]:
    """The state that is required before the switch is confirmed."""
    return [
        Expected(
            bridge=entry["bridge"],
            uplink=entry["uplink"],
            mac=entry["mac"],
            addresses=tuple(entry["addresses"]),
            routes=tuple((one, other) for one, other in entry["routes"]),
            nameservers=tuple(entry["nameservers"]),
        )
        for entry in entries
    ]


def reason() -> str:
    """Why the last switch was rolled back."""
    failed = read(f"{FOLDER}/failed").strip()
    if failed:
        lines = read(f"{FOLDER}/apply.log").strip().splitlines()
        failed = ": ".join([failed, *lines[-3:]])
    seen = read(f"{FOLDER}/seen").strip().splitlines()
    word = read(f"{FOLDER}/reason").strip()
    armed = record()
    return scripts.reason(word, failed, armed["window"] if armed else 0, seen)


def note(lines: t.Sequence[str]) -> None:
    """Record what was missing at the last check."""
    with open(f"{FOLDER}/seen", "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))


def applied() -> str:
    """The marker that the script writes once the new configuration is in place; empty before."""
    return read(f"{FOLDER}/applied")


def seconds_left(armed: Record) -> float:
    """Seconds until the rollback of an armed switch."""
    return armed["deadline"] - time.clock_gettime(time.CLOCK_BOOTTIME)


@contextlib.contextmanager
def exclusive() -> t.Iterator[None]:
    """Hold the lock that keeps other runs from reading or changing the journal."""
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    refusal = "another run is changing this machine's bridges; run again when it is done"
    with locks.held(f"{FOLDER}/lock", 30.0, refusal):
        yield


def arm(plan: BridgePlan, switch: Switch, identifier: str, window: int) -> None:
    """Save the current state, arm the rollback, and start the switch, in this order.

    At worst, a call that is killed in between leaves a rollback to the current state.
    """
    if not os.path.isdir("/run/systemd/system"):
        raise PlanRefused(
            "this machine does not run systemd, whose timer rolls back the change if the network is"
            " cut; create the bridge yourself: an existing bridge is left unchanged"
        )
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    os.chmod(FOLDER, 0o700)  # the saved files may hold passwords
    _clear()
    files = tuple(replace(file, path=os.path.realpath(file.path)) for file in switch.files)
    switch = replace(switch, files=files)
    for folder in ("saved", "new"):
        os.mkdir(f"{FOLDER}/{folder}", 0o700)
    for number, file in enumerate(files):
        _save(number, file.path, file.before, file.after, file.mode)
    _write("rollback", scripts.rollback(switch, identifier))
    _write("apply", scripts.apply(switch, identifier))
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    content: Record = {
        "id": identifier,
        "window": window,
        "deadline": now + window,
        "armed": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "expected": [
            {
                "bridge": bridge.bridge,
                "uplink": bridge.uplink,
                "mac": bridge.mac,
                "addresses": list(bridge.addresses),
                "routes": list(bridge.routes),
                "nameservers": list(bridge.nameservers),
            }
            for bridge in plan.expected
        ],
        "files": [file.path for file in files],
    }
    _write("plan.json", json.dumps(content, indent=2))
    os.makedirs(os.path.dirname(scripts.BOOT_LINK), exist_ok=True)
    _write(scripts.BOOT_FILE, scripts.boot_unit(), 0o644)
    with contextlib.suppress(FileExistsError):
        os.symlink(scripts.BOOT_FILE, scripts.BOOT_LINK)
    os.sync()
    systemd.stop(scripts.TIMERS)  # of a run that was killed before it armed
    _start("rollback", identifier, ["timer", identifier], window)
    _write("armed", "")
    os.sync()
    _start("apply", identifier, [], _APPLY_AFTER)


def _start(what: str, identifier: str, words: t.Sequence[str], seconds: float) -> None:
    script = ["/bin/sh", f"{FOLDER}/{what}", *words]
    # with another KillMode, the DHCP client that the script started would end with the script
    properties = ["KillMode=process"]
    name = scripts.unit(what, identifier)
    run(systemd.own_unit(name, script, after=seconds, properties=properties), check=True)


def confirm() -> bool:
    """Confirm the new configuration; False if the rollback came first."""
    try:
        files.move(f"{FOLDER}/armed", f"{FOLDER}/confirmed", durable=False)
    except FileNotFoundError:
        return state() == "confirmed"
    disarm()
    return True


def disarm() -> None:
    """Remove the timer and the boot unit, which have no effect any more."""
    systemd.stop(scripts.TIMERS)
    for path in (scripts.BOOT_LINK, scripts.BOOT_FILE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    os.sync()


def _clear() -> None:
    # the state first: the report on it is read from the rest
    for name in sorted(os.listdir(FOLDER), key=lambda name: name not in _STATES):
        path = f"{FOLDER}/{name}"
        if name == "lock":
            continue
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _save(number: int, path: str, before: str | None, after: str | None, mode: int) -> None:
    saved = f"{FOLDER}/saved/{number}"
    owner = (0, 0)
    if before is not None:
        run(["cp", "-a", path, saved], check=True)
        if read(saved) != before:
            raise FleetVirtError(f"{path} was changed by another process meanwhile; run again")
        status = os.stat(saved)
        mode, owner = status.st_mode & 0o7777, (status.st_uid, status.st_gid)
    if after is not None:
        _write(f"new/{number}", after, mode, owner)


def _write(name: str, text: str, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
    """Write a file in the folder (or elsewhere, by absolute path) atomically and flushed."""
    data = text.encode("utf-8", "surrogateescape")
    path = os.path.join(FOLDER, name)
    # the caller syncs the whole machine
    files.write(path, data, mode=mode, owner=owner, durable=files.Durable.CONTENT, locked=True)
