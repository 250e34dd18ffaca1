# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For the server of a hypervisor's forks: the program that Ansible sends for a module, taken apart.

It is a wrapper, the same for all modules, and a call of it with what is of this run and an archive:
the module and all that it imports, but for Python's own. Of an archive that was sent before, a
process has imported all that the module imports first, and only the rest is done again.
"""

import ast
import base64
import hashlib
import importlib.util
import os
import re
import signal
import struct
import sys

import lab_compiled

_FOLDER = "/var/cache/lab-python"
MARK = b"\n_ANSIBALLZ_WRAPPER = True\n"
_CALL = b'\n\nif __name__ == "__main__":\n    _ansiballz_main(\n'
_ARCHIVE = b"\nzip_data='"
_END = b"',\n)\n"
_NAME = re.compile(rb"^(ansible_module|module_fqn)='([\w.]+)',$", re.MULTILINE)
# Of one connection or command, no matter to what is imported
_PASSING = re.compile(rb"(SSH_\w+|SUDO_COMMAND|XDG_SESSION_ID|PWD|OLDPWD|SHLVL|_)=")


class Program:
    """What Ansible sends for a module.

    :raises ValueError: it is something else.
    """

    def __init__(self, source):
        start, _, end = source.rpartition(_ARCHIVE)
        self.wrapper, _, call = start.partition(_CALL)
        names = dict(_NAME.findall(call))
        if MARK not in self.wrapper or not end.endswith(_END) or len(names) != 2:
            raise ValueError
        self.source = source
        self.name, self.module = (names[n].decode() for n in (b"ansible_module", b"module_fqn"))
        self.archive = end[: -len(_END)].decode("ascii")
        # In the lines where it was, for tracebacks
        self.rest = b"\n" * self.wrapper.count(b"\n") + _CALL + call + b"\nzip_data=zip_data,\n)\n"

    def key(self, environment):
        """The same for programs of which the imported is the same, in such an environment."""
        data = bytearray(base64.b64decode(self.archive, validate=True))
        try:
            _without_times(data)
        except struct.error as error:
            raise ValueError from error
        found = hashlib.sha256(data)
        found.update(self.wrapper)
        entries = sorted(e for e in environment.split(b"\0") if not _PASSING.match(e))
        # A package that is installed later may be one that was looked for in vain
        installed = [os.stat(path).st_mtime_ns for path in sys.path if os.path.isdir(path)]
        found.update(repr((self.name, self.module, entries, installed)).encode())
        return found.hexdigest()

    def load(self):
        """Import what the module imports first, from an archive that is to stay; the wrapper's
        code, and what the rest does not name but means.

        :raises ValueError: that has done something that forks could not inherit.
        """
        path = f"{folder(os.getpid())}/ansible_{self.name}_payload.zip"
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.archive))
        sys.path[0] = path
        said = os.memfd_create("said")
        os.dup2(said, 1)
        os.dup2(said, 2)
        before = _surroundings()
        importlib.import_module("ansible.module_utils._internal._ansiballz._loader")
        loader = importlib.util.find_spec(self.module).loader
        loader.get_code(self.module)  # for lab_compiled to know it
        space = {"__name__": self.module, "__package__": self.module.rpartition(".")[0]}
        for node in ast.parse(loader.get_source(self.module)).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                exec(compile(ast.Module([node], []), path, "exec"), space)  # noqa: S102
        lab_compiled.write()
        sys.stdout.flush()
        sys.stderr.flush()
        if _surroundings() != before or os.fstat(said).st_size:
            raise ValueError
        wrapper = compile(self.wrapper, "<stdin>", "exec", dont_inherit=True)
        return wrapper, {"zip_data": self.archive}


def folder(pid):
    """Where such a process has its archive: late imports read it, and errors name it."""
    return f"{_FOLDER}/{pid}"


def _without_times(data):
    """Clear in an archive when its members were written, which is when Ansible was started."""
    size, at = struct.unpack_from("<2I", data, len(data) - 10)
    end = at + size
    while at < end:
        *lengths, member = struct.unpack_from("<3H8xI", data, at + 28)
        struct.pack_into("4x", data, at + 12)
        struct.pack_into("4x", data, member + 10)
        at += 46 + sum(lengths)


def _surroundings():
    handlers = [signal.getsignal(number) for number in range(1, 32)]
    opened, threads = (os.listdir(f"/proc/self/{name}") for name in ("fd", "task"))
    return dict(os.environ), list(sys.path), os.getcwd(), handlers, opened, threads
