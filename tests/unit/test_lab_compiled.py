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
compiled = []
real = lab_compiled._compile
lab_compiled._compile = lambda path, source: compiled.append(path) or real(path, source)
sys.path.insert(0, archive)
import said
print(json.dumps([said.WORD, said.function.__code__.co_filename, len(compiled)]))
"""


def _run(folder: Path, name: str, word: str) -> Any:
    archive = folder / f"{name}.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("said.py", f"WORD = {word!r}\ndef function():\n    pass\n")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(folder / "kept"), str(archive)],
        cwd=_FILE.parent,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_source_is_compiled_once_and_a_changed_one_anew(tmp_path: Path) -> None:
    assert _run(tmp_path, "first", "one") == ["one", f"{tmp_path}/first.zip/said.py", 1]
    assert _run(tmp_path, "second", "one") == ["one", f"{tmp_path}/second.zip/said.py", 0]
    assert _run(tmp_path, "first", "two") == ["two", f"{tmp_path}/first.zip/said.py", 1]


def test_what_is_damaged_is_compiled_anew(tmp_path: Path) -> None:
    _run(tmp_path, "first", "one")
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:9])
    assert _run(tmp_path, "first", "one") == ["one", f"{tmp_path}/first.zip/said.py", 1]
