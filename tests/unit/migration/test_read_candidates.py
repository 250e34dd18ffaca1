# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor says of VMs that are to move, on libvirt's test driver, which knows no jobs:
none of its VMs can be read wholly, and all are told of."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata, Move
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_placement_facts as placement_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    read_candidates as migration_look,
)

_DISK = (
    "<devices><disk type='file' device='disk'><source file='/x.qcow2'/><target dev='vda'/></disk>"
    "</devices>"
)
_DOMAIN = """
<domain type='test'>
  <name>{name}</name><memory>131072</memory><os><type>hvm</type></os>{devices}
  <test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>1</test:runstate>
</domain>
"""
_MOVE = Move("hv1", "hv2", "run", "no", "running")
_KEPT = {
    "plain": Metadata(request="{}", home="hv1"),
    "arrived": Metadata(request="{}", phase="migrating", move=_MOVE),
    "evacuated": Metadata(request="{}", evacuated_from=("hv1", "hv3")),
    "web1.migration": Metadata(request="{}", phase="creating", move=_MOVE),
}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """Running VMs whose metadata are in their definitions alone, as after a move."""
    text = "".join(
        _DOMAIN.format(name=name, devices="" if name == "plain" else _DISK) for name in _KEPT
    )
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{text}</node>")
    with connect(f"test://{node}", 10) as opened:
        for name, kept in _KEPT.items():
            dom = lookup.find_domain(opened, name)
            lookup.write_metadata(opened, dom, kept, lookup.AFFECT_CONFIG)
        yield opened


def seen(connection: Connection, *names: str, **wanted: t.Any) -> dict[str, dict[str, t.Any]]:
    found = migration_look.look(connection, names, "base", "/base", **wanted)
    assert found["claims"] == [{"name": "web1", "source": "hv1", "destination": "hv2"}]
    return {vm["name"]: vm for vm in found["vms"]}


def test_a_move_that_has_arrived_is_found_by_its_definition(connection: Connection) -> None:
    found = seen(connection, unfinished=True)
    assert list(found) == ["arrived"]
    assert (found["arrived"]["phase"], found["arrived"]["move"]) == ("migrating", vars(_MOVE))


def test_those_that_were_evacuated_and_those_under_way_come_back(connection: Connection) -> None:
    assert list(seen(connection, home="hv3")) == ["arrived", "evacuated"]
    # where it was made says nothing
    assert list(seen(connection, home="hv1")) == ["arrived", "evacuated"]
    assert list(seen(connection, home="hv9")) == ["arrived"]


def test_a_claim_is_none_of_the_vms_that_leave(connection: Connection) -> None:
    assert list(seen(connection, every=True, unfinished=True)) == ["arrived", "evacuated", "plain"]
    assert list(seen(connection, "plain", "web1", unfinished=True)) == ["plain"]
    assert seen(connection) == {}


def test_what_cannot_be_read_is_that_vms_error(connection: Connection) -> None:
    found = seen(connection, every=True)
    assert list(found) == ["arrived", "evacuated", "plain"]
    assert all(vm["error"] for vm in found.values()), found
    assert found["evacuated"]["evacuated_from"] == ["hv1", "hv3"]
    assert found["evacuated"]["persistent"] is True


def test_one_that_leaves_meanwhile_is_not_said_to_be_there_and_in_no_move(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its destination may have been read before it arrived; then only this tells of the move."""
    read = placement_facts.read

    def read_and_leave(*words: t.Any) -> t.Any:
        host = read(*words)
        dom = lookup.find_domain(connection, "arrived")
        dom.destroy()
        dom.undefine()
        return host

    monkeypatch.setattr(placement_facts, "read", read_and_leave)
    found = migration_look.look(connection, (), "base", "/base", unfinished=True)
    assert "arrived" in [vm["name"] for vm in found["host"]["vms"]]
    assert [(vm["name"], vm["phase"]) for vm in found["vms"]] == [("arrived", "migrating")]


def test_shared_memory_of_vm_on_destination_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "local", True)
    shared = "<devices><shmem name='own' role='master'><model type='ivshmem-plain'/></shmem>"
    with connect("test:///default", 10) as opened:
        text = _DOMAIN.format(name="other", devices=f"{shared}</devices>")
        other = opened.conn.createXML(text, 0)
        names = [
            {"kind": "shared memory", "value": "own", "use": "its shared memory"},
            {"kind": "file", "value": "/nowhere/k", "use": "its kernel"},
        ]
        answer = migration_look.compare(opened, {"web1": names, "web2": []})
        other.destroy()
    assert answer["lacking"] is not None
    assert {*answer["lacking"]} == {"web1"}
    file, memory = answer["lacking"]["web1"]
    assert file.startswith("/nowhere/k of its kernel does not exist")
    assert memory.startswith("'other', which runs there, has shared memory own too")
