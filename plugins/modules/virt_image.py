#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_image
short_description: Have an image among the base images of a hypervisor
version_added: 0.1.0
description:
  - Makes an image file a base image of the hypervisor, from which VMs are made. It travels once,
    however many VMs want it, and is there once for the same content, whatever its name.
  - A base image is a volume of the base pool that is named by the SHA-256 of its content, and is
    never written again; where the file system can, nobody is able to (C(chattr +i)). A changed
    image file becomes another base image, and VMs keep theirs.
  - The file is verified on the hypervisor before it gets its name. What is no qcow2 or raw image by
    its content, is truncated or corrupt, or names other files of the hypervisor (a backing file or
    an external data file) is refused. A call that is interrupted leaves nothing behind that could
    be taken for an image.
  - A file of the controller lies in the remote temporary folder of Ansible while it travels
    (C(ansible_remote_tmp)), so there is space needed for it there too.
  - Blocks of zeros take no space in a base image.
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
options:
  image:
    description:
      - Name of a file in O(image_dir), or the absolute path of a file on the hypervisor.
      - A file on the hypervisor is copied and stays as it is. One that is a base image already is
        used as it is.
    type: str
    required: true
  image_dir:
    description:
      - Folder of images on the controller; a relative one starts where Ansible was started.
      - When left out, the variable C(virt_image_dir) is used, and without that C(~/images).
    type: path
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
  state:
    description:
      - V(present) has the image there.
    type: str
    choices: [present]
    default: present
  source:
    description:
      - What the action plugin of this module knows of a file in O(image_dir). Not for playbooks.
    type: dict
    suboptions:
      name:
        description: Name of the file.
        type: str
        required: true
      digest:
        description: SHA-256 of its content.
        type: str
        required: true
      format:
        description: Format of its content.
        type: str
        choices: [qcow2, raw]
        required: true
      virtual_bytes:
        description: Size of the disk in it.
        type: int
        required: true
      received:
        description: Where the file has arrived on the hypervisor.
        type: path
requirements:
  - qemu-img (package qemu-utils, elsewhere qemu-img)
notes:
  - Runs as root, on the machine whose libvirt O(uri) names.
  - The controller remembers the digests of its images in C(~/.cache/fleet.virt/digests.json), the
    hypervisor those of files given by path in C(/var/cache/fleet-virt/digests.json), so that they
    are not read anew on every run. Both files can be removed at any time.
seealso:
  - module: fleet.virt.virt_query
    description: The domains, with the base images their disks are backed by.
"""

EXAMPLES = r"""
- name: Copy an image of the controller to the hypervisor, once
  fleet.virt.virt_image:
    image: debian12.qcow2

- name: Take the image from another folder of the controller
  fleet.virt.virt_image:
    image: centos.img
    image_dir: /srv/images

- name: Use a file that is on the hypervisor
  fleet.virt.virt_image:
    image: /var/lib/libvirt/images/centos.qcow2
  register: centos
"""

RETURN = r"""
image:
  description: The base image; in check mode, what it would be.
  returned: success
  type: dict
  contains:
    name:
      description: Name of the image file.
      type: str
      sample: debian12.qcow2
    digest:
      description: SHA-256 of its content.
      type: str
    format:
      description: Format of its content, V(qcow2) or V(raw).
      type: str
    pool:
      description: Pool that holds it.
      type: str
      sample: base
    volume:
      description: Volume of that pool, C(<digest>-<name>.<format>). It is named after the first
        file with that content.
      type: str
    path:
      description: Path of the volume.
      type: str
    size_mib:
      description: Size of the disk in it.
      type: int
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._host.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._host.image_state import Source, present


def main() -> None:
    source = {
        "name": {"type": "str", "required": True},
        "digest": {"type": "str", "required": True},
        "format": {"type": "str", "required": True, "choices": ["qcow2", "raw"]},
        "virtual_bytes": {"type": "int", "required": True},
        "received": {"type": "path"},
    }
    module = create_module(
        {
            "image": {"type": "str", "required": True},
            "image_dir": {"type": "path"},
            "base_pool": {"type": "str", "default": "base"},
            "base_path": {"type": "path", "default": "/var/lib/libvirt/base"},
            "state": {"type": "str", "choices": ["present"], "default": "present"},
            "source": {"type": "dict", "options": source},
        }
    )
    params = module.params

    def make() -> dict[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            return present(
                connection,
                params["image"],
                Source(**params["source"]) if params["source"] else None,
                params["base_pool"],
                params["base_path"],
                check=module.check_mode,
            )

    run(module, make, commands=("qemu-img",))


if __name__ == "__main__":
    main()
