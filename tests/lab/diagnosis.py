# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's libvirt and its guests said last, for a failed test."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from . import processes
from .host import Host

__all__ = ["console", "logs"]

Run = Callable[[str], "subprocess.CompletedProcess[str]"]


def _told(run: Run, command: str) -> str:
    try:
        done = run(command)
    except subprocess.TimeoutExpired as error:
        return f"{error}\n"
    return done.stdout + done.stderr


def logs(host: Host, run: Run, lines: int) -> str:
    """The journal of a host's libvirt daemons and the host's own console."""
    command = f"journalctl --no-pager -n {lines} -u libvirtd -u virtlogd -u virtqemud"
    return (
        f"--- {host.name}: libvirt\n{_told(run, command)}"
        f"--- {host.name}: console of the host\n{processes.tail(host.console_log, lines)}\n"
    )


def console(host: Host, run: Run, domain: str, lines: int) -> str:
    """A guest's console, where its definition has a file for it, and its qemu's log."""
    definition = _told(run, f"virsh -c qemu:///system dumpxml '{domain}'")
    devices = re.findall(r"<(?:serial|console)\b.*?</(?:serial|console)>", definition, re.DOTALL)
    files = re.findall(r"<(?:log file|source path)='(/[^']+)'", "".join(devices))
    paths = [f"/var/log/libvirt/qemu/{domain}.log", *dict.fromkeys(files)]
    tail = f"tail -n {lines} '{{}}'"
    return "".join(
        f"--- {host.name}: {path}\n{_told(run, tail.format(path))}"
        for path in paths
        if not path.startswith("/dev/")
    )
