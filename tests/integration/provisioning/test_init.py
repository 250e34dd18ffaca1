# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_init on real hypervisors: the behaviours an administrator counts on, by their numbers."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support import blank
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from .conftest import Fleet

_POOL = "/var/lib/libvirt/images"
_BASE = "/var/lib/libvirt/base"
_BLANK = {"memory": 64, "start": False, "seed": False}


def _definition(fleet: Fleet, host: str, name: str) -> ElementTree.Element:
    return ElementTree.fromstring(fleet.host(host, f"virsh dumpxml --inactive {name}"))


def _made(result: dict[str, Any]) -> dict[str, Any]:
    assert not result["failed"], result.get("msg")
    (vm,) = result["vms"]
    return vm


def test_b01_a_disk_starts_with_the_content_of_its_image(fleet: Fleet) -> None:
    fleet.raw_image("content.img", 4, b"content of the image")
    _made(fleet.init("hv1", name="b01", image="content.img", overlay=False, **_BLANK))
    compared = fleet.lab.ssh(
        "hv1",
        f"qemu-img compare -f raw -F qcow2 {_BASE}/*-content* {_POOL}/b01_system.qcow2",
        check=False,
    )
    assert compared.returncode == 0, compared.stdout + compared.stderr


def test_b02_an_overlay_names_its_backing_format_and_costs_less_than_a_mib(fleet: Fleet) -> None:
    _made(fleet.init("hv1", name="b02", image="tiny.qcow2", **_BLANK))
    info = json.loads(fleet.host("hv1", f"qemu-img info --output=json {_POOL}/b02_system.qcow2"))
    assert info["backing-filename"].startswith(f"{_BASE}/")
    assert info["backing-filename-format"] == "qcow2"
    assert info["actual-size"] < 1024 * 1024
    disk = _definition(fleet, "hv1", "b02").find("devices/disk")
    assert disk is not None
    assert disk.find("backingStore/format").get("type") == "qcow2"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["raw.img", "raw.qcow2"])
def test_b03_the_format_is_that_of_the_content(fleet: Fleet, name: str) -> None:
    fleet.raw_image(name, 4, b"raw")
    _made(fleet.init("hv1", name="b03", image=name, **_BLANK))
    info = json.loads(fleet.host("hv1", f"qemu-img info --output=json {_POOL}/b03_system.qcow2"))
    assert info["backing-filename-format"] == "raw"
    disk = _definition(fleet, "hv1", "b03").find("devices/disk")
    assert disk is not None
    assert disk.find("driver").get("type") == info["format"]  # type: ignore[union-attr]


def test_b04_an_image_larger_than_its_disk_is_refused_and_a_larger_disk_is_that_large(
    fleet: Fleet,
) -> None:
    fleet.raw_image("large.img", 64)
    small = {"name": "system", "size": 16}
    refused = fleet.init("hv1", name="b04", image="large.img", disks=[small], **_BLANK)
    assert refused["failed"]
    assert "16 MiB" in refused["msg"]
    assert "64 MiB" in refused["msg"]
    assert fleet.domains()["hv1"] == []
    assert fleet.files("hv1") == []
    large = {"name": "system", "size": 128}
    _made(fleet.init("hv1", name="b04", image="large.img", disks=[large], **_BLANK))
    info = json.loads(fleet.host("hv1", f"qemu-img info --output=json {_POOL}/b04_system.qcow2"))
    assert info["virtual-size"] == 128 * 1024 * 1024


def test_b05_without_profiles_there_is_one_disk_and_one_nic_on_br0(fleet: Fleet) -> None:
    _made(fleet.init("hv1", name="b05", **_BLANK))
    devices = _definition(fleet, "hv1", "b05").find("devices")
    assert devices is not None
    (disk,), (nic,) = devices.findall("disk"), devices.findall("interface")
    assert disk.find("target").get("bus") == "virtio"  # type: ignore[union-attr]
    assert nic.find("source").get("bridge") == "br0"  # type: ignore[union-attr]
    assert nic.find("model").get("type") == "virtio"  # type: ignore[union-attr]
    info = json.loads(fleet.host("hv1", f"qemu-img info --output=json {_POOL}/b05_system.qcow2"))
    assert (info["format"], info["virtual-size"]) == ("qcow2", 8192 * 1024 * 1024)


def test_b06_profiles_are_made_in_their_order(fleet: Fleet) -> None:
    profiles = {"database": [{"system": {"size": 8192}}, {"data": {"size": 30720}}]}
    nics = {"dual": {"eth0": {"bridge": "br0"}, "eth1": {"network": "inner"}}}
    fleet.network("hv1", "inner", "br0")
    result = fleet.ansible.module(
        "hv1",
        "virt_init",
        {"name": "b06", "disk_profile": "database", "nic_profile": "dual", **_BLANK},
        extra={**fleet.variables, "virt_disk_profiles": profiles, "virt_nic_profiles": nics},
    )["hv1"]
    _made(result)
    devices = _definition(fleet, "hv1", "b06").find("devices")
    assert devices is not None
    files = [disk.find("source").get("file") for disk in devices.findall("disk")]  # type: ignore[union-attr]
    assert files == [f"{_POOL}/b06_system.qcow2", f"{_POOL}/b06_data.qcow2"]
    sources = [nic.find("source").attrib for nic in devices.findall("interface")]  # type: ignore[union-attr]
    assert sources == [{"bridge": "br0"}, {"network": "inner"}]


def test_b09_the_same_request_changes_nothing_and_another_is_told_apart(fleet: Fleet) -> None:
    options = {"name": "b09", **_BLANK}
    first = _made(fleet.init("hv1", **options))
    again = _made(fleet.init("hv1", **options))
    assert (first["changed"], again["changed"]) == (True, False)
    assert first["uuid"] == again["uuid"]
    other = fleet.init("hv1", **{**options, "memory": 128}, converge=False)
    assert other["failed"]
    assert "memory 64 MiB -> 128 MiB. It is left as it is" in other["msg"]
    elsewhere = fleet.init("hv2", **options)
    assert elsewhere["failed"]
    assert "hv1" in elsewhere["msg"]
    assert fleet.domains() == {"hv1": ["b09"], "hv2": []}
    # what libvirt has counts, not what was asked for once
    fleet.host(
        "hv1",
        "virsh setvcpus b09 3 --maximum --config; virsh setvcpus b09 3 --config;"
        " virsh vol-resize b09_system.qcow2 9GiB --pool default",
    )
    assert not _made(fleet.init("hv1", **options, vcpus=3))["changed"]
    run = fleet.provision(
        vm_name="b09", vm_vcpus=1, vm_memory=64, vm_disks='[{"name": "system", "size": "8GiB"}]'
    )
    assert run.returncode != 0
    # a disk never shrinks, and then nothing else is done either
    for words in ("disks.system.size 9216 MiB -> 8192 MiB, refused", "never shrunk"):
        assert words in run.stdout, run


def test_what_libvirt_has_not_is_refused_before_anything_is_touched(fleet: Fleet) -> None:
    """hv1 has no OVMF, and Linux bridges have no VLANs."""
    wishes: dict[str, dict[str, Any]] = {
        "needs UEFI firmware": {"firmware": "uefi"},
        "no VLAN tag on bridge br0": {"nics": [{"name": "eth0", "vlan": 7}]},
    }
    for check, (words, options) in zip((True, False), wishes.items()):
        refused = fleet.init("hv1", check=check, name="b10", **_BLANK, **options)
        assert refused["failed"]
        assert words in refused["msg"]
    vms = [{"name": f"vm{index}", **_BLANK, **one} for index, one in enumerate(wishes.values())]
    vms[0]["host"] = "hv1"  # the other one has the firmware
    run = fleet.provision(check=True, virt_vms=vms)
    assert run.returncode != 0
    for words, hosts in zip(wishes, (["hv1"], ["hv1", "hv2"])):
        for host in hosts:
            assert re.search(rf"{host}: [^;]*{words}", run.stdout), run
    assert fleet.domains() == {"hv1": [], "hv2": []}
    assert fleet.files("hv1") == []


def test_b10_what_fails_half_way_leaves_nothing(fleet: Fleet) -> None:
    fleet.host("hv1", "truncate -s 0 /var/lib/libvirt/images/other")
    # libvirt takes the definition, and qemu refuses it when it starts
    refused = fleet.init("hv1", name="b10", memory=64, seed=False, cpu={"model": "NoSuchCpu"})
    assert refused["failed"]
    assert fleet.domains()["hv1"] == []
    assert fleet.files("hv1") == ["other"]


def test_b13_vnc_listens_on_loopback_and_its_password_is_shown_nowhere(fleet: Fleet) -> None:
    console = {"type": "vnc", "listen": "0.0.0.0"}  # noqa: S104
    refused = fleet.init("hv1", check=True, name="b13", memory=64, seed=False, console=console)
    assert refused["failed"]
    assert "listen on 0.0.0.0 without TLS, open to the network" in refused["msg"]
    run = fleet.ansible.run(
        "ansible",
        [
            "hv1",
            "-vvv",
            "--become",
            "-m",
            "fleet.virt.virt_init",
            "-a",
            json.dumps(
                {
                    "name": "b13",
                    "memory": 64,
                    "seed": False,
                    "console": {"type": "vnc", "password": "s3cr3tpw"},
                }
            ),
            *(f"-e{key}={value}" for key, value in fleet.variables.items()),
        ],
    ).succeeded()
    # the command line that was given here is shown by nobody but ourselves
    assert "s3cr3tpw" not in run.stdout
    graphics = fleet.host("hv1", "virsh domdisplay b13 --all").split()
    assert graphics
    assert all("127.0.0.1" in one or "localhost" in one for one in graphics)
    (host,) = fleet.ansible.module("hv1", "virt_query", {"names": ["b13"]}).values()
    (found,) = host["domains"][0]["graphics"]
    assert (found["type"], found["listen"]) == ("vnc", "127.0.0.1")
    assert found["port"] >= 5900
    listeners = fleet.host("hv1", "ss -Hltn")
    assert f"127.0.0.1:{found['port']}" in listeners
    # the way to it that the guide shows
    *login, host_name = fleet.lab.login("hv1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        here = probe.getsockname()[1]
    forward = ["-N", "-L", f"{here}:127.0.0.1:{found['port']}"]
    tunnel = subprocess.Popen([*login, *forward, host_name], stdin=subprocess.DEVNULL)

    def greeting() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", here), 5) as end:
            return end.recv(4) == b"RFB "
        return False

    try:
        wait_for(greeting, 30, "the greeting of the VNC server through the tunnel")
    finally:
        tunnel.terminate()
        tunnel.wait(timeout=10)


def test_b11_b12_the_prediction_is_the_change_and_it_happens_once(fleet: Fleet) -> None:
    harness.verify(
        fleet.ansible,
        fleet.lab,
        "hv1",
        "fleet.virt.virt_init",
        {"name": "b11", "image": "tiny.qcow2", "memory": 96, "start": False, "autostart": True},
        task={"vars": fleet.variables},
    )


def test_b25_what_is_not_mentioned_keeps_its_value(fleet: Fleet) -> None:
    vm = {"name": "b25", "console": {"type": "vnc"}, "autostart": True, **_BLANK}
    _made(fleet.init("hv1", **vm))
    # an administrator's own change, by libvirt's own tools
    fleet.host(
        "hv1",
        "virsh dumpxml --inactive --security-info b25"
        " | sed 's,<on_reboot>restart<,<on_reboot>destroy<,' > /run/b25.xml"
        " && virsh define /run/b25.xml && rm /run/b25.xml",
    )

    def kept() -> tuple[str | None, bool, bool]:
        definition = _definition(fleet, "hv1", "b25")
        autostart = "enable" in fleet.host("hv1", "virsh dominfo b25 | grep -i autostart")
        vnc = definition.find("devices/graphics[@type='vnc']") is not None
        return definition.findtext("on_reboot"), autostart, vnc

    before = kept()
    assert before == ("destroy", True, True)
    assert not _made(fleet.init("hv1", **vm))["changed"]
    assert kept() == before
    state = fleet.ansible.module("hv1", "virt_state", {"names": ["b25"], "state": "running"})
    assert state["hv1"]["changed"]
    assert kept() == before
    assert not _made(fleet.init("hv1", name="b25", **_BLANK))["changed"]
    assert kept() == before


def test_a_whole_vm_that_a_dead_run_did_not_start_is_started(fleet: Fleet) -> None:
    vm = {"name": "whole", "memory": 64, "seed": False}
    made = _made(fleet.init("hv1", **vm))
    fleet.host("hv1", "virsh destroy whole")
    text = fleet.host("hv1", "virsh metadata whole urn:fleet.virt:1 --config")
    assert "phase" not in text
    owner = '<phase>starting</phase><owner boot_id="gone" pid="1" start_time="1" run="gone"/>'
    text = text.strip().replace("<fleet>", f"<fleet>{owner}", 1)
    assert "starting" in text
    fleet.host("hv1", f"virsh metadata whole urn:fleet.virt:1 --config --key fleet --set '{text}'")
    predicted = _made(fleet.init("hv1", check=True, **vm))
    assert (predicted["changed"], predicted["steps"]) == (True, ["start"])
    assert fleet.host("hv1", "virsh domstate whole").strip() == "shut off"
    started = _made(fleet.init("hv1", **vm))
    assert (started["changed"], started["uuid"]) == (True, made["uuid"])
    assert fleet.host("hv1", "virsh domstate whole").strip() == "running"
    for which in ("--config", "--live"):
        assert "phase" not in fleet.host("hv1", f"virsh metadata whole urn:fleet.virt:1 {which}")
    assert not _made(fleet.init("hv1", **vm))["changed"]


def test_an_image_of_the_hypervisor_by_its_absolute_path(fleet: Fleet) -> None:
    fleet.host("hv1", "qemu-img create -q -f qcow2 /var/lib/libvirt/centos.qcow2 32M")
    path = "/var/lib/libvirt/centos.qcow2"
    before = fleet.host("hv1", f"sha256sum {path}")
    options = {"name": "path1", "vcpus": 2, "image": path, **_BLANK}
    assert _made(fleet.init("hv1", **options))["changed"]
    assert not _made(fleet.init("hv1", **options))["changed"]
    assert fleet.host("hv1", f"sha256sum {path}") == before
    source = json.loads(
        fleet.host("hv1", f"qemu-img info --output=json {_POOL}/path1_system.qcow2")
    )
    assert source["backing-filename"].startswith(_BASE)


def test_one_name_on_several_hypervisors_is_refused(fleet: Fleet) -> None:
    results = fleet.ansible.module(
        "hv*", "virt_init", {"name": "twice", **_BLANK}, extra=fleet.variables
    )
    assert all(result["failed"] for result in results.values())
    assert "hv1, hv2" in results["hv1"]["msg"]
    assert fleet.domains() == {"hv1": [], "hv2": []}


def test_a_batch_with_one_mistake_touches_nothing_and_names_every_mistake(fleet: Fleet) -> None:
    vms = [
        {"name": "good", **_BLANK},
        {"name": "bad", **_BLANK, "memory": "lots"},
        {"name": "worse", **_BLANK, "disk_profile": "nosuch"},
    ]
    refused = fleet.init("hv1", vms=vms)
    assert refused["failed"]
    assert "lots" in refused["msg"]
    assert "nosuch" in refused["msg"]
    assert fleet.domains()["hv1"] == []


def test_a_file_in_the_way_is_never_taken_over(fleet: Fleet) -> None:
    _made(fleet.init("hv1", name="first", **_BLANK))  # makes the pool
    fleet.host("hv1", f"echo precious > {_POOL}/way_system.qcow2")
    refused = fleet.init("hv1", name="way", **_BLANK)
    assert refused["failed"]
    assert f"{_POOL}/way_system.qcow2" in refused["msg"]
    assert fleet.host("hv1", f"cat {_POOL}/way_system.qcow2") == "precious\n"
    assert fleet.domains()["hv1"] == ["first"]


def test_a_running_vm_has_its_seed(fleet: Fleet) -> None:
    _made(fleet.init("hv2", name="seeded", memory=96, image=blank.NAME))
    medium = fleet.host("hv2", f"stat -c %a {_POOL}/seeded_seed.iso").strip()
    assert medium == "600"
    public = fleet.key.with_suffix(".pub").read_text().split()[1]
    # the medium is ISO 9660 with its files as they are
    fleet.host("hv2", f"grep -aqF {public} {_POOL}/seeded_seed.iso")
