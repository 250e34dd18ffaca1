# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others read about a laboratory: Ansible's inventory and ssh's known hosts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from .host import Host

__all__ = ["write_inventory", "write_known_hosts"]


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def write_known_hosts(path: Path, keys: Mapping[str, tuple[Host, str]]) -> None:
    """The real host keys, known before the first connection."""
    _replace(
        path,
        "".join(f"{host.address},{name} {key}\n" for name, (host, key) in sorted(keys.items())),
    )


def write_inventory(
    folder: Path, hosts: Iterable[Host], key: Path, known_hosts: Path, control: Path
) -> None:
    """``10-hypervisors.yml``: ready hosts in group hypervisors, the others in group bare.

    The control socket lies in the laboratory's own folder: a connection kept open to a laboratory
    that is gone must not be found by the next one with the same addresses.
    """
    folder.mkdir(exist_ok=True)
    arguments = (
        f"-o UserKnownHostsFile={known_hosts} -o GlobalKnownHostsFile=/dev/null "
        f"-o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o ControlPath={control}/%C"
    )
    lines = ["# Written by the laboratory; gone with it.", "---"]
    hosts = list(hosts)
    for group, bare in (("hypervisors", False), ("bare", True)):
        members = [host for host in hosts if host.bare is bare]
        lines.append(f"{group}:")
        lines.append("  hosts:" if members else "  hosts: {}")
        for host in members:
            lines.append(f"    {host.name}:")
            for name, value in (
                ("ansible_host", host.address),
                ("ansible_user", host.user),
                ("ansible_ssh_private_key_file", str(key)),
                ("ansible_ssh_common_args", arguments),
                ("ansible_python_interpreter", host.python),
            ):
                lines.append(f"      {name}: {json.dumps(value)}")
    _replace(folder / "10-hypervisors.yml", "\n".join(lines) + "\n")
