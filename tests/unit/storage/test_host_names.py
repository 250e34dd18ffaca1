# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a definition names of its hypervisor."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import host_names
from ansible_collections.fleet.virt.plugins.module_utils._lxml import parse

# What of a definition, and what it names: kind and value
_CASES = {
    "<devices><emulator>/opt/qemu</emulator></devices>": {("program", "/opt/qemu")},
    "<os><loader>/fw/code.fd</loader><kernel>/boot/k</kernel><initrd>/boot/i</initrd>"
    "<dtb>/boot/d</dtb><acpi><table type='slic'>/fw/slic</table></acpi></os>": {
        ("file", one) for one in ("/fw/code.fd", "/boot/k", "/boot/i", "/boot/d", "/fw/slic")
    },
    "<os><nvram template='/fw/vars.fd'/></os>": {("file", "/fw/vars.fd")},
    "<os><nvram template='/fw/vars.fd'>/var/lib/a.fd</nvram></os>": set(),
    "<sysinfo type='fwcfg'><entry name='a' file='/fw/a'/></sysinfo>": {("file", "/fw/a")},
    "<devices><disk type='volume'><source pool='p' volume='v'/></disk></devices>": {
        ("volume", "p/v")
    },
    "<devices><disk type='vhostuser'><source type='unix' path='/run/blk'/></disk></devices>": {
        ("socket", "/run/blk")
    },
    "<devices><disk type='file'><source file='/a.iso' startupPolicy='optional'/></disk>"
    "<disk type='block'><source dev='/dev/sdb'><reservations managed='no'><source type='unix'"
    " path='/run/pr.sock'/></reservations></source></disk></devices>": {
        ("file", "/dev/sdb"),
        ("socket", "/run/pr.sock"),
    },
    "<devices><disk type='file'><source file='/a'><encryption format='luks'><secret"
    " type='passphrase' uuid='u1'/></encryption></source></disk></devices>": {
        ("file", "/a"),
        ("secret", "u1"),
    },
    "<devices><disk type='network'><source protocol='rbd' name='a'><auth username='x'><secret"
    " type='ceph' uuid='u2'/></auth></source></disk></devices>": {("secret", "u2")},
    "<devices><tpm><backend type='emulator'><encryption secret='u3'/></backend></tpm><tpm>"
    "<backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm></devices>": {
        ("secret", "u3"),
        ("device", "/dev/tpm0"),
    },
    "<devices><interface type='vhostuser'><source type='unix' path='/run/v0' mode='client'/>"
    "</interface><interface type='vhostuser'><source type='unix' path='/srv/v/1' mode='server'/>"
    "</interface></devices>": {("socket", "/run/v0"), ("folder", "/srv/v")},
    "<devices><interface type='bridge'><source bridge='br0'/><script path='/etc/up'/>"
    "<filterref filter='own'/></interface><interface type='direct'><source dev='eth1'/>"
    "</interface><interface type='network'><source network='lan'/></interface></devices>": {
        ("bridge", "br0"),
        ("program", "/etc/up"),
        ("nwfilter", "own"),
        ("interface", "eth1"),
        ("network", "lan"),
    },
    "<devices><interface type='hostdev'><source><address type='pci' domain='0x0' bus='0x3'"
    " slot='0x10' function='0x1'/></source></interface></devices>": {
        ("host device", "0000:03:10.1")
    },
    "<devices><interface type='ethernet'><target dev='tap9' managed='no'/></interface>"
    "<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface></devices>": {
        ("interface", "tap9"),
        ("device", "/dev/vhost-vdpa-0"),
    },
    "<devices><serial type='tcp'><source mode='bind' host='127.0.0.1' service='4555'/></serial>"
    "<serial type='tcp'><source mode='connect' host='log1' service='4555'/></serial>"
    "<console type='unix'><source mode='bind' path='/srv/c/a.sock'/></console>"
    "<channel type='unix'><source mode='bind' path='/run/libvirt/qemu/channel/1/a'/></channel>"
    "<serial type='unix'><source mode='connect' path='/run/up.sock'/></serial></devices>": {
        ("port", "127.0.0.1:4555"),
        ("folder", "/srv/c"),
        ("socket", "/run/up.sock"),
    },
    "<devices><serial type='dev'><source path='/dev/ttyS1'/><log file='/srv/l/a.log'/></serial>"
    "<serial type='pty'><log file='/var/log/libvirt/qemu/a-console.log'/></serial></devices>": {
        ("device", "/dev/ttyS1"),
        ("folder", "/srv/l"),
    },
    "<devices><rng><backend model='random'>/dev/urandom</backend></rng><rng><backend"
    " model='random'>/dev/hwrng</backend></rng></devices>": {("device", "/dev/hwrng")},
    "<devices><graphics type='vnc' port='5905' autoport='no' listen='192.0.2.7'/></devices>": {
        ("port", "192.0.2.7:5905"),
        ("address", "192.0.2.7"),
    },
    "<devices><graphics type='spice' port='5906' tlsPort='5907'/><graphics type='vnc' port='5900'"
    " autoport='yes' websocket='5700'><listen type='address' address='0.0.0.0'/></graphics>"
    "</devices>": {("port", ":5906"), ("port", ":5907"), ("port", ":5700")},
    "<devices><graphics type='vnc' autoport='yes'><listen type='network' network='mgmt'/>"
    "</graphics><graphics type='vnc'><listen type='socket' socket='/srv/s/vnc'/></graphics>"
    "<graphics type='egl-headless'><gl rendernode='/dev/dri/renderD128'/></graphics></devices>": {
        ("network", "mgmt"),
        ("folder", "/srv/s"),
        ("device", "/dev/dri/renderD128"),
    },
    "<devices><filesystem type='mount'><driver type='virtiofs'/><binary path='/opt/virtiofsd'/>"
    "<source dir='/srv/share'/></filesystem><filesystem type='mount'><source"
    " socket='/run/fs.sock'/></filesystem></devices>": {
        ("program", "/opt/virtiofsd"),
        ("folder", "/srv/share"),
        ("socket", "/run/fs.sock"),
    },
    "<devices><input type='evdev'><source dev='/dev/input/event1'/></input><input"
    " type='passthrough'><source evdev='/dev/input/event2'/></input></devices>": {
        ("device", "/dev/input/event1"),
        ("device", "/dev/input/event2"),
    },
    "<devices><shmem name='own' role='master'><model type='ivshmem-plain'/></shmem><shmem"
    " name='b'><model type='ivshmem-doorbell'/><server path='/run/shm.sock'/></shmem></devices>": {
        ("shared memory", "own"),
        ("socket", "/run/shm.sock"),
    },
    "<devices><vsock><cid auto='no' address='7'/></vsock></devices>": {
        ("vsock", "/dev/vhost-vsock"),
        ("vsock ID", "7"),
    },
    "<devices><hostdev mode='subsystem' type='mdev'><source><address uuid='m1'/></source>"
    "</hostdev><hostdev mode='capabilities' type='misc'><source><char>/dev/x</char></source>"
    "</hostdev></devices>": {("host device", "mdev m1"), ("device", "/dev/x")},
    "<memoryBacking><hugepages><page size='1' unit='GiB'/></hugepages></memoryBacking>"
    "<numatune><memory mode='strict' nodeset='0-1'/></numatune><vcpu cpuset='4-7,^6'>1</vcpu>": {
        ("hugepages", "1048576"),
        ("NUMA node", "0"),
        ("NUMA node", "1"),
        ("CPUs", "4-7,^6"),
    },
    "<memoryBacking><hugepages/></memoryBacking><devices><memory model='nvdimm'><source><path>"
    "/srv/nv</path></source></memory></devices>": {("hugepages", "0"), ("file", "/srv/nv")},
}


@pytest.mark.parametrize("text", _CASES)
def test_names_of_every_kind_are_read_from_the_definition(text: str) -> None:
    named = host_names.of_definition(parse(f"<domain>{text}</domain>", "domain"))
    assert {(name.kind, name.value) for name in named.names} == _CASES[text]


def test_names_of_running_vm_are_without_what_libvirt_chose() -> None:
    text = (
        "<domain id='3'><devices><graphics type='vnc' port='5900' autoport='yes' websocket='5700'"
        " listen='192.0.2.7'/><graphics type='spice' port='5999' autoport='no'/></devices></domain>"
    )
    named = host_names.of_definition(parse(text, "domain"))
    assert [(name.kind, name.value) for name in named.names] == [("port", ":5999")]


def test_names_beside_are_without_disks_and_what_placement_asks_for() -> None:
    text = (
        "<domain><devices><emulator>/opt/qemu</emulator><disk><source file='/a'/><target"
        " dev='vda'/></disk><interface type='bridge'><source bridge='br0'/></interface></devices>"
        "</domain>"
    )
    named = host_names.of_definition(parse(text, "domain"))
    assert [name.value for name in named.beside()] == ["/opt/qemu"]


def test_set_of_numbers_is_read_as_libvirt_writes_it() -> None:
    assert host_names.numbers("0-3,^2,8") == {0, 1, 3, 8}
    assert host_names.numbers("x,") == set()


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [("", "127.0.0.1", True), ("127.0.0.1", "127.0.0.1", True), ("127.0.0.1", "192.0.2.7", False)],
)
def test_sockets_of_a_port_are_in_each_others_way_by_address(
    first: str, second: str, expected: bool
) -> None:
    assert host_names.overlap(first, second) is expected
