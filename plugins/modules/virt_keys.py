#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_keys
short_description: Keys and certificates with which hypervisors and controllers know each other
version_added: 0.1.0
description:
  - Two certificate authorities (CA) on the controller, neither trusting the other. V(control) is
    for libvirt itself, V(data) for what qemu sends and receives, such as migrations and consoles.
  - Each hypervisor makes its own private keys, which never leave it; it sends requests and gets
    certificates and revocation lists. What is signed are the names in the inventory, never what a
    hypervisor says of itself.
  - All files of a hypervisor are exchanged at once, by renaming one link, and running daemons read
    them again without a restart. A daemon that had failed, as with an expired certificate it does,
    is started. A call that is killed is finished by the next.
  - Brings the keys of the hypervisor that it runs on up to date, and the CAs, revocation lists and
    certificate of the controller with them. It asks no other hypervisor, so that all others of the
    fleet are silent to it; a first CA, and the rotation of one, need all of them. The role
    P(fleet.virt.libvirt_keys#role) asks all and is the way for a fleet.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - A CA and keys that would be made are made by no check; what depends on them is returned as
        "(generated)".
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - O(renew) and O(rotate) are orders, carried out each time they are given.
requirements:
  - openssl, or certtool of GnuTLS, on hypervisors that make keys
  - the Python package cryptography on the controller, which ansible-core brings
options:
  keys_dir:
    description:
      - Folder of the CAs on the controller, for its owner only. Required.
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
      - How many days certificates and revocation lists are valid.
    type: int
    default: 365
  ca_days:
    description:
      - How many days a new CA is valid.
    type: int
    default: 3650
  renew_days:
    description:
      - Certificates and revocation lists that are valid for fewer days yet are renewed.
    type: int
    default: 30
  passphrase_variable:
    description:
      - Name of the variable with the passphrase of the CAs' keys. Its name, so that the passphrase
        is in no task's arguments.
    type: str
  control_ca_variable:
    description:
      - Name of the variable with a CA for control, a mapping with C(certificate) and C(key) in PEM
        form, to be used instead of one made here. The key is not written anywhere.
    type: str
  data_ca_variable:
    description:
      - The same for data.
    type: str
  expected:
    description:
      - Names of all hypervisors of the fleet; those of the group C(hypervisors) if left out. One
        that is not asked, or not in the play (C(--limit)), counts as silent when a CA is made or
        exchanged.
    type: list
    elements: str
  lost:
    description:
      - Hypervisors that are off for good, though they cannot be asked.
    type: list
    elements: str
    default: []
  names:
    description:
      - Further DNS names and addresses of a hypervisor for its certificates.
    type: list
    elements: str
    default: []
  renew:
    description:
      - Give new keys and certificates, though the present ones are right.
    type: bool
    default: false
  rotate:
    description:
      - Begin to exchange the CA of V(control), V(data) or V(all).
    type: list
    elements: str
    default: []
  revoke:
    description:
      - Names of hypervisors, or of the controller, whose certificates are revoked and that get no
        others.
    type: list
    elements: str
    default: []
  readmit:
    description:
      - Names that were revoked and shall get certificates again.
    type: list
    elements: str
    default: []
  replace:
    description:
      - Replace a CA of others that a hypervisor trusts by the fleet's at once, without an overlap.
    type: bool
    default: false
  qemu_user:
    description:
      - User that guests run as, to whom keys for data belong. By default the one in
        C(/etc/libvirt/qemu.conf), else C(libvirt-qemu) or C(qemu).
    type: str
  uri:
    description:
      - Not used; accepted so that C(module_defaults) of the action group can set it.
    type: str
    default: qemu:///system
  timeout:
    description:
      - Limit for telling a daemon to read its files again, in seconds.
    type: float
    default: 10.0
seealso:
  - module: fleet.virt.virt_host_info
    description: Reads a hypervisor, also over verified TLS.
"""

EXAMPLES = r"""
- name: Bring the keys of a fleet of one hypervisor up to date
  fleet.virt.virt_keys:
    keys_dir: ~/.local/share/fleet-virt/keys/fleet
    expected: ["{{ inventory_hostname }}"]
"""

RETURN = r"""
tool:
  description: Program that makes keys here; null if there is none.
  returned: in playbooks of this collection
  type: str
qemu_user:
  description: User that guests run as; null if there is none yet.
  returned: in playbooks of this collection
  type: str
kinds:
  description: What is there, V(control) and V(data).
  returned: in playbooks of this collection
  type: dict
  contains:
    control:
      description: For libvirt.
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
      description: For qemu.
      type: dict
      contains: *kind
faults:
  description: What is wrong with links, owners and modes, and units of libvirt that have failed.
  returned: in playbooks of this collection
  type: list
  elements: str
daemons:
  description: Running daemons that have TLS.
  returned: in playbooks of this collection
  type: list
  elements: str
phases:
  description: Phase of each kind, V(steady), or of an exchange V(trust), V(certificates), V(drop).
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
  description: Who keeps an exchange from its next phase, and why.
  returned: success
  type: list
  elements: str
pending:
  description: Kinds whose CA or revocation list changes with this run.
  returned: success
  type: list
  elements: str
made:
  description: For each kind that gets a new CA its name.
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
  description: Names that were revoked and get no certificates.
  returned: success
  type: list
  elements: str
revoked:
  description: Names that this call was ordered to revoke.
  returned: success
  type: list
  elements: str
issued:
  description: For each kind with a new certificate the reason for it.
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
  description: Daemons that have read their files again.
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
from ansible_collections.fleet.virt.plugins.module_utils._effects.hypervisor import keys
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._pure.hypervisor.keys_options import (
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
