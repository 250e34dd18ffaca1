# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For the Python of a hypervisor: what root compiles out of an archive is kept.

There is a file for each name of an archive. It has the code of the archive's members, by their
names, sizes and checksums, so that an unchanged one is not even unpacked; and that of the methods
which the dataclasses in them write when they are imported, by its text.
"""

import _imp
import atexit
import marshal
import os
import sys
import zipimport

_FOLDER = "/var/cache/lab-python"
_compiled = zipimport._get_module_code
_archives = {}
_asked = {}


class _Kept:
    """What is kept for one name of an archive, by what it was compiled from."""

    def __init__(self, archive):
        name = f"{sys.implementation.cache_tag}.{os.path.basename(archive)}"
        self.path = f"{_FOLDER}/{name}"
        self.known = self.read()
        self.new = {}

    def read(self):
        self.reader = os.getpid()
        try:
            with open(self.path, "rb") as file:
                return marshal.loads(file.read())  # noqa: S302 - in a folder of root alone
        except (OSError, EOFError, ValueError, TypeError):
            return {}

    def code(self, key, make):
        """The code that was kept as ``key``, or what ``make`` makes."""
        try:
            return marshal.loads(self.known[key])  # noqa: S302
        except (KeyError, EOFError, ValueError, TypeError):
            if self.reader != os.getpid():  # another fork may have been here
                self.known = self.read()
                return self.code(key, make)
            code = make()
            if not self.new:
                atexit.register(self.write)
            self.new[key] = self.known[key] = marshal.dumps(code)
            return code

    def write(self):
        """Keep what is new, with what others have kept meanwhile."""
        atexit.unregister(self.write)
        fresh = f"{self.path}.{os.getpid()}"
        try:
            os.makedirs(_FOLDER, mode=0o700, exist_ok=True)
            with open(fresh, "wb") as file:
                file.write(marshal.dumps({**self.read(), **self.new}))
            os.replace(fresh, self.path)
        except OSError:
            pass
        self.new = {}


def write():
    """Keep what is new now, not at exit: forks follow."""
    for one in _archives.values():
        if one.new:
            one.write()


def _kept(archive):
    found = _archives.get(archive)
    if found is None:
        import dataclasses

        found = _archives[archive] = _Kept(archive)
        dataclasses.exec = lambda text, *names: exec(  # noqa: S102 - as dataclasses itself does
            found.code(text, lambda: compile(text, "<string>", "exec", dont_inherit=True)), *names
        )
    return found


def _module_code(self, fullname):
    """As zipimport's own function, which unpacks and compiles; asked twice for each module, first
    for the name of its file."""
    path = zipimport._get_module_path(self, fullname)
    files = self._get_files() if hasattr(self, "_get_files") else self._files
    for suffix, compiled, package in zipimport._zip_searchorder:
        entry = files.get(path + suffix)
        if entry is not None and not compiled:
            code = _asked.pop(entry[0], None)
            if code is None:
                key = (fullname, entry[3], entry[7])  # its size and checksum
                code = _kept(self.archive).code(key, lambda: _compiled(self, fullname)[0])
                _imp._fix_co_filename(code, entry[0])
                _asked[entry[0]] = code
            return code, package, entry[0]
    return _compiled(self, fullname)


if os.geteuid() == 0:
    zipimport._get_module_code = _module_code
