# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why libvirt would not start a domain: read before it is tried, so that check mode says it too."""

from __future__ import annotations

import os
import typing as t

from ... import _lxml
from ..._libvirt import CONNECT_LIST_NETWORKS_ACTIVE, DOMAIN_XML_INACTIVE
from ..hosts import read_nwfilters as nwfilters
from ..hosts import read_placement_devices as devices
from ..placement import offers
from ..storage import read_paths as paths
from . import start_needs

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element
    from ..base.effects_connection import Connection

_QEMU = "QEMU"
_INTERFACES = "/sys/class/net"
_DEEPEST = 64  # backing files of one image


def read(
    connection: Connection,
    dom: VirDomain,
    text: str | None = None,
    incoming: t.Collection[str] = (),
) -> list[str]:
    """The reasons, each with its remedy; empty if libvirt may start the domain.

    Files and interfaces are looked for only on this machine's hypervisor. ``text`` is the
    definition that it will have, if it changes first, ``incoming`` the files created until then.
    """
    if connection.conn.getType() != _QEMU:
        return []
    name = str(dom.name())
    if text is None:
        text = connection.call(f"read domain {name}", dom.XMLDesc, DOMAIN_XML_INACTIVE)
    return of_root(connection, _lxml.parse(text, f"domain {name}"), incoming)


def of_root(connection: Connection, root: Element, incoming: t.Collection[str] = ()) -> list[str]:
    """The same of a definition that no domain may have yet."""
    needs = start_needs.of_definition(root)
    problems: list[str] = []
    if connection.local:
        files = {path: user for path, user in needs.files.items() if path not in incoming}
        problems += _missing_files(connection, files, needs.images)
        problems += [
            f"there is no bridge {bridge!r} on its hypervisor; set it up, or change its NIC"
            for bridge in needs.bridges
            if not os.path.exists(f"{_INTERFACES}/{bridge}")
        ]
        if needs.vsock and not devices.has_vsock():
            problems.append(f"its vsock device needs /dev/vhost-vsock; {offers.LOAD_VSOCK}")
    if needs.nwfilters:
        known = nwfilters.known(connection)
        problems += [
            f"there is no network filter {name!r}; {offers.DEFINE_NWFILTER}"
            for name in needs.nwfilters
            if known is not None and name not in known
        ]
    if needs.networks:
        problems += start_needs.missing_networks(
            needs, _networks(connection, CONNECT_LIST_NETWORKS_ACTIVE), _networks(connection, 0)
        )
    return problems


def _networks(connection: Connection, flags: int) -> set[str]:
    listed = connection.call("list networks", connection.conn.listAllNetworks, flags)
    return {str(network.name()) for network in listed}


def _missing_files(
    connection: Connection, files: t.Mapping[str, str], images: t.Collection[str]
) -> list[str]:
    """Files that do not exist, and backing files of ``images``, down to the last."""
    problems = []
    layer = files
    for _depth in range(_DEEPEST):
        probed = paths.probe(layer, connection.timeout)
        below: dict[str, str] = {}
        for path, user in layer.items():
            if path in probed.hanging:
                problems.append(f"{path} of {user} does not answer; its storage hangs")
            elif path not in probed.files and not os.path.exists(path):
                problems.append(
                    f"{path} of {user} does not exist; put it back, mount its storage, or remove"
                    " it from the definition"
                )
            elif path in probed.files and path in images and probed.files[path].backing:
                below[str(probed.files[path].backing)] = user
        if not below:
            break
        layer, images = below, below
    return problems
