# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scripts that switch and roll back, which the machine runs on its own.

They are shell scripts, so that they need nothing of Ansible, which has ended by then. Renaming one
file decides between them: C(armed) becomes C(rolling-back) or C(confirmed), never both.
"""

from __future__ import annotations

import shlex
import typing as t

from .types import FileChange, Switch

FOLDER = "/var/lib/fleet-virt/bridge"
TIMERS = "fleet-virt-bridge-*.timer"
BOOT_UNIT = "fleet-virt-bridge-boot.service"
UNITS = "/etc/systemd/system"
BOOT_FILE = f"{UNITS}/{BOOT_UNIT}"
BOOT_LINK = f"{UNITS}/sysinit.target.wants/{BOOT_UNIT}"

_HEAD = "#!/bin/sh\n# Written by fleet.virt for one switch to a bridge; of no use afterwards.\n"


def unit(what: str, identifier: str) -> str:
    """The name of a unit (C(apply) or C(rollback)) of one switch.

    Each switch has its own: a unit stays loaded while a DHCP client that its script started runs.
    """
    return f"fleet-virt-bridge-{what}-{identifier[:8]}"


def apply(switch: Switch, identifier: str) -> str:
    """The script that puts the new configuration in place and brings it up."""
    lines = [
        _HEAD,
        f"cd {FOLDER} || exit 1",
        "[ -e armed ] || exit 0",
        "exec >apply.log 2>&1 </dev/null",
        "fail() {",
        '  printf "%s\\n" "$1" >failed',
        f"  systemctl start --no-block {unit('rollback', identifier)}.service",
        "  exit 1",
        "}",
        *(f"{line} || :" for line in switch.leave),
    ]
    for number, file in enumerate(switch.files):
        lines += _install(number, file)
    lines.append("sync")
    lines += [f"{{ {line}; }} || fail {shlex.quote(line)}" for line in switch.enter]
    # Records the time as a process's start, comparable with that of a connection's server process
    lines += ["cat /proc/self/stat >applied.new", "mv applied.new applied"]
    return "\n".join([*lines, ""])


def rollback(switch: Switch, identifier: str) -> str:
    """The script that restores the former configuration; its arguments say who called it.

    A timer left over from another switch is ignored.
    """
    started = unit("apply", identifier)
    lines = [
        _HEAD,
        f"cd {FOLDER} || exit 1",
        f'[ "$1" = boot ] || [ "$2" = {identifier} ] || exit 0',
        "[ -e rolling-back ] || mv armed rolling-back 2>/dev/null || exit 0",
        '[ -e reason ] || printf "%s\\n" "$1" >reason',
        'if [ "$1" != boot ]; then',
        "  exec >rollback.log 2>&1 </dev/null",
        f"  systemctl stop {unit('rollback', identifier)}.timer {started}.timer || :",
        f"  systemctl kill --signal=KILL {started}.service || :",
        *(f"  {line} || :" for line in switch.undo),
        "fi",
    ]
    for number, file in enumerate(switch.files):
        lines += _restore(number, file)
    lines += ["sync", 'if [ "$1" = boot ]; then', "  :"]
    lines += [f"  {line} || :" for line in switch.boot]
    lines += ["else", "  :"]
    lines += [f"  {line} || :" for line in switch.restore]
    lines += ["fi", "mv rolling-back rolled-back", f"rm -f {BOOT_LINK} {BOOT_FILE}", "sync"]
    return "\n".join([*lines, ""])


def boot_unit() -> str:
    """The unit that rolls back before the network comes up, after a power failure."""
    return f"""\
# Written by fleet.virt for one switch to a bridge; it removes itself.
[Unit]
Description=Restore the former network configuration after an unconfirmed switch to a bridge
DefaultDependencies=no
RequiresMountsFor={FOLDER}
After=local-fs.target
Wants=network-pre.target
Before=network-pre.target networking.service systemd-networkd.service NetworkManager.service
Before=shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
ExecStart=/bin/sh {FOLDER}/rollback boot
"""


def _install(number: int, file: FileChange) -> list[str]:
    path = shlex.quote(file.path)
    if file.after is None:
        return [f"rm -f {path}"]
    folder = shlex.quote(file.path.rpartition("/")[0])
    return [
        f"mkdir -p {folder}",
        f"cp -p new/{number} {path}.fleet-virt || fail {shlex.quote(f'cannot write {file.path}')}",
        f"mv -f {path}.fleet-virt {path}",
    ]


def _restore(number: int, file: FileChange) -> list[str]:
    path = shlex.quote(file.path)
    if file.before is None:
        lines = [f"rm -f {path} {path}.fleet-virt"]
        folder = file.path.rpartition("/")[0]
        if folder.endswith(".d"):  # a drop-in folder, created with the file
            lines.append(f"rmdir {shlex.quote(folder)} 2>/dev/null || :")
        return lines
    return [f"cp -a saved/{number} {path}.fleet-virt", f"mv -f {path}.fleet-virt {path}"]


def reason(word: str, failed: str, seconds: int, seen: t.Sequence[str]) -> str:
    """Why it was rolled back, in words."""
    if failed:
        return f"the new configuration could not be brought up ({failed})"
    if word == "boot":
        return "the machine was restarted before the switch was confirmed"
    if seen:
        return f"after {seconds} seconds the network was not as required: {'; '.join(seen)}"
    return (
        f"the controller did not reach the machine over a new connection within {seconds} seconds"
    )
