# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exported VMs are read as three tools write them, and become specifications."""

from __future__ import annotations

import hashlib
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing import (
    decide,
    ovf,
    read_source,
    specification,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing.facts import (
    Converted,
    ConvertedImage,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import many
from ansible_collections.fleet.virt.tests.unit.importing import packages

MIB = 1 << 20
BRIDGE = {"bridge": "br0"}


def spec(
    source: read_source.ImportSource, networks: object = None, **given: object
) -> dict[str, object]:
    profiles = {"lan": {"eth0": {"network": "lan", "model": "virtio"}}}
    overrides = {key: value for key, value in given.items() if key != "bus"}
    bus = str(given["bus"]) if "bus" in given else None
    described = specification.of_archive(
        source.vm, source.sizes, networks, profiles, bus, overrides
    )
    _domains, problems = many([{**described, **overrides}], path="vms")
    assert not problems
    return described


def test_ova_of_virtualbox_becomes_specification(tmp_path: Path) -> None:
    path = packages.ova(tmp_path / "web.ova", packages.virtualbox(), packages.stream(tmp_path))
    source = read_source.source(str(path), verify=True)
    assert spec(source, {"NAT": BRIDGE}) == {
        "name": "web",
        "vcpus": 2,
        "memory": 1024,
        "firmware": "uefi",
        "disk_profile": "none",
        "disks": [{"name": "disk1", "size": 64, "format": "qcow2", "bus": "sata"}],
        "nic_profile": "none",
        "nics": [{"name": "eth0", "model": "e1000", "bridge": "br0"}],
    }
    assert source.vm.left_out == ("USB controller", "sound card")
    ((file, known),) = [disk for disk in source.disks if disk]
    assert (known.format, file.whole, file.offset % 512) == ("vmdk", False, 0)


def test_ovf_of_vmware_becomes_specification(tmp_path: Path) -> None:
    packages.stream(tmp_path, "db-disk1.vmdk")
    (tmp_path / "db.ovf").write_text(packages.vmware())
    source = read_source.source(str(tmp_path / "db.ovf"), verify=True)
    found = spec(source, {"VM Network": "lan"})
    assert (found["name"], found["vcpus"], found["memory"]) == ("db-server", 4, 2048)
    assert (found["firmware"], found["secure_boot"], found["machine"]) == ("uefi", True, "q35")
    assert found["disks"] == [
        {"name": "disk1", "size": 64, "format": "qcow2", "bus": "sata"},
        {"name": "disk2", "size": 2048, "format": "qcow2", "bus": "sata"},
    ]
    assert found["nics"] == [{"name": "eth0", "model": "vmxnet3", "network": "lan"}]
    assert source.disks[1] is None
    assert source.vm.left_out == ("CD drive",)


def test_ova_of_ovirt_becomes_specification(tmp_path: Path) -> None:
    disk = packages.convert(tmp_path, "5b3f9a2c-6f0e-4d3c-9f43-0c1a2b3c4d5e", "-O", "qcow2")
    path = packages.ova(tmp_path / "vm.ova", packages.ovirt(), disk, form=tarfile.PAX_FORMAT)
    source = read_source.source(str(path), verify=True)
    found = spec(source, {"ovirtmgmt": BRIDGE})
    assert (found["name"], found["vcpus"], found["memory"]) == ("app", 3, 1024)
    assert found["disks"] == [{"name": "disk1", "size": 64, "format": "qcow2", "bus": "virtio"}]
    assert found["nics"] == [{"name": "eth0", "model": "virtio", "bridge": "br0"}]
    assert "firmware" not in found


@pytest.mark.parametrize(
    ("options", "kind", "bus"),
    [
        (("-O", "vmdk"), "vmdk", "sata"),
        (("-O", "vmdk", "-o", "subformat=streamOptimized"), "vmdk", "sata"),
        (("-O", "vhdx"), "vhdx", "sata"),
        (("-O", "vhdx", "-o", "subformat=fixed"), "vhdx", "sata"),
        (("-O", "qcow2"), "qcow2", "virtio"),
        (("-O", "raw"), "raw", "virtio"),
    ],
)
def test_single_disk_becomes_specification(
    options: tuple[str, ...], kind: str, bus: str, tmp_path: Path
) -> None:
    path = packages.convert(tmp_path, "old vm.img", *options)
    source = read_source.source(str(path), verify=True)
    ((_file, known),) = [disk for disk in source.disks if disk]
    assert (known.format, known.virtual_bytes) == (kind, 64 * MIB)
    found = spec(source)
    assert found["name"] == "old-vm"
    assert found["disks"] == [{"name": "disk1", "size": 64, "format": "qcow2", "bus": bus}]
    assert "nics" not in found
    assert spec(source, bus="scsi")["disks"] == [
        {"name": "disk1", "size": 64, "format": "qcow2", "bus": "scsi"}
    ]


def test_settings_of_the_user_replace_those_of_the_archive() -> None:
    vm = ovf.parse(packages.virtualbox().encode())
    found = specification.of_archive(
        vm, [64 * MIB], None, None, None, {"memory": "4GiB", "nic_profile": "default"}
    )
    assert "memory" not in found
    assert "nics" not in found
    with pytest.raises(PlanRefused, match="vm_image: an imported VM has the disks"):
        specification.of_archive(vm, [64 * MIB], None, None, None, {"image": "debian12"})


@pytest.mark.parametrize(
    ("networks", "words"),
    [
        (None, "does not say what is 'NAT'"),
        ({"nat": BRIDGE}, "does not say what is 'NAT'"),
        ({"NAT": "wan"}, "'wan'"),
        ({"NAT": 3}, "3 for 'NAT' is neither settings"),
        ("br0", "'br0' is not a mapping of networks"),
        ({"NAT": "two"}, "the profile 'two' has 2 NICs"),
    ],
)
def test_network_that_is_not_mapped_is_refused(networks: object, words: str) -> None:
    vm = ovf.parse(packages.virtualbox().encode())
    profiles = {"two": {"eth0": BRIDGE, "eth1": BRIDGE}}
    with pytest.raises(PlanRefused) as refused:
        specification.of_archive(vm, [64 * MIB], networks, profiles, None, {})
    assert words in str(refused.value)
    assert "virt_import_networks" in str(refused.value)


Change = Callable[[str], str]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("/disk/vmdisk1", "/disk/vmdisk9"), "does not describe"),
        (lambda text: text.replace('fileRef="file1"', 'fileRef="file9"'), "in the file 'file9'"),
        (lambda text: text.replace('ovf:fileRef="file1"', 'ovf:parentRef="x"'), "(a snapshot)"),
        (
            lambda text: text.replace('"web-disk001.vmdk"', '"x.vmdk" ovf:chunkSize="2147483648"'),
            "is split into several",
        ),
        (
            lambda text: text.replace('"web-disk001.vmdk"', '"x.vmdk" ovf:compression="gzip"'),
            "is compressed",
        ),
        (lambda text: text.replace(">1024<", ">lots<"), "'lots' and no number"),
        (lambda text: text.replace("MegaBytes", "furlongs"), "'furlongs', which is none"),
        (lambda text: text.replace("Envelope", "domain"), "is 'domain' and no OVF Envelope"),
        (
            lambda text: text.replace("</Envelope>", '<VirtualSystem ovf:id="b"/></Envelope>'),
            "has 2 VMs",
        ),
    ],
)
def test_descriptor_that_cannot_be_imported_is_refused(change: Change, words: str) -> None:
    text = packages.virtualbox()
    assert change(text) != text
    with pytest.raises(PlanRefused) as refused:
        ovf.parse(change(text).encode())
    assert words in str(refused.value)


def image(volume: str = f"{'a' * 64}-web-import-disk1.qcow2", pool: str = "base") -> ConvertedImage:
    return {
        "disk": "disk1",
        "name": "web-import-disk1",
        "digest": "a" * 64,
        "format": "qcow2",
        "pool": pool,
        "volume": volume,
        "path": f"/var/lib/libvirt/{pool}/{volume}",
        "size_mib": 64,
    }


SPEC: dict[str, object] = {"name": "web", "disks": [{"name": "disk1", "size": 64}]}


def test_vm_that_exists_is_requested_without_images() -> None:
    request = decide.request(SPEC, {"memory": 512}, ["disk1"], {"hv1": {"skipped": True}})  # type: ignore[typeddict-unknown-key]
    assert request.vms == [{**SPEC, "memory": 512}]
    assert (request.images, request.hypervisor, request.intermediate) == ({}, "", [])


def test_converted_disks_are_full_copies_where_they_are() -> None:
    request = decide.request(SPEC, {}, ["disk1"], {"hv1": {"images": [image()]}})
    value = f"base/{'a' * 64}-web-import-disk1.qcow2"
    disk = {"name": "disk1", "size": 64, "image": value, "overlay": False}
    assert request.vms == [{"name": "web", "disks": [disk], "host": "hv1"}]
    assert request.images[value]["virtual_bytes"] == 64 * MIB
    assert request.intermediate == [f"{'a' * 64}-web-import-disk1.qcow2"]
    placed = decide.request(SPEC, {"host": "hv1"}, ["disk1"], {"hv1": {"images": [image()]}})
    assert placed.vms[0]["host"] == "hv1"


def test_image_of_another_is_not_removed() -> None:
    other = image(f"{'a' * 64}-golden.qcow2")
    assert decide.request(SPEC, {}, ["disk1"], {"hv1": {"images": [other]}}).intermediate == []


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"hv1": Converted(failed=True, msg="no space")}, "hv1: no space"),
        ({"hv1": Converted(images=[])}, "made no image of disk1"),
        ({"hv1": Converted(images=[image("web.qcow2")])}, "'web.qcow2' is no base image"),
        ({"hv1": Converted(images=[image(pool="../x")])}, "is no base image"),
        ({"hv1": Converted(images=[image()]), "hv2": Converted(images=[])}, "hv1, hv2 converted"),
    ],
)
def test_answer_without_images_creates_nothing(answers: dict[str, Converted], words: str) -> None:
    with pytest.raises(FleetVirtError) as refused:
        decide.request(SPEC, {}, ["disk1"], answers)
    assert words in str(refused.value)


_BOOT = '<vmw:BootOrderSection xmlns:vmw="v" vmw:instanceId="72" vmw:type="disk"/>'


def _two(controllers: str, first: str, second: str, *, disk: str = "", more: str = "") -> str:
    """A VM with the disks a.vmdk, whose item comes first, and b.vmdk."""
    text = packages.virtualbox("a.vmdk", more=packages.item(17, **_values(second)))
    old = packages.item(17, HostResource="/disk/vmdisk1", Parent=20, AddressOnParent=0)
    text = text.replace(old, packages.item(17, **_values(first)))
    for kind, subtype in ((5, "PIIX4"), (20, "AHCI")):
        text = text.replace(packages.item(kind, ResourceSubType=subtype, Address=0), "")
    text = text.replace("<VirtualHardwareSection>", f"{more}<VirtualHardwareSection>{controllers}")
    file = '<File ovf:id="file2" ovf:href="b.vmdk"/></References>'
    entry = '<Disk ovf:capacity="1048576" ovf:diskId="vmdisk2" ovf:fileRef="file2" {}/>'
    text = text.replace("</References>", file)
    return text.replace("</DiskSection>", f"{entry.format(disk)}</DiskSection>")


def _values(text: str) -> dict[str, object]:
    return dict(pair.split("=", 1) for pair in text.split())


def _controller(identifier: int, address: object, kind: int = 6) -> str:
    return packages.item(kind, InstanceID=identifier, Address=address)


_A, _B = "HostResource=/disk/vmdisk1 InstanceID=71 ", "HostResource=/disk/vmdisk2 InstanceID=72 "


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (_two(_controller(8, 1) + _controller(9, 0), _A + "Parent=8 AddressOnParent=0",
              _B + "Parent=9 AddressOnParent=0"), "b"),
        (_two(_controller(9, 0) + _controller(8, 1), _A + "Parent=8 AddressOnParent=0",
              _B + "Parent=9 AddressOnParent=5"), "b"),
        (_two(_controller(8, 0), _A + "Parent=8 AddressOnParent=10",
              _B + "Parent=8 AddressOnParent=9"), "b"),
        (_two(_controller(8, 0) + _controller(9, 0, 20), _A + "Parent=9 AddressOnParent=0",
              _B + "Parent=8 AddressOnParent=1"), "b"),
        (_two(_controller(8, 0), _A + "Parent=8 AddressOnParent=0",
              _B + "Parent=8 AddressOnParent=1"), "a"),
        (_two("", _A, _B), "a"),
        (_two("", _A + "AddressOnParent=x", _B + "AddressOnParent=1"), "b"),
        (_two(_controller(8, 0), _A + "Parent=8 AddressOnParent=0",
              _B + "Parent=8 AddressOnParent=1", disk='ovf:boot="true"'), "b"),
        (_two(_controller(8, 0), _A + "Parent=8 AddressOnParent=0",
              _B + "Parent=8 AddressOnParent=1", more=_BOOT), "b"),
        (_two(_controller(8, 0), _A + "Parent=8 AddressOnParent=0",
              _B + "Parent=8 AddressOnParent=1 BootOrder=1"), "b"),
    ],
)  # fmt: skip
def test_disks_are_in_the_order_in_which_the_guest_finds_them(text: str, first: str) -> None:
    disks = [disk.file for disk in ovf.parse(text.encode()).disks]
    assert disks == (["a.vmdk", "b.vmdk"] if first == "a" else ["b.vmdk", "a.vmdk"])
    said = specification.boots_from(ovf.parse(text.encode()))
    assert said == f"it boots from disk1 ('{first}.vmdk')"


@pytest.mark.parametrize(
    ("units", "factor"),
    [
        ("byte", 1),
        ("Bytes", 1),
        ("bytes * 2^20", MIB),
        ("byte*1024*1024", MIB),
        ("byte * 512", 512),
        ("byte*2^9", 512),
        (" Byte * 2 ^ 20 ", MIB),
        ("byte * 10^6", 10**6),
        ("KiloBytes", 1024),
        ("KB * 1024", MIB),
        ("MiB", MIB),
        ("gigabyte", 1 << 30),
        ("TB", 1 << 40),
    ],
)
def test_unit_of_capacity_is_known(units: str, factor: int) -> None:
    text = packages.virtualbox().replace(
        'ovf:capacity="67108864"', f'ovf:capacity="2" ovf:capacityAllocationUnits="{units}"'
    )
    (disk,) = ovf.parse(text.encode()).disks
    assert disk.capacity == 2 * factor


@pytest.mark.parametrize("units", ["byte * 0", "byte * 2^99", "byte * x", "byte *", "2^20", "*"])
def test_unit_that_is_none_is_refused(units: str) -> None:
    text = packages.virtualbox().replace("MegaBytes", units)
    with pytest.raises(PlanRefused, match="which is none; correct the descriptor"):
        ovf.parse(text.encode())


@pytest.mark.parametrize(
    ("name", "properties", "size"),
    [
        ("size", '<Property ovf:key="size" ovf:value="10"/>', 10),
        ("size", '<Property ovf:key="size"><Value ovf:value="11"/></Property>', 11),
        ("a.size.1", '<Property ovf:key="size" ovf:value="12"/>', 12),
        ("size", '<Property ovf:key="other" ovf:value="12"/>', None),
        ("size", '<Property ovf:key="size"/>', None),
    ],
)
def test_capacity_may_be_a_property(name: str, properties: str, size: int | None) -> None:
    section = f'<ProductSection ovf:class="a" ovf:instance="1">{properties}</ProductSection>'
    text = packages.virtualbox().replace('"67108864"', f'"${{{name}}}"')
    text = text.replace("</VirtualSystem>", f"{section}</VirtualSystem>")
    if size is None:
        with pytest.raises(PlanRefused, match=f"is the property '{name}', which has no value"):
            ovf.parse(text.encode())
    else:
        assert [disk.capacity for disk in ovf.parse(text.encode()).disks] == [size]


def test_empty_disk_that_several_items_name_is_a_disk_for_each() -> None:
    again = packages.item(17, HostResource="/disk/vmdisk1", Parent=20, AddressOnParent=1)
    text = packages.virtualbox(more=again)
    with pytest.raises(PlanRefused, match="the disk 'vmdisk1' twice; remove one of the items"):
        ovf.parse(text.encode())
    empty = ovf.parse(text.replace('ovf:fileRef="file1"', "").encode())
    assert [(disk.file, disk.capacity) for disk in empty.disks] == [(None, 64 * MIB)] * 2


def test_reference_with_escapes_is_the_file(tmp_path: Path) -> None:
    disk = packages.stream(tmp_path, "my disk.vmdk")
    path = packages.ova(tmp_path / "web.ova", packages.virtualbox("my%20disk.vmdk"), disk)
    source = read_source.source(str(path), verify=True)
    assert [disk.file for disk in source.vm.disks] == ["my disk.vmdk"]
    for hostile in ("..%2f..%2fetc%2fshadow", "a%2Fb", "%2e%2e", "a%00b"):
        with pytest.raises(PlanRefused, match="which has a"):
            ovf.parse(packages.virtualbox(hostile).encode())


def test_nvram_and_unknown_files_are_named_as_lost() -> None:
    files = '<File ovf:id="f2" ovf:href="db.nvram"/><File ovf:id="f3" ovf:href="x.dat"/>'
    text = packages.vmware().replace("</References>", f"{files}</References>")
    lost = ovf.parse(text.encode()).left_out
    assert lost[1:] == (
        "NVRAM ('db.nvram': the firmware's settings, boot entries and keys)",
        "file 'x.dat'",
    )
    key = '<vmw:ExtraConfig vmw:key="nvram" vmw:value="ovf:/file/f3"/></VirtualHardwareSection>'
    named = ovf.parse(text.replace("</VirtualHardwareSection>", key).encode()).left_out
    assert [text.partition(":")[0] for text in named[1:]] == ["NVRAM ('db.nvram'", "NVRAM ('x.dat'"]
    box = packages.virtualbox().replace("</vbox:Machine>", '<NVRAM path="w.nvram"/></vbox:Machine>')
    assert "NVRAM ('w.nvram'" in ovf.parse(box.encode()).left_out[-1]


def test_what_no_drive_has_and_devices_of_unknown_types_are_named_as_lost() -> None:
    """A disk of a CD drive, or of no device, is converted for nobody."""
    text = packages.virtualbox(more=packages.item(77) + packages.item(24))
    text = text.replace("</References>", '<File ovf:id="f2" ovf:href="b.vmdk"/></References>')
    entry = '<Disk ovf:capacity="1" ovf:diskId="d2" ovf:fileRef="f2"/></DiskSection>'
    found = ovf.parse(text.replace("</DiskSection>", entry).encode())
    assert [disk.file for disk in found.disks] == ["web-disk001.vmdk"]
    assert "disk 'b.vmdk', which no drive of the VM has" in found.left_out
    assert [one for one in found.left_out if "type" in one] == ["device of type '77'"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (packages.virtualbox(), False),
        (
            packages.virtualbox().replace(
                "</vbox:Machine>", '<TrustedPlatformModule type="v2_0"/></vbox:Machine>'
            ),
            True,
        ),
        (
            packages.virtualbox().replace(
                "</vbox:Machine>", '<TrustedPlatformModule type="None"/></vbox:Machine>'
            ),
            False,
        ),
        (packages.virtualbox(more=packages.item(1, ResourceSubType="vmware.vtpm")), True),
    ],
)
def test_tpm_is_named_as_lost(text: str, named: bool) -> None:
    assert any(one.startswith("TPM (") for one in ovf.parse(text.encode()).left_out) is named


def test_disk_in_several_places_is_refused() -> None:
    old = "<rasd:HostResource>/disk/vmdisk1</rasd:HostResource>"
    text = packages.virtualbox().replace(old, old * 2)
    with pytest.raises(PlanRefused, match="in several places; leave one of them"):
        ovf.parse(text.encode())


def test_unit_with_very_many_factors_is_refused_at_once() -> None:
    text = packages.virtualbox().replace("MegaBytes", "byte" + "*9999999999" * 200_000)
    begun = time.monotonic()
    with pytest.raises(PlanRefused, match="which is none"):
        ovf.parse(text.encode())
    assert time.monotonic() - begun < 20


_ODD_LINES = {
    "sha384": (lambda name, data: f"SHA384({name})= {hashlib.sha384(data).hexdigest()}", True),
    "sha-256": (lambda name, data: f"SHA-256({name})={hashlib.sha256(data).hexdigest()}", True),
    "md5": (lambda name, data: f"MD5 ( {name} ) = {hashlib.md5(data).hexdigest()}", True),  # noqa: S324
    "upper case": (
        lambda name, data: f"sha256(./{name})= {hashlib.sha256(data).hexdigest().upper()}",
        True,
    ),
    "unknown": (lambda name, data: f"WHIRLPOOL({name})= {hashlib.sha256(data).hexdigest()}", False),
    "nothing": (lambda _name, _data: "", False),
}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("line", _ODD_LINES)
def test_manifest_is_compared_whatever_it_is_written_by(
    line: str, end: str, tmp_path: Path
) -> None:
    disk = packages.stream(tmp_path)
    text = packages.virtualbox(disk.name).encode()
    (tmp_path / "web.ovf").write_bytes(text)
    write, known = _ODD_LINES[line]
    lines = [write("web.ovf", text), write(disk.name, disk.read_bytes())]
    (tmp_path / "WEB.MF").write_bytes(b"\xef\xbb\xbf" + end.join(lines).encode())
    source = read_source.source(str(tmp_path / "web.ovf"), verify=True)
    assert source.uncompared == (() if known else ("web.ovf", disk.name))
    if known:
        disk.write_bytes(disk.read_bytes() + bytes(512))
        with pytest.raises(PlanRefused, match="and its manifest says"):
            read_source.source(str(tmp_path / "web.ovf"), verify=True)


def test_reference_to_the_same_folder_is_the_file(tmp_path: Path) -> None:
    disk = packages.stream(tmp_path)
    (tmp_path / "web.xml").write_text(packages.virtualbox(f"./{disk.name}"))
    source = read_source.source(str(tmp_path / "web.xml"), verify=True)
    assert [one.file for one in source.vm.disks] == [disk.name]
