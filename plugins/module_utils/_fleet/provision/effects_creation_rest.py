# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: removing what was created of a VM that is given up, and nothing else."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..base.metadata import Metadata
from ..storage import effects_own_files as owned
from ..storage import read_file_users as ownership
from ..storage.read_file_users import References
from .effects_batch import Host
from .plan_creation import half_made

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain


def undo(host: Host, dom: VirDomain, stored: Metadata, paths: t.Collection[str]) -> None:
    """Remove the volumes at ``paths``, which this call has just created for the claim ``dom``."""
    references = ownership.read(host.connection)
    uuid = str(dom.UUIDString())
    stay = [
        owned.remove(host.connection, one, uuid, references, asked=True)
        for one in reversed(stored.volumes)
        if one.path in paths
    ]
    if any(stay):
        raise PlanRefused(f"volumes created for it remain: {'; '.join(_texts(stay))}")


def remove(host: Host, dom: VirDomain, stored: Metadata) -> None:
    """Remove the volumes that a dead run created for its claim ``dom``.

    Raises PlanRefused, with nothing removed, unless every file of their names may be removed: there
    would be no record of the rest.
    """
    references = ownership.read(host.connection)
    stay, verified_unused = _look(host, dom, stored, references)
    uuid = str(dom.UUIDString())
    if not any(stay):
        stay = [
            owned.remove(host.connection, one, uuid, references, asked=verified_unused)
            for one in reversed(stored.volumes)
        ]
    if any(stay):
        raise PlanRefused(half_made(str(dom.name()), _texts(stay)))


def stays(host: Host, dom: VirDomain, stored: Metadata) -> tuple[str, ...]:
    """Why :func:`remove` would remove nothing; changes nothing."""
    return _texts(_look(host, dom, stored, ownership.read(host.connection))[0])


def _look(
    host: Host, dom: VirDomain, stored: Metadata, references: References
) -> tuple[list[owned.Stays | None], bool]:
    """Which must stay, and whether no other hypervisor on the same storage uses them."""
    shared = [
        one.name
        for one in stored.volumes
        if one.pool in references.pools and references.pools[one.pool].shared
    ]
    verified_unused = bool(shared) and _is_unused(host, shared)
    uuid = str(dom.UUIDString())
    return [
        owned.why_stays(one, uuid, references, asked=verified_unused) for one in stored.volumes
    ], verified_unused


def _is_unused(host: Host, files: t.Collection[str]) -> bool:
    from . import read_others as others  # few pools are shared

    return others.unused(host.settings.seen, host.settings.home, files)


def _texts(stay: t.Sequence[owned.Stays | None]) -> tuple[str, ...]:
    return tuple(str(one) for one in stay if one is not None)
