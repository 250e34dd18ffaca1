# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's programs without the time that Python takes to import them.

Half of what a short run of Ansible costs is importing ansible-core and packing modules, the same
each time. A process that has imported it runs each command in a fork of itself: Ansible's own
``main`` with the arguments, environment and files of that command. It serves one environment, since
ansible-core reads its configuration when it is imported, and one process, which it ends with.
"""

from __future__ import annotations

import array
import collections
import contextlib
import gc
import importlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import typing as t
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAMS = {"ansible": "adhoc", "ansible-playbook": "playbook"}
# Of each command's own: what is read when it is needed, not when ansible-core is imported
_OWN = (
    *("FLEET_VIRT_RECORD", "NO_PROXY", "SSL_CERT_FILE", "XDG_CACHE_HOME", "XDG_DATA_HOME"),
    "no_proxy",
)
# What every command imports, the plugins among them that are asked what they are
_IMPORTS = (
    "ansible.executor.module_common",
    "ansible.executor.playbook_executor",
    "ansible.parsing.yaml.dumper",
    "ansible.playbook.handler_task_include",
    *(
        f"ansible.plugins.{name}"
        for name in (
            *("action.normal", "become.su", "become.sudo", "cache.memory"),
            *(f"callback.{one}" for one in ("default", "junit", "minimal", "oneline", "tree")),
            *("connection.local", "connection.ssh"),
            *(f"inventory.{one}" for one in ("auto", "host_list", "ini", "script", "toml", "yaml")),
            *("shell.cmd", "shell.sh", "strategy.linear", "vars.host_group_vars"),
        )
    ),
    *("ansible.utils.encrypt", "ansible.utils.hashing", "ansible.utils.unsafe_proxy"),
    *("gzip", "multiprocessing.popen_fork", "multiprocessing.synchronize", "urllib.request"),
)


_WORTH_IT = 3  # the command of an environment from which on a server saves more than it costs
_MOST_SERVERS = 6
# Variables that name files of a test's own
_WRITTEN = frozenset({"ANSIBLE_CONFIG", "ANSIBLE_LIBRARY", "ANSIBLE_ROLES_PATH"})


class Preloaded:
    """Runs Ansible's programs in one environment; ends with :meth:`close` or its starter."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = _shared(environment)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server = subprocess.Popen(
            # -P: the folder of this file has an ansible.py of its own
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            env=self.environment,
            # its own: Ansible refuses to share a stream that somebody's ssh has made non-blocking
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def run(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        outputs: tuple[t.IO[bytes], t.IO[bytes]],
        limit: float,
    ) -> int:
        """Run a command, its output into files; its exit status.

        :raises subprocess.TimeoutExpired: it took longer than ``limit`` seconds, and was killed.
        """
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with mine, theirs, open(os.devnull, "rb") as nothing:
            own = {name: environment[name] for name in _OWN if name in environment}
            order = json.dumps({"argv": list(argv), "environment": own}).encode()
            files = [theirs.fileno(), nothing.fileno(), *(one.fileno() for one in outputs)]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
            self._socket.sendmsg([order], rights)
            theirs.close()
            pid = int(mine.recv(64))
            mine.settimeout(limit)
            try:
                return int(mine.recv(64))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(argv), limit) from None

    def close(self) -> None:
        """End the process; commands that go on are let be."""
        self._socket.close()
        self._server.wait(timeout=30)


class Servers:
    """A :class:`Preloaded` for each environment in which several commands are run, a few at once.

    Not where a command could find other files than the one before: with a configuration, modules or
    a copy of the collection that a test writes.
    """

    def __init__(self) -> None:
        self._counts: collections.Counter[tuple[tuple[str, str], ...]] = collections.Counter()
        self._servers: dict[tuple[tuple[str, str], ...], Preloaded] = {}
        self._lock = threading.Lock()  # tests run commands beside each other

    def serving(self, program: str, environment: Mapping[str, str]) -> Preloaded | None:
        """The one to run ``program`` in ``environment``; None: it runs by itself."""
        own = os.environ.get("ANSIBLE_COLLECTIONS_PATH")
        if program not in PROGRAMS or not _WRITTEN.isdisjoint(environment):
            return None
        if environment.get("ANSIBLE_COLLECTIONS_PATH") != own:
            return None
        shared = _shared(environment)
        key = tuple(sorted(shared.items()))
        with self._lock:
            self._counts[key] += 1
            if self._counts[key] < _WORTH_IT:
                return None
            server = self._servers.pop(key, None) or Preloaded(shared)
            self._servers[key] = server  # the last used is the last to go
            while len(self._servers) > _MOST_SERVERS:
                self._servers.pop(next(iter(self._servers))).close()
            return server

    def close(self) -> None:
        """End all of them."""
        while self._servers:
            self._servers.popitem()[1].close()


def _shared(environment: Mapping[str, str]) -> dict[str, str]:
    # pytest names the running test there
    other = (*_OWN, "PYTEST_CURRENT_TEST")
    return {name: value for name, value in environment.items() if name not in other}


def _serve(orders: socket.socket) -> None:
    """Fork for each order until nobody can give any more."""
    for name in (*_IMPORTS, *(f"ansible.cli.{one}" for one in PROGRAMS.values())):
        __import__(name)
    _know_builtin()
    _know_plugins()
    _poll_less()
    gc.collect()
    gc.freeze()  # forks look through what is new to them alone
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    while True:
        data, rights, _flags, _address = orders.recvmsg(1 << 20, socket.CMSG_SPACE(4 * 4))
        if not data:
            return
        files = array.array("i")
        for _level, _type, content in rights:
            files.frombytes(content[: len(content) - len(content) % files.itemsize])
        if os.fork() == 0:
            orders.close()
            _answer(json.loads(data), list(files))
        for file in files:
            os.close(file)


def _know_builtin() -> None:
    """Read once where ansible-core has its own plugins, which is a third of a short command."""
    import ansible
    from ansible.utils.collection_loader import _collection_finder as finder

    read = finder._meta_yml_to_dict
    path = os.path.join(os.path.dirname(ansible.__file__), "config", "ansible_builtin_runtime.yml")
    with open(path, "rb") as file:
        known = file.read()
    content = read(known, ("ansible.builtin", "runtime.yml"))
    finder._meta_yml_to_dict = lambda data, name: content if data == known else read(data, name)


def _know_plugins() -> None:
    """Import the collection's plugins, and read which options Ansible's own of some kinds have.

    A playbook reads the latter of all plugins of those kinds, which is half of what it does. The
    finder of collections is taken away again: each command has its own.
    """
    from ansible.plugins import loader
    from ansible.utils.collection_loader import _collection_finder as finder

    loader.init_plugin_loader()
    plugins = Path(__file__).parents[3] / "plugins"
    for kind in ("action", "callback", "inventory", "lookup"):
        for path in sorted(plugins.glob(f"{kind}/[!_]*.py")):
            importlib.import_module(f"ansible_collections.fleet.virt.plugins.{kind}.{path.stem}")
    for own in (loader.become_loader, loader.connection_loader, loader.shell_loader):
        list(own.all(class_only=True))
    finder._AnsibleCollectionFinder._remove()


def _poll_less() -> None:
    """Have a command look 200 times a second for what its hosts answered, instead of 1000 times.

    Looking takes a tenth of a processor, for as long as a guest boots.
    """
    from ansible import constants

    constants.set_constant("DEFAULT_INTERNAL_POLL_INTERVAL", 0.005)


def _answer(order: Mapping[str, t.Any], files: list[int]) -> t.NoReturn:
    """Fork once more: one runs the command, the other tells how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answers = socket.socket(fileno=files[0])
    pid = os.fork()
    if pid == 0:
        answers.close()
        os._exit(_command(order, files[1:]))
    for file in files[1:]:
        os.close(file)
    with contextlib.suppress(BrokenPipeError):  # its starter waits for it no more
        answers.send(str(pid).encode())
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        answers.send(str(status).encode())
    os._exit(0)


def _command(order: Mapping[str, t.Any], files: list[int]) -> int:
    """What the program's own start does, from its arguments on; its exit status."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.update(order["environment"])
    sys.argv = list(order["argv"])
    random.seed()  # or all would choose the same names
    program = os.path.basename(sys.argv[0])
    main = sys.modules[f"ansible.cli.{PROGRAMS[program]}"].main
    status: t.Any = 1
    try:
        status = main()
    except SystemExit as ending:
        status = ending.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return status if isinstance(status, int) else int(status is not None)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
