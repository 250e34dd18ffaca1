# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for domains of libvirt's test driver: none of them answers, and it is said why."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._host import wait
from ansible_collections.fleet.virt.plugins.module_utils._host.connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._host.waited import Guest
from ansible_collections.fleet.virt.plugins.module_utils._model.metadata import NAMESPACE

# Numbers of virDomainState, which the test driver takes in its own namespace
RUN = {"runs": 1, "paused": 3, "off": 5, "crashed": 6}
MAC = "52:54:00:12:34:56"
DOMAIN = """
<domain type='test'>
  <name>{name}</name><memory>131072</memory><os><type>hvm</type></os>
  <metadata><f:fleet xmlns:f='{namespace}'>{metadata}</f:fleet></metadata>
  <devices>{devices}</devices>
  <test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>{run}</test:runstate>
</domain>
"""
NIC = f"<interface type='bridge'><mac address='{MAC}'/><source bridge='br0'/></interface>"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """A node of the test driver: domains named after their states, and one with NIC and address."""
    parts = [(name, run, "", "") for name, run in RUN.items()]
    parts.append(("static", 1, NIC, "<f:address>127.0.0.9/8</f:address>"))
    parts.append(("there", 1, NIC, "<f:address>192.0.2.5/24</f:address>"))
    parts.append(("nowhere", 1, NIC, ""))
    text = "".join(
        DOMAIN.format(name=name, run=run, devices=devices, metadata=kept, namespace=NAMESPACE)
        for name, run, devices, kept in parts
    )
    path = tmp_path / "node.xml"
    path.write_text(f"<node>{text}</node>")
    with connect(f"test://{path}", 5) as opened:
        yield opened


def run(connection: Connection, *names: str, **settings: t.Any) -> dict[str, t.Any]:
    return wait.wait(connection, connection, names, wait.Settings(**settings))


def test_names_that_are_not_there(connection: Connection) -> None:
    with pytest.raises(SpecError) as caught:
        run(connection, "runs", "web7", "web8")
    assert [problem.path for problem in caught.value.problems] == ["names", "names"]


def test_what_does_not_run_ends_at_once_and_the_rest_is_waited_for(connection: Connection) -> None:
    begun = time.monotonic()
    result = run(connection, "off", "crashed", "paused", wait_timeout=60)
    assert time.monotonic() - begun < 10
    assert result["failed"]
    found = {vm["name"]: (vm["state"], vm["answered"], vm["msg"]) for vm in result["vms"]}
    assert found["off"] == ("shutoff", False, "it does not run: shutoff (unknown)")
    assert found["crashed"][2].startswith("it does not run: crashed")
    assert found["paused"][2].startswith("it does not run: paused")
    assert result["waiting"] == []
    for name in ("off", "crashed", "paused"):
        assert f"{name}: it does not run: " in result["msg"]


def test_the_time_limit(connection: Connection) -> None:
    begun = time.monotonic()
    result = run(connection, "runs", "nowhere", "runs", wait_timeout=1.5)
    assert 1.5 <= time.monotonic() - begun < 30
    assert [vm["name"] for vm in result["vms"]] == ["runs", "nowhere"]
    assert [vm["msg"] for vm in result["vms"]] == [
        "no address: it has no NIC",
        f"no address: no guest agent is connected, no lease of libvirt, no neighbour {MAC}, and no"
        " line of cloud-init on its console",
    ]
    assert result["failed"]


def test_a_slice_fails_for_nobody_who_is_still_waited_for(connection: Connection) -> None:
    result = run(connection, "off", "runs", wait_timeout=60, slice=1)
    assert "failed" not in result
    assert result["waiting"] == ["runs"]


def test_a_slice_ends_early_with_news(connection: Connection) -> None:
    begun = time.monotonic()
    result = run(connection, "off", "runs", wait_timeout=60, slice=30)
    assert time.monotonic() - begun < 10
    assert result["waiting"] == ["runs"]


def test_an_address_is_enough_where_no_more_is_waited_for(connection: Connection) -> None:
    begun = time.monotonic()
    result = run(connection, "there", "off", wait_timeout=60, until="address")
    assert time.monotonic() - begun < 10
    there, off = result["vms"]
    found = [there[key] for key in ("address", "source", "answered", "msg", "changed")]
    assert found == ["192.0.2.5", "static", True, "", False]
    assert there["seconds"] < 10
    assert (off["answered"], off["msg"]) == (False, "it does not run: shutoff (unknown)")
    assert result["msg"] == "off: it does not run: shutoff (unknown)"


def test_one_that_is_removed_meanwhile(connection: Connection) -> None:
    raw = connection.raw.lookupByName("runs")
    guest = Guest(connection, connection, raw)
    guest.look()
    assert (guest.state, guest.ended) == ("running", None)
    raw.destroy()
    raw.undefine()
    guest.look()
    assert guest.ended is not None
    assert "removed or moved" in guest.ended


def test_addresses_in_the_order_they_are_believed(connection: Connection) -> None:
    guest = Guest(connection, connection, connection.raw.lookupByName("there"))
    guest.look()
    table = {"192.0.2.9": MAC, "192.0.2.5": MAC, "192.0.2.8": "52:54:00:00:00:01"}
    assert guest.candidates({}) == {"192.0.2.5": "static"}
    assert list(guest.candidates(table).items()) == [
        ("192.0.2.5", "static"),
        ("192.0.2.9", "neighbour"),
    ]


def test_loopback_is_no_address_of_a_vm(connection: Connection) -> None:
    guest = Guest(connection, connection, connection.raw.lookupByName("static"))
    guest.look()
    assert guest.candidates({}) == {}


def test_prediction_knows_nothing() -> None:
    result = wait.predict(["web1", "web2", "web1"])
    assert [vm["name"] for vm in result["vms"]] == ["web1", "web2"]
    assert {vm["answered"] for vm in result["vms"]} == {None}
    assert result["changed"] is False
