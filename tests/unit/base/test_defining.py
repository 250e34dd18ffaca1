# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domains are defined, undefined and marked in one place, with libvirt's own answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import libvirt
import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import LibvirtFailure
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_definitions as domains,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata

_VM = """
<domain type='test'>
  <name>web1</name><memory>131072</memory><os><type>hvm</type></os>{more}
</domain>
"""
_RUNNING = """
<domain type='test'>
  <name>test</name><memory>131072</memory><os><type>hvm</type></os>
  <test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>1</test:runstate>
</domain>
"""
_OURS = Metadata(request="{}", home="hv1")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """A hypervisor of its own: all connections of a process to test:///default share one."""
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{_RUNNING}</node>")
    with connect(f"test://{node}", 10) as opened:
        yield opened


def marked(connection: Connection, live: bool) -> Metadata | None:
    dom = connection.conn.lookupByName("test")
    text = dom.XMLDesc(0 if live else libvirt.VIR_DOMAIN_XML_INACTIVE)
    return metadata.parse(_lxml.parse(text, "test"))


def test_a_definition_replaces_the_former_one(connection: Connection) -> None:
    first = domains.define(connection, "define web1", _VM.format(more=""))
    text = _VM.format(more=f"<uuid>{first.UUIDString()}</uuid><title>changed</title>")
    again = domains.define(connection, "define web1", text)
    assert "<title>changed</title>" in again.XMLDesc(0)
    assert [one.name() for one in connection.conn.listAllDomains(0)].count("web1") == 1


def test_what_libvirt_does_not_take_is_told_with_what_was_being_done(
    connection: Connection,
) -> None:
    text = _VM.format(more="<nonsense/>")
    with pytest.raises(LibvirtFailure, match=r"^claim web1: .*schema"):
        domains.define(connection, "claim web1", text, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
    assert lookup.find_domain(connection, "web1") is None
    domains.define(connection, "claim web1", text)  # without the schema libvirt leaves it out


@pytest.mark.parametrize(
    ("keep", "flags"),
    [
        (False, libvirt.VIR_DOMAIN_UNDEFINE_NVRAM),
        (True, libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM),
    ],
)
def test_a_definition_goes_with_checkpoints_and_its_nvram_unless_that_is_kept(
    connection: Connection, keep: bool, flags: int
) -> None:
    """libvirt's test driver has neither, and names what it was asked for."""
    dom = connection.conn.lookupByName("test")
    unknown = flags | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    with pytest.raises(LibvirtFailure, match=rf"^undefine test: .*\({unknown:#x}\)"):
        domains.undefine(connection, dom, keep_nvram=keep)
    assert dom.isPersistent()


def test_metadata_are_written_where_they_are_asked_for(connection: Connection) -> None:
    dom = connection.conn.lookupByName("test")
    lookup.write_metadata(connection, dom, _OURS, lookup.AFFECT_CONFIG)
    assert (marked(connection, live=True), marked(connection, live=False)) == (None, _OURS)
    busy = dataclasses.replace(_OURS, phase="seeding")
    lookup.write_metadata(connection, dom, busy, lookup.AFFECT_LIVE)
    assert (marked(connection, live=True), marked(connection, live=False)) == (busy, _OURS)


@pytest.mark.parametrize("before", [None, _OURS])
def test_metadata_become_what_they_were(connection: Connection, before: Metadata | None) -> None:
    dom = connection.conn.lookupByName("test")
    lookup.restore_metadata(connection, dom, before)
    lookup.write_metadata(connection, dom, Metadata(phase="seeding"), lookup.AFFECT_CONFIG)
    lookup.restore_metadata(connection, dom, before)
    assert marked(connection, live=False) == before
    assert lookup.read_metadata(connection, dom) == before
