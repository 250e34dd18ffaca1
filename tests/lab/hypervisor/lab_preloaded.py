# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For a hypervisor: programs run in forks of a Python that has imported what modules import.

The standard library, libvirt and lxml only, which are half of what a module of Ansible costs; what
Ansible sends is imported by the fork. A fork is given the files, folder, environment, umask and
ignored signals of the process that asks for it (see python3 beside this file), and neither outlives
the other.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import threading
import types

_SOCKET = "/run/lab-preloaded"
_IMPORTS = (
    *("argparse", "ast", "base64", "bisect", "calendar", "collections.abc", "concurrent.futures"),
    *("configparser", "copy", "ctypes.util", "dataclasses", "datetime", "decimal", "difflib"),
    *("email.parser", "encodings.cp437", "encodings.idna", "enum", "errno", "fcntl", "fnmatch"),
    *("functools", "getpass", "glob", "grp", "gzip", "hashlib", "heapq", "hmac", "http.client"),
    *("http.cookiejar", "inspect", "io", "ipaddress", "itertools", "json", "locale"),
    *("logging.handlers", "marshal", "netrc", "numbers", "pathlib", "pickle", "pkgutil"),
    *("platform", "pwd", "queue", "random", "re", "runpy", "secrets", "selectors", "shlex"),
    *("shutil", "ssl", "stat", "string", "struct", "subprocess", "syslog", "tempfile"),
    *("textwrap", "time", "traceback", "typing", "unicodedata", "urllib.request", "uuid"),
    *("warnings", "zipfile", "zipimport", "zlib", "libvirt", "libvirt_qemu", "lxml.etree"),
)
_PIDFD_GETFD = 438  # of Linux (pidfd_getfd(2)); Python has no function for it
_syscall = ctypes.CDLL(None).syscall


class Server:
    """Answers those who ask, each with a fork, until it is killed."""

    def __init__(self, path):
        self.listening = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.umask(0o077)
        self.listening.bind(path)
        self.listening.listen(64)
        self.waiting = select.poll()
        self.waiting.register(self.listening, select.POLLIN)
        self.forks = {}  # by the connection's descriptor and by the fork's: both, and its number

    def serve(self):
        """Wait for someone who asks, or is gone, or for the end of a fork.

        Who asks comes first, as first registered: then no descriptor that was closed is another's.
        """
        while True:
            for descriptor, _event in self.waiting.poll():
                if descriptor == self.listening.fileno():
                    self.begin(self.listening.accept()[0])
                elif descriptor in self.forks:
                    self.end(descriptor, *self.forks[descriptor])

    def begin(self, connection):
        """Give a fork to who is at the other end."""
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        asking = struct.unpack("3i", peer)[0]
        pid = os.fork()
        if pid == 0:
            run(asking)
        fork = os.pidfd_open(pid)
        for descriptor in (connection.fileno(), fork):
            self.forks[descriptor] = connection, fork, pid
            self.waiting.register(descriptor, select.POLLIN)

    def end(self, descriptor, connection, fork, pid):
        """Who asked is gone: so is the fork. Or that has ended: say how."""
        if descriptor == connection.fileno():
            self.waiting.unregister(descriptor)
            os.kill(pid, signal.SIGKILL)
            return
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(b"%d" % status)
        for one in (connection.fileno(), fork):
            del self.forks[one]
            with contextlib.suppress(KeyError):
                self.waiting.unregister(one)
        connection.close()
        os.close(fork)


def run(asking):
    """In the fork: become a Python that the other process would have been, to its end."""
    status = 1
    try:
        become(asking)
        status = program()
    finally:
        os._exit(status)


def become(asking):
    """Take over what a program is given."""
    process = os.pidfd_open(asking)
    for number in range(3):
        taken = _syscall(_PIDFD_GETFD, process, number, 0)
        os.dup2(taken, number)
        os.close(taken)
    with open(f"/proc/{asking}/environ", "rb") as file:
        environment = file.read()
    os.environ.clear()
    for entry in environment.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if name and equals:
            os.environb[name] = value
    locales = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    if next(filter(None, locales), "C") in ("C", "POSIX") and not os.environ.get("LC_ALL"):
        os.environ["LC_CTYPE"] = "C.UTF-8"  # as Python does (PEP 538)
    with open(f"/proc/{asking}/status") as file:
        status = dict(line.split(":", 1) for line in file)
    os.umask(int(status["Umask"], 8))
    ignored = int(status["SigIgn"], 16)
    for number in range(1, 32):
        if ignored >> (number - 1) & 1 and number != signal.SIGFPE:  # which Perl ignores itself
            signal.signal(number, signal.SIG_IGN)
    os.chdir(f"/proc/{asking}/cwd")
    os.setsid()
    highest = max(map(int, os.listdir("/proc/self/fd")))
    os.closerange(3, highest + 1)


def program():
    """What Python does with a program from its input; its exit status."""
    source = b"".join(iter(lambda: os.read(0, 1 << 20), b""))
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv, sys.path[0] = [""], ""
    status = 0
    try:
        exec(compile(source, "<stdin>", "exec", dont_inherit=True), vars(main))  # noqa: S102
    except SystemExit as ending:
        status = ending.code
    except BaseException:  # whatever it is, Python shows it and ends
        kind, value, trace = sys.exc_info()
        sys.excepthook(kind, value.with_traceback(trace.tb_next), trace.tb_next)
        status = 1
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return 120  # as Python itself
    return (status or 0) & 0xFF


if __name__ == "__main__":
    for name in _IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # forks look through what is new to them alone
    Server(_SOCKET).serve()
