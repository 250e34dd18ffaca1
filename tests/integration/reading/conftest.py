# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet with a domain of every kind, made by virsh: what everything that reads is tried on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.integration.support.guests import NIC, Guests
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

# Names by hypervisor; tests state for each what they expect of it.
HV1 = ("broken1", "killed1", "off1", "paused1", "saved1", "web1")
HV2 = ("crashed2", "liar2", "web2")

_RICH = f"""
<disk type='file' device='disk'>
  <driver name='qemu' type='raw'/><source file='/srv/raw/web1.raw'/>
  <target dev='vdb' bus='virtio'/>
</disk>
<disk type='volume' device='disk'>
  <driver name='qemu' type='qcow2'/><source pool='default' volume='web1-c.qcow2'/>
  <target dev='vdc' bus='virtio'/>
</disk>
<disk type='network' device='disk'>
  <driver name='qemu' type='raw'/>
  <source protocol='nbd' name='test'><host name='127.0.0.1' port='10809'/></source>
  <target dev='vdd' bus='virtio'/>
</disk>
<disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>
{NIC}
<interface type='network'><source network='lan'/><model type='virtio'/></interface>
<interface type='user'><model type='e1000e'/><link state='down'/></interface>
<interface type='ethernet'><target dev='tapweb1'/><model type='virtio'/></interface>
<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'/>
<graphics type='spice' autoport='yes' listen='127.0.0.1'/>
<console type='pty'><target type='virtio'/></console>
"""

_BROKEN = """
<domain type='{type}'>
  <name>broken1</name>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64'>hvm</type></os>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/><source file='/srv/raw/garbage.qcow2'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <disk type='block' device='disk'>
      <driver name='qemu' type='raw'/><source dev='/dev/fleet/gone'/>
      <target dev='vdb' bus='virtio'/>
    </disk>
    <disk type='volume' device='disk'>
      <driver name='qemu' type='raw'/><source pool='cold' volume='x.raw'/>
      <target dev='vdc' bus='virtio'/>
    </disk>
  </devices>
</domain>
"""

_NETWORK = "<network><name>lan</name><forward mode='bridge'/><bridge name='br0'/></network>"

_PREPARE = """
mkdir -p /srv/raw
truncate -s 8M /srv/raw/web1.raw /srv/raw/nbd.raw
head -c 65536 /dev/urandom > /srv/raw/garbage.qcow2
virsh -q vol-create-as default web1-c.qcow2 12M --format qcow2
cat > /run/network.xml
virsh -q net-define /run/network.xml
virsh -q net-start lan
virsh -q pool-define-as cold dir --target /srv/cold
systemd-run -q --unit=test-nbd qemu-nbd -f raw -x test -t -b 127.0.0.1 /srv/raw/nbd.raw
"""

# What pvpanic's driver does when the guest's kernel panics, without a panic.
_PANIC = """
for device in /sys/bus/pci/devices/*; do
  if grep -q 0x1b36 $device/vendor && grep -q 0x0011 $device/device; then
    echo 1 > $device/enable
    read -r address rest < $device/resource
    devmem $address 8 1
  fi
done
"""

_CLEAN = """
systemctl stop test-nbd
virsh -q net-destroy lan; virsh -q net-undefine lan
virsh -q pool-undefine cold
virsh -q vol-delete web1-c.qcow2 default
rm -rf /srv/raw
"""


@dataclass(frozen=True)
class Fleet:
    """The fleet; ``trap`` is a file that appears on the controller if anything is evaluated."""

    guests: Guests
    trap: Path

    def evil(self, mark: str) -> str:
        """Text that makes the trap if a template engine ever evaluates it."""
        return hostile(self.trap, mark)


def hostile(trap: Path, mark: str) -> str:
    """A lookup that makes the file ``trap``."""
    return f"{mark} {{{{ lookup('pipe', 'touch {trap}') }}}}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("'", "&apos;")


@pytest.fixture(scope="package")
def fleet(all_guests: Guests) -> Iterator[Fleet]:
    """Domains in every state on hv1, one that would like to be executed on hv2."""
    guests = all_guests
    folder = Path(tempfile.mkdtemp(prefix="fv"))  # short: a host name has 64 characters
    made = Fleet(guests, folder / "t")
    try:
        _make(made)
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for host, names in (("hv1", HV1), ("hv2", HV2)):
            for name in names:
                guests.remove(host, name)
        guests.lab.ssh("hv1", _CLEAN, check=False)


def _make(fleet: Fleet) -> None:
    guests = fleet.guests
    evil = _escaped(fleet.evil("evil"))
    guests.prepare("hv1")
    guests.script("hv1", _PREPARE, input=_NETWORK)
    panic = "<panic model='pvpanic'/>"
    guests.define("hv2", "crashed2", start=True, on_crash="preserve", devices=panic)
    top = (
        f"<title>{evil}</title><description>{evil}</description>"
        "<metadata><fleet xmlns='urn:fleet.virt:1'>"
        f"<group>{evil}</group><group>web</group></fleet></metadata>"
    )
    guests.define("hv2", "web2", start=True, top=top)
    guests.define("hv2", "liar2", start=True)
    guests.define("hv1", "web1", start=True, memory=128, vcpus=2, devices=_RICH)
    for name in ("paused1", "saved1", "killed1"):
        guests.define("hv1", name, paused=True)
    guests.define("hv1", "off1")
    kind = "kvm" if guests.lab.record.kvm else "qemu"
    guests.define_xml("hv1", "broken1", _BROKEN.format(type=kind))
    guests.script(
        "hv1",
        "virsh -q managedsave saved1\n"
        "kill -9 $(cat /run/libvirt/qemu/killed1.pid)\n"
        "virsh -q snapshot-create-as off1 first; virsh -q snapshot-create-as off1 second\n"
        "virsh -q autostart web1; virsh -q pool-refresh default",
    )
    guests.virsh("hv2", "pool-refresh", "default")
    wait_for(lambda: "crashed" in guests.state("hv1", "killed1"), 20, "killed1 is noticed")
    guests.wait_agent("hv2", "crashed2")
    guests.execute("hv2", "crashed2", _PANIC, wait=False)
    for host, name in (("hv1", "web1"), ("hv2", "web2")):
        guests.wait_agent(host, name)
    guests.execute("hv2", "web2", f'hostname "{fleet.evil("h")}"')
    wait_for(lambda: "crashed" in guests.state("hv2", "crashed2"), 20, "crashed2 has crashed")
