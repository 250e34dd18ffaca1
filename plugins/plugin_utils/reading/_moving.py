# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress of moves while the module that does them runs.

Ansible gets no output of a module before its end. So the source hypervisor is queried over a
separate SSH connection, as for a console. Without a connection or output nothing is shown, and
nothing waits for it: only the module moves VMs.
"""

from __future__ import annotations

import contextlib
import select
import threading
import time
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils import _errors, _units
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_files as files
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks as locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import results, tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mappings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_progress as progress,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    progress as migration_progress,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.progress import News
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values, plain
from ansible_collections.fleet.virt.plugins.plugin_utils.console._console_remote import RemoteSide
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _sent, _ssh

_SECONDS = 10.0  # for connecting
_POLL = 0.2
_PATIENCE = 1.0  # seconds that the end of the task may wait for a connection being opened
_MODULES = (_errors, _units, results, tables, files, locks, migration_progress, progress)


class Moving:
    """Context manager that shows the progress of moves of ``names`` from ``host``."""

    def __init__(self, host: str, names: t.Collection[str], task_vars: Values) -> None:
        self._news = News(names)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        # only one thread may template variables
        with contextlib.suppress(Exception):
            command = _sent.command(_ssh.login(host, _peers.of_host(host, task_vars), _SECONDS))
            if command is not None and names:
                self._thread = threading.Thread(target=self._watch, args=[command], daemon=True)

    def __enter__(self) -> Moving:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    def ended(self, answer: t.Mapping[str, object]) -> None:
        """Show the last progress that was not shown yet."""
        for vm in as_mappings(plain(answer).get("vms")):
            _say(self._news.late(vm.get("name"), as_list(vm.get("progress"))))

    def _watch(self, command: t.Sequence[str]) -> None:
        # shorter moves end before there is any progress to show
        if self._over.wait(migration_progress.SECONDS):
            return
        with contextlib.suppress(FleetVirtError, OSError, ValueError):
            program = _sent.program(_MODULES, "effects_progress.main()")
            remote = RemoteSide(command, program, {"names": sorted(self._news.told)})
            try:
                self._follow(remote)
            finally:
                remote.close()

    def _follow(self, remote: RemoteSide) -> None:
        waiting = select.poll()
        waiting.register(remote.output, select.POLLIN)
        while not self._over.is_set():
            if waiting.poll(_POLL * 1000):
                data = remote.read()
                if not data:
                    return
                _say(self._news.take(data, time.monotonic()))


def _say(lines: t.Iterable[str]) -> None:
    for line in lines:
        _output.say(line)
