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
  - Moves VMs of this hypervisor to others, with their disks, while they run. One that is shut off
    is moved the same way, started but paused, and is shut off again afterwards.
  - Everything is looked at on both ends first, and everything that speaks against the move is
    returned at once. In check mode that is all, with the flow and the bytes that would travel.
  - Memory and disks go by libvirt's native migration, from hypervisor to hypervisor and encrypted
    (TLS), to an address that is named. No data passes through the controller.
  - The volumes on the destination are made thin. Of an overlay only what is in the overlay travels;
    its base image has to be there under the same digest; the playbooks have it brought there from
    a hypervisor that has it, by libvirt's TLS.
  - The VM's own volumes are removed here after it runs there. Whatever fails, it goes on where it
    was, and the destination is cleaned.
  - The move goes on when this module or the controller is killed. Run again, the same task joins
    it, finishes it or undoes it.
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
      - What is known only afterwards (bytes, seconds, downtime) reads V((generated\)). Files that
        somebody put into a pool of the destination behind libvirt's back are found by the real run.
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - A VM that is on the destination already is left alone.
options:
  uri:
    description:
      - Has to be a hypervisor of the machine that the module runs on.
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
          - The hypervisor it goes to.
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
              - Name or address that this hypervisor reaches it by. Its certificates have to name
                it, and it listens there for the memory and the disks. Left out, its name.
            type: str
          bridges:
            description:
              - Bridges it has, where its libvirt cannot tell.
            type: list
            elements: str
          marked:
            description:
              - Whether it may have the maintenance mark, which is a reason against the move else.
            type: bool
            default: false
          expired:
            description:
              - Certificates there that QEMU would show and that have expired, in words. They are
                reasons against the move.
            type: list
            elements: str
            default: []
          coming:
            description:
              - In check mode, volumes of base images that are not there now and will be.
            type: list
            elements: str
            default: []
      lost_source:
        description:
          - The hypervisor that the VM came from, if it is gone for good before the move was over.
            Then this runs on the destination, O(vms[].destination) is this hypervisor, and
            O(state) is V(repaired). A VM that has arrived is finished here. One that has not is
            lost with that hypervisor, which is a failure. No VM is started, and no volume is
            removed but such that hold nothing.
          - It is not believed while that hypervisor answers.
        type: dict
        suboptions:
          name:
            description:
              - Its name in the inventory.
            type: str
            required: true
          addresses:
            description:
              - Names or addresses it was reached by. Nothing may accept a connection there, to SSH
                or to libvirt.
            type: list
            elements: str
            default: []
  state:
    description:
      - V(moved) moves the VMs.
      - V(repaired) begins nothing new. A move that was interrupted is finished if the VM is on its
        destination, joined if it still goes on, and undone else. A VM that may run on the other end
        is never touched before that end says that it does not.
    type: str
    choices: [moved, repaired]
    default: moved
  source:
    description:
      - Name of this hypervisor in the inventory. Left out, its host name.
    type: str
  keep_volumes:
    description:
      - Leave the volumes here when the VM has gone. They are nobody's then.
    type: bool
    default: false
  parallel:
    description:
      - VMs that move from here at the same time.
    type: int
    default: 2
  bandwidth:
    description:
      - Most that may travel, in MiB a second, for the memory and for each disk of a VM. Left out,
        no limit.
    type: int
  max_downtime:
    description:
      - Milliseconds that the guest may stand still at the end. It begins with a part of that, which
        is doubled until it is all of it at half of the time O(seconds_per_gib) gives. Left out,
        QEMU's default.
    type: int
  auto_converge:
    description:
      - Slow the guest down when it changes its memory faster than that travels.
    type: bool
    default: true
  tunnelled:
    description:
      - Let memory travel inside libvirt's own connection, so that port 16514 alone is needed. No
        disk goes that way, so each has to be on storage that both hypervisors have.
    type: bool
    default: false
  parallel_connections:
    description:
      - Connections that memory travels over at the same time; left out, one. Versions of QEMU and
        libvirt that cannot do it refuse the move.
    type: int
  seconds_per_gib:
    description:
      - Seconds that the move may take for each GiB of memory and disks, at least for two. What
        happens then says O(on_timeout).
    type: int
    default: 800
  on_timeout:
    description:
      - V(abort) ends a move that takes too long, and the VM goes on where it was.
      - V(pause) pauses the guest, so that its memory changes no more, until it is on the
        destination; if that takes as long again, and over a minute, the move is ended and the VM
        goes on where it was.
      - Post-copy is not offered, as a link that breaks during it would lose the VM.
      - A move of which nothing travels for two minutes is ended in any case.
    type: str
    choices: [abort, pause]
    default: abort
  base_pool:
    description:
      - Name of the pool of base images, in which the maintenance mark is.
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
      description: Name of this hypervisor, or of the one that is lost.
      type: str
    destination:
      description: Name of the hypervisor it went to.
      type: str
    flow:
      description: How it moved, V(copy) with whole disks, V(overlay) with what lies on base images,
        V(shared) with disks that both hypervisors have, V(memory) without disks, V(offline) while
        it was shut off, V(finish) for the rest of an interrupted move, V(undo) for one that was
        undone, so that the VM is where it was, V(lost) for a VM that was lost with the hypervisor
        that it came from (O(vms[].lost_source)), V(none) if it was there already; null if nothing
        came of it.
      type: str
    steps:
      description: What was done, in order.
      type: list
      elements: str
    findings:
      description: Everything that speaks against the move; then nothing was done.
      type: list
      elements: str
    kept:
      description: Files of the VM that stay here, and why.
      type: list
      elements: str
    progress:
      description: What was seen of the move on the way, a line every three seconds. They are
        shown meanwhile where Ansible reaches the hypervisor by SSH without a password.
      type: list
      elements: str
    bytes_to_copy:
      description: Bytes of disks that have to travel, as allocated.
      type: int
    bytes:
      description: Bytes of memory and disks that travelled; null if none did.
      type: int
    seconds:
      description: How long it took in all.
      type: float
    downtime_ms:
      description: Milliseconds for which the guest stood still.
      type: int
    changed:
      description: Whether anything was changed.
      type: bool
    failed:
      description: Whether it could not be moved.
      type: bool
    msg:
      description: Why not, and what to do; or that it was there already; else null.
      type: str
    note:
      description: What is to be known though nothing failed, such as that the VM ran before its
        hypervisor went down in the middle of the move, and is shut off now; else null.
      type: str
expired:
  description: Certificates that QEMU shows when a VM comes and that have expired, in words.
  returned: in playbooks of this collection
  type: list
  elements: str
claims:
  description: VMs that a place is kept for on this hypervisor while they move to it, each with
    C(name), C(source) and C(destination).
  returned: in playbooks of this collection
  type: list
  elements: dict
host:
  description: The hypervisor as placement sees it, as RV(fleet.virt.virt_host_info#module:host).
  returned: in playbooks of this collection
  type: dict
bases:
  description: For each hypervisor that lacks some, the base images that VMs need there; or a list
    of the volumes that are there now.
  returned: in playbooks of this collection
  type: raw
shares:
  description: For each hypervisor the VMs to move from there, as O(vms).
  returned: in playbooks of this collection
  type: dict
limits:
  description: For each hypervisor the seconds that moving its VMs may take before it is given up.
  returned: in playbooks of this collection
  type: dict
problems:
  description: Interrupted moves that cannot be looked at now, and VMs that cannot leave or come
    back, and why.
  returned: in playbooks of this collection
  type: list
  elements: str
settled:
  description: VMs that are where they are to be.
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
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.migration import (
    jobs as migration_jobs,
)
from ansible_collections.fleet.virt.plugins.module_utils._effects.migration import (
    look as migration_look,
)
from ansible_collections.fleet.virt.plugins.module_utils._effects.migration import migration
from ansible_collections.fleet.virt.plugins.module_utils._pure.migration import (
    request as migration_request,
)
from ansible_collections.fleet.virt.plugins.module_utils._pure.migration.options import (
    ARGUMENTS,
    INTERNAL,
)


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    params = module.options

    def work() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            if params["_stage"] == "look":
                return migration_look.look(
                    connection,
                    params["_names"],
                    params["base_pool"],
                    params["_base_path"],
                    unfinished=params["state"] == "repaired" or bool(params["_evacuated"]),
                    every=bool(params["_evacuated"]) and params["_evacuated"] == params["source"],
                    home=params["_home"],
                )
            ask = connection.conn.getHostname
            here = params["source"] or str(connection.call("read the host name", ask))
            settings = migration_jobs.Settings(
                here,
                params["base_pool"],
                migration_request.options(params),
                repair=params["state"] == "repaired",
                parallel=params["parallel"],
                evacuating=bool(params["_evacuated"]) and params["_evacuated"] == here,
            )
            wanted = migration_request.moves(params["vms"], here, repair=settings.repair)
            jobs = [migration_jobs.Job(*one) for one in wanted]
            return migration.run(connection, jobs, settings, check=module.check_mode)

    run(module, work)


if __name__ == "__main__":
    main()
