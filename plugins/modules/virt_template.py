#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_template
short_description: Make a base image of a domain's disk
version_added: 0.2.0
description:
  - Copies what a disk of a domain holds at one moment into a new base image, which is named by the
    SHA-256 of its content and never changes again, as those of M(fleet.virt.virt_image). It depends
    on no other file, whatever the domain's disk lies on.
  - A domain that is shut off cannot be started while its disk is read; QEMU's locks see to that.
  - A domain that runs goes on running. The copy is its disk at the moment the copying began. Where
    its guest agent is connected, the guest's file systems are frozen around that moment, so that
    they are whole in the copy; without it, the copy is what a power cut would leave.
  - What would make two guests the same is taken out of the copy, never out of the domain itself.
    That is the machine id, the SSH host keys, the random seed, what DHCP clients have stored and
    what cloud-init has. A VM made of the image is seeded as any other.
  - Passwords, users and their keys stay in the copy, as does everything else on the disk.
  - The domain is not changed. A copying that fails, for want of space too, leaves nothing of the
    copy; what one leaves that was killed, the next one removes.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - Where there is a base image of the name, it is left as it is, however old it is.
      - Where one of another name has the same content, that is it, and nothing has changed. Only
        copying tells, so check mode says that it would be made.
options:
  name:
    description:
      - Name of the domain.
    type: str
    required: true
  image:
    description:
      - Name that the base image gets, without an ending. It has at most 100 letters, digits and
        C(._-).
      - Required.
    type: str
  disk:
    description:
      - Target of the disk, for example V(vdb).
      - When left out, the first disk that the domain may write to.
    type: str
  identity:
    description:
      - V(reset) takes out of the copy what makes two guests the same. It needs libguestfs on the
        hypervisor and a Linux on the disk, else nothing is copied.
      - V(keep) leaves the copy as it is, for disks of data, and for guests that the copy is not to
        run beside.
    type: str
    choices: [reset, keep]
    default: reset
  quiesce:
    description:
      - Whether the file systems of a guest that runs are frozen around the moment of the copy.
      - V(auto) does so where its guest agent can. V(always) refuses where it cannot, V(never) does
        not.
    type: str
    choices: [auto, always, never]
    default: auto
  base_pool:
    description:
      - Storage pool for base images. It is made if there is none of that name and none with
        O(base_path) as its folder.
    type: str
    default: base
  base_path:
    description:
      - Folder of the pool if it has to be made. A pool with this folder is used, whatever its name.
    type: path
    default: /var/lib/libvirt/base
requirements:
  - qemu-img (package qemu-utils, elsewhere qemu-img)
  - libguestfs with its Python binding (package python3-guestfs, elsewhere python3-libguestfs), for
    O(identity=reset)
notes:
  - Runs as root, on the machine whose libvirt O(uri) names.
  - Copied are disks that are files or devices of the hypervisor, in the formats qcow2 and raw.
seealso:
  - module: fleet.virt.virt_image
    description: Removes base images that nobody uses.
"""

EXAMPLES = r"""
- name: Make a base image of what is on the disk of web1 now
  fleet.virt.virt_template:
    name: web1
    image: web-golden

- name: Copy a disk of data as it is
  fleet.virt.virt_template:
    name: web1
    image: web-data
    disk: vdb
    identity: keep
"""

RETURN = r"""
vms:
  description: One entry.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the domain.
      type: str
    changed:
      description: Whether a base image was made; in check mode, would be.
      type: bool
    steps:
      description: What was done, in order.
      type: list
      elements: str
      sample: [copy vda of web1, reset the identity in the copy, make base image web-golden]
    consistency:
      description:
        - What the copy is like. V(shutoff) is that of a domain that was shut off. V(quiesced) is
          that of a guest whose file systems were frozen, V(crash) that of one that just ran. Null
          if nothing was copied.
      type: str
    failed:
      description: Always false; what fails, fails as a whole.
      type: bool
    msg:
      description: Always null.
      type: str
image:
  description: The base image; in check mode, what is known of it.
  returned: always
  type: dict
  contains:
    target:
      description: Target of the disk.
      type: str
      sample: vda
    name:
      description: Name of the image.
      type: str
    digest:
      description: SHA-256 of its content; V((generated\)) in check mode.
      type: str
    format:
      description: Format of its content.
      type: str
    pool:
      description: Pool that holds it.
      type: str
    volume:
      description: Volume of that pool; V((generated\)) in check mode.
      type: str
    path:
      description: Path of the volume; V((generated\)) in check mode.
      type: str
    size_mib:
      description: Size of the disk in it.
      type: int
images:
  description: The same for each disk that was copied.
  returned: always
  type: list
  elements: dict
defined:
  description: The VMs of the hypervisor.
  returned: in playbooks of this collection
  type: list
  elements: dict
volumes:
  description: The base images of the hypervisor.
  returned: in playbooks of this collection
  type: list
  elements: str
hypervisor:
  description: Where the VM is.
  returned: in playbooks of this collection
  type: str
present:
  description: The volume that is the image already; may be empty.
  returned: in playbooks of this collection
  type: str
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.copies import look, template
from ansible_collections.fleet.virt.plugins.module_utils._pure.copies.template_options import (
    ARGUMENTS,
    INTERNAL,
)


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    params = module.options

    def work() -> dict[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            if params["_stage"] == "look":
                return look.images_of(connection, params["base_pool"], params["base_path"])
            return template.run(connection, template.options(params), check=module.check_mode)

    run(module, work, commands=("qemu-img",))


if __name__ == "__main__":
    main()
