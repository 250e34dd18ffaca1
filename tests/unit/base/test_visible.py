# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever a name contains, what is shown of it is visible, by every way out."""

from __future__ import annotations

import json
import sys
import typing as t
import unicodedata

import pytest
import yaml
from ansible.utils.display import Display
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    TURNING,
    FleetVirtError,
    HostUnreachable,
    LibvirtFailure,
    PlanRefused,
    Problem,
    SpecError,
    error_message,
    visible,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import options, tables
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import failure

# Control, format, private and unassigned characters, surrogates, separators other than the blank,
# and letters and marks that have no shape: Default_Ignorable_Code_Point of Unicode
_INVISIBLE = [
    chr(point)
    for point in range(sys.maxunicode + 1)
    if unicodedata.category(chr(point)) in ("Cc", "Cf", "Zl", "Zp")
    or point in (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0)
    or 0x180B <= point <= 0x180F
    or 0xFE00 <= point <= 0xFE0F
    or 0xE0100 <= point <= 0xE01EF
]
_LINES = "\n\t"


def _screen(show: t.Callable[[str], None]) -> t.Callable[[str], str]:
    def shown(text: str) -> str:
        said: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Display, "display", lambda _self, line, **_more: said.append(line))
            patch.setattr(Display, "warning", lambda _self, line, **_more: said.append(line))
            show(text)
        return "".join(said)

    return shown


def _rendered(form: str) -> t.Callable[[str], str]:
    def render(text: str) -> str:
        data = {"domains": [{"name": text, text: 1}]}
        return _output.render(
            form,
            data,
            lambda: tables.table(["NAME"], [[text]]),
            lambda: tables.csv_text(["name"], [[text]]),
        )

    return render


def _unknown_option(text: str) -> str:
    reader = options.Reader({text: 1}, "vms[0]", [])
    reader.finish(["memory"])
    return str(SpecError(reader.problems))


WAYS: dict[str, t.Callable[[str], str]] = {
    "table": _rendered("table"),
    "csv": _rendered("csv"),
    "yaml": _rendered("yaml"),
    "json": _rendered("json"),
    "screen": _screen(_output.say),
    "warning": _screen(_output.warn),
    "error": lambda text: str(PlanRefused(f"{text}: refused")),
    "problem": lambda text: str(SpecError([Problem(text, "wrong"), Problem("x", text)])),
    "libvirt's error": lambda text: str(LibvirtFailure(f"read {text}", text)),
    "unreachable": lambda text: str(HostUnreachable(text, text)),
    "failure of an action": lambda text: str(failure(FleetVirtError(text)).message),
    "one of several failures": lambda text: error_message(ValueError(text)),
    "option": _unknown_option,
    "value": options.show,
    "result": lambda text: "".join(
        str(value)
        for value in t.cast(
            "dict[str, object]",
            _output.shown({"msg": text, "warnings": [text], "vms": [{"msg": text, "steps": text}]}),
        ).values()
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_invisible_character_is_escaped_by_every_way_out(way: str) -> None:
    assert set(_INVISIBLE) > TURNING
    for character in _INVISIBLE:
        text = WAYS[way](f"web{character}1")
        seen = [c for c in text if c in _INVISIBLE and c not in _LINES]
        assert not seen, (hex(ord(character)), text)


@pytest.mark.parametrize("way", WAYS)
def test_visible_text_is_shown_as_it_is(way: str) -> None:
    name = "gr\u00fc\u00df-\u65e5\u672c-\u05d0\u05d1"
    text = WAYS[way](name)
    assert name in (json.loads(text)["domains"][0]["name"] if way == "json" else text)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_data_is_the_same_after_it_was_escaped(form: str) -> None:
    """For programs the name is exact, whatever it looks like on the screen."""
    for character in sorted(TURNING):
        text = _rendered(form)(f"web{character}1")
        data = json.loads(text) if form == "json" else yaml.safe_load(text)
        assert data == {"domains": [{"name": f"web{character}1", f"web{character}1": 1}]}


def test_names_in_a_result_stay_exact() -> None:
    result = {"vms": [{"name": "a\u202eb", "msg": None}], "changed": True}
    assert _output.shown(result) == result


def test_lines_and_tabs_stay_in_messages() -> None:
    assert visible("a\n\tb") == "a\n\tb"
    assert visible("a\n\tb", kept="") == "a\\n\\tb"
