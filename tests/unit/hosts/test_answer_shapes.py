# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of a hypervisor, here libvirt's test driver, has the shape that is asked for."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import answers, snapshot
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_host as host
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_placement_facts as placement_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
    read_domains,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    read_candidates as migration_look,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.facts import MigrateLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.facts import Placing

POOL = ("default-pool", "/default-pool")


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connect("test:///default", 10) as made:
        yield made


def _look(connection: Connection) -> t.Any:
    return migration_look.look(connection, ["test"], *POOL)


def _placing(connection: Connection) -> t.Any:
    return {"host": placement_facts.read(connection, *POOL)}


def _domains(connection: Connection) -> t.Any:
    return {"domains": read_domains(connection, DomainQuery())}


def _host_info(connection: Connection) -> t.Any:
    return {"host": host.read_host(connection, *POOL)}


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (snapshot.Domains, _domains),
        (snapshot.HostInfo, _host_info),
        (MigrateLook, _look),
        (Placing, _placing),
    ],
)
def test_what_is_read_has_its_shape(
    connection: Connection, kind: type[t.Any], read: t.Callable[[Connection], t.Any]
) -> None:
    answer = read(connection)
    assert answers.problem(answer, kind) is None
    assert all(answer[key] for key in answers.keys(kind) if key in ("domains", "host"))
