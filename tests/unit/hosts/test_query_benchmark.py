# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark of virt_query takes what was read for complete, and for no more than that."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
    read_domains,
)
from ansible_collections.fleet.virt.tests.benchmarks import query

_DOMAIN = """
<domain type='test'><name>{}</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices><disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>
</devices></domain>
"""


@pytest.fixture
def entries() -> t.Iterator[dict[str, t.Any]]:
    with connect("test:///default", 10.0) as connection:
        made = [
            connection.conn.defineXML(_DOMAIN.format(name)) for name in ("other", "benchmark-0000")
        ]
        yield {entry["name"]: entry for entry in read_domains(connection, DomainQuery())}
        for domain in made:
            domain.undefine()


def test_domain_of_others_with_an_empty_drive_is_complete(entries: dict[str, t.Any]) -> None:
    (drive,) = entries["other"]["disks"]
    assert (drive["source"], drive["size_mib"]) == (None, None)
    assert query.is_complete(entries["other"])


def test_domain_without_what_was_to_be_read_is_not_complete(entries: dict[str, t.Any]) -> None:
    assert not query.is_complete(entries["benchmark-0000"]), "it is in no pool"
    unread = {**entries["other"], "error": "gone"}
    assert not query.is_complete(unread)
    disks = [{**disk, "source": "/srv/a.qcow2"} for disk in entries["other"]["disks"]]
    assert not query.is_complete({**entries["other"], "disks": disks})
