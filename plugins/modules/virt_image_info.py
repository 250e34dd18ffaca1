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
  - Reads which base images a hypervisor has and what uses each, and on request whether the content
    of each still matches its name.
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
      - Folder of the pool of base images. A pool with this folder is used, whatever its name.
    type: path
    default: /var/lib/libvirt/base
  verify:
    description:
      - Read every image and compare its content with the digest it is named by. This takes as long
        as reading all of them from disk.
    type: bool
    default: false
notes:
  - Runs as root, on the machine whose libvirt O(uri) names.
seealso:
  - module: fleet.virt.virt_image
    description: Adds and removes images.
"""

EXAMPLES = r"""
- name: List the base images
  fleet.virt.virt_image_info:
  register: bases

- name: Check whether an image was damaged
  fleet.virt.virt_image_info:
    verify: true
  register: verified
  failed_when: verified.damaged | length > 0
"""

RETURN = r"""
images:
  description: The base images, sorted by volume; empty if there is no base pool.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Original name, without the extension of its format.
      type: str
      sample: debian12
    digest:
      description: SHA-256 of its original content.
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
      description: Virtual size of the disk in it.
      type: int
    allocated_mib:
      description: Space that it occupies.
      type: int
    users:
      description:
        - Descriptions of its users, which are domains, their snapshots, domains that are being
          created, and overlays on it that no domain uses.
      type: list
      elements: str
      sample: ["domain 'web1'"]
    intact:
      description: Whether its content still matches the digest; null without O(verify).
      type: bool
damaged:
  description: Volumes of the images that are not intact.
  returned: success
  type: list
  elements: str
"""


from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_users as image_users,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.options import INFO_INTERNAL


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
