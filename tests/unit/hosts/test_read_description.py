# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A running VM whose definition has metadata of its own: libvirt's test driver answers."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Iterator

import libvirt
import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_description as description,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_placement_facts as placement_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
    read_domains,
)
from ansible_collections.fleet.virt.plugins.module_utils._lxml import tostring
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _reading

_KIND = libvirt.VIR_DOMAIN_METADATA_ELEMENT
_WHERE = (metadata.PREFIX, metadata.NAMESPACE)
_CHANGING = metadata.Metadata(request="{}", phase="changing")
_TRANSIENT = (
    "<domain type='test'><name>{}</name><memory>1024</memory><os><type>hvm</type></os>{}</domain>"
)


def _text(stored: metadata.Metadata) -> str:
    return tostring(metadata.to_plain_element(stored))


@pytest.fixture
def running() -> Iterator[tuple[Connection, libvirt.virDomain]]:
    """The driver's VM, which runs and is being changed: noted in its definition only."""
    with connect("test:///default", 5) as connection:
        domain = connection.conn.lookupByName("test")
        domain.setMetadata(_KIND, _text(_CHANGING), *_WHERE, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
        try:
            yield connection, domain
        finally:  # the driver's domains outlive the connection
            for where in (libvirt.VIR_DOMAIN_AFFECT_CONFIG, libvirt.VIR_DOMAIN_AFFECT_LIVE):
                domain.setMetadata(_KIND, None, *_WHERE, where)


def _query(connection: Connection) -> str | None:
    (entry,) = read_domains(connection, DomainQuery(names=("test",), storage=False))
    return entry["metadata"]["phase"]


def _inventory(connection: Connection) -> str | None:
    (entry,) = [one for one in _reading._domains(connection) if one["name"] == "test"]
    return entry["metadata"]["phase"]


def _placement(connection: Connection) -> str | None:
    (entry,) = [one for one in placement_facts.defined(connection) if one["name"] == "test"]
    return entry["phase"]


@pytest.mark.parametrize("read", [_query, _inventory, _placement])
def test_running_vm_in_a_phase_is_read_once_and_has_the_phase(
    running: tuple[Connection, libvirt.virDomain],
    read: Callable[[Connection], str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    for name in ("XMLDesc", "metadata", "isActive"):
        function = getattr(libvirt.virDomain, name)

        def counted(
            domain: libvirt.virDomain, *args: t.Any, name: str = name, function: t.Any = function
        ) -> t.Any:
            calls.append(name)
            return function(domain, *args)

        monkeypatch.setattr(libvirt.virDomain, name, counted)
    assert read(running[0]) == "changing"
    assert calls == ["XMLDesc", "metadata"]


@pytest.mark.parametrize("phase", [None, "changing"])
def test_running_vm_is_shown_with_its_own_metadata_and_the_phase_of_its_definition(
    running: tuple[Connection, libvirt.virDomain], phase: str | None
) -> None:
    """``virsh metadata`` sets those of the running VM alone."""
    domain = running[1]
    live = metadata.Metadata(groups=("web",), user="root", host_key="ssh-ed25519 AAAA")
    for stored, where in (
        (live, libvirt.VIR_DOMAIN_AFFECT_LIVE),
        (metadata.Metadata(user="root", phase=phase), libvirt.VIR_DOMAIN_AFFECT_CONFIG),
    ):
        domain.setMetadata(_KIND, _text(stored), *_WHERE, where)
    assert description.shown(domain)[1] == dataclasses.replace(live, phase=phase)


@pytest.mark.parametrize(("phase", "known"), [(None, False), ("adopting", True)])
def test_running_vm_without_metadata_is_shown_with_those_of_work_on_it(
    running: tuple[Connection, libvirt.virDomain], phase: str | None, known: bool
) -> None:
    domain, defined = running[1], metadata.Metadata(user="root", phase=phase)
    domain.setMetadata(_KIND, _text(defined), *_WHERE, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
    assert description.shown(domain)[1] == (defined if known else None)


def test_metadata_of_the_running_vm_that_cannot_be_used_are_returned(
    running: tuple[Connection, libvirt.virDomain],
) -> None:
    domain = running[1]
    broken = "<fleet><owner pid='none'/></fleet>"
    domain.setMetadata(_KIND, broken, *_WHERE, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    stored = description.read(domain)[1]
    assert stored is not None
    assert stored.broken == "owner: boot_id is missing"


def test_running_vm_whose_definition_has_no_metadata_has_none(
    running: tuple[Connection, libvirt.virDomain],
) -> None:
    domain = running[1]
    domain.setMetadata(_KIND, None, *_WHERE, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
    domain.setMetadata(_KIND, _text(_CHANGING), *_WHERE, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    assert description.read(domain)[1] is None


def test_transient_vm_has_its_live_metadata() -> None:
    own = f"<metadata>{tostring(metadata.to_element(_CHANGING))}</metadata>"
    with connect("test:///default", 5) as connection:
        domain = connection.conn.createXML(_TRANSIENT.format("transient", own), 0)
        try:
            stored = description.read(domain)[1]
        finally:
            domain.destroy()
    assert stored == _CHANGING
