# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which promises of a hypervisor stop a VM from being created or from growing."""

from __future__ import annotations

import dataclasses
import functools
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import effects as init
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    read_capacity as creation_capacity,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.effects_batch import (
    BatchSettings,
    Host,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults, many
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_POOL = "<pool type='dir'><name>iso</name><target><path>{path}</path></target></pool>"
_VOLUME = (
    "<volume><name>{name}</name><allocation>0</allocation>"
    "<capacity unit='TiB'>2</capacity></volume>"
)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Machine]:
    """A hypervisor with a second pool, ``iso``."""
    with Machines(tmp_path, monkeypatch).new() as machine:
        path = machine.root / "iso"
        path.mkdir()
        machine.connection.conn.storagePoolDefineXML(_POOL.format(path=path), 0).create(0)
        yield machine


def _over_promise(machine: Machine, pool: str) -> None:
    raw = machine.connection.conn.storagePoolLookupByName(pool)
    raw.createXML(_VOLUME.format(name="theirs.img"), 0)
    Path(raw.storageVolLookupByName("theirs.img").path()).touch()


def _init(
    machine: Machine,
    pools: t.Mapping[str, str],
    size: str = "2M",
    *,
    check: bool = False,
    **more: t.Any,
) -> list[dict[str, t.Any]]:
    """Results of the VMs ``pools`` (pool by name), each with one disk of ``size``, and ``more``."""
    vms = [
        {
            "name": name,
            "memory": "128M",
            "start": False,
            "nics": [],
            "nic_profile": "none",
            "seed": False,
            "disks": [{"name": "data", "format": "raw", "size": size, "pool": pool}],
        }
        | more
        for name, pool in pools.items()
    ]
    settings = BatchSettings(
        run="11111111-1111-4111-8111-111111111111",
        home="hv1",
        pool_paths={},
        base_pool="base",
        machine="pc",
    )
    domains, problems = many(vms, defaults=Defaults())
    assert problems == []
    domains = [dataclasses.replace(one, domain_type="test", arch="i686") for one in domains]
    run = functools.partial(init.run, domains=domains, settings=settings, stage="all", check=check)
    result = machine.call(run)
    assert result is not None
    return t.cast("list[dict[str, t.Any]]", result["vms"])


@pytest.mark.parametrize("pool", ["base", "iso"])
def test_creation_beside_an_over_promised_pool_succeeds(machine: Machine, pool: str) -> None:
    _over_promise(machine, pool)
    for check in (True, False):
        (vm,) = _init(machine, {"web1": "default"}, check=check)
        assert (vm["changed"], vm["failed"], vm["msg"]) == (True, False, None)
    for check in (True, False):
        (vm,) = _init(machine, {"web1": "default"}, "4M", check=check)
        assert (vm["changed"], vm["failed"], vm["msg"]) == (True, False, None)


def test_creation_in_an_over_promised_pool_is_refused(machine: Machine) -> None:
    _init(machine, {"web1": "default"})
    _over_promise(machine, "default")
    for name, size in (("web2", "2M"), ("web1", "4M")):
        for check in (True, False):
            (vm,) = _init(machine, {name: "default"}, size, check=check)
            assert vm["failed"]
            assert not vm["changed"]
            assert "pool default" in vm["msg"]
    assert list(machine.domains()) == ["web1"]


def test_claim_in_an_over_promised_pool_is_withdrawn_and_no_other(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other promise was made after this run had looked, and before it claimed."""
    real = creation_capacity.place

    def place(*given: t.Any) -> None:
        real(*given)
        _over_promise(machine, "iso")

    monkeypatch.setattr(creation_capacity, "place", place)
    first, second = _init(machine, {"web1": "iso", "web2": "default"})
    assert (first["failed"], first["refused"], first["changed"]) == (True, True, False)
    assert "pool iso: " in first["msg"]
    assert (second["failed"], second["changed"]) == (False, True)
    assert list(machine.domains()) == ["web2"]


_PAGED = """<domain type='test'><name>paged</name><memory unit='MiB'>64</memory>
<memoryBacking><hugepages/></memoryBacking><os><type>hvm</type></os></domain>"""


@pytest.mark.parametrize(
    ("growth", "said"),
    [
        ({"memory": 64}, None),
        ({"hugepages": ((0, 64),)}, "huge pages of 2 MiB: 128 MiB more than the limit of 0 MiB"),
        ({"vcpus": 1}, None),
    ],
)
def test_vm_in_huge_pages_grows_only_in_them(
    machine: Machine, growth: dict[str, t.Any], said: str | None
) -> None:
    """The test driver has set none aside, so one VM in them is too many already."""
    machine.connection.conn.defineXML(_PAGED)
    settings = BatchSettings(run="", home="hv1", pool_paths={}, base_pool="base")
    host = Host(machine.connection, settings)
    refused = creation_capacity.grown(host, [creation_capacity.Growth("paged", **growth)])
    assert refused.get("paged", "").startswith(said or "")
    assert bool(refused) == bool(said)


def test_creation_beside_over_promised_huge_pages_succeeds(machine: Machine) -> None:
    machine.connection.conn.defineXML(_PAGED)
    (vm,) = _init(machine, {"web1": "default"})
    assert (vm["changed"], vm["failed"], vm["msg"]) == (True, False, None)


def test_what_changed_memory_takes_is_of_the_kind_it_is_in(machine: Machine) -> None:
    """Ordinary memory grows as before; in huge pages it takes nothing of it."""
    _init(machine, {"web1": "default"})
    (vm,) = _init(machine, {"web1": "default"}, memory="192M", check=True)
    assert (vm["changed"], vm["failed"]) == (True, False)
    paged = {"hugepages": True}
    text = machine.connection.conn.lookupByName("web1").XMLDesc(0)
    backing = "<memoryBacking><hugepages/></memoryBacking><vcpu"
    machine.connection.conn.defineXML(text.replace("<vcpu", backing, 1))
    (vm,) = _init(machine, {"web1": "default"}, memory="192M", check=True)
    assert vm["failed"]
    assert "huge pages of 2 MiB: 192 MiB more than the limit of 0 MiB" in vm["msg"]
    (vm,) = _init(machine, {"web2": "default"}, memory_backing=paged, check=True)
    assert "needs 128 MiB in huge pages of 2 MiB, 128 MiB more than the limit of 0 MiB" in vm["msg"]
