# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SSH options for a guest: only with its own host key, over connections that no other host shares,
and through its hypervisor where necessary.
"""

from __future__ import annotations

import os
import shlex
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.public_keys import (
    public_key_problem,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _guests
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _control_path, _ssh

# ssh requires the full path of a program that others cannot write to
_ECHO = ("/usr/bin/echo", "/bin/echo")


def host_key(written: object) -> str | None:
    """Type and key of a public key in metadata; None if it is not one.

    Any user who may define domains can write there: the result is only two words of base64
    characters.
    """
    if public_key_problem(written) is not None:
        return None
    return " ".join(str(written).split(" ")[:2])


def strict_options(uuid: str, key: str) -> list[str]:
    """Options with which ssh accepts only this host key, whatever known_hosts files say.

    The guest is looked up by its UUID, so known keys of its address do not count.
    """
    echo = next((path for path in _ECHO if os.path.exists(path)), _ECHO[0])
    options = {
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": "/dev/null",
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": uuid,
        "KnownHostsCommand": f"{echo} {uuid} {key}",
    }
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


def without_jump(words: t.Iterable[str]) -> list[str]:
    """Words without ``-J HOST``, which ssh refuses beside a ProxyCommand."""
    kept = []
    rest = iter(words)
    for word in rest:
        if word == "-J":
            next(rest, None)
        elif not word.startswith("-J"):
            kept.append(word)
    return kept


def variables(
    hypervisor: str,
    guest: _guests.Guest,
    address: str,
    through: _ssh.Ssh | None,
    inherited: _ssh.Arguments,
    *,
    strict: bool = True,
) -> dict[str, object]:
    """Ansible's connection variables for the guest at ``address``, ``through`` another machine.

    ``inherited`` is what Ansible would use without us. Our options come first, because ssh uses the
    first value of an option: a general StrictHostKeyChecking=no does not override a known key.
    """
    key = host_key(guest["metadata"]["host_key"])
    # another key at the same address is another guest, with a connection of its own
    name = _control_path.mark(hypervisor, guest["name"], guest["uuid"], address, key)
    options, values = _control_path.separate_connection(
        name, inherited.all, inherited.control_path, inherited.control_path_dir
    )
    if strict and key is not None:
        values["ansible_host_key_checking"] = True
        options += strict_options(str(guest["uuid"]), key)
    if through is not None:
        options += ["-o", f"ProxyCommand={_ssh.proxy_command(through)}"]
    for variable, arguments in inherited.by_variable.items():
        words = _control_path.without_socket(shlex.split(arguments))[0]
        if through is not None:
            words = without_jump(words)
        kept = arguments if words == shlex.split(arguments) else shlex.join(words)
        if variable == "ansible_ssh_args":
            kept = f"{shlex.join(options)} {kept}".strip()
        if kept != arguments:
            values[variable] = kept
    return values
