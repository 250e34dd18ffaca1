# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: whether the fleet is unchanged since they were placed.

If it is, claims aside, placement has seen all that could conflict with the claims, and the
controller need not check again. The hypervisor with the claims reads the others itself, over
libvirt's verified TLS, as a migration does.
"""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError
from ..base import effects_deadline as deadline
from ..base.effects_connection import connect
from ..hosts import fleet_seen, host_info
from ..hosts import read_placement_facts as placement_facts
from ..images.options import peer_uris

if t.TYPE_CHECKING:
    from ..base.snapshot import PlacementEntry
    from ..hosts.fleet_seen import SeenHypervisor

# Slower ones are left to the controller
_CALL_SECONDS = 2.0
_HOST_SECONDS = 5.0
_PARALLEL = 64


def unchanged(seen: t.Sequence[SeenHypervisor], home: str, facts: PlacementEntry, run: str) -> bool:
    """Whether every hypervisor of ``seen`` responds and has the same domains as then.

    To be called once the claims of ``run`` exist; ``facts`` are those of this hypervisor, ``home``,
    read with the claims. Also False if a hypervisor cannot be read, or not quickly.
    """
    here = [host for host in seen if host.name == home]
    others = [host for host in seen if host.name != home]
    own = fleet_seen.domains(facts["vms"], run)
    if len(here) != 1 or (here[0].uuid, here[0].domains) != (facts["uuid"], own):
        return False
    differing: list[str] = []

    def look(host: SeenHypervisor) -> None:
        if not differing and not _same(host):
            differing.append(host.name)

    outcomes = deadline.each(
        look,
        others,
        seconds=_HOST_SECONDS,
        what=lambda host: f"read {host.name}",
        parallel=_PARALLEL,
        patience=1,
    )
    return not differing and not any(isinstance(outcome, deadline.Failed) for outcome in outcomes)


def _same(host: SeenHypervisor) -> bool:
    """Whether the hypervisor at that address is the expected one and has the same domains."""
    try:
        (uri,) = peer_uris([host.address]).values()
        with connect(uri, _CALL_SECONDS) as far:
            text = far.call("read capabilities", far.conn.getCapabilities)
            if host_info.capabilities(text)["uuid"] != host.uuid:
                return False
            return fleet_seen.domains(placement_facts.defined(far)) == host.domains
    except FleetVirtError:
        return False
