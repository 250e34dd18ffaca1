# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How ssh reaches a guest: only with its own host key, and through its hypervisor where it must.

This file is private to the collection.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._model.seed import public_key_problem
from ansible_collections.fleet.virt.plugins.plugin_utils import _ssh

# ssh wants the full path of a program that others cannot write to
_ECHO = ("/usr/bin/echo", "/bin/echo")


def host_key(written: t.Any) -> str | None:
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


def without_jump(arguments: str) -> str:
    """Arguments without ``-J HOST``, which ssh refuses beside a ProxyCommand."""
    kept = []
    words = iter(shlex.split(arguments))
    for word in words:
        if word == "-J":
            next(words, None)
        elif not word.startswith("-J"):
            kept.append(word)
    return shlex.join(kept)


def variables(
    guest: t.Mapping[str, t.Any],
    address: str,
    through: _ssh.Ssh | None,
    inherited: _ssh.Arguments,
    *,
    strict: bool = True,
) -> dict[str, t.Any]:
    """Ansible's connection variables for the guest at ``address``, ``through`` another machine.

    ``inherited`` is what Ansible would use without us. Ours goes first, because ssh takes the first
    value of an option: a StrictHostKeyChecking=no for everything else does not undo a key that is
    known.
    """
    values: dict[str, t.Any] = {}
    options: list[str] = []
    first = inherited.first
    key = host_key(guest["metadata"]["host_key"]) if strict else None
    if key is not None:
        values["ansible_host_key_checking"] = True
        options += strict_options(str(guest["uuid"]), key)
    if through is not None:
        options += ["-o", f"ProxyCommand={_ssh.proxy_command(through)}"]
        first, common = map(without_jump, (first, inherited.common))
        if common != shlex.join(shlex.split(inherited.common)):
            values["ansible_ssh_common_args"] = common
        # Guests of two hypervisors may have one address: a connection that is kept is one guest's
        if "controlpath" in f"{first} {common}".lower():
            options += ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
        else:
            mark = hashlib.sha256(f"{guest['uuid']} {address}".encode()).hexdigest()[:12]
            values["ansible_control_path"] = f"%(directory)s/{mark}-%%r-%%p"
    if options:
        values["ansible_ssh_args"] = f"{shlex.join(options)} {first}".strip()
    return values
