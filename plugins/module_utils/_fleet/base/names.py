# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names: of VMs, their volumes and their network interfaces.

A VM's name is a libvirt domain name, part of file names, an Ansible inventory name, and,
unless the seed says otherwise, the guest's host name. The strictest of these rules decides.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable

from ..._errors import PlanRefused, Problem
from .options import show

_HOST_LENGTH = 63  # Linux limits host names to 64, DNS labels to 63
_NAME_LENGTH = 128
_RESERVED = frozenset(("all", "ungrouped", "localhost"))  # Ansible's own
_ENDINGS = {"qcow2": "qcow2", "raw": "raw"}  # AppArmor's helper recognises disks by these endings

# What ansible-playbook -e name=value reads unchanged: it splits at spaces and interprets quotes
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]+")


# Ansible would evaluate it, even in JSON; a name comes from anyone who may define domains
_TEMPLATE = re.compile(r"\{[{%#]")
# The ending of a claim's name on the destination of a move; the VM's own name arrives with the VM
CLAIM = ".migration"
# The ending of a VM's card (cards/card.py), and the name of one that is being written beside it, as
# effects_files.py has it
CARD = ".fleet.xml"
_UNFINISHED = re.compile(r"\..*\.fleet\.xml\.new", re.DOTALL)
# The beginning of the name of a VM that is run from a backup to prove it, and of no other
PROOF = "fleet-virt-proof-"
# The pool of what a hypervisor keeps of others, in which no disk is
NOTES = "fleet-notes"
NAME_PART = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}"
NAME_PART_RULE = "1 to 32 letters, digits, '.', '_' or '-', the first a letter or digit"


def is_card_file(name: str) -> bool:
    """Whether a file of that name is a VM's card, or one that is being written, and so no disk."""
    return name.endswith(CARD) or _UNFINISHED.fullmatch(name) is not None


def is_proof(name: str) -> bool:
    """Whether it is the name of a VM that runs from a backup, to prove it: none of the fleet."""
    return name.startswith(PROOF)


def check_host_name(value: object, path: str) -> list[Problem]:
    """Why ``value`` cannot be a guest's host name (RFC 1123, and Linux's limit)."""
    if not isinstance(value, str) or not value:
        return [Problem(path, f"{show(value)} is not a host name; write text such as web1")]
    return [Problem(path, message) for message in _findings(value, host_name=True)]


def check_vm_name(value: object, path: str, *, host_name: bool = True) -> list[Problem]:
    """Why ``value`` cannot be a VM's name; empty if it can.

    ``host_name`` is False when the guest gets its host name from elsewhere (``seed.hostname``, or
    no seed): then ``_`` is allowed and the length is 128.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # a name of digits as YAML reads it, which the rules below refuse
    if not isinstance(value, str) or not value:
        return [Problem(path, f"{show(value)} is not a name; write text such as web1")]
    return [Problem(path, message) for message in _findings(value, host_name=host_name)]


def require_named(names: Iterable[str]) -> None:
    """Raise PlanRefused for an empty VM name, which comes from a shell variable without a value or
    an extra comma."""
    if not all(name.strip() for name in names):
        raise PlanRefused(
            "a VM name is empty; give every name, for example -e vm_name=web1, remove any extra"
            " comma, and check that the variable the name comes from has a value"
        )


def _findings(value: str, *, host_name: bool) -> list[str]:
    problems: list[str] = []
    shown = show(value)
    allowed = "letters a-z, digits, '-' and '.'" if host_name else "letters a-z, digits, '-_.'"
    bad = sorted(set(re.sub(r"[A-Za-z0-9.-]" if host_name else r"[A-Za-z0-9._-]", "", value)))
    if bad:
        remedy = "rename it, or set seed.hostname" if host_name and bad == ["_"] else "rename it"
        listed = " ".join(show(character) for character in bad[:8])
        problems.append(
            f"{shown} has characters that are not allowed ({listed}); "
            f"a name is made of {allowed}: {remedy}"
        )
    limit = _HOST_LENGTH if host_name else _NAME_LENGTH
    if len(value) > limit:
        remedy = "shorten it, or set seed.hostname" if host_name else "shorten it"
        why = " as the guest's host name" if host_name else ""
        problems.append(
            f"{shown} has {len(value)} characters; at most {limit} are allowed{why}: {remedy}"
        )
    if value[0] in "-._":
        problems.append(
            f"{shown} starts with {value[0]!r}; the first character is a letter or a "
            "digit (a leading '-' is read as an option, a leading '.' hides the file): "
            "rename it"
        )
    labels = value.split(".")
    if ".." in value or value.endswith("."):
        problems.append(
            f"{shown} has an empty part between or after dots; "
            "each part has at least one character: rename it"
        )
    elif (
        host_name
        and any(part[:1] == "-" or part[-1:] == "-" for part in labels)
        and (value[0] != "-")
    ):
        problems.append(
            f"{shown} has a part that starts or ends with '-'; "
            "each part of a host name starts and ends with a letter or digit: rename it"
        )
    if re.fullmatch(r"[0-9.]+", value):
        problems.append(
            f"{shown} has no letter; virsh reads it as an ID, ssh as an address: add a letter"
        )
    if value.lower().endswith(CLAIM):
        problems.append(
            f"{shown} ends in {CLAIM!r}; that ending is reserved for the claim of a VM on the"
            " destination of a move: rename it"
        )
    if is_proof(value.lower()):
        problems.append(
            f"{shown} starts with {PROOF!r}, which is reserved for what proves backups: rename it"
        )
    if value.lower() in _RESERVED:
        problems.append(
            f"{shown} is reserved by Ansible ({', '.join(sorted(_RESERVED))}): choose another"
        )
    return problems


def valid_vm_name(value: str) -> str:
    """A valid name that is close to ``value``: ``Windows-Server-2019``."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", value)
    name = re.sub(r"[-.]*\.[-.]*", ".", name)[:_HOST_LENGTH].strip("-.")
    if (
        name.lower().endswith(CLAIM)
        or name.lower() in _RESERVED
        or is_proof(name.lower())
        or not re.search("[a-z]", name, re.I)
    ):
        name = f"vm-{name.replace('.', '-')}"
    return name.strip("-")[:_HOST_LENGTH]


def volume_name(vm: str, disk: str, volume_format: str) -> str:
    """The name of a VM's own volume: ``web1_system.qcow2``."""
    return f"{vm}_{disk}.{_ENDINGS[volume_format]}"


def seed_volume_name(vm: str) -> str:
    """The name of a VM's seed medium: ``web1_seed.iso``."""
    return f"{vm}_seed.iso"


def mac_address(fleet: str, vm: str, nic: str) -> str:
    """The MAC address of a NIC without a fixed one: the same on every run, before it exists.

    The first byte is 52, as in QEMU's own addresses: unicast and locally administered (bit 1 set,
    bit 0 clear), and not FE, which libvirt reserves for the host side. The other 40 bits are taken
    from a SHA-256 of the three names. QEMU's full prefix 52:54:00 would leave 24 bits, with which
    a collision is more likely than not among 5,000 NICs; with 40 bits that takes 1.2 million.
    """
    digest = hashlib.sha256("\0".join((fleet, vm, nic)).encode("utf-8", "surrogateescape")).digest()
    return ":".join(f"{byte:02x}" for byte in b"\x52" + digest[:5])


def playbook_command(name: str, **variables: str) -> str:
    """``ansible-playbook fleet.virt.rename -e vm_name=web1 -e vm_new_name=web2``.

    The variables are JSON if a value needs that; for a value that is a template there is ``NAME``.
    """
    given = {key: "NAME" if _TEMPLATE.search(value) else value for key, value in variables.items()}
    if all(_PLAIN.fullmatch(value) for value in given.values()):
        words = [f"-e {key}={value}" for key, value in given.items()]
    else:
        words = [f"-e {shlex.quote(json.dumps(given, ensure_ascii=False))}"]
    return " ".join([f"ansible-playbook fleet.virt.{name}", *words])


def command_on(host: str, *words: str) -> str:
    """``ansible hv1 -b -a 'virsh pool-start vms'``; for a word that is a template there is
    ``NAME``: who types the command has Ansible read it."""
    return shlex.join(["ansible", host, "-b", "-a", shlex.join(map(_shown_as_is, words))])


def pipe_on(host: str, *commands: Iterable[str]) -> str:
    """``ansible hv1 -b -m shell -a 'virsh dumpxml web1 | grep uuid'``, likewise."""
    typed = " | ".join(shlex.join(map(_shown_as_is, words)) for words in commands)
    return shlex.join(["ansible", host, "-b", "-m", "shell", "-a", typed])


def module_on(host: str, module: str, **options: str) -> str:
    """``ansible hv1 -b -m fleet.virt.virt_seed -a name=web1``, likewise."""
    given = [f"{key}={shlex.quote(_shown_as_is(value))}" for key, value in options.items()]
    words = ["ansible", host, "-b", "-m", f"fleet.virt.{module}", "-a", " ".join(given)]
    return shlex.join(words)


def _shown_as_is(word: str) -> str:
    return "NAME" if _TEMPLATE.search(word) else word


# installs libguestfs, which is large, on hypervisors that were set up without it
INSTALL_GUEST_TOOLS = playbook_command("setup_hypervisors", libvirtd_guest_tools="true")


def snapshot_removal(name: str) -> str:
    """The command that removes a snapshot of the VM, whose own name is left to the reader."""
    return playbook_command(
        "snapshot", vm_name=name, virt_snapshot="NAME", virt_snapshot_state="absent"
    )
