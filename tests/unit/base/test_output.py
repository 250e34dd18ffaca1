# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An answer for people, for programs and in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output

DATA = {"b": [1, None], "a": "text"}


def test_render() -> None:
    def render(form: str) -> str:
        return _output.render(form, DATA, lambda: "rows\n", lambda: "a,b\n")

    assert json.loads(render("json")) == DATA
    assert yaml.safe_load(render("yaml")) == DATA
    assert render("table") == "rows\n"
    assert render("csv") == "a,b\n"
    assert _output.FORMS == ["table", "json", "yaml", "csv"]


def test_deliver_to_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert _output.deliver("rows\n", None, check=False, diff=True) == {"changed": False}
    assert "rows" in capsys.readouterr().out


def test_deliver_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "answer"
    predicted = _output.deliver("new\n", str(path), check=True, diff=True)
    assert not path.exists()
    real = _output.deliver("new\n", str(path), check=False, diff=True)
    assert predicted == real
    assert (real["changed"], real["diff"]["before"], real["diff"]["after"]) == (True, "", "new\n")
    assert path.read_text() == "new\n"
    assert _output.deliver("new\n", str(path), check=False, diff=True) == {"changed": False}
