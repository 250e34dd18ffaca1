# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a change reached its aim: what libvirt has afterwards, compared as in the next run.

libvirt may accept a definition and keep another value. What it rounds or leaves out is in the rows
of the settings (``same``, ``absent``), so that the comparison of any run knows it.
"""

from __future__ import annotations

import typing as t

from . import effects_changing as changing
from .plan import plan

if t.TYPE_CHECKING:
    from .effects_batch import Host
    from .plan import Changed


def missed(host: Host, change: changing.VmChange) -> tuple[Changed, ...]:
    """The settings that differ although every step was carried out."""
    facts = changing.reread(host, change)
    return plan(facts, change.wanted, change.volumes).changes


def message(name: str, missing: t.Sequence[Changed]) -> str:
    """What was requested, and what there is."""
    lines = [f"{one.path}: requested {one.asked}, is {one.real}" for one in missing]
    return (
        f"libvirt accepted the changes of {name!r} but did not keep all of them:"
        f" {'; '.join(lines)}. Look at it with virsh dumpxml {name}, and request what libvirt keeps"
    )
