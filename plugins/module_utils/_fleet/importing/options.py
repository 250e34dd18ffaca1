# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_import``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..engine.envelope import Work
from ..images.options import MAX_UNPACKED

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

BUSES = ("virtio", "scsi", "sata", "ide")
ARGUMENTS: Spec = {
    "src": {"type": "str", "required": True},
    "checksum": {"type": "str"},
    "name": {"type": "str"},
    "networks": {"type": "dict"},
    "bus": {"type": "str", "choices": list(BUSES)},
    "max_unpacked": {"type": "str", "default": MAX_UNPACKED},
    "base_pool": {"type": "str", "default": "base"},
    "base_path": {"type": "path", "default": "/var/lib/libvirt/base"},
}
# A disk as the action plugin transferred it
DISK: Spec = {
    "name": {"type": "str", "required": True},
    "image": {"type": "str", "required": True},
    "received": {"type": "path", "required": True},
    "digest": {"type": "str", "required": True},
    "offset": {"type": "int", "required": True},
    "size": {"type": "int", "required": True},
    "whole": {"type": "bool", "required": True},
    "format": {"type": "str", "required": True},
}
INTERNAL: Spec = {"_disks": {"type": "list", "elements": "dict", "options": DISK, "default": []}}


class TransferredDisk(t.TypedDict):
    """A disk of the VM ``image`` is made of: ``size`` bytes of the file ``received``, which has the
    SHA-256 ``digest``, from ``offset`` on."""

    name: str
    image: str
    received: str
    digest: str
    offset: int
    size: int
    whole: bool
    format: str


@dataclass(frozen=True)
class ImportWork(Work):
    """A stage of importing a VM, until it is provisioned as any VM."""

    STAGES = ("all", "prepare", "act")
