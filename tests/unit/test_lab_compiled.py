# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A laboratory's hypervisors compile a source once, and run what it says now."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[1] / "lab" / "hypervisor" / "lab_compiled.py"
_PROGRAM = """
import json, os, sys
os.geteuid = lambda: 0
import lab_compiled
lab_compiled._FOLDER, archive = sys.argv[1:]
compiled, written = [], []
real = lab_compiled._compiled
lab_compiled._compiled = lambda self, name: compiled.append(name) or real(self, name)
lab_compiled.compile = lambda text, *words, **how: (
    written.append(text) or compile(text, *words, **how)
)
sys.path.insert(0, archive)
import said
file = said.function.__code__.co_filename
print(json.dumps([said.Said().word, file, len(compiled), len(written)]))
"""
_SOURCE = """
import dataclasses
@dataclasses.dataclass(frozen=True)
class Said:
    word: str = {!r}
def function():
    pass
"""


def _run(folder: Path, word: str, archive: str = "said.zip") -> Any:
    place = folder / archive
    place.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(place, "w") as file:
        file.writestr("said.py", _SOURCE.format(word))
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(folder / "kept"), str(place)],
        cwd=_FILE.parent,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    said, file_name, compiled, written = json.loads(done.stdout)
    assert file_name == f"{place}/said.py"
    return said, compiled, written > 0


def test_a_source_is_compiled_once_and_a_changed_one_anew(tmp_path: Path) -> None:
    assert _run(tmp_path, "one") == ("one", 1, True)
    assert _run(tmp_path, "one", "other/said.zip") == ("one", 0, False)
    # what its class writes is the same
    assert _run(tmp_path, "two") == ("two", 1, False)
    assert _run(tmp_path, "two") == ("two", 0, False)
    assert _run(tmp_path, "one") == ("one", 0, False)


def test_archives_of_other_names_have_their_own(tmp_path: Path) -> None:
    assert _run(tmp_path, "one") == ("one", 1, True)
    assert _run(tmp_path, "one", "other.zip") == ("one", 1, True)
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_what_is_damaged_is_compiled_anew(tmp_path: Path) -> None:
    _run(tmp_path, "one")
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:9])
    assert _run(tmp_path, "one") == ("one", 1, True)
    assert _run(tmp_path, "one") == ("one", 0, False)
