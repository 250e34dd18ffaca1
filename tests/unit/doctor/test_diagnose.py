# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every finding of the doctor: what brings it about, its remedy, and what does not."""

from __future__ import annotations

import copy
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import findings
from ansible_collections.fleet.virt.plugins.module_utils._fleet.doctor import report, unfinished
from ansible_collections.fleet.virt.plugins.module_utils._fleet.doctor.decide import (
    Diagnosis,
    diagnose,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import Silence
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight.decide_host import Limits

Answer = dict[str, t.Any]
NOW = 1_800_000_000
DAY = 86400
MACHINES = {name: f"{name[2:] * 8}-{'-'.join(['0' * 4] * 3)}-{'0' * 12}" for name in ("hv1", "hv2")}
GONE = f"{'9' * 8}-{'-'.join(['0' * 4] * 3)}-{'0' * 12}"


def vm(name: str, **changes: t.Any) -> Answer:
    """A VM of the collection that runs; what placement, moves and the doctor say of it."""
    return {
        "name": name,
        "uuid": f"uuid of {name}",
        "phase": None,
        "active": True,
        "managed": True,
        "holder": None,
        "broken": None,
        "ha": False,
        "disk_move": None,
        "nic_macs": [f"52:54:00:00:00:{len(name):02x}"],
        "addresses": [],
        "segments": ["br0"],
        "macs": [],
        "groups": [],
        "anti_affinity": [],
        "affinity": [],
        "persistent": True,
        "error": None,
        "move": None,
        "vcpus": 1,
        "memory_mib": 512,
        "domain_type": "kvm",
        "arch": "x86_64",
        "bridges": [],
        "networks": [],
        "tags": [],
        "zone": None,
        "evacuated_from": [],
        "nwfilters": [],
        "vsock": False,
        "media": [],
        "disks": [],
        **changes,
    }


def answer(name: str, *vms: Answer, checkup: Answer | None = None, **changes: t.Any) -> Answer:
    """A hypervisor that there is nothing to say about but its VMs."""
    host: Answer = {
        "uuid": MACHINES[name],
        "at": NOW * 1000,
        "notes": [],
        "domain_types": ["kvm"],
        "arch": "x86_64",
        "machines": ["pc-q35-7.2"],
        "cpu": {"total": 4, "defined": sum(one["vcpus"] for one in vms)},
        "memory_mib": {"total": 8192, "defined": sum(one["memory_mib"] for one in vms)},
        "pools": [
            {
                "name": "default",
                "path": "/images",
                "state": "running",
                "capacity_mib": 102400,
                "available_mib": 51200,
                "promised_mib": 0,
            }
        ],
        "networks": [],
        "bridges": [],
        "maintenance": False,
        "errors": [],
        "images": [],
        "vms": list(vms),
        **changes.pop("host", {}),
    }
    looked = {
        "arch": "x86_64",
        "libvirt": "9.0.0",
        "qemu": "7.2.0",
        "kernel": "6.1",
        "cpu": {"vendor": "AMD", "features": ["aes", "avx"]},
        "setup": {"/etc/libvirt/qemu.conf": "ab"},
        "keys": [],
        "vms": list(vms),
        "unused": [],
        "used": [],
        "noted": {},
        "rolling": [],
        "cell": None,
        "cell_vms": [],
        "errors": {},
        **(checkup or {}),
    }
    clock = {"offset": 0.1, "uncertainty": 1.0}
    rest = {"claims": [], "cards": [], "clock": clock, **changes}
    return {"host": host, "vms": list(vms), "checkup": looked, **rest}


def noting(*answers: Answer) -> None:
    """Have each hold a note of the other as it is."""
    texts = {
        name: note.text_of(name, one["host"]["vms"]) for name, one in zip(("hv1", "hv2"), answers)
    }
    for one, other in zip(answers, ("hv2", "hv1")):
        volume = note.reading(MACHINES[other], 5, texts[other]).volume
        one["host"]["notes"] = [*one["host"]["notes"], volume]
        one["checkup"]["noted"] = {volume: texts[other]}


def fleet(first: Answer | None = None, second: Answer | None = None) -> dict[str, Answer]:
    """Two hypervisors that know of each other."""
    both = (first or answer("hv1"), second or answer("hv2"))
    noting(*both)
    return dict(zip(("hv1", "hv2"), both))


def look(
    answers: dict[str, Answer],
    silent: t.Mapping[str, Silence] | None = None,
    lost: t.Collection[str] = (),
) -> Diagnosis:
    hosts = [placement.host_from_info(one["host"], {}, name=name) for name, one in answers.items()]
    hosts += [placement.silent_host(name, "no answer") for name in silent or {}]
    policy = placement.Policy(base_pool="base")
    told = t.cast("t.Any", copy.deepcopy(answers))
    return diagnose(told, silent or {}, hosts, policy, Limits(), lost)


def marked(at: int = 5) -> list[str]:
    return [note.MaintenanceMark(GONE, at, True, "hv3").volume]


def key(kind: str, days: int) -> Answer:
    until = NOW + days * DAY
    return {"keys": [{"path": "/k", "kind": kind, "subject": "CN=a", "until": until, "days": 30.0}]}


CELL = {
    **{"name": "rack1", "members": ["hv1", "hv2", "hv3"], "running": True, "quorate": True},
    **{"online": ["hv1", "hv2", "hv3"], "unclean": []},
}
CELL_VM = {
    **{"uuid": "uuid of web1", "name": None, "resource": "fleet-u", "managed": True},
    **{"held_by": None, "failed": False, "reason": None},
}


def member(
    name: str, *vms: Answer, cell_vm: Answer | None = None, over: bool = False, **changes: t.Any
) -> Answer:
    """A member of a cell, with what it says of it and of its VM; ``over``: no run is at work."""
    said = [{**CELL_VM, **cell_vm}] if cell_vm is not None else []
    cell = {**CELL, **changes}
    offers = {"cell": cell["name"] if cell["quorate"] else None}
    looked = {"cell": cell, "cell_vms": said}
    unmanaged = [*said] if over else []
    return answer(name, *vms, checkup=looked, unmanaged=unmanaged, host={"offers": offers})


HELD = {"managed": False, "held_by": "hv1"}
VOLUME = {"pool": "p", "name": "old", "path": "/p/old", "mib": 3, "shared": False, "id": None}
HV1, HV2 = "hv1", "hv2"
TWIN = vm("web1", uuid="b", active=False, managed=False, nic_macs=[])
COPY = vm("copy", uuid="uuid of web1", active=False, nic_macs=[])
SAME_MAC = vm("db", nic_macs=vm("web1")["nic_macs"])
OFF_MAC = {**SAME_MAC, "active": False}
AT = {"addresses": ["192.0.2.7/24"]}
GONE_NOTE = note.reading(GONE, 5, "x").volume
POOL = answer(HV1)["host"]["pools"][0]

_LATE = note.reading(MACHINES[HV2], (NOW + 2 * 3600) * 1000, "x").volume

# the id, what two hypervisors are, words of the message, and words of the remedy
FOUND: list[tuple[str, tuple[Answer | None, Answer | None], str, str]] = [
    (
        "note_ahead",
        (answer(HV1, host={"notes": [_LATE]}), None),
        "hv1 noted what hv2 had at ",
        f"ansible hv1 -b -a 'virsh -q vol-delete {_LATE} --pool fleet-notes'",
    ),
    (
        "name_twice",
        (answer(HV1, vm("web1")), answer(HV2, TWIN)),
        "'web1' on hv1 (active, UUID uuid of web1) and 'web1' on hv2 (shut off, UUID b)",
        "ansible hv2 -b -a 'virsh domrename web1 web1-2'",
    ),
    (
        "uuid_twice",
        (answer(HV1, vm("web1")), answer(HV2, COPY)),
        "one UUID, uuid of web1: 'web1' on hv1",
        "ansible hv2 -b -a 'virsh undefine --keep-nvram copy'",
    ),
    (
        "mac_twice",
        (answer(HV1, vm("web1"), OFF_MAC), None),
        "52:54:00:00:00:04",
        "ansible hv1 -b -m shell -a 'virsh dumpxml --inactive --security-info db | sed"
        " /mac.address=.52:54:00:00:00:04/Id | virsh define /dev/stdin'",
    ),
    (
        "mac_twice",
        (answer(HV1, vm("web1"), SAME_MAC), None),
        "52:54:00:00:00:04",
        "virsh define /dev/stdin' && ansible-playbook fleet.virt.state -e vm_name=db -e vm_host=hv1"
        " -e vm_state=running",
    ),
    (
        "address_twice",
        (answer(HV1, vm("web1", **AT)), answer(HV2, vm("db", **AT))),
        "192.0.2.7",
        "fleet.virt.state -e vm_name=db -e vm_host=hv2 -e vm_state=shutoff",
    ),
    (
        "address_twice",
        (answer(HV1, vm("web1", **AT)), answer(HV2, vm("db", active=False, **AT))),
        "'db' on hv2 (shut off",
        "ansible hv2 -b -m fleet.virt.virt_seed -a name=db",
    ),
    ("uuid_duplicate", (None, answer(HV2, host={"uuid": MACHINES[HV1]})), "hv1 and hv2", "host_uu"),
    (
        "machine_unlisted",
        (answer(HV1, host={"notes": [GONE_NOTE]}), None),
        GONE,
        f"virt_hypervisors_lost={GONE}",
    ),
    (
        "work_unfinished",
        (answer(HV1, vm("web1", phase="purging")), None),
        "'web1' is being removed, or that was interrupted",
        "ansible-playbook fleet.virt.purge_vm -e vm_name=web1",
    ),
    (
        "move_unfinished",
        (answer(HV1, vm("web1", phase="migrating")), None),
        "'web1' is being moved",
        "ansible-playbook fleet.virt.repair_vms -e vm_name=web1",
    ),
    (
        "rolling_unfinished",
        (answer(HV1, checkup={"rolling": ["rolling.begun.0123456789abcdef.5"]}), None),
        "rolling work on hv1 began at 1970-01-01",
        "ansible-playbook fleet.virt.return_vms -e virt_host=hv1",
    ),
    (
        "metadata_unusable",
        (answer(HV1, vm("web1", phase="unreadable", broken="zone: twice")), None),
        "zone: twice",
        "virsh metadata web1 urn:fleet.virt:1 --remove --config --live' && ansible-playbook",
    ),
    (
        "card_differs",
        (answer(HV1, cards=[{"name": "web1", "problem": None, "leftover": None}]), None),
        "the card of 'web1'",
        "ansible-playbook fleet.virt.repair_vms -e vm_name=web1",
    ),
    (
        "card_unusable",
        (answer(HV1, cards=[{"name": "web1", "problem": "no card", "leftover": None}]), None),
        "no card",
        "follow the message",
    ),
    (
        "card_unusable",
        (answer(HV1, cards=[{"name": "a", "problem": "x", "leftover": None, "stray": "/c"}]), None),
        "x",
        "ansible hv1 -b -a 'rm /c'",
    ),
    (
        "definition_left",
        (answer(HV1, cards=[{"name": "web1", "problem": None, "leftover": ["/a"]}]), None),
        "/a",
        "ansible-playbook fleet.virt.repair_vms -e vm_name=web1",
    ),
    (
        "cell_no_quorum",
        (member(HV1, quorate=False, online=["hv1"], unclean=["hv2", "hv3"]), None),
        "hv1 has no quorum in the cell 'rack1' (online: hv1)",
        "journalctl -u corosync -u pacemaker",
    ),
    (
        "cell_no_quorum",
        (member(HV1, quorate=False, running=False, online=[]), None),
        "Pacemaker does not run on hv1, a member of the cell 'rack1'",
        "ansible hv1 -b -a 'systemctl start corosync pacemaker'",
    ),
    (
        "cell_member_not_proven_off",
        (member(HV1, unclean=["hv3"]), member(HV2, unclean=["hv3"])),
        "hv3 of the cell 'rack1' is gone and not proven off",
        "without power: ansible hv1 -b -a 'stonith_admin --confirm hv3'",
    ),
    (
        "cell_vm_unmanaged",
        (member(HV1, vm("web1"), cell_vm=HELD, over=True), member(HV2, cell_vm=HELD)),
        "does not manage 'web1', so it is not started elsewhere",
        "ansible-playbook fleet.virt.repair_vms -e vm_name=web1",
    ),
    (  # its hypervisor is off, so it is defined nowhere
        "cell_vm_unmanaged",
        (None, member(HV2, cell_vm={**HELD, "held_by": "hv3", "name": "web1"})),
        "does not manage 'web1', so it is not started elsewhere",
        "ansible-playbook fleet.virt.repair_vms -e vm_name=web1",
    ),
    (
        "cell_vm_unmanaged",
        (member(HV1, vm("web1"), cell_vm={"managed": False}), None),
        "somebody has set that by hand",
        "crm_resource --resource fleet-u --meta --delete-parameter is-managed",
    ),
    (
        "cell_vm_unknown",
        (member(HV1, vm("web1", ha=True)), member(HV2)),
        "'web1' has ha: true, and the cell 'rack1' does not know it",
        "ansible-playbook fleet.virt.repair_vms -e vm_name=web1",
    ),
    (
        "cell_vm_unknown",
        (answer(HV1, vm("web1", ha=True)), None),
        "'web1' has ha: true, and hv1 is in no cell",
        "ansible-playbook fleet.virt.provision_vm -e vm_name=web1 -e vm_ha=false",
    ),
    (
        "cell_vm_failed",
        (None, member(HV2, cell_vm={"failed": True, "reason": "start on hv2: no bridge"})),
        "to run: start on hv2: no bridge",
        "ansible hv2 -b -a 'crm_resource --cleanup --resource fleet-u'",
    ),
    (
        "cell_vm_failed",
        (None, member(HV2, cell_vm={"failed": True, "name": "web1"})),
        "the cell 'rack1' does not get 'web1' to run",
        "ansible hv2 -b -a 'crm_resource --cleanup --resource fleet-u'",
    ),
    (
        "volume_unused",
        (answer(HV1, checkup={"unused": [VOLUME]}), None),
        "refers to /p/old (pool p, 3.0M on disk)",
        "ansible hv1 -b -a 'virsh vol-delete --pool p old'",
    ),
    (
        "memory_overcommitted",
        (answer(HV1, host={"memory_mib": {"total": 8192, "defined": 9000}}), None),
        "9000 MiB are promised to VMs, of 7680 MiB",
        "virt_memory_ratio",
    ),
    (
        "memory_overcommitted",
        (answer(HV1, *(vm(f"web{mib}", memory_mib=mib) for mib in (100, 4000, 2000, 3000))), None),
        "9100 MiB are promised to VMs, of 7680 MiB",
        "else give another hypervisor a VM, such as: ansible-playbook fleet.virt.migrate_vm -e"
        " vm_name=web2000",
    ),
    (
        "vcpus_overcommitted",
        (answer(HV1, host={"cpu": {"total": 4, "defined": 17}}), None),
        "17 vCPUs are promised to VMs, of 16",
        "virt_vcpu_ratio",
    ),
    (
        "vcpus_overcommitted",
        (answer(HV1, vm("web1", vcpus=9), vm("db", vcpus=10)), None),
        "19 vCPUs are promised to VMs, of 16",
        "ansible-playbook fleet.virt.migrate_vm -e vm_name=web1",
    ),
    (
        "pool_overcommitted",
        (answer(HV1, host={"pools": [{**POOL, "promised_mib": 204800}]}), None),
        "pool default promises 200.0G of 100.0G",
        "virt_disk_ratio",
    ),
    (
        "pool_overcommitted",
        (
            answer(
                HV1,
                vm("web1", disks=[{"path": "/images/web1", "bytes": 9 << 30, "backing": None}]),
                vm("db", disks=[{"path": "/other/db", "bytes": 200 << 30, "backing": None}]),
                host={"pools": [{**POOL, "promised_mib": 204800}]},
            ),
            None,
        ),
        "pool default promises 200.0G of 100.0G",
        "ansible-playbook fleet.virt.migrate_vm -e vm_name=web1",
    ),
    (
        "pool_low",
        (answer(HV1, host={"pools": [{**POOL, "available_mib": 1024}]}), None),
        "pool default has 1.0G free",
        "enlarge",
    ),
    (
        "loss_not_survived",
        (answer(HV1, vm("big", memory_mib=7000)), answer(HV2, vm("other", memory_mib=7000))),
        "without hv1, 1 VM has no place: big fits nowhere",
        "ansible-playbook fleet.virt.what_if -e virt_lose=hv1",
    ),
    ("arch_differs", (None, answer(HV2, checkup={"arch": "aarch64"})), "aarch64: hv2", "one arch"),
    ("versions_differ", (None, answer(HV2, checkup={"libvirt": "11.3.0"})), "libvirt: 9.0", ""),
    ("versions_differ", (None, answer(HV2, checkup={"qemu": "10.0.1"})), "qemu: 7.2.0: hv1", ""),
    ("versions_differ", (None, answer(HV2, checkup={"kernel": "6.12"})), "kernel: 6.1: hv1", ""),
    ("machines_apart", (None, answer(HV2, host={"machines": ["pc-q35-9.0"]})), "hv2: pc-q3", ""),
    (
        "setup_differs",
        (None, answer(HV2, checkup={"setup": {"/etc/libvirt/qemu.conf": "cd"}})),
        "wrote into /etc/libvirt/qemu.conf differs between hv1 and hv2",
        "ansible-playbook fleet.virt.setup_hypervisors --limit hv1,hv2",
    ),
    (
        "cpu_differs",
        (None, answer(HV2, checkup={"cpu": {"vendor": "AMD", "features": ["aes"]}})),
        "avx: not hv2",
        "ansible-playbook fleet.virt.preflight",
    ),
    (
        "cpu_differs",
        (None, answer(HV2, checkup={"cpu": {"vendor": "Intel", "features": ["aes"]}})),
        "AMD: hv1; Intel: hv2",
        "",
    ),
    (
        "clock_differs",
        (answer(HV1, clock={"offset": 4.0, "uncertainty": 0.5}), None),
        "its clock differs from the controller's by +4.000 s",
        "chrony",
    ),
    ("clock_wrong", (answer(HV1, clock={"offset": 90.0, "uncertainty": 1.0}), None), "+90", ""),
    ("key_expired", (answer(HV1, checkup=key("cert", -2)), None), "expired 2 days ago", "renew_k"),
    ("key_expires", (answer(HV1, checkup=key("cert", 20)), None), "expires in 20 days", "renew_k"),
    ("crl_expired", (answer(HV1, checkup=key("crl", -2)), None), "expired 2 days ago", "renew_k"),
    ("crl_expires", (answer(HV1, checkup=key("crl", 2)), None), "expires in 2 days", "renew_k"),
]
BY_SILENCE = {"host_silent", "libvirt_silent", "host_not_asked", "host_off", "note_differs"}


@pytest.mark.parametrize(
    ("kind", "both", "words", "remedy"),
    FOUND,
    ids=[f"{row[0]}-{row[2]}-{row[3][-9:]}" for row in FOUND],
)
def test_fault_is_reported_with_its_remedy(
    kind: str, both: tuple[Answer | None, Answer | None], words: str, remedy: str
) -> None:
    shown = look(fleet(*copy.deepcopy(both))).findings
    named = [finding for finding in shown if finding.id == kind and words in finding.message]
    assert named, shown
    assert remedy in named[0].remedy
    assert named[0].severity == findings.KINDS[kind][0]


def test_fleet_in_order_has_no_finding() -> None:
    both = fleet(answer(HV1, vm("web1")), answer(HV2, vm("db")))
    assert look(both) == Diagnosis((), ())


def test_every_finding_is_tested_and_in_the_guide() -> None:
    assert {row[0] for row in FOUND} | BY_SILENCE == set(findings.OF_DOCTOR)
    guide = Path(__file__).parents[3] / "docs" / "docsite" / "rst" / "doctor.rst"
    shown = re.findall(r"^``(\w+)`` +(error|warning|info) ", guide.read_text(), re.MULTILINE)
    assert shown == [(kind, severity) for kind, (severity, _text) in findings.OF_DOCTOR.items()]


def test_silent_hypervisor_is_named_and_stops_nothing() -> None:
    both = fleet(answer(HV1, checkup={"unused": [VOLUME]}))
    silent = {"hv3": Silence("it did not answer"), "hv4": Silence("excluded", asked=False)}
    found = look(both, silent)
    assert [finding.id for finding in found.findings] == ["host_silent", "host_not_asked"]
    assert found.unseen == (
        "hv3: everything (it did not answer)",
        "hv4: everything (excluded)",
        "volumes that nothing uses: hv3, hv4 may use any of them, and did not answer",
    )
    assert "not looked at:\n  hv3: everything" in report.text(found)


@pytest.mark.parametrize(
    ("why", "remedy"),
    [
        (
            "not installed: libvirt; install with: apt-get install python3-libvirt",
            "ansible-playbook fleet.virt.setup_hypervisors --limit hv3 installs",
        ),
        (
            "cannot connect to libvirt at qemu:///system: Failed to connect socket",
            "run ansible-playbook fleet.virt.renew_keys",
        ),
    ],
)
def test_hypervisor_that_says_what_it_lacks_is_not_silent(why: str, remedy: str) -> None:
    """Also one in maintenance: it is not off."""
    for notes in ([], marked()):
        both = fleet(answer(HV1, host={"notes": notes}))
        (lacking,) = look(both, {"hv3": Silence(why, reached=True)}).findings
        assert (lacking.id, lacking.hosts) == ("libvirt_silent", ("hv3",))
        assert why in lacking.message
        assert lacking.remedy.startswith(remedy)


def test_libvirt_unreachable_over_tls_is_a_silent_host() -> None:
    why = "cannot connect to libvirt at qemu+tls://hv3/system: no route to host"
    (silent,) = look(fleet(answer(HV1)), {"hv3": Silence(why)}).findings
    assert silent.id == "host_silent"


def test_hypervisor_in_maintenance_that_is_off_is_a_warning() -> None:
    found = look(
        fleet(answer(HV1, host={"notes": marked()})), {"hv3": Silence("it did not answer")}
    )
    (finding,) = found.findings
    assert (finding.id, finding.severity) == ("host_off", "warning")
    assert finding.remedy.endswith("ansible-playbook fleet.virt.return_vms -e virt_host=hv3")
    assert "in maintenance since 1970-01-01 00:00:00 UTC" in finding.message


def test_set_up_of_the_most_is_not_named() -> None:
    three = {**fleet(), "hv3": answer(HV2, host={"uuid": GONE})}
    three[HV2]["checkup"]["setup"] = {"/etc/libvirt/qemu.conf": "cd"}
    named = [one for one in look(three).findings if one.id == "setup_differs"]
    assert [one.hosts for one in named] == [(HV2,)]
    assert "differs from that on hv1, hv3" in named[0].message


def test_hypervisor_declared_lost_is_not_reported() -> None:
    noted = {"notes": [GONE_NOTE]}
    both = fleet(answer(HV1, host=noted, checkup={"unused": [VOLUME]}))
    found = look(both, lost=[GONE])
    assert [finding.id for finding in found.findings] == ["volume_unused"]
    assert found.unseen == ()


def test_vm_without_notes_is_named() -> None:
    both = fleet(answer(HV1, vm("web1")))
    assert not look(both).findings
    both[HV1]["checkup"]["vms"] = [vm("web1"), vm("by-hand", nic_macs=[])]
    (finding,) = look(both).findings
    assert (finding.id, finding.hosts) == ("note_differs", (HV1,))
    assert "'by-hand' is on hv1, and what hv2 noted of it at 1970" in finding.message
    # what a run put there since is claimed
    uuid = f"{'5' * 8}-{'-'.join(['0' * 4] * 3)}-{'0' * 12}"
    both[HV1]["checkup"]["vms"][1]["uuid"] = uuid
    claim = note.Claim(MACHINES[HV1], 9, GONE, "uuid", uuid).volume
    both[HV2]["host"]["notes"].append(claim)
    assert not look(both).findings


@pytest.mark.parametrize(("ahead", "named"), [(0, False), (3600, False), (3601, True)])
def test_note_of_a_clock_that_was_set_back_is_named(ahead: int, named: bool) -> None:
    both = fleet()
    volume = note.reading(MACHINES[HV2], (NOW + ahead) * 1000, "x").volume
    both[HV1]["host"]["notes"].append(volume)
    assert [one.hosts for one in look(both).findings if one.id == "note_ahead"] == (
        [(HV1, HV2)] if named else []
    )


def test_hypervisor_without_notes_is_named() -> None:
    both = fleet()
    both[HV2]["host"]["notes"] = []
    (finding,) = look(both).findings
    assert (finding.id, finding.hosts) == ("note_differs", (HV1,))
    assert "no other hypervisor has noted what hv1 has" in finding.message


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"checkup": {"unused": None, "errors": {"volumes": "x"}}}, "hv2 could not look at all"),
        ({"host": {"notes": [GONE_NOTE]}}, f"has machine {GONE}, which did not answer"),
    ],
)
def test_volumes_are_named_only_if_all_is_known(changes: Answer, why: str) -> None:
    found = look(fleet(answer(HV1, checkup={"unused": [VOLUME]}), answer(HV2, **changes)))
    assert "volume_unused" not in {finding.id for finding in found.findings}
    assert any(why in line for line in found.unseen), found.unseen


def test_volume_on_shared_storage_is_unused_only_if_no_other_uses_it() -> None:
    volume = {**VOLUME, "shared": True, "id": "x"}
    both = fleet(answer(HV1, checkup={"unused": [volume]}), answer(HV2, checkup={"used": ["old"]}))
    assert not look(both).findings
    both[HV2]["checkup"] = {**both[HV2]["checkup"], "used": [], "unused": [volume]}
    (finding,) = look(both).findings
    assert (finding.id, finding.hosts) == ("volume_unused", (HV1, HV2))
    # a file of the same name in a pool of its own is another file
    both = fleet(answer(HV1, checkup={"unused": [VOLUME]}), answer(HV2, checkup={"used": ["old"]}))
    assert [finding.id for finding in look(both).findings] == ["volume_unused"]


@pytest.mark.parametrize(
    "both",
    [
        (answer(HV1, vm("web1", phase="changing", holder="process 7")), None),
        (answer(HV1, vm("web1", phase="migrating", holder="process 7")), answer(HV2, vm("web1"))),
        (answer(HV1, vm("web1", **AT)), answer(HV2, vm("db", **AT, segments=["br1"]))),
        (answer(HV1, clock={"offset": 4.0, "uncertainty": 3.5}), None),
        (answer(HV1, checkup={"cpu": None}), None),
        (answer(HV1, checkup={"rolling": ["rolling.passed.0123456789abcdef.5"]}), None),
        (answer(HV1, checkup=key("cert", 40)), None),
        (member(HV1, vm("web1", ha=True), cell_vm={}), member(HV2, cell_vm={})),
        (member(HV1, vm("web1", ha=True, phase="creating", holder="process 7")), member(HV2)),
        # a run is at work
        (member(HV1, vm("web1"), cell_vm=HELD), member(HV2, cell_vm=HELD)),
    ],
)
def test_what_is_no_finding(both: tuple[Answer | None, Answer | None]) -> None:
    assert not look(fleet(*copy.deepcopy(both))).findings


@pytest.mark.parametrize(
    ("phase", "command"),
    [
        ("creating", "ansible-playbook fleet.virt.purge_vm -e vm_name=web1"),
        ("starting", "ansible-playbook fleet.virt.purge_vm -e vm_name=web1"),
        ("purging", "ansible-playbook fleet.virt.purge_vm -e vm_name=web1"),
        ("changing", "ansible-playbook fleet.virt.provision_vm -e vm_name=web1"),
        ("seeding", "ansible hv1 -b -m fleet.virt.virt_seed -a name=web1"),
        ("renaming", "ansible-playbook fleet.virt.rename -e vm_name=web1 -e vm_new_name=NAME"),
    ],
)
def test_work_of_each_phase_has_the_command_that_finishes_it(phase: str, command: str) -> None:
    (finding,) = look(fleet(answer(HV1, vm("web1", phase=phase)))).findings
    assert finding.id == "work_unfinished"
    assert finding.remedy.endswith(command)


def test_remedy_of_a_vm_without_readable_card_names_no_uuid() -> None:
    held = {**HELD, "held_by": "hv3"}
    (finding,) = look(fleet(None, member(HV2, cell_vm=held))).findings
    assert "'uuid of web1'" in finding.message
    assert finding.remedy == "ansible-playbook fleet.virt.repair_vms"


def test_interrupted_move_of_a_disk_is_finished_by_that_move() -> None:
    moving = {"phase": "changing", "disk_move": {"disk": "system", "pool": "fast"}}
    (finding,) = look(fleet(answer(HV1, vm("web1", **moving)))).findings
    assert finding.remedy.endswith(
        "ansible-playbook fleet.virt.move_disk -e vm_name=web1 -e virt_disk=system"
        " -e virt_to_pool=fast"
    )


def test_command_has_no_template_that_ansible_would_read() -> None:
    volume = {**VOLUME, "name": "{{ lookup('pipe', 'id') }}"}
    (finding,) = look(fleet(answer(HV1, checkup={"unused": [volume]}))).findings
    assert finding.remedy.endswith("ansible hv1 -b -a 'virsh vol-delete --pool p NAME'")


def test_errors_fail_and_warnings_if_strict() -> None:
    found = look(fleet(answer(HV1, vm("web1", phase="purging")), None))
    assert report.failures(found, strict=False) == []
    (failure,) = report.failures(found, strict=True)
    assert (failure.host, failure.startswith("work_unfinished: ")) == (HV1, True)
    twins = look(fleet(answer(HV1, vm("web1")), answer(HV2, TWIN)))
    assert [failure.host for failure in report.failures(twins, strict=False)] == [HV1, HV2]


def test_clock_is_measured_by_the_stamp_of_the_answer() -> None:
    told = {"host": {"at": 105_000}}
    assert report.clock(told, 99.0, 101.0) == {"offset": 5.0, "uncertainty": 1.0}
    assert report.clock({"host": {"at": "x"}}, 99.0, 101.0) is None
    assert report.clock({}, 99.0, 101.0) is None


def test_cards_of_renamed_hypervisor_are_named_once() -> None:
    entry = {"problem": None, "leftover": None, "called": "old1"}
    cards = [{**entry, "name": name} for name in ("web2", "web1")]
    (finding,) = unfinished.find({HV1: answer(HV1, cards=cards)})  # type: ignore[dict-item]
    assert (finding.id, finding.hosts) == ("card_differs", (HV1,))
    assert f"cards on shared storage (2) call {HV1} 'old1'" in finding.message
    assert finding.message.endswith(": web1, web2")
