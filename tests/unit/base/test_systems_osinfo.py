# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of operating systems against libosinfo's database, as Debian has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import systems
from lxml import etree

_DATA = Path("/usr/share/osinfo/os")  # Debian's package osinfo-db
_Version = tuple[int, ...]


@pytest.fixture(scope="module")
def database() -> dict[str, str]:
    """The identifier of each system by its short name."""
    names = {}
    for path in _DATA.glob("*/*.xml"):
        for system in etree.parse(path).getroot().iterchildren("os"):
            names[str(system.findtext("short-id"))] = str(system.get("id"))
    return names


def _version(identifier: str) -> _Version:
    return tuple(map(int, re.findall(r"\d+", identifier.rpartition("/")[2])))


def _is_newer(identifier: str, known: set[str]) -> bool:
    """Whether it is a version after all ``known`` ones of its line (9.2 after 9.1, beside 10.0),
    or, if it begins a line, after all of its family."""
    start, version = identifier.rpartition("/")[0], _version(identifier)
    family = {_version(other) for other in known if other.rpartition("/")[0] == start}
    line = {other for other in family if other[:1] == version[:1]}
    return bool(version and family) and version > max(line or family)


def _invented(table: dict[str, str], database: dict[str, str]) -> dict[str, str]:
    """Systems of the ``table`` that the database has otherwise, or should have and has not.

    Debian's database is as old as the release, so that it cannot have what is newer.
    """
    known = set(database.values())
    return {
        short: identifier
        for short, identifier in table.items()
        if database.get(short) != identifier
        and (short in database or identifier in known or not _is_newer(identifier, known))
    }


def _table() -> dict[str, str]:
    return {short: identifier for short, identifier, _needs in systems._SYSTEMS}


def test_each_system_of_the_table_is_in_osinfo_db_unless_it_is_newer(
    database: dict[str, str],
) -> None:
    assert _invented(_table(), database) == {}


def test_each_family_of_the_table_has_a_system_in_osinfo_db(database: dict[str, str]) -> None:
    families = {(short, start) for short, start, _needs, _versions in systems._FAMILIES}
    for short, start in families:
        assert any(
            name.startswith(short) and identifier.startswith(start)
            for name, identifier in database.items()
        ), short


def test_aliases_are_of_systems_in_osinfo_db(database: dict[str, str]) -> None:
    assert {name for name in systems.ALIASES.values() if name not in database} == set()


@pytest.mark.parametrize(
    ("short", "identifier"),
    [
        ("debian11", "http://debian.org/debian/eleven"),
        ("debian-11", "http://debian.org/debian/11"),
        ("sle12sp5", "http://suse.com/sle/12.5"),
        ("ubuntu19.05", "http://ubuntu.com/ubuntu/19.05"),
        ("rhel8.4.1", "http://redhat.com/rhel/8.4.1"),
        ("winnext", "http://microsoft.com/win/next"),
        ("debian99", "http://debian.example/debian/99"),
    ],
)
def test_a_system_that_osinfo_db_should_have_and_has_not_is_noticed(
    short: str, identifier: str, database: dict[str, str]
) -> None:
    assert _invented({short: identifier}, database) == {short: identifier}


def test_a_system_after_those_of_osinfo_db_is_none_that_it_should_have(
    database: dict[str, str],
) -> None:
    newer = {"debian99": "http://debian.org/debian/99", "win2k99": "http://microsoft.com/win/2k99"}
    assert _invented(newer, database) == {}
