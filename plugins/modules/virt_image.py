#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_image
short_description: Have an image among the base images of a hypervisor, or remove it
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
  - A file that is compressed with xz, gzip or zstd, by its content and not its name, travels as it
    is and is unpacked on the hypervisor; the base image is what it holds, and is named by that.
  - A download goes straight into the base pool. Only https with a verified certificate is followed,
    and the file must have the checksum.
  - A hypervisor that has the image already can give it to another by libvirt's TLS, which the roles
    C(libvirtd) and C(libvirt_keys) set up. In a play with several hypervisors that are to have the
    same file of the controller, those that have it give it to the others, the first gets it from
    the controller, and each that has got it gives it on. A hypervisor without keys, or that reaches
    none of them, gets it from the controller.
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
      - Name of a file in O(image_dir), the absolute path of a file on the hypervisor, an https URL
        with its checksum, or a volume of a pool of files as C(pool/volume).
      - The checksum stands in O(checksum), or behind the URL as in
        C(https://host/file.qcow2#sha256:...). A mapping of C(url) and C(checksum) is taken too.
      - A file on the hypervisor is copied and stays as it is. One that is a base image already is
        used as it is. One that a VM writes to is refused.
      - With O(state=absent), the volume, the digest or the name of a base image.
      - Required unless O(state=pruned).
    type: raw
  checksum:
    description:
      - Checksum of what O(image) is the URL of, as its publisher names it, V(sha256:...) or
        V(sha512:...). Of a compressed file it is the checksum of the compressed file.
    type: str
  download_by:
    description:
      - Who downloads a URL. V(hypervisor) is each by itself, V(controller) is the controller once,
        which then brings it to all; it keeps the file in C(~/.cache/fleet.virt/images).
      - When left out, the variable C(virt_image_download_by) is used, and without that
        V(hypervisor).
    type: str
    choices: [hypervisor, controller]
  peers:
    description:
      - Names or addresses of hypervisors that may have the image already, asked in this order
        before it is brought from elsewhere. The certificate of each must name it as it is here.
      - They are asked for the digest of a file in O(image_dir), and for a download whose SHA-256 is
        known. They are asked for a volume of the base pool that is named as base images are and is
        not here. A file of this hypervisor is not asked for.
      - One that cannot be reached or does not have it is passed over; RV(steps) says so.
    type: list
    elements: str
    default: []
  download_timeout:
    description:
      - Seconds that a server may take to answer, and in which it must send a KiB a second. Also the
        seconds in which another hypervisor must send anything at all.
      - However much comes, a download that would take more than six hours at its rate ends, and one
        larger than what is free where it is to lie is not begun.
    type: float
    default: 30.0
  max_unpacked:
    description:
      - Size that a compressed file may unpack to, and that a download may have; a number is MiB.
      - What would be larger is refused when that much was unpacked.
    type: str
    default: 256GiB
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
      - V(absent) removes one base image. One that is in use is refused, with who uses it.
      - V(pruned) removes all base images that nobody uses. Used is whatever something lies on, in
        any pool of the hypervisor, attached to a VM or not, and what a VM is being made of.
      - Images in a pool on shared storage are not removed, because other hypervisors may use them.
        In a pool with an id, which the role P(fleet.virt.storage#role) gives it, the playbook
        C(fleet.virt.images) and the role P(fleet.virt.images#role) remove them once all hypervisors
        of the fleet have been asked and no other has that pool.
    type: str
    choices: [present, absent, pruned]
    default: present
requirements:
  - qemu-img (package qemu-utils, elsewhere qemu-img)
notes:
  - Runs as root, on the machine whose libvirt O(uri) names.
  - The controller remembers the digests of its images in C(~/.cache/fleet.virt/digests.json), the
    hypervisor those of files given by path in C(/var/cache/fleet-virt/digests.json), so that they
    are not read anew on every run. Both files can be removed at any time.
  - xz and gzip are unpacked by Python, zstd by its library (package libzstd1 or libzstd).
  - A compressed file, or a download with a SHA-512 checksum, is known by what it held when it was
    last unpacked. Where the file that remembers that was removed, it is unpacked or downloaded
    again.
  - In check mode only the beginning of a download is read. RV(image.digest), RV(image.volume) and
    RV(image.path) read "(generated)" then where only the whole file tells them, and
    RV(image.size_mib) of a compressed raw disk is 0.
  - In check mode a compressed qcow2 file is not held against C(qemu-img check).
seealso:
  - module: fleet.virt.virt_image_info
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

- name: Have the hypervisor download a compressed image
  fleet.virt.virt_image:
    image: https://images.example.org/debian-12.qcow2.xz
    checksum: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

- name: Take it from a hypervisor that has it, else from the controller
  fleet.virt.virt_image:
    image: fedora42.qcow2
    peers:
      - hv2.example.org

- name: Make a volume of a pool a base image
  fleet.virt.virt_image:
    image: default/golden.qcow2

- name: Remove an image that nobody uses
  fleet.virt.virt_image:
    image: debian12.qcow2
    state: absent

- name: Remove all that nobody uses
  fleet.virt.virt_image:
    state: pruned
"""

RETURN = r"""
image:
  description: The base image; in check mode, what it would be.
  returned: with O(state=present)
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
steps:
  description:
    - Where the image came from, with bytes and percent, and before that which hypervisors could not
      give it and why; empty if it was there.
    - In check mode, what would be done if nobody else in the play got it meanwhile.
  returned: with O(state=present)
  type: list
  elements: str
  sample: [258146304 of 258146304 bytes (100 %) from 192.0.2.11]
images:
  description: The base images that were removed; in check mode, that would be.
  returned: with O(state=absent) or O(state=pruned)
  type: list
  elements: dict
  contains:
    name:
      description: Name it came with, without the ending of its format.
      type: str
    digest:
      description: SHA-256 of its content.
      type: str
    format:
      description: Format of its content, V(qcow2) or V(raw).
      type: str
    pool:
      description: Pool that held it.
      type: str
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
      description: Nobody.
      type: list
      elements: str
"""


from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.images import state as image_state
from ansible_collections.fleet.virt.plugins.module_utils._effects.images import users as image_users
from ansible_collections.fleet.virt.plugins.module_utils._pure.images.options import (
    DOWNLOAD_TIMEOUT,
    INTERNAL,
    MAX_UNPACKED,
    limits_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._pure.images.source import with_checksum


def main() -> None:
    module = create_module(
        {
            "image": {"type": "raw"},
            "image_dir": {"type": "path"},
            "checksum": {"type": "str"},
            "download_by": {"type": "str", "choices": ["hypervisor", "controller"]},
            "peers": {"type": "list", "elements": "str", "default": []},
            "download_timeout": {"type": "float", "default": DOWNLOAD_TIMEOUT},
            "max_unpacked": {"type": "str", "default": MAX_UNPACKED},
            "base_pool": {"type": "str", "default": "base"},
            "base_path": {"type": "path", "default": "/var/lib/libvirt/base"},
            "state": {
                "type": "str",
                "choices": ["present", "absent", "pruned"],
                "default": "present",
            },
        },
        INTERNAL,
        required_if=[("state", "present", ["image"]), ("state", "absent", ["image"])],
    )
    params = module.options

    def make() -> image_users.Removed | image_state.Result:
        place = (params["base_pool"], params["base_path"])
        check = module.check_mode
        with connect(params["uri"], params["timeout"]) as connection:
            if params["state"] != "present":
                one = str(params["image"]) if params["state"] == "absent" else None
                sole = params["_sole_pool_ids"]
                return image_users.removed(connection, one, *place, sole, check=check)
            return image_state.present(
                connection,
                with_checksum(params["image"], params["checksum"]),
                image_state.Source(**params["_source"]) if params["_source"] else None,
                *place,
                limits_of(params),
                params["peers"],
                check=check,
            )

    run(module, make, commands=("qemu-img",))


if __name__ == "__main__":
    main()
