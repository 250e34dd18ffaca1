# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The QEMU processes of a VM on all hosts of a laboratory, seen from below: by this machine's list
of processes, which neither libvirt nor a host that was cut off can embellish."""

from __future__ import annotations

import os
import re
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_PAUSE = 0.05
_LONGEST = 5.0  # seconds between two looks, in which a QEMU could come and go


def running(lab: Laboratory, uuid: str) -> dict[str, list[int]]:
    """The QEMU processes of the VM by host."""
    mark = f"\0-uuid\0{uuid}\0".encode()
    hosts = re.escape(f"{lab.record.directory}/hosts/".encode())
    root = re.compile(rb"upperdir=" + hosts + rb"([^/]+)/")
    pids: dict[str, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if mark not in Path("/proc", name, "cmdline").read_bytes():
                    continue
                host = root.search(Path("/proc", name, "mountinfo").read_bytes())
            except OSError:  # it has ended
                continue
            if host is not None:
                pids.setdefault(host[1].decode(), []).append(int(name))
    return pids


class Sampler(threading.Thread):
    """Looks for the QEMUs of a VM until it is left, which fails unless there was one at most."""

    def __init__(self, look: Callable[[], dict[str, list[int]]]) -> None:
        super().__init__()
        self.look = look
        self.most = self.samples = 0
        self.longest = 0.0
        self.first: dict[str, float] = {}  # when each host had it first
        self.error: Exception | None = None
        self._over = threading.Event()

    def run(self) -> None:
        last = time.monotonic()
        try:
            while not self._over.wait(_PAUSE):
                pids = self.look()
                now = time.monotonic()
                self.longest, last = max(self.longest, now - last), now
                self.most = max(self.most, sum(map(len, pids.values())))
                self.samples += 1
                for host in pids:
                    self.first.setdefault(host, now)
        except Exception as error:  # a thread that has ended sees nothing
            self.error = error

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        self._over.set()
        self.join()
        looks = f"{self.samples} looks, {self.longest:.2f} s apart at most"
        print(f"    {self.most} QEMU at most in {looks}")
        assert self.most <= 1, f"{self.most} QEMUs at once"
        if kind is None:  # else that is what failed
            assert self.error is None, repr(self.error)
            assert self.most == 1
            assert self.longest < _LONGEST


class Figures:
    """Seconds that something took, by what that is, and the limit that was promised for it."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.beyond: list[str] = []

    def add(self, kind: str, seconds: float, limit: float, what: str) -> None:
        print(f"  {what} after {seconds:.1f} s")
        self.seconds.setdefault(kind, []).append(seconds)
        if seconds > limit:
            self.beyond.append(f"{what} after {seconds:.1f} s: more than {limit:g} s")

    def show(self) -> None:
        for kind, seconds in sorted(self.seconds.items()):
            middle = statistics.median(seconds)
            print(
                f"{kind}: {len(seconds)} times, {min(seconds):.1f} s at least,"
                f" median {middle:.1f} s, {max(seconds):.1f} s at most"
            )
