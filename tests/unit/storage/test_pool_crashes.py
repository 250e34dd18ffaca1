# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools that the collection makes by itself, with a kill before each of its calls."""

from __future__ import annotations

import contextlib
import functools
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import NOTES
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    effects_maintenance as maintenance,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_host import (
    MAINTENANCE_VOLUME,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_base_images as images,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import effects as notes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.pools import effects as pool_setup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    effects_creation_volumes as creation,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.effects_batch import (
    BatchSettings,
    Host,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    effects_storage as storage,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import pool_xml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.read_pools import (
    is_half_made,
)
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_NAME = "more"


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return Machines(tmp_path, monkeypatch)


def _folder(machine: Machine) -> str:
    return f"{machine.root}/more"


def _notes(_machine: Machine, connection: Connection) -> None:
    notes.keep(connection, "rolling.begun.0000000000000000.1")


def _images(machine: Machine, connection: Connection) -> None:
    """As a verb that brings an image: it looks for the pool first, and makes it if it has to."""
    folder = _folder(machine)
    if images.find_pool(connection, _NAME, folder, check=False) is None:
        assert images.find_pool(connection, _NAME, folder, check=True) is None
    images.ensure_pool(connection, _NAME, folder)


def _creation(machine: Machine, connection: Connection) -> None:
    settings = BatchSettings(
        run="r",
        home="hv1",
        pool_paths={_NAME: _folder(machine)},
        base_pool="base",
        images={},
        facts={},
        machine="pc",
        observe=0.0,
    )
    host = Host(connection, settings)
    host.pool(_NAME)  # which the plan reads
    creation._ready_pool(host, t.cast("t.Any", SimpleNamespace(key=_NAME)))


def _set_up(machine: Machine, _connection: Connection) -> None:
    pool_setup.ensure("", 5, [{"name": _NAME, "path": _folder(machine)}], check=False)


_MAKERS = [(_notes, NOTES), (_images, _NAME), (_creation, _NAME), (_set_up, _NAME)]


@pytest.mark.parametrize(("make", "name"), _MAKERS)
def test_pool_whose_making_was_killed_is_finished_by_the_next_call(
    machines: Machines,
    monkeypatch: pytest.MonkeyPatch,
    make: t.Callable[[Machine, Connection], None],
    name: str,
) -> None:
    def fresh(machine: Machine) -> t.Callable[[Connection], None]:
        opened = contextlib.nullcontext(machine.connection)
        monkeypatch.setattr(pool_setup, "connect", lambda *_given: opened)
        return functools.partial(make, machine)

    with machines.new() as machine:
        machine.call(fresh(machine))
        done = list(machine.effects.done)
    assert [f"{verb} pool {name}" for verb in ("define", "start")] == [
        what for what in done if what.startswith(("define", "start"))
    ]
    for number in range(1, len(done) + 1):
        with machines.new() as machine:
            call = fresh(machine)
            machine.call(call, kill_at=number)
            assert machine.effects.dead
            machine.call(call)
            pool = machine.connection.conn.storagePoolLookupByName(name)
            state = (bool(pool.isActive()), bool(pool.autostart()))
            assert state == (True, True), f"killed before {done[number - 1]!r}"


def test_pool_that_somebody_stopped_is_not_started_for_an_image(machines: Machines) -> None:
    """It starts at boot, so its making was finished: what it lacks may be its storage."""
    with machines.new() as machine:
        folder = _folder(machine)
        made = machine.call(lambda this: storage.make_pool(this, _NAME, folder))
        assert made is not None
        made.existing.destroy()
        with pytest.raises(PlanRefused, match="virsh pool-start more"):
            machine.call(lambda this: images.ensure_pool(this, _NAME, folder))
        assert not made.existing.isActive()


@pytest.mark.parametrize("to_make", [True, False])
def test_incomplete_pool_counts_as_none_only_for_who_makes_it(
    machines: Machines, to_make: bool
) -> None:
    with machines.new() as machine:
        folder, connection = _folder(machine), machine.connection
        connection.conn.storagePoolDefineXML(pool_xml.render(_NAME, folder), 0)
        if to_make:
            assert storage.find_pool(connection, _NAME, folder, to_make=True) is None
            # another's pool, of that name or of that folder, is none that is made here
            for name, path in ((_NAME, "/elsewhere"), ("other", folder)):
                with pytest.raises(PlanRefused, match="is inactive"):
                    storage.find_pool(connection, name, path, to_make=True)
        else:
            with pytest.raises(PlanRefused, match="is inactive"):
                storage.find_pool(connection, _NAME, folder)


_THEIRS = "<pool type='dir'><name>{}</name><target><path>{}</path></target></pool>"


@pytest.mark.parametrize("content", [None, "", "disk1.qcow2"])
def test_stopped_pool_of_others_is_started_unless_its_folder_may_be_a_bare_mount_point(
    machines: Machines, tmp_path: Path, content: str | None
) -> None:
    folder = tmp_path / "theirs"
    if content is not None:
        folder.mkdir()
    if content:
        (folder / content).touch()
    with machines.new() as machine:
        pool = machine.connection.conn.storagePoolDefineXML(_THEIRS.format(_NAME, folder), 0)
        looked = machine.call(lambda this: is_half_made(this, pool, _NAME, str(folder)))
        if content == "":
            with pytest.raises(PlanRefused, match="virsh pool-start more"):
                machine.call(lambda this: images.ensure_pool(this, _NAME, str(folder)))
        else:
            machine.call(lambda this: images.ensure_pool(this, _NAME, str(folder)))
        assert pool.isActive() == looked == (content != ""), "plan and run agree"


@pytest.mark.parametrize("make", [_images, _creation])
@pytest.mark.parametrize("transient", [True, False])
def test_running_pool_of_others_is_used_as_it_is(
    machines: Machines, make: t.Callable[[Machine, Connection], None], transient: bool
) -> None:
    with machines.new() as machine:
        conn = machine.connection.conn
        xml = _THEIRS.format(_NAME, _folder(machine))
        if transient:
            conn.storagePoolCreateXML(xml, 0)
        else:
            conn.storagePoolDefineXML(xml, 0).create(0)
        machine.call(functools.partial(make, machine))
        assert not conn.storagePoolLookupByName(_NAME).autostart()


def test_pool_of_notes_without_a_definition_takes_notes(machines: Machines, tmp_path: Path) -> None:
    with machines.new() as machine:
        conn = machine.connection.conn
        conn.storagePoolCreateXML(_THEIRS.format(NOTES, tmp_path), 0)
        machine.call(functools.partial(_notes, machine))
        assert conn.storagePoolLookupByName(NOTES).listVolumes()


@pytest.mark.parametrize("transient", [True, False])
def test_pool_of_notes_whose_folder_was_removed_is_started_again(
    machines: Machines, tmp_path: Path, transient: bool
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    with machines.new() as machine:
        conn = machine.connection.conn
        xml = _THEIRS.format(NOTES, folder)
        if transient:
            conn.storagePoolCreateXML(xml, 0)
        else:
            conn.storagePoolDefineXML(xml, 0).create(0)
        machine.call(notes.pool_of)
        assert f"start pool {NOTES}" not in machine.effects.done
        folder.rmdir()
        machine.call(notes.pool_of)
        assert f"start pool {NOTES}" in machine.effects.done, "libvirt makes its folder then"
        pool = conn.storagePoolLookupByName(NOTES)
        assert (pool.isActive(), pool.isPersistent(), pool.autostart()) == (1, 1, 1)


def test_pool_of_that_name_at_another_folder_is_not_taken_for_it(machines: Machines) -> None:
    with machines.new() as machine:
        machine.connection.conn.storagePoolDefineXML(pool_xml.render(_NAME, "/elsewhere"), 0)
        with pytest.raises(PlanRefused, match="more is at /elsewhere, not at /more"):
            machine.call(lambda this: storage.make_pool(this, _NAME, "/more"))


def test_mark_in_pool_of_notes_that_does_not_run_is_taken_away(machines: Machines) -> None:
    with machines.new() as machine:
        machine.call(notes.pool_of)
        pool = machine.connection.conn.storagePoolLookupByName(NOTES)
        xml = f"<volume><name>{MAINTENANCE_VOLUME}</name><capacity>0</capacity></volume>"
        pool.createXML(xml, 0)
        pool.destroy()
        end = functools.partial(
            maintenance.mark, wanted=False, base_pool=_NAME, base_path="/more", check=False
        )
        result = machine.call(end)
        assert result is not None
        assert result["changed"] is True
        assert pool.listVolumes() == []
