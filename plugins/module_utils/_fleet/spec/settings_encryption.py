# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks that QEMU encrypts (LUKS), by a secret that libvirt keeps on the hypervisor.

Only the identity of the secret is handled here. Its value stays with libvirt: this collection
never reads it.
"""

from __future__ import annotations

import typing as t

from ..base import places
from ..base.options import Reader
from ..base.places import Pair
from ..base.settings import Text, never
from ..storage import encryption

if t.TYPE_CHECKING:
    from ..._lxml import Element


class _EncryptedDisk(t.Protocol):
    encryption_secret: str | None


def _write(element: Element, disk: _EncryptedDisk) -> None:
    if disk.encryption_secret is not None:
        encryption.add(places.reach(element, "source"), disk.encryption_secret)


def check(reader: Reader, *, drive: bool, exists: bool, copied: bool) -> None:
    """Report what an encrypted disk cannot be."""
    if not reader.given("encryption_secret"):
        return
    key = "encryption_secret"
    if drive:
        reader.problem(key, "a drive cannot be encrypted; leave it out")
    elif reader.given("protocol"):
        reader.problem(key, "network disks cannot be encrypted here; leave it out")
    elif not exists and reader.value("format") == "raw":
        reader.problem("format", "an encrypted disk is made as qcow2; leave the format out")
    elif copied:
        reader.problem(
            "overlay",
            "an encrypted disk cannot be a copy of its image: only libvirt and QEMU know its"
            " passphrase; set overlay true, so that the image is its backing file and what the"
            " guest writes is encrypted",
        )


SECRET = Text(
    "encryption_secret",
    "UUID or usage of the libvirt secret (C(virsh secret-list), of type V(volume)) with which QEMU"
    " encrypts the disk (LUKS). The secret must exist on the hypervisor; its value is never read"
    " here. libvirt creates the volume encrypted; an existing one must be encrypted already. Data"
    " in the disk's base image and on the seed medium is not encrypted. Such a disk can be grown"
    " only while the VM runs, and the VM can be neither moved nor copied nor have snapshots.",
    default=None,
    xml=Pair(_write, encryption.secret_of, ("source/encryption", "encryption")),
    pattern=r"[^\0\s][^\0]{0,127}",
    rule="the UUID or the usage of a secret, as virsh secret-list shows it",
    change=never("encryption is decided when a disk is created; add another disk"),
    secret=False,
)
