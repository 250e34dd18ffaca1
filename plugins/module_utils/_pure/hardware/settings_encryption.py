# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks that QEMU encrypts (LUKS), by a secret that libvirt keeps on the hypervisor.

Only what the secret is known by is here. Its value is libvirt's: nobody of this collection reads
it.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ..base import places
from ..base.options import Reader
from ..base.places import Pair
from ..base.settings import Text, never
from ..machine import encryption

if t.TYPE_CHECKING:
    from ..._lxml import Element


class _Disk(t.Protocol):
    encryption_secret: str | None


def _write(element: Element, disk: _Disk) -> None:
    if disk.encryption_secret is not None:
        encryption.add(places.reach(element, "source"), disk.encryption_secret)


def check(reader: Reader, *, drive: bool, exists: bool, copied: bool) -> None:
    """Report what an encrypted disk cannot be."""
    if not reader.given("encryption_secret"):
        return
    key = "encryption_secret"
    if drive:
        reader.problem(key, "a drive has none; leave it out")
    elif reader.given("protocol"):
        reader.problem(key, "a disk over the network has none here; leave it out")
    elif not exists and reader.value("format") == "raw":
        reader.problem("format", "an encrypted disk is made as qcow2; leave the format out")
    elif copied:
        reader.problem(
            "overlay",
            "an encrypted disk is no copy of its image: nobody but libvirt and QEMU knows its"
            " passphrase; set overlay true, so that it lies on the image and what the guest writes"
            " is encrypted",
        )


SECRET = Text(
    "encryption_secret",
    "The UUID or usage of the secret of libvirt (C(virsh secret-list), of type V(volume)) by"
    " which QEMU encrypts it (LUKS). The secret has to be on the hypervisor; its value is never"
    " read here. libvirt makes the volume encrypted; one that exists has to be. What is on an"
    " image that it lies on, and on the seed medium, is not encrypted. Such a disk grows only"
    " while the VM runs, and the VM is neither moved, copied nor given snapshots.",
    default=None,
    xml=Pair(_write, encryption.secret_of, ("source/encryption", "encryption")),
    pattern=r"[^\0\s][^\0]{0,127}",
    rule="the UUID or the usage of a secret, as virsh secret-list shows it",
    change=never("a disk is encrypted when it is made, or not; add another disk"),
    secret=False,
)
