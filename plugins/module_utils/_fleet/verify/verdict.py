# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said of a backup from what was seen of it: proven, read back, failed, or nothing.

Nothing is said of the backup where the hypervisor, the place or the run is what failed.
"""

from __future__ import annotations

import re

from ..._records import dataclass
from ..backup import archives

# A console's login prompt: getty's, also where it logs in by itself
_LOGIN = re.compile(r"(?:^|[\w.-]+ )login:(?: *$| \w+ \(automatic login\))")
_PANIC = ("Kernel panic", "kernel panic", "No bootable device", "not a bootable disk")
_MOST = 900  # characters; more is no comment of an archive
_LINE = 120

# Why the guest stopped before it answered; ENDED: not by itself, but its QEMU was killed or failed
CRASHED, SHUT_OFF, READ_ERROR, ENDED = "crashed", "shut off", "read error", "ended"
_SHUTTING_DOWN = re.compile(r"shutting down, reason=([a-z-]+)")  # libvirt, in its log of a domain


@dataclass(frozen=True)
class Evidence:
    """What was seen of a backup on a hypervisor.

    ``read``: every byte was read and has its digest; ``damage`` says which have not.
    ``not_started``: why it could not be started there, empty if it was. ``agent`` is what its agent
    said it is, ``login``: its console asks for a login. ``stopped`` is how it ended before it
    answered, ``printed`` the last line of its consoles. ``expected``: it has answered before, or
    did so when it was saved. ``screen``: there is a picture of it.
    """

    read: bool = False
    damage: str = ""
    not_started: str = ""
    agent: str = ""
    login: bool = False
    stopped: str = ""
    printed: str = ""
    expected: bool = False
    screen: bool = False
    seconds: int = 0
    limit: int = 0


@dataclass(frozen=True)
class Verdict:
    """What is said of it (one of ``archives.PROOFS``, empty if nothing can be), and how it is
    known."""

    proof: str
    how: str


def is_login(line: str) -> bool:
    """Whether a line of a console asks for a login."""
    return _LOGIN.search(line.rstrip()) is not None


def stopped(log: str) -> str:
    """How a VM ended that is gone, by libvirt's log of it: whether its guest shut itself off."""
    reasons = _SHUTTING_DOWN.findall(log)
    return SHUT_OFF if reasons[-1:] == ["shutdown"] else ENDED


def answered(seen: Evidence) -> bool:
    """Whether the guest has booted: its agent or its console answered."""
    return bool(seen.agent) or seen.login


def must_be_read(seen: Evidence) -> bool:
    """Whether only reading it all tells something, since booting it did not."""
    if seen.read or seen.damage or answered(seen):
        return False
    return bool(seen.not_started) or seen.stopped == READ_ERROR or not _can_be_asked(seen)


def _can_be_asked(seen: Evidence) -> bool:
    """Whether silence says something: it printed, stopped, or is known to answer."""
    return seen.expected or bool(seen.printed) or bool(seen.stopped)


def judge(seen: Evidence) -> Verdict:
    """What is said of the backup."""
    read = "; every byte was read back" if seen.read else ""
    if seen.damage:
        return _verdict(archives.FAILED, f"damaged: {seen.damage}")
    if answered(seen):
        words = [f"agent: {seen.agent}"] if seen.agent else []
        words += ["console: login prompt"] if seen.login else []
        words += ["screenshot"] if seen.screen else []
        return _verdict(archives.BOOTED, f"{', '.join(words)} after {seen.seconds} s{read}")
    if seen.not_started:
        return _unbooted(seen, f"cannot boot here: {seen.not_started}")
    if seen.stopped == READ_ERROR:
        return Verdict(
            "", "the guest's disk could not be read, and yet all of it has its digest; try again"
        )
    if seen.stopped == ENDED:
        return Verdict(
            "", "its QEMU did not end by its guest, so nothing is known of it; try again"
        )
    if seen.stopped == CRASHED or any(words in seen.printed for words in _PANIC):
        return _verdict(archives.FAILED, f"does not boot: it crashed{_last(seen)}{read}")
    if seen.stopped == SHUT_OFF:
        return _verdict(archives.FAILED, f"does not boot: it shut itself off{_last(seen)}{read}")
    if _can_be_asked(seen):
        return _verdict(
            archives.FAILED,
            f"does not boot: nothing in it answered within {seen.limit} s{_last(seen)}{read}",
        )
    return _unbooted(
        seen,
        f"whether it boots cannot be asked: no agent answered within {seen.limit} s, and nothing"
        " was printed on a serial console",
    )


def _unbooted(seen: Evidence, why: str) -> Verdict:
    if seen.read:
        return _verdict(archives.READ_BACK, why)
    return Verdict("", f"{why}; and it was not read")


def _last(seen: Evidence) -> str:
    return f", its console's last line: {seen.printed[:_LINE]}" if seen.printed else ""


def _verdict(proof: str, how: str) -> Verdict:
    return Verdict(proof, "".join(filter(str.isprintable, " ".join(how.split())))[:_MOST])
