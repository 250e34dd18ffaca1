# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cards: what is written is read, and of what a hypervisor may have written nothing else is."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import XmlError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import is_card_file
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import card as cards
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import Card, CardName

UUID = "6f0c8a52-2f60-4b1c-9d3e-0d9a6f3f7d10"
DEFINITION = f"""<domain type='kvm'>
  <name>web1</name>
  <uuid>{UUID}</uuid>
  <metadata>
    <fleet:fleet xmlns:fleet="urn:fleet.virt:1">
      <fleet:start_order>3</fleet:start_order>
      <fleet:start_delay>20</fleet:start_delay>
    </fleet:fleet>
  </metadata>
  <devices>
    <disk type='file' device='disk'><source file='/srv/shared/web1_system.qcow2'/></disk>
    <disk type='file' device='cdrom'><source file='/srv/shared/web1_seed.iso'/></disk>
    <graphics type='vnc' port='-1' passwd='hunter2'/>
  </devices>
</domain>"""
SNAPSHOT = (
    "<domainsnapshot><name>before</name><domain><graphics passwd='x'/></domain></domainsnapshot>"
)
AT = CardName("web1", ("hv1",))
CARD = Card(AT, UUID, DEFINITION, True, True, (SNAPSHOT,), "before", 4)


def test_card_is_read_as_it_was_written() -> None:
    text = cards.text_of(CARD)
    read = cards.parse("web1@hv1.fleet.xml", text)
    assert (read.name, read.hosts, read.uuid) == ("web1", ("hv1",), UUID)
    assert (read.running, read.autostart, read.counter, read.current) == (True, True, 4, "before")
    assert (read.start_order, read.start_delay) == (3, 20)
    assert read.disks == ("/srv/shared/web1_system.qcow2",)
    assert len(read.snapshots) == 1
    assert cards.text_of(read) == text


def test_uuid_of_writing_host_is_optional() -> None:
    """Earlier versions neither write nor expect it: they ask for what they know of the root."""
    machine = "22222222-2f60-4b1c-9d3e-0d9a6f3f7d10"
    text = cards.text_of(dataclasses.replace(CARD, machine=machine))
    assert f' machine="{machine}"' in text
    assert cards.parse(AT.file, text).machine == machine
    before = cards.text_of(CARD)
    assert cards.parse(AT.file, before).machine is None
    assert text.replace(f' machine="{machine}"', "") == before, "no element is new"
    with pytest.raises(XmlError, match="machine is not a UUID"):
        cards.parse(AT.file, text.replace(machine, "x"))


def test_card_has_no_secret() -> None:
    text = cards.text_of(CARD)
    assert "passwd" not in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("at", "file"),
    [
        (AT, "web1@hv1.fleet.xml"),
        (AT.on(), "web1@.fleet.xml"),
        (AT.on("hv1", "hv2.example.org"), "web1@hv1+hv2.example.org.fleet.xml"),
        (CardName("a@b+c d", ("hv1",)), "a@b+c d@hv1.fleet.xml"),
        (CardName("web1", ("2001:db8::1",)), "web1@2001:db8::1.fleet.xml"),
    ],
)
def test_name_of_a_file_is_read_back(at: CardName, file: str) -> None:
    assert at.file == file
    assert cards.parse_name(file) == at
    assert is_card_file(file)
    assert is_card_file(f".{file}.new")


@pytest.mark.parametrize(
    "file",
    [
        "web1.fleet.xml",
        "@hv1.fleet.xml",
        "web1@hv1",
        "web1@hv1.fleet.xml.new",
        ".web1@hv1.fleet.xml",
        "../web1@hv1.fleet.xml",
        "a/b@hv1.fleet.xml",
        "web1\n@hv1.fleet.xml",
        "web1@hv1+hv1.fleet.xml",
        "web1@hv1+hv2+hv3+hv4+hv5.fleet.xml",
        "web1@-hv1.fleet.xml",
        "web1@hv1.fleet.xml\n",
        f"{'x' * 250}@hv1.fleet.xml",
    ],
)
def test_other_names_are_no_cards(file: str) -> None:
    assert cards.parse_name(file) is None


@pytest.mark.parametrize(
    "at",
    [CardName("a/b", ("hv1",)), CardName("web1", ("h v",)), AT.on("a", "a")],
)
def test_name_that_no_file_can_have_is_refused(at: CardName) -> None:
    with pytest.raises(XmlError, match="can have no card"):
        _ = at.file


def _changed(old: str, new: str) -> str:
    text = cards.text_of(CARD)
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('version="1"', 'version="2"', "no|not a card"),
        ("<card ", "<cart ", "cannot be parsed"),
        ('name="web1"', 'name="web2"', "the card of another VM"),
        (f'uuid="{UUID}"', 'uuid="x"', "is not a UUID"),
        ('state="running"', 'state="paused"', "state or autostart"),
        ('autostart="yes"', 'autostart="1"', "state or autostart"),
        ('counter="4"', 'counter="-1"', "counter"),
        ('counter="4"', 'counter="9999999"', "counter"),
        ("<name>web1</name>", "<name>web2</name>", "the name in its definition"),
        ("<name>web1</name>", "<name>web1</name><name>web2</name>", "the name in its definition"),
        (f"<uuid>{UUID}</uuid>", "", "the uuid in its definition"),
        ("</card>", "<domain/></card>", "one definition"),
        ("</card>", "<other/></card>", "one definition"),
        ("<domainsnapshot>", "<domainsnapshot/><other/><domainsnapshot>", "is none"),
        ("<card", '<!DOCTYPE card [<!ENTITY a "b">]><card', "document type"),
    ],
)
def test_content_that_is_no_card_is_refused(old: str, new: str, why: str) -> None:
    with pytest.raises(XmlError, match=why):
        cards.parse("web1@hv1.fleet.xml", _changed(old, new))


def test_too_many_snapshots_are_refused() -> None:
    many = dataclasses.replace(CARD, snapshots=("<domainsnapshot/>",) * (cards.MOST_SNAPSHOTS + 1))
    with pytest.raises(XmlError, match="more than 512 snapshots"):
        cards.text_of(many)


def test_too_long_text_is_refused() -> None:
    with pytest.raises(XmlError, match="more than"):
        cards.parse("web1@hv1.fleet.xml", " " * (cards.MOST_BYTES + 1))


def test_card_of_another_vm_is_not_written() -> None:
    with pytest.raises(XmlError, match="the name in its definition"):
        cards.text_of(dataclasses.replace(CARD, at=CardName("web2", ("hv1",))))
