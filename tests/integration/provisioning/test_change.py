# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A VM that exists is changed to what is asked for, and its guest sees it."""

from __future__ import annotations

import copy
import json
import os
import shlex
from pathlib import Path
from typing import Any

from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support import agreement
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from lxml import etree

from .conftest import Fleet

_SEED = os.environ.get("FLEET_VIRT_SEED", "20261127")
_PROVISION = "ansible-playbook fleet.virt.provision_vm -e @vms.yml"
# As the guide shows them, in this order, each with what it must print
COMMANDS = {
    f"{_PROVISION} --check --diff": '"vcpus": "2"',
    f"{_PROVISION} -e virt_converge=false": "left as it is, because virt_converge is false",
    f"{_PROVISION} -e virt_restart=when_required": "Record the restart results",
}
_VM: dict[str, Any] = {
    "name": "grows",
    "vcpus": 1,
    "vcpus_max": 3,
    "memory": 128,
    "memory_max": 160,
    "image": "tiny.qcow2",
    "disks": [
        {"name": "system", "size": 64},
        {"name": "data", "size": 16, "serial": "DATA"},
        {"name": "cd", "device": "cdrom"},
    ],
    "console": {"type": "vnc"},
    "groups": ["web"],
}
_SLOW = {"read_bytes_sec": 1 << 20}
# Four seconds' worth, of which QEMU gives the first at once
_SLOWLY = (
    "s=$(cut -d. -f1 /proc/uptime); dd if=/dev/vdb of=/dev/null bs=65536 count=64 iflag=direct"
    " && test $(($(cut -d. -f1 /proc/uptime) - s)) -ge 2"
)


class _Guest:
    """What the guest itself sees, by its agent."""

    def __init__(self, fleet: Fleet) -> None:
        assert fleet.guests is not None
        self.guests = fleet.guests
        self.guests.wait_agent("hv1", "grows")

    def sees(self, command: str) -> None:
        """The command succeeds inside the guest within some seconds."""

        def done() -> bool:
            try:
                self.guests.execute("hv1", "grows", command)
            except AssertionError:
                return False
            return True

        wait_for(done, 20, f"{command!r} inside the guest")


def _disk(target: str, mib: int) -> str:
    return f"test $(cat /sys/block/{target}/size) = {mib * 2048}"


def _unowned(fleet: Fleet) -> list[bytes]:
    """What no row owns, as canonical XML."""
    root = etree.fromstring(fleet.host("hv1", "virsh dumpxml --inactive grows"))
    places = ("uuid", "features", "clock", "on_crash", "devices/serial", "devices/channel")
    found = [root.find(place) for place in (*places, "devices/memballoon", "devices/emulator")]
    return [etree.tostring(one, method="c14n") for one in found if one is not None]


def _verify(fleet: Fleet, vm: dict[str, Any]) -> dict[str, Any]:
    """The module, by the harness: check mode is the real run, and the next changes nothing."""
    done = harness.verify(
        fleet.ansible,
        fleet.lab,
        "hv1",
        "fleet.virt.virt_init",
        vm,
        task={"vars": fleet.variables},
    )
    (entry,) = done.real["hv1"]["vms"]
    (again,) = done.again["hv1"]["vms"]
    assert again["pending"] == entry["pending"]
    return dict(entry)


def test_changes_of_a_guest_that_runs(fleet: Fleet) -> None:
    """Twenty in one request, then what goes, what is refused, what others changed, and a start."""
    fleet = fleet.alone("hv1")
    made = fleet.provision(virt_vms=[{**_VM, "host": "hv1"}], virt_wait_timeout=120).succeeded()
    assert "grows" in made.stdout
    guest = _Guest(fleet)
    (again,) = fleet.init("hv1", **_VM)["vms"]
    assert (again["changed"], again["pending"]) == (False, [])
    unowned = _unowned(fleet)
    vm = copy.deepcopy(_VM)
    vm.update(vcpus=2, memory=144, title="Grown", description="A VM\nthat grew", autostart=True)
    vm.update(groups=["blue", "web"], tags=["ssd"], anti_affinity=["web"], zone="a")
    vm.update(boot=["system", "data"], watchdog="poweroff", memory_max=192)
    vm["console"] = {"type": "vnc", "password": "s3cret"}
    vm["disks"] = [
        {"name": "system", "size": 64},
        {"name": "data", "size": 24, "cache": "writeback", "serial": "DATA", **_SLOW},
        {"name": "cd", "device": "cdrom"},
        {"name": "more", "size": 8, "serial": "MORE"},
        {"name": "logs", "size": 8, "bus": "scsi"},
    ]
    vm["nics"] = [
        {"name": "eth0", "bridge": "br0", "link": False},
        {"name": "eth1", "bridge": "br0"},
    ]
    entry = _verify(fleet, vm)
    assert sorted(entry["steps"]) == sorted(
        [
            "vcpus 1 -> 2, live",
            "memory 128 MiB -> 144 MiB, live",
            "memory_max 160 MiB -> 192 MiB, at the next start",
            "title none -> Grown, live",
            "description none -> A VM\nthat grew, live",
            "autostart false -> true",
            "groups web -> blue, web",
            "anti_affinity none -> web",
            "tags none -> ssd",
            "zone none -> a",
            "boot system, cd -> system, data, at the next start",
            "watchdog none -> poweroff, at the next start",
            "console.password changed, at the next start",
            "disks.data.size 16 MiB -> 24 MiB, live",
            "disks.data.cache none -> writeback, at the next start",
            "disks.data.read_bytes_sec 0 -> 1048576, live",
            "disks.more added, live",
            "disks.logs added, live",
            "nics.eth0.link true -> false, live",
            "nics.eth1 added, live",
        ]
    )
    waiting = ["memory_max", "console", "watchdog", "disks.vdb.cache", "boot"]
    assert sorted(entry["pending"]) == sorted(waiting)
    assert entry["restart_required"]
    assert _unowned(fleet) == unowned
    guest.sees("test -e /sys/devices/system/cpu/cpu1")
    guest.sees(_disk("vdb", 24))
    guest.sees(_SLOWLY)
    guest.sees("grep -q MORE /sys/block/vdc/serial")
    guest.sees("ls /sys/block | grep -q sd")
    guest.sees("test $(ls -d /sys/class/net/e* | wc -l) = 2")
    guest.sees("ip link set eth0 up; grep -q 0 /sys/class/net/eth0/carrier")

    # what goes: a disk with its volume, and a NIC; the cable comes back by another's hand
    fleet.host("hv1", "virsh domif-setlink grows --interface eth0 up 2>/dev/null || true")
    less = copy.deepcopy(vm)
    less["disks"][3] = {"name": "more", "state": "absent"}
    less["nics"] = [{"name": "eth0", "bridge": "br0"}, {"name": "eth1", "state": "absent"}]
    less["nics"][0]["link"] = True
    (entry,) = fleet.init("hv1", **less)["vms"]
    assert sorted(entry["steps"]) == [
        "disks.more removed, live",
        "nics.eth0.link false -> true, live",
        "nics.eth1 removed, live",
    ]
    assert "grows_more.qcow2" not in fleet.files("hv1")
    guest.sees("test ! -e /sys/block/vdc")
    guest.sees("ip link set eth0 up; grep -q 1 /sys/class/net/eth0/carrier")

    # what is refused touches nothing, whatever is asked for beside it; what else is refused:
    # tests/unit/provision/test_plan.py
    harness.refuse(
        fleet.ansible,
        fleet.lab,
        "hv1",
        "fleet.virt.virt_init",
        {**less, "vcpus": 3, "firmware": "uefi"},
        match="recreate the VM",
        task={"vars": fleet.variables},
    )

    # nor does one that cannot be meant
    run = fleet.provision(virt_vms=[{**less, "title": "Other"}], virt_restart="when_requierd")
    assert run.returncode == 2
    assert "virt_restart: 'when_requierd' is not one of never, when_required" in run.stdout
    assert fleet.host("hv1", "virsh desc --title --config grows").strip() == "Grown"

    # the memory that runs is compared too, and the plan says what waits
    guest.sees("grep -q virtio_balloon /proc/modules || ls /sys/bus/virtio/drivers/virtio_balloon")
    fleet.host("hv1", "virsh setmem grows 120M --live")

    def given_back() -> bool:
        # libvirt hears of it from QEMU, once in a second, and says until then what it heard last
        return ">122880<" in fleet.host("hv1", "virsh dumpxml grows | grep currentMemory")

    wait_for(given_back, 20, "memory of the guest")
    told = fleet.init("hv1", _work={"stage": "compare"}, **less)["vms"][0]
    assert told["differences"] == ["memory 120 MiB -> 144 MiB, live"]
    assert sorted(told["pending"]) == sorted(waiting)
    (entry,) = fleet.init("hv1", **less)["vms"]
    assert entry["steps"] == ["memory 120 MiB -> 144 MiB, live"]
    plan = fleet.ansible.playbook("plan", {**fleet.variables, "virt_vms": [less]}).succeeded()
    assert "needs a restart" in plan.stdout
    assert "watchdog waits for the next start" in plan.stdout

    # the next start has what waited for it
    run = fleet.provision(virt_vms=[less], virt_restart="when_required", virt_wait_timeout=120)
    run.succeeded()
    (after,) = fleet.init("hv1", **less)["vms"]
    assert (after["changed"], after["pending"]) == (False, [])

    # whatever is asked of it, plan, check mode and run agree
    agreement.judge(fleet.lab, "hv1", _SEED, 5, "grows")


def test_the_commands_of_the_guide(fleet: Fleet, tmp_path: Path) -> None:
    fleet = fleet.alone("hv1")
    vm = {"name": "told", "host": "hv1", "memory": 96, "image": "tiny.qcow2", "wait": False}
    fleet.provision(virt_vms=[vm]).succeeded()
    vms = {"virt_vms": [{**vm, "vcpus": 2}], **fleet.variables}
    (tmp_path / "vms.yml").write_text(json.dumps(vms))
    plan = fleet.ansible.playbook("plan", vms).succeeded()
    assert "vcpus 1 -> 2, at the next start" in plan.stdout
    assert fleet.guests is not None
    fleet.guests.wait_agent("hv1", "told")  # one that boots hears no request to shut down
    for command, expected in COMMANDS.items():
        program, *words = shlex.split(command.replace("vms.yml", str(tmp_path / "vms.yml")))
        run = fleet.ansible.run(program, words)
        assert expected in run.stdout, run
        assert (run.returncode == 0) == ("converge=false" not in command), run
        rows = [line.split(None, 3) for line in run.stdout.splitlines() if "told" in line]
        became = [row[3] for row in rows if row[:2] == ["told", "hv1"]]
        if "--check" in command:
            assert "would be changed, needs a restart (vcpus, vcpus_max)" in became, run
        if "when_required" in command:
            assert "changed, restarted" in became, run
    assert fleet.host("hv1", "virsh vcpucount told --live --current").strip() == "2"

    # of two plays in one run the second does not tell what the first restarted
    fleet.guests.wait_agent("hv1", "told")
    plays = [
        {
            "ansible.builtin.import_playbook": "fleet.virt.provision_vm",
            "vars": {"virt_vms": [{**vm, "vcpus": count}], "virt_restart": restart},
        }
        for count, restart in ((3, "when_required"), (4, "never"))
    ]
    (tmp_path / "two.yml").write_text(json.dumps(plays))
    run = fleet.ansible.playbook(str(tmp_path / "two.yml"), fleet.variables).succeeded()
    rows = [line.split(None, 3) for line in run.stdout.splitlines() if line.startswith("told ")]
    became = [row[3].strip() for row in rows if row[2] == "-"]
    assert became == ["changed, restarted", "changed, needs a restart (vcpus, vcpus_max)"], str(run)


def _switched(fleet: Fleet, host: str, name: str) -> tuple[str, str]:
    """When QEMU of a VM ended last, and when it was started last."""
    log = fleet.host(host, f"cat /var/log/libvirt/qemu/{name}.log").splitlines()
    ended = [line for line in log if "shutting down" in line]
    begun = [line for line in log if ": starting up" in line]
    return ended[-1].split(": ")[0], begun[-1].split(": ")[0]


def test_a_group_is_restarted_one_after_the_other(fleet: Fleet) -> None:
    """The next when the one before answers again; a failure leaves the others of its group."""
    assert fleet.guests is not None
    tiny = {"memory": 96, "image": "tiny.qcow2", "groups": ["pair"]}
    vms = [{**tiny, "name": f"pair{n}", "host": f"hv{n}"} for n in (1, 2)]
    fleet.provision(virt_vms=vms, virt_wait_timeout=120).succeeded()
    for n in (1, 2):
        fleet.guests.wait_agent(f"hv{n}", f"pair{n}")
    # neither of them two CPUs: emulated guests with several hang now and then when they boot
    more = [{**vm, "memory": 112} for vm in vms]
    run = fleet.provision(virt_vms=more, virt_restart="when_required", virt_wait_timeout=120)
    run.succeeded()
    (_off, first_on), (second_off, _on) = (_switched(fleet, f"hv{n}", f"pair{n}") for n in (1, 2))
    assert first_on < second_off
    turns = [
        (event.task, event.host)
        for event in run.events
        if event.task.endswith(("Restart the VMs", "Wait for the VMs that responded before"))
        and event.status == "ok"
    ]
    assert [host for _task, host in turns] == ["hv1", "hv1", "hv2", "hv2"], turns

    # what cannot start again stops its group, and only that
    for command in ("truncate -s 1M", "virsh attach-disk pair1 --config --target vdz", "rm"):
        fleet.host("hv1", f"{command} /var/lib/libvirt/images/gone.raw")
    most = [{**vm, "memory": 128} for vm in vms]
    run = fleet.provision(virt_vms=most, virt_restart="when_required", virt_wait_timeout=60)
    assert run.returncode == 2
    assert "gone.raw" in run.stdout
    assert "pair2 on hv2: it was not restarted because 'pair1', of its group 'pair'" in run.stdout
    assert "changed, needs a restart (memory" in run.stdout
    assert f"{112 * 1024} KiB" in fleet.host("hv2", "virsh dominfo pair2 | grep 'Max memory'")
    assert _switched(fleet, "hv2", "pair2")[0] == second_off
