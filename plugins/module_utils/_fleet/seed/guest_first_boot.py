# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first boot of a guest without cloud-init: a unit that runs once and removes itself."""

from __future__ import annotations

import json
import shlex
import typing as t

from ..._errors import PlanRefused
from . import first_boot
from .guest_image import MANAGERS, TRUST, Image
from .types import Seed

FOLDER = "/var/lib/fleet-virt"
SCRIPT = f"{FOLDER}/first-boot"
COMMANDS = f"{FOLDER}/commands"
UNIT = "/etc/systemd/system/fleet-virt-first-boot.service"
WANTED = "/etc/systemd/system/multi-user.target.wants/fleet-virt-first-boot.service"

_INSTALL = {
    "apt-get": "apt-get -q update\nDEBIAN_FRONTEND=noninteractive apt-get -q -y install {}",
    "dnf": "dnf -q -y install {}",
    "yum": "yum -q -y install {}",
    "zypper": "zypper --non-interactive install {}",
    "pacman": "pacman -Sy --noconfirm --needed {}",
}
_GROW = """\
source=$(findmnt -n -o SOURCE /)
name=$(basename "$(readlink -f "${source%%[*}")")
if [ -e "/sys/class/block/$name/partition" ]; then
  disk=$(basename "$(dirname "$(readlink -f "/sys/class/block/$name")")")
  number=$(cat "/sys/class/block/$name/partition")
  if command -v growpart >/dev/null; then
    growpart "/dev/$disk" "$number"
  else
    echo ', +' | sfdisk -q --no-reread --force -N "$number" "/dev/$disk"
    partx -u "/dev/$disk"
  fi
fi
case $(findmnt -n -o FSTYPE /) in
  ext*) resize2fs "/dev/$name" ;;
  xfs) xfs_growfs / ;;
  btrfs) btrfs filesystem resize max / ;;
esac
"""
_LOCALE = """\
if command -v locale-gen >/dev/null && [ -e /etc/locale.gen ]; then
  line=$(grep -o -E {pattern} /usr/share/i18n/SUPPORTED | head -n 1)
  [ -n "$line" ] && ! grep -q -x -F "$line" /etc/locale.gen && echo "$line" >> /etc/locale.gen
  locale-gen
fi
"""


# Problems are JSON strings, as in cloud-init's result
_PROBLEM = 'problem() { problems="$problems${problems:+, }$1"; }\n'
_FAILED = """problem '"a command failed; the journal of the unit has its output"'"""
_SAY_END = f'say "{first_boot.MARK} {{\\"v1\\": {{\\"errors\\": [$problems]}}}}"\n'


def packages(seed: Seed, image: Image) -> list[str]:
    """The packages to install: those in the seed, and those Ansible needs if the image lacks them.

    Raises PlanRefused if there are any and the image has no supported package manager.
    """
    sudo = any(user.sudo is not None for user in seed.users)
    sudo = sudo or (seed.user != "root" and seed.sudo is not None)
    needed = [
        name
        for name, missing in (
            ("an SSH server", not image.sshd),
            ("Python", not image.python),
            ("sudo", sudo and not image.sudo),
        )
        if missing
    ]
    if image.manager is None:
        if needed or seed.packages:
            what = ", ".join([*needed, *seed.packages])
            raise PlanRefused(
                f"the image ({image.os}) lacks {what}, and has no supported package manager"
                f" ({', '.join(MANAGERS)}) to install it; build it into the image"
            )
        return []
    names = dict(zip(("an SSH server", "Python"), MANAGERS[image.manager]), sudo="sudo")
    return list(dict.fromkeys([*(names[program] for program in needed), *seed.packages]))


def unit(*, online: bool) -> str:
    """The unit; ``online``: it needs the network."""
    wait = "Wants=network-online.target\nAfter=network-online.target\n" if online else ""
    return (
        "# Made by fleet.virt; it removes itself.\n"
        "[Unit]\n"
        "Description=What a VM seeded by fleet.virt does at its first boot\n"
        f"ConditionPathExists={SCRIPT}\n{wait}\n"
        "[Service]\n"
        "Type=oneshot\n"
        f"ExecStart=/bin/sh {SCRIPT}\n"
        "TimeoutStartSec=infinity\n\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def commands(seed: Seed) -> str:
    """The user's commands as one script, as in cloud-init; empty if there are none."""
    lines = [
        command if isinstance(command, str) else " ".join(shlex.quote(word) for word in command)
        for command in seed.commands
    ]
    lines = ["#!/bin/sh", *first_boot.watched(lines)]
    return "".join(f"{line}\n" for line in lines) if seed.commands else ""


def script(
    seed: Seed, image: Image, later: t.Sequence[tuple[str, str, str]] = ()
) -> tuple[str, bool]:
    """The script, empty if there is nothing to do, and whether it needs the network.

    ``later`` are files whose owners packages will create: owner, mode, path. The script is removed
    before the user's commands start, which may reboot the guest; the steps before can be repeated.
    """
    parts: list[str] = []
    if seed.grow_root:
        parts.append(_GROW)
    if seed.ca_certificates and image.trust is not None:
        parts.append(f"{TRUST[image.trust]}\n")
    if seed.locale is not None and seed.locale not in ("C", "POSIX"):
        pattern = f"^{seed.locale.replace('.', '[.]')}( .*)?$"
        parts.append(_LOCALE.format(pattern=shlex.quote(pattern)))
    wanted = packages(seed, image)
    if wanted and image.manager is not None:
        names = " ".join(shlex.quote(name) for name in wanted)
        problem = shlex.quote(json.dumps(f"these packages were not installed: {' '.join(wanted)}"))
        parts.append(f"{_INSTALL[image.manager].format(names)} || problem {problem}\n")
        if not image.sshd:
            parts.append("systemctl enable --now ssh.service || systemctl enable --now sshd\n")
    for owner, mode, path in later:
        name = shlex.quote(path)
        parts.append(f"chown {shlex.quote(owner)} {name} && chmod {mode} {name}\n")
    if not parts and not seed.commands:
        return "", False
    gone = f"rm -f {SCRIPT} {UNIT} {WANTED}\n"
    if seed.commands:
        # a shell that has opened its script continues to read it after it is removed
        end = f"{gone}exec 3<{COMMANDS}\nrm -rf {FOLDER}\n/bin/sh /proc/self/fd/3 || {_FAILED}\n"
    else:
        end = f"{gone}rmdir {FOLDER}\n"
    head = "#!/bin/sh\n# Made by fleet.virt: what is left to do at the first boot.\n"
    head += f"{_PROBLEM}{first_boot.SAY}set -x\n"
    end += _SAY_END
    return head + "".join(parts) + end, bool(wanted or seed.commands)
