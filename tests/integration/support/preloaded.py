# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's programs without the time that Python takes to import them.

Half of what a short run of Ansible costs is importing ansible-core and packing modules, the same
each time. A process that has imported it runs each command in a fork of itself: Ansible's own
``main`` with the arguments, environment and files of that command. It serves one environment, since
ansible-core reads its configuration when it is imported, and one process, which it ends with;
commands that go on do not.
"""

from __future__ import annotations

import array
import collections
import json
import os
import socket
import subprocess
import sys
import threading
import typing as t
from collections.abc import Mapping, Sequence
from pathlib import Path

from .killing import kill_tree
from .preloaded_server import PROGRAMS
from .process import Forked

_SERVER = Path(__file__).with_name("preloaded_server.py")
# Of each command's own: what is read when it is needed, not when ansible-core is imported
_OWN = (
    *("FLEET_VIRT_RECORD", "NO_PROXY", "SSL_CERT_FILE", "XDG_CACHE_HOME", "XDG_DATA_HOME"),
    "no_proxy",
)
_WORTH_IT = 3  # the command of an environment from which on a server saves more than it costs
_MOST_SERVERS = 6
# Variables that name files of a test's own
_WRITTEN = frozenset({"ANSIBLE_CONFIG", "ANSIBLE_ROLES_PATH"})


class Preloaded:
    """Runs Ansible's programs in one environment; ends with :meth:`close` or its starter.

    ``folder``: where they run, if not where its starter does.
    """

    def __init__(self, environment: Mapping[str, str], folder: Path | None = None) -> None:
        self.environment = _shared(environment)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server = subprocess.Popen(
            # -P: the folder of that file has an ansible.py of its own
            [sys.executable, "-P", str(_SERVER), str(theirs.fileno())],
            env=self.environment,
            cwd=folder,
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
        files = (outputs[0].fileno(), outputs[1].fileno())
        with self._begin(argv, environment, files, session=False) as process:
            try:
                return process.wait(limit)
            except BaseException:
                kill_tree(process.pid)  # its workers would go on
                raise

    def begin(self, argv: Sequence[str], environment: Mapping[str, str], heard: bool) -> Forked:
        """Begin a command, in a session of its own; ``heard``: what it says can be read."""
        if not heard:
            with open(os.devnull, "wb") as nothing:
                files = (nothing.fileno(), nothing.fileno())
                return self._begin(argv, environment, files, session=True)
        reading, writing = os.pipe()
        stdout = os.fdopen(reading, encoding="utf-8")
        try:
            process = self._begin(argv, environment, (writing, writing), session=True)
        finally:
            os.close(writing)
        process.stdout = stdout
        return process

    def _begin(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        outputs: tuple[int, int],
        *,
        session: bool,
    ) -> Forked:
        sys.audit("fleet_virt.ansible", list(argv))
        own = {name: environment[name] for name in _OWN if name in environment}
        order = {"argv": list(argv), "environment": own, "session": session}
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, open(os.devnull, "rb") as nothing:
            files = array.array("i", (theirs.fileno(), nothing.fileno(), *outputs))
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)]
            self._socket.sendmsg([json.dumps(order).encode()], rights)
        return Forked(argv, mine)

    def close(self) -> None:
        """End the process; commands that go on are let be."""
        self._socket.close()
        self._server.wait(timeout=30)


class Servers:
    """A :class:`Preloaded` for each environment in which several commands are run, a few at once.

    Not where a command could find other files than the one before: with a configuration or a copy
    of the collection that a test writes. A module that a test writes needs a name that no other
    has: it is packed once for all commands of an environment.
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
