# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fragment of libvirt's XML: merged once, refused where a setting says it."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.settings import Group
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import (
    domain_xml,
    fragment,
    settings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.devices_xml import VolumeRef
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import from_options
from ansible_collections.fleet.virt.tests.unit._xml import assert_valid

_THERE = """<domain type="kvm">
  <memory unit="KiB">1024</memory>
  <clock offset="utc"><timer name="rtc" tickpolicy="catchup"/></clock>
  <devices><input type="tablet" bus="usb"><address type="usb" port="1"/></input></devices>
</domain>"""


def _merged(text: str, there: str = _THERE) -> str:
    root = _lxml.parse(there, "there")
    fragment.merge(root, text)
    assert fragment.missing(root, text) == []
    once = _lxml.tostring(root)
    fragment.merge(root, text)
    assert _lxml.tostring(root) == once
    return once


def _problems(text: object) -> list[str]:
    domain, problems = from_options({"name": "v", "xml": text})
    assert (domain is None) == bool(problems)
    assert {one.path for one in problems} <= {"xml"}
    return [one.message for one in problems]


def test_elements_are_merged_where_they_stand() -> None:
    text = "<domain><clock><timer name='rtc' track='guest'/><timer name='tsc' mode='native'/>"
    text += "</clock><sysinfo type='fwcfg'/></domain>"
    assert fragment.missing(_lxml.parse(_THERE, "there"), text) == [
        "clock/timer/@track",
        "clock/timer",
        "sysinfo",
    ]
    root = _lxml.parse(_merged(text), "merged")
    rtc, tsc = root.findall("clock/timer")
    assert dict(rtc.attrib) == {"name": "rtc", "tickpolicy": "catchup", "track": "guest"}
    assert tsc.get("mode") == "native"
    assert root.find("clock").get("offset") == "utc"  # type: ignore[union-attr]


def test_devices_are_added_each() -> None:
    two = "<input type='tablet' bus='usb'/>" * 2
    root = _lxml.parse(_merged(f"<domain><devices>{two}</devices></domain>"), "merged")
    assert len(root.findall("devices/input")) == 2
    more = "<domain><devices><vsock><cid auto='no' address='3'/></vsock></devices></domain>"
    assert fragment.missing(root, more) == ["devices/vsock"]
    root = _lxml.parse(_merged(more), "merged")
    assert root.find("devices/vsock/cid[@address='3']") is not None


def test_text_is_replaced() -> None:
    text = "<domain><resource><partition>/a &amp; b</partition></resource></domain>"
    there = _THERE.replace("<clock", "<resource><partition>/machine</partition></resource><clock")
    assert fragment.missing(_lxml.parse(there, "there"), text) == ["resource/partition"]
    assert "<partition>/a &amp; b</partition>" in _merged(text, there)


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ("<name>x</name>", ["name is not allowed in it"]),
        ("<uuid/><metadata/>", ["uuid is not allowed in it", "metadata is not allowed in it"]),
        (
            "<vcpu>3</vcpu><title>x</title>",
            ["vcpu is covered by the setting vcpus", "setting title"],
        ),
        ("<cpu><model>x</model></cpu>", ["cpu/model is covered by the setting cpu."]),
        ("<os firmware='efi'/>", ["os/@firmware is not allowed in it: use the settings firmware"]),
        (
            "<clock><timer name='rtc' tickpolicy='delay'/></clock>",
            ["is covered by the setting clock.rtc;"],
        ),
        (
            "<devices><disk type='file'/></devices>",
            ["devices/disk is covered by the setting disks"],
        ),
        ("<devices><interface type='bridge'/></devices>", ["covered by the setting nics;"]),
        ("<devices><rng model='virtio'/></devices>", ["covered by the setting rng;"]),
        ("<devices><emulator>/x</emulator></devices>", ["can start any program"]),
        (
            "<devices><redirdev type='tcp'><source mode='bind' host='0.0.0.0'/></redirdev>"
            "</devices>",
            ["would listen on 0.0.0.0"],
        ),
        ("", ["it is empty"]),
    ],
)
def test_what_may_not_be_in_it_is_told_at_once(inner: str, words: list[str]) -> None:
    found = _problems(f"<domain>{inner}</domain>")
    assert len(found) == len(words), found
    for word, message in zip(sorted(words), sorted(found)):
        assert word in message


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><domain>&b;</domain>", "type"),
        ("<domain", "cannot be parsed as XML"),
        ("<network/>", "put the elements into <domain>"),
        (f"<domain><a>{'x' * fragment.MOST_BYTES}</a></domain>", "more than 65536"),
        ("<domain type='xen'><pm/></domain>", "use the setting domain_type"),
        (
            "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>"
            "<qemu:commandline><qemu:arg value='-S'/></qemu:commandline></domain>",
            "use virsh edit",
        ),
        ({"a": 1}, "is not text"),
    ],
)
def test_what_is_no_fragment_is_refused(text: object, word: str) -> None:
    assert any(word in message for message in _problems(text)), _problems(text)


def test_devices_of_types_that_no_setting_has_are_taken() -> None:
    mdev = "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address"
    mdev += " uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/></source></hostdev>"
    user = "<interface type='user'><model type='virtio'/></interface>"
    text = f"<domain><devices>{mdev}{user}</devices></domain>"
    domain, problems = from_options({"name": "v", "xml": text, "host": "hv1"})
    assert problems == []
    assert domain is not None
    xml = domain_xml.render(
        domain,
        uuid="6f0f7c2e-58f4-4a0e-9d0b-0d9c1b4f6a11",
        domain_type="kvm",
        machine="pc-q35-7.2",
        arch="x86_64",
        volumes={"system": VolumeRef("/a", "qcow2")},
    )
    assert_valid(xml, "domain")
    assert fragment.missing(_lxml.parse(xml, "it"), text) == []


def test_every_setting_with_a_place_is_refused() -> None:
    """What a row writes is never left to a fragment, whatever row is added."""
    for row in settings.VM:
        place = row.xml if isinstance(row.xml, str) else ""
        if not place or place.startswith("@") or isinstance(row, Group):
            continue
        below, at, name = place.partition("@")
        tags = [tag for tag in below.split("/") if tag]
        leaf = f" {name}='1'" if at else ""
        inner = "".join(f"<{tag}{leaf if tag == tags[-1] else ''}>" for tag in tags)
        inner += "".join(f"</{tag}>" for tag in reversed(tags))
        assert any(row.name in one for one in _problems(f"<domain>{inner}</domain>")), row.name
