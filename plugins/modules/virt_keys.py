#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_keys
short_description: Manage the keys and certificates of hypervisors and controllers
version_added: 0.1.0
description:
  - Creates two independent certificate authorities (CA) on the controller. V(control) is for
    libvirt itself, V(data) for QEMU's own connections, such as migrations and consoles.
  - Each hypervisor generates its own private keys, which never leave it; it sends certificate
    requests and gets certificates and revocation lists. Only names from the inventory are signed,
    never what a hypervisor claims.
  - All files of a hypervisor are replaced at once, by renaming one link, and running daemons reload
    them without a restart. A daemon that has failed, for example because of an expired certificate,
    is started. A call that is killed is finished by the next.
  - Updates the keys of the hypervisor that it runs on, and the CAs, revocation lists and
    certificate of the controller. It contacts no other hypervisor, so all others of the fleet count
    as not responding; creating the first CA, and rotating one, needs all of them. For a fleet, use
    the role P(fleet.virt.libvirt_keys#role), which contacts all.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - Check mode creates no CA and no keys; values that depend on new ones are returned as
        "(generated)".
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - O(renew) and O(rotate) are orders, carried out each time they are given.
requirements:
  - openssl, or certtool of GnuTLS, on hypervisors that generate keys
  - the Python package cryptography on the controller, a dependency of ansible-core
options:
  keys_dir:
    description:
      - Folder of the CAs on the controller, accessible to its owner only. Required.
    type: path
  organization:
    description:
      - The organization (C(O)) in all certificates of the fleet, 1 to 40 letters, digits, blanks,
        dots, underscores or hyphens.
    type: str
    default: fleet
  client_name:
    description:
      - Common name in the controller's own certificate.
    type: str
    default: controller
  days:
    description:
      - Days for which certificates and revocation lists are valid.
    type: int
    default: 365
  ca_days:
    description:
      - Days for which a new CA is valid.
    type: int
    default: 3650
  renew_days:
    description:
      - Certificates and revocation lists with fewer days of validity left are renewed.
    type: int
    default: 30
  passphrase_variable:
    description:
      - Name of the variable with the passphrase of the CAs' keys. The name is given so that the
        passphrase is not in the task's arguments.
    type: str
  control_ca_variable:
    description:
      - Name of the variable with a CA for control, a mapping with C(certificate) and C(key) in PEM
        form, to use instead of one created here. The key is not written to disk.
    type: str
  data_ca_variable:
    description:
      - The same for data.
    type: str
  expected:
    description:
      - Names of all hypervisors of the fleet; defaults to the group C(hypervisors). One that is not
        contacted, or not in the play (C(--limit)), counts as not responding when a CA is created or
        rotated.
    type: list
    elements: str
  lost:
    description:
      - Hypervisors that are permanently gone, and whose response is not required.
    type: list
    elements: str
    default: []
  names:
    description:
      - Additional DNS names and addresses of a hypervisor for its certificates.
    type: list
    elements: str
    default: []
  renew:
    description:
      - Give new keys and certificates, even if the present ones are valid.
    type: bool
    default: false
  rotate:
    description:
      - Start to rotate the CA of V(control), V(data) or V(all).
    type: list
    elements: str
    default: []
  revoke:
    description:
      - Names of hypervisors, or of the controller, whose certificates are revoked and not replaced.
    type: list
    elements: str
    default: []
  readmit:
    description:
      - Revoked names that get certificates again.
    type: list
    elements: str
    default: []
  replace:
    description:
      - If a hypervisor trusts a CA of someone else, replace it with the fleet's at once, without an
        overlap.
    type: bool
    default: false
  qemu_user:
    description:
      - User that guests run as, who owns the keys for data. Defaults to the one in
        C(/etc/libvirt/qemu.conf), else C(libvirt-qemu) or C(qemu).
    type: str
  uri:
    description:
      - Not used; accepted so that C(module_defaults) of the action group can set it.
    type: str
    default: qemu:///system
  timeout:
    description:
      - Limit for telling a daemon to reload its files, in seconds.
    type: float
    default: 10.0
seealso:
  - module: fleet.virt.virt_host_info
    description: Reads a hypervisor, also over verified TLS.
"""

EXAMPLES = r"""
- name: Update the keys of a fleet of one hypervisor
  fleet.virt.virt_keys:
    keys_dir: ~/.local/share/fleet-virt/keys/fleet
    expected: ["{{ inventory_hostname }}"]
"""

RETURN = r"""
tool:
  description: Program that generates keys here; null if there is none.
  returned: in playbooks of this collection
  type: str
qemu_user:
  description: User that guests run as; null if there is none yet.
  returned: in playbooks of this collection
  type: str
kinds:
  description: The present files, V(control) and V(data).
  returned: in playbooks of this collection
  type: dict
  contains:
    control:
      description: Files for libvirt.
      type: dict
      contains: &kind
        ca:
          description: Text of the file of trusted CAs; empty if there is none.
          type: str
        crl:
          description: Text of the file of revocation lists.
          type: str
        certificate:
          description: Text of the certificate.
          type: str
        key_id:
          description: SHA-256 of the public half of the private key; null if there is none.
          type: str
    data:
      description: Files for QEMU.
      type: dict
      contains: *kind
faults:
  description: Problems with links, owners and modes, and failed units of libvirt.
  returned: in playbooks of this collection
  type: list
  elements: str
daemons:
  description: Running daemons that use TLS.
  returned: in playbooks of this collection
  type: list
  elements: str
phases:
  description: Phase of each kind, V(steady), or during a rotation V(trust), V(certificates),
    V(drop).
  returned: success
  type: dict
  contains:
    control:
      description: Phase of control.
      type: str
    data:
      description: Phase of data.
      type: str
waiting:
  description: Hypervisors that keep a rotation from its next phase, and why.
  returned: success
  type: list
  elements: str
pending:
  description: Kinds whose CA or revocation list changes with this run.
  returned: success
  type: list
  elements: str
made:
  description: The name of the new CA, for each kind that gets one.
  returned: success
  type: dict
  contains:
    control:
      description: Name of the new CA for control.
      returned: when there is one
      type: str
    data:
      description: Name of the new CA for data.
      returned: when there is one
      type: str
refused:
  description: Revoked names that get no certificates.
  returned: success
  type: list
  elements: str
revoked:
  description: Names that this call was told to revoke.
  returned: success
  type: list
  elements: str
issued:
  description: The reason for the new certificate, for each kind that got one.
  returned: success
  type: dict
  contains:
    control:
      description: Why there is one for control.
      returned: when there is one
      type: str
    data:
      description: Why there is one for data.
      returned: when there is one
      type: str
reloaded:
  description: Daemons that have reloaded their files.
  returned: success
  type: list
  elements: str
requests:
  description: Certificate requests by kind.
  returned: in playbooks of this collection
  type: dict
  contains:
    control:
      description: For control.
      returned: when asked for
      type: str
    data:
      description: For data.
      returned: when asked for
      type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import effects as keys
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.options import (
    ARGUMENTS,
    INTERNAL,
)


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    params = module.options
    user, timeout, check = params["qemu_user"], params["timeout"], module.check_mode
    try:
        result: keys.Looked | keys.Requested | keys.Deployed
        if params["_stage"] == "look":
            result = keys.look(user, timeout)
        elif params["_stage"] == "request":
            result = keys.request(params["_new_keys"] or {}, timeout, check=check)
        elif params["_stage"] == "deploy":
            result = keys.deploy(
                params["_files"] or {}, params["_revoked"], user, timeout, check=check
            )
        else:
            raise FleetVirtError(f"stage: {params['_stage']} is done by the controller")
    except FleetVirtError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
