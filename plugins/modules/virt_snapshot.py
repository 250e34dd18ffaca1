#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_snapshot
short_description: Take snapshots of domains, go back to them, delete them
version_added: 0.2.0
description:
  - Takes a snapshot of each domain, goes back to it, or deletes it. A snapshot of a domain that
    runs has its memory too, so that it goes on from that moment; one of a domain that is off has
    its disks.
  - Such snapshots are internal, which is to say in the qcow2 files of the disks. They need no file
    of their own, and what the disks lie on, such as a base image, is not changed. Every version of
    libvirt can go back to them and delete them, also while the domain runs.
  - With O(disk_only) a snapshot is of the disks alone, also of a domain that runs, in a moment and
    without its memory. The disks stay as they are, and the domain goes on in files beside them
    (external), which are its own. Deleting it merges these into the disks, also while the domain
    runs. Going back to it needs libvirt 9.9, and is refused by older ones.
  - A domain has snapshots of one of both kinds at a time, since libvirt deletes none where both
    are.
  - Refused are domains with disks that are not qcow2, with UEFI firmware or an emulated TPM, whose
    state is in files that no snapshot holds, with saved memory, and those that another run is at
    work on. So are running domains with shared folders or devices of their hypervisor, and those
    whose memory would not fit on the file system of their first disk, neither of which matters with
    O(disk_only). That takes disks of any format that are files.
  - Going back is refused where a disk came or went since. What this collection keeps with the
    domain goes back as well, except which volumes the domain owns.
  - Snapshots that others made are gone back to and deleted by name like those of this module, if
    they are internal. Those in files of their own are named, with what to do.
  - If something speaks against it for one of several domains, none is touched.
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
      - With O(state=reverted) each call goes back, since what has happened after the snapshot is
        not known.
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
      - Name of the snapshot, of which each domain has its own. A new one is made of letters, digits
        and C(_.+-), at most 63, of which the first is a letter or digit.
      - It is always required.
    type: str
  state:
    description:
      - V(present) takes the snapshot, unless there is one of that name already.
      - V(reverted) goes back to it. The disks are as they were, and what was written since is lost.
        A domain of which it has the memory runs from there, any other is shut off.
      - V(absent) deletes it. The disks stay as they are now.
    type: str
    choices: [present, reverted, absent]
    default: present
  children:
    description:
      - With O(state=absent), delete those that were taken after it as well. Without this they come
        from the one before it then.
    type: bool
    default: false
  keep:
    description:
      - With O(state=present), how many snapshots of this collection a domain is to have at most,
        from 1 to 1000. The oldest beyond that are deleted after the new one was taken. Those that
        others made count as none, and stay.
      - As many as there are, if left out.
    type: int
  disk_only:
    description:
      - With O(state=present), take the snapshot of the disks alone, in files of their own.
    type: bool
    default: false
  quiesce:
    description:
      - Whether the guest's file systems are frozen by its agent while a snapshot with O(disk_only)
        is taken of a domain that runs, so that they are whole in it. Else it is what a power cut
        would leave. A guest thaws after 90 seconds, whatever becomes of the run.
      - V(auto) freezes them where an agent answers, V(always) refuses where none does, and
        V(never) does not try.
    type: str
    choices: [auto, always, never]
    default: auto
seealso:
  - module: fleet.virt.virt_query
    description: Shows the snapshots of domains, too.
"""

EXAMPLES = r"""
- name: Take a snapshot before an upgrade, and keep three
  fleet.virt.virt_snapshot:
    name: web1
    snapshot: before-upgrade
    keep: 3

- name: Go back to it
  fleet.virt.virt_snapshot:
    name: web1
    snapshot: before-upgrade
    state: reverted

- name: Delete it
  fleet.virt.virt_snapshot:
    name: web1
    snapshot: before-upgrade
    state: absent

- name: Keep the disks as they are now, without stopping the guest for its memory
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
      description: The snapshot that the domain goes on from; null if from none.
      type: str
    failed:
      description: Whether it is not as was asked for.
      type: bool
    msg:
      description: Why not; else null.
      type: str
shares:
  description: The names that each hypervisor works on.
  returned: in playbooks of this collection
  type: dict
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.snapshots import snapshot
from ansible_collections.fleet.virt.plugins.module_utils._pure.snapshots.options import (
    ARGUMENTS,
    INTERNAL,
    wanted_of,
)


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    params = module.options

    def work() -> dict[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            if params["_stage"] == "look":
                return snapshot.look(connection, params["names"])
            wanted = wanted_of(params)
            return snapshot.run(connection, params["names"], wanted, check=module.check_mode)

    run(module, work)


if __name__ == "__main__":
    main()
