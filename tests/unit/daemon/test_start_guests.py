# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What starts guests when a hypervisor boots: the order, what is left out, what is tried again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libvirt
import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata, names
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import (
    autostart,
    effects_autostart,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import (
    effects_start_guests as start_guests,
)
from ansible_collections.fleet.virt.plugins.module_utils._lxml import parse, tostring

UUID = "00000000-0000-4000-8000-0000000000{:02d}"


def definition(number: int, stored: metadata.Metadata | None = None, disk: str = "") -> str:
    source = f"<source file='{disk}'/><target dev='vda'/>"
    disks = f"<disk type='file' device='disk'>{source}</disk>" if disk else ""
    root = parse(
        f"<domain type='test'><name>boot{number}</name><uuid>{UUID.format(number)}</uuid>"
        "<memory>1024</memory><os><type>hvm</type></os>"
        f"<devices>{disks}</devices></domain>",
        "test",
    )
    if stored is not None:
        metadata.put(root, stored)
    return tostring(root)


@pytest.fixture
def connection() -> Iterator[libvirt.virConnect]:
    opened = libvirt.open("test:///default")  # one for the whole process: leave nothing in it
    yield opened
    for domain in opened.listAllDomains():
        if domain.name().startswith("boot"):
            if domain.isActive():
                domain.destroy()
            domain.undefine()


def test_names_shared_with_the_collection_are_equal() -> None:
    assert start_guests.NAMESPACE == metadata.NAMESPACE
    assert start_guests.CARD == names.CARD
    assert start_guests.MOST_DELAY == metadata.MAX_DELAY


def test_metadata_written_by_the_collection_are_read() -> None:
    stored = metadata.Metadata(start_order=7, start_delay=30)
    guest = start_guests.read(definition(1, stored))
    assert (guest.order, guest.delay, guest.skip) == (7, 30, "")
    assert start_guests.read(definition(1)).order == start_guests.LAST


@pytest.mark.parametrize("phase", metadata.PHASES)
def test_guest_in_a_phase_is_left_out(phase: str) -> None:
    assert phase in start_guests.read(definition(1, metadata.Metadata(phase=phase))).skip


def test_order_that_is_no_number_is_left_out() -> None:
    text = definition(1, metadata.Metadata(start_order=7)).replace(">7<", ">soon<")
    assert "not a number" in start_guests.read(text).skip


def test_rounds_begin_with_the_lowest_order() -> None:
    orders = {1: None, 2: 20, 3: 0, 4: 20}
    guests = [
        start_guests.read(definition(number, metadata.Metadata(start_order=order)))
        for number, order in orders.items()
    ]
    rounds = [[guest.name for guest in together] for together in start_guests.rounds(guests)]
    assert rounds == [["boot3"], ["boot2", "boot4"], ["boot1"]]


@pytest.mark.parametrize(
    ("card_uuid", "card_disk", "is_leftover"),
    [
        (UUID.format(1), "web.r1.raw", True),
        (UUID.format(2), "web.r1.raw", False),
        (UUID.format(1), "web.raw", False),
    ],
)
def test_leftover_is_known_by_the_card_with_other_disks(
    tmp_path: Path, card_uuid: str, card_disk: str, is_leftover: bool
) -> None:
    disk = f"<disk><source file='{tmp_path}/{card_disk}'/></disk>"
    text = f"<card uuid='{card_uuid}'><domain><devices>{disk}</devices></domain></card>"
    (tmp_path / f"boot1@hv9{names.CARD}").write_text(text)
    guest = start_guests.read(definition(1, disk=f"{tmp_path}/web.raw"))
    assert bool(start_guests.leftover(guest)) is is_leftover
    (tmp_path / "web.raw").touch()
    assert not start_guests.leftover(guest), "its disk is there"


def test_damaged_card_makes_no_leftover(tmp_path: Path) -> None:
    (tmp_path / f"boot1@hv9{names.CARD}").write_text("<card")
    assert not start_guests.leftover(start_guests.read(definition(1, disk=f"{tmp_path}/web.raw")))


def test_guests_start_in_order_with_delays(
    connection: libvirt.virConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    stored = {
        1: metadata.Metadata(),
        2: metadata.Metadata(start_order=2),
        3: metadata.Metadata(start_order=1, start_delay=9),
        4: metadata.Metadata(start_order=1, phase="changing"),
    }
    texts = {number: definition(number, each) for number, each in stored.items()}
    domains = {number: connection.defineXML(text) for number, text in texts.items()}
    said: list[str] = []
    guests = {text: domains[number] for number, text in texts.items()}
    assert start_guests.start_all(guests, said.append) == 0
    assert [domains[number].isActive() for number in (1, 2, 3, 4)] == [1, 1, 1, 0]
    assert [line.partition(":")[0] for line in said] == ["boot4", "boot3", "boot2", "boot1"]
    assert slept == [9, 0]


class _Stubborn:
    """A domain of libvirt that starts at the third try only."""

    def __init__(self, domain: Any, tries: float) -> None:
        self.domain = domain
        self.tries = tries

    def isActive(self) -> int:
        return int(self.domain.isActive())

    def create(self) -> None:
        self.tries -= 1
        if self.tries > 0:
            raise libvirt.libvirtError("no disk yet")
        self.domain.create()


def test_guest_that_does_not_start_is_tried_again(
    connection: libvirt.virConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    text = definition(1)
    late = _Stubborn(connection.defineXML(text), 3)
    assert start_guests.start_all({text: late}, lambda _line: None) == 0
    assert late.isActive()


def test_guests_after_a_broken_guest_are_started(
    connection: libvirt.virConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(start_guests, "ROUND_SECONDS", 0.01)
    first, last = definition(1, metadata.Metadata(start_order=1)), definition(2)
    never = _Stubborn(connection.defineXML(first), float("inf"))
    after = connection.defineXML(last)
    said: list[str] = []
    assert start_guests.start_all({first: never, last: after}, said.append) == 1
    assert "boot1: cannot be started: no disk yet" in said
    assert after.isActive()


def test_program_that_is_installed_is_the_tested_file() -> None:
    text = effects_autostart.files()[autostart.PROGRAM]
    assert text == Path(start_guests.__file__).read_text()


class Once:
    """A domain of libvirt's test driver with the flag that libvirt has since 11.2."""

    def __init__(self, domain: libvirt.virDomain, once: bool, known: bool = True) -> None:
        self.domain, self.once, self.known = domain, once, known

    def __getattr__(self, name: str) -> Any:
        return getattr(self.domain, name)

    def autostartOnce(self) -> int:
        if not self.known:
            raise libvirt.libvirtError("this function is not supported by the connection driver")
        return int(self.once)

    def setAutostartOnce(self, once: int) -> None:
        self.once = bool(once)


@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize("once", [True, False])
def test_guest_that_is_to_start_once_starts_and_no_longer_has_to(
    connection: libvirt.virConnect, always: bool, once: bool
) -> None:
    raw = connection.defineXML(definition(1))
    raw.setAutostart(int(always))
    domain = Once(raw, once)
    guests = start_guests.to_start([domain])
    assert bool(guests) is (always or once)
    assert start_guests.start_all(guests, lambda _line: None) == 0
    assert bool(raw.isActive()) is (always or once)
    assert domain.once is False
    assert bool(raw.autostart()) is always


def test_flag_of_guest_that_did_not_start_stays(
    connection: libvirt.virConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_guests, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(start_guests, "PAUSE", 0.0)
    domain = Once(connection.defineXML(definition(1)), once=True)
    stubborn = _Stubborn(domain.domain, start_guests.LAST)
    monkeypatch.setattr(domain, "create", stubborn.create, raising=False)
    assert start_guests.start_all(start_guests.to_start([domain]), lambda _line: None) == 1
    assert domain.once is True


def test_libvirt_without_that_flag_has_no_guest_that_starts_once(
    connection: libvirt.virConnect,
) -> None:
    raw = connection.defineXML(definition(1))
    assert start_guests.to_start([raw]) == {}
    assert start_guests.to_start([Once(raw, once=True, known=False)]) == {}
