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

from ansible import context
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader

# virt-ssh-helper comes with libvirt 6.8 and newer; elsewhere netcat does, if it knows sockets
_REMOTE = """\
if command -v virt-ssh-helper >/dev/null 2>&1; then exec {become}virt-ssh-helper {uri}; fi
for socket in /run/libvirt/virtqemud-sock /run/libvirt/libvirt-sock; do
  if {become}test -S "$socket"; then exec {become}nc -U "$socket"; fi
done
echo "no virt-ssh-helper and no libvirt socket there" >&2; exit 1
"""


# Options of Ansible's ssh connection plugin that decide how a host is reached
OPTIONS = (
    "host",
    "host_key_checking",
    "port",
    "private_key_file",
    "remote_user",
    "ssh_common_args",
    "ssh_executable",
    "ssh_extra_args",
)


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
    executable: str = "ssh"


def ansible_options(variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """OPTIONS as Ansible has them for a host: its variables, the command line, configuration."""
    plugin: t.Any = connection_loader.get("ssh", PlayContext())
    plugin.set_options(var_options=dict(variables))
    options = {}
    for name in OPTIONS:
        options[name], origin = plugin.get_option_and_origin(name, hostvars=dict(variables))
        if not str(origin).startswith("var:") and context.CLIARGS.get(name) is not None:
            options[name] = context.CLIARGS[name]
    return options


def from_options(
    options: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any], timeout: float
) -> Ssh:
    """The Ssh for a host with these OPTIONS and (templated) variables.

    Root is become where ``virt_become`` or ``ansible_become`` say so, and where neither says
    anything and the user is not root.
    """
    arguments: list[str] = []
    for key in ("ssh_common_args", "ssh_extra_args"):
        arguments += shlex.split(str(options.get(key) or ""))
    if not _true(options.get("host_key_checking", True)):
        arguments += ["-o", "StrictHostKeyChecking=no"]
    user, port, key_file = (options.get(key) for key in ("remote_user", "port", "private_key_file"))
    become = variables.get("virt_become", variables.get("ansible_become"))
    return Ssh(
        host=str(options["host"]),
        user=None if user is None else str(user),
        port=None if port is None else int(port),
        key_file=str(Path(str(key_file)).expanduser()) if key_file else None,
        arguments=tuple(arguments),
        become=user != "root" if become is None else _true(become),
        timeout=max(1, int(timeout)),
        executable=str(options.get("ssh_executable") or "ssh"),
    )


def _true(value: t.Any) -> bool:
    return str(value).lower() in ("true", "yes", "1", "on", "y", "t")


def script(ssh: Ssh, uri: str) -> str:
    """The shell script that connects its standard input and output with libvirt there."""
    command = [ssh.executable, "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={ssh.timeout}"]
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
    options = ansible_options({**variables, "inventory_hostname": name})
    return write_script(from_options(options, variables, timeout), uri, folder, number)


def write_script(ssh: Ssh, uri: str, folder: Path, number: int) -> str:
    """Write the script into ``folder``; the libvirt URI that talks through it."""
    path = folder / f"hypervisor{number}"
    path.touch(mode=0o700)
    path.write_text(script(ssh, uri), encoding="utf-8")
    scheme, _dummy, rest = uri.partition("://")
    return f"{scheme}+ext://{rest}?command={quote(str(path), safe='/')}"
