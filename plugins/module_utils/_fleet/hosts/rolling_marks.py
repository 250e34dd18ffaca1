# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor keeps of rolling work: empty volumes in its pool of notes.

``rolling.STATE.DIGEST.AT``
    ``begun``: rolling work put it into maintenance, and its VMs have not returned yet. ``passed``:
    the tasks with that digest ended there, and it was well afterwards. AT is the time of its own
    clock, in milliseconds since 1970.

They say of their own hypervisor alone, and are no notes in the sense of the folder ``notes``.
"""

from __future__ import annotations

import re
import typing as t

from ..._records import dataclass
from ..base.names import playbook_command

BEGUN, PASSED = "begun", "passed"
DIGEST = 16  # hexadecimal digits
_NAME = re.compile(rf"rolling\.({BEGUN}|{PASSED})\.([0-9a-f]{{{DIGEST}}})\.([0-9]{{1,15}})")


@dataclass(frozen=True)
class RollingMark:
    """One mark; ``state`` is BEGUN or PASSED."""

    state: str
    digest: str
    at: int

    @property
    def volume(self) -> str:
        """The name of its volume."""
        return f"rolling.{self.state}.{self.digest}.{self.at}"


def parse(volume: str) -> RollingMark | None:
    """The mark that a volume of that name is, None if it is none."""
    match = _NAME.fullmatch(volume)
    return RollingMark(match[1], match[2], int(match[3])) if match else None


def is_begun(volumes: t.Iterable[str]) -> bool:
    """Whether the marks among these ``volumes`` say that its VMs have not returned yet."""
    marks = (parse(volume) for volume in volumes)
    return any(mark is not None and mark.state == BEGUN for mark in marks)


def no_start(name: str, host: str, *, new: bool = False) -> str:
    """Why nothing is started on ``host`` now, and what to do. A ``new`` VM is refused by the
    maintenance of its hypervisor too, which nothing overrides."""
    ends = playbook_command("return_vms", virt_host=host or "NAME")
    all_the_same = "" if new else "; -e vm_force=true starts it all the same"
    return (
        f"{name!r} is not started{f' on {host}' if host else ''}: rolling works on this hypervisor"
        " and may reboot it at any moment; wait until that is done. If that run has died and is not"
        f" to go on, {ends} ends it{all_the_same}"
    )
