# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a VM must be, and must not have, so that any member of a cell can start it.

The agent ``ocf:fleet:domain`` refuses the same when it starts one; here it is said before.
"""

from __future__ import annotations

import posixpath
import typing as t

from ..base.names import playbook_command
from ..cards.card import disk_files

if t.TYPE_CHECKING:
    from ..._lxml import Element

_TIES = (
    ("os/nvram", "it has UEFI variables, which are its hypervisor's"),
    ("devices/tpm/backend[@type='emulator']", "it has a TPM, whose state is its hypervisor's"),
    ("devices/hostdev", "it has a device of its hypervisor"),
    ("devices/filesystem", "it has a folder of its hypervisor"),
    ("devices/disk/shareable", "it has a disk that is shareable, so others may write to it"),
)


def of_definition(domain: Element) -> list[str]:
    """What in a definition ties the VM to one hypervisor."""
    ties = [text for path, text in _TIES if domain.find(path) is not None]
    if domain.get("firmware") == "efi" or domain.find("os[@firmware='efi']") is not None:
        ties.insert(0, _TIES[0][1])
    return list(dict.fromkeys(ties))


def of_disks(domain: Element, chains: t.Iterable[str], shared: t.Collection[str]) -> list[str]:
    """Which of its disks, and of the files below them (``chains``), are on no storage of the
    folders that are ``shared``."""
    files = disk_files(domain)
    if files is None:
        return ["it has no disk, so no other hypervisor would know of it"]
    if None in files:
        return ["it has a disk that is no file"]
    paths = dict.fromkeys([*(path for path in files if path), *chains])
    return [
        f"{path} is on no storage that is shared (the role fleet.virt.storage declares that)"
        for path in paths
        if posixpath.dirname(path) not in shared
    ]


def of_snapshots(name: str, number: int) -> list[str]:
    """Snapshots are its hypervisor's, and a cell does not take them along."""
    remove = playbook_command("snapshots", vm_name=name)
    return [f"it has {number} snapshots; remove them ({remove} shows them)"] if number else []


def refusal(name: str, problems: t.Iterable[str]) -> str:
    """What a VM that is to be one of a cell is refused with."""
    return f"{name!r} can be none of a cell (ha): {'; '.join(problems)}"
