# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of preloaded.py, a program of its own: it forks for each command."""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import random
import signal
import socket
import sys
import typing as t
from collections.abc import Mapping
from pathlib import Path

PROGRAMS = {"ansible": "adhoc", "ansible-playbook": "playbook"}
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


def _serve(orders: socket.socket) -> t.NoReturn:
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
            # Without what ansible-core does when it ends: it would remove the folder in which
            # commands that go on have packed modules
            os._exit(0)
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
    """Fork once more: one runs the command, the other tells how it ended.

    What has ended goes when its starter knows, or is gone: until then its number is no other's.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answers = socket.socket(fileno=files[0])
    pid = os.fork()
    if pid == 0:
        os._exit(_command(order, answers, files[1:]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's, which is the starter's
    for file in files[1:]:
        os.close(file)
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert end is not None
    status = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
    with contextlib.suppress(ConnectionError):  # its starter waits for it no more
        answers.send(str(status).encode())
        answers.recv(1)
    os.waitpid(pid, 0)
    os._exit(0)


def _command(order: Mapping[str, t.Any], answers: socket.socket, files: list[int]) -> int:
    """What the program's own start does, from its arguments on; its exit status."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if order["session"]:
        os.setsid()
    with answers, contextlib.suppress(ConnectionError):
        answers.send(str(os.getpid()).encode())
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
