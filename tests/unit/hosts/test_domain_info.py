# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domain XML as facts: what libvirt writes, what it may write one day, and what it never would."""

from __future__ import annotations

import copy
import json
import random
import re
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import XmlError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    ImageRef,
    Metadata,
    Move,
    Owner,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import domain_info

FIXTURES = Path(__file__).parents[1] / "fixtures" / "domain"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.xml"))


def read(name: str) -> str:
    return (FIXTURES / f"{name}.xml").read_text(encoding="utf-8")


def parse(xml: str) -> dict[str, t.Any]:
    return domain_info.parse(xml, "domain x")


def column(items: t.Iterable[dict[str, t.Any]], *keys: str) -> list[tuple[t.Any, ...]]:
    return [tuple(item[key] for key in keys) for item in items]


def test_running_domain_in_full() -> None:
    disk = {
        "bus": "virtio",
        "device": "disk",
        "type": "file",
        "pool": None,
        "volume": None,
        "format": "qcow2",
        "backing_known": True,
        "readonly": False,
        "shareable": False,
        "size_mib": None,
        "allocation_mib": None,
    }
    images = "/var/lib/libvirt/images"
    own = {"pool": "default", "role": "disk"}
    assert parse(read("kvm_running")) == {
        "name": "web1",
        "uuid": "5f2c8f0e-9d0a-4d0b-8a2b-6e1f7c3a9b54",
        "title": "First web server",
        "description": "Serves the shop & its pictures",
        "domain_type": "kvm",
        "arch": "x86_64",
        "machine": "pc-q35-7.2",
        "firmware": {"type": "bios", "loader": None, "nvram": None},
        "cpu_mode": "custom",
        "cpu_model": "Skylake-Server-IBRS",
        "vcpus": 2,
        "vcpus_max": 4,
        "memory_mib": 2048,
        "memory_max_mib": 4096,
        "disks": [
            {
                **disk,
                "target": "vda",
                "source": f"{images}/web1_system.qcow2",
                "backing": "/var/lib/libvirt/base/9f86d081-debian12.qcow2",
            },
            {**disk, "target": "vdb", "source": f"{images}/web1_data.qcow2", "backing": None},
        ],
        "nics": [
            {
                "mac": "52:54:00:6b:3c:58",
                "type": "bridge",
                "source": "br0",
                "model": "virtio",
                "link": "up",
                "target": "vnet4",
                "vlan": [],
                "addresses": [],
            }
        ],
        "graphics": [
            {"type": "vnc", "listen": "127.0.0.1", "port": 5900, "tls_port": None, "socket": None}
        ],
        "consoles": [
            {
                "type": "pty",
                "path": "/dev/pts/3",
                "target": "isa-serial",
                "log": "/var/log/libvirt/qemu/web1-console.log",
            }
        ],
        "hostdevs": [],
        "agent": True,
        "metadata": {
            "managed": True,
            "phase": None,
            "owner": None,
            "home": "hv1",
            "image": {
                "name": "debian12.qcow2",
                "digest": "sha256:9f86d081884c7d65",
                "format": "qcow2",
            },
            "groups": ["web", "shop"],
            "affinity": [],
            "anti_affinity": [],
            "tags": ["ssd"],
            "zone": "a",
            "user": "debian",
            "host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3h0Zq0examplekey root@web1",
            "volumes": [
                {
                    **own,
                    "name": "web1_system.qcow2",
                    "path": f"{images}/web1_system.qcow2",
                    "target": "vda",
                },
                {
                    **own,
                    "name": "web1_data.qcow2",
                    "path": f"{images}/web1_data.qcow2",
                    "target": "vdb",
                },
            ],
            "addresses": ["192.0.2.10/24"],
            "evacuated_from": [],
            "move": None,
            "first_boot": None,
            "start_order": None,
            "start_delay": None,
            "ha": False,
            "problem": None,
        },
    }


def test_disks_of_every_kind() -> None:
    disks = parse(read("qemu_many_devices"))["disks"]
    assert column(disks, "target", "bus", "device", "type", "source", "format") == [
        ("vda", "virtio", "disk", "file", "/srv/with space & more.img", "raw"),
        ("sda", "scsi", "lun", "block", "/dev/mapper/vg0-zoo", "raw"),
        ("vdb", "virtio", "disk", "volume", "default/zoo_data.qcow2", "qcow2"),
        ("vdc", "virtio", "disk", "network", "rbd://mon1.example.com:6789/rbd/zoo", "raw"),
        ("vdd", "virtio", "disk", "network", "nbd://nbd.example.com:10809", "raw"),
        ("vde", "virtio", "disk", "nvme", "0000:01:00.0/1", "raw"),
        ("vdf", "virtio", "disk", "vhostuser", "/run/vhost-blk.sock", "raw"),
        ("fda", "fdc", "floppy", "dir", "/srv/floppy", "fat"),
        ("sdb", "sata", "cdrom", "file", None, None),
        ("sdc", "sata", "cdrom", "file", "/srv/seed.iso", "raw"),
        ("vdg", "virtio", "disk", "block", "/dev/vg0/overlay", "qcow2"),
    ]
    by_target = {disk["target"]: disk for disk in disks}
    assert column([by_target["vdb"]], "pool", "volume") == [("default", "zoo_data.qcow2")]
    assert column([by_target["vda"], by_target["vdg"]], "backing_known", "backing") == [
        (False, None),
        (True, "gluster://gluster.example.com:24007/bases/debian.qcow2"),
    ]
    assert [disk["target"] for disk in disks if disk["readonly"]] == ["fda", "sdb", "sdc"]
    assert [disk["target"] for disk in disks if disk["shareable"]] == ["sda"]


def test_nics_of_every_kind() -> None:
    nics = parse(read("qemu_many_devices"))["nics"]
    assert column(nics, "type", "source", "model", "link", "target", "vlan") == [
        ("bridge", "br0", "virtio", "down", None, [42, 47]),
        ("network", "default", "e1000e", "up", None, []),
        ("direct", "eno1", "virtio", "up", "macvtap0", []),
        ("user", None, "rtl8139", "up", None, []),
        ("hostdev", "0000:03:10.2", None, "up", None, []),
        ("vhostuser", "/run/vhost-net.sock", "virtio", "up", None, []),
        ("mcast", "230.0.0.1:5558", None, "up", None, []),
    ]
    assert [nic["mac"] for nic in nics] == [f"52:54:00:00:00:0{n}" for n in range(1, 8)]


def test_graphics_consoles_and_host_devices() -> None:
    facts = parse(read("qemu_many_devices"))
    assert column(facts["graphics"], "type", "listen", "port", "tls_port", "socket") == [
        ("vnc", "::1", None, None, None),
        ("spice", "127.0.0.1", 5901, 5902, None),
        ("vnc", None, None, None, "/run/zoo-vnc.sock"),
    ]
    assert column(facts["consoles"], "type", "path", "target", "log") == [
        ("file", "/var/log/zoo-first.log", None, None),
        ("tcp", "127.0.0.1:4555", None, None),
        ("pty", None, "virtio", None),
    ]
    assert column(facts["hostdevs"], "type", "source") == [
        ("pci", "0000:06:12.5"),
        ("usb", "1234:beef"),
        ("mdev", "c2177883-f1bb-47f0-914d-32a22e3a8804"),
    ]
    assert facts["agent"] is False


def test_what_is_left_out_means_what_libvirt_documents() -> None:
    facts = parse(read("qemu_many_devices"))
    assert (facts["vcpus"], facts["vcpus_max"]) == (3, 3)
    assert (facts["memory_mib"], facts["memory_max_mib"]) == (1025, 1025)  # 1 GiB and 1 KiB
    assert facts["firmware"] == {
        "type": "efi",
        "loader": "/usr/share/OVMF/OVMF_CODE_4M.fd",
        "nvram": "/var/lib/libvirt/qemu/nvram/zoo_VARS.fd",
    }
    assert (facts["cpu_mode"], facts["cpu_model"]) == ("host-passthrough", None)
    assert facts["metadata"] == {
        "managed": False,
        "phase": None,
        "owner": None,
        "home": None,
        "image": None,
        "groups": [],
        "affinity": [],
        "anti_affinity": [],
        "tags": [],
        "zone": None,
        "user": None,
        "host_key": None,
        "volumes": [],
        "addresses": [],
        "evacuated_from": [],
        "move": None,
        "first_boot": None,
        "start_order": None,
        "start_delay": None,
        "ha": False,
        "problem": None,
    }


def test_units_and_another_architecture() -> None:
    facts = parse(read("aarch64_efi"))
    assert (facts["memory_mib"], facts["memory_max_mib"]) == (954, 1431)
    assert facts["firmware"] == {"type": "efi", "loader": None, "nvram": None}
    assert (facts["cpu_mode"], facts["cpu_model"]) == ("custom", "cortex-a72")
    assert facts["disks"] == facts["nics"] == facts["consoles"] == []


FIRMWARE = {
    "rom": ("<os><type arch='x86_64'/><loader type='rom'>/f.fd</loader></os>", None, "/f.fd", None),
    "microvm": ("<os><type arch='x86_64' machine='microvm'/></os>", None, None, None),
    "no os": ("", None, None, None),
    "stated": ("<os firmware='bios'><type arch='x86_64'/></os>", "bios", None, None),
    "nvram elsewhere": (
        "<os firmware='efi'><nvram type='network'><source protocol='nbd' name='v'/></nvram></os>",
        "efi",
        None,
        "nbd:v",
    ),
    "nvram of a named server": (
        "<os firmware='efi'><nvram type='network'><source protocol='nbd' name='v'>"
        "<host name='192.0.2.1' port='10809'/></source></nvram></os>",
        "efi",
        None,
        "nbd://192.0.2.1:10809/v",
    ),
    "nvram in a file": (
        "<os firmware='efi'><nvram type='file'><source file='/v.fd'/></nvram></os>",
        "efi",
        None,
        "/v.fd",
    ),
}


@pytest.mark.parametrize(("xml", "kind", "loader", "nvram"), FIRMWARE.values(), ids=FIRMWARE)
def test_firmware(xml: str, kind: str | None, loader: str | None, nvram: str | None) -> None:
    facts = parse(f"<domain type='kvm'>{xml}</domain>")
    assert facts["firmware"] == {"type": kind, "loader": loader, "nvram": nvram}


ENCODINGS = ("ISO-8859-1", "UTF-16", "windows-1252", "UTF-8")
NETWORK_DISKS = {
    "<source protocol='nbd' name='v'/>": "nbd:v",
    "<source protocol='nbd'/>": "nbd",
    "<source protocol='nbd'><host name='2001:db8::1' port='10809'/></source>": (
        "nbd://[2001:db8::1]:10809"
    ),
    "<source protocol='nbd' name='v'><host transport='unix' socket='/run/n'/></source>": (
        "nbd+unix:///v?socket=/run/n"
    ),
    "<source protocol='https' name='/a.iso'><host name='x.org'/></source>": "https://x.org/a.iso",
    "<source protocol='rbd' name='p/i'><host name='a' port='1'/><host name='b'/></source>": (
        "rbd://a:1,b/p/i"
    ),
    "<source name='v'><host name='a'/></source>": None,
}


@pytest.mark.parametrize(("xml", "expected"), NETWORK_DISKS.items(), ids=NETWORK_DISKS.values())
def test_a_disk_on_a_network_is_shown_with_its_server(xml: str, expected: str | None) -> None:
    disk = f"<disk type='network'>{xml}</disk>"
    facts = parse(f"<domain type='kvm'><devices>{disk}</devices></domain>")
    assert facts["disks"][0]["source"] == expected


def test_numbers_and_texts_are_read_as_libvirt_reads_them() -> None:
    """libvirt's own test driver takes this document, and says 512 MiB and this title of it."""
    body = (
        "<domain type='test'><name>x</name><title>Gr\u00f6\u00dfe</title>"
        "<memory>+524288</memory><vcpu>+2</vcpu><os><type>hvm</type></os></domain>"
    )
    for declaration in ("", *(f"<?xml version='1.0' encoding='{name}'?>" for name in ENCODINGS)):
        facts = parse(declaration + body)
        found = facts["title"], facts["memory_max_mib"], facts["vcpus_max"]
        assert found == ("Gr\u00f6\u00dfe", 512, 2), declaration


def test_unknown_things_are_passed_over() -> None:
    facts = parse(read("unknown_things"))
    assert facts["name"] == "future"
    numbers = [facts[key] for key in ("vcpus", "vcpus_max", "memory_mib", "memory_max_mib")]
    assert numbers == [None] * 4
    assert column(facts["disks"], "target", "bus", "device", "type", "source") == [
        ("vda", "light", "prism", "crystal", None),
        (None, None, "disk", "file", None),
    ]
    assert column(facts["nics"], "type", "source", "link", "vlan") == [
        ("telepathy", None, None, [7]),
        (None, None, "up", []),
    ]
    assert column(facts["graphics"], "type", "port") == [("hologram", None), (None, None)]
    assert column(facts["hostdevs"], "type", "source") == [(None, None), ("warp", None)]


def test_a_domain_that_says_nothing_has_every_key() -> None:
    full, empty = parse(read("kvm_running")), parse("<domain/>")
    assert list(empty) == list(full)
    assert list(empty["metadata"]) == list(full["metadata"])
    assert empty["name"] is None


def test_console_is_listed_once_and_only_as_what_it_is() -> None:
    serial = "<serial type='pty'><source path='/dev/pts/1'/><target type='isa-serial'/></serial>"
    console = "<console type='pty' tty='/dev/pts/{0}'><target type='{1}'/></console>"
    cases = {
        serial + console.format(1, "serial"): [("/dev/pts/1", "isa-serial")],
        console.format(1, "serial"): [("/dev/pts/1", "serial")],
        serial + console.format(1, "serial") + console.format(2, "virtio"): [
            ("/dev/pts/1", "isa-serial"),
            ("/dev/pts/2", "virtio"),
        ],
        console.format(4, "sclp"): [("/dev/pts/4", "sclp")],
    }
    for xml, expected in cases.items():
        facts = parse(f"<domain><devices>{xml}</devices></domain>")
        assert column(facts["consoles"], "path", "target") == expected


BOMB = "<!DOCTYPE d [<!ENTITY a 'ha'>{}]><domain><name>&z;</name></domain>".format(
    "".join(
        f"<!ENTITY {name} '{f'&{before};' * 10}'>"
        for before, name in zip("abcdefghijklmnopqrstuvwxy", "bcdefghijklmnopqrstuvwxyz")
    )
)
HOSTILE = {
    "not XML": "virtual machine",
    "nothing": "",
    "cut off": "<domain><name>x",
    "another document": "<network/>",
    "in a namespace": "<domain xmlns='urn:x'/>",
    "entity": "<!DOCTYPE d [<!ENTITY a 'x'>]><domain><name>&a;</name></domain>",
    "external entity": (
        "<!DOCTYPE d [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><domain><name>&a;</name></domain>"
    ),
    "external document type": "<!DOCTYPE d SYSTEM 'http://127.0.0.1:9/x.dtd'><domain/>",
    "expanding entities": BOMB,
    "undeclared entity": "<domain><name>&a;</name></domain>",
    "too deep": "<domain>" + "<a>" * 300 + "</a>" * 300 + "</domain>",
    "deep, with a document type": (
        "<!DOCTYPE domain><domain>" + "<a>" * 257 + "</a>" * 257 + "</domain>"
    ),
    "deep nesting": "<domain>" + "<a>" * 100_000 + "</a>" * 100_000 + "</domain>",
    "deep backing chain": (
        "<domain><devices><disk>{}{}</disk></devices></domain>".format(
            "<backingStore type='file'>" * 5000, "</backingStore>" * 5000
        )
    ),
    "control character": "<domain><name>\x00</name></domain>",
    "too big": "<domain>" + " " * (33 * 1024 * 1024) + "</domain>",
}


@pytest.mark.parametrize("xml", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_documents_are_refused_and_named(xml: str) -> None:
    started = time.process_time()  # not the clock's: others may have the processors
    with pytest.raises(XmlError, match=r"^domain x: "):
        parse(xml)
    assert time.process_time() - started < 5


HUGE = "1" + "0" * 400
HARMLESS = {
    "memory": (f"<memory>{HUGE}</memory>", "memory_max_mib"),
    "memory of nines": (f"<memory>{'9' * 5_000_000}</memory>", "memory_max_mib"),
    "negative": ("<memory>-1</memory>", "memory_max_mib"),
    "fraction": ("<memory>1.5</memory>", "memory_max_mib"),
    "not a number": ("<memory>NaN</memory>", "memory_max_mib"),
    "children in a number": ("<memory><a>1</a></memory>", "memory_max_mib"),
    "vcpus": (f"<vcpu current='{HUGE}'>x</vcpu>", "vcpus"),
}


@pytest.mark.parametrize(("xml", "key"), HARMLESS.values(), ids=HARMLESS.keys())
def test_absurd_numbers_are_unknown(xml: str, key: str) -> None:
    assert parse(f"<domain><name>x</name>{xml}</domain>")[key] is None


def test_the_largest_numbers_libvirt_has_are_read() -> None:
    facts = parse(
        f"<domain><memory unit='KiB'>{2**63 - 1}</memory><vcpu>4294967295</vcpu></domain>"
    )
    assert facts["memory_max_mib"] == 2**53
    assert facts["vcpus"] == 4294967295


def test_a_large_domain_is_read_in_full() -> None:
    disk = "<disk type='file'><source file='/d{0}'/><target dev='d{0}'/></disk>"
    disks = "".join(disk.format(n) for n in range(20_000))
    facts = parse(f"<domain><devices>{disks}</devices></domain>")
    assert [disk["source"] for disk in facts["disks"]] == [f"/d{n}" for n in range(20_000)]


def assert_shape(facts: dict[str, t.Any], like: dict[str, t.Any]) -> None:
    """JSON's types only, and the same keys as any other domain, at every level."""
    assert json.loads(json.dumps(facts)) == facts
    assert list(facts) == list(like)
    for key in ("disks", "nics", "graphics", "consoles", "hostdevs"):
        assert all(list(item) == list(SAMPLES[key]) for item in facts[key])
    assert list(facts["metadata"]) == list(like["metadata"])


LIKE = parse(read("kvm_running"))
SAMPLES = {
    key: items[0]
    for key, items in parse(read("qemu_many_devices")).items()
    if items and isinstance(items, list)
}
VALUES = (
    "",
    " ",
    "-1",
    "0",
    HUGE,
    "file",
    "network",
    "volume",
    "é\u2028",
    "a\nb",
    "%s{0}",
    "../..",
)


def mutate(root: t.Any, rng: random.Random) -> None:
    elements = list(root.iter())
    for _ in range(rng.randint(1, 12)):
        element = rng.choice(elements)
        action = rng.randrange(6)
        if action == 0 and element.getparent() is not None:
            element.getparent().remove(element)
        elif action == 1 and element.getparent() is not None:
            rng.choice(elements).append(copy.deepcopy(element))
        elif action == 2 and element.attrib:
            del element.attrib[rng.choice(list(element.attrib))]
        elif action == 3 and element.attrib:
            element.set(rng.choice(list(element.attrib)), rng.choice(VALUES))
        elif action == 4:
            element.text = rng.choice(VALUES)
        elif action == 5:
            element.tag = rng.choice(elements).tag if element is not root else root.tag


@pytest.mark.parametrize("name", NAMES)
def test_random_changes_never_break_the_shape(name: str) -> None:
    rng = random.Random(f"changes to {name}")  # noqa: S311
    for _ in range(300):
        root = _lxml.parse(read(name), name)
        mutate(root, rng)
        assert_shape(parse(_lxml.tostring(root)), LIKE)


@pytest.mark.parametrize("name", NAMES)
def test_random_damage_gives_facts_or_our_error(name: str) -> None:
    rng = random.Random(f"damage to {name}")  # noqa: S311
    text, outcomes = read(name), {"facts": 0, "error": 0}
    for _ in range(300):
        start = rng.randrange(len(text))
        end = start + rng.choice((0, 1, 1, 3, 40))
        filling = rng.choice(("", "<", "&", "'", "x", "\x01", "9" * 50, text[start:end] * 3))
        try:
            facts = parse(text[:start] + filling + text[end:])
        except XmlError:
            outcomes["error"] += 1
        else:
            assert_shape(facts, LIKE)
            outcomes["facts"] += 1
    assert min(outcomes.values()) > 20  # else the damage is too mild or too severe to tell


@pytest.fixture
def connection() -> t.Iterator[t.Any]:
    libvirt = pytest.importorskip("libvirt")
    opened = libvirt.open("test:///default")
    yield opened
    for domain in opened.listAllDomains():  # the driver's domains outlive the connection
        if domain.name() != "test":
            domain.undefine()
    opened.close()


def test_the_test_drivers_own_domain(connection: t.Any) -> None:
    facts = parse(connection.lookupByName("test").XMLDesc())
    assert_shape(facts, LIKE)
    assert column([facts], "domain_type", "arch", "vcpus", "memory_mib", "memory_max_mib") == [
        ("test", "i686", 2, 2048, 8192)
    ]
    assert facts["firmware"]["type"] is None
    assert column(facts["disks"], "target", "source") == [("vda", "/guest/diskimage1")]
    assert column(facts["nics"], "mac", "type", "source", "target") == [
        ("aa:bb:cc:dd:ee:ff", "network", "default", "testnet0")
    ]


# What libvirt itself decides when it takes a definition: live addresses and device names
DECIDED = {"agent", "domain_type", "arch", "machine", "firmware"}


@pytest.mark.parametrize("name", ["kvm_running", "qemu_many_devices", "aarch64_efi"])
def test_what_libvirt_makes_of_a_definition_reads_the_same(connection: t.Any, name: str) -> None:
    text = re.sub(r"<domain type='\w+'", "<domain type='test'", read(name))
    text = re.sub(r"arch='\w+' machine='[^']+'", "arch='i686'", text)
    written, stored = parse(text), parse(connection.defineXML(text).XMLDesc())
    assert_shape(stored, LIKE)
    for facts in (written, stored):
        facts["disks"].sort(key=lambda disk: disk["target"])  # libvirt orders them by bus
        for nic in facts["nics"]:
            nic["target"] = None
        for console in facts["consoles"]:
            console["path"] = console["target"] = None
        for graphics in facts["graphics"]:
            graphics["port"] = None
    for key in set(written) - DECIDED:
        assert stored[key] == written[key], key


def test_our_metadata_is_json_with_every_key_but_those_for_our_own_use() -> None:
    full = Metadata(
        phase="creating",
        owner=Owner("boot", 4711, 18_446_744_073, "run-1"),
        image=ImageRef("debian-12", "ab" * 32, "qcow2"),
        volumes=(OwnVolume("default", "v", "/v", "vda", "seed", "yes"),),
        request="{}",
        seed="{}",
        move=Move("hv1", "hv2", "run-1", "yes", "running"),
    )
    shown = domain_info.metadata_entry(full, "m")
    assert json.loads(json.dumps(shown)) == shown
    assert set(shown) == {"managed", "problem", *vars(full)} - {
        *("adopted", "broken", "clone_of", "renamed_from", "request", "restored_from"),
        "seed",
    }
    assert set(shown) == set(domain_info.metadata_entry(None, "m"))
    assert shown["owner"] == vars(full.owner)
    assert shown["image"] == vars(full.image)
    assert shown["move"] == vars(full.move)
    assert shown["volumes"] == [
        {"pool": "default", "name": "v", "path": "/v", "target": "vda", "role": "seed"}
    ]
