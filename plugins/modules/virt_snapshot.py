#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_snapshot
short_description: Take, revert to and delete snapshots of domains
version_added: 0.2.0
description:
  - Takes a snapshot of each domain, reverts to it, or deletes it. A snapshot of a running domain
    includes its memory, so that it resumes from that moment; one of a domain that is off includes
    its disks only.
  - Such snapshots are internal, that is, stored in the qcow2 files of the disks. They need no files
    of their own, and backing files of the disks, such as a base image, are not changed. Every
    version of libvirt can revert to them and delete them, even while the domain runs.
  - With O(disk_only) a snapshot includes the disks only, even of a running domain; it is
    instantaneous and without memory. The disks stay as they are, and the domain continues on
    overlay files next to them (external), which it owns. Deleting the snapshot merges these into
    the disks, even while the domain runs. Reverting to it needs libvirt 9.9, and is refused with
    older versions.
  - A domain can have snapshots of only one kind at a time, because libvirt cannot delete any if
    there are both.
  - Domains are refused if they have disks that are not qcow2, UEFI firmware or an emulated TPM
    (whose state is in files that a snapshot does not include), or saved memory, or if another run
    is working on them. Running domains are refused if they have shared folders or passed-through
    host devices, or if their memory would not fit on the file system of their first disk; neither
    applies with O(disk_only), which supports disks of any format that are files.
  - Reverting is refused if a disk was added or removed since. The metadata of this collection is
    reverted as well, except for the list of volumes that the domain owns.
  - Snapshots that were created by other means can be reverted to and deleted by name like those of
    this module, if they are internal. For external ones, the error names them and says what to do.
  - If one of several domains is refused, none is touched.
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
    support: partial
    details:
      - With O(state=reverted) each call reverts, because it is not known what has happened since
        the snapshot.
options:
  names:
    description:
      - Names of the domains. One that is not defined on the hypervisor is an error.
    type: list
    elements: str
    required: true
    aliases: [name]
  snapshot:
    description:
      - Name of the snapshot, of which each domain has its own. A new name has at most 63 letters,
        digits and C(_.+-), of which the first is a letter or digit.
      - Always required.
    type: str
  state:
    description:
      - V(present) takes the snapshot, unless one of that name already exists.
      - V(reverted) reverts to it. The disks are as they were, and what was written since is lost.
        If the snapshot includes memory, the domain resumes from there; otherwise it is shut off.
      - V(absent) deletes it. The disks stay as they are now.
    type: str
    choices: [present, reverted, absent]
    default: present
  children:
    description:
      - With O(state=absent), also delete the snapshots that were taken after it. Without this, they
        become children of the one before it.
    type: bool
    default: false
  keep:
    description:
      - With O(state=present), maximum number of snapshots of this collection to keep per domain,
        from 1 to 1000. The oldest beyond that are deleted after the new one was taken. Those
        created by other means do not count, and stay.
      - Unlimited by default.
    type: int
  disk_only:
    description:
      - With O(state=present), take a snapshot of the disks only, in separate files.
    type: bool
    default: false
  quiesce:
    description:
      - Whether the guest agent freezes the guest's file systems while a snapshot with O(disk_only)
        is taken of a running domain, so that they are consistent in it. Otherwise the snapshot is
        crash-consistent, as after a power failure. The guest thaws after 90 seconds, whatever
        happens to the run.
      - V(auto) freezes them if an agent responds, V(always) refuses the domain if none does, and
        V(never) does not try.
    type: str
    choices: [auto, always, never]
    default: auto
seealso:
  - module: fleet.virt.virt_query
    description: Also shows the snapshots of domains.
"""

EXAMPLES = r"""
- name: Take a snapshot before an upgrade, and keep three
  fleet.virt.virt_snapshot:
    name: web1
    snapshot: before-upgrade
    keep: 3

- name: Revert to it
  fleet.virt.virt_snapshot:
    name: web1
    snapshot: before-upgrade
    state: reverted

- name: Delete it
  fleet.virt.virt_snapshot:
    name: web1
    snapshot: before-upgrade
    state: absent

- name: Take a snapshot of the disks only, without pausing the guest to save its memory
  fleet.virt.virt_snapshot:
    name: web1
    snapshot: nightly
    disk_only: true
    quiesce: always
"""

RETURN = r"""
vms:
  description: One entry for each domain; in playbooks of this collection it may have its snapshots.
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
      description: Whether anything was done.
      type: bool
    steps:
      description: What was done, in order.
      type: list
      elements: str
      sample: [take snapshot before-upgrade with its memory]
    snapshots:
      description: Names of its snapshots afterwards, the oldest first.
      type: list
      elements: str
    current:
      description: The current snapshot; null if there is none.
      type: str
    failed:
      description: Whether it failed.
      type: bool
    not_tried:
      description:
        - Whether nothing was done for it because another one of the same call failed.
      type: bool
    msg:
      description: Why not; else null.
      type: str
shares:
  description: The names of the domains that each hypervisor works on.
  returned: in playbooks of this collection
  type: dict
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from collections.abc import Mapping, Sequence

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_verb as verb,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import effects as snapshot
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.options import (
    ARGUMENTS,
    SnapshotWork,
    wanted_of,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def act(connection: Connection, names: Sequence[str]) -> Mapping[str, object]:
        return snapshot.run(connection, names, wanted_of(params), check=module.check_mode)

    run(module, lambda: verb.stage(params, SnapshotWork, snapshot.look, act))


if __name__ == "__main__":
    main()
