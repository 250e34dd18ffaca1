# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A move whose source is declared lost: what is done on its destination, from what exists there.

No VM is started. One that libvirt has defined there, or that runs there, has arrived complete, with
its disks. If it has not arrived, the copies on the destination may be all that is left, so none
with content is removed: it cannot be determined there how much of a disk it holds.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..base.names import CLAIM

Answer = t.Mapping[str, t.Any]

# What the destination has under the VM's name: nothing; a domain that waits for its memory; one
# that runs and is not defined; one that is defined
ABSENT, COMING, LIVE, DEFINED = "absent", "coming", "live", "defined"

# What is done: nothing, as nothing is left of the move; remove the marks and the claim; define it
# before that; let libvirt end it; remove the claim and what is empty; keep all; nothing, as that
# is another VM, or another run is working on it; nothing, as the source is not lost
NOTHING, FINISH, DEFINE, WAIT, CLEAR, KEEP, OTHER, ALIVE = (
    *("nothing", "finish", "define", "wait", "clear", "keep", "other", "alive"),
)


@dataclass(frozen=True)
class LostMoveFacts:
    """What the destination has of a VM and of its move.

    ``marks``: its definition says that it is in this move; ``phase``: it is in any move;
    ``claim``: the claim of this move exists; ``same``: and it is for the domain with the VM's name;
    ``job``: libvirt is working on it, or part of its memory is still at the source; ``written``: a
    volume that was created for the move has content; ``answers``: the source responds.
    """

    place: str = ABSENT
    marks: bool = False
    phase: bool = False
    claim: bool = False
    same: bool = False
    job: bool = False
    written: bool = False
    answers: bool = False


def action(seen: LostMoveFacts) -> str:
    """What has to be done."""
    if not seen.marks and not seen.claim:
        return NOTHING
    if seen.answers:
        return ALIVE
    if seen.place == ABSENT:
        return KEEP if seen.written else CLEAR
    # an interrupted run leaves the claim of a VM whose marks are gone, or never were here
    if not seen.marks and (not seen.same or seen.phase):
        return OTHER
    if seen.place == COMING or seen.job:
        return WAIT
    return DEFINE if seen.place == LIVE else FINISH


def elsewhere(name: str, ends: tuple[str, str], answers: t.Mapping[str, Answer]) -> str | None:
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
        f" {source}, which is declared lost, left: find out which is right, and remove the other"
        f" (on {where}: virsh undefine {name + CLAIM}, and the volumes in its metadata)"
    )


def alive(name: str, source: str, answered: str) -> str:
    """The text for a source that is not lost."""
    return (
        f"{source} is declared lost (virt_hypervisors_lost), but {answered} accepts connections, so"
        f" {name!r} may still be there and nothing was done. Leave it out of virt_hypervisors_lost,"
        " or switch it off; if another machine has that address by now, remove it from the"
        f" variables of {source} in the inventory"
    )


def waits(name: str, source: str, where: str, *, comes: bool) -> str:
    """The text for a VM that libvirt is working on; ``comes``: it waits for its memory."""
    if not comes:
        return (
            f"libvirt on {where} is still working on {name!r} (virsh domjobinfo {name}), so nothing"
            " was done. Run this again when that has ended; if it is a post-copy migration, what"
            f" was still on {source} will not arrive, and the VM cannot continue"
        )
    return (
        f"libvirt on {where} still waits for the rest of {name!r}, which {source} can no longer"
        " send. It gives up by itself about half a minute after the connection broke; nothing was"
        f" started or stopped. Run this again then. If libvirt does not give up, end it on {where}"
        f" (virsh destroy {name})"
    )


def other(name: str, source: str, where: str) -> str:
    """The text for one that is not the moved VM, or that another run is working on."""
    return (
        f"{name!r} on {where} is not the VM whose move from {source} is unfinished, or another run"
        f" is working on it; nothing was done. If {name!r} is as it should be, remove what is left"
        f" of that move on {where}: virsh undefine {name + CLAIM}, and the volumes in its metadata"
        " that no VM uses"
    )


def gone(
    name: str, source: str, where: str, kept: t.Sequence[tuple[str, int]], *, check: bool
) -> str:
    """The text for a VM that was lost with its hypervisor; ``kept`` are copies with content, and
    their bytes."""
    text = f"it had not arrived on {where}, so it is lost with {source}. "
    if kept:
        files = ", ".join(f"{path} ({size >> 20} MiB)" for path, size in kept)
        paths = " ".join(path for path, _size in kept)
        text += (
            f"What had been copied of its disks stays on {where} and is not started, as it is"
            f" unknown whether it is complete: {files}. "
        )
    else:
        done = "would be removed" if check else "was removed"
        text += f"Nothing had been copied of its disks; its claim on {where} {done}. "
    text += (
        f"Restore it from a backup, or from the disks of {source} if they can still be read; a disk"
        " on storage that both hypervisors share was not copied, and is untouched"
    )
    if kept:
        text += (
            f". Once the copies are no longer needed, remove them on {where}: virsh undefine"
            f" {name + CLAIM}; virsh vol-delete for each of {paths}"
        )
    return text


def remains(name: str, source: str, paths: t.Sequence[str]) -> str:
    """The text for what a VM that has arrived left behind."""
    disks = f" and disks ({', '.join(paths)})" if paths else ""
    return (
        f"{source}, which is declared lost, may still have its old definition{disks}. It does not"
        f" start by itself; if {source} comes back, do not start it there, and remove it there"
        f" (virsh undefine {name} --keep-nvram)"
    )
