# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Adopting VMs, killed or failing at each of its effects, on libvirt's test driver."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import effects as adopt
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption.plan import AdoptionOptions
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import effects as purge
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import plan as purge_plan
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_DOMAIN = """
<domain type='test'><name>{name}</name><memory>131072</memory><os><type>hvm</type></os><devices>
 <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{path}'/>
  <target dev='sda' bus='scsi'/></disk></devices></domain>
"""


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return Machines(tmp_path, monkeypatch)


def _define(
    machine: Machine, name: str = "old1", disk: str = "old1.img", start: bool = False
) -> str:
    path = machine.pool / disk
    if not path.exists():
        pool = machine.connection.conn.storagePoolLookupByName("default")
        pool.createXML(f"<volume><name>{disk}</name><capacity>4096</capacity></volume>", 0)
        path.write_bytes(b"data" * 1024)
    domain = machine.connection.conn.defineXML(_DOMAIN.format(name=name, path=path))
    if start:
        domain.create()
    return str(domain.XMLDesc(2))


def _adopt(disks: bool, *names: str, check: bool = False) -> t.Callable[[Connection], t.Any]:
    def verb(connection: Connection) -> dict[str, t.Any]:
        chosen = names or ("old1",)
        return adopt.run(connection, chosen, "default", AdoptionOptions(disks=disks), check=check)

    return verb


def _purge(connection: Connection) -> dict[str, t.Any]:
    settings = purge.PurgeSettings(purge_plan.PurgeOptions(force=True))
    return purge.run(connection, ["old1"], settings, check=False)


def _without_ours(text: str) -> str:
    root = _lxml.parse(text, "domain")
    for element in root.findall("metadata"):
        root.remove(element)
    return "".join(_lxml.tostring(root).split())


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("disks", [False, True])
def test_killed_or_failed_anywhere_the_next_ends_it(
    machines: Machines, start: bool, disks: bool
) -> None:
    with machines.new() as machine:
        _define(machine, start=start)
        result = machine.call(_adopt(disks))
        assert result is not None
        assert result["changed"]
        effects = len(machine.effects.done)
    assert effects >= 1
    for number in range(1, effects + 1):
        for how in ("kill_at", "fail_at"):
            with machines.new() as machine:
                before = _without_ours(_define(machine, start=start))
                first = machine.call(_adopt(disks), **{how: number})
                assert (first is None) == (how == "kill_at")
                if first is not None:
                    assert first["failed"]
                    assert "it fails here" in first["msg"]
                again = machine.call(_adopt(disks))
                assert again is not None
                assert not again.get("failed"), again
                stored = machine.stored("old1")
                assert stored is not None
                assert stored.made_here
                assert stored.phase is None
                dom = machine.connection.conn.lookupByName("old1")
                assert _without_ours(str(dom.XMLDesc(2))) == before
                assert ("adopted" in dom.XMLDesc(0)) or not start
                third = machine.call(_adopt(disks))
                assert third is not None
                assert not third["changed"]
                assert machine.effects.done == []


@pytest.mark.parametrize("disks", [False, True])
def test_purge_removes_the_disk_with_the_word_alone(machines: Machines, disks: bool) -> None:
    with machines.new() as machine:
        _define(machine)
        asked = machine.call(_adopt(disks, check=True))
        assert machine.stored("old1") is None
        assert machine.effects.done == []
        done = machine.call(_adopt(disks))
        assert done is not None
        assert asked == done
        removed = machine.call(_purge)
        assert removed is not None
        assert not removed.get("failed"), removed
        assert list(machine.domains()) == []
        assert (machine.pool / "old1.img").exists() == (not disks)


def test_a_disk_of_two_domains_is_nobodys_own(machines: Machines) -> None:
    with machines.new() as machine:
        _define(machine)
        _define(machine, "old2")
        done = machine.call(_adopt(True, "old1", "old2"))
        assert done is not None
        assert [vm["owned"] for vm in done["vms"]] == [[], []]
        assert "used by domain 'old2'" in done["vms"][0]["kept"][0]["reason"]


def test_what_a_guest_wrote_into_its_raw_disk_keeps_no_disk_from_another(
    machines: Machines,
) -> None:
    """A header of QEMU's in a raw disk names the other VM's disk as what it lies on."""
    with machines.new() as machine:
        _define(machine)
        _define(machine, "evil", "evil.img")
        name = str(machine.pool / "old1.img").encode()
        header = b"QFI\xfb" + (2).to_bytes(4, "big") + (72).to_bytes(8, "big")
        header += len(name).to_bytes(4, "big") + (16).to_bytes(4, "big")
        header = header.ljust(72, b"\0") + name
        (machine.pool / "evil.img").write_bytes(header.ljust(4096, b"\0"))
        done = machine.call(_adopt(True))
        assert done is not None
        assert done["vms"][0]["owned"] == [str(machine.pool / "old1.img")], done


def test_an_overlay_of_somebodys_keeps_the_disk_below_it(machines: Machines) -> None:
    with machines.new() as machine:
        _define(machine)
        os.link(machine.pool / "old1.img", machine.pool / "second-name.img")
        done = machine.call(_adopt(True))
        assert done is not None
        assert done["vms"][0]["owned"] == []
        assert "2 names" in done["vms"][0]["kept"][0]["reason"]


def test_all_means_those_of_nobody(machines: Machines) -> None:
    with machines.new() as machine:
        _define(machine)
        look = machine.call(lambda connection: adopt.look(connection, [], "default"))
        assert look is not None
        assert [vm["name"] for vm in look["vms"]] == ["old1", "theirs"]
        assert machine.effects.done == []


@pytest.mark.parametrize("linked", ["pool", "disk"])
def test_disk_of_pool_behind_link_is_adopted_and_purged(machines: Machines, linked: str) -> None:
    """The pool's target is a symbolic link, or the disk's path has one in it."""
    with machines.new() as machine:
        _define(machine)
        link = machine.root / "link"
        link.symlink_to(machine.pool)
        if linked == "disk":
            path = str(link / "old1.img")
            machine.connection.conn.lookupByName("old1").undefine()
            machine.connection.conn.defineXML(_DOMAIN.format(name="old1", path=path))
        else:
            path = str(machine.pool / "old1.img")
            pool = machine.connection.conn.storagePoolLookupByName("default")
            pool.destroy()
            pool.undefine()
            xml = (
                f"<pool type='dir'><name>default</name><target><path>{link}</path></target></pool>"
            )
            machine.connection.conn.storagePoolDefineXML(xml).create()
        done = machine.call(_adopt(True))
        assert done is not None
        assert not done.get("failed"), done["msg"]
        assert [vm["owned"] for vm in done["vms"]] == [[path]], done
        removed = machine.call(_purge)
        assert removed is not None
        assert not removed.get("failed"), removed["msg"]
        (vm,) = removed["vms"]
        assert path in [one["path"] for one in vm["removed"]]
        assert path not in [one["path"] for one in vm["kept"]]
        assert not (machine.pool / "old1.img").exists()
