#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_daemon
short_description: Have libvirt's daemons configured, running, and listening on verified TLS only
version_added: 0.1.0
description:
  - Configures libvirt's daemons and begins them. Settings stand in one block of each file, between
    two marks, and hold whatever else the file says; lines of the site are left as they are, and
    those that have no effect because of the block are returned.
  - Works with one daemon behind systemd's sockets, with one that opens its port itself
    (C(--listen)), and with a daemon for each driver (C(virtqemud), C(virtproxyd)). Which of them a
    machine has is seen from its units, and stays so.
  - Remote connections are accepted on port 16514, by TLS with a certificate verified by the other
    side's CA, and only once keys are there. TLS 1.3 is accepted, and of TLS 1.2 the ciphers that
    are forward secret and authenticated. A socket without encryption is switched off. The module
    fails when libvirt still listens on any other port.
  - A daemon begins anew only if a file that it reads is newer than it is, or if a socket has to be
    opened. Guests go on meanwhile; C(virtlockd) and C(libvirt-guests) are never begun anew.
  - Either all files are changed or none, also when the disk is full. If libvirt does not work with
    the settings, the former ones are put back and the module fails.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - Also before libvirt is installed. The settings it will ship are not known then.
  diff_mode:
    support: full
    details:
      - Shows our blocks only. What else is in these files may be a secret.
  idempotent:
    support: full
options:
  uri:
    description:
      - What is connected to in the end, to see that libvirt works.
  listen:
    description:
      - Whether remote connections are accepted. Without keys they are not, which is no error;
        RV(reason) says so.
    type: bool
    default: true
  tls_allowed_dn_list:
    description:
      - Names of clients that are accepted, as in C(libvirtd.conf), for example V(O=Fleet,CN=*).
        With an empty list everyone with a certificate of the CA is.
      - A change takes a restart of the daemon, which ends migrations that are on their way.
    type: list
    elements: str
    default: []
  qemu_conf:
    description:
      - Settings of the site for C(qemu.conf), by their names. Values are numbers, true or false,
        texts, or lists of texts.
      - By default migration is possible with TLS only, network disks (NBD) use TLS, and the other
        side is verified. Screens (VNC) are on loopback without TLS, to be reached through SSH; with
        another C(vnc_listen) they use TLS and want a certificate. C(vnc_tls),
        C(vnc_tls_x509_verify) and C(nbd_tls) can be set otherwise here.
      - Refused if a guest whose own definition has its screen open to the network would lose TLS.
      - C(security_driver) and C(dynamic_ownership) are refused, and so are passwords.
    type: dict
    default: {}
  lockspace:
    description:
      - Folder, on storage that hypervisors share, for the leases of C(virtlockd). With it no disk
        can be used by guests on two hypervisors at once. All that share disks need the same folder.
      - Can only be changed while no guest runs here.
    type: path
  postcopy:
    description:
      - Whether guests may be received by post-copy migration, which needs the kernel's
        C(vm.unprivileged_userfaultfd).
      - When switched off again, the kernel keeps its setting until it boots.
    type: bool
    default: false
  shutdown_timeout:
    description:
      - How long guests may take to shut down, all together, when this machine does, in seconds.
    type: int
    default: 300
  shutdown_parallel:
    description:
      - How many guests shut down at the same time then.
    type: int
    default: 10
seealso:
  - module: fleet.virt.virt_pool
    description: Has the storage pools there.
"""

EXAMPLES = r"""
- name: Have libvirt configured and listening
  fleet.virt.virt_daemon:
    qemu_conf:
      keepalive_count: 5
      keepalive_interval: 10
    shutdown_timeout: 120
"""

RETURN = r"""
shape:
  description: How libvirt runs here, V(sockets), V(listen) or V(modular).
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
  description: What was done, in order, or would be in check mode.
  returned: success
  type: list
  elements: str
overruled:
  description: Assignments of the site that have no effect because of our block.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.hypervisor import daemon


def main() -> None:
    module = create_module(
        {
            "listen": {"type": "bool", "default": True},
            "tls_allowed_dn_list": {"type": "list", "elements": "str", "default": []},
            "qemu_conf": {"type": "dict", "default": {}},
            "lockspace": {"type": "path"},
            "postcopy": {"type": "bool", "default": False},
            "shutdown_timeout": {"type": "int", "default": 300},
            "shutdown_parallel": {"type": "int", "default": 10},
        }
    )
    params = module.params
    settings = daemon.Settings(
        params["uri"],
        params["timeout"],
        params["listen"],
        tuple(params["tls_allowed_dn_list"]),
        params["qemu_conf"],
        params["lockspace"],
        params["postcopy"],
        params["shutdown_timeout"],
        params["shutdown_parallel"],
    )

    def work() -> daemon.Returned:
        result = daemon.configure(settings, module.check_mode)
        for line in result["overruled"]:
            module.warn(f"without effect, because the block of this collection comes first: {line}")
        return result

    run(module, work, needs_libvirt=not module.check_mode)


if __name__ == "__main__":
    main()
