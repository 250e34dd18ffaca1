# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a laboratory's hypervisors did for a test run: modules that ran, guests that started.

Nothing is asked of a hypervisor. Each Python of a module adds a byte to a file of its host (see
hypervisor/lab_counted.py), and libvirt writes into a log of each guest when it starts a QEMU. Both
are read from outside. Guests that are purged and laboratories that go down take those files with
them, so the folder of the run has links to them (tests/counting.py reads those).

Environment: FLEET_VIRT_COUNTS names that folder; without it nothing is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["VARIABLE", "bring", "keep", "kept", "note", "noted", "open_to_all"]

VARIABLE = "FLEET_VIRT_COUNTS"
_SOURCE = Path(__file__).parent / "hypervisor" / "lab_counted.py"
# Outside of what tests look through for changes
_FOLDER = "var/lib/lab-python"
_RUNS = f"{_FOLDER}/runs"
_LOGS = "var/log/libvirt/qemu"
_SITE = "usr/lib/python3/dist-packages"


def bring(upper: Path) -> None:
    """Have a host that is prepared count its modules' runs."""
    for folder in (_FOLDER, _SITE):
        (upper / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(_SOURCE, upper / _FOLDER)
    (upper / _SITE / "lab-counted.pth").write_text(f"/{_FOLDER}\nimport lab_counted\n")
    (upper / _RUNS).touch()


def open_to_all(upper: Path) -> None:
    """Once the modes of its other files are set: not only root runs modules."""
    os.chmod(upper / _RUNS, 0o666)


def note(directory: Path, fresh: bool) -> None:
    """Tell the run that it uses a laboratory; what one did that was up already does not count."""
    folder = os.environ.get(VARIABLE)
    entry = Path(folder or "/", "laboratories", directory.name)
    if folder is None or entry.exists():
        return
    before = {} if fresh else {_key(path): path.stat().st_size for path in _sources(directory)}
    entry.parent.mkdir(parents=True, exist_ok=True)
    new = entry.parent.parent / f"new-{os.getpid()}"
    new.write_text(json.dumps({"directory": str(directory), "before": before}))
    os.replace(new, entry)
    keep(directory)  # or a file of another content could get the number of one that goes


def noted(folder: Path) -> dict[Path, dict[str, int]]:
    """The laboratories' folders; of each the sizes that its files had before."""
    found = {}
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder / "laboratories"):
            content = json.loads(Path(entry.path).read_text())
            found[Path(content["directory"])] = content["before"]
    return found


def keep(directory: Path) -> None:
    """Keep what is counted in a laboratory: its files may go any time, and do when it goes down."""
    folder = os.environ.get(VARIABLE)
    if folder is None or not Path(folder, "laboratories", directory.name).exists():
        return
    kept = Path(folder, "kept")
    kept.mkdir(exist_ok=True)
    for path in _sources(directory):
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            link = kept / _key(path)
            if not link.exists():
                _link(path, link)


def kept(folder: Path) -> list[Path]:
    """What was kept: logs end in ``.log``, the others have a byte for each run of a module."""
    with contextlib.suppress(FileNotFoundError):
        return sorted((folder / "kept").iterdir())
    return []


def _link(path: Path, link: Path) -> None:
    try:
        os.link(path, link)
    except OSError as error:
        if isinstance(error, (FileNotFoundError, FileExistsError)):
            raise
        # a laboratory on another file system: a name for what is there, while it is there
        link.symlink_to(path)


def _key(path: Path) -> str:
    status = path.stat()
    return f"{status.st_dev}-{status.st_ino}.{'runs' if path.name == 'runs' else 'log'}"


def _sources(directory: Path) -> Iterator[Path]:
    for upper in sorted(directory.glob("hosts/*/upper")):
        with contextlib.suppress(OSError):
            for entry in os.scandir(upper / _LOGS):
                if ".log" in entry.name:
                    yield Path(entry.path)
        if (upper / _RUNS).exists():
            yield upper / _RUNS
