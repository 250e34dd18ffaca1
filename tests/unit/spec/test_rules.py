# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings that do not go together are refused, each with its path and what to do."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import domain_xml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import from_options
from lxml import etree

_PLAIN = {"name": "v", "disk_profile": "none", "nic_profile": "none", "memory": 1024}
_SHARE = {"source": "/srv", "target": "srv"}
_TCP = {"type": "tcp", "host": "::1", "port": 5000, "mode": "bind"}


def _disk(**options: t.Any) -> dict[str, t.Any]:
    return {"disks": [{"name": "a", "size": 8, **options}]}


def _nic(**options: t.Any) -> dict[str, t.Any]:
    return {"nics": [{"name": "a", **({"bridge": "br0"} | options)}]}


REFUSED: list[tuple[dict[str, t.Any], str, str]] = [
    ({"cpu": {"sockets": 2, "cores": 2}, "vcpus": 2}, "cpu", "make 4, but the VM has 2 vCPUs"),
    ({"cpu": {"require": ["a"], "disable": "b,a"}}, "cpu.disable", "a cannot be required and"),
    ({"cpu": {"require": ["<a"]}}, "cpu.require[0]", "for example pcid"),
    ({"cputune": {"vcpupin": ["1:0"]}}, "cputune", "there is no vCPU 1; they are 0 to 0"),
    ({"cputune": {"vcpupin": ["0"]}}, "cputune.vcpupin[0]", "write the vCPU, a colon"),
    ({"cpuset": "0-"}, "cpuset", "numbers and ranges with commas"),
    ({"numa": [{"cpus": "0", "memory": 512}]}, "numa", "512 MiB in total, but the VM 1024 MiB"),
    ({"numa": [{"cpus": "0-1", "memory": 1024}]}, "numa", "each of the vCPUs 0 to 0"),
    ({"numa": [{"memory": 1024}]}, "numa[0].cpus", "this is missing; write cpus"),
    ({"numa": {"cpus": "0"}}, "numa", "is not a list"),
    ({"numatune": {"mode": "strict"}}, "numatune.nodeset", "this is missing"),
    ({"memtune": {"hard_limit": 512}}, "memtune", "less than the VM's memory (1024 MiB)"),
    (
        {"memory_backing": {"page_size": 2, "source": "file"}},
        "memory_backing",
        "huge pages exclude source file",
    ),
    (
        {"memory_backing": {"page_size": 2, "hugepages": False}},
        "memory_backing",
        "page_size implies huge pages",
    ),
    (
        {
            "memory_backing": {"access": "private"},
            "filesystems": [{**_SHARE, "driver": "virtiofs"}],
        },
        "memory_backing",
        "virtiofs needs shared memory",
    ),
    ({"secure_boot": True}, "secure_boot", "it needs firmware uefi"),
    ({"ha": True, "autostart": True}, "autostart", "its cell decides where it starts"),
    ({"ha": True, "firmware": "uefi"}, "firmware", "UEFI variables are its hypervisor's"),
    ({"ha": True, "tpm": True}, "tpm", "the state of a TPM is its hypervisor's"),
    ({"ha": True, "filesystems": [_SHARE]}, "filesystems", "a folder is its hypervisor's"),
    ({"iommu": "intel", "machine": "pc"}, "iommu", "it needs machine q35, not pc"),
    (
        {"secure_boot": True, "firmware": "uefi", "machine": "pc"},
        "secure_boot",
        "it needs machine q35, not pc",
    ),
    (
        {"secure_boot": True, "firmware": "uefi", "features": {"smm": False}},
        "features",
        "secure_boot needs smm",
    ),
    ({"initrd": "/a"}, "initrd", "it needs kernel"),
    ({"kernel": "a"}, "kernel", "write an absolute path"),
    (
        {"on_poweroff": "restart", "on_reboot": "destroy"},
        "on_poweroff",
        "restart excludes on_reboot destroy",
    ),
    ({"clock": {"offset": "timezone"}}, "clock.timezone", "go together"),
    ({"clock": {"offset": "utc", "timezone": "UTC"}}, "clock.timezone", "go together"),
    ({"clock": {"hpt": True}}, "clock.hpt", "did you mean hpet?"),
    ({"hyperv": {"synic": True}}, "hyperv.synic", "synic needs vpindex"),
    (
        {"hyperv": True, "clock": {"hypervclock": False}},
        "hyperv",
        "stimer needs hypervclock",
    ),
    ({"filesystems": [{"source": "/srv"}]}, "filesystems[0].target", "this is missing"),
    ({"filesystems": [_SHARE, _SHARE]}, "filesystems", "srv is given twice"),
    (
        {"filesystems": [{**_SHARE, "driver": "virtiofs", "readonly": True}]},
        "filesystems[0].readonly",
        "virtiofs cannot be read-only",
    ),
    (
        {"filesystems": [{**_SHARE, "driver": "virtiofs", "accessmode": "mapped"}]},
        "filesystems[0].accessmode",
        "only passthrough",
    ),
    ({"hostdevs": [{"pci": "0000:3b:00.1"}]}, "hostdevs", "set host to it"),
    ({"hostdevs": [{}], "host": "hv1"}, "hostdevs[0].pci", "either pci or usb"),
    ({"hostdevs": [{"pci": "3b:00.1"}], "host": "hv1"}, "hostdevs[0].pci", "'0000:3b:00.1'"),
    ({"serials": [{"type": "file"}]}, "serials[0].path", "this is missing"),
    ({"serials": [{"path": "/a"}]}, "serials[0].path", "of type 'pty' has no path"),
    ({"serials": [{}] * 4}, "serials", "a PC has 4 serial ports"),
    ({"channels": [{}]}, "channels[0].name", "this is missing"),
    ({"channels": [{"name": "a", "type": "spicevmc"}]}, "channels", "needs console spice"),
    (
        {"channels": [{"name": "org.qemu.guest_agent.0"}]},
        "channels[0].name",
        "always exists",
    ),
    (_disk(wwn="5000c50015ea71ac"), "disks[0].wwn", "a virtio disk has no WWN"),
    (_disk(bus="scsi", queues=2), "disks[0].queues", "only virtio disks have this"),
    (_disk(total_iops_sec=1, read_iops_sec=1), "disks[0].total_iops_sec", "it excludes"),
    (_disk(logical_block_size=1000), "disks[0].logical_block_size", "not a power of two"),
    (
        _disk(logical_block_size=4096, physical_block_size=512),
        "disks[0].physical_block_size",
        "smaller than its logical ones; give at least 4096",
    ),
    (_disk(logical_block_size=4096), "disks[0].physical_block_size", "give at least 4096"),
    (_nic(queues=2, model="e1000"), "nics[0].queues", "only virtio has queues"),
    (_nic(inbound_peak=2), "nics[0].inbound_peak", "it needs inbound_average"),
    (
        {"nics": [{"name": "a", "network": "x", "isolated": True}]},
        "nics[0].isolated",
        "only a NIC on a bridge",
    ),
]


@pytest.mark.parametrize(("options", "path", "words"), REFUSED, ids=lambda value: str(value)[:50])
def test_what_does_not_go_together(options: dict[str, t.Any], path: str, words: str) -> None:
    domain, problems = from_options({**_PLAIN, **options})
    assert domain is None
    assert [one.path for one in problems] == [path]
    assert words in problems[0].message


def _rendered(**options: t.Any) -> t.Any:
    domain, problems = from_options({**_PLAIN, **options})
    assert problems == []
    assert domain is not None
    return etree.fromstring(
        domain_xml.render(
            domain,
            uuid="6f0f7c2e-58f4-4a0e-9d0b-0d9c1b4f6a11",
            domain_type="kvm",
            machine="pc-q35-7.2",
            arch="x86_64",
            volumes={},
            cpu=etree.fromstring("<cpu mode='host-model'/>"),
        )
    )


@pytest.mark.parametrize("given", [{}, True, "{}"])
def test_nothing_of_its_own_is_what_windows_wants(given: object) -> None:
    root = _rendered(hyperv=given)
    assert [one.tag for one in root.find("features/hyperv")] == [
        *("relaxed", "vapic", "spinlocks", "vpindex", "runtime", "synic", "stimer")
    ]
    assert root.xpath("clock/timer[@name='hypervclock']/@present") == ["yes"]


def test_a_timer_that_is_written_is_not_the_usual_one() -> None:
    root = _rendered(clock={"hpet": True, "offset": "localtime"})
    assert root.xpath("clock/@offset") == ["localtime"]
    assert root.xpath("clock/timer[@name='hpet']/@present") == ["yes"]
    assert root.xpath("clock/timer[@name='rtc']/@tickpolicy") == ["catchup"]


def test_topology_and_features_go_with_the_cpu_of_the_fleet() -> None:
    root = _rendered(vcpus=4, cpu={"cores": 2, "threads": 2, "disable": ["svm"]})
    assert root.xpath("cpu/@mode") == ["host-model"]
    assert dict(root.find("cpu/topology").attrib) == {"sockets": "1", "cores": "2", "threads": "2"}
    assert root.xpath("cpu/feature/@name") == ["svm"]


def test_virtiofs_has_the_memory_that_it_needs() -> None:
    root = _rendered(filesystems=[{**_SHARE, "driver": "virtiofs"}])
    assert root.xpath("memoryBacking/source/@type") == ["memfd"]
    assert root.xpath("memoryBacking/access/@mode") == ["shared"]
    assert root.xpath("devices/filesystem/@accessmode") == ["passthrough"]


def test_an_empty_mapping_is_the_usual_device() -> None:
    root = _rendered(panic={}, sound={})
    assert root.xpath("devices/panic/@model") == ["isa"]
    assert root.xpath("devices/sound/@model") == ["ich9"]
