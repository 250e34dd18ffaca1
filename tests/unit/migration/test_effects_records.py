# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's records of snapshots are removed and restored as they were, whatever is interrupted;
its test driver has snapshots, but no secrets."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _libvirt
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    MADE,
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_records,
    read_snapshots,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.records import Records
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines
from lxml import etree

_SNAPSHOT = "<domainsnapshot><name>{}</name></domainsnapshot>"
_VOLUME = OwnVolume("old", "web1.qcow2", "/pool/web1.qcow2", "system", "disk", MADE)
_DOMAIN = (
    "<domain type='test'><name>web1</name><memory>1024</memory><os><type>hvm</type></os>"
    "<metadata>{}</metadata></domain>"
)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """One with a VM that has three snapshots, each the child of the one before."""
    # the test driver has nothing of a snapshot but the record, and does not know the flag
    monkeypatch.setattr(_libvirt, "DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY", 0)
    with Machines(tmp_path, monkeypatch).new() as made:
        stored = Metadata(home="hv1", request="{}", volumes=(_VOLUME,))
        text = etree.tostring(metadata.to_element(stored)).decode()
        dom = made.connection.conn.defineXML(_DOMAIN.format(text))
        for name in ("first", "second", "third"):
            dom.snapshotCreateXML(_SNAPSHOT.format(name), 0)
        dom.revertToSnapshot(dom.snapshotLookupByName("second", 0), 0)
        yield made


def _dom(machine: Machine) -> t.Any:
    return machine.connection.conn.lookupByName("web1")


def _seen(machine: Machine) -> Records:
    return read_snapshots.records(machine.connection, _dom(machine), "run")


def test_records_forgotten_in_part_are_restored_as_they_were(machine: Machine) -> None:
    kept, dom = _seen(machine), _dom(machine)
    assert (kept.names, kept.current) == (("first", "second", "third"), "second")
    for number in range(4):
        for name in reversed(kept.names[number:]):
            dom.snapshotLookupByName(name, 0).delete(0)
        assert _seen(machine).names == kept.names[:number]
        effects_records.restore(machine.connection, dom, kept)
        assert _seen(machine) == kept
    effects_records.forget(machine.connection, dom, kept)
    assert _seen(machine) == Records("run")
    effects_records.restore(machine.connection, dom, kept)
    assert _seen(machine) == kept


def test_records_changed_since_they_were_kept_stay(machine: Machine) -> None:
    kept, dom = _seen(machine), _dom(machine)
    dom.snapshotCreateXML(_SNAPSHOT.format("late"), 0)
    with pytest.raises(PlanRefused, match="were changed meanwhile"):
        effects_records.forget(machine.connection, dom, kept)
    assert set(_seen(machine).names) == {"first", "second", "third", "late"}


def test_metadata_in_snapshots_name_the_pools_of_the_destination(machine: Machine) -> None:
    kept, dom = _seen(machine), _dom(machine)
    effects_records.forget(machine.connection, dom, kept)

    def moved(then: Metadata) -> Metadata:
        return metadata.after_move(then, "hv2", {_VOLUME.path: "new"}, {_VOLUME.path})

    effects_records.restore(machine.connection, dom, kept, moved)
    for record in _seen(machine).snapshots:
        for domain in etree.fromstring(record.xml).iter("domain"):
            stored = metadata.parse(domain)
            assert stored is not None
            assert [(one.pool, one.made) for one in stored.volumes] == [("new", "")]


def test_libvirt_without_secrets_keeps_nothing(machine: Machine) -> None:
    uuid = str(_dom(machine).UUIDString())
    assert effects_records.kept(machine.connection, uuid, "run") is None
    effects_records.drop(machine.connection, uuid)
