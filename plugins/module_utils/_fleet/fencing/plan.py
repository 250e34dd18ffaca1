# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a fence agent is told, and what follows from its answers."""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..base.names import playbook_command
from ..base.tables import clean
from .options import FenceDevice

ON, OFF, UNKNOWN = "on", "off", "unknown"
STATUS, SWITCH_OFF = "status", "off"
# How agents and commands end when they are asked for the status, and the line that each prints. An
# exit status alone says nothing: 2 is that of an agent without its key file, too, of a shell
# without its script, of python, grep and ls.
_ENDS = {ON: 0, OFF: 2}
_OF_AGENTS = {ON: "Status: ON", OFF: "Status: OFF"}
_OF_COMMANDS = {ON: "on", OFF: "off"}
_SHOWN = 300
IGNORED = "virt_signs_ignored"  # the variable that names hosts whose signs of life are others'
ALREADY, SWITCHED, STATED = "was off already", "is switched off", "is stated to be off"


@dataclass(frozen=True)
class Status:
    """What a device says of the host: ``state`` and, if that is unknown, why."""

    device: str
    state: str
    why: str = ""


def input_of(device: FenceDevice, action: str) -> str:
    """The standard input of the device's agent or command, where it has everything: what stands in
    arguments anybody on the machine can read."""
    parameters = {**device["parameters"], **device["secrets"]}
    lines = {"action": action, **{name: _text(value) for name, value in parameters.items()}}
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def name_of(device: FenceDevice) -> str:
    """What messages call it."""
    if device["agent"] is None:
        return (device["command"] or [""])[0]
    plug = device["parameters"].get("plug") or device["parameters"].get("port")
    return device["agent"] if plug is None else f"{device['agent']} (plug {clean(str(plug))})"


def status_of(device: FenceDevice, ended: int, out: bytes, error_text: str) -> Status:
    """The status that a program's end means: its exit status, and one whole line of its output."""
    words = _OF_COMMANDS if device["agent"] is None else _OF_AGENTS
    lines = {line.rstrip() for line in out.decode("utf-8", "replace").split("\n")}
    said = [state for state, word in words.items() if word in lines]
    name = name_of(device)
    if len(said) == 1 and _ENDS[said[0]] == ended:
        return Status(name, said[0])
    printed = shortened(f"{out.decode('utf-8', 'replace')} {error_text}")
    expected = " or ".join(f"{words[state]!r} with {_ENDS[state]}" for state in words)
    return Status(name, UNKNOWN, f"exit status {ended}: {printed}; a status is the line {expected}")


def shortened(text: str) -> str:
    """What a program said, on one line of limited length."""
    return clean(" ".join(text.split()))[:_SHOWN] or "it said nothing"


def is_proven(statuses: t.Sequence[Status]) -> bool:
    """Whether the host is without power: every one of its power supplies has to be off."""
    return bool(statuses) and all(status.state == OFF for status in statuses)


def not_proven(host: str, statuses: t.Sequence[Status], failures: t.Sequence[str] = ()) -> str:
    """Why the host is not proven to be off, and what to do."""
    reasons = [*failures]
    for status in statuses:
        if status.state != OFF:
            why = f" ({status.why})" if status.why else ""
            reasons.append(f"{status.device} says {status.state}{why}")
    return (
        f"{host} is not proven off: {'; '.join(dict.fromkeys(reasons))}; nothing was done. Make the"
        f" agent work or, if you have seen that {host} is without power, state it for this run:"
        f" -e virt_fenced={host}"
    )


def unfit(host: str, reasons: t.Iterable[str]) -> str:
    """That agents are no proof, and what to do."""
    return (
        f"{host} is not proven off: {'; '.join(reasons)}; nothing was done. Declare in"
        f" virt_fence of {host} what switches its power or, if you have seen that it is"
        f" without power, state it for this run: -e virt_fenced={host}"
    )


def inaudible(host: str) -> str:
    """That nobody would have heard it, and what to do."""
    return (
        f"that {host} is silent says nothing: no hypervisor that answers would hear it. An address"
        " of it has to be on a link of one of them or, behind a router, to have answered it when it"
        f" created VMs; see ansible_host and virt_migration_address of {host}. If you have seen"
        f" that it is without power, state it for this run: -e virt_fenced={host}"
    )


def ignored(sign: str) -> str:
    """What is said of a sign of life that a person has said is none."""
    return f" (it {sign}, which {IGNORED} says is not it)"


def alive(hosts: t.Sequence[str], sign: str, *, fenced: bool) -> str:
    """That a host of these answers, so that nothing may be done in its place; ``sign`` says how."""
    host = " or ".join(hosts)
    if fenced:
        return (
            f"{host} {sign} although it is said to be off: either that is wrong, or virt_fence of"
            f" {host} switches another machine; correct it before anything is restarted elsewhere."
            f" If you know what answers in its place, such as a router (proxy ARP) or a firewall,"
            f" and its devices say that it is off: -e {IGNORED}={','.join(hosts)}"
        )
    return (
        f"{host} {sign}, so it is not down; move its VMs with"
        f" {' or '.join(playbook_command('evacuate', virt_host=one) for one in hosts)}, or switch"
        f" it off first. If you know that something else answers, such as a router (proxy ARP) or a"
        f" firewall, its devices decide: -e {IGNORED}={','.join(hosts)}"
    )


def installation(device: FenceDevice) -> str:
    """The command that installs the device's agent."""
    name = (device["agent"] or "fence_ipmilan").partition("_")[2]
    return playbook_command("setup_hypervisors", libvirtd_fence_agents=name)


def not_run(device: FenceDevice, program: str, why: str) -> str:
    """That a program cannot be run there, and what to do."""
    if device["agent"] is None:
        return (
            f"{program!r} cannot be run on this hypervisor ({why}); a command of virt_fence is a"
            " program that is on every hypervisor, such as a file of mode 0755 that begins with"
            " #!/bin/sh"
        )
    return (
        f"{program} is not installed on this hypervisor, or cannot be run ({why}); an agent of the"
        f" package fence-agents is installed by {installation(device)}"
    )


def statement(host: str, lease: float) -> str:
    """What a person claims who states that the host is off."""
    return (
        f"virt_fenced={host} states that {host} is without power or destroyed, and that no process"
        f" of it writes to any disk; nothing here has proven it. {lease:g} seconds are waited, so"
        " that locks of a client that vanished expire"
    )
