# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a domain has beyond its specification: what a VM made from it would not have."""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..base.metadata import Metadata
from ..base.xml_values import attribute
from ..spec import difference_devices, domain_xml, leftovers, settings
from ..spec.domain import Domain
from ..spec.domain_xml import VolumeRef
from ..spec.leftovers import Leftovers

if t.TYPE_CHECKING:
    from ..._lxml import Element

_UUID = "00000000-0000-0000-0000-000000000000"


def rendered(domain: Domain, root: Element) -> Element:
    """The definition of ``domain`` on the same machine as that of ``root``."""
    kind = root.find("os/type")
    text = domain_xml.render(
        domain,
        uuid=_UUID,
        domain_type=attribute(root, "type") or "qemu",
        machine=attribute(kind, "machine") or "pc",
        arch=attribute(kind, "arch") or "x86_64",
        volumes={
            disk.name: VolumeRef(f"/{disk.name}", disk.format)
            for disk in domain.disks
            if disk.device == "disk" and not disk.exists
        },
    )
    return _lxml.parse(text, "specification")


def leftovers_of(domain: Domain, root: Element, stored: Metadata) -> Leftovers:
    """What of the definition ``root`` its specification ``domain`` does not describe."""
    written = rendered(domain, root)
    return leftovers.leftovers(
        root, written, settings.VM, list(_same(domain, root, written, stored))
    )


def _same(
    domain: Domain, root: Element, written: Element, stored: Metadata
) -> t.Iterator[tuple[Element, Element]]:
    """The disks and NICs of the definition, each with the one that the specification results in."""
    disks, nics = written.findall("devices/disk"), written.findall("devices/interface")
    for disk, other in zip(domain.disks, disks):
        element = difference_devices.disk_element(root, domain, disk, stored)
        if element is not None:
            yield element, other
    for nic, other in zip(domain.nics, nics):
        element = difference_devices.nic_with(root, nic.mac)
        if element is not None:
            yield element, other
