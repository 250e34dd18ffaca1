# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that a console has on its hypervisor, and the command that starts it there.

It comes through the command's input, before what it is to do: nothing is left there, and nothing
secret is an argument.

This file is private to the collection.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils import (
    _errors,
    _libvirt,
    _libxml2,
    _lxml,
)
from ansible_collections.fleet.virt.plugins.module_utils._effects.screens import console_agent
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _ssh


def program() -> bytes:
    """The agent with the files that it imports, as its length and so many bytes."""
    lines = ["import sys, types"]
    for module in (_errors, _libxml2, _lxml, _libvirt, console_agent):
        above = module.__name__.split(".")[:-1]
        for depth in range(1, len(above) + 1):
            package = ".".join(above[:depth])
            lines.append(f"sys.modules.setdefault({package!r}, types.ModuleType({package!r}))")
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        lines += [
            f"module = sys.modules[{module.__name__!r}] = types.ModuleType({module.__name__!r})",
            f"module.__package__ = {'.'.join(above)!r}",
            f"exec({source!r}, module.__dict__)",
        ]
    text = "\n".join([*lines, "module.main()"]).encode()
    return b"%d\n%s" % (len(text), text)


def command(reached: _ssh.Reached) -> list[str] | None:
    """What starts it there; None where nothing says how its machine is reached."""
    if reached.local:
        return [sys.executable, "-c", _ssh.FROM_INPUT]
    return None if reached.ssh is None else _ssh.program_command(reached.ssh)
