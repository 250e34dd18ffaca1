# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""corosync.conf, Pacemaker's configuration and its fence devices, as they are written and read."""

from __future__ import annotations

import dataclasses
import re
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import (
    cib,
    corosync,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.corosync import (
    CellMember,
    CellSettings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.facts import FenceResource
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing import pacemaker

_MEMBERS = [CellMember(f"hv{n}", n, [f"192.0.2.{n}"]) for n in (1, 2, 3)]
SETTINGS = CellSettings("a", _MEMBERS, 3000, {"sched_rr": "no"})
_DEBIAN = """\
totem {
\tversion: 2
\tcluster_name: debian
}
nodelist {
\t# node1 is this machine
\tnode {
\t\tname: node1
\t\tnodeid: 1
\t\tring0_addr: 127.0.0.1
\t}
}
"""
IPMI = {"agent": "fence_ipmilan", "ip": "192.0.2.113", "password": "xyzzy", "lanplus": True}


def test_configuration_is_read_back() -> None:
    text = corosync.text_of(SETTINGS)
    assert "crypto_cipher: aes256" in text
    assert "system {\n  sched_rr: no\n}" in text
    read = corosync.read(text)
    assert (read.cell, read.foreign, read.numbers) == ("a", None, {"hv1": 1, "hv2": 2, "hv3": 3})


def test_quorum_device_is_in_configuration() -> None:
    two = dataclasses.replace(SETTINGS, members=_MEMBERS[:2], qdevice={"host": "192.0.2.5"})
    assert "    net {\n      host: 192.0.2.5\n    }" in corosync.text_of(two)


def test_configuration_of_others_is_recognised() -> None:
    nothing = corosync.Configured(None, None, {})
    assert corosync.read(None) == nothing
    assert corosync.read(_DEBIAN) == nothing, "Debian's package brings it"
    foreign = corosync.read(_DEBIAN.replace("127.0.0.1", "192.0.2.1"))
    assert (foreign.cell, foreign.foreign) == (None, "debian")


def _values(settings: CellSettings) -> dict[str, str]:
    values = {"totem.token": str(settings.token), "system.sched_rr": "no"}
    for place, member in enumerate(settings.members):
        values[f"nodelist.node.{place}.name"] = member.name
        values[f"nodelist.node.{place}.nodeid"] = str(member.number)
        values[f"nodelist.node.{place}.ring0_addr"] = member.addresses[0]
    return values


@pytest.mark.parametrize(
    ("changes", "reload", "restart"),
    [
        ({}, False, False),
        ({"token": 5000}, True, False),
        ({"members": _MEMBERS[:2]}, True, False),
        ({"members": [*_MEMBERS[:2], CellMember("hv3", 3, ["198.51.100.3"])]}, True, False),
        ({"system": {"sched_rr": "yes"}}, False, True),
        ({"system": {}}, False, True),
    ],
)
def test_running_corosync_is_compared(
    changes: dict[str, t.Any], reload: bool, restart: bool
) -> None:
    wanted = dataclasses.replace(SETTINGS, **changes)
    values = _values(SETTINGS)
    assert corosync.running_differs(wanted, values) == reload
    assert corosync.needs_restart(wanted, values) == restart


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (None, "hv3 has no fence device"),
        ([], "hv3 has no fence device"),
        ("ipmi", "virt_fence of hv3: is no mapping"),
        ({"command": ["off"], "status_command": ["status"]}, "has a command, and Pacemaker"),
        ([IPMI, {"command": ["off"], "status_command": ["status"]}], "has a command"),
        (IPMI, ""),
    ],
)
def test_device_that_pacemaker_cannot_use_is_refused(declared: object, problem: str) -> None:
    said = pacemaker.problem("hv3", declared)
    assert problem in said
    assert bool(said) == bool(problem)
    assert "xyzzy" not in said


def test_device_without_plug_is_given_none() -> None:
    (alone,) = pacemaker.resources_of("hv3", IPMI)
    assert alone.parameters["pcmk_host_argument"] == "none"
    assert (alone.parameters["lanplus"], alone.secrets) == ("1", {"password": "xyzzy"})
    (plugged,) = pacemaker.resources_of("hv3", {**IPMI, "plug": 7})
    assert plugged.parameters["pcmk_host_map"] == "hv3:7"
    assert "plug" not in plugged.parameters


def _applied(root: t.Any, changes: t.Sequence[cib.CibChange]) -> None:
    """As cibadmin does: objects are found by tag and id."""
    for change in changes:
        section = change.words[change.words.index("--scope") + 1]
        place = root.find(f"configuration/{section}")
        given = _lxml.parse(change.xml, "input")
        if change.words[0] == "--delete":
            (gone,) = place.xpath(f"{given.tag}[@id='{given.get('id')}']")
            place.remove(gone)
        elif change.words[0] == "--create":
            assert not place.xpath(f"{given.tag}[@id='{given.get('id')}']")
            place.append(given)
        else:
            _merge(place, given)


def _merge(place: t.Any, given: t.Any) -> None:
    for child in given:
        same = place.xpath(f"{child.tag}[@id='{child.get('id')}']")
        if not same:
            place.append(child)
        else:
            same[0].attrib.update(child.attrib)
            _merge(same[0], child)


def _ids(devices: t.Sequence[FenceResource]) -> set[str]:
    return {device.id for device in devices}


@pytest.fixture
def root() -> t.Any:
    sections = ("crm_config", "rsc_defaults", "resources", "constraints", "fencing-topology")
    empty = "".join(f"<{section}/>" for section in sections)
    return _lxml.parse(f"<cib><configuration>{empty}</configuration></cib>", "cib")


def test_configuration_differs_until_it_is_written(root: t.Any) -> None:
    _lxml.add(root.find("configuration/resources"), "primitive", {"id": "others", "class": "ocf"})
    one = pacemaker.resources_of("hv1", IPMI)
    two = pacemaker.resources_of("hv2", [IPMI, {**IPMI, "ip": "192.0.2.114"}])
    for wanted in (one, [*one, *two], two, pacemaker.resources_of("hv2", {**IPMI, "ip": "x"}), []):
        changes = cib.changes(root, wanted)
        assert changes
        assert not [change for change in changes if "xyzzy" in change.text + str(change.words)]
        for change in changes:  # else it would go on running
            name = change.text.partition("remove ")[2]
            removed = name.startswith("fence") and not re.search("level|elsewhere", name)
            assert change.stop == (name if removed and name not in _ids(wanted) else "")
        _applied(root, changes)
        assert cib.changes(root, wanted) == []
        levels = root.findall("configuration/fencing-topology/fencing-level")
        assert [level.get("devices") for level in levels] == (
            ["fence.1-hv2,fence.2-hv2"] if len(wanted) > 1 else []
        )
        away = root.xpath("configuration/constraints/rsc_location[@score='-INFINITY']")
        hosts = {device.host for device in wanted}
        assert {item.get("node") for item in away} == hosts, "no member runs its own devices"
        for device in wanted:
            patterns = [item.get("rsc-pattern") for item in away if item.get("node") == device.host]
            assert [bool(re.search(one, device.id)) for one in patterns] == [True]
            assert not [one for one in patterns if re.search(one, f"{device.id}0-1x")]
    names = [item.get("id") for item in root.findall("configuration/resources/primitive")]
    assert names == ["others"]


def _all_ids(devices: t.Sequence[FenceResource]) -> list[str]:
    cib_root = _lxml.parse("<cib/>", "cib")
    texts = [change.xml for change in cib.changes(cib_root, devices)]
    roots = [_lxml.parse(text, "xml") for text in texts]
    return [str(item.get("id")) for root in roots for item in root.iter() if item.get("id")]


@pytest.mark.parametrize(
    "other",
    ["-1", "-2", "-elsewhere", "-level", "-parameters", "-parameters-ip", "-meta", "-start", ".2"],
)
@pytest.mark.parametrize("several", [False, True])
def test_ids_of_two_hosts_differ(other: str, several: bool) -> None:
    devices = [IPMI, {**IPMI, "ip": "192.0.2.114"}]
    wanted = pacemaker.resources_of("hv1", devices)
    wanted += pacemaker.resources_of(f"hv1{other}", devices if several else IPMI)
    ids = _all_ids(wanted)
    assert len(wanted) == 3 + several
    assert len(ids) == len(set(ids))
    for one in ("2-hv1", "1-2-hv1", "level-hv1"):
        ids = _all_ids([*wanted, *pacemaker.resources_of(one, devices)])
        assert len(ids) == len(set(ids)), one


def test_host_with_number_in_name_may_run_devices_of_another(root: t.Any) -> None:
    wanted = [*pacemaker.resources_of("hv1", IPMI), *pacemaker.resources_of("hv1-2", IPMI)]
    _applied(root, cib.changes(root, wanted))
    away = root.xpath("configuration/constraints/rsc_location[@score='-INFINITY']")
    kept = {
        (item.get("node"), device.host)
        for item in away
        for device in wanted
        if re.search(item.get("rsc-pattern"), device.id)
    }
    assert kept == {("hv1", "hv1"), ("hv1-2", "hv1-2")}


_EARLIER = """
<cib><configuration><crm_config/><rsc_defaults/><resources>
<primitive id="fence-hv1-1" class="stonith" type="fence_ipmilan"/>
<primitive id="fence-hv1-2" class="stonith" type="fence_ipmilan"/>
<primitive id="fence-hv3" class="stonith" type="fence_ipmilan"/></resources><constraints>
<rsc_location id="fence-hv1-elsewhere" rsc-pattern="^fence-hv1(-[0-9]+)?$" node="hv1"
score="-INFINITY"/>
<rsc_location id="web-elsewhere" rsc="web" node="hv1" score="-INFINITY"/></constraints>
<fencing-topology><fencing-level id="fence-hv1-level" target="hv1" index="1"
devices="fence-hv1-1,fence-hv1-2"/></fencing-topology></configuration></cib>
"""


@pytest.mark.parametrize("joining", [False, True])
def test_devices_of_earlier_release_are_replaced_without_gap(joining: bool) -> None:
    """At each moment the level of the host names devices that are there and switch that host; of
    a power supply alone nothing is proven."""
    root = _lxml.parse(_EARLIER, "cib")
    wanted = pacemaker.resources_of("hv1", [IPMI, {**IPMI, "ip": "192.0.2.114"}])
    wanted += pacemaker.resources_of("hv3", IPMI)
    wanted += pacemaker.resources_of("hv1-2", IPMI) if joining else []
    for change in cib.changes(root, wanted):
        _applied(root, [change])
        (level,) = root.findall("configuration/fencing-topology/fencing-level")
        there = {item.get("id"): item for item in root.iter("primitive")}
        for name in level.get("devices").split(","):
            hosts = there[name].xpath(".//nvpair[@name='pcmk_host_list']/@value")
            assert hosts in ([], ["hv1"]), "none in those of the earlier release here"
    assert cib.changes(root, wanted) == []
    assert {item.get("id") for item in root.iter("primitive")} == _ids(wanted)
    names = {item.get("id") for item in root.iter("rsc_location")}
    assert "web-elsewhere" in names, "others made it"
    assert "fence-hv1-elsewhere" not in names


def test_property_that_others_changed_is_set_again(root: t.Any) -> None:
    _applied(root, cib.changes(root, []))
    root.find("configuration/crm_config//nvpair[@name='stonith-enabled']").set("value", "false")
    (change,) = cib.changes(root, [])
    assert change.text == "set stonith-enabled=true"


def test_members_in_maintenance_repel_less_than_running_vms_stick(root: t.Any) -> None:
    """Below zero Pacemaker starts nothing; their sum stays above it."""
    _applied(root, cib.changes(root, []))
    rule = root.find("configuration/constraints/rsc_location/rule")
    assert -int(cib.DEFAULTS["resource-stickiness"]) < int(rule.get("score")) < 0
    rule.set("score", "-INFINITY")  # as somebody changed it
    assert [change.text for change in cib.changes(root, [])] == [
        "remove fleet-maintenance",
        "start no VM on members in maintenance",
    ]
    _applied(root, cib.changes(root, []))
    assert cib.changes(root, []) == []


def test_removed_resource_is_never_stopped() -> None:
    """Its stop fails without its parameters, and a failed stop has the hypervisor switched off."""
    assert cib.PROPERTIES["stop-orphan-resources"] == "false"


def test_failure_of_fence_device_is_ignored() -> None:
    """A failed start would delay those of VMs, which wait for it."""
    devices = [FenceResource("fence-hv1", "hv1", "fence_x", {"ip": "192.0.2.1"})]
    texts = [change.xml for change in cib.changes(_lxml.parse("<cib/>", "cib"), devices)]
    (primitive,) = [_lxml.parse(text, "xml") for text in texts if "<primitive" in text]
    operations = {
        item.get("name"): (item.get("on-fail"), item.get("timeout"))
        for item in primitive.iter("op")
    }
    assert operations == {"start": ("ignore", "10s"), "monitor": ("ignore", "10s")}


@pytest.mark.parametrize("agent", ["ocf:fleet:domain", "ocf::fleet:domain"])
def test_state_of_cell_is_read(agent: str) -> None:
    text = f"""
<pacemaker-result><summary><current_dc present="true" with_quorum="true"/></summary>
<nodes><node name="hv1" online="true" pending="false" unclean="false"/>
<node name="hv2" online="false" pending="false" unclean="true"/>
<node name="hv3" online="true" pending="true" unclean="false"/></nodes>
<resources>
<resource id="fleet-1" resource_agent="{agent}" role="Started"><node name="hv1"/></resource>
<resource id="other" resource_agent="ocf:heartbeat:Dummy" role="Started"/>
<resource id="fence-hv1" resource_agent="stonith:fence_x" role="Started" failed="false"/>
<resource id="fence-hv2" resource_agent="stonith:fence_x" role="Stopped" failed="false"/>
<resource id="fence-hv3" resource_agent="stonith:fence_x" role="Started" failed="false"
failure_ignored="true"/>
</resources></pacemaker-result>"""
    seen = cib.monitored(_lxml.parse(text, "crm_mon"))
    assert (seen.online, seen.unclean, seen.quorate) == ({"hv1"}, {"hv2"}, True)
    assert seen.vms == {"fleet-1": ["hv1"]}
    assert seen.devices == {"fence-hv1"}
