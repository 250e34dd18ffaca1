#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_migrate
short_description: Move VMs to another hypervisor
version_added: 0.1.0
description:
  - Moves VMs of this hypervisor to others, with their disks, while they run. A VM that is shut off
    is moved the same way, started but paused, and shut off again afterwards.
  - Both ends are checked first, and all reasons against the move are returned at once. Check mode
    stops there, and also returns the flow and the number of bytes to transfer.
  - Memory and disks are transferred by libvirt's native migration, from hypervisor to hypervisor,
    encrypted (TLS), to a specified address. No data passes through the controller.
  - The volumes on the destination are thin-provisioned. For an overlay only the overlay itself is
    transferred; its base image has to exist there with the same digest; the playbooks transfer it
    from a hypervisor that has it, over libvirt's TLS.
  - The VM's own volumes are removed here once it runs there. If anything fails, the VM keeps
    running on the source, and the destination is cleaned up.
  - The move continues if this module or the controller is killed. When run again, the same task
    joins it, finishes it or undoes it.
  - The playbook C(fleet.virt.migrate_vm) finds the VM and chooses the destination.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - Values known only afterwards (bytes, seconds, downtime) are V((generated\)). Files that were
        put into a pool of the destination without libvirt's knowledge are only found by the real
        run.
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - A VM that is already on the destination is left unchanged.
options:
  uri:
    description:
      - Has to be a hypervisor on the machine that the module runs on.
  vms:
    description:
      - The VMs to move.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - Name of the VM.
        type: str
        required: true
      destination:
        description:
          - The hypervisor that it is moved to.
        type: dict
        required: true
        suboptions:
          name:
            description:
              - Its name in the inventory.
            type: str
            required: true
          address:
            description:
              - Name or address at which this hypervisor reaches the destination. The destination's
                certificates have to contain it, and it listens there for memory and disks. Defaults
                to its name.
            type: str
          bridges:
            description:
              - Bridges that it has, if its libvirt cannot report them.
            type: list
            elements: str
          marked:
            description:
              - Whether it may have the maintenance mark, which is otherwise a reason against the
                move.
            type: bool
            default: false
          expired:
            description:
              - Descriptions of expired certificates that QEMU would present there. They are reasons
                against the move.
            type: list
            elements: str
            default: []
          missing_certificates:
            description:
              - Descriptions of certificates that QEMU would need there and that do not exist. They
                are reasons against the move.
            type: list
            elements: str
            default: []
          needed:
            description:
              - In check mode, the bytes that those base images will take of pools, by the pools'
                folders.
            type: dict
            default: {}
          coming:
            description:
              - In check mode, paths of base images that do not exist there yet but will.
            type: list
            elements: str
            default: []
      lost_source:
        description:
          - The source hypervisor, if it is permanently gone before the move was complete. The
            module then runs on the destination, O(vms[].destination) is this hypervisor, and
            O(state) is V(repaired). The move of a VM that has arrived is finished here. A VM that
            has not is lost with that hypervisor, which is a failure. No VM is started, and only
            empty volumes are removed.
          - This is rejected while that hypervisor responds.
        type: dict
        suboptions:
          name:
            description:
              - Its name in the inventory.
            type: str
            required: true
          addresses:
            description:
              - Names or addresses at which it was reached. Nothing may accept a connection there,
                for SSH or libvirt.
            type: list
            elements: str
            default: []
  state:
    description:
      - V(moved) moves the VMs.
      - V(repaired) starts nothing new. An interrupted move is finished if the VM is on its
        destination, joined if it is still in progress, and undone otherwise. A VM that may run on
        the other end is never touched until that end confirms that it does not.
    type: str
    choices: [moved, repaired]
    default: moved
  source:
    description:
      - Name of this hypervisor in the inventory. Defaults to its host name.
    type: str
  keep_volumes:
    description:
      - Leave the volumes here after the VM has moved. They then belong to no VM.
    type: bool
    default: false
  eject_media:
    description:
      - Eject what is in the VM's drives before it moves, instead of taking it along. A medium goes
        along if it is a base image, which the playbooks bring to the destination, or on storage
        that both share; otherwise the VM is not moved.
    type: bool
    default: false
  parallel:
    description:
      - Number of VMs that are moved from here at the same time.
    type: int
    default: 2
  bandwidth:
    description:
      - Bandwidth limit in MiB per second, for the memory and for each disk of a VM. Unlimited by
        default.
    type: int
  max_downtime:
    description:
      - Milliseconds for which the guest may be paused at the end. The move starts with a fraction
        of this, which is doubled until it reaches the full value after half of the time that
        O(seconds_per_gib) allows. Defaults to QEMU's own value.
    type: int
  auto_converge:
    description:
      - Slow the guest down if it changes its memory faster than it can be transferred.
    type: bool
    default: true
  tunnelled:
    description:
      - Transfer memory inside libvirt's own connection, so that only port 16514 is needed. Disks
        cannot be transferred that way, so each has to be on storage that both hypervisors share.
    type: bool
    default: false
  parallel_connections:
    description:
      - Number of parallel connections for the memory; defaults to one. Versions of QEMU and libvirt
        that do not support this refuse the move.
    type: int
  seconds_per_gib:
    description:
      - Seconds that the move may take per GiB of memory and disks, counting at least two GiB. See
        O(on_timeout) for what happens then.
    type: int
    default: 800
  on_timeout:
    description:
      - V(abort) aborts a move that takes too long, and the VM keeps running on the source.
      - V(pause) pauses the guest, so that its memory no longer changes, until it is on the
        destination; if that takes as long again, and over a minute, the move is aborted and the VM
        keeps running on the source.
      - Post-copy is not offered, because a broken connection would lose the VM.
      - A move without progress for two minutes is aborted in any case.
    type: str
    choices: [abort, pause]
    default: abort
  base_pool:
    description:
      - Name of the pool of base images, where an earlier version may have set the maintenance
        mark.
    type: str
    default: base
seealso:
  - module: fleet.virt.virt_place
    description: Chooses hypervisors for new VMs.
"""

EXAMPLES = r"""
- name: Move a VM to another hypervisor
  fleet.virt.virt_migrate:
    vms:
      - name: web1
        destination:
          name: hv2

- name: Finish or undo a move that was interrupted
  fleet.virt.virt_migrate:
    state: repaired
    vms:
      - name: web1
        destination:
          name: hv2

- name: Move a VM, slowly, over the network for migrations
  fleet.virt.virt_migrate:
    vms:
      - name: db1
        destination:
          name: hv2
          address: 192.0.2.12
    bandwidth: 50
"""

RETURN = r"""
vms:
  description: One entry for each VM, in the order of O(vms).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    source:
      description: Name of this hypervisor, or of the lost one.
      type: str
    destination:
      description: Name of the hypervisor that it was moved to.
      type: str
    flow:
      description: How it moved, V(copy) with full disks, V(overlay) with overlays on base images,
        V(shared) with disks that both hypervisors share, V(memory) without disks, V(offline) while
        it was shut off, V(finish) for the rest of an interrupted move, V(undo) for one that was
        undone, so that the VM is on the source, V(lost) for a VM that was lost with its source
        hypervisor (O(vms[].lost_source)), V(none) if it was already on the destination; null if it
        was not moved.
      type: str
    steps:
      description: What was done, in order.
      type: list
      elements: str
    findings:
      description: All reasons against the move; if there are any, nothing was done.
      type: list
      elements: str
    kept:
      description: Files of the VM that stay on the source, or on the destination of a move that was
        undone, and why; and checkpoints, whose records libvirt does not move.
      type: list
      elements: str
    progress:
      description: Progress of the move, a line every three seconds. The lines are also shown during
        the move if Ansible reaches the hypervisor by SSH without a password.
      type: list
      elements: str
    bytes_to_copy:
      description: Allocated bytes of disks to transfer.
      type: int
    bytes:
      description: Bytes of memory and disks that were transferred; null if none were.
      type: int
    seconds:
      description: Total duration.
      type: float
    downtime_ms:
      description: Milliseconds for which the guest was paused.
      type: int
    changed:
      description: Whether anything was changed.
      type: bool
    failed:
      description: Whether it could not be moved.
      type: bool
    msg:
      description: Why not, and what to do; or that it was already on the destination; else null.
      type: str
    note:
      description: A remark even though nothing failed, such as that the VM was running before its
        hypervisor went down during the move and is now shut off; else null.
      type: str
expired:
  description: Descriptions of expired certificates that QEMU presents when a VM arrives.
  returned: in playbooks of this collection
  type: list
  elements: str
missing_certificates:
  description: Descriptions of certificates that QEMU needs when a VM arrives and that do not exist.
  returned: in playbooks of this collection
  type: list
  elements: str
claims:
  description: VMs for which this hypervisor holds a claim while they move to it, each with C(name),
    C(source) and C(destination).
  returned: in playbooks of this collection
  type: list
  elements: dict
host:
  description: The hypervisor as placement sees it, as RV(fleet.virt.virt_host_info#module:host).
  returned: in playbooks of this collection
  type: dict
bases:
  description: For each hypervisor that lacks some, the base images that VMs need there; or a list
    of the paths that exist now.
  returned: in playbooks of this collection
  type: raw
shares:
  description: VMs to move from each hypervisor, as O(vms).
  returned: in playbooks of this collection
  type: dict
limits:
  description: For each hypervisor, the timeout for moving its VMs, in seconds.
  returned: in playbooks of this collection
  type: dict
problems:
  description: Interrupted moves that cannot be checked now, and VMs that cannot leave or come back,
    and why.
  returned: in playbooks of this collection
  type: list
  elements: str
cards:
  description: With O(state=repaired), VMs whose cards on shared storage were not as they should be.
  returned: in playbooks of this collection
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    problem:
      description: Why no run can change that; null if one can, or did.
      type: str
    leftover:
      description:
        - Disks of a VM that was restarted elsewhere, of which only the definition was left here; it
          is removed, and they are kept. Else null.
      type: list
      elements: str
unmanaged:
  description: With O(state=repaired), VMs that their cell did not manage, since a killed run held
    them, or that it did not know.
  returned: in playbooks of this collection
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    uuid:
      description: UUID of the VM.
      type: str
    held_by:
      description: The hypervisor of that run; null for a VM that the cell did not know.
      type: str
    problem:
      description: Why the cell cannot manage it yet; null if it can, or does.
      type: str
    at_work:
      description: Whether that run lives.
      type: bool
settled:
  description: VMs that are where they should be.
  returned: in playbooks of this collection
  type: list
  elements: str
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
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects as migration,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_jobs as migration_jobs,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    options as migration_options,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    read_candidates as migration_look,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.options import (
    ARGUMENTS,
    MigrateWork,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def work() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            stage = envelope.read(MigrateWork, params)
            if stage.stage == "look":
                return migration_look.look(
                    connection,
                    stage.names,
                    params["base_pool"],
                    stage.base_path,
                    groups=stage.groups,
                    unfinished=params["state"] == "repaired" or bool(stage.evacuated),
                    cards=params["state"] == "repaired",
                    every=bool(stage.evacuated) and stage.evacuated == params["source"],
                    home=stage.home or None,
                )
            if stage.stage == "compare":
                return migration_look.compare(connection, stage.named)
            ask = connection.conn.getHostname
            here = params["source"] or str(connection.call("read the host name", ask))
            settings = migration_jobs.MigrationSettings(
                *(here, params["base_pool"], migration_options.options(params)),
                repair=params["state"] == "repaired",
                parallel=params["parallel"],
                evacuating=bool(stage.evacuated) and stage.evacuated == here,
                places=stage.places,
                cards=stage.cards,
                unmanaged=stage.unmanaged,
            )
            wanted = migration_options.moves(params["vms"], here, repair=settings.repair)
            return migration.run(connection, wanted, settings, check=module.check_mode)

    run(module, work)


if __name__ == "__main__":
    main()
