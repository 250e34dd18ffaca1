# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPU a hypervisor can give its guests, from libvirt's domain capabilities."""

from __future__ import annotations

import re
import typing as t

from ..._lxml import new, parse, tostring
from ..base.xml_values import attribute, first_children, read_root, text_of

if t.TYPE_CHECKING:
    from ..base.snapshot import GuestCpuEntry

_FIRST_VERSION = re.compile(r"[Uu]nknown CPU model:? '?([\w.-]+)-v1\b")
_UNKNOWN = re.compile(r"[Uu]nknown CPU feature:? '?([\w.-]+)")


def unknown_feature(message: str) -> str | None:
    """The CPU feature that libvirt's message reports as unknown, if any."""
    match = _UNKNOWN.search(message)
    return match[1] if match else None


def unversioned(message: str, xml: str) -> str:
    """The CPU with the older name of its model, if libvirt's message reports as unknown the first
    version of a model, which is the model itself: ``EPYC-v1`` is ``EPYC``."""
    match = _FIRST_VERSION.search(message)
    root = parse(xml, "CPU")
    model = root.find("model")
    if match is None or model is None or model.text != f"{match[1]}-v1":
        return xml
    model.text = match[1]
    return tostring(root)


class GuestCpu(t.TypedDict):
    """The emulator, and the host's model for guests."""

    emulator: str | None
    model: str | None
    xml: str | None


def guest_cpu(xml: str) -> GuestCpu:
    """``emulator``, and of the host's model for guests ``model`` and ``xml``.

    ``xml`` is what virConnectBaselineHypervisorCPU takes; None where there is no such model.
    """
    root = read_root(xml, "domainCapabilities", "domain capabilities")
    children = first_children(root)
    guest: GuestCpu = {"emulator": text_of(children.get("path")), "model": None, "xml": None}
    for mode in first_children(root).get("cpu", ()):
        if mode.tag == "mode" and mode.get("name") == "host-model":
            cpu = new("cpu")
            cpu.extend(list(mode))
            guest["model"] = text_of(first_children(cpu).get("model"))
            guest["xml"] = tostring(cpu) if guest["model"] else None
    return guest


def features(xml: str) -> GuestCpuEntry:
    """The vendor and all features of a CPU whose features libvirt has expanded."""
    root = parse(xml, "CPU")
    names = [
        attribute(feature, "name")
        for feature in root.iterchildren("feature")
        if attribute(feature, "policy") != "disable"
    ]
    vendor = text_of(first_children(root).get("vendor"))
    return {"vendor": vendor, "features": sorted(name for name in names if name)}


def without_feature(xml: str, name: str) -> str:
    """The CPU without one feature."""
    root = parse(xml, "CPU")
    for feature in root.findall("feature"):
        if feature.get("name") == name:
            root.remove(feature)
    return tostring(root)


def describe(xml: str) -> str:
    """A readable CPU: its model, and how many features it adds to that and removes."""
    root = parse(xml, "CPU")
    model = text_of(first_children(root).get("model")) or "unknown"
    features = list(root.iterchildren("feature"))
    off = sum(attribute(one, "policy") == "disable" for one in features)
    more = [
        f"{count} {word}" for count, word in ((len(features) - off, "more"), (off, "less")) if count
    ]
    return f"{model} ({' and '.join(more)} features)" if more else model
