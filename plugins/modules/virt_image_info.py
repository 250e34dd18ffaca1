#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_image_info
short_description: List the base images of a hypervisor with their users
version_added: 0.1.0
description:
  - Reads which base images a hypervisor has and who uses each, and on request whether each is
    still what its name says.
  - Nothing is refreshed or changed.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._attributes.reading
options:
  base_pool:
    description:
      - Storage pool of base images.
    type: str
    default: base
  base_path:
    description:
      - Folder of the pool of base images, which is that pool whatever its name.
    type: path
    default: /var/lib/libvirt/base
  verify:
    description:
      - Read every image and compare its content with the digest it is named by. It takes as long as
        reading all of them from the disk.
    type: bool
    default: false
notes:
  - Runs as root, on the machine whose libvirt O(uri) names.
seealso:
  - module: fleet.virt.virt_image
    description: Bringing and removing images.
"""

EXAMPLES = r"""
- name: List the base images
  fleet.virt.virt_image_info:
  register: bases

- name: Find out whether one was damaged
  fleet.virt.virt_image_info:
    verify: true
  register: verified
  failed_when: verified.damaged | length > 0
"""

RETURN = r"""
images:
  description: The base images, sorted by volume; none where there is no base pool.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name it came with, without the ending of its format.
      type: str
      sample: debian12
    digest:
      description: SHA-256 that its content had when it came.
      type: str
    format:
      description: Format of its content, V(qcow2) or V(raw).
      type: str
    pool:
      description: Pool that holds it.
      type: str
      sample: base
    volume:
      description: Volume of that pool.
      type: str
    path:
      description: Path of the volume.
      type: str
    size_mib:
      description: Size of the disk in it.
      type: int
    allocated_mib:
      description: What it takes of the disk it lies on.
      type: int
    users:
      description:
        - Who uses it, in words. Domains, their snapshots, domains that are being made, and images
          that lie on it and that no domain uses.
      type: list
      elements: str
      sample: ["domain 'web1'"]
    intact:
      description: Whether its content still has the digest; null without O(verify).
      type: bool
damaged:
  description: Volumes of the images that are not intact.
  returned: success
  type: list
  elements: str
"""


from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.images import users as image_users
from ansible_collections.fleet.virt.plugins.module_utils._pure.images.options import INFO_INTERNAL


def main() -> None:
    module = create_module(
        {
            "base_pool": {"type": "str", "default": "base"},
            "base_path": {"type": "path", "default": "/var/lib/libvirt/base"},
            "verify": {"type": "bool", "default": False},
        },
        INFO_INTERNAL,
    )
    params = module.options

    def read() -> image_users.Listed | image_users.Pools:
        with connect(params["uri"], params["timeout"]) as connection:
            if params["_pools"]:
                return image_users.pools(connection)
            return image_users.listed(
                connection, params["base_pool"], params["base_path"], verify=params["verify"]
            )

    run(module, read)


if __name__ == "__main__":
    main()
