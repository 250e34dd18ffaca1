# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of an image wherever its file is: on the controller, a hypervisor, or a server."""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..._units import MIB
from ..base.results import GENERATED
from ..storage.base_name import Digest


class KnownImage(t.TypedDict):
    """An image, as tasks hand it on."""

    name: str
    digest: str
    format: str
    virtual_bytes: int


@dataclass(frozen=True)
class ImageFacts:
    """An image by its content: format, virtual size in bytes, and its name.

    ``digest`` is None as long as the whole content was not read; ``pending`` if that is yet to be
    made, as check mode says of what a run would create.
    """

    name: str
    digest: Digest | None
    format: str
    virtual_bytes: int
    pending: bool = False

    @classmethod
    def of(cls, known: KnownImage) -> ImageFacts:
        """What :meth:`as_dict` made."""
        digest = known["digest"]
        return cls(
            known["name"],
            Digest.parse(digest),
            known["format"],
            known["virtual_bytes"],
            digest == GENERATED,
        )

    def as_dict(self) -> KnownImage:
        """For the tasks after this one."""
        return {
            "name": self.name,
            "digest": self.identity,
            "format": self.format,
            "virtual_bytes": self.virtual_bytes,
        }

    @property
    def identity(self) -> str:
        """The digest as text: empty if unknown, and a word for one that is yet to be made."""
        return str(self.digest or (GENERATED if self.pending else ""))

    @property
    def virtual_mib(self) -> int:
        """The virtual size, rounded up."""
        return -(-self.virtual_bytes // MIB)
