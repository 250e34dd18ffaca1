# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For a hypervisor: programs run in forks of a Python that has imported what modules import.

The standard library, libvirt and lxml, which are half of what a module of Ansible costs. What
Ansible sends is imported by a process that is kept for the next runs of the same, and which forks
instead; or by the fork itself. A fork is given the files, folder, environment, umask and ignored
signals of the process that asks for it (see python3 beside this file), and neither outlives the
other.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import select
import shutil
import signal
import socket
import struct
import sys
import threading
import types

import lab_archives
import lab_counted

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
_PR_SET_PDEATHSIG = 1
_MOST_KEPT = 8
_libc = ctypes.CDLL(None)


class Server:
    """Has forks for those who ask, and waits for their ends."""

    def __init__(self):
        self.waiting = select.poll()
        self.handlers = {}  # by descriptor

    def watch(self, descriptor, handler):
        self.handlers[descriptor] = handler
        self.waiting.register(descriptor, select.POLLIN)

    def forget(self, *descriptors):
        for one in descriptors:
            if self.handlers.pop(one, None):
                self.waiting.unregister(one)

    def serve(self):
        """Do what is to be done until nothing can come. One at a time: the next may be changed."""
        while self.handlers:
            self.handlers[self.waiting.poll()[0][0]]()

    def fork(self, connection, work):
        """Give a fork, which does the work, to who is at the other end."""
        asking = peer(connection)
        pid = os.fork()
        if pid == 0:
            run(asking, work)
        fork = os.pidfd_open(pid)

        def abandon():
            self.forget(connection.fileno())
            os.kill(pid, signal.SIGKILL)

        def end():
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(b"%d" % status)
            self.forget(connection.fileno(), fork)
            connection.close()
            os.close(fork)

        self.watch(connection.fileno(), abandon)
        self.watch(fork, end)


class Reception(Server):
    """Answers those who ask until it is killed: itself, or by a process that it keeps for what they
    ask for."""

    def __init__(self, path):
        super().__init__()
        self.listening = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.umask(0o077)
        self.listening.bind(path)
        self.listening.listen(64)
        self.watch(self.listening.fileno(), self.accept)
        self.kept = {}  # by key, the last used last

    def accept(self):
        """Read the program of who asks."""
        connection = self.listening.accept()[0]
        asking = peer(connection)
        try:
            [given] = taken(asking, 0)
            environment = read(f"/proc/{asking}/environ")
        except OSError:  # gone already
            connection.close()
            return
        source = []

        def end():
            self.forget(connection.fileno(), given)
            os.close(given)

        def gone():
            end()
            connection.close()

        def more():
            part = b""
            with contextlib.suppress(OSError):  # not something to read from
                part = os.read(given, 1 << 20)
            source.append(part)
            if not part:
                end()
                self.answer(connection, b"".join(source), environment)

        self.watch(connection.fileno(), gone)
        self.watch(given, more)

    def answer(self, connection, source, environment):
        """Find who runs the program."""
        sent = key = None
        with contextlib.suppress(ValueError):
            sent = lab_archives.Program(source)
            key = sent.key(environment)
        if key is None:
            self.fork(connection, lambda: program(source))
            return
        kept = self.kept.pop(key, None) or Kept(self, sent, environment)
        self.kept[key] = kept
        kept.answer(connection, sent)
        if len(self.kept) > _MOST_KEPT:
            self.kept.pop(next(iter(self.kept))).close()


class Kept:
    """A process that has imported what a module imports, and is forked for each of its runs."""

    def __init__(self, server, sent, environment):
        self.server = server
        self.asked = []  # until it is ready
        self.state = "loading"
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.become(theirs, sent, environment)
            finally:
                os._exit(0)
        theirs.close()
        server.watch(self.control.fileno(), self.heard)

    def answer(self, connection, sent):
        """Have it run the program, or the server itself if that cannot be."""
        if self.state == "loading":
            self.asked.append((connection, sent))
            return
        with open(os.memfd_create("rest"), "wb", buffering=0) as file:
            file.write(sent.rest)
            with contextlib.suppress(OSError):
                socket.send_fds(self.control, [b"run"], [connection.fileno(), file.fileno()])
                connection.close()
                return
        # It is gone. Outside of the handler of an error, or the fork's errors would have a context
        self.server.fork(connection, lambda: program(sent.source))

    def heard(self):
        """It is ready; or gone, since it could not be, or was told to go."""
        try:
            self.state = "ready" if self.control.recv(16) else "gone"
        except ConnectionResetError:
            self.state = "gone"
        asked, self.asked = self.asked, []
        for one in asked:
            self.answer(*one)
        if self.state == "gone":
            self.server.forget(self.control.fileno())
            self.control.close()
            os.waitpid(self.pid, 0)
            shutil.rmtree(lab_archives.folder(self.pid), ignore_errors=True)

    def close(self):
        """Have it end after its forks."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)

    def become(self, control, sent, environment):
        """In that process."""
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        close_but(control.fileno())
        set_environment(environment)
        first = sent.load()
        gc.freeze()
        server = Server()

        def answer():
            _text, files, _flags, _address = socket.recv_fds(control, 16, 2)
            if not files:
                server.forget(control.fileno())
                return
            call = read(f"/proc/self/fd/{files[1]}")
            os.close(files[1])
            server.fork(socket.socket(fileno=files[0]), lambda: program(call, *first))

        server.watch(control.fileno(), answer)
        control.send(b"ready")
        server.serve()


def peer(connection):
    """The process at the other end."""
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def taken(asking, *numbers):
    """Descriptors of another process, as some of this."""
    process = os.pidfd_open(asking)
    found = [_libc.syscall(_PIDFD_GETFD, process, number, 0) for number in numbers]
    os.close(process)
    if -1 in found:
        raise ProcessLookupError
    return found


def close_but(*kept):
    """Close what is open, but for this and what every process has."""
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):  # the folder's own
                os.close(number)


def run(asking, work):
    """In the fork: become a Python that the other process would have been, to its end."""
    status = 1
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        become(asking)
        status = work()
    finally:
        os._exit(status)


def become(asking):
    """Take over what a program is given."""
    for number, given in enumerate(taken(asking, 0, 1, 2)):
        os.dup2(given, number)
    set_environment(read(f"/proc/{asking}/environ"))
    with open(f"/proc/{asking}/status") as file:
        status = dict(line.split(":", 1) for line in file)
    os.umask(int(status["Umask"], 8))
    ignored = int(status["SigIgn"], 16)
    for number in range(1, 32):
        if ignored >> (number - 1) & 1 and number != signal.SIGFPE:  # which Perl ignores itself
            signal.signal(number, signal.SIG_IGN)
    os.chdir(f"/proc/{asking}/cwd")
    os.setsid()
    close_but()


def set_environment(environment):
    os.environ.clear()
    for entry in environment.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if name and equals:
            os.environb[name] = value
    locales = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    if next(filter(None, locales), "C") in ("C", "POSIX") and not os.environ.get("LC_ALL"):
        os.environ["LC_CTYPE"] = "C.UTF-8"  # as Python does (PEP 538)


def program(source, before=None, names=()):
    """What Python does with a program from its input; its exit status.

    ``before``: its first part, compiled. ``names``: what the rest knows besides.
    """
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv, sys.path[0] = [""], ""
    status = 0
    if before or lab_archives.MARK in source:
        lab_counted.add()
    try:
        if before:
            exec(before, vars(main))  # noqa: S102
            vars(main).update(names)
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
    lab_counted.leave()
    for name in _IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # forks look through what is new to them alone
    Reception(_SOCKET).serve()
