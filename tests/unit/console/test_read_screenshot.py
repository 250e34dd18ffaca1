# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pictures of the domains of libvirt's test driver."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import png
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.options import (
    ScreenRequest,
    wanted,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.read_screenshot import (
    capture,
)

_DOMAIN = """
<domain type='test'><name>{name}</name><memory unit='MiB'>64</memory>
<os><type>hvm</type></os><devices>{video}</devices>
<test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>{state}</test:runstate>
</domain>
"""
_STATES = {"on1": 1, "off1": 5, "paused1": 3, "serial1": 1}
_VIDEO = "<video><model type='vga'/></video>"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Connection]:
    domains = "".join(
        _DOMAIN.format(name=name, state=state, video="" if name == "serial1" else _VIDEO)
        for name, state in _STATES.items()
    )
    path = tmp_path / "node.xml"
    path.write_text(f"<node>{domains}</node>")
    with connect(f"test://{path}", 5) as connection:
        yield connection


def test_all_that_run(node: Connection) -> None:
    *entries, serial = capture(node, ScreenRequest(None, False, 0))
    assert [entry["name"] for entry in entries] == ["on1", "paused1"]
    assert (serial["name"], serial["content"], serial["failed"]) == ("serial1", None, False)
    for entry in entries:
        picture = png.checked(base64.b64decode(entry["content"] or ""))
        assert (picture.width, picture.height) == (entry["width"], entry["height"])
        assert not entry["failed"]


def test_one_that_is_off_hides_no_other(node: Connection) -> None:
    off, on = capture(node, ScreenRequest(("off1", "on1"), False, 0))
    assert (off["failed"], off["content"]) == (True, None)
    assert off["msg"] == "it is shutoff, so it has no screen output; start it first"
    assert on["content"]


def test_one_without_a_screen_is_a_failure_where_it_is_named(node: Connection) -> None:
    (entry,) = capture(node, ScreenRequest(("serial1",), False, 0))
    assert entry["failed"]
    assert entry["msg"] == "it has no screen, only its serial console"


def test_names_that_nobody_has(node: Connection) -> None:
    with pytest.raises(SpecError, match="no domain 'web9'"):
        capture(node, ScreenRequest(("on1", "web9"), False, 0))
    (entry,) = capture(node, ScreenRequest(("on1", "web9"), True, 0))
    assert entry["name"] == "on1"


def test_a_number_that_is_no_screen() -> None:
    with pytest.raises(SpecError, match="-1 is not a screen"):
        wanted({"names": None, "ignore_missing": False, "screen": -1})
