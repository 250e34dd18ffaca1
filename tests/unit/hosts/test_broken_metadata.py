# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM whose metadata cannot be used: it alone is refused, and what it has still counts."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import libvirt
import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import export as described
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import plan as adopt_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    answers,
    metadata,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.snapshot import Domains
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_host as host
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_placement_facts as placement_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
    read_domains,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import plan as move_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    read_candidates as migration_look,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.facts import MigrateLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import hosts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.facts import Placing
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    plan_creation as creation,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import plan as purge_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import effects as rename
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import plan as rename_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename.facts import RenameLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import plan as seeding
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import plan as snapshots
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.facts import (
    SnapshotFacts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import effects as state
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import plan as state_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.facts import StateLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    read_file_users as ownership,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template import (
    plan as template_plan,
)

_MAC = "52:54:00:00:00:07"
_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_NODE = """<node>
<pool type='dir'><name>default</name><target><path>/p</path></target></pool>
<domain type='test'><name>good</name><memory>131072</memory><os><type>hvm</type></os>
 <test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>5</test:runstate></domain>
<domain type='test'><name>bad</name><uuid>{uuid}</uuid><memory>262144</memory>
 <os><type>hvm</type></os>
 <devices><disk type='file' device='disk'><source file='/p/bad.img'/><target dev='vda'/></disk>
 <interface type='user'><mac address='{mac}'/></interface></devices>
 <test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>5</test:runstate></domain>
</node>"""
_CLAIM = (
    '<phase>creating</phase><volume pool="default" name="c.img" path="/p/c.img" target="vda"/>'
    '<request>{{"disks":[{{"name":"vda","size":{}}}]}}</request>'
)
KINDS = {
    "deep": "<a>" * 255 + "</a>" * 255,
    "deep request": f"<phase>creating</phase><request>{'[' * 60000}{']' * 60000}</request>",
    "request of 300 KB": f"<request>{'x' * 300_000}</request>",
    "not JSON": "<request>{</request>",
    "no object": "<phase>creating</phase><request>[]</request>",
    **{f"size {size[:9]}": _CLAIM.format(size) for size in ("NaN", "Infinity", "1e400", "1e300")},
    **{f"size {size[:9]}": _CLAIM.format(size) for size in ("-7", "9" * 5000, '"9"', "[1]")},
    "unknown phase": "<phase/>",
    "phase of two lines": "<phase>a&#10;b</phase>",
    "bad group": "<group>a&#10;b</group>",
    "many groups": "<group>g</group>" * 2000,
    "much text": f"<tag>{'t' * 4000}</tag>" * 100,
    "owner without a number": '<phase>creating</phase><owner boot_id="b" pid="x" start_time="1"/>',
    "unknown file": '<volume pool="default" name="bad.img" path="/p/bad.img" made="abc"/>',
    "move to nowhere": '<phase>migrating</phase><move source="hv1"/>',
}


@pytest.fixture(params=KINDS)
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connection]:
    """A node with a VM without metadata and one whose metadata are broken."""
    node = tmp_path / "node.xml"
    node.write_text(_NODE.format(uuid=_UUID, mac=_MAC), encoding="utf-8")
    with connect(f"test://{node}", 20) as opened:
        bad = opened.conn.lookupByName("bad")
        kind, text = libvirt.VIR_DOMAIN_METADATA_ELEMENT, f"<fleet>{KINDS[request.param]}</fleet>"
        bad.setMetadata(kind, text, metadata.PREFIX, metadata.NAMESPACE, 0)
        yield opened


def test_placement_goes_on_and_what_the_vm_has_still_counts(connection: Connection) -> None:
    answer = json.loads(json.dumps({"host": placement_facts.read(connection, "base", "")}))
    assert answers.problem(answer, Placing) is None
    seen = hosts.host_from_info(answer["host"], {})
    assert (seen.problem, [pool.problem for pool in seen.pools]) == (None, [None])
    assert seen.memory_promised_mib == 384
    vms = {vm["name"]: vm for vm in answer["host"]["vms"]}
    assert (vms["bad"]["uuid"], vms["bad"]["macs"]) == (_UUID, [_MAC])
    # a plan of the fleet says so, not that some run is at work
    assert vms["bad"]["phase"] == metadata.UNREADABLE
    assert not vms["good"]["phase"]
    assert not host.read_host(connection, "base")["errors"]
    (user,) = ownership.read_domains(connection).users("/p/bad.img")
    assert user.uuid == _UUID


def test_listing_names_the_vm_and_the_remedy(connection: Connection) -> None:
    answer = {"domains": read_domains(connection, DomainQuery())}
    assert answers.problem(json.loads(json.dumps(answer)), Domains) is None
    errors = {entry["name"]: entry["error"] for entry in answer["domains"]}
    assert errors["good"] is None
    assert f"virsh metadata bad {metadata.NAMESPACE} --remove" in str(errors["bad"])
    looked = json.loads(json.dumps(migration_look.look(connection, [], "base", "", every=True)))
    assert answers.problem(looked, MigrateLook) is None
    renaming, states = rename.look(connection), state.look(connection, ["bad"], ["g"])
    assert answers.read(renaming, RenameLook) == renaming
    assert answers.read(states, StateLook) == states


def _switched(connection: Connection, name: str, *, check: bool) -> dict[str, t.Any]:
    wanted = state_plan.StateRequest(state="running")
    result: t.Any = state.run(connection, [name], wanted, check=check)
    return result["vms"][0]


def test_other_vms_are_switched(connection: Connection) -> None:
    for check in (True, False):
        bad, good = (_switched(connection, name, check=check) for name in ("bad", "good"))
        assert (good["failed"], good["changed"]) == (False, True)
        assert (bad["failed"], bad["changed"]) == (True, False)
        assert "fleet.virt.adopt -e vm_name=bad" in bad["msg"]


def test_what_was_read_is_not_written_back(connection: Connection) -> None:
    dom = connection.conn.lookupByName("bad")
    stored = lookup.read_metadata(connection, dom)
    assert stored is not None
    for changed in (stored, dataclasses.replace(stored, phase=None)):
        with pytest.raises(PlanRefused, match="virsh metadata bad"):
            lookup.write_metadata(connection, dom, changed, lookup.AFFECT_CONFIG)
    # the remedy
    lookup.restore_metadata(connection, dom, None)
    assert lookup.read_metadata(connection, dom) is None
    assert not _switched(connection, "bad", check=False)["failed"]


_BROKEN = Metadata(request="null", phase=metadata.UNREADABLE, broken="request: not JSON")
_SOURCE: t.Any = dataclasses.make_dataclass("Source", ["name", "metadata"])


def _adopting(stored: Metadata | None, live: Metadata | None) -> t.Sequence[str]:
    description = described.Description()
    facts = adopt_plan.AdoptionFacts(
        *("bad", _UUID, True, live is not None, "shutoff", "", stored, live), description
    )
    return adopt_plan.plan(facts, adopt_plan.AdoptionOptions()).refusals


VERBS: dict[str, t.Callable[[], t.Sequence[str]]] = {
    "snapshot": lambda: snapshots._refusals(SnapshotFacts("bad", _UUID, stored=_BROKEN)),
    "migrate": lambda: move_plan._vm(_SOURCE("bad", _BROKEN)),
    "purge": lambda: purge_plan._refusals(
        t.cast("t.Any", dataclasses.make_dataclass("Domain", ["name", "metadata"])("bad", _BROKEN)),
        purge_plan.PurgeOptions(),
    ),
    "template": lambda: template_plan._refusals(
        template_plan.TemplateFacts("bad", broken=metadata.metadata_problems("bad", _BROKEN)[0]),
        template_plan.TemplateRequest({}),
    ),
    "adopt": lambda: _adopting(_BROKEN, None),
    "adopt a running one": lambda: _adopting(None, _BROKEN),
    "rename": lambda: (
        rename_plan.plan(
            rename_plan.RenameFacts("bad", _UUID, stored=_BROKEN), "bad", "new"
        ).refusals
    ),
    "remove a seed": lambda: seeding.plan(seeding.SeedingFacts("bad", _BROKEN), None).refusals,
    "provision": lambda: creation._refusals(
        creation.CreationFacts("bad", uuid=_UUID, stored=_BROKEN),
        t.cast("t.Any", None),
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_it_with_the_remedy(verb: str) -> None:
    (remedy,) = metadata.metadata_problems("bad", _BROKEN)
    assert remedy in VERBS[verb]()
