# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs of a batch that need no change: complete ones, compared with what is requested of them."""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..._errors import FleetVirtError
from ..base import metadata
from ..base.effects_lookup import find_domain
from ..engine import effects_verb as verb
from ..spec.difference_devices import added_macs
from ..spec.options import many
from . import effects_changing as changing
from .effects_batch import BatchSettings, Host, defaults_of

if t.TYPE_CHECKING:
    from ..base.effects_connection import Connection
    from . import effects as init
    from .facts import MadeVm


def read(
    connection: Connection, params: init.ProvisionOptions, home: str, asked: list[dict[str, object]]
) -> tuple[list[MadeVm], dict[str, list[str]]]:
    """The results of those of ``asked`` that need no change, and the MAC addresses that others
    get, by name."""
    domains, problems = many(asked, defaults=defaults_of(params))
    if problems:
        return [], {}  # the controller reports them
    host = Host(connection, BatchSettings("", home, {}, params["base_pool"]))
    jobs: list[changing.ChangeJob] = []
    added: dict[str, list[str]] = {}
    for domain in domains:
        try:
            dom = find_domain(connection, domain.name)
            if dom is None:
                continue
            text = changing.read_inactive(connection, dom, domain.name)
            root = _lxml.parse(text, f"domain {domain.name}")
            stored = metadata.parse(root)
            if stored is None or stored.request is None:
                continue
            macs = added_macs(domain, root, stored)
            if macs:
                added[domain.name] = macs
            if stored.phase is not None or macs:
                continue
            if any(disk.image is not None and disk.device != "disk" for disk in domain.disks):
                continue  # comparing the medium in a drive needs the image's identity
            job = changing.look(host, dom, stored, domain, text)
        except FleetVirtError:
            continue
        if not (job.has_work or job.plan.refusals or job.power.refusals):
            job.waits = job.waiting()
            jobs.append(job)
    return t.cast("list[MadeVm]", verb.result(jobs)["vms"]), added
