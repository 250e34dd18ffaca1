# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The folder of a switch under way: what was, what is to be, and whose turn it is.

A file's name is the state: C(armed) from the moment the rollback can happen, then C(confirmed) or
C(rolling-back) and C(rolled-back). Renaming is what decides, so never both.

This file is private to the collection.
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
from ..._pure.bridge import scripts
from ..._pure.bridge.types import Expected, Plan, Switch
from ..base import files, locks, systemd
from .facts import read, run

FOLDER = scripts.FOLDER
_APPLY_AFTER = 1.0  # seconds in which the answer of the call that arms reaches the controller
_STATES = ("confirmed", "rolling-back", "rolled-back", "armed")


def state() -> str:
    """The state of the last switch, or an empty string."""
    return next((name for name in _STATES if os.path.exists(f"{FOLDER}/{name}")), "")


class Awaited(t.TypedDict):
    """:class:`Expected`, as JSON has it."""

    bridge: str
    uplink: str
    mac: str
    addresses: list[str]
    routes: list[tuple[str, str]]
    nameservers: list[str]


class Record(t.TypedDict):
    """What is written down when a switch is armed."""

    id: str
    window: int
    deadline: float  # by the clock since the boot
    armed: str
    expected: list[Awaited]
    files: list[str]


def record() -> Record | None:
    """What was written down when it was armed, None if nothing was."""
    text = read(f"{FOLDER}/plan.json")
    found: Record | None = json.loads(text) if text else None
    return found


def expected(entries: t.Sequence[Awaited]) -> list[Expected]:
    """What has to be so before it is confirmed."""
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
    kept = record()
    return scripts.reason(word, failed, kept["window"] if kept else 0, seen)


def note(lines: t.Sequence[str]) -> None:
    """Keep what was missing when it was looked at last."""
    with open(f"{FOLDER}/seen", "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))


def applied() -> str:
    """The mark of the script that has put the new configuration in place; empty before."""
    return read(f"{FOLDER}/applied")


def seconds_left(armed: Record) -> float:
    """Seconds until the rollback, of a switch that is armed."""
    return armed["deadline"] - time.clock_gettime(time.CLOCK_BOOTTIME)


@contextlib.contextmanager
def alone() -> t.Iterator[None]:
    """While no other run looks at or changes the journal."""
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    refusal = "another run is changing this machine's bridges; run again when it is done"
    with locks.held(f"{FOLDER}/lock", 30.0, refusal):
        yield


def arm(plan: Plan, switch: Switch, identifier: str, window: int) -> None:
    """Save what is, arm the rollback, and start the switch, in this order.

    A call that is killed in between leaves at worst a rollback to what is there anyway.
    """
    if not os.path.isdir("/run/systemd/system"):
        raise PlanRefused(
            "this machine does not run systemd, whose timer is what switches back if the network"
            " is cut; make the bridge yourself: it is left alone then"
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
                "bridge": one.bridge,
                "uplink": one.uplink,
                "mac": one.mac,
                "addresses": list(one.addresses),
                "routes": list(one.routes),
                "nameservers": list(one.nameservers),
            }
            for one in plan.expected
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
    # with another KillMode the end of the script would end the DHCP client that it started
    kept = ["KillMode=process"]
    name = scripts.unit(what, identifier)
    run(systemd.own_unit(name, script, after=seconds, properties=kept), check=True)


def confirm() -> bool:
    """Keep the new configuration; False when the rollback was first."""
    try:
        files.move(f"{FOLDER}/armed", f"{FOLDER}/confirmed", durable=False)
    except FileNotFoundError:
        return state() == "confirmed"
    disarm()
    return True


def disarm() -> None:
    """Take the timer and the boot unit away; both do nothing any more."""
    systemd.stop(scripts.TIMERS)
    for path in (scripts.BOOT_LINK, scripts.BOOT_FILE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    os.sync()


def _clear() -> None:
    # the state first: what is said of it is read from the rest
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
            raise FleetVirtError(f"{path} was changed by somebody else meanwhile; run again")
        status = os.stat(saved)
        mode, owner = status.st_mode & 0o7777, (status.st_uid, status.st_gid)
    if after is not None:
        _write(f"new/{number}", after, mode, owner)


def _write(name: str, text: str, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
    """A file in the folder (or elsewhere, by its whole path), on the disk, never half of it."""
    data = text.encode("utf-8", "surrogateescape")
    path = os.path.join(FOLDER, name)
    # whoever calls syncs the whole machine
    files.write(path, data, mode=mode, owner=owner, durable=files.Durable.CONTENT, locked=True)
