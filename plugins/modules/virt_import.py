#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_import
short_description: Convert the disks of an exported VM to base images
version_added: 0.1.0
description:
  - Reads an OVA, an OVF descriptor with its files, or a disk on the controller, and makes a base
    image of each disk on the hypervisor. It returns the VM as options of M(fleet.virt.virt_init).
  - The playbook C(fleet.virt.import_vm) uses it and creates the VM like any other, on the best
    hypervisor.
  - Disks in the formats VMDK (C(monolithicSparse) and C(streamOptimized)), VHDX, qcow2 and raw are
    accepted, recognised by their content. C(qemu-img) converts them on the hypervisor, as the user
    C(nobody), with bounded memory and output, and with the format given. Nothing is unpacked, a
    disk is read from within the archive.
  - Archives with paths, links or devices, disks that refer to other files, snapshots, compressed or
    split files, XML with a document type, and files that differ from the manifest are refused.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: partial
    details:
      - Reports a change even where the base images exist, since their content is known only once
        they are converted.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  src:
    description:
      - File on the controller, or an https URL with its checksum.
    type: str
    required: true
  checksum:
    description:
      - Checksum of the file if O(src) is a URL, V(sha256:...) or V(sha512:...).
    type: str
  name:
    description:
      - Name of the VM. Defaults to its name in the archive, or to that of the disk's file, with
        characters that no VM's name has replaced by C(-).
    type: str
  networks:
    description:
      - What the networks, to which the VM was connected, are here. The keys are their names, the
        values settings of a NIC, such as its C(bridge), or the name of a NIC profile with one
        NIC.
    type: dict
  bus:
    description:
      - Bus of the disks. Defaults to V(virtio) for those that were on virtio, and for a qcow2 or
        raw disk alone, and to V(sata) for others, since a guest has a driver for that.
    type: str
    choices: [virtio, scsi, sata, ide]
  max_unpacked:
    description:
      - Maximum size of a converted disk and of a download; a number is in MiB.
    type: str
    default: 256GiB
  base_pool:
    description:
      - Storage pool for base images, as of M(fleet.virt.virt_image).
    type: str
    default: base
  base_path:
    description:
      - Folder of the pool if it has to be created.
    type: path
    default: /var/lib/libvirt/base
requirements:
  - qemu-img (package qemu-utils, elsewhere qemu-img)
  - lxml on the controller
notes:
  - Runs as root, on the machine whose libvirt O(uri) names.
  - The file is stored in Ansible's remote temporary folder during the transfer.
  - In check mode nothing is transferred, and RV(images) is empty.
seealso:
  - module: fleet.virt.virt_init
    description: Creates the VM.
  - module: fleet.virt.virt_image
    description: Removes base images that nothing uses.
"""

EXAMPLES = r"""
- name: Convert the disks of an exported VM
  fleet.virt.virt_import:
    src: /srv/exports/web.ova
    networks:
      VM Network:
        bridge: br0
  register: imported

- name: Show it as options of virt_init
  ansible.builtin.debug:
    var: imported.vm
"""

RETURN = r"""
images:
  description: The base images.
  returned: always
  type: list
  elements: dict
  contains:
    disk:
      description: Name of the disk in RV(vm).
      type: str
    name:
      description: Name of the image.
      type: str
    digest:
      description: SHA-256 of its content.
      type: str
    format:
      description: Format of its content, V(qcow2).
      type: str
    pool:
      description: Pool that holds it.
      type: str
    volume:
      description: Volume of that pool.
      type: str
    path:
      description: Path of the volume.
      type: str
    size_mib:
      description: Virtual size of the disk in it.
      type: int
vm:
  description: The VM, as options of M(fleet.virt.virt_init), without its images.
  returned: outside of playbooks of this collection
  type: dict
left_out:
  description: Devices of the VM that are not imported.
  returned: outside of playbooks of this collection
  type: list
  elements: str
vms:
  description: The VM with its images, as options of M(fleet.virt.virt_init).
  returned: in playbooks of this collection
  type: list
  elements: dict
hypervisor:
  description: Hypervisor that has the base images; empty if none were made.
  returned: in playbooks of this collection
  type: str
intermediate:
  description: Volumes that are not needed once the VM exists.
  returned: in playbooks of this collection
  type: list
  elements: str
"""


from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.options import limits_of
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing import effects
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing.options import (
    ARGUMENTS,
    INTERNAL,
)


def main() -> None:
    module = create_module(ARGUMENTS, {**INTERNAL, **envelope.SPEC})
    params = module.options

    def work() -> dict[str, object]:
        limit = limits_of({"max_unpacked": params["max_unpacked"]}).unpacked
        place = effects.ImportPlace(params["base_pool"], params["base_path"], limit)
        with connect(params["uri"], params["timeout"]) as connection:
            return effects.run(connection, params["_disks"], place)

    run(module, work, commands=("qemu-img",))


if __name__ == "__main__":
    main()
