# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the controller reaches libvirt on a hypervisor, made from Ansible's own variables.

Over SSH libvirt is given a program to talk through (its ``ext`` transport): a small script that
runs ``ssh`` with exactly the options Ansible would use (port, key, jump host, known hosts), and on
the other side becomes root if Ansible would. So whoever can run a module there can read there.

This file is private to the collection.
"""

from __future__ import annotations

import shlex
import typing as t
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

# virt-ssh-helper comes with libvirt 6.8 and newer; elsewhere netcat does, if it knows sockets
_REMOTE = """\
if command -v virt-ssh-helper >/dev/null 2>&1; then exec {become}virt-ssh-helper {uri}; fi
for socket in /run/libvirt/virtqemud-sock /run/libvirt/libvirt-sock; do
  if {become}test -S "$socket"; then exec {become}nc -U "$socket"; fi
done
echo "no virt-ssh-helper and no libvirt socket there" >&2; exit 1
"""


@dataclass(frozen=True)
class Ssh:
    """What Ansible's ssh connection would use; ``arguments`` are passed to ssh as they are."""

    host: str
    user: str | None = None
    port: int | None = None
    key_file: str | None = None
    arguments: tuple[str, ...] = ()
    become: bool = False
    timeout: int = 10


def from_variables(name: str, variables: t.Mapping[str, t.Any], timeout: float) -> Ssh:
    """The Ssh for inventory host ``name`` with its ``variables`` (already templated)."""

    def first(*keys: str) -> t.Any:
        return next((variables[key] for key in keys if variables.get(key) is not None), None)

    arguments: list[str] = []
    for key in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        arguments += shlex.split(str(variables.get(key) or ""))
    checking = first("ansible_ssh_host_key_checking", "ansible_host_key_checking")
    if checking is not None and str(checking).lower() in ("false", "no", "0", "off"):
        arguments += ["-o", "StrictHostKeyChecking=no"]
    user = first("ansible_user", "ansible_ssh_user")
    port = first("ansible_port", "ansible_ssh_port")
    key_file = first("ansible_ssh_private_key_file", "ansible_private_key_file")
    become = first("virt_become", "ansible_become")
    return Ssh(
        host=str(first("ansible_host", "ansible_ssh_host") or name),
        user=None if user is None else str(user),
        port=None if port is None else int(port),
        key_file=None if key_file is None else str(Path(str(key_file)).expanduser()),
        arguments=tuple(arguments),
        become=str(user) != "root"
        if become is None
        else str(become).lower() in ("true", "yes", "1", "on"),
        timeout=max(1, int(timeout)),
    )


def script(ssh: Ssh, uri: str) -> str:
    """The shell script that connects its standard input and output with libvirt there."""
    command = ["ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={ssh.timeout}"]
    command += ["-o", f"ServerAliveInterval={ssh.timeout}", "-o", "ServerAliveCountMax=1"]
    # a control master outlives this process and hangs on a host that is cut off
    command += ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
    command += ssh.arguments
    if ssh.key_file:
        command += ["-i", ssh.key_file]
    if ssh.user:
        command += ["-l", ssh.user]
    if ssh.port:
        command += ["-p", str(ssh.port)]
    remote = _REMOTE.format(become="sudo -n " if ssh.become else "", uri=shlex.quote(uri))
    command += ["--", ssh.host, f"sh -c {shlex.quote(remote)}"]
    return f"#!/bin/sh\nexec {shlex.join(command)}\n"


def uri_for(
    name: str,
    variables: t.Mapping[str, t.Any],
    uri: str,
    timeout: float,
    folder: Path,
    number: int,
) -> str:
    """The URI that reaches ``uri`` of inventory host ``name`` from the controller.

    ``virt_inventory_uri`` of the host goes first; a local connection needs nothing; for SSH a
    script is written into ``folder``, told apart by ``number``.
    """
    own = variables.get("virt_inventory_uri")
    if own is not None:
        return str(own)
    if variables.get("ansible_connection") in ("local", "ansible.builtin.local"):
        return uri
    return write_script(from_variables(name, variables, timeout), uri, folder, number)


def write_script(ssh: Ssh, uri: str, folder: Path, number: int) -> str:
    """Write the script into ``folder``; the libvirt URI that talks through it."""
    path = folder / f"hypervisor{number}"
    path.touch(mode=0o700)
    path.write_text(script(ssh, uri), encoding="utf-8")
    scheme, _dummy, rest = uri.partition("://")
    return f"{scheme}+ext://{rest}?command={quote(str(path), safe='/')}"
