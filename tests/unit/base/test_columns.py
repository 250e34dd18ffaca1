# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Columns that are shown of domains on request."""

from __future__ import annotations

import sys
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import columns, tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import domain_entry
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.domain_info import parse

pytestmark = pytest.mark.skipif(sys.version_info < (3, 10), reason="3.9 cannot evaluate X | None")

XML = """<domain><name>web1</name><title>Shop</title><vcpu>2</vcpu><metadata>
  <f:fleet xmlns:f='urn:fleet.virt:1'><f:group>shop</f:group><f:group>web</f:group></f:fleet>
  </metadata></domain>"""


def entry(xml: str = XML, **more: t.Any) -> dict[str, t.Any]:
    known = domain_entry.from_info(parse(xml, "domain"), "web1", "u")
    return {**known, "state": "running", "reason": "booted", **more}


@pytest.mark.parametrize(
    ("name", "domain", "shown"),
    [
        ("autostart", entry(autostart=True), "yes"),
        ("autostart", entry(autostart=False), "no"),
        ("autostart", entry(), None),
        ("groups", entry(), "shop, web"),
        ("groups", entry("<domain><name>web1</name></domain>"), None),
        ("snapshots", entry(snapshots=[{"name": "a"}, {"name": "b"}]), 2),
        ("snapshots", entry(), 0),
        ("snapshots", domain_entry.unreadable("web1", "u", "gone"), None),
        ("vcpus", entry(), 2),
        ("title", entry(), "Shop"),
        ("start_order", entry(), None),
    ],
)
def test_column_of_domain_is_its_value(name: str, domain: t.Any, shown: object) -> None:
    (column,) = columns.named([name])
    assert column.shown(domain) == shown


def test_columns_are_all_keys_but_mappings() -> None:
    domain = entry()
    for place in (domain, domain["metadata"]):
        simple = {key for key, value in place.items() if not isinstance(value, dict)}
        assert simple - set(columns.known()) <= {
            *("name", "state", "reason", "error"),  # shown anyway
            *("stats", "cell", "image", "owner", "move"),  # mappings, here without one
        }
    assert not {"metadata", "firmware", "stats", "image"} & set(columns.known())


def test_every_column_can_be_shown_in_table_and_details() -> None:
    every = columns.named(list(columns.known()))
    hypervisor = {"name": "hv1", "answered": True, "error": None}
    hypervisor["domains"] = [entry(), domain_entry.unreadable("gone1", "v", "gone")]
    head, row, unread, problem = tables.listing([hypervisor], columns=every).splitlines()
    assert head.startswith("HYPERVISOR  NAME   STATE    REASON")
    assert "  AUTOSTART  " in head
    assert "shop, web" in row
    assert unread.startswith("hv1         gone1  -        -")
    assert problem == "hv1: gone1: gone"
    lines = tables.query([hypervisor], columns=every).splitlines()
    assert {"    Start order: -", "    Snapshots: 0", "    Groups: shop, web"} <= set(lines)


def test_unknown_column_is_named_with_nearest() -> None:
    with pytest.raises(PlanRefused) as error:
        columns.named(["autostart", "snapshot", "group"])
    assert "unknown column 'snapshot' (did you mean snapshots?)" in str(error.value)
    assert "unknown column 'group' (did you mean groups?)" in str(error.value)


def test_column_requested_again_is_not_repeated() -> None:
    assert [column.name for column in columns.named(["tags", "zone", "tags"])] == ["tags", "zone"]
