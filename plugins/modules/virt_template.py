#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_template
short_description: Create a base image from a domain's disk
version_added: 0.2.0
description:
  - Copies the content of a domain's disk at one point in time to a new base image, which is named
    by the SHA-256 of its content and never changes again, like those of M(fleet.virt.virt_image).
    It depends on no other file, even if the domain's disk has a backing file.
  - A domain that is shut off cannot be started while its disk is read; QEMU's locks see to that.
  - A running domain keeps running. The copy is its disk at the moment when the copying started. If
    its guest agent is connected, the guest's file systems are frozen around that moment, so that
    they are consistent in the copy; otherwise the copy is crash-consistent, as after a power
    failure.
  - Identity data is removed from the copy, never from the domain itself, so that no two guests
    share it. That is the machine id, the SSH host keys, the random seed, and the state of DHCP
    clients and of cloud-init. A VM created from the image is seeded like any other.
  - Passwords, users and their keys stay in the copy, as does everything else on the disk.
  - The domain is not changed. A failed copy, for example for lack of space, leaves nothing behind;
    leftovers of one that was killed are removed by the next.
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
      - An existing base image of the name is left as it is, however old it is.
      - If one of another name has the same content, that one is used, and nothing has changed. This
        is only known after copying, so check mode predicts that the image would be created.
options:
  name:
    description:
      - Name of the domain.
    type: str
    required: true
  image:
    description:
      - Name of the base image, without extension. It has at most 100 letters, digits and C(._-).
      - Required.
    type: str
  disk:
    description:
      - Target of the disk, for example V(vdb).
      - Defaults to the first disk that the domain can write to.
    type: str
  identity:
    description:
      - V(reset) removes identity data from the copy. It needs libguestfs on the hypervisor and
        Linux on the disk, otherwise nothing is copied.
      - V(keep) leaves the copy as it is, for data disks, and for guests that will not run at the
        same time as the copy.
    type: str
    choices: [reset, keep]
    default: reset
  quiesce:
    description:
      - Whether the file systems of a running guest are frozen at the moment of the copy.
      - V(auto) does so if its guest agent can. V(always) refuses the domain if it cannot, V(never)
        does not try.
    type: str
    choices: [auto, always, never]
    default: auto
  base_pool:
    description:
      - Storage pool for base images. It is created if there is none of that name and none with
        O(base_path) as its folder.
    type: str
    default: base
  base_path:
    description:
      - Folder of the pool if it has to be created. A pool with this folder is used, whatever its
        name.
    type: path
    default: /var/lib/libvirt/base
requirements:
  - qemu-img (package qemu-utils, elsewhere qemu-img)
  - libguestfs with its Python binding (package python3-guestfs, elsewhere python3-libguestfs), for
    O(identity=reset)
notes:
  - Runs as root, on the machine whose libvirt O(uri) names.
  - Supports disks that are files or devices of the hypervisor, in the formats qcow2 and raw.
seealso:
  - module: fleet.virt.virt_image
    description: Removes unused base images.
"""

EXAMPLES = r"""
- name: Create a base image from the present content of web1's disk
  fleet.virt.virt_template:
    name: web1
    image: web-golden

- name: Copy a data disk as it is
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
    uuid:
      description: UUID of the domain.
      type: str
    changed:
      description: Whether a base image was created, or would be in check mode.
      type: bool
    steps:
      description: What was done, in order.
      type: list
      elements: str
      sample: [copy vda of web1, reset the identity in the copy, make base image web-golden]
    consistency:
      description:
        - Consistency of the copy. V(shutoff) if the domain was shut off, V(quiesced) if the guest's
          file systems were frozen, V(crash) if it was running without that. Null if nothing was
          copied.
      type: str
    failed:
      description: Always false; a failure fails the whole task.
      type: bool
    msg:
      description: Always null.
      type: str
image:
  description: The base image; in check mode, as far as it is known.
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
      description: Virtual size of the disk in it.
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
  description: Hypervisor of the VM.
  returned: in playbooks of this collection
  type: str
present:
  description: The volume that already is the image; may be empty.
  returned: in playbooks of this collection
  type: str
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from collections.abc import Mapping

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template import effects as template
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template import read as look
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template.options import (
    ARGUMENTS,
    TemplateWork,
    read_options,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def work() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            if envelope.read(TemplateWork, params).stage == "look":
                return look.images_of(connection, params["base_pool"], params["base_path"])
            return template.run(connection, read_options(params), check=module.check_mode)

    run(module, work, commands=("qemu-img",))


if __name__ == "__main__":
    main()
