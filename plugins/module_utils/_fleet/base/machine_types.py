# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machine types: which one a VM gets so that it can run anywhere in the fleet.

A name without a version (``q35``) means a different machine on each version of QEMU, and a VM that
was started on a newer one cannot migrate to an older one. So a VM gets a versioned type
(``pc-q35-7.2``) that all hypervisors support.
"""

from __future__ import annotations

import re
import typing as t

_VERSIONED = re.compile(r"(?P<family>.+?)-(?P<major>[0-9]{1,9})\.(?P<minor>[0-9]{1,9})")
# What a user writes for a family, by the beginning of its versioned names
_FAMILIES = {"q35": "pc-q35", "pc": "pc-i440fx", "virt": "virt"}
_PREFERRED = ("pc-q35", "pc-i440fx", "virt")
_WITHOUT_BIOS = ("aarch64", "riscv64", "loongarch64")


def newest_common(machines: t.Sequence[t.Collection[str]], wanted: str | None) -> str | None:
    """The newest versioned type that every one of ``machines`` has; None if there is none.

    ``wanted`` is a family (``q35``), a type that is versioned already (it is returned if all have
    it), or None for the best family there is.
    """
    if not machines:
        return None
    common = set(machines[0]).intersection(*machines[1:])
    if wanted is not None and wanted not in _FAMILIES:
        return wanted if wanted in common else None
    families = _PREFERRED if wanted is None else (_FAMILIES[wanted],)
    for family in families:
        versions = [
            (int(match["major"]), int(match["minor"]), name)
            for name in common
            for match in [_VERSIONED.fullmatch(name)]
            if match and match["family"] == family
        ]
        if versions:
            return max(versions)[2]
    return None


def is_of(machine: str, wanted: str) -> bool:
    """Whether ``machine`` is the type that is wanted, or of the family."""
    match = _VERSIONED.fullmatch(machine)
    return machine == wanted or (match is not None and match["family"] == _FAMILIES.get(wanted))


def family_of(machine: str) -> str:
    """The family of a machine type, versioned or not; devices fit into all of one."""
    match = _VERSIONED.fullmatch(machine)
    return match["family"] if match is not None else _FAMILIES.get(machine, machine)


def uses_uefi(firmware: str | None, arch: str) -> bool:
    """Whether a VM boots with UEFI; if unspecified, on architectures without a BIOS."""
    return arch in _WITHOUT_BIOS if firmware is None else firmware == "uefi"
