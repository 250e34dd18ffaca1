# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A move whose source is declared lost: what is done on its destination, from what is there.

No VM is started. One that libvirt has defined there, or that runs there, has arrived whole, with
its disks. Of one that has not arrived, the copies on the destination may be all that is left, so
none that holds anything is removed: how much of a disk it holds cannot be told from there.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.names import CLAIM

# What the destination has under the VM's name: nothing; one that waits for its memory; one that
# runs and is not defined; one that is defined
ABSENT, COMING, LIVE, DEFINED = "absent", "coming", "live", "defined"

# What is done: nothing, as nothing is left of the move; the marks and the claim go; it is defined
# before that; libvirt is left to end it; the claim goes with what is empty; all stays; nothing, for
# that is another VM, or one that another run is at work on; nothing, for the source is not lost
NOTHING, FINISH, DEFINE, WAIT, CLEAR, KEEP, OTHER, ALIVE = (
    *("nothing", "finish", "define", "wait", "clear", "keep", "other", "alive"),
)


@dataclass(frozen=True)
class Seen:
    """What the destination has of a VM and of its move.

    ``marks``: its definition says that it is in this very move; ``phase``: it is in any;
    ``claim``: the place of this move is kept; ``same``: and it is kept for what has the VM's name;
    ``job``: libvirt is at work on it, or its memory is still partly at the source; ``written``: a
    volume that was made for the move holds something; ``answers``: the source does.
    """

    place: str = ABSENT
    marks: bool = False
    phase: bool = False
    claim: bool = False
    same: bool = False
    job: bool = False
    written: bool = False
    answers: bool = False


def action(seen: Seen) -> str:
    """What is to be done."""
    if not seen.marks and not seen.claim:
        return NOTHING
    if seen.answers:
        return ALIVE
    if seen.place == ABSENT:
        return KEEP if seen.written else CLEAR
    # a run that ended too early leaves the claim of a VM whose marks are gone, or never were here
    if not seen.marks and (not seen.same or seen.phase):
        return OTHER
    if seen.place == COMING or seen.job:
        return WAIT
    return DEFINE if seen.place == LIVE else FINISH


def elsewhere(
    name: str, ends: tuple[str, str], answers: t.Mapping[str, t.Mapping[str, t.Any]]
) -> str | None:
    """Why the move of the VM is not settled: a third hypervisor has a VM of its name."""
    source, where = ends
    others = [
        host
        for host, answer in answers.items()
        if host != where and any(vm["name"] == name for vm in answer["host"].get("vms") or ())
    ]
    if not others:
        return None
    return (
        f"{name!r} is on {', '.join(others)}, and {where} still has what its unfinished move from"
        f" {source} left, which is declared lost: see which of them is right, and remove the other"
        f" (on {where}: virsh undefine {name + CLAIM}, and the volumes that its metadata name)"
    )


def alive(name: str, source: str, answered: str) -> str:
    """Of a source that is not lost."""
    return (
        f"{source} is declared lost (virt_hypervisors_lost), but {answered} accepts connections, so"
        f" {name!r} may still be there and nothing was done. Leave it out of virt_hypervisors_lost,"
        " or switch it off; if another machine has that address by now, take it from the variables"
        f" of {source} in the inventory"
    )


def waits(name: str, source: str, where: str, *, comes: bool) -> str:
    """Of one that libvirt is at work on; ``comes``: it waits for its memory."""
    if not comes:
        return (
            f"libvirt on {where} is still at work on {name!r} (virsh domjobinfo {name}), so nothing"
            " was done. Run this again when that has ended; if it is a move of post-copy, what was"
            f" still on {source} does not come any more, and the VM cannot go on"
        )
    return (
        f"libvirt on {where} still waits for the rest of {name!r}, which {source} cannot send any"
        " more. It gives up by itself, about half a minute after the connection broke; nothing was"
        f" started or ended. Run this again then. If libvirt does not give up, end it on {where}"
        f" (virsh destroy {name})"
    )


def other(name: str, source: str, where: str) -> str:
    """Of one that is not the VM that was moved, or that something else is done with."""
    return (
        f"what {where} has as {name!r} is not the VM whose move from {source} is unfinished, or"
        f" another run is at work on it; nothing was done. If {name!r} is as it should be, remove"
        f" what is left of that move on {where}: virsh undefine {name + CLAIM}, and the volumes"
        " that its metadata name and no VM uses"
    )


def gone(
    name: str, source: str, where: str, kept: t.Sequence[tuple[str, int]], *, check: bool
) -> str:
    """Of one that was lost with its hypervisor; ``kept`` are copies that hold something, with
    their bytes."""
    text = f"it had not arrived on {where}, so it is lost with {source}. "
    if kept:
        files = ", ".join(f"{path} ({size >> 20} MiB)" for path, size in kept)
        paths = " ".join(path for path, _size in kept)
        text += (
            f"What had been copied of its disks by then stays on {where} and is not started, as"
            f" nobody knows whether it is whole: {files}. "
        )
    else:
        done = "would be removed" if check else "was removed"
        text += f"Nothing had been copied of its disks; the place kept for it on {where} {done}. "
    text += (
        f"Restore it from a backup, or from the disks of {source} if they can still be read; a disk"
        " on storage that both hypervisors have was not copied, and is untouched"
    )
    if kept:
        text += (
            f". Once the copies are of no use any more, remove them on {where}: virsh undefine"
            f" {name + CLAIM}; virsh vol-delete for each of {paths}"
        )
    return text


def remains(name: str, source: str, paths: t.Sequence[str]) -> str:
    """Of what a VM that has arrived left behind."""
    disks = f" and disks ({', '.join(paths)})" if paths else ""
    return (
        f"{source}, which is declared lost, may still have its old definition{disks}. Nothing"
        f" starts that by itself; should {source} come back, do not start it there, and remove it"
        f" there (virsh undefine {name} --keep-nvram)"
    )
