#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_image
short_description: Add an image to the base images of a hypervisor, or remove it
version_added: 0.1.0
description:
  - Turns an image file into a base image of the hypervisor, from which VMs are created. It is
    transferred once, however many VMs use it, and stored once for the same content, whatever its
    name.
  - A base image is a volume of the base pool that is named by the SHA-256 of its content and never
    written again; where the file system supports it, it is made immutable (C(chattr +i)). A changed
    image file becomes another base image, and existing VMs keep theirs.
  - The file is verified on the hypervisor before it gets its name. It is refused if its content is
    not a qcow2 or raw image, if it is truncated or corrupt, or if it refers to other files of the
    hypervisor (a backing file or an external data file). An interrupted call leaves nothing behind
    that could be mistaken for an image.
  - A file that is compressed with xz, gzip or zstd (detected by content, not by name) is
    transferred compressed and unpacked on the hypervisor; the base image is the unpacked content,
    and is named by its digest.
  - A download goes directly to the base pool. Only https with a verified certificate is accepted,
    and the file must match the checksum.
  - A hypervisor that already has the image can transfer it to another over libvirt's TLS, which the
    roles C(libvirtd) and C(libvirt_keys) set up. If several hypervisors in a play need the same
    file of the controller, those that have it transfer it to the others; if none has it, the first
    gets it from the controller, and each one that has received it passes it on. A hypervisor
    without keys, or that reaches none of the others, gets it from the controller.
  - A file of the controller is stored in Ansible's remote temporary folder (C(ansible_remote_tmp))
    during the transfer, so it needs space there too.
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
      - A name of the catalogue, such as V(debian12), is the URL and checksum that stand there; more
        are in the variable C(virt_image_catalogue). A file of that name comes first.
      - The checksum is given in O(checksum), or appended to the URL as in
        C(https://host/file.qcow2#sha256:...). A mapping with C(url) and C(checksum) is also
        accepted.
      - A file on the hypervisor is copied and stays unchanged. One that is already a base image is
        used as it is. One that a VM writes to is refused.
      - With O(state=absent), the volume, digest or name of a base image.
      - Required unless O(state=pruned).
    type: raw
  checksum:
    description:
      - Checksum of the file if O(image) is a URL, as published with it, V(sha256:...) or
        V(sha512:...). For a compressed file it is the checksum of the compressed file.
      - Also the https URL of a file that lists it, in the lines of C(sha256sum) or of BSD, which
        the controller reads.
    type: str
  download_by:
    description:
      - Which machine downloads a URL. With V(hypervisor), each hypervisor downloads it itself; with
        V(controller), the controller downloads it once, keeps it in C(~/.cache/fleet.virt/images),
        and transfers it to all.
      - Defaults to the variable C(virt_image_download_by), and without that to V(hypervisor).
    type: str
    choices: [hypervisor, controller]
  peers:
    description:
      - Names or addresses of hypervisors that may already have the image, asked in this order
        before it is transferred from elsewhere. The certificate of each must contain the name given
        here.
      - They are asked for the digest of a file in O(image_dir), and for a download whose SHA-256 is
        known. They are also asked for a volume of the base pool that has the name of a base image
        and is missing here. They are not asked for a file of this hypervisor.
      - One that cannot be reached or does not have it is skipped; RV(steps) says so.
    type: list
    elements: str
    default: []
  download_timeout:
    description:
      - Seconds that a server may take to respond, and in which it must send at least a KiB per
        second. Also the seconds in which another hypervisor must send any data at all.
      - In any case, a download that would take more than six hours at its rate is aborted, and one
        larger than the free space at its destination is not started.
    type: float
    default: 30.0
  max_unpacked:
    description:
      - Maximum size of an unpacked file and of a download; a number is in MiB.
      - A larger file is refused once this much has been unpacked.
    type: str
    default: 256GiB
  image_dir:
    description:
      - Folder of images on the controller; a relative path is relative to where Ansible was
        started.
      - Defaults to the variable C(virt_image_dir), and without that to C(~/images).
    type: path
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
  state:
    description:
      - V(present) makes sure that the image is there.
      - V(absent) removes one base image. One that is in use is refused, and its users are named.
      - V(pruned) removes all unused base images. An image is in use if it is the backing file of a
        volume in any pool of the hypervisor, attached to a VM or not, or if a VM is being created
        from it.
      - Images in a pool on shared storage are not removed, because other hypervisors may use them.
        In a pool with an id, which the role P(fleet.virt.storage#role) gives it, the playbook
        C(fleet.virt.images) and the role P(fleet.virt.images#role) remove them once all hypervisors
        of the fleet have been asked and no other shares that pool.
    type: str
    choices: [present, absent, pruned]
    default: present
requirements:
  - qemu-img (package qemu-utils, elsewhere qemu-img)
notes:
  - Runs as root, on the machine whose libvirt O(uri) names.
  - The controller remembers the digests of its images in C(~/.cache/fleet.virt/digests.json), the
    hypervisor those of files given by path in C(/var/cache/fleet-virt/digests.json), so that they
    are not read again on every run. Both files can be removed at any time.
  - xz and gzip are unpacked by Python, zstd by its library (package libzstd1 or libzstd).
  - For a compressed file, or a download with a SHA-512 checksum, the digest of its content is
    remembered when it is unpacked. If the file with these digests was removed, it is unpacked or
    downloaded again.
  - In check mode only the beginning of a download is read. RV(image.digest), RV(image.volume) and
    RV(image.path) are then "(generated)" if they require the whole file, and RV(image.size_mib) of
    a compressed raw disk is 0.
  - In check mode a compressed qcow2 file is not verified with C(qemu-img check).
seealso:
  - module: fleet.virt.virt_image_info
  - module: fleet.virt.virt_query
    description: Reads the domains, with the base images that back their disks.
"""

EXAMPLES = r"""
- name: Copy an image from the controller to the hypervisor, once
  fleet.virt.virt_image:
    image: debian12.qcow2

- name: Use an image from another folder of the controller
  fleet.virt.virt_image:
    image: centos.img
    image_dir: /srv/images

- name: Use a file that is on the hypervisor
  fleet.virt.virt_image:
    image: /var/lib/libvirt/images/centos.qcow2
  register: centos

- name: Let the hypervisor download a compressed image
  fleet.virt.virt_image:
    image: https://images.example.org/debian-12.qcow2.xz
    checksum: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

- name: Transfer it from a hypervisor that has it, else from the controller
  fleet.virt.virt_image:
    image: fedora42.qcow2
    peers:
      - hv2.example.org

- name: Turn a volume of a pool into a base image
  fleet.virt.virt_image:
    image: default/golden.qcow2

- name: Remove an unused image
  fleet.virt.virt_image:
    image: debian12.qcow2
    state: absent

- name: Remove all unused images
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
      description: Virtual size of the disk in it.
      type: int
steps:
  description:
    - Where the image came from, with bytes and percent, preceded by hypervisors that could not
      provide it and why; empty if it already existed.
    - In check mode, what would be done if no other hypervisor in the play got it in the meantime.
  returned: with O(state=present)
  type: list
  elements: str
  sample: [258146304 of 258146304 bytes (100 %) from 192.0.2.11]
images:
  description: The base images that were removed, or would be in check mode.
  returned: with O(state=absent) or O(state=pruned)
  type: list
  elements: dict
  contains:
    name:
      description: Original name, without the extension of its format.
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
      description: Virtual size of the disk in it.
      type: int
    allocated_mib:
      description: Space that it occupies.
      type: int
    users:
      description: Always empty.
      type: list
      elements: str
"""


from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import effects as image_state
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_users as image_users,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.options import (
    DOWNLOAD_TIMEOUT,
    INTERNAL,
    MAX_UNPACKED,
    limits_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.source import with_checksum


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

    def make() -> image_users.Removed | image_state.ImageResult:
        place = (params["base_pool"], params["base_path"])
        check = module.check_mode
        with connect(params["uri"], params["timeout"]) as connection:
            if params["state"] != "present":
                name = str(params["image"]) if params["state"] == "absent" else None
                sole = params["_sole_pool_ids"]
                return image_users.removed(connection, name, *place, sole, check=check)
            return image_state.present(
                connection,
                with_checksum(params["image"], params["checksum"]),
                image_state.source_of(params["_source"]),
                *place,
                limits_of(params),
                params["peers"],
                check=check,
            )

    run(module, make, commands=("qemu-img",))


if __name__ == "__main__":
    main()
