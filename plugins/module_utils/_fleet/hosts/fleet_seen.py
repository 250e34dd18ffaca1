# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was on each hypervisor when VMs were placed, in a form that is fast to compare later."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ..._records import dataclass, field

_NOT_COUNTED = ("active", "seeded", "disks", "targets", "addresses", "segments", "leftover")


@dataclass(frozen=True)
class SeenHypervisor:
    """A hypervisor when VMs were placed; ``domains`` is a fingerprint, see :func:`domains`.

    ``claims`` are those that it held then, ``lacks`` the notes that it is to get, by volumes.
    """

    name: str
    address: str
    uuid: str
    domains: str
    claims: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)


def domains(entries: t.Iterable[t.Mapping[str, object]], run: str | None = None) -> str:
    """A fingerprint of a hypervisor's domains that changes whenever it matters to placement.

    ``entries`` are ``vms`` of ``placement_facts``; those being created by ``run`` do not count.
    Whether they run is left out: what is defined counts, running or not; and so are their disks
    and whether they have a host key, which matter to themselves only, and their static addresses,
    which a hypervisor that reads another's domains does not read: a new VM counts anyway. Nor does
    it see which are leftovers, which count here too.
    """
    counted = [
        {key: value for key, value in entry.items() if key not in _NOT_COUNTED}
        for entry in entries
        if run is None or entry["run"] != run
    ]
    counted.sort(key=lambda entry: str(entry["uuid"]))
    return hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()
