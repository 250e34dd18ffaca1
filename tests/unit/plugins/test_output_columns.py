# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How wide the screen is that tables are for."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

_MODULE = "ansible_collections.fleet.virt.plugins.plugin_utils.base._output"
_LOAD = f"""
import importlib, os, sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader()
columns = importlib.import_module("{_MODULE}").columns
"""
_ASK = f"{_LOAD}sys.stderr.write(str(columns()))"
# As Ansible's workers do: a child that leaves the terminal
_DETACHED = f"""{_LOAD}
child = os.fork()
if not child:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    sys.stderr.write(str(columns()))
    sys.stderr.flush()
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize("program", [_ASK, _DETACHED])
@pytest.mark.parametrize("wide", [60, 132])
def test_columns_of_terminal_are_read_in_detached_process_too(program: str, wide: int) -> None:
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, wide, 0, 0))
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stderr == str(wide)


@pytest.mark.parametrize("program", [_ASK, _DETACHED])
@pytest.mark.parametrize("target", [subprocess.PIPE, subprocess.DEVNULL])
def test_columns_without_terminal_are_none(program: str, target: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=target,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stderr == "None"
