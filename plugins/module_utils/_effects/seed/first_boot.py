# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is noted of a guest's first boot while somebody waits for it.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..._pure.seed import first_boot
from ..base import lookup
from ..base.connection import Connection
from . import medium as seed_medium

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

NOT_KNOWN = (
    "how its first boot ended is not known: {}; ask the guest, with cloud-init with"
    " cloud-init status --long"
)
RESTARTS = "its commands restart it"
SAYS_NOTHING = "its console says nothing of it"


@dataclasses.dataclass
class FirstBoot:
    """``noted`` in the metadata; ``begun`` and ``errors`` as the console has them."""

    noted: str | None = None
    begun: bool = False
    errors: list[str] | None = None

    def see(self, noted: str | None, console: str) -> None:
        """What is there now."""
        self.noted = noted
        if noted in (first_boot.PENDING, first_boot.WRITTEN):
            self.begun = first_boot.begun(console)
            self.errors = first_boot.errors(console)

    @property
    def goes_on(self) -> bool:
        """Whether its end will be told, and has not been yet."""
        written = self.noted == first_boot.WRITTEN
        return (written or (self.noted == first_boot.PENDING and self.begun)) and (
            self.errors is None
        )

    @property
    def failure(self) -> str | None:
        """What failed in it."""
        if self.noted is not None and self.noted.startswith(first_boot.FAILED):
            return self.noted[len(first_boot.FAILED) :]
        return "; ".join(self.errors) if self.errors else None

    @property
    def remark(self) -> str:
        """What is to be said of one that answers."""
        if self.failure is not None:
            return (
                f"its first boot failed: {self.failure}. The VM is left as it is; make it anew"
                " (virt_purge), or mend it inside and run virt_seed with state absent for it"
            )
        if self.noted == first_boot.UNKNOWN:
            return NOT_KNOWN.format(RESTARTS)
        if self.noted == first_boot.PENDING and not self.begun:
            return NOT_KNOWN.format(SAYS_NOTHING)
        return ""

    def settle(self, connection: Connection, dom: VirDomain) -> None:
        """Note what failed, or that nothing is left to be known."""
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
