# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection's own element in a domain: written and read back, also through libvirt."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import XmlError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    ImageRef,
    Metadata,
    Move,
    Owner,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import domain_info

FULL = Metadata(
    phase="creating",
    owner=Owner("2a1e1c7e-6a0b-4b07-9bfa-0b2f7c3d9e10", 4711, 18_446_744_073, "run-1"),
    home="hv1",
    image=ImageRef("debian12.qcow2", "sha256:9f86d081", "qcow2"),
    groups=("web", "shop"),
    tags=("ssd",),
    zone="a",
    user="debian",
    host_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIexample root@web1",
    volumes=(
        OwnVolume("default", "web1.qcow2", "/var/lib/libvirt/images/web1.qcow2", "vda", "disk"),
        OwnVolume("default", "web1-seed.iso", "/var/lib/libvirt/images/s.iso", "sda", "seed"),
    ),
    request='{"name": "web1"}',
    addresses=("192.0.2.10/24", "2001:db8::10/64"),
    evacuated_from=("hv1", "hv2"),
    move=Move("hv1", "hv2", "run-2", "yes", "running"),
    start_order=10,
    start_delay=0,
)

ROUND_TRIPS = {
    "nothing": Metadata(),
    "everything": FULL,
    "empty texts are not absent": Metadata(home="", zone="", user=""),
    "spaces": Metadata(home=" a ", groups=("  ", " b"), request=" {} \n  "),
    "line ends in the request": Metadata(request='{\r\n\t"a":\r1\n}'),
    "markup": Metadata(
        home="<&>\"']]>",
        volumes=(OwnVolume("p", "n", "/a &\"<>'b", "", "disk"),),
        request='{"a": "<!-- ]]> &amp; &#10;"}',
    ),
    "what was made": Metadata(volumes=(OwnVolume("p", "n", "/a", "", "disk", "12.34"),)),
    "other scripts": Metadata(user="müller", tags=("日本", "\U0001f600", "\u00a0", "e\u0301")),
    "a phase of a later version": Metadata(phase="hibernating"),
    "longest": Metadata(home="x" * 4096, request='{"a":"%s"}' % ("y" * 262136), tags=("t",) * 1024),
}


def through_text(element: t.Any) -> Metadata | None:
    return metadata.parse(_lxml.parse(_lxml.tostring(element), "metadata"))


@pytest.mark.parametrize("wanted", ROUND_TRIPS.values(), ids=ROUND_TRIPS.keys())
def test_round_trip(wanted: Metadata) -> None:
    assert through_text(metadata.to_element(wanted)) == wanted
    assert through_text(metadata.to_plain_element(wanted)) == wanted


@pytest.mark.parametrize("wanted", ROUND_TRIPS.values(), ids=ROUND_TRIPS.keys())
def test_round_trip_through_libvirt(wanted: Metadata) -> None:
    libvirt = pytest.importorskip("libvirt")
    connection = libvirt.open("test:///default")
    domain = None
    try:
        root = _lxml.parse("<domain type='test'><name>m</name><memory>1024</memory></domain>", "m")
        _lxml.add(root, "vcpu", text="1")
        _lxml.add(_lxml.add(root, "os"), "type", text="hvm")
        _lxml.add(root, "metadata").append(metadata.to_element(wanted))
        domain = connection.defineXML(_lxml.tostring(root))
        assert metadata.parse(_lxml.parse(domain.XMLDesc(), "m")) == wanted

        other = Metadata(home="elsewhere")
        kind = libvirt.VIR_DOMAIN_METADATA_ELEMENT
        for value in (other, wanted):
            text = _lxml.tostring(metadata.to_plain_element(value))
            domain.setMetadata(kind, text, metadata.PREFIX, metadata.NAMESPACE)
            assert metadata.parse(_lxml.parse(domain.XMLDesc(), "m")) == value
            alone = domain.metadata(kind, metadata.NAMESPACE)
            assert metadata.parse(_lxml.parse(alone, "m")) == value
    finally:
        if domain is not None:
            domain.undefine()  # the driver is one for the process while anybody has it open
        connection.close()


REFUSED = {
    "line break": (Metadata(host_key="ssh-ed25519 AAAA\nevil"), "host_key"),
    "C1 control": (Metadata(home="a\x85b"), "home"),
    "line separator": (Metadata(groups=("a\u2028b",)), "group"),
    "not XML": (Metadata(request="\x00"), "request"),
    "surrogate": (Metadata(request="\udc80"), "request"),
    "too long": (Metadata(zone="x" * 4097), "zone: 4097 characters"),
    "request too long": (Metadata(request="x" * 262145), "request: 262145 characters"),
    "too many": (Metadata(tags=("t",) * 1025), "tags: 1025 items"),
    "in an attribute": (Metadata(volumes=(OwnVolume("p", "a\nb", "", "", ""),)), "volume.name"),
    "volume without pool": (
        Metadata(volumes=(OwnVolume("", "n", "", "", "disk"),)),
        "volume: pool is missing",
    ),
    "image without name": (Metadata(image=ImageRef("", "d", "raw")), "image: name is missing"),
    "owner without process": (Metadata(owner=Owner("b", -1, 2, "r")), "owner: pid or start_time"),
    "no JSON object": (Metadata(request="[]"), "request: not a JSON object"),
    "a number that is none": (Metadata(request='{"a":NaN}'), "request: NaN is not a number"),
    "broken before": (Metadata(broken="request: x"), "request: x"),
    "empty group": (Metadata(groups=("",)), "group: it is empty"),
}


@pytest.mark.parametrize(("value", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_would_not_be_read_back_is_not_written(value: Metadata, message: str) -> None:
    for write in (metadata.to_element, metadata.to_plain_element):
        with pytest.raises(XmlError, match=message):
            write(value)


OURS = '<f:fleet xmlns:f="urn:fleet.virt:1">{}</f:fleet>'
READ = {
    "no metadata": ("<domain/>", None),
    "empty metadata": ("<domain><metadata/></domain>", None),
    "others' metadata": ('<metadata><o:fleet xmlns:o="urn:other"/></metadata>', None),
    "no namespace inside metadata": ("<metadata><fleet/></metadata>", None),
    "another element": ("<network/>", None),
    "empty": ("<fleet/>", Metadata()),
    "in a domain": (f"<domain><metadata>{OURS.format('')}</metadata></domain>", Metadata()),
    "the first of two": (
        f"<metadata>{OURS.format('<f:home>a</f:home><f:home>b</f:home>')}{OURS}</metadata>",
        Metadata(home="a"),
    ),
    "unknown children": (
        OURS.format('<f:new>1</f:new><o:home xmlns:o="urn:o">x</o:home><f:zone>z</f:zone>'),
        Metadata(zone="z"),
    ),
    "host key of two lines": (
        OURS.format("<f:host_key>ssh-ed25519 A\n* ssh-rsa B</f:host_key>"),
        Metadata(),
    ),
    "escaped line break": (OURS.format("<f:user>root&#10;x</f:user>"), Metadata()),
    "too long": (OURS.format(f"<f:user>{'x' * 4097}</f:user>"), Metadata()),
    "owner without pid": (OURS.format('<f:owner boot_id="b" start_time="1"/>'), Metadata()),
    "owner with a huge pid": (
        OURS.format(f'<f:owner boot_id="b" pid="{"9" * 5000}" start_time="1" run="r"/>'),
        Metadata(),
    ),
    "volumes that name nothing": (
        OURS.format('<f:volume/><f:volume pool="p"/><f:volume pool="p" name="n" role="new"/>'),
        Metadata(volumes=(OwnVolume("p", "n", "", "", "new"),)),
    ),
    "children within a text": (OURS.format("<f:home>a<b/>c</f:home>"), Metadata(home="a")),
    "too many": (OURS.format("<f:tag>t</f:tag>" * 3000), Metadata(tags=("t",) * 1024)),
}


# Of those, what is left out and named
LEFT_OUT = {
    "the first of two": "home: it is there twice",
    "host key of two lines": "host_key: it contains control characters",
    "escaped line break": "user: it contains control characters",
    "too long": "user: 4097 characters",
    "owner without pid": "owner: pid or start_time is not a number",
    "owner with a huge pid": "owner: pid or start_time is not a number",
    "volumes that name nothing": "volume: pool is missing; volume: name is missing",
    "too many": "tag: more than 1024 items",
}


@pytest.mark.parametrize("name", READ)
def test_reading_takes_what_makes_sense(name: str) -> None:
    xml, expected = READ[name]
    read = metadata.parse(_lxml.parse(xml, "document"))
    broken = read.broken if read is not None else None
    assert LEFT_OUT.get(name, "") in (broken or "")
    assert (broken is None) == (name not in LEFT_OUT)
    if broken is not None and expected is not None:
        expected = dataclasses.replace(expected, broken=broken, phase=metadata.UNREADABLE)
    assert read == expected


_DISK_RECORD = '{"disks":[{"name":"vda","size":%s}]}'
BROKEN = {
    "phase: it is empty": "<f:phase/>",
    "phase: 4097 characters": f"<f:phase>{'p' * 4097}</f:phase>",
    "phase: it is there twice": "<f:phase>creating</f:phase><f:phase>purging</f:phase>",
    "group: it contains control": "<f:group>a&#10;b</f:group>",
    "group: it is empty": "<f:group/>",
    "move: source is missing": '<f:move source="" destination="hv2"/>',
    "start_order: it is not a number": "<f:start_order>99999</f:start_order>",
    "start_delay: it is not a number": "<f:start_delay>-1</f:start_delay>",
    "seed: not a JSON object": "<f:seed>[]</f:seed>",
    "owner: boot_id is missing": '<f:owner pid="1" start_time="1"/>',
    "characters; at most 262144 are allowed": f"<f:tag>{'t' * 4000}</f:tag>" * 70,
    "request: 262145 characters": f"<f:request>{'x' * 262145}</f:request>",
    "nested deeper than 8 levels": f"{'<f:a>' * 253}{'</f:a>' * 253}",
    "request: not JSON": "<f:request>{</f:request>",
    "request: not a JSON object": "<f:request>null</f:request>",
    "request: nested deeper": f"<f:request>{'[' * 60000}{']' * 60000}</f:request>",
    "request: nested deeper than 32": f'<f:request>{{"a":{"[" * 40}{"]" * 40}}}</f:request>',
    "request: NaN": f"<f:request>{_DISK_RECORD % 'NaN'}</f:request>",
    "request: Infinity": f"<f:request>{_DISK_RECORD % 'Infinity'}</f:request>",
    "request: a number out of": f"<f:request>{_DISK_RECORD % '1e400'}</f:request>",
    "request: a number of 9000 digits": f"<f:request>{_DISK_RECORD % ('9' * 9000)}</f:request>",
    "request: disks[0].size": f"<f:request>{_DISK_RECORD % '1e3'}</f:request>",
    "disks[0].size": f"<f:request>{_DISK_RECORD % '-5'}</f:request>",
    "[0].size": f"<f:request>{_DISK_RECORD % '[1]'}</f:request>",
    ".size is not a size": f"<f:request>{_DISK_RECORD % (2**50)}</f:request>",
    "request: disks[0] has no name": '<f:request>{"disks":[{"size":1}]}</f:request>',
    "request: disks is not a list": '<f:request>{"disks":{"a":1}}</f:request>',
}
_MADE = '<f:volume pool="p" name="a" path="/p/a" made="{}"/>'
NOT_IDENTITIES = ("abc", "12.", "-1", "1.2.3", "1e3", "\u0661", "9" * 21)


@pytest.mark.parametrize("words", BROKEN)
def test_broken_value_is_named_and_the_rest_counts(words: str) -> None:
    volume = '<f:volume pool="p" name="n" path="/p/n"/>'
    root = _lxml.parse(OURS.format(f"<f:home>hv1</f:home>{BROKEN[words]}{volume}"), "m")
    read = metadata.parse(root)
    assert read is not None
    assert words in (read.broken or "")
    assert (read.home, [one.path for one in read.volumes]) == ("hv1", ["/p/n"])
    # no run begins anything, and a request that cannot be used is not as if there were none
    assert read.phase is not None
    assert read.made_here == ("<f:request" in BROKEN[words])
    assert len(json.dumps(domain_info.metadata_entry(read, "m"))) < metadata._MAX_TOTAL
    (refusal,) = metadata.metadata_problems("my vm", read, read, None)
    assert refusal.startswith("'my vm': ")
    assert "virsh metadata 'my vm' urn:fleet.virt:1 --remove --config" in refusal
    assert """ansible-playbook fleet.virt.adopt -e '{"vm_name": "my vm"}'""" in refusal


@pytest.mark.parametrize("made", NOT_IDENTITIES)
def test_volume_with_unreadable_file_identity_is_named_and_still_counts(made: str) -> None:
    read = metadata.parse(_lxml.parse(OURS.format(_MADE.format(made)), "m"))
    assert read is not None
    assert read.broken == "volume: made is neither a word nor the numbers of a file"
    assert [(volume.path, volume.made) for volume in read.volumes] == [("/p/a", "")]
    assert read.phase == metadata.UNREADABLE


@pytest.mark.parametrize("made", ["", "no", "begun", "yes", "7", "18446744073709551615.4294967295"])
def test_volume_with_file_identity_is_read(made: str) -> None:
    read = metadata.parse(_lxml.parse(OURS.format(_MADE.format(made)), "m"))
    assert read == Metadata(volumes=(OwnVolume("p", "a", "/p/a", "", "", made),))


@pytest.mark.parametrize(
    ("before", "leaves", "after"),
    [
        ((), "a", ("a",)),
        (("a",), "b", ("a", "b")),
        (("a", "b"), "c", ("a", "b", "c")),
        # it was back without anybody noting it
        (("a", "b"), "a", ("a",)),
    ],
)
def test_an_evacuation_is_noted(
    before: tuple[str, ...], leaves: str, after: tuple[str, ...]
) -> None:
    assert metadata.leaving(Metadata(evacuated_from=before), leaves) == after


@pytest.mark.parametrize(
    ("before", "arrives", "after"),
    [
        (("a", "b"), "b", ("a",)),
        (("a", "b"), "a", ()),
        (("a", "b"), "c", ("a", "b")),
        ((), "a", ()),
    ],
)
def test_coming_back_ends_the_note(
    before: tuple[str, ...], arrives: str, after: tuple[str, ...]
) -> None:
    assert metadata.arriving(Metadata(evacuated_from=before), arrives) == after


_RECORDED = Path(__file__).parents[1] / "fixtures" / "metadata_2026_11_23"
_IMAGES = "/var/lib/libvirt/images"
_BOOT = "932371e9-3903-4e5e-bd09-8ddfa3a9f494"
_CREATION = "9c167382-ae8d-4e19-a4f0-6423b23de65a"
_MOVE = "bda79856-df55-4a3d-8c11-d1c2940fa971"
_CREATOR = Owner(_BOOT, 1201, 531906, _CREATION)
_MOVER = Owner(_BOOT, 1652, 612230, _MOVE)
_HALF = Move("hv1", "hv2", _MOVE, "no", "running")
_NO_KEY: dict[str, t.Any] = {
    "home": "hv1",
    "user": "ansible",
    "image": ImageRef(
        "tiny", "88b4384634a58f070db74a7f0f100d3b9f73c048f8343909ac6a67d27990824e", "qcow2"
    ),
}
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGFqbq7ki+/mmm8xsBqeGoFffoPw4f6cy0OezgsrVxKO web1"


def _disk(made: str, target: str = "system") -> OwnVolume:
    name = "web1_system.qcow2"
    return OwnVolume("default", name, f"{_IMAGES}/{name}", target, "disk", made)


def _medium(made: str) -> OwnVolume:
    return OwnVolume("default", "web1_seed.iso", f"{_IMAGES}/web1_seed.iso", "seed", "seed", made)


_SEEN = {
    "claimed": Metadata(
        "creating",
        Owner(_BOOT, 0, 0, _CREATION),
        volumes=(_disk("no"), _medium("no")),
        **_NO_KEY,
    ),
    "creating": Metadata(
        "creating", _CREATOR, volumes=(_disk("16474359"), _medium("begun")), **_NO_KEY
    ),
    "starting": Metadata(
        "starting",
        _CREATOR,
        host_key=_KEY,
        volumes=(_disk("16474359"), _medium("16474528")),
        **_NO_KEY,
    ),
    "complete": Metadata(
        host_key=_KEY, volumes=(_disk("16474359"), _medium("16474528")), **_NO_KEY
    ),
    "moving": Metadata(
        "migrating", _MOVER, host_key=_KEY, volumes=(_disk("16474499"),), move=_HALF, **_NO_KEY
    ),
    "claimed_by_a_move": Metadata("creating", _MOVER, volumes=(_disk("yes", "vda"),), move=_HALF),
}


@pytest.mark.parametrize("state", _SEEN)
def test_what_the_version_of_2026_11_23_wrote_is_read(state: str) -> None:
    """Recorded on hypervisors, the VM's name and key shortened: a run of that version may have been
    interrupted before the update, and its VMs are the user's."""
    root = _lxml.parse((_RECORDED / f"{state}.xml").read_text(encoding="utf-8"), state)
    assert metadata.parse(root) == _SEEN[state]


def test_all_that_was_recorded_is_read() -> None:
    assert {path.stem for path in _RECORDED.iterdir()} == _SEEN.keys()
