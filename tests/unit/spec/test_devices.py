# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks and NICs of a specification."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import Problem
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.source import ImageSource
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.devices import Disk, Nic
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options_devices import (
    disk_from,
    nic_from,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.profiles import WrittenDevice

MAC = "52:54:00:12:34:56"


def disk(**options: t.Any) -> tuple[Disk, list[Problem]]:
    problems: list[Problem] = []
    found = disk_from(WrittenDevice("d", options, "p"), problems, pool="default", overlay=True)
    return found, problems


def nic(**options: t.Any) -> tuple[Nic, list[Problem]]:
    problems: list[Problem] = []
    return nic_from(WrittenDevice("eth0", options, "p"), problems, fleet="f", vm="v"), problems


DISKS: list[tuple[dict[str, t.Any], dict[str, t.Any]]] = [
    ({"size": "4GiB"}, {"size": 4096}),
    ({"size": 1, "format": "raw"}, {"format": "raw"}),
    ({"size": 1, "model": "scsi"}, {"bus": "scsi"}),
    ({"size": 1, "bus": "sata", "model": "sata"}, {"bus": "sata"}),
    ({"size": 1, "cache": "writeback", "discard": "ignore"},
     {"cache": "writeback", "discard": "ignore"}),
    ({"size": 1, "io": "native"}, {"io": "native"}),
    ({"size": 1, "io": "threads", "cache": "unsafe"}, {"io": "threads"}),
    ({"size": 1, "pool": "ssd pool"}, {"pool": "ssd pool"}),
    ({"size": 1, "readonly": "yes"}, {"readonly": True}),
    ({"size": 1, "serial": "WD-1"}, {"serial": "WD-1"}),
    ({"volume": "a.qcow2"}, {"format": "qcow2", "exists": True, "overlay": False}),
    ({"volume": "a"}, {"format": "raw", "pool": "default"}),
    ({"dev": "/dev/vg/a"}, {"format": "raw", "exists": True}),
    ({"protocol": "nbd", "hosts": ["[::1]:10809"]}, {"format": "raw", "hosts": ("[::1]:10809",)}),
    ({"size": 1}, {"exists": False}),
    ({"device": "floppy"}, {"bus": "fdc", "format": "raw", "readonly": True, "overlay": False}),
    ({"device": "cdrom"}, {"bus": "scsi", "format": "raw", "readonly": True, "overlay": False}),
    ({"device": "cdrom", "image": "/x.iso"},
     {"overlay": False, "readonly": True, "image": ImageSource("path", "/x.iso")}),
    ({"device": "cdrom", "image": "none"}, {"image": None}),
    ({"image": "none"}, {"image": ImageSource("file", "none")}),
    ({"image": "/x.img"}, {"overlay": True, "size": None, "image": ImageSource("path", "/x.img")}),
]  # fmt: skip


@pytest.mark.parametrize(("options", "fields"), DISKS, ids=lambda value: str(value)[:40])
def test_disk(options: dict[str, t.Any], fields: dict[str, t.Any]) -> None:
    found, problems = disk(**options)
    assert problems == []
    assert {key: getattr(found, key) for key in fields} == fields


BAD_DISKS: list[tuple[dict[str, t.Any], str, str]] = [
    ({}, "size", "for example 8192"),
    ({"size": 0}, "size", "not a size"),
    ({"size": "9PiB"}, "size", "8.0P"),
    ({"size": 1, "format": "vmdk"}, "format", "qcow2, raw"),
    ({"size": 1, "bus": "nvme"}, "bus", "virtio, scsi"),
    ({"volume": "a", "dev": "/dev/b"}, "volume", "volume and dev are given; a disk has one source"),
    ({"volume": "a", "size": 1}, "size", "exists, with its size; leave it out"),
    ({"dev": "/dev/b", "image": "/x.img"}, "image", "exists, with its image"),
    ({"dev": "/dev/b", "pool": "p"}, "pool", "is in no pool"),
    ({"dev": "/srv/b"}, "dev", "below /dev"),
    ({"dev": "/dev/../srv/b"}, "dev", "below /dev"),
    ({"volume": "a/b"}, "volume", "virsh vol-list"),
    ({"protocol": "nbd"}, "hosts", "nbd needs its servers"),
    ({"protocol": "rbd"}, "source_name", "rbd needs the name of what it serves"),
    ({"size": 1, "hosts": ["a"]}, "hosts", "give protocol too"),
    ({"protocol": "rbd", "source_name": "a", "auth_user": "b"}, "auth_user", "go together"),
    ({"protocol": "nbd", "hosts": ["a b"]}, "hosts[0]", "a name or address"),
    ({"size": 1, "model": "virtio", "bus": "scsi"}, "model", "mean the same"),
    ({"size": 1, "cache": "no"}, "cache", "none, writeback"),
    ({"size": 1, "io": "native", "cache": "writeback"}, "io", "needs cache none"),
    ({"size": 1, "readonly": True, "bus": "sata"}, "readonly", "virtio, scsi or usb"),
    ({"size": 1, "readonly": True, "model": "ide"}, "readonly", "virtio, scsi or usb"),
    (
        {"size": 1, "iothread": 1, "bus": "scsi"},
        "iothread",
        "not scsi; use virtio",
    ),
    ({"device": "cdrom", "iothread": 1}, "iothread", "only virtio disks have this, not scsi"),
    ({"size": 1, "iothread": 0}, "iothread", "it must be 1 to 64"),
    ({"size": 1, "serial": "a b"}, "serial", "1 to 20"),
    ({"size": 1, "pool": "a/b"}, "pool", "without '/'"),
    ({"size": 1, "device": "lun"}, "device", "disk, cdrom, floppy"),
    ({"device": "floppy", "size": 1}, "size", "a floppy drive has no size"),
    ({"device": "floppy", "bus": "virtio"}, "bus", "floppy drives use fdc"),
    ({"size": 1, "bus": "fdc"}, "bus", "nothing else does"),
    ({"device": "floppy", "image": "/x.img", "format": "qcow2"}, "format", "a floppy is raw"),
    (
        {"device": "cdrom", "encryption_secret": "a"},
        "encryption_secret",
        "a drive cannot be encrypted",
    ),
    (
        {"protocol": "nbd", "hosts": ["h"], "encryption_secret": "a"},
        "encryption_secret",
        "network disks",
    ),
    ({"size": 5, "format": "raw", "encryption_secret": "a"}, "format", "is made as qcow2"),
    (
        {"image": "/x.img", "overlay": False, "encryption_secret": "a"},
        "overlay",
        "cannot be a copy",
    ),
    ({"device": "cdrom", "size": 5}, "size", "has no size"),
    ({"device": "cdrom", "bus": "virtio"}, "bus", "scsi or sata"),
    ({"device": "cdrom", "image": "/x.iso", "format": "qcow2"}, "format", "a CD is raw, not qcow2"),
    ({"device": "cdrom", "image": "/x.iso", "overlay": True}, "overlay", "cannot be an overlay"),
    ({"size": 8.5}, "size", "8.5GiB"),
    ({"image": "a//b"}, "image", "pool/volume"),
    ({"size": 1, "colour": "red"}, "colour", "unknown option"),
]


@pytest.mark.parametrize(("options", "key", "words"), BAD_DISKS, ids=lambda value: str(value)[:40])
def test_disk_refused(options: dict[str, t.Any], key: str, words: str) -> None:
    _, problems = disk(**options)
    assert [problem.path for problem in problems] == [f"p.{key}"]
    assert words in problems[0].message


NICS: list[tuple[dict[str, t.Any], dict[str, t.Any]]] = [
    ({"bridge": "br0"}, {"type": "bridge", "source": "br0", "model": "virtio", "link": True}),
    ({"network": "storage net"}, {"type": "network", "source": "storage net"}),
    ({"type": "network", "source": "lan"}, {"type": "network", "source": "lan"}),
    ({"type": "bridge", "source": "br-lan.5"}, {"type": "bridge", "source": "br-lan.5"}),
    ({"source": "br1"}, {"type": "bridge", "source": "br1"}),
    ({"bridge": "br0", "mac": MAC.replace("12", "AB")}, {"mac": MAC.replace("12", "ab")}),
    ({"bridge": "br0", "vlan": "4094"}, {"vlan": 4094}),
    ({"bridge": "br0", "link": "down"}, {"link": False}),
    ({"bridge": "br0", "link": "no"}, {"link": False}),
    ({"bridge": "br0", "model": "e1000e"}, {"model": "e1000e"}),
]


@pytest.mark.parametrize(("options", "fields"), NICS, ids=lambda value: str(value)[:40])
def test_nic(options: dict[str, t.Any], fields: dict[str, t.Any]) -> None:
    found, problems = nic(**options)
    assert problems == []
    assert {key: getattr(found, key) for key in fields} == fields


BAD_NICS: list[tuple[dict[str, t.Any], str, str]] = [
    ({}, "bridge", "for example bridge: br0"),
    ({"type": "network"}, "network", "is not attached to anything"),
    ({"bridge": "br0", "network": "lan"}, "bridge", "one source"),
    ({"type": "network", "bridge": "br0"}, "type", "give only one of them"),
    ({"type": "user", "source": "eth0"}, "type", "bridge, network"),
    ({"type": "direct", "source": "eth0", "vlan": 3}, "vlan", "libvirt tags no host interface"),
    ({"type": "direct", "bridge": "br0"}, "type", "give only one of them"),
    ({"bridge": "br0", "mode": "vepa"}, "mode", "it needs type direct"),
    ({"network": "n", "virtualport": "openvswitch"}, "virtualport", "it is for a bridge"),
    ({"bridge": "a" * 16}, "bridge", "1 to 15"),
    ({"bridge": "br 0"}, "bridge", "1 to 15"),
    ({"bridge": "-br0"}, "bridge", "1 to 15"),
    ({"network": "a/b"}, "network", "without '/'"),
    ({"bridge": "br0", "vlan": 0}, "vlan", "1 to 4094"),
    ({"bridge": "br0", "vlan": "x"}, "vlan", "digits only"),
    ({"bridge": "br0", "model": "virto"}, "model", "virtio"),
    ({"bridge": "br0", "link": "sideways"}, "link", "true or false"),
    ({"bridge": "br0", "mac": "52:54:00"}, "mac", "in quotes"),
    ({"bridge": "br0", "mac": 41135000}, "mac", "in quotes"),  # YAML 1.1: a number to base 60
    ({"bridge": "br0", "mac": "52-54-00-12-34-56"}, "mac", "in quotes"),
    ({"bridge": "br0", "mac": "01:00:5e:00:00:01"}, "mac", "group address"),
    ({"bridge": "br0", "mac": "00:00:00:00:00:00"}, "mac", "zero"),
    ({"bridge": "br0", "mac": "fe:54:00:12:34:56"}, "mac", "fe"),
    ({"bridge": "br0", "ip": "10.0.0.1"}, "ip", "unknown option"),
]


@pytest.mark.parametrize(("options", "key", "words"), BAD_NICS, ids=lambda value: str(value)[:40])
def test_nic_refused(options: dict[str, t.Any], key: str, words: str) -> None:
    _, problems = nic(**options)
    assert [problem.path for problem in problems] == [f"p.{key}"]
    assert words in problems[0].message
