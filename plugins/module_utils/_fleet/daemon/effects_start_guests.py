# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start the guests with autostart when their hypervisor has booted, in their start order.

This file is a program of its own on each hypervisor, as no controller is there when machines come
up: it needs Python's standard library and libvirt's bindings, and nothing else of the collection.
The names that it shares with the rest are compared by a test. Its XML is that of libvirt and of
root on hypervisors with the same storage. expat expands no entity without bounds (2.4.1 and newer).

A guest that is to start once (``virsh autostart --once``, libvirt 11.2) starts as one with
autostart does, and then no longer has to: libvirt, which would see to that, starts none here.

A guest on which a run was at work is left to it, and one that was restarted elsewhere is a
leftover. A guest that does not start is tried again for a while, as shared storage may appear after
libvirt; then those after it are started all the same, and the exit status is 1.
"""

from __future__ import annotations

import glob
import os
import sys
import time
import typing as t
from xml.etree import ElementTree

NAMESPACE = "urn:fleet.virt:1"
CARD = ".fleet.xml"
URI = "qemu:///system"
LAST = float("inf")
CONNECT_SECONDS = 120.0
ROUND_SECONDS = 120.0
PAUSE = 3.0
MOST_DELAY = 3600
INACTIVE = 2  # VIR_DOMAIN_XML_INACTIVE
MOST_CARD = 8 * 1024 * 1024


class Startable(t.Protocol):
    """What is used of libvirt's domains."""

    def isActive(self) -> int:
        """Whether it runs."""

    def create(self) -> object:
        """Start it."""

    def setAutostartOnce(self, once: int) -> object:
        """Whether it starts with the next boot alone; libvirt 11.2 and newer."""


class Bootable(Startable, t.Protocol):
    """What is used of a domain that may have to start."""

    def autostart(self) -> int:
        """Whether it starts with each boot."""

    def XMLDesc(self, flags: int) -> str:
        """Its definition."""


class Guest(t.NamedTuple):
    """What the definition of a guest says; ``skip`` is why it is not started."""

    name: str
    uuid: str
    order: float = LAST
    delay: int = 0
    skip: str = ""
    disks: tuple[str, ...] = ()


def read(text: str) -> Guest:
    """The guest of a definition. Metadata that cannot be read stand for a run at work."""
    domain = ElementTree.fromstring(text)  # noqa: S314
    sources = domain.iterfind("devices/disk[@type='file']/source")
    guest = Guest(
        domain.findtext("name", ""),
        domain.findtext("uuid", ""),
        disks=tuple(source.get("file", "") for source in sources),
    )
    ours = domain.find(f"metadata/{{{NAMESPACE}}}fleet")
    if ours is None:
        return guest
    phase = ours.findtext(f"{{{NAMESPACE}}}phase")
    if phase is not None:
        return guest._replace(skip=f"a run is at work on it, or was: {phase}")
    try:
        order = ours.findtext(f"{{{NAMESPACE}}}start_order")
        delay = ours.findtext(f"{{{NAMESPACE}}}start_delay")
        return guest._replace(
            order=LAST if order is None else int(order),
            delay=0 if delay is None else min(max(int(delay), 0), MOST_DELAY),
        )
    except ValueError:
        return guest._replace(skip="its start_order or start_delay is not a number")


def leftover(guest: Guest) -> str:
    """The card by which another hypervisor has the guest since; empty if there is none.

    Then the disks that the definition names have other names, which the card tells.
    """
    for disk in guest.disks:
        if os.path.lexists(disk):
            continue
        folder = glob.escape(os.path.dirname(disk))
        for path in glob.glob(f"{folder}/{glob.escape(guest.name)}@*{CARD}"):
            if _is_moved(path, guest.uuid, disk):
                return path
    return ""


def _is_moved(path: str, uuid: str, disk: str) -> bool:
    try:
        with open(path, "rb") as file:
            card = ElementTree.fromstring(file.read(MOST_CARD))  # noqa: S314
    except (OSError, ElementTree.ParseError):
        return False
    names = [source.get("file") for source in card.iterfind("domain/devices/disk/source")]
    return card.get("uuid") == uuid and disk not in names


def rounds(guests: t.Iterable[Guest]) -> list[list[Guest]]:
    """The guests by their order, those without one last."""
    places: dict[float, list[Guest]] = {}
    for guest in guests:
        places.setdefault(guest.order, []).append(guest)
    return [sorted(places[place]) for place in sorted(places)]


def start_all(guests: t.Mapping[str, Startable], say: t.Callable[[str], None]) -> int:
    """Start those domains, by the text of their definition; the number of those that failed."""
    import libvirt

    domains: dict[str, Startable] = {}
    ready = []
    for text, domain in guests.items():
        guest = read(text)
        card = "" if guest.skip else leftover(guest)
        if guest.skip or card:
            say(f"{guest.name}: not started: {guest.skip or f'by {card} it is elsewhere now'}")
            continue
        domains[guest.uuid] = domain
        ready.append(guest)
    failed = 0
    turns = rounds(ready)
    for number, together in enumerate(turns, 1):
        begun, waiting = time.monotonic(), together
        started: list[Guest] = []
        reasons: dict[str, str] = {}
        while waiting:
            left = []
            for guest in waiting:
                try:
                    if not domains[guest.uuid].isActive():
                        domains[guest.uuid].create()
                        say(f"{guest.name}: started, order {guest.order:g}")
                    if starts_once(domains[guest.uuid]):  # a kill before this starts it once more
                        domains[guest.uuid].setAutostartOnce(0)
                    started.append(guest)
                except libvirt.libvirtError as error:
                    reasons[guest.name] = str(error)
                    left.append(guest)
            waiting = left
            if not waiting or time.monotonic() - begun > ROUND_SECONDS:
                break
            time.sleep(PAUSE)
        for guest in waiting:
            say(f"{guest.name}: cannot be started: {reasons[guest.name]}")
        failed += len(waiting)
        if number < len(turns):
            time.sleep(max((guest.delay for guest in started), default=0))
    return failed


def starts_once(domain: Startable) -> bool:
    """Whether it is to start with the next boot alone; an older libvirt or binding has no such."""
    ask = getattr(domain, "autostartOnce", None)
    try:
        return ask is not None and bool(ask())
    except Exception:  # a libvirt older than its binding
        return False


def to_start(domains: t.Iterable[Bootable]) -> dict[str, Bootable]:
    """Those of the domains that are off and are to start at boot, by their definitions."""
    return {
        domain.XMLDesc(INACTIVE): domain
        for domain in domains
        if domain.autostart() or starts_once(domain)
    }


def say(line: str) -> None:
    """A line in the journal."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Start the guests of this machine; the exit status."""
    import libvirt

    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            connection = libvirt.open(URI)
            break
        except libvirt.libvirtError as error:
            if time.monotonic() > deadline:
                say(f"libvirt does not answer: {error}")
                return 1
            time.sleep(PAUSE)
    wanted = libvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE | libvirt.VIR_CONNECT_LIST_DOMAINS_PERSISTENT
    return 1 if start_all(to_start(connection.listAllDomains(wanted)), say) else 0


if __name__ == "__main__":
    raise SystemExit(main())
