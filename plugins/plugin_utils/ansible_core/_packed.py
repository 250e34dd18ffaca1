# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cache of modules as Ansible packs them, from one run to the next.

Ansible parses all imports of a module to pack it, once in each run, and the first task of every
playbook waits for that. It packs into a folder that is removed with the run; this stores the
packed modules below ``ANSIBLE_HOME`` and puts them back into that folder in the next run, as long
as no file that they may contain has changed. Ansible packs whatever is not in the cache as usual.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
import sys
import typing as t
from pathlib import Path

from ansible import constants
from ansible.module_utils import basic
from ansible.plugins.loader import module_utils_loader
from ansible.release import __version__
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _constants

_FOLDER = "fleet-virt-modules"
_PLUGINS = Path(__file__).parents[2]
_MODULES = "ansible_collections.fleet.virt.plugins.modules."
_MOST_KEPT = 4  # versions of the collection, of Ansible and of Python


@contextlib.contextmanager
def cached(action: str) -> t.Iterator[None]:
    """Restore the packed module ``fleet.virt.virt_...`` before a task, and store it after."""
    module = action.rpartition(".")[2]
    run = _constants.local_tmp() / "ansiballz_cache"
    folder = None if _packed(run, module) else _folder()
    if folder is None:
        yield
        return
    for file in _packed(folder, module):
        name, _dot, digest = file.name.rpartition(".")
        _copy(file, run, name, digest)
    if _packed(run, module):
        yield
        return
    try:
        yield
    finally:
        for file in _packed(run, module):
            _copy(file, folder, f"{file.name}.{{digest}}")
        _forget(folder)


def _packed(folder: Path, module: str) -> list[Path]:
    """Ansible's complete files of that module; the compression follows its name."""
    with contextlib.suppress(OSError):
        return [
            path
            for path in folder.iterdir()
            if path.name.startswith(f"{_MODULES}{module}-")
            and not path.name.endswith((".lock", "-part"))
        ]
    return []


def _folder() -> Path | None:
    """The cache folder for exactly these files; None if others could write to it."""
    try:
        above = Path(str(constants.config.get_config_value("ANSIBLE_HOME"))) / _FOLDER
        above.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = above.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return None
        if stat.S_IMODE(status.st_mode) & 0o022:
            return None
        return above / _key()
    except OSError:
        return None


def _key() -> str:
    """A digest that changes with any file that may be packed, and with the packer."""
    digest = hashlib.sha256(f"{__version__} {sys.version} {sys.flags.optimize}".encode())
    folders = [_PLUGINS / "modules", _PLUGINS / "module_utils", Path(basic.__file__).parent]
    folders += [Path(path) for path in module_utils_loader._get_paths(subdirs=False)]
    runtime = _PLUGINS.parent / "meta" / "runtime.yml"
    lines = [_seen(str(runtime), runtime.stat())] if runtime.exists() else []
    for folder in dict.fromkeys(folders):
        lines += _within(str(folder))
    digest.update("".join(lines).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _within(folder: str) -> list[str]:
    """The identities of all files below a folder; none if there is none, or it cannot be read."""
    lines = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                lines += _within(entry.path) if entry.name != "__pycache__" else []
            else:
                with contextlib.suppress(FileNotFoundError):
                    lines.append(_seen(entry.path, entry.stat()))
    return lines


def _seen(path: str, status: os.stat_result) -> str:
    """The identity of a file; writing or replacing it changes its ctime."""
    times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
    return f"{path} {status.st_ino} {status.st_size} {times}\n"


def _copy(file: Path, folder: Path, name: str, expected: str | None = None) -> None:
    """Copy atomically: other processes may read it at any time, also after a power failure.

    ``name`` may have a placeholder for the content's digest; a file with another is removed.
    """
    part = folder / f"{secrets.token_hex(8)}.part"
    with contextlib.suppress(OSError):
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if digest != (expected or digest):
            file.unlink()
            return
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            with part.open("xb") as copy:
                copy.write(content)
            part.replace(folder / name.format(digest=digest))
        except OSError:
            part.unlink(missing_ok=True)
            raise


def _forget(folder: Path) -> None:
    """Remove cached modules of old versions, except a few that may alternate."""
    with contextlib.suppress(OSError):
        cached = sorted(folder.parent.iterdir(), key=lambda entry: entry.stat().st_mtime)
        for old in cached[:-_MOST_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
