#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_seed
short_description: Tell a virtual machine who it is before its first boot
version_added: 0.1.0
description:
  - Gives a VM that is shut off and has not been booted yet a medium that cloud-init reads at the
    first boot (its NoCloud data source), on a virtual CD drive. M(fleet.virt.virt_init) does the
    same for the VMs it makes, with the same options in its O(fleet.virt.virt_init#module:seed).
  - The guest's SSH host key is made on the hypervisor, with the medium, so that the key is known
    before the VM boots. Its private half is on the medium and in the guest only; the public half is
    in the VM's metadata.
  - A VM whose image brings a machine id is given its UUID as one of its own. Its random numbers are
    seeded, and its DHCP client identifies itself by its MAC address.
  - The medium has mode 0600 and is removed by M(fleet.virt.virt_wait) once the VM shows its host
    key. cloud-init is disabled in the guest when it is shut down after the first boot, so that the
    guest stays what it is; C(cloud-init status) tells the result of the first boot until then.
  - O(state=absent) also acknowledges a first boot that failed, which M(fleet.virt.virt_wait) tells
    until then.
  - Every problem of the specification is reported at once. A call that is killed is finished by
    running it again; whoever starts the VM meanwhile starts it with the old medium or the new one,
    never with half of one.
  - A guest reads a seed once. Another seed for a VM that has been started with one is refused.
  - Needs C(xorriso), C(genisoimage) or C(mkisofs), and C(ssh-keygen), on the hypervisor, and
    cloud-init in the image. YAML is read on the controller only.
  - For images without cloud-init there is O(method=offline).
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - A host key exists only afterwards and reads V((generated\)).
  diff_mode:
    support: full
    details:
      - What is secret is shown as one digest.
  idempotent:
    support: full
options:
  uri:
    description:
      - Has to be a hypervisor of the machine that the module runs on, where the medium is made.
  name:
    description:
      - Name of the VM.
    type: str
    required: true
  state:
    description:
      - V(present) gives the VM the medium, V(absent) takes it away and deletes it, whether the VM
        runs or not and has read it or not.
    type: str
    choices: [present, absent]
    default: present
  pool:
    description:
      - Pool the medium is made in. Left out, that of the VM's first own volume, else V(default),
        else the pool whose folder the first disk is in.
    type: str
  hostname:
    description:
      - Host name of the guest, at most 63 characters; the VM's name if left out. One with dots is
        the full name.
    type: raw
  fqdn:
    description:
      - Full name of the guest. Each part has at most 63 characters, all together 253.
    type: raw
  user:
    description:
      - User Ansible logs in as, V(ansible) if left out. V(root) is possible.
    type: raw
  ssh_public_keys:
    description:
      - Keys that may log in as O(user), a list or text with one on each line. Left out, the
        variable C(virt_ssh_public_key), else the first of the controller's own.
    type: raw
  password_hash:
    description:
      - Hash of the password of O(user), as C(openssl passwd -6) prints it. Left out, the password
        is locked. SSH takes keys only.
    type: raw
  sudo:
    description:
      - What O(user) may do with sudo. True is everything without a password, which holds if it is
        left out; false is nothing; text is the rule, as in C(sudoers).
    type: raw
  users:
    description:
      - Further users, a list of mappings with C(name), C(ssh_public_keys), C(password_hash),
        C(sudo) (false if left out), C(groups) and C(shell).
    type: raw
  network:
    description:
      - NICs that are not simply to ask a DHCP server. A list of mappings with C(name) (of the VM's
        NIC, in the order of its definition V(eth0), V(eth1) and so on for a VM that this collection
        did not make) or C(mac), C(addresses) (each with its prefix length), C(gateway) (one for
        IPv4 and one for IPv6 at most), C(dhcp4) (true without an IPv4 address), C(dhcp6) (false),
        C(routes) (each with C(to), C(via), C(metric)), C(dns_servers), C(dns_search) and C(mtu) in
        bytes. Or a mapping from names to such mappings.
      - The NIC is found by its MAC address, whatever the guest calls it. The boot waits for the NIC
        with a gateway, else for the first.
    type: raw
  dns_servers:
    description:
      - Addresses of name servers, for the NIC the boot waits for.
    type: raw
  dns_search:
    description:
      - Domains that names are looked up in, for the NIC the boot waits for.
    type: raw
  timezone:
    description:
      - Time zone, such as V(Europe/Berlin). Left out, the image's.
    type: raw
  locale:
    description:
      - Locale, such as V(de_DE.UTF-8). Left out, the image's.
    type: raw
  ca_certificates:
    description:
      - Certificates the guest trusts, as text in PEM or a list of such texts.
    type: raw
  files:
    description:
      - Files of the guest, a list of mappings with C(path), C(content), C(encoding) (V(text) or
        V(base64); V(text) if left out), C(mode) (octal, in quotes; V("0644") if left out) and
        C(owner) (V(root:root) if left out). At most 1 MiB each.
    type: raw
  packages:
    description:
      - Packages that are installed at the first boot, from where the image gets its packages.
    type: raw
  commands:
    description:
      - Commands at the end of the first boot, as root. Each is a line for the shell, or a list of a
        program and its arguments.
    type: raw
  grow_root:
    description:
      - Grow the root file system to the size of its disk; true if left out.
    type: raw
  user_data:
    description:
      - More of cloud-init's cloud-config, as a mapping or as YAML text, for what has no option.
        Lists are added to those of the other options, mappings are merged, the rest prevails. What
        decides who the guest is (host keys, host name, network) cannot be set here. Not with
        O(method=offline).
    type: raw
  method:
    description:
      - How the seed reaches the guest. V(nocloud), which holds if it is left out, is a medium that
        cloud-init reads. V(offline) writes into the VM's own disk before it can be started, for
        images without cloud-init; it needs libguestfs with its Python binding on the hypervisor,
        and systemd in the image. V(auto) looks into the disk and takes V(nocloud) if cloud-init is
        installed, else V(offline); without libguestfs it takes V(nocloud).
      - With V(offline), commands, packages and growing the root file system are left to a unit of
        the first boot that removes itself. An SSH server, Python and sudo are installed by it if
        the image has none. What is written into the disk cannot be taken away again.
    type: raw
  seed:
    description:
      - The options above; filled in, so that what is secret in them is never shown.
    type: str
    default: ""
seealso:
  - module: fleet.virt.virt_init
    description: Makes VMs and seeds them.
  - module: fleet.virt.virt_wait
    description: Waits for the first boot and removes the medium.
"""

EXAMPLES = r"""
- name: A VM that is defined already, with the defaults
  fleet.virt.virt_seed:
    name: web1

- name: Static addresses, a second user, a file and a command
  fleet.virt.virt_seed:
    name: db1
    fqdn: db1.example.org
    timezone: Europe/Berlin
    network:
      - name: eth0
        addresses: [192.0.2.10/24, "2001:db8::10/64"]
        gateway: [192.0.2.1, "2001:db8::1"]
        dns_servers: [192.0.2.53]
      - name: eth1
        addresses: [198.51.100.10/24]
    users:
      - name: alice
        ssh_public_keys:
          - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJS+DaRE+LDKqpmqarrPTm6iHLtFn8H9AizJvMshknW2 alice
        sudo: true
    files:
      - path: /etc/motd
        content: "The database of the shop\n"
    commands:
      - [touch, /run/first-boot-done]

- name: A VM from an image that may have no cloud-init
  fleet.virt.virt_seed:
    name: old1
    method: auto

- name: Take the medium away, whatever the guest did with it
  fleet.virt.virt_seed:
    name: web1
    state: absent
"""

RETURN = r"""
name:
  description: Name of the VM.
  returned: success
  type: str
host_key:
  description: Public half of the guest's SSH host key; V((generated\)) in check mode for one that
    would be made, null with O(state=absent).
  returned: success
  type: str
  sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3h0Zq0example web1
steps:
  description: What was done, or would be, in order.
  returned: success
  type: list
  elements: str
  sample: [create default/web1_seed.iso, put it into web1]
seed:
  description: How the VM was seeded, or would be; null if nothing was done.
  returned: success
  type: dict
  contains:
    method:
      description: V(nocloud) or V(offline).
      type: str
    reason:
      description: Why this method.
      type: str
      sample: the image has no cloud-init
    found:
      description: What the image has, if it was looked into; else null.
      type: dict
      contains:
        os:
          description: Distribution and version.
          type: str
          sample: debian 12
        cloud_init:
          description: Whether cloud-init is installed.
          type: bool
        agent:
          description: Whether the QEMU guest agent is installed.
          type: bool
        python:
          description: Whether Python 3 is installed.
          type: bool
        sshd:
          description: Whether an SSH server is installed.
          type: bool
        network:
          description: What configures its network, V(networkd), V(networkmanager) or V(ifupdown).
          type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.seed import (
    nocloud as seed_nocloud,
)
from ansible_collections.fleet.virt.plugins.module_utils._effects.seed import seeding


def main() -> None:
    module = create_module(seeding.ARGUMENTS)
    params = module.params

    def work() -> dict[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            return seeding.run(
                connection,
                params["name"],
                params["state"],
                seed_nocloud.unpacked(params["seed"]),
                params["pool"],
                check=module.check_mode,
            )

    run(module, work)


if __name__ == "__main__":
    main()
