#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_daemon
short_description: Configure and start libvirt's daemons, listening on verified TLS only
version_added: 0.1.0
description:
  - Configures libvirt's daemons and starts them. Settings are in one marked block of each file, and
    override the rest of the file; the site's own lines are left as they are, and those that have no
    effect because of the block are returned.
  - Works with a monolithic daemon behind systemd's sockets, with one that opens its port itself
    (C(--listen)), and with modular daemons (C(virtqemud), C(virtproxyd)). Which of these a machine
    uses is detected from its units, and is not changed.
  - Remote connections are accepted on port 16514, by TLS with certificates verified against the CA,
    and only once keys are deployed. TLS 1.3 is accepted, and TLS 1.2 with ciphers that are forward
    secret and authenticated. An unencrypted socket is disabled. The module fails if libvirt still
    listens on any other port.
  - A daemon is restarted only if a file that it reads is newer than the process, or if a socket has
    to be opened. Guests keep running meanwhile; C(virtlockd) and C(libvirt-guests) are never
    restarted.
  - Either all files are changed or none, even when the disk is full. If libvirt does not work with
    the settings, the previous ones are restored and the module fails.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - Also works before libvirt is installed, when the settings it ships are not known yet.
  diff_mode:
    support: full
    details:
      - Shows only the blocks of this module. The rest of these files may contain secrets.
  idempotent:
    support: full
options:
  uri:
    description:
      - URI that is opened at the end to verify that libvirt works.
  listen:
    description:
      - Whether remote connections are accepted. Without keys they are not, which is not an error;
        see RV(reason).
    type: bool
    default: true
  tls_allowed_dn_list:
    description:
      - Distinguished names of clients that are accepted, as in C(libvirtd.conf), for example
        V(O=Fleet,CN=*). With an empty list every client with a certificate of the CA is accepted.
      - A change restarts the daemon, which aborts running migrations.
    type: list
    elements: str
    default: []
  qemu_conf:
    description:
      - The site's settings for C(qemu.conf), by name. Values are numbers, booleans, strings, or
        lists of strings.
      - By default migration is possible with TLS only, network disks (NBD) use TLS, and the peer is
        verified. VNC consoles listen on loopback without TLS, to be reached through SSH; with
        another C(vnc_listen) they use TLS and require a client certificate. C(vnc_tls),
        C(vnc_tls_x509_verify) and C(nbd_tls) can be overridden here.
      - A setting is refused if a guest whose definition exposes its console to the network would
        lose TLS.
      - C(security_driver) and C(dynamic_ownership) are refused, and so are passwords.
    type: dict
    default: {}
  lockspace:
    description:
      - Folder on shared storage for the leases of C(virtlockd). With it, no disk can be used by
        guests on two hypervisors at once. All hypervisors that share disks need the same folder.
      - Can only be changed while no guest runs here.
    type: path
  postcopy:
    description:
      - Whether guests may arrive by post-copy migration, which needs the kernel's
        C(vm.unprivileged_userfaultfd).
      - When this is disabled again, the kernel keeps the setting until the next boot.
    type: bool
    default: false
  shutdown_timeout:
    description:
      - Total time that guests may take to shut down when this machine shuts down, in seconds.
    type: int
    default: 300
  shutdown_parallel:
    description:
      - How many guests are then shut down at the same time.
    type: int
    default: 10
  ordered_autostart:
    description:
      - Whether guests with autostart are started in the order of their C(start_order) when this
        machine boots, with their delays, those without an order last. Without it libvirt starts
        them in no order.
      - A unit of systemd, C(fleet-virt-autostart.service), does so, which needs no controller, and
        which no target waits for. A guest that does not start is tried again for two minutes, for
        storage that appears late; then the next ones are started, and the unit fails. It leaves out
        guests on which a run was at work, and those that were restarted elsewhere meanwhile.
      - Nothing is started when this is switched on; it takes effect with the next boot.
    type: bool
    default: true
  host_uuid_source:
    description:
      - What libvirt takes as its UUID of this machine, by which other hypervisors know it. With
        V(smbios) the firmware's, with V(machine-id) the content of C(/etc/machine-id), unless the
        file of its daemon has C(host_uuid).
      - Without this option the setting stays as it is. The role P(fleet.virt.libvirtd#role) chooses
        V(machine-id) where the firmware has no UUID, or one that many machines have, if no other
        hypervisor has the same machine ID and none knows this one by another UUID.
      - A hypervisor with another UUID is another machine to the others.
    type: str
    choices: [smbios, machine-id]
seealso:
  - module: fleet.virt.virt_pool
    description: Ensures that the storage pools exist.
"""

EXAMPLES = r"""
- name: Configure libvirt and let it listen
  fleet.virt.virt_daemon:
    qemu_conf:
      keepalive_count: 5
      keepalive_interval: 10
    shutdown_timeout: 120
"""

RETURN = r"""
shape:
  description: How libvirt is activated here, V(sockets), V(listen) or V(modular).
  returned: success
  type: str
listening:
  description: Whether remote connections are accepted now.
  returned: success
  type: bool
reason:
  description: Why they are not; null if they are.
  returned: success
  type: str
steps:
  description: Steps that were carried out, in order, or would be in check mode.
  returned: success
  type: list
  elements: str
overruled:
  description: Settings of the site that have no effect because the block overrides them.
  returned: success
  type: list
  elements: str
"""

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_list
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import effects as daemon
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import read_machine
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon.options import (
    ARGUMENTS,
    INTERNAL,
)


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    params = module.options
    settings = daemon.DaemonSettings(
        params["uri"],
        params["timeout"],
        params["listen"],
        tuple(params["tls_allowed_dn_list"]),
        params["qemu_conf"],
        params["lockspace"],
        params["postcopy"],
        params["shutdown_timeout"],
        params["shutdown_parallel"],
        params["ordered_autostart"],
        params["host_uuid_source"],
        params["_stage"],
    )

    def work() -> t.Mapping[str, object]:
        if params["_stage"] == "machine":
            return read_machine.facts(params["uri"], params["timeout"], params["_about"])
        result = daemon.configure(settings, module.check_mode)
        for line in as_list(result.get("overruled")):
            module.warn(f"without effect, because the block of this collection comes first: {line}")
        return result

    needed = read_machine.is_installed() if params["_stage"] == "machine" else not module.check_mode
    run(module, work, needs_libvirt=needed)


if __name__ == "__main__":
    main()
