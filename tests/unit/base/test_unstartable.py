# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The definition that nobody can start. That libvirt refuses it is tested on the laboratory."""

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.unstartable import (
    marked,
    unmark,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import domain_info

PLAIN = "<domain type='kvm'><name>web1</name></domain>"
OLD = """
<domain type='kvm'><name>web1</name>
<metadata><other xmlns='urn:other'/>
<f:fleet xmlns:f='urn:fleet.virt:1'><f:group>a</f:group></f:fleet>
</metadata><devices><disk type='file'><source file='/a'/><target dev='vda'/></disk></devices>
</domain>
"""


def test_marked_keeps_everything_else() -> None:
    stored = Metadata(phase="purging", groups=("b",))
    for text in (PLAIN, OLD):
        before = _lxml.parse(text, "domain")
        same = _lxml.tostring(_lxml.parse(text, "domain"))
        once = marked(before, stored, "/nowhere")
        assert _lxml.tostring(before) == same
        root = _lxml.parse(once, "domain")
        assert metadata.parse(root) == stored
        drives = [one for one in root.iter("source") if one.get("file") == "/nowhere"]
        assert [drive.get("startupPolicy") for drive in drives] == ["mandatory"]
        again = _lxml.parse(marked(root, stored, "/elsewhere"), "domain")
        assert len(list(again.iter("disk"))) == len(list(root.iter("disk")))
    root = _lxml.parse(marked(_lxml.parse(OLD, "domain"), stored, "/nowhere"), "domain")
    assert root.find("metadata/{urn:other}other") is not None
    assert root.find("devices/disk/source").get("file") == "/a"


def _place(*devices: str) -> str | None:
    """The unit of the drive in a VM with these devices."""
    text = f"<domain type='kvm'><name>web1</name><devices>{''.join(devices)}</devices></domain>"
    root = _lxml.parse(marked(_lxml.parse(text, "domain"), Metadata(), "/nowhere"), "domain")
    address = root.find("devices/disk[driver]/address")
    if address is None:
        return None
    assert [address.get(name) for name in ("type", "controller", "target")] == ["drive", "0", "0"]
    return str(address.get("unit"))


def _disk(name: str, unit: int | None = None, controller: int = 0, bus: str = "scsi") -> str:
    place = f"<address type='drive' controller='{controller}' unit='{unit}'/>"
    known = "" if unit is None else place
    return f"<disk type='file'><target dev='{name}' bus='{bus}'/>{known}</disk>"


def test_the_drive_needs_one_controller_at_most() -> None:
    """libvirt would add 20 for its name."""
    assert _place() == "0"
    assert _place(_disk("vda", bus="virtio"), _disk("sda", 0, bus="sata")) == "0"
    assert _place(_disk("sda", 0), _disk("sdc", 2), _disk("sdx", 1, controller=1)) == "1"
    passed = (
        "<hostdev type='scsi'><source/><address type='drive' controller='0' unit='0'/></hostdev>"
    )
    assert _place(passed) == "1"
    # libvirt chooses: it has not said where these are, or there is no room
    assert _place(_disk("sda")) is None
    assert _place(*(_disk(f"sd{letter}", unit) for unit, letter in enumerate("abcdefg"))) is None


def test_unmark_takes_the_drive_and_nothing_else() -> None:
    plain = _lxml.parse(OLD, "domain")
    root = _lxml.parse(marked(plain, Metadata(phase="seeding"), "/nowhere"), "domain")
    for _turn in range(2):
        unmark(root)
        files = [source.get("file") for source in root.iter("source")]
        assert files == ["/a"]
    unmark(_lxml.parse(PLAIN, "domain"))


def test_no_reader_shows_the_drive() -> None:
    stored = Metadata(phase="creating")
    text = marked(_lxml.parse(OLD, "domain"), stored, "/nowhere")
    assert [one["source"] for one in domain_info.parse(text, "domain")["disks"]] == ["/a"]
    own = OLD.replace("'vda'", "'sdzz'")  # somebody's own, of a VM that is in no phase
    assert [one["target"] for one in domain_info.parse(own, "domain")["disks"]] == ["sdzz"]
