# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How ssh reaches a guest: only with its own host key, over connections that are kept for it alone,
and through its hypervisor where it must.

This file is private to the collection.
"""

from __future__ import annotations

import os
import shlex
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._pure.seed.public_keys import (
    public_key_problem,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _guests
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _control_path, _ssh

# ssh wants the full path of a program that others cannot write to
_ECHO = ("/usr/bin/echo", "/bin/echo")


def host_key(written: object) -> str | None:
    """Type and key of a public key as it is written in metadata; None if it is none.

    Whoever may define domains can write there: what comes out are two words of base64's characters.
    """
    if public_key_problem(written) is not None:
        return None
    return " ".join(str(written).split(" ")[:2])


def strict_options(uuid: str, key: str) -> list[str]:
    """Options with which ssh takes this host key and no other, whatever files of known hosts say.

    The guest goes by its UUID, so nothing that is known of its address counts.
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

    ``inherited`` is what Ansible would use without us. Ours goes first, because ssh takes the first
    value of an option: a StrictHostKeyChecking=no for everything else does not undo a key that is
    known.
    """
    key = host_key(guest["metadata"]["host_key"])
    # another key at the same place is another guest, for which no connection is kept
    name = _control_path.mark(hypervisor, guest["name"], guest["uuid"], address, key)
    options, values = _control_path.apart(
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
