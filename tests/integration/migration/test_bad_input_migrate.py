# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does not move, and what is said, in check mode and for real, and that nothing is touched.

Each rule by itself is among the unit tests of the plan; here is what needs real hypervisors.
"""

from __future__ import annotations

from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support import blank

from .conftest import IMAGES, MODULE, Movers, bring

_MARK = "fleet-virt.maintenance"
_TWIN = """
<domain type='qemu'><name>bad</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>
"""


def test_everything_that_speaks_against_it_at_once(movers: Movers) -> None:
    """A bridge, a medium, the name, a file in the way, maintenance."""
    movers.fleet.host("hv1", "ip link show br9 >/dev/null 2>&1 || ip link add br9 type bridge")
    nics = [{"name": "eth0", "type": "bridge", "source": "br9"}]
    bring(movers.fleet, blank.NAME)
    movers.make("bad", image=blank.NAME, nics=nics, start=False)
    movers.fleet.host(
        "hv1",
        f"truncate -s 1M {IMAGES}/i.iso; virsh -q attach-disk bad {IMAGES}/i.iso sdy --type cdrom"
        " --mode readonly --targetbus scsi --config",
    )
    movers.fleet.host("hv1", "virsh -q start bad")
    movers.lab.ssh("hv2", "virsh -q define /dev/stdin", input=_TWIN)
    movers.fleet.host(
        "hv2",
        f"qemu-img create -q -f qcow2 {IMAGES}/bad_system.qcow2 1M; virsh -q pool-refresh default;"
        f" virsh -q vol-create-as base {_MARK} 0 --format raw",
    )
    args = movers.args("bad")
    args["vms"][0]["destination"]["bridges"] = ["br0"]
    try:
        done = harness.refuse(
            movers.ansible, movers.lab, "hv1", MODULE, args, match="hv2 is in maintenance"
        )
    finally:
        movers.fleet.host("hv2", f"virsh -q vol-delete {_MARK} base")
        movers.fleet.host("hv1", "virsh -q destroy bad; ip link delete br9")
    (vm,) = done.real["hv1"]["vms"]
    found = "\n".join(vm["findings"])
    for text in (
        "hv2 is in maintenance",
        "bridge br9 is not on hv2; it has: br0",
        "hv2 already has a VM 'bad'",
        f"the medium in the drive sdy ({IMAGES}/i.iso)",
        f"{IMAGES}/bad_system.qcow2 already exists on hv2, not from moving this VM",
    ):
        assert text in found, found
    assert len(vm["findings"]) == 5, found


def test_states_and_names_that_do_not_move(movers: Movers) -> None:
    bring(movers.fleet, blank.NAME)
    movers.make("still", image=blank.NAME)

    def refused(name: str = "still", **options: object) -> str:
        vm = movers.module(name, **options)
        assert vm["failed"], vm
        return str(vm["msg"])

    movers.fleet.host("hv1", "virsh -q suspend still")
    assert "'still' is paused; resume it" in refused()
    movers.fleet.host("hv1", "virsh -q resume still; virsh -q managedsave still")
    assert "has saved memory, which would stay behind" in refused()
    movers.fleet.host("hv1", "virsh -q managedsave-remove still")
    assert "no VM 'nobody' on hv1 or hv2" in refused("nobody")
    assert "bandwidth: 0 is not above 0" in refused(bandwidth=0)
    text = "value of on_timeout must be one of: abort, pause, got: postcopy"
    assert text in refused(on_timeout="postcopy")
    movers.fleet.host("hv2", "systemctl -q stop libvirtd-tls.socket libvirtd.service")
    try:
        assert "hv2 cannot be reached from hv1 over TLS" in refused()
    finally:
        movers.listen("hv2")
    assert movers.state("hv1", "still") == "shut off"
    movers.clean("hv2", "still")


def test_the_playbook_refuses_what_is_not_proven(movers: Movers) -> None:
    """A VM on two hypervisors, an unknown one, an unknown target, and no other hypervisor."""
    movers.make("twice", start=False)
    run = movers.playbook(vm_name="nobody")
    assert run.returncode
    assert "no hypervisor has a VM 'nobody'; there are: twice" in run.stdout
    run = movers.playbook(vm_name="twice", virt_host="hv9")
    assert "hv9 is no hypervisor of this play; there are: hv1, hv2" in run.stdout
    run = movers.ansible.playbook("migrate_vm", {"vm_name": "twice"}, ["--limit", "hv1"])
    assert "twice fits nowhere" in run.stdout
    assert "virt_hypervisors_lost" not in run.stdout
    movers.lab.ssh("hv2", "virsh -q define /dev/stdin", input=_TWIN.replace("bad", "twice"))
    run = movers.playbook(vm_name="twice", vm_host="hv2")
    assert "'twice' is defined on hv1 and hv2; a VM may exist only once" in run.stdout
    assert movers.state("hv1", "twice") == "shut off"
