#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_verify_backups
short_description: Prove backups of VMs by booting them
version_added: 0.1.0
description:
  - For the playbook C(fleet.virt.verify_backups), which finds the backups, chooses a hypervisor for
    each, and records beside it what was found. Used alone it removes what proofs that were killed
    have left on the hypervisor.
  - Each backup is booted as a transient VM of its own, without a network and without anything of
    the hypervisor. Its disks are overlays over the archive, which borg shows to QEMU (FUSE), so
    nothing is copied, and the archive stays as it is. UEFI variables and the state of an emulated
    TPM are copies. It is asked by its guest agent and its serial consoles, and a screenshot is
    taken.
  - What cannot boot on any hypervisor is read, and compared with the digests in its manifest.
  - Nothing is left afterwards. The VM and its files end with the run, however that ends; after a
    power failure the next run, or the playbook C(fleet.virt.repair_vms), removes the files.
  - Needs borg (package borgbackup), FUSE (packages fuse3 and python3-pyfuse3) and qemu-img (package
    qemu-utils) on the hypervisor.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - Says what would be proven where, and boots nothing.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each run makes one more proof of each backup.
options:
  names:
    description:
      - Names of the VMs when they were saved, patterns, or their UUIDs. All of them by default.
    type: list
    elements: str
    default: []
  place:
    description:
      - Where the backups are, a folder or C(ssh://user@host/folder), in which each VM has a
        repository by its UUID. Not needed to remove what was left.
    type: str
    default: ""
  passphrase:
    description:
      - The passphrase of the repositories. It is given to borg through a pipe.
    type: str
    default: ""
  ssh_key:
    description:
      - Private key with which root on the hypervisor reaches a server of backups, if not its own.
    type: path
  archive:
    description:
      - The one archive of one VM to prove, for example V(2026-11-28T06:51:18Z).
    type: str
  backups:
    description:
      - Whether the newest backup of each VM is proven, or all of them.
    type: str
    choices: [newest, all]
    default: newest
  sample:
    description:
      - How many of these to prove, those first that were never verified, then those whose last
        verification is longest ago. All of them by default.
    type: int
  depth:
    description:
      - V(boot) boots a backup and asks it. V(read) compares every byte of it with the digests in
        its manifest first.
    type: str
    choices: [boot, read]
    default: boot
  boot_seconds:
    description:
      - How long a guest may take until it answers.
    type: int
    default: 300
  folder:
    description:
      - Folder on the hypervisor for what guests write meanwhile.
    type: path
    default: /var/lib/fleet-virt/proofs
  overlay_mib:
    description:
      - How much a guest may write, in MiB, before its proof is given up.
    type: int
    default: 4096
  page:
    description:
      - File on the controller for a page with what was found and the screens, in one piece.
    type: path
  output:
    description:
      - What the result is shown as.
    type: str
    choices: [table, json, yaml, csv]
    default: table
  output_file:
    description:
      - File on the controller to write that to, instead of the screen.
    type: path
  base_pool:
    description:
      - Name of the storage pool of base images.
    type: str
    default: base
  base_path:
    description:
      - Folder of that pool.
    type: path
    default: /var/lib/libvirt/base
seealso:
  - module: fleet.virt.virt_backup_info
    description: Lists backups with what is proven of them.
"""

EXAMPLES = r"""
- name: Remove what proofs that were killed have left
  fleet.virt.virt_verify_backups:
"""

RETURN = r"""
removed:
  description: The VMs of proofs that were killed, of which something was left.
  returned: when used alone
  type: list
  elements: str
backups:
  description: What was found of each backup.
  returned: in playbooks of this collection
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM when it was saved.
      type: str
    uuid:
      description: Its UUID, which is the name of its repository.
      type: str
    archive:
      description: Name of the backup.
      type: str
    hypervisor:
      description: Where it was proven.
      type: str
    state:
      description: V(proven), V(read back) or V(failed); else V(listed and complete).
      type: str
    proof:
      description: V(booted), V(read back), V(failed); null where nothing is known.
      type: str
    how:
      description: How that is known.
      type: str
      sample: "agent: web1, console: login prompt, screenshot after 12 s"
    seconds:
      description: How long it took until it answered.
      type: int
    screenshot:
      description: Whether there is one.
      type: bool
    recorded:
      description: The archive with the proof.
      type: str
    changed:
      description: Whether a proof was recorded.
      type: bool
    failed:
      description: Whether the backup is bad, or nothing is known of it.
      type: bool
    msg:
      description: Why nothing is known of it; else null.
      type: str
vms:
  description: What a hypervisor found of the backups that it was to prove.
  returned: in playbooks of this collection
  type: list
  elements: dict
host:
  description: This hypervisor, as placement sees it.
  returned: in playbooks of this collection
  type: dict
entries:
  description: What it could prove.
  returned: in playbooks of this collection
  type: list
  elements: dict
notes:
  description: What has to be known of the place, such as backups that are later than the clock.
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
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import effects, read
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.options import (
    ARGUMENTS,
    VerifyWork,
    verify_options,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def answer() -> Mapping[str, object]:
        options = verify_options(params)
        work = envelope.read(VerifyWork, params)
        with connect(params["uri"], params["timeout"]) as connection:
            if work.stage == "look":
                return read.look(connection, options, work.vms)
            if work.stage == "boot":
                return effects.run(connection, options, work.vms, check=module.check_mode)
            return effects.clear(connection, options["folder"], check=module.check_mode)

    run(module, answer)


if __name__ == "__main__":
    main()
