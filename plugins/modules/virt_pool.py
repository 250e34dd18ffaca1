#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_pool
short_description: Ensure that pools of files exist, are active, start at boot, and have an id
version_added: 0.1.0
description:
  - Creates pools of directories, also on NFS, that are active and start at boot. An existing pool
    with the same folder is used, whatever its name; no existing pool is redefined.
  - Each folder gets a file C(fleet-virt.pool-id) with a random id, once. Two hypervisors with the
    same id share the storage.
  - All pools are checked before any is changed.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - Also works before libvirt is installed.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  pools:
    description:
      - The pools.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description:
          - Name of the pool, if no pool has that folder yet.
        type: str
        required: true
      path:
        description:
          - Folder of the pool. It is created if it does not exist.
        type: path
        required: true
      shared:
        description:
          - Whether other hypervisors have the same folder, by a cluster file system or a mount in
            C(/etc/fstab), for example. A pool with O(pools[].nfs) is shared anyway.
          - The storage must be mounted already. It gets its id once, by the first hypervisor, and
            each records that id. From then on, a folder without the id is a pool that is not
            mounted, and never an empty one. Nothing is created, moved, removed or pruned in it, and
            C(fleet.virt.preflight) reports it.
        type: bool
        default: false
      nfs:
        description:
          - For a pool on NFS, which libvirt mounts at O(pools[].path) when it starts the pool
            (libvirt's pool type C(netfs)). The hypervisor needs the client of its distribution
            (C(nfs-common) on Debian), and the server must let root write there
            (C(no_root_squash)).
          - Such a pool is always mounted with C(hard), C(lookupcache=none) and with locks.
          - A pool that exists is not redefined, whatever its options; the playbook
            C(fleet.virt.preflight) reports those that are not safe. One that mounts something else
            is refused.
        type: dict
        suboptions:
          server:
            description:
              - Name or address of the server.
            type: str
            required: true
          export:
            description:
              - What the server exports, an absolute path.
            type: str
            required: true
          version:
            description:
              - Version of NFS.
            type: str
            choices: ['4.2', '4.1']
            default: '4.2'
          options:
            description:
              - More mount options, such as C(nconnect=4) or C(sec=krb5p). Options that give up
                writes (C(soft)) or locks (C(nolock), C(local_lock)) are refused with the reason.
            type: list
            elements: str
            default: []
seealso:
  - module: fleet.virt.virt_host_info
    description: Shows the pools of a hypervisor.
"""

EXAMPLES = r"""
- name: Ensure that a pool for base images and one for disks exist
  fleet.virt.virt_pool:
    pools:
      - name: base
        path: /var/lib/libvirt/base
      - name: default
        path: /var/lib/libvirt/images

- name: Show what would be done for a pool on an NFS server
  fleet.virt.virt_pool:
    pools:
      - name: vms
        path: /srv/vms
        nfs:
          server: nas1.example.org
          export: /export/vms
  check_mode: true
"""

RETURN = r"""
pools:
  description: One entry for each pool, in the order of O(pools).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the pool in libvirt.
      type: str
    path:
      description: Folder of the pool.
      type: str
    id:
      description: Its id; V((generated\)) in check mode, if it has none yet.
      type: str
    steps:
      description: What was done, or would be in check mode.
      type: list
      elements: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.pools import effects as pool_setup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.pools.options import ARGUMENTS


def main() -> None:
    module = create_module(ARGUMENTS)
    params = module.params
    run(
        module,
        lambda: pool_setup.ensure(
            params["uri"], params["timeout"], params["pools"], module.check_mode
        ),
        needs_libvirt=not module.check_mode,
    )


if __name__ == "__main__":
    main()
