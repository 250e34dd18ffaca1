# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cache of the bytecode of this collection, for modules, which Ansible sends as archives.

Python caches what it compiles of files in a folder, but not of files in an archive; and it compiles
those twice, first to say where they are. A module that imports fifty would spend a quarter of its
time on that. This cache is in the folder of the locks, which only its user can enter. Its files are
named after a digest of all that their content depends on, so none is ever out of date.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
import types
import typing as t
from zipimport import zipimporter

from ._errors import PlanRefused
from ._fleet.base import effects_files as files
from ._fleet.base import effects_locks as locks

if t.TYPE_CHECKING:
    from pathlib import Path

_IMPORTED = f"{__name__.rpartition('.')[0]}."
_FOLDER = "bytecode"
_MOST_KEPT = 1000  # three versions of the collection, or 14 MiB
_DIGEST = hashlib.sha256().digest_size


def cache() -> None:
    """Use the cache for what is imported from now on, if this file is in an archive.

    Without a folder for it, everything is compiled, but once.
    """
    archive: object = __spec__.loader
    if not isinstance(archive, zipimporter):
        return
    folder = None
    with contextlib.suppress(OSError, PlanRefused):
        place = locks.own_folder() / _FOLDER
        place.mkdir(mode=0o700, exist_ok=True)
        folder = place
    sys.meta_path.insert(0, _Finder(archive, Cache(folder)))


class Cache:
    """The code of modules, in a folder that no other user can write to, or in none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._added = False

    def code(self, source: bytes, path: str) -> types.CodeType:
        """The code of a source, with ``path`` as its file name."""
        if self._folder is None:
            return _compiled(source, path)
        key = hashlib.sha256(repr((sys.version, sys.flags.optimize, path)).encode())
        key.update(source)
        file = self._folder / key.hexdigest()
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            content = file.read_bytes()
            if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
                return t.cast("types.CodeType", marshal.loads(content[_DIGEST:]))  # noqa: S302
        code = _compiled(source, path)
        if not sys.dont_write_bytecode:
            with contextlib.suppress(OSError):
                self._add(file, marshal.dumps(code))
        return code

    def _add(self, file: Path, content: bytes) -> None:
        if not self._added:
            _remove_oldest(file.parent)
            self._added = True
        content = hashlib.sha256(content).digest() + content
        files.write(file, content, durable=files.Durable.NOTHING)


def _compiled(source: bytes, path: str) -> types.CodeType:
    return compile(source, path, "exec", dont_inherit=True)


def _remove_oldest(folder: Path) -> None:
    """Remove the oldest files, except for as many as are kept; others may do so as well."""
    written = {}
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            written[entry.path] = entry.stat().st_mtime
    for path in sorted(written, key=lambda path: written[path])[:-_MOST_KEPT]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


class _Finder:
    """Finds modules in the archive; packages are left to the archive's own loader."""

    def __init__(self, archive: zipimporter, cache: Cache) -> None:
        self._archive = archive
        self._cache = cache

    def find_spec(self, name: str, *_place: object) -> t.Any:
        """The module, if it is one of this collection's and in the archive."""
        if not name.startswith(_IMPORTED):
            return None
        path = f"{name.replace('.', '/')}.py"
        file = os.path.join(self._archive.archive, path)
        loader: t.Any
        try:
            loader = _Loader(self._archive.get_data(file), path, self._cache)
        except OSError:
            return None
        spec = type(__spec__)(name, loader, origin=file)
        spec.has_location = True
        return spec


class _Loader:
    """Loads one module by the cache, as ``importlib.abc.Loader``, which is slow to import, says."""

    def __init__(self, source: bytes, path: str, cache: Cache) -> None:
        self._source = source
        self._path = path
        self._cache = cache

    def create_module(self, _spec: object) -> None:
        """Let Python create the module."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run its code."""
        exec(self._cache.code(self._source, self._path), module.__dict__)  # noqa: S102

    def get_source(self, _name: str) -> str:
        """Its lines, for tracebacks."""
        return self._source.decode()
