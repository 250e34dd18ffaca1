# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a copy has of its source's definition that no setting describes. No guest is booted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.tests.integration.support.ansible import Run

from .conftest import Fleet

_NETWORK = """
<network><name>lan</name><forward mode='bridge'/><bridge name='br0'/>
<portgroup name='office' default='yes'/><portgroup name='guests'/></network>
"""
# What stands in the definition of web1 for `virsh define`: below the domain, below its devices
_DOMAIN = """
<genid>5d1b2f4e-8a0c-4d4e-9a57-3f1f6e2b7c11</genid>
<sysinfo type='smbios'><bios><entry name='vendor'>ACME</entry></bios>
<system><entry name='manufacturer'>ACME</entry><entry name='serial'>A-1</entry>
<entry name='uuid'>{uuid}</entry></system>
<oemStrings><entry>one</entry><entry>two</entry></oemStrings></sysinfo>
<seclabel type='none' model='none'/>
<seclabel type='static' model='dac' relabel='yes'><label>+107:+107</label></seclabel>
"""
_DEVICES = """
<interface type='network'><mac address='52:54:00:00:31:01'/>
<source network='lan' portgroup='guests'/><model type='virtio'/>
<filterref filter='clean-traffic'><parameter name='IP' value='192.0.2.7'/>
<parameter name='CTRL_IP_LEARNING' value='dhcp'/></filterref></interface>
<controller type='scsi' index='0' model='virtio-scsi'><driver queues='4'/></controller>
<vsock model='virtio'><cid auto='no' address='77'/></vsock>
<rng model='virtio'><rate bytes='1024' period='2000'/><backend model='random'>/dev/urandom</backend>
</rng>
<iommu model='intel'><driver intremap='on'/></iommu>
"""
_ARGUMENTS = """
<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
<qemu:arg value='-no-hpet'/></qemu:commandline>
"""
_FEATURES = "<ioapic driver='qemu'/>"
_OFF = {"vm_start": "false", "vm_seed": "false", "vm_host": "hv1"}


def _define(fleet: Fleet, host: str, name: str, domain: str, devices: str) -> None:
    """Put elements into a definition, in the place of those devices that there is one of."""
    root = _lxml.parse(fleet.host(host, f"virsh dumpxml --inactive {name}"), name)
    place = root.find("devices")
    system = root.find("os")
    features = root.find("features")
    assert place is not None
    assert system is not None
    assert features is not None
    _lxml.add(system, "smbios", {"mode": "sysinfo"})
    features.append(_lxml.parse(_FEATURES, "a feature"))
    added = domain.format(uuid=root.findtext("uuid"))
    for element in _lxml.parse(f"<domain>{added}</domain>", "elements"):
        root.append(element)
    for element in _lxml.parse(f"<devices>{devices}</devices>", "devices"):
        for old in place.findall(element.tag):
            if element.get("type") == old.get("type") or element.tag in ("interface", "rng"):
                place.remove(old)
        place.append(element)
    fleet.lab.ssh(host, "virsh -q define --validate /dev/stdin", input=_lxml.tostring(root))


def _xml(fleet: Fleet, host: str, name: str) -> Any:
    return _lxml.parse(fleet.host(host, f"virsh dumpxml --inactive {name}"), name)


def _texts(root: Any, *paths: str) -> dict[str, list[str]]:
    """What stands at places, as text."""
    return {
        path: [re.sub(r"\s+", " ", _lxml.tostring(one)).strip() for one in root.findall(path)]
        for path in paths
    }


def _clone(fleet: Fleet, name: str, check: bool = False, **variables: str) -> Run:
    wanted = {**fleet.variables, **_OFF, "virt_identity": "keep", "vm_name": name}
    return fleet.ansible.playbook(
        "clone", {**wanted, "virt_clone_of": "web1", **variables}, check=check
    )


def _adopt(fleet: Fleet) -> str:
    """What adopting web1 would say if it were a VM of somebody else."""
    fleet.host("hv1", "virsh -q metadata web1 urn:fleet.virt:1 --remove --config")
    run = fleet.ansible.playbook("adopt", {"vm_name": "web1"}, check=True).succeeded()
    assert re.search(r"web1 +hv1 +would be adopted", run.stdout), str(run)
    return run.stdout


@pytest.fixture
def source(fleet: Fleet) -> Iterator[Fleet]:
    """web1 on hv1, shut off."""
    fleet.lab.ssh("hv1", "virsh -q net-define /dev/stdin", input=_NETWORK)
    fleet.host("hv1", "virsh -q net-start lan")
    disk = {"name": "system", "size": 64, "bus": "scsi"}
    alone = fleet.alone("hv1")
    alone.provision(vm_name="web1", vm_disks=[disk], vm_memory="96", **_OFF).succeeded()
    yield fleet
    fleet.sweep()
    fleet.host("hv1", "virsh -q net-destroy lan; virsh -q net-undefine lan")


# What both must have, as it is
_CARRIED = (
    "sysinfo/bios",
    "sysinfo/oemStrings",
    "sysinfo/system/entry[@name='manufacturer']",
    "os/smbios",
    "features/ioapic",
    "seclabel",
    "devices/interface/source",
    "devices/interface/filterref/parameter[@name='CTRL_IP_LEARNING']",
    "devices/controller[@type='scsi']/driver",
    "devices/rng/rate",
    "devices/iommu",
)
# What identifies web1: the copy lacks it, and that is said
_LEFT_OUT = (
    "sysinfo/system/entry[@name='serial']",
    "devices/interface/filterref/parameter[@name='IP']",
)
# What each has for itself
_MADE = ("uuid", "genid", "devices/interface/mac", "devices/vsock/cid", "devices/disk/source")


def test_clone_has_what_no_setting_describes(source: Fleet) -> None:
    fleet = source.alone("hv1")
    _define(fleet, "hv1", "web1", _DOMAIN, _DEVICES)
    _clone(fleet, "web2", check=True).succeeded()
    assert fleet.domains()["hv1"] == ["web1"]
    said = _clone(fleet, "web2").succeeded()
    warned = "".join((said.stdout + said.stderr).split())
    assert "lackssysinfo/system/entry[@name='serial'],devices/interface" in warned
    before, after = _xml(fleet, "hv1", "web1"), _xml(fleet, "hv1", "web2")
    found = _texts(before, *_CARRIED)
    assert all(found.values())
    assert _texts(after, *_CARRIED) == found
    assert [len(before.findall(path)) - len(after.findall(path)) for path in _LEFT_OUT] == [1, 1]
    assert before.find("devices/interface/source").get("portgroup") == "guests"
    first, second = _texts(before, *_MADE), _texts(after, *_MADE)
    assert [path for path in _MADE if first[path] == second[path] or not second[path]] == []
    assert _texts(after, "devices/vsock/cid") == {"devices/vsock/cid": ['<cid auto="yes"/>']}
    assert after.find("sysinfo/system/entry[@name='uuid']") is None
    again = _clone(fleet, "web2").succeeded()
    assert re.search(r"web2 +hv1 +- +unchanged", again.stdout)
    said = _adopt(fleet)
    named = ("genid", "sysinfo", "seclabel", "filterref/parameter[@name='IP']", "devices/vsock")
    assert [one for one in named if one not in said] == []


def test_clone_of_what_two_vms_cannot_have_is_refused_by_its_path(source: Fleet) -> None:
    fleet = source.alone("hv1")
    _define(fleet, "hv1", "web1", _ARGUMENTS, "")
    for check in (True, False):
        refused = _clone(fleet, "web2", check=check)
        assert refused.returncode
        assert "the copy would lack qemu:commandline of its definition" in refused.stdout
    assert fleet.domains()["hv1"] == ["web1"]
    assert "not described: qemu:commandline" in _adopt(fleet)


def test_vm_is_placed_only_where_its_network_has_the_port_group(source: Fleet) -> None:
    nic = {"name": "eth0", "network": "lan", "portgroup": "dmz"}
    wanted = {**_OFF, "vm_name": "web2", "vm_nic_profile": "none", "vm_nics": [nic]}
    refused = source.provision(check=True, **wanted)
    assert refused.returncode
    assert "network 'lan' has no port group 'dmz', it has guests, office" in refused.stdout
