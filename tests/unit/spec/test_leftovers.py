# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a copy has of its source's definition beside its settings; the table, and all of libvirt's
schema."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import XmlError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import export as described
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.settings import Group
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import leftovers, settings
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.leftover_rules import (
    LINES,
    Place,
    line_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.leftovers import Leftovers
from ansible_collections.fleet.virt.tests.unit._xml import SCHEMAS, assert_valid
from lxml import etree

_RNG = "{http://relaxng.org/ns/structure/1.0}"
# QEMU's and other programs' own elements, which the schema allows in any definition: they stand in
# no line, and are refused
_FOREIGN = {"commandline", "capabilities", "override", "deprecation", "datacenterpath"}
_FOREIGN |= {"namespace"}
_DOMAIN = """
<domain type='qemu'{more}><name>web1</name><uuid>5d1b2f4e-8a0c-4d4e-9a57-3f1f6e2b7c11</uuid>{above}
<memory unit='KiB'>131072</memory><currentMemory unit='KiB'>131072</currentMemory>
<vcpu placement='static'>1</vcpu><os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type>
<boot dev='hd'/></os>
<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/a.img'/>
<target dev='vda' bus='virtio'/>{disk}</disk>
<interface type='network'><mac address='52:54:00:00:00:01'/><source network='lan'/>
<model type='virtio'/>{nic}</interface>{devices}</devices></domain>
"""


def _source(**parts: str) -> str:
    empty = dict.fromkeys(("more", "above", "disk", "nic", "devices"), "")
    return _DOMAIN.format(**{**empty, **parts})


def _found(**parts: str) -> tuple[Leftovers, t.Any]:
    """The leftovers of a VM, and the definition that its specification alone results in."""
    text = _source(**parts)
    host = described.Host("x86_64", "qemu")
    found = described.describe(
        described.DefinedDomain("web1", text, True, sizes={"vda": 1 << 20}), host
    )
    assert found.domain is not None, found.problems
    written = described.undescribed.rendered(found.domain, _lxml.parse(text, "web1"))
    return found.leftovers, written


def _copy(requested: t.Collection[str] = (), **parts: str) -> t.Any:
    """The definition of a copy; what is in it is what libvirt's schema allows."""
    found, root = _found(**parts)
    assert found.refused == ()
    leftovers.merge(root, found.carried, settings.VM, requested)
    text = _lxml.tostring(root)
    assert "urn:fleet.virt:leftovers" not in text
    assert_valid(text, "domain")
    return _lxml.parse(text, "the copy")


def _one(root: t.Any, path: str) -> t.Any:
    (found,) = root.findall(path)
    return found


_SYSINFO = (
    "<sysinfo type='smbios'><bios><entry name='vendor'>A</entry></bios>"
    "<system><entry name='family'>web</entry><entry name='serial'>S-1</entry>"
    "<entry name='uuid'>5d1b2f4e-8a0c-4d4e-9a57-3f1f6e2b7c11</entry>"
    "</system><oemStrings><entry>one</entry><entry>two</entry></oemStrings></sysinfo>"
)


def test_smbios_is_carried_without_the_uuid() -> None:
    root = _copy(above=_SYSINFO)
    assert [one.text for one in root.findall("sysinfo/oemStrings/entry")] == ["one", "two"]
    assert [one.get("name") for one in root.findall("sysinfo/system/entry")] == ["family"]
    assert root.findtext("sysinfo/bios/entry") == "A"


def test_identities_are_made_anew() -> None:
    root = _copy(
        above="<genid>5d1b2f4e-8a0c-4d4e-9a57-3f1f6e2b7c11</genid>"
        "<seclabel type='dynamic' model='selinux' relabel='yes'><label>a:b:c</label></seclabel>",
        devices="<vsock model='virtio'><cid auto='no' address='77'/></vsock>",
        nic="<virtualport type='openvswitch'><parameters"
        " interfaceid='5d1b2f4e-8a0c-4d4e-9a57-3f1f6e2b7c11' profileid='web'/></virtualport>"
        "<target dev='vnet7'/>",
    )
    assert _one(root, "genid").text is None
    assert dict(_one(root, "devices/vsock/cid").attrib) == {"auto": "yes"}
    assert len(_one(root, "seclabel")) == 0
    parameters = _one(root, "devices/interface/virtualport/parameters")
    assert dict(parameters.attrib) == {"profileid": "web"}
    assert root.find("devices/interface/target") is None


def test_copy_lacks_addresses_and_serial_numbers_of_its_source() -> None:
    parts = {
        "above": "<sysinfo type='smbios'><baseBoard><entry name='serial'>B-1</entry></baseBoard>"
        "<chassis><entry name='asset'>C-1</entry><entry name='version'>2</entry></chassis>"
        "</sysinfo>",
        "nic": "<filterref filter='clean-traffic'><parameter name='IP' value='192.0.2.7'/>"
        "<parameter name='IPV6' value='2001:db8::7'/>"
        "<parameter name='MAC' value='52:54:00:00:00:01'/>"
        "<parameter name='VMADDR' value='192.0.2.7/32'/></filterref>",
    }
    root = _copy(**parts)
    assert [one.text for one in root.iterfind("sysinfo/*/entry")] == ["2"]
    assert _one(root, "devices/interface/filterref").get("filter") == "clean-traffic"
    assert root.find("devices/interface/filterref/parameter") is None
    filtered = "devices/interface[@type='network']/filterref/parameter"
    assert _found(**parts)[0].left_out == (
        "sysinfo/baseBoard/entry[@name='serial']",
        "sysinfo/chassis/entry[@name='asset']",
        f"{filtered}[@name='IP']",
        f"{filtered}[@name='IPV6']",
        f"{filtered}[@name='VMADDR']",
    )


@pytest.mark.parametrize(
    ("bound", "parameters"),
    [
        (["IP"], [("IP", "192.0.2.10"), ("IP", "192.0.2.11")]),
        (
            ["IP", "IP", "IPV6"],
            [("IP", "192.0.2.10"), ("IP", "192.0.2.11"), ("IPV6", "2001:db8::a")],
        ),
        ([], []),
    ],
)
def test_filter_of_a_copy_is_bound_to_its_own_addresses(
    bound: list[str], parameters: list[tuple[str, str]]
) -> None:
    """Only where its source's is bound: a filter without an address learns it."""
    values = "".join(f"<parameter name='{name}' value='192.0.2.7'/>" for name in bound)
    found, root = _found(nic=f"<filterref filter='clean-traffic'>{values}</filterref>")
    assert "192.0.2.7" not in str(found.carried)
    mac = root.find("devices/interface/mac").get("address")
    own = {mac.lower(): ("192.0.2.10/24", "2001:db8::a/64", "192.0.2.11/24"), "x": ("192.0.2.99",)}
    leftovers.merge(root, found.carried, settings.VM, (), own)
    assert_valid(_lxml.tostring(root), "domain")
    made = root.findall("devices/interface/filterref/parameter")
    assert [(one.get("name"), one.get("value")) for one in made] == parameters


def test_parts_of_a_nic_stay_with_that_nic() -> None:
    root = _copy(
        nic="<filterref filter='clean-traffic'><parameter name='DHCPSERVER' value='192.0.2.7'/>"
        "<parameter name='DHCPSERVER' value='192.0.2.8'/></filterref>",
        devices="<interface type='bridge'><mac address='52:54:00:00:00:02'/><source bridge='br0'/>"
        "<model type='ne2k_pci'/><coalesce><rx><frames max='7'/></rx></coalesce></interface>",
    )
    first, second = root.findall("devices/interface")
    assert [one.get("value") for one in first.iterfind("filterref/parameter")] == [
        "192.0.2.7",
        "192.0.2.8",
    ]
    assert (first.find("coalesce"), second.find("filterref")) == (None, None)
    assert second.find("model").get("type") == "ne2k_pci"
    assert second.find("coalesce/rx/frames").get("max") == "7"


def test_second_of_a_kind_is_added_beside_the_first() -> None:
    root = _copy(
        above="<memoryBacking><hugepages><page size='1048576' unit='KiB'/>"
        "<page size='2048' unit='KiB' nodeset='0'/></hugepages></memoryBacking>"
    )
    pages = root.findall("memoryBacking/hugepages/page")
    assert [(one.get("size"), one.get("nodeset")) for one in pages] == [
        ("1048576", None),
        ("2048", "0"),
    ]


def test_controllers_are_the_sources_apart_from_the_topology_of_pci() -> None:
    root = _copy(
        devices="<controller type='scsi' index='0' model='lsilogic'/>"
        "<controller type='scsi' index='1' model='virtio-scsi'><driver queues='4'/></controller>"
        "<controller type='pci' index='0' model='pcie-root'><pcihole64 unit='KiB'>1048576"
        "</pcihole64></controller>"
        "<controller type='pci' index='1' model='pcie-root-port'><target chassis='1' port='0x8'/>"
        "<address type='pci' domain='0' bus='0' slot='1' function='0'/></controller>"
        "<disk type='file' device='cdrom'><target dev='sda' bus='scsi'/><readonly/></disk>",
    )
    scsi = root.findall("devices/controller[@type='scsi']")
    assert [one.get("model") for one in scsi] == ["lsilogic", "virtio-scsi"]
    assert scsi[1].find("driver").get("queues") == "4"
    assert root.findtext("devices/controller[@index='0']/pcihole64") == "1048576"
    assert root.find("devices/controller/address") is None


def test_a_device_that_differs_is_the_sources() -> None:
    root = _copy(
        devices="<rng model='virtio'><rate bytes='1024' period='2000'/><backend model='builtin'/>"
        "</rng><memballoon model='virtio' autodeflate='on'/>",
    )
    rng = _one(root, "devices/rng")
    assert dict(rng.find("rate").attrib) == {"bytes": "1024", "period": "2000"}
    assert rng.find("backend").get("model") == "builtin"
    assert not rng.findtext("backend")
    assert _one(root, "devices/memballoon").get("autodeflate") == "on"


def test_a_setting_that_is_requested_replaces_what_the_source_has() -> None:
    parts = {
        "above": "<cpu mode='host-passthrough' check='none' migratable='on'/>",
        "nic": "<filterref filter='clean-traffic'><parameter name='DHCPSERVER' value='192.0.2.7'/>"
        "</filterref>",
    }
    assert _copy(**parts).find("cpu").get("migratable") == "on"
    root = _copy(("cpu", "nics"), **parts)
    assert root.find("cpu").get("migratable") is None
    assert root.find("devices/interface/filterref/parameter") is None


def test_an_order_of_kinds_of_devices_and_one_of_devices_exclude_each_other() -> None:
    root = _copy()
    assert (len(root.findall("os/boot")), len(root.findall("devices/disk/boot"))) == (1, 0)
    root = _copy(("boot",))
    assert (len(root.findall("os/boot")), len(root.findall("devices/disk/boot"))) == (0, 1)


_QEMU = " xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'"


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({"more": _QEMU, "above": "<qemu:commandline/>"}, "qemu:commandline"),
        ({"above": "<metadata><a:b xmlns:a='urn:a'/></metadata>"}, "metadata/a:b"),
        ({"above": "<whatsnew/>"}, "whatsnew"),
        ({"devices": "<shmem name='a'/>"}, "devices/shmem"),
        ({"devices": "<whatsnew/>"}, "devices/whatsnew"),
        (
            {"devices": "<hostdev mode='subsystem' type='mdev' model='vfio-pci'/>"},
            "devices/hostdev[@type='mdev']",
        ),
        ({"devices": "<interface type='ethernet'/>"}, "devices/interface[@type='ethernet']"),
        ({"nic": "<script path='/a'/>"}, "devices/interface[@type='network']/script"),
        ({"disk": "<whatsnew/>"}, "devices/disk[target/@dev='vda']/whatsnew"),
        (
            {"devices": "<rng model='virtio'><backend model='random'>/etc/shadow</backend></rng>"},
            "devices/rng[@model='virtio']/backend",
        ),
        (
            {"devices": "<memory model='nvdimm'><source><path>/a</path></source></memory>"},
            "devices/memory[@model='nvdimm']",
        ),
    ],
)
def test_what_a_copy_cannot_have_is_refused_by_its_path(parts: dict[str, str], path: str) -> None:
    assert _found(**parts)[0].refused == (path,)


def test_what_libvirt_adds_by_itself_is_nothing_to_refuse_or_to_list() -> None:
    xml = _source(
        above="<resource><partition>/machine</partition></resource>",
        devices="<emulator>/usr/bin/qemu-system-x86_64</emulator>"
        "<controller type='usb' index='0' model='qemu-xhci'/><input type='mouse' bus='ps2'/>"
        "<audio id='1' type='none'/><console type='pty'><target type='serial' port='0'/></console>"
        "<serial type='pty'><target type='isa-serial' port='0'><model name='isa-serial'/></target>"
        "</serial><watchdog model='itco' action='reset'/>",
    )
    found = described.DefinedDomain("web1", xml, True, sizes={"vda": 1 << 20})
    assert described.describe(found, described.Host("x86_64", "qemu")).left == ()


def test_what_no_setting_says_is_named_though_a_copy_has_it() -> None:
    xml = _source(
        above="<genid>5d1b2f4e-8a0c-4d4e-9a57-3f1f6e2b7c11</genid>"
        "<cpu mode='host-passthrough' check='none' migratable='on'/>"
        "<sysinfo type='smbios'><system><entry name='serial'>S-1</entry>"
        "<entry name='family'>web</entry></system></sysinfo>",
        nic="<target dev='tap-web1'/><filterref filter='clean-traffic'>"
        "<parameter name='IP' value='192.0.2.7'/><parameter name='MAC' value='52:54:00:00:00:01'/>"
        "<parameter name='DHCPSERVER' value='192.0.2.1'/></filterref>",
        devices="<vsock model='virtio'><cid auto='no' address='77'/></vsock>"
        "<controller type='scsi' index='0' model='virtio-scsi'><driver queues='4'/></controller>",
    )
    found = described.DefinedDomain("web1", xml, True, sizes={"vda": 1 << 20})
    parameter = "devices/interface[@type='network']/filterref/parameter"
    assert set(described.describe(found, described.Host("x86_64", "qemu")).left) == {
        "genid",
        "sysinfo",
        "devices/interface[@type='network']/target",
        *(f"{parameter}[@name='{name}']" for name in ("IP", "MAC", "DHCPSERVER")),
        "devices/vsock[@model='virtio']",
        "devices/controller[@type='scsi']/driver",
    }


@pytest.mark.parametrize(
    "carried",
    [
        "<devices><emulator>/bin/evil</emulator></devices>",
        "<a:commandline xmlns:a='http://libvirt.org/schemas/domain/qemu/1.0'/>",
        "<devices><disk f:counterpart='0' f:set=''><source file='/etc/shadow' f:set='@file'/>"
        "</disk></devices>",
        "<devices><interface type='network' f:counterpart='0' f:set=''>"
        "<script path='/a'/></interface></devices>",
        "<devices><rng model='virtio'><backend model='random'>/etc/passwd</backend></rng>"
        "</devices>",
        "<devices><vsock><cid auto='no' address='7'/></vsock></devices>",
        "<metadata><fleet xmlns='urn:fleet.virt:1'/></metadata>",
        "<memory>1</memory>",
        *(
            "<devices><interface f:counterpart='0' f:set=''><filterref filter='a'>"
            f"<parameter name='IP'{more}</filterref></interface></devices>"
            for more in (" value='192.0.2.7'/>", "><a/></parameter>", ">x</parameter>")
        ),
    ],
)
def test_a_hypervisor_cannot_bring_anything_else_into_a_copy(carried: str) -> None:
    root = _found()[1]
    text = f"<domain xmlns:f='urn:fleet.virt:leftovers:1'>{carried}</domain>"
    before = _lxml.tostring(root)
    with pytest.raises(XmlError, match="is not carried over"):
        leftovers.merge(root, text, settings.VM, ())
    assert _lxml.tostring(root) == before


def _defines() -> dict[str, list[t.Any]]:
    """The named parts of libvirt's schema of a domain."""
    found: dict[str, list[t.Any]] = {}
    queue, seen = ["domain.rng"], set()
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        root = etree.parse(str(SCHEMAS / name)).getroot()
        queue += [str(one.get("href")) for one in root.iter(f"{_RNG}include")]
        for one in root.iter(f"{_RNG}define", f"{_RNG}start"):
            found.setdefault(one.get("name") or "start", []).append(one)
    return found


def _names(element: t.Any) -> list[str]:
    given = element.get("name")
    if given:
        return [given]
    return [one.text.strip() for one in element.iterfind(f"{_RNG}choice/{_RNG}name")] or [
        one.text.strip() for one in element.iterfind(f"{_RNG}name")
    ]


def _paths(defines: dict[str, list[t.Any]]) -> set[str]:
    """The path of every element and attribute that the schema allows, below the domain."""
    found: set[str] = set()
    seen: set[tuple[t.Any, str]] = set()

    def walk(node: t.Any, path: str) -> None:
        if (node, path) in seen or path.count("/") > 6:  # backing files have backing files
            return
        seen.add((node, path))
        for child in node:
            tag = child.tag if isinstance(child.tag, str) else ""
            if tag == f"{_RNG}ref":
                for one in defines[child.get("name")]:
                    walk(one, path)
            elif tag == f"{_RNG}attribute":
                found.update(f"{path}/@{name}" for name in _names(child))
            elif tag == f"{_RNG}element":
                for name in _names(child):
                    found.add(f"{path}/{name}")
                    walk(child, f"{path}/{name}")
            else:
                walk(child, path)

    for start in defines["start"]:
        walk(start, "")
    return {one.removeprefix("/domain/") for one in found if one.startswith("/domain/")}


def _owned() -> Iterator[str]:
    """The places of all settings."""
    for row in settings.VM:
        inner = row.settings if isinstance(row, Group) else (row,)
        for one in inner if not isinstance(row, Group) or row.xml else ():
            places = (one.xml,) if isinstance(one.xml, str) else one.xml.places
            above = f"{row.xml}/" if isinstance(row, Group) else ""
            yield from (f"{above}{place.partition('[')[0]}" for place in places if place)


def _in_a_line(path: str) -> bool:
    names = path.split("/")
    for line in LINES:
        heads = [one.partition("[")[0] for one in line.segments]
        if len(heads) <= len(names) and all(
            head == name or (head == "*" and not name.startswith("@"))
            for head, name in zip(heads, names)
        ):
            return True
    return False


def test_all_of_libvirts_schema_is_a_setting_or_a_line_of_the_table() -> None:
    paths = _paths(_defines())
    assert len(paths) > 1500
    owned = set(_owned())
    containers = {"devices", "os", "metadata"}
    missing = {
        path
        for path in paths - owned - containers
        if not _in_a_line(path)
        and not any(path.startswith(f"{one}/") for one in owned)
        and path.split("/")[0] not in _FOREIGN
    }
    assert missing == set()


def test_every_line_of_the_table_is_about_something_that_libvirt_has_or_had() -> None:
    """No line is misspelt: its elements are libvirt's, of this version or of a later one."""
    tags = {name for path in _paths(_defines()) for name in path.split("/")}
    later = {"hwuuid", "@hwuuid", "varstore", "shim", "dataStore", "throttlefilters"}
    later |= {"throttlegroups", "hostData", "idBlock", "idAuth", "pstore", "initgroup"}
    later |= {
        "@writeFiltering",
        "@guestReset",
        "@websocketGenerated",
        "@hostname",
        "@debug",
        "crypto",
    }
    unknown = {
        head
        for line in LINES
        for head in (one.partition("[")[0] for one in line.segments)
        if head != "*" and not head.startswith("{") and head not in tags
    }
    assert unknown <= later


def test_the_longest_line_decides() -> None:
    root = _lxml.parse(
        "<domain><devices><controller type='pci' model='pcie-expander-bus'/>"
        "<controller type='pci' model='pcie-root-port'/><controller type='usb'/></devices>"
        "</domain>",
        "a domain",
    )
    devices = root[0]
    fates = [t.cast("t.Any", line_of(Place((devices, one)))).fate for one in devices]
    assert fates == ["refused", "made", "carried"]
    assert line_of(Place((devices,), "whatever")) is None
