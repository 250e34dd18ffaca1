# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Screens (VNC) that can be reached from other machines, and whether they lose TLS."""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..._errors import PlanRefused
from ..base import config_block
from .files import is_loopback

_TLS = ("vnc_tls", "vnc_tls_x509_verify")


def open_screens(text: str, what: str) -> list[str]:
    """Where a domain's screens listen beyond loopback, from its XML or that of its state."""
    addresses: dict[str, None] = {}
    for graphics in _lxml.parse(text, what).iter("graphics"):
        if graphics.get("type") != "vnc":
            continue
        for element in (graphics, *graphics.iterchildren("listen")):
            address = element.get("listen") or element.get("address")
            if address and not is_loopback(address):
                addresses[address] = None
            elif element.get("type") == "network":
                addresses[f"the network {element.get('network')}"] = None
    return list(addresses)


def require_closed(before: str, after: str, screens: t.Mapping[str, t.Sequence[str]]) -> None:
    """Refuse to remove TLS from screens that other machines can reach.

    ``before`` and ``after`` are texts of qemu.conf, ``screens`` the exposed ones by domain.
    """
    if not screens or not _verified(before) or _verified(after):
        return
    listed = "; ".join(f"{name} listens on {', '.join(where)}" for name, where in screens.items())
    raise PlanRefused(
        f"screens would be open to the network without TLS: {listed}. Make them listen on 127.0.0.1"
        " (virsh edit, <graphics listen=...>) and access them through SSH, or keep TLS with"
        " libvirtd_qemu_conf: {vnc_tls: true, vnc_tls_x509_verify: true}"
    )


def is_open(kind: str, listen: str) -> bool:
    """Whether other machines can reach a screen of that type that listens there."""
    return kind != "none" and not is_loopback(listen)


def require_tls(kind: str, listen: str, qemu_conf: str) -> None:
    """Raise PlanRefused for an exposed screen without TLS; ``qemu_conf`` is that file's text."""
    wanted = _TLS if kind == "vnc" else ("spice_tls",)
    if _all_set(qemu_conf, wanted):
        return
    settings = ", ".join(f"{key}: true" for key in wanted)
    raise PlanRefused(
        f"the console would listen on {listen} without TLS, open to the network; leave listen out"
        f" and access it through SSH, or enable TLS first with libvirtd_qemu_conf: {{{settings}}}"
    )


def _verified(text: str) -> bool:
    return _all_set(text, _TLS)


def _all_set(text: str, keys: t.Sequence[str]) -> bool:
    # the first of two assignments counts
    assignments = dict(reversed(config_block.assignments(text.splitlines())))
    return all(assignments.get(key) == "1" for key in keys)
