# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules that are packed once and kept: what a task runs is always what the collection has now."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

_CHECKOUT = Path(__file__).resolve().parents[3]
_MODULE = "plugins/modules/virt_query.py"
_KEPT = "fleet-virt-modules"


@dataclass(frozen=True)
class Controller:
    """A copy of the collection, and what Ansible does with it on this machine."""

    folder: Path

    @property
    def collection(self) -> Path:
        return self.folder / "ansible_collections" / "fleet" / "virt"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def kept(self) -> list[Path]:
        """The packed modules, by version."""
        return sorted(self.home.glob(f"{_KEPT}/*/*"))

    def query(self) -> subprocess.CompletedProcess[str]:
        """A task that runs a module."""
        uri = "uri=test:///default names=test"
        return subprocess.run(
            ["ansible", "localhost", "-m", "fleet.virt.virt_query", "-a", uri],
            cwd=self.folder,
            env={
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": str(self.folder),
                "ANSIBLE_HOME": str(self.home),
                "ANSIBLE_NOCOLOR": "true",
                "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    made = Controller(tmp_path)
    made.collection.mkdir(parents=True)
    for name in ("meta", "plugins"):
        shutil.copytree(
            _CHECKOUT / name, made.collection / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(_CHECKOUT / "galaxy.yml", made.collection)
    return made


def _says(controller: Controller, text: str) -> None:
    """Have the module end with ``text``."""
    path = controller.collection / _MODULE
    found = path.read_text(encoding="utf-8")
    begin = 'if __name__ == "__main__":\n'
    assert found.count(begin) == 1
    path.write_text(found.replace(begin, f'{begin}    raise SystemExit("{text}")\n'))


def test_a_module_is_packed_once_for_all_runs(controller: Controller) -> None:
    first = controller.query()
    assert first.returncode == 0, first.stdout + first.stderr
    (packed,) = controller.kept
    written = packed.stat()
    second = controller.query()
    assert second.returncode == 0
    assert packed.stat().st_mtime_ns == written.st_mtime_ns
    # and what is kept is what is run: with nothing in it nothing can
    packed.write_bytes(b"")
    empty = packed.with_name(f"{packed.stem}.{hashlib.sha256(b'').hexdigest()}")
    packed.rename(empty)
    assert controller.query().returncode != 0


def test_one_that_was_damaged_is_packed_again(controller: Controller) -> None:
    assert controller.query().returncode == 0
    (packed,) = controller.kept
    content = packed.read_bytes()
    packed.write_bytes(content[: len(content) // 2])
    assert controller.query().returncode == 0
    (again,) = controller.kept
    assert hashlib.sha256(again.read_bytes()).hexdigest() == again.suffix[1:]


def test_a_changed_module_is_what_is_run(controller: Controller) -> None:
    assert controller.query().returncode == 0
    _says(controller, "this is the new one")
    changed = controller.query()
    assert "this is the new one" in changed.stdout + changed.stderr
    assert len(controller.kept) == 2


def test_a_file_of_the_same_size_and_time_is_another(controller: Controller) -> None:
    _says(controller, "first")
    assert "first" in controller.query().stdout
    path = controller.collection / _MODULE
    was = path.stat()
    text = path.read_text(encoding="utf-8").replace("first", "other")
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert path.stat().st_size == was.st_size
    assert "other" in controller.query().stdout


def test_a_file_that_was_packed_with_it_is_part_of_it(controller: Controller) -> None:
    assert controller.query().returncode == 0
    path = controller.collection / "plugins/module_utils/_argspec.py"
    path.write_text(path.read_text(encoding="utf-8") + '\nraise SystemExit("below")\n')
    changed = controller.query()
    assert "below" in changed.stdout + changed.stderr


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_where_others_may_write_nothing_is_kept_or_taken(controller: Controller, mode: int) -> None:
    folder = controller.home / _KEPT
    folder.mkdir(parents=True)
    folder.chmod(mode)
    done = controller.query()
    assert done.returncode == 0
    assert controller.kept == []


def test_a_link_is_not_followed(controller: Controller) -> None:
    controller.home.mkdir()
    elsewhere = controller.folder / "elsewhere"
    elsewhere.mkdir()
    (controller.home / _KEPT).symlink_to(elsewhere)
    assert controller.query().returncode == 0
    assert list(elsewhere.iterdir()) == []


def test_only_the_last_versions_are_kept(controller: Controller) -> None:
    folder = controller.home / _KEPT
    folder.mkdir(mode=0o700, parents=True)
    for number in range(9):
        (folder / str(number)).mkdir()
        os.utime(folder / str(number), (number, number))
    assert controller.query().returncode == 0
    names = sorted(path.name for path in folder.iterdir())
    assert {"6", "7", "8"} < set(names)  # and the digest of this one
    assert len(names) == 4
