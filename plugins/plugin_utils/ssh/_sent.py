# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs that are sent to a hypervisor's Python, made of the collection's own files.

They are sent through the input of the command that starts them: nothing is left there, and no
argument contains a secret.
"""

from __future__ import annotations

import sys
import types
import typing as t
from pathlib import Path

from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _ssh


def sources(modules: t.Iterable[types.ModuleType]) -> list[str]:
    """Lines that create the modules, each under its last name; imports must come first."""
    # packages in memory, so that the files can import each other
    lines = ["import sys, types"]
    for module in modules:
        *above, name = module.__name__.split(".")
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        for depth in range(1, len(above) + 1):
            package = ".".join(above[:depth])
            lines.append(f"sys.modules.setdefault({package!r}, types.ModuleType({package!r}))")
        full = ".".join([*above, name])
        lines += [
            f"{name} = sys.modules[{full!r}] = types.ModuleType({full!r})",
            f"{name}.__package__ = {'.'.join(above)!r}",
            f"exec({source!r}, {name}.__dict__)",
        ]
    return lines


def program(modules: t.Iterable[types.ModuleType], main: str) -> bytes:
    """A program for :data:`_ssh.FROM_INPUT`: its length and its bytes."""
    text = "\n".join([*sources(modules), main]).encode()
    return b"%d\n%s" % (len(text), text)


def command(reached: _ssh.Reached) -> list[str] | None:
    """The command that starts it there; None if no login to the machine is known."""
    if reached.local:
        return [sys.executable, "-c", _ssh.FROM_INPUT]
    return None if reached.ssh is None else _ssh.program_command(reached.ssh)
