# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that serves a console on its hypervisor."""

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils import (
    _errors,
    _libvirt,
    _libxml2,
    _lxml,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import (
    effects_agent as console_agent,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _sent


def program() -> bytes:
    """The agent's program, with the files that it imports."""
    modules = (_errors, _libxml2, _lxml, _libvirt, console_agent)
    return _sent.program(modules, "effects_agent.main()")
