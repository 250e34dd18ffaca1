# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Becoming root on a hypervisor where sudo asks for a password (``ansible_become_password``).

The password is sent through the input of the command, before what the command itself reads. Here
it is in memory only (memfd_create(2)), which the program that starts ssh reads; it is no argument,
in no environment and in no file, on neither machine.
"""

from __future__ import annotations

import os
import shlex
import sys
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError

# Variables of Ansible's sudo plugin with the password; the last one that is set counts, as there
PASSWORDS = ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass")
# The line after which the command's own input begins
_BEGIN = "fleet-virt-input"
# sudo reads the password once more only if it does not remember it (timestamp_timeout, NOPASSWD):
# what it leaves is skipped. A wrong password is refused before that, and tried once only.
_THERE = """\
IFS= read -r password
printf '%s\\n' "$password" | sudo -S -p '' -v || exit 1
unset password
exec sudo -S -p '' sh -c {skipping}
"""
_SKIPPING = """\
while IFS= read -r line; do if [ "$line" = {begin} ]; then break; fi; done
{command}
"""
# Starts a program whose input is a file's content and then its own input
_HERE = """\
import os, select, signal, subprocess, sys, threading
with open(sys.argv[1], "rb") as file:
    first = file.read()
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
def copy():
    try:
        piece = first
        while piece:
            child.stdin.write(piece)
            child.stdin.flush()
            select.select([0], [], [])  # libvirt's socket does not block
            piece = os.read(0, 65536)
        child.stdin.close()
    except OSError:
        child.terminate()
threading.Thread(target=copy, daemon=True).start()
status = child.wait()
os._exit(status if status >= 0 else 128 - status)
"""
# What sudo prints when it got no password, or a wrong one
_REFUSALS = ("a password is required", "no password was provided", "incorrect password attempt")

_kept: dict[tuple[int, str], int] = {}  # the file in memory by process and password


def password_of(variables: t.Mapping[str, object]) -> str | None:
    """The password for sudo that the variables of a host have."""
    passwords = [variables[name] for name in PASSWORDS if variables.get(name) not in (None, "")]
    return str(passwords[-1]) if passwords else None


def there(command: str) -> str:
    """A shell command for the hypervisor that runs the shell command ``command`` as root, once it
    has read what :func:`here` sends."""
    skipping = _SKIPPING.format(begin=_BEGIN, command=command)
    return f"sh -c {shlex.quote(_THERE.format(skipping=shlex.quote(skipping)))}"


def here(command: t.Sequence[str], password: str) -> list[str]:
    """The command that starts ``command``, whose input begins with the password.

    It can be started as long as this process lives. Raises FleetVirtError if that is impossible.
    """
    return [sys.executable, "-I", "-c", _HERE, _in_memory(password), *command]


def remedy(reason: str, name: str) -> str:
    """What to do if ``reason``, why the hypervisor ``name`` cannot be read, is sudo's password;
    else nothing."""
    if not any(refusal in reason for refusal in _REFUSALS):
        return ""
    return (
        f"; sudo on {name} asks for a password: set the variable ansible_become_password of {name}"
        " to it (with ansible-vault; what --ask-become-pass reads does not reach the inventory), or"
        " let its user run sudo without one"
    )


def _in_memory(password: str) -> str:
    """The path of a file in memory with the lines that :func:`there` reads."""
    if "\n" in password or "\0" in password:
        raise FleetVirtError("the password for sudo has a line break, which sudo cannot read")
    key = (os.getpid(), password)
    if key not in _kept:
        try:
            descriptor = os.memfd_create("fleet-virt")
        except (AttributeError, OSError):
            raise FleetVirtError(
                "this controller has no memfd_create, by which the password for sudo is handed"
                " over; let the user run sudo on the hypervisor without a password"
            ) from None
        lines = f"{password}\n{password}\n{_BEGIN}\n"
        os.write(descriptor, lines.encode("utf-8", "surrogateescape"))
        _kept[key] = descriptor
    return f"/proc/{os.getpid()}/fd/{_kept[key]}"
