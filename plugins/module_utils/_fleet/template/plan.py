# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copy a VM's disks as base images: reasons to refuse, and the steps.

Nothing of the VM is written, so no lease is taken on it: QEMU's own locks keep a VM that is shut
off from being started while its disks are read, and libvirt's job keeps a running one from being
moved. They end with the process that holds them. A file being written has a name that identifies
it, so that the next run finds what an interrupted one left: files, and a backup job into such a
file.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._records import dataclass
from ..base.names import INSTALL_GUEST_TOOLS
from ..engine import leases
from ..engine.leases import Holder
from ..engine.steps import Action, Effect, Plan, Step

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class TemplateDisk:
    """A disk of the VM; ``path`` is None if it is not a file or device of the hypervisor."""

    target: str
    path: str | None
    format: str | None
    readonly: bool = False
    shareable: bool = False
    size: int = 0  # bytes
    secret: str | None = None  # it is encrypted with
    data: str | None = None  # the file of its data, if that is another


@dataclass(frozen=True)
class TemplateFacts:
    """The VM and what exists of its copies.

    ``broken`` is why its metadata cannot be used. ``disks`` are those to be copied. ``present`` are
    the names of existing images. ``left`` are files of interrupted runs, ``dead_backup`` is a job
    of such a run on this VM; ``job`` is any other job. ``resettable``: the hypervisor has what
    resetting an identity needs.
    """

    name: str
    state: str = "shutoff"
    active: bool = False
    phase: str | None = None
    broken: str | None = None
    holder: Holder | None = None  # of the lease, if it is alive
    disks: tuple[TemplateDisk, ...] = ()
    targets: tuple[str, ...] = ()
    present: frozenset[str] = frozenset()
    left: tuple[str, ...] = ()
    dead_backup: bool = False
    job: str | None = None
    resettable: bool = True
    agent: bool = False


@dataclass(frozen=True)
class TemplateRequest:
    """``images`` are names by target; ``quiesce`` is auto, always or never."""

    images: t.Mapping[str, str]
    reset: bool = True
    quiesce: str = "auto"
    disk: str | None = None


class Abort(Action):
    """End the backup job that an interrupted run left."""


@dataclass(frozen=True)
class Remove(Action):
    """Remove a file that an interrupted run left."""

    name: str


class Copy(Action):
    """Copy the disks into new files."""


class Reset(Action):
    """Remove the identity of the guest from the copy."""


@dataclass(frozen=True)
class Publish(Action):
    """Make the copy of a disk a base image."""

    target: str


def image_problem(image: str) -> str | None:
    """What is wrong with the name of an image, if anything."""
    if _NAME.fullmatch(image):
        return None
    return (
        f"image: {image!r} is not the name of a base image; write at most 100 letters, digits and"
        " ._- that begin with a letter or digit, for example web1-golden"
    )


def image_names(image: str, disks: t.Sequence[TemplateDisk]) -> dict[str, str]:
    """The name of each disk's image: that of the first is the requested one."""
    return {
        disk.target: image if number == 0 else f"{image}-{disk.target}"
        for number, disk in enumerate(disks)
    }


def plan(facts: TemplateFacts, wanted: TemplateRequest) -> Plan[TemplateFacts]:
    """The steps from whatever exists to the images."""
    steps: list[Step[TemplateFacts]] = []
    if wanted.images and set(wanted.images.values()) <= facts.present:
        return Plan()
    refusals = _refusals(facts, wanted)
    if refusals:
        return Plan(refusals=tuple(refusals))
    if facts.dead_backup:
        text = f"end the backup job that an interrupted run left on {facts.name}"
        steps.append(Step(Abort(), text, _aborted))
    steps += [
        Step(Remove(name), f"remove {name}, left by an interrupted run", _removed(name))
        for name in facts.left
    ]
    targets = ", ".join(wanted.images)
    torn: tuple[Effect[TemplateFacts], ...] = (_written,)
    if facts.active:
        torn = (*torn, _begun)
    joined = [f"{disk.target}, whose data are in {disk.data}" for disk in facts.disks if disk.data]
    whole = f" (in one file: {'; '.join(joined)})" if joined else ""
    steps.append(Step(Copy(), f"copy {targets} of {facts.name}{whole}", _written, torn))
    if wanted.reset:
        steps.append(Step(Reset(), "reset the identity in the copy", _same))
    steps += [
        Step(Publish(target), f"make base image {image}", _published(image))
        for target, image in wanted.images.items()
    ]
    return Plan(tuple(steps))


# A file of an interrupted run, as the next one finds it
UNFINISHED = ".fleet-virt-unfinished"


def _same(before: TemplateFacts) -> TemplateFacts:
    return before


def _aborted(before: TemplateFacts) -> TemplateFacts:
    return dataclasses.replace(before, dead_backup=False)


def _written(before: TemplateFacts) -> TemplateFacts:
    return dataclasses.replace(before, left=(UNFINISHED,))


def _begun(before: TemplateFacts) -> TemplateFacts:
    return dataclasses.replace(before, left=(UNFINISHED,), dead_backup=True)


def _removed(name: str) -> Effect[TemplateFacts]:
    def effect(before: TemplateFacts) -> TemplateFacts:
        return dataclasses.replace(before, left=tuple(one for one in before.left if one != name))

    return effect


def _published(image: str) -> Effect[TemplateFacts]:
    def effect(before: TemplateFacts) -> TemplateFacts:
        return dataclasses.replace(before, present=before.present | {image}, left=())

    return effect


def _refusals(facts: TemplateFacts, wanted: TemplateRequest) -> list[str]:
    name = facts.name
    problems = []
    if wanted.disk is not None and wanted.disk not in facts.targets:
        targets = ", ".join(facts.targets) or "none"
        problems.append(f"disk: {name!r} has no disk {wanted.disk!r}; it has: {targets}")
    elif not facts.disks:
        problems.append(f"{name!r} has no disk that can be copied")
    if facts.broken:
        problems.append(facts.broken)
    elif facts.phase is not None:
        before = ", before the VM is copied"
        problems.append(leases.in_phase(name, facts.phase, facts.holder, before))
    if facts.job is not None:
        problems.append(f"{name!r} has a libvirt job running ({facts.job}); let it end first")
    for disk in facts.disks:
        if disk.path is None:
            problems.append(
                f"disk {disk.target} of {name!r} is neither a file nor a device of its hypervisor"
                " and cannot be copied; copy a VM without it"
            )
        elif disk.secret is not None:
            problems.append(
                f"disk {disk.target} of {name!r} is encrypted with the secret {disk.secret!r} and"
                " cannot be copied; copy a VM without it"
            )
        elif disk.format not in ("qcow2", "raw"):
            problems.append(
                f"disk {disk.target} of {name!r} is {disk.format}; only qcow2 and raw are copied:"
                " convert it first (qemu-img convert)"
            )
        elif disk.shareable:
            problems.append(
                f"disk {disk.target} of {name!r} is shared with other VMs, which may write to it"
                " meanwhile; copy it with the software that shares it"
            )
    if wanted.quiesce == "always" and facts.active and not facts.agent:
        problems.append(
            f"quiesce: the guest agent of {name!r} is not connected, so its file systems cannot be"
            " frozen; install qemu-guest-agent in it, shut it down first, or leave quiesce at auto"
        )
    if wanted.reset and not facts.resettable:
        problems.append(
            "resetting the identity (machine id, SSH host keys, what cloud-init has stored) needs"
            " libguestfs with its Python binding on the hypervisor; install it"
            f" ({INSTALL_GUEST_TOOLS}; or the package python3-guestfs, python3-libguestfs on other"
            " systems than Debian and Ubuntu), or keep the identity with identity: keep (-e"
            " virt_identity=keep)"
        )
    return problems
