# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: the definition, as a claim and final."""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..._libvirt import DOMAIN_DEFINE_VALIDATE
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import metadata, unstartable
from ..base.metadata import NOT_MADE, YES, ImageRef, Metadata, Owner, OwnVolume
from ..seed import first_boot
from ..spec import domain_xml, leftovers, request
from ..spec.devices_xml import VolumeRef
from ..spec.settings import VM
from ..spec.settings_sources import DRIVES
from . import read_schema as schema
from .effects_batch import Draft, Host

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..spec.domain import Domain

_LOG_FOLDER = "/var/log/libvirt/qemu"
_MARKER = ".fleet-virt-creating"
AFFECT_LIVE = lookup.AFFECT_LIVE
AFFECT_CONFIG = lookup.AFFECT_CONFIG


def claim_xml(host: Host, draft: Draft, uuid: str, owner: Owner) -> str:
    """The definition of a claim, which cannot be started: one of its drives has no medium."""
    root = _lxml.parse(final_xml(host, draft, uuid, None), "claim")
    folder = draft.disks[0].pool.path if draft.disks else "/var/lib/libvirt/images"
    stored = metadata_of(host, draft, "creating", owner)
    return unstartable.marked(root, stored, f"{folder}/{draft.domain.name}{_MARKER}")


def final_xml(host: Host, draft: Draft, uuid: str, owner: Owner | None) -> str:
    """The definition of the complete VM; with an ``owner``, one that it is yet to start."""
    domain = draft.domain
    volumes = {
        plan.disk.name: VolumeRef(
            plan.path,
            plan.disk.format,
            plan.base.path if plan.base and plan.disk.overlay else None,
            plan.base.format if plan.base and plan.disk.overlay else None,
        )
        for plan in draft.disks
    }
    for disk in domain.disks:
        medium = host.settings.images.get(disk.image.value) if disk.image else None
        if disk.device in DRIVES and medium is not None:
            volumes[disk.name] = VolumeRef(medium.path, medium.format)
    domain_type = host.domain_type(domain)
    stored = metadata_of(host, draft, "starting" if owner else None, owner)
    text = domain_xml.render(
        domain,
        uuid=uuid,
        domain_type=domain_type,
        machine=str(host.machine(domain)),
        arch=host.arch,
        volumes=volumes,
        cpu=_lxml.new("cpu", {"mode": "host-model"}) if domain_type == "kvm" else None,
        seed_path=draft.seed.path if draft.seed else None,
        metadata=metadata.to_element(stored),
        log_path=f"{_LOG_FOLDER}/{domain.name}-console.log",
    )
    if host.settings.leftovers is None:
        return text
    root = _lxml.parse(text, f"domain {domain.name}")
    carried, requested = host.settings.leftovers, host.settings.requested
    leftovers.merge(root, carried, VM, requested, _addresses(domain))
    return _lxml.tostring(root)


def _addresses(domain: Domain) -> dict[str, tuple[str, ...]]:
    """The addresses that its seed gives its NICs, by MAC address."""
    macs = {nic.name: nic.mac for nic in domain.nics}
    network = domain.seed.network if domain.seed else ()
    return {(one.mac or macs.get(one.name or "", "")).lower(): one.addresses for one in network}


def metadata_of(host: Host, draft: Draft, phase: str | None, owner: Owner | None) -> Metadata:
    """The metadata that the collection stores with the VM."""
    domain = draft.domain
    image = next((plan.base for plan in draft.disks if plan.base), None)
    return Metadata(
        phase=phase,
        owner=owner,
        home=host.settings.home,
        clone_of=host.settings.clone_of,
        image=ImageRef(image.name, str(image.digest), image.format) if image else None,
        groups=domain.groups,
        start_order=domain.start_order,
        start_delay=domain.start_delay,
        ha=YES if domain.ha else None,
        affinity=domain.placement.affinity,
        anti_affinity=domain.placement.anti_affinity,
        tags=domain.placement.tags,
        zone=domain.placement.zone,
        user=domain.seed.user if domain.seed else None,
        host_key=draft.host_key,
        addresses=domain.seed.static_addresses if domain.seed else (),
        volumes=tuple(
            OwnVolume(
                plan.pool.name,
                plan.volume,
                plan.path,
                plan.disk.name,
                "seed" if plan is draft.seed else "disk",
                draft.made.get(plan.path, NOT_MADE if phase == "creating" else ""),
            )
            for plan in draft.volumes
        ),
        request=request.to_text(domain),
        first_boot=_first_boot(draft),
    )


def _first_boot(draft: Draft) -> str | None:
    noted = first_boot.expected(draft.domain.seed)
    written = draft.seeded is not None and draft.seeded["method"] == "offline"
    return first_boot.WRITTEN if noted == first_boot.PENDING and written else noted


def define_claim(host: Host, draft: Draft, uuid: str, owner: Owner) -> None:
    """Define the claim; libvirt validates it against its schema (virDomainDefineXMLFlags)."""
    dom = _define(host, draft, claim_xml(host, draft, uuid, owner), DOMAIN_DEFINE_VALIDATE)
    if draft.domain.xml is not None:
        try:
            schema.require_kept(host.connection, dom, draft.domain)
        except BaseException:
            domains.undefine(host.connection, dom)
            raise


def define_final(host: Host, draft: Draft, uuid: str, owner: Owner | None) -> VirDomain:
    """Replace the claim by the VM itself and return it. It was validated with the claim."""
    return _define(host, draft, final_xml(host, draft, uuid, owner), 0)


def _define(host: Host, draft: Draft, text: str, flags: int) -> VirDomain:
    return domains.define(host.connection, f"define {draft.domain.name}", text, flags)


def write_metadata(host: Host, dom: VirDomain, stored: Metadata, flags: int) -> None:
    """Replace our metadata and nothing else (virDomainSetMetadata)."""
    lookup.write_metadata(host.connection, dom, stored, flags)
