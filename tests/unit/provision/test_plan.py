# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From a VM that exists to the one that is asked for, whenever it is interrupted."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    BEGUN,
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import plan as change
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.actions import AddVolume
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.definition import (
    DefinitionRequest,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.pending import pending
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.plan import ChangeFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import domain_xml, request
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import from_options
from lxml import etree

_MIB = 1024 * 1024
_VM: dict[str, t.Any] = {
    "name": "web1",
    "vcpus": 2,
    "vcpus_max": 4,
    "memory": 512,
    "memory_max": 1024,
    "disks": [
        {"name": "system", "size": 64},
        {"name": "data", "size": 8},
        {"name": "cd", "device": "cdrom"},
        {"name": "far", "dev": "/dev/vg/far"},
    ],
    "nics": [{"name": "eth0", "bridge": "br0"}],
    "console": {"type": "vnc", "password": "before"},
    "groups": ["web"],
    "seed": False,
}
_FOREIGN = (
    "<hostdev mode='subsystem' type='usb'><source><vendor id='0x1'/><product id='0x2'/></source>"
    "</hostdev>"
)
# What is asked for, and how each of it is changed while the VM runs
LIVE: list[tuple[dict[str, t.Any], list[str]]] = [
    ({"vcpus": 4}, ["vcpus 2 -> 4, live"]),
    ({"vcpus": 8}, ["vcpus 2 -> 8, at the next start"]),
    ({"vcpus": 1}, ["vcpus 2 -> 1, at the next start"]),
    ({"memory": 768}, ["memory 512 MiB -> 768 MiB, live"]),
    ({"memory": 2048}, ["memory 512 MiB -> 2.0GiB, at the next start"]),
    ({"memory_max": 2048}, ["memory_max 1.0GiB -> 2.0GiB, at the next start"]),
    ({"title": "Web"}, ["title none -> Web, live"]),
    ({"description": "a\nb"}, ["description none -> a\nb, live"]),
    ({"autostart": True}, ["autostart false -> true"]),
    ({"groups": ["db", "web"]}, ["groups web -> db, web"]),
    ({"tags": ["ssd"], "zone": "a"}, ["tags none -> ssd", "zone none -> a"]),
    ({"disks": [{"name": "data", "size": 16}]}, ["disks.data.size 8 MiB -> 16 MiB, live"]),
    ({"disks": [{"name": "data", "size": 8, "cache": "writeback"}]},
     ["disks.data.cache none -> writeback, at the next start"]),
    ({"disks": [{"name": "data", "size": 8, "total_iops_sec": 100}]},
     ["disks.data.total_iops_sec 0 -> 100, live"]),
    ({"disks": [{"name": "more", "size": 8}]}, ["disks.more added, live"]),
    ({"disks": [{"name": "more", "size": 8, "bus": "sata"}]},
     ["disks.more added, at the next start"]),
    ({"disks": [{"name": "data", "state": "absent"}]}, ["disks.data removed, live"]),
    ({"disks": [{"name": "far", "state": "absent"}]}, ["disks.far removed, live"]),
    ({"nics": [{"name": "eth0", "link": False}]}, ["nics.eth0.link true -> false, live"]),
    ({"nics": [{"name": "eth0", "bridge": "br1"}]},
     ["nics.eth0.source bridge br0 -> bridge br1, live"]),
    ({"nics": [{"name": "eth0", "model": "e1000e"}]},
     ["nics.eth0.model virtio -> e1000e, at the next start"]),
    ({"nics": [{"name": "eth1", "bridge": "br0"}]}, ["nics.eth1 added, live"]),
    ({"nics": [{"name": "eth0", "state": "absent"}]}, ["nics.eth0 removed, live"]),
    ({"console": {"type": "vnc", "password": "after"}}, ["console.password changed, live"]),
    ({"console": {"type": "vnc", "listen": "::1"}},
     ["console.listen 127.0.0.1 -> ::1, at the next start"]),
    ({"console": "none"}, ["console vnc -> none, at the next start"]),
    ({"cpu": "qemu64"}, ["cpu none -> custom, at the next start"]),
    ({"watchdog": "poweroff"}, ["watchdog none -> poweroff, at the next start"]),
    ({"os": "debian12"}, ["os none -> debian12, live"]),
    ({"xml": "<domain><devices><vsock><cid auto='yes'/></vsock></devices></domain>"},
     ["xml not there -> devices/vsock, at the next start"]),
    ({"disks": [{"name": "theirs", "dev": "/dev/vg/a"}]}, ["disks.theirs added, live"]),
    ({"disks": [{"name": "theirs", "volume": "a", "bus": "sata"}]},
     ["disks.theirs added, at the next start"]),
    ({"nics": [{"name": "eth0", "type": "direct", "bridge": None, "source": "eth1"}]},
     ["nics.eth0.source bridge br0 -> direct eth1, at the next start"]),
    ({"tpm": True}, ["tpm none -> true, at the next start"]),
    ({"rng": False}, ["rng true -> false, at the next start"]),
    ({"boot": ["eth0", "system"], "disks": [{"name": "system", "size": 64}],
      "nics": [{"name": "eth0"}]}, ["boot system -> eth0, system, at the next start"]),
    ({"machine": "pc-i440fx-9.0"}, ["machine pc-i440fx-7.2 -> pc-i440fx-9.0, at the next start"]),
]  # fmt: skip
# What is never done, with a part of the reason
REFUSED: list[tuple[dict[str, t.Any], str]] = [
    ({"disks": [{"name": "data", "size": 4}]}, "disks are never shrunk"),
    ({"disks": [{"name": "data", "size": 8, "bus": "scsi"}]}, "add another disk"),
    ({"disks": [{"name": "data", "size": 8, "format": "raw"}]}, "add another disk"),
    ({"disks": [{"name": "far", "dev": "/dev/vg/other"}]}, "the source of a disk is fixed"),
    ({"nics": [{"name": "eth0", "mac": "52:54:00:00:00:01"}]}, "a guest knows its NIC"),
    ({"firmware": "uefi"}, "recreate the VM"),
    ({"machine": "q35"}, "recreate the VM"),
    ({"arch": "aarch64"}, "the architecture of a VM"),
    ({"disks": [{"name": "system", "size": 64, "image": "a.qcow2"}]}, "from its image once"),
]


def _domain(options: dict[str, t.Any]) -> Domain:
    given = {**options}
    given["nics"] = [
        one if "state" in one else {"bridge": "br0", **one} for one in given.get("nics", ())
    ]
    domain, problems = from_options({"disk_profile": "none", "nic_profile": "none", **given})
    assert problems == []
    assert domain is not None
    return domain


def _volume(name: str) -> OwnVolume:
    return OwnVolume("default", f"web1_{name}.qcow2", f"/pool/web1_{name}.qcow2", name, "disk", "m")


def _xml(domain: Domain, machine: str = "pc-i440fx-7.2") -> str:
    volumes = {
        disk.name: domain_xml.VolumeRef(f"/pool/web1_{disk.name}.qcow2", disk.format)
        for disk in domain.disks
        if disk.device == "disk" and not disk.exists
    }
    uuid = "5f2c8f0e-9d0a-4d0b-8a2b-6e1f7c3a9b54"
    return domain_xml.render(
        domain, uuid=uuid, domain_type="qemu", machine=machine, arch="x86_64", volumes=volumes
    )


def _facts(*, live: bool = True) -> ChangeFacts:
    domain = _domain(_VM)
    xml = _xml(domain).replace("</devices>", f"{_FOREIGN}</devices>")
    names = ("system", "data")
    kept = Metadata(
        groups=domain.groups,
        volumes=tuple(map(_volume, names)),
        request=request.to_text(domain),
    )
    return ChangeFacts(
        "web1",
        xml,
        xml if live else None,
        kept,
        sizes={"/pool/web1_system.qcow2": 64 * _MIB, "/pool/web1_data.qcow2": 8 * _MIB},
        files=frozenset(f"/pool/web1_{name}.qcow2" for name in names),
        running=live,
    )


def _wanted(
    options: dict[str, t.Any], facts: ChangeFacts
) -> tuple[DefinitionRequest, dict[str, OwnVolume]]:
    domain = _domain({"name": "web1", **options})
    stored = {
        one.path for one in change.differences(facts, DefinitionRequest(domain, ""), facts.inactive)
    }
    missing = [disk for disk in domain.disks if f"disks.{disk.name}" in stored]
    part = dataclasses.replace(domain, disks=tuple(missing), boot=())
    machine = str(domain.machine or "pc-i440fx-7.2")
    wanted = DefinitionRequest(domain, _xml(part, machine), tuple(disk.name for disk in missing))
    volumes = {
        disk.name: dataclasses.replace(_volume(disk.name), role="new", made=BEGUN)
        for disk in missing
        if disk.device == "disk" and not disk.exists
    }
    return wanted, volumes


def _plan(options: dict[str, t.Any], facts: ChangeFacts) -> change.Converged:
    return change.plan(facts, *_wanted(options, facts))


@pytest.mark.parametrize(("options", "texts"), LIVE, ids=lambda value: str(value)[:50])
def test_how_each_setting_is_changed(options: dict[str, t.Any], texts: list[str]) -> None:
    """Live, at the next start or beside the definition; off, nothing is said of that."""
    facts = _facts()
    found = _plan(options, facts)
    assert [one.text for one in found.changes] == texts
    after = predict(facts, found.plan.steps)
    again = _plan(options, after)
    assert (again.changes, again.plan.steps) == ((), ())
    waits = any("at the next start" in text for text in texts)
    assert bool(pending(after.inactive, after.live, options.get("xml"))) == waits
    off = _plan(options, _facts(live=False))
    plain = [one.replace(", at the next start", "").replace(", live", "") for one in texts]
    assert [one.text for one in off.changes] == plain
    settled = predict(_facts(live=False), off.plan.steps)
    assert _plan(options, settled).changes == ()


@pytest.mark.parametrize("live", [True, False], ids=["running", "off"])
@pytest.mark.parametrize("options", [options for options, _texts in LIVE], ids=str)
def test_the_next_run_ends_what_a_kill_left(options: dict[str, t.Any], live: bool) -> None:
    start = _facts(live=live)
    first = _plan(options, start)
    goal = predict(start, first.plan.steps)
    assert goal.metadata.phase is None
    for when, left in interrupted(start, first.plan.steps):
        second = _plan(options, left)
        assert second.plan.refusals == (), when
        end = predict(left, second.plan.steps)
        assert _plan(options, end).plan.steps == (), when
        assert end.metadata.phase is None, when
        assert (end.files, end.sizes) == (goal.files, goal.sizes), when
        assert set(end.metadata.volumes) == set(goal.metadata.volumes), when
        for one, other in ((end.inactive, goal.inactive), (end.live, goal.live)):
            assert _canonical(one) == _canonical(other), when


@pytest.mark.parametrize(("options", "reason"), REFUSED, ids=lambda value: str(value)[:50])
def test_what_is_never_done(options: dict[str, t.Any], reason: str) -> None:
    found = _plan(options, _facts())
    assert found.plan.steps == ()
    (refusal,) = found.plan.refusals
    assert "refused: " in refusal
    assert reason in refusal


def test_everything_at_once_and_one_refusal_touches_nothing() -> None:
    options = {"vcpus": 4, "disks": [{"name": "data", "size": 4}]}
    found = _plan(options, _facts())
    assert found.plan.steps == ()
    assert [one.how for one in found.changes] == ["live", "refused"]


def _canonical(xml: str | None) -> str:
    if xml is None:
        return ""
    root = _lxml.parse(xml, "x")
    devices = root.find("devices")
    assert devices is not None
    devices[:] = sorted(devices, key=lambda one: (one.tag, etree.tostring(one, method="c14n")))
    root[:] = sorted(root, key=lambda one: one.tag)
    return etree.tostring(_lxml.parse(_lxml.tostring(root), "x"), method="c14n").decode()


@pytest.mark.parametrize("options", [options for options, _texts in LIVE], ids=str)
def test_what_no_row_owns_is_as_it_was(options: dict[str, t.Any]) -> None:
    facts = _facts()
    after = predict(facts, _plan(options, facts).plan.steps)
    root = _lxml.parse(after.inactive, "x")
    assert root.find("devices/hostdev/source/vendor") is not None
    for tag in ("features", "clock", "on_crash", "devices/channel", "devices/serial", "uuid"):
        one, other = root.find(tag), _lxml.parse(facts.inactive, "x").find(tag)
        assert one is not None
        assert other is not None
        assert etree.tostring(one, method="c14n") == etree.tostring(other, method="c14n")


def test_what_only_runs_otherwise_is_mended_and_what_is_not_asked_for_stays() -> None:
    facts = _facts()
    assert facts.live is not None
    drifted = dataclasses.replace(facts, live=facts.live.replace('current="2"', 'current="3"'))
    assert [one.text for one in _plan({"vcpus": 2}, drifted).changes] == []
    down = facts.live.replace("</interface>", '<link state="down"/></interface>')
    nics = [{"name": "eth0", "link": True}]
    drifted = dataclasses.replace(facts, live=down)
    assert [one.text for one in _plan({"nics": nics}, drifted).changes] == [
        "nics.eth0.link false -> true, live"
    ]
    assert _plan({"memory": 512}, drifted).plan.steps == ()


def test_link_that_was_set_down_by_hand_is_mended_without_being_requested() -> None:
    """Only what the definition has otherwise: a link that is down there as well was meant."""
    facts = _facts()
    assert facts.live is not None
    down = '<link state="down"/></interface>'
    drifted = dataclasses.replace(facts, live=facts.live.replace("</interface>", down))
    options = {"nics": [{"name": "eth0"}]}
    found = _plan(options, drifted)
    assert [one.text for one in found.changes] == ["nics.eth0.link false -> true, live"]
    settled = predict(drifted, found.plan.steps)
    assert settled.live is not None
    assert "down" not in settled.live
    assert _plan(options, settled).changes == ()
    meant = dataclasses.replace(drifted, inactive=facts.inactive.replace("</interface>", down))
    assert _plan(options, meant).changes == ()


@pytest.mark.parametrize("memory", [256, 768, 1024])
def test_memory_that_runs_is_mended_where_the_guest_gives_it_back(memory: int) -> None:
    facts = _facts()
    assert facts.live is not None
    text = f">{512 * 1024}</currentMemory>"
    assert text in facts.live
    other = facts.live.replace(text, f">{memory * 1024}</currentMemory>")
    drifted = dataclasses.replace(facts, live=other, balloon=True)
    assert [one.text for one in _plan({"memory": 512}, drifted).changes] == [
        f"memory {'1.0GiB' if memory == 1024 else f'{memory} MiB'} -> 512 MiB, live"
    ]
    assert _plan({"title": "t"}, drifted).changes[0].path == "title"
    # a guest that boots, or has no driver, has all of it
    assert _plan({"memory": 512}, dataclasses.replace(drifted, balloon=False)).changes == ()


def test_a_disk_that_was_taken_out_by_hand_comes_back_with_what_is_on_it() -> None:
    facts = _facts(live=False)
    root = _lxml.parse(facts.inactive, "x")
    (disk,) = [
        one for one in root.iterfind("devices/disk") if "web1_data" in str(etree.tostring(one))
    ]
    above = disk.getparent()
    assert above is not None
    above.remove(disk)
    facts = dataclasses.replace(facts, inactive=_lxml.tostring(root))
    found = _plan({"disks": [{"name": "data", "size": 8}]}, facts)
    assert [one.text for one in found.changes] == ["disks.data added"]
    assert AddVolume not in [type(step.action) for step in found.plan.steps]


def test_a_file_in_the_way_is_never_taken_over() -> None:
    facts = _facts()
    facts = dataclasses.replace(facts, files=facts.files | {"/pool/web1_more.qcow2"})
    (refusal,) = _plan({"disks": [{"name": "more", "size": 8}]}, facts).plan.refusals
    assert "does not belong to this VM" in refusal


def test_saved_memory_is_no_time_for_changes() -> None:
    facts = dataclasses.replace(_facts(live=False), saved=True)
    (refusal,) = _plan({"vcpus": 4}, facts).plan.refusals
    assert "start it first" in refusal


def test_file_that_dead_run_left_on_shared_storage_stays_and_is_forgotten() -> None:
    """Nothing is refused for it, unless a disk is to have its name."""
    facts = _facts()
    left = dataclasses.replace(_volume("more"), role="new")
    stored = dataclasses.replace(facts.metadata, volumes=(*facts.metadata.volumes, left))
    files = facts.files | {left.path}
    why = f"{left.path} is on storage that other hypervisors can reach"
    facts = dataclasses.replace(facts, metadata=stored, files=files, stays={left.path: why})
    planned = _plan(_VM, facts).plan
    assert f"forget {left.path}" in [step.text for step in planned.steps]
    after = predict(facts, planned.steps)
    assert left.path in after.files
    assert left not in after.metadata.volumes
    assert _plan(_VM, after).plan.steps == ()
    disks = [*_VM["disks"], {"name": "more", "size": 8}]
    assert why in _plan({**_VM, "disks": disks}, facts).plan.refusals
