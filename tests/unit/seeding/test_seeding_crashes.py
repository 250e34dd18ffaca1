# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seed media that are made, replaced and removed, killed or failing at each effect."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    effects_nocloud as seed_nocloud,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import effects as seeding
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines, plain

_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
_DOMAIN = """
<domain type='test'><name>web1</name><uuid>6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b</uuid>
 <memory>131072</memory><os><type>hvm</type></os><devices>
 <disk type='file' device='disk'><source file='{pool}/theirs2.raw'/>
  <target dev='sda' bus='scsi'/></disk>
 <controller type='scsi' index='0'/></devices></domain>
"""


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Hypervisors on which media can be made, whatever is installed here."""

    def make(seed: t.Any, _name: str, uuid: str, _nics: t.Any) -> seed_nocloud.Medium:
        return seed_nocloud.Medium(_content(seed.hostname, uuid), f"ssh-ed25519 {seed.hostname}")

    monkeypatch.setattr(seed_nocloud, "make", make)
    monkeypatch.setattr(seed_nocloud, "require_programs", lambda: None)
    return Machines(tmp_path, monkeypatch)


def _content(hostname: str, uuid: str) -> bytes:
    return f"seed of {hostname}, {uuid}; ".encode() * 20


def _seed(connection: Connection, hostname: str | None) -> t.Any:
    """As virt_seed does; None removes it. The result, or why there is none."""
    options = {
        "hostname": hostname,
        "user": "admin",
        "ssh_public_keys": [_KEY],
        "method": "nocloud",
    }
    state = "present" if hostname else "absent"
    given = options if hostname else {}
    try:
        return seeding.run(connection, "web1", state, given, "default", check=False)
    except FleetVirtError as error:
        return str(error)


def _define(machine: Machine, hostname: str | None) -> None:
    machine.connection.conn.defineXML(_DOMAIN.format(pool=machine.pool))
    if hostname:
        result = machine.call(functools.partial(_seed, hostname=hostname))
        assert result["changed"], result


def _media(machine: Machine) -> dict[str, bytes]:
    """What is in the VM's CD drives."""
    text = machine.connection.conn.lookupByName("web1").XMLDesc(2)
    found = {}
    for disk in _lxml.parse(text, "web1").findall("devices/disk[@device='cdrom']"):
        source = disk.find("source")
        if source is not None:
            path = Path(str(source.get("file")))
            found[path.name] = path.read_bytes() if path.exists() else b""
    return found


def _faults(machine: Machine, hostname: str | None) -> list[str]:
    found = machine.faults()
    media, files = _media(machine), machine.files().keys()
    uuid = machine.connection.conn.lookupByName("web1").UUIDString()
    wanted = [_content(hostname, uuid)] if hostname else []
    if list(media.values()) != wanted:
        found.append(f"media {media}")
    if media.keys() != files or files != machine.volumes().keys():
        found.append(f"in drives {list(media)}, files {list(files)}")
    kept = machine.stored("web1")
    noted = [one.name for one in kept.volumes] if kept else []
    if noted != list(media) or (hostname and kept and kept.host_key != f"ssh-ed25519 {hostname}"):
        found.append(f"noted {kept}")
    return found


@pytest.mark.parametrize(("before", "after"), [(None, "web1"), ("web1", "web2"), ("web1", None)])
def test_a_medium_is_there_whole_or_the_one_before(
    machines: Machines, before: str | None, after: str | None
) -> None:
    seed = functools.partial(_seed, hostname=after)
    with machines.new() as machine:
        _define(machine, before)
        assert machine.call(seed)["changed"]
        assert _faults(machine, after) == []
        effects = len(machine.effects.done)
    assert effects >= 3
    for number in range(1, effects + 1):
        with machines.new() as machine:
            _define(machine, before)
            uuid = machine.connection.conn.lookupByName("web1").UUIDString()
            allowed = [[_content(one, uuid)] if one else [] for one in (before, after)]
            machine.call(seed, kill_at=number)
            where = f"killed before {machine.effects.done[-1]!r} ({number})"
            assert machine.faults() == [], where
            assert list(_media(machine).values()) in allowed, where
            again = machine.call(seed)
            assert isinstance(again, dict), (where, again)
            assert _faults(machine, after) == [], where
            again = machine.call(seed)
            assert not again["changed"], where


@pytest.mark.parametrize(("before", "after"), [(None, "web1"), ("web1", "web2")])
def test_a_seed_that_fails_changes_nothing(
    machines: Machines, before: str | None, after: str
) -> None:
    seed = functools.partial(_seed, hostname=after)
    with machines.new() as machine:
        _define(machine, before)
        machine.call(seed)
        steps = machine.effects.done
    defined = next(at for at, step in enumerate(steps, 1) if step.startswith("define"))
    for number in range(1, len(steps) + 1):
        with machines.new() as machine:
            _define(machine, before)
            was = plain(machine.connection.conn.lookupByName("web1").XMLDesc(2))
            answer = machine.call(seed, fail_at=number)
            where = f"{machine.effects.failed!r} ({number}) failed"
            assert machine.faults() == [], where
            if number <= defined:
                assert "it fails here" in str(answer), where
                assert _faults(machine, before) == [], where
                assert plain(machine.connection.conn.lookupByName("web1").XMLDesc(2)) == was, where
            again = machine.call(seed)
            assert isinstance(again, dict), (where, again)
            assert _faults(machine, after) == [], where
