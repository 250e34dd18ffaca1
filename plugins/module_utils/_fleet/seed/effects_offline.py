# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seeding offline: the seed is written into the VM's own disk before its first boot."""

from __future__ import annotations

import typing as t

from ..._errors import DeadlineExceeded, PlanRefused
from ..base import effects_deadline as deadline
from ..storage import effects_storage as storage
from . import effects_guest_disk as guest_disk
from . import effects_nocloud as seed_nocloud
from . import guest_files
from .types import Seed, SeededNic

if t.TYPE_CHECKING:
    from .guest_image import Found, Seeded

_SECONDS = 900.0  # half a minute without KVM; the first time the appliance is built as well
_NO_LIBGUESTFS = (
    "libguestfs is not installed on the hypervisor, so the image was not checked for cloud-init"
)


class Chosen(t.NamedTuple):
    """How a VM was seeded: method, reason, host key (None: not yet), features of its image."""

    method: str
    reason: str
    host_key: str | None
    image: Found | None

    def shown(self) -> Seeded:
        """The choice as shown in a result."""
        return {"method": self.method, "reason": self.reason, "found": self.image}


def seed_disks(
    seed: Seed, name: str, uuid: str, nics: t.Sequence[SeededNic], disks: guest_disk.Disks
) -> Chosen:
    """Write the seed into the guest on these disks, with a host key generated for it alone.

    With method auto, nothing is written if the image has cloud-init or cannot be inspected: the
    caller then creates a medium. Raises PlanRefused; unless it says so, nothing was written then.
    """
    if seed.method == "auto" and not guest_disk.available():
        return Chosen("nocloud", _NO_LIBGUESTFS, None, None)
    if not disks:
        raise PlanRefused("the VM has no file-based disk that a seed could be written to")

    def work() -> Chosen:
        with guest_disk.opened(disks) as guest:
            chosen = _choose(seed, guest)
            if chosen.method == "nocloud":
                return chosen
            key = seed_nocloud.new_host_key(name, uuid)
            plan = guest_files.plan(seed, name, nics, key, guest.image, guest.read, guest.look)
            guest.write(plan)
        for path, _kind in disks:
            storage.flush(path)
        return chosen._replace(host_key=key.public)

    try:
        return deadline.call(work, seconds=_SECONDS, what=f"write the seed into {name}")
    except DeadlineExceeded as error:
        raise guest_disk.IncompleteWrite(f"{error}; how much was written is unknown") from None


def look(seed: Seed, disks: guest_disk.Disks) -> Chosen:
    """How the guest on these disks would be seeded; nothing is written."""
    if seed.method == "auto" and not guest_disk.available():
        return Chosen("nocloud", _NO_LIBGUESTFS, None, None)

    def work() -> Chosen:
        if not disks:
            raise PlanRefused("the VM has no file-based disk that could be inspected")
        with guest_disk.opened(disks, readonly=True) as guest:
            return _choose(seed, guest)

    return deadline.call(work, seconds=_SECONDS, what="inspect the VM's disk")


def _choose(seed: Seed, guest: guest_disk.MountedGuest) -> Chosen:
    image = guest.image.shown()
    if seed.method == "auto" and guest.image.cloud_init:
        return Chosen("nocloud", "the image has cloud-init", None, image)
    reason = "as set" if seed.method == "offline" else "the image has no cloud-init"
    return Chosen("offline", reason, None, image)
