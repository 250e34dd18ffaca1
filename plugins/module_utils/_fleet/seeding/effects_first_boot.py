# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The outcome of a guest's first boot, recorded while a call waits for it."""

from __future__ import annotations

import dataclasses
import typing as t

from ..base import effects_lookup as lookup
from ..base.effects_connection import Connection
from ..seed import first_boot
from . import effects_medium as seed_medium

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

NOT_KNOWN = (
    "the outcome of its first boot is unknown: {}; check inside the guest (with cloud-init:"
    " cloud-init status --long)"
)
RESTARTS = "its commands restart it"
SAYS_NOTHING = "its console does not mention it"


@dataclasses.dataclass
class FirstBoot:
    """``noted`` is the record in the metadata; ``begun`` and ``errors`` are from the console."""

    noted: str | None = None
    begun: bool = False
    errors: list[str] | None = None

    def see(self, noted: str | None, console: str) -> None:
        """Update the state from the metadata and the console."""
        self.noted = noted
        if noted in (first_boot.PENDING, first_boot.WRITTEN):
            self.begun = first_boot.begun(console)
            self.errors = first_boot.errors(console)

    @property
    def goes_on(self) -> bool:
        """Whether its end will be reported, and has not been yet."""
        written = self.noted == first_boot.WRITTEN
        return (written or (self.noted == first_boot.PENDING and self.begun)) and (
            self.errors is None
        )

    @property
    def failure(self) -> str | None:
        """The failure, if there was one."""
        if self.noted is not None and self.noted.startswith(first_boot.FAILED):
            return self.noted[len(first_boot.FAILED) :]
        return "; ".join(self.errors) if self.errors else None

    @property
    def remark(self) -> str:
        """The message about the first boot of a VM that responds."""
        if self.failure is not None:
            return (
                f"its first boot failed: {self.failure}. The VM is left as it is; recreate it"
                " (virt_purge), or fix it inside and run virt_seed with state absent for it"
            )
        if self.noted == first_boot.UNKNOWN:
            return NOT_KNOWN.format(RESTARTS)
        if self.noted == first_boot.PENDING and not self.begun:
            return NOT_KNOWN.format(SAYS_NOTHING)
        return ""

    def settle(self, connection: Connection, dom: VirDomain) -> None:
        """Record the failure, or that there is nothing more to find out."""
        failure = self.failure
        wanted = None if failure is None else f"{first_boot.FAILED}{failure}"
        if self.noted == wanted:
            return
        stored = lookup.read_metadata(connection, dom)
        if stored is None or stored.phase is not None or stored.first_boot is None:
            return
        active = bool(connection.call(f"read the state of {dom.name()}", dom.isActive))
        stored = dataclasses.replace(stored, first_boot=wanted)
        seed_medium.write(connection, dom, stored, active=active)
