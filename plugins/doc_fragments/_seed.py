# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


# Written by tests/contract/test_settings.py from module_utils/_pure/seed/settings.py
class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  hostname:
    description:
      - Host name of the guest, at most 63 characters; the VM's name if left out. One with dots is
        the full name.
    type: str
  fqdn:
    description:
      - Full name of the guest. Each part has at most 63 characters, all together 253.
    type: str
  user:
    description:
      - User Ansible logs in as. V(root) is possible.
    type: str
    default: ansible
  ssh_public_keys:
    description:
      - Keys that may log in as O(user), a list or text with one on each line. Left out, the
        variable C(virt_ssh_public_key), else the first of the controller's own.
    type: list
    elements: str
  password_hash:
    description:
      - Hash of the password of O(user), as C(openssl passwd -6) prints it. Left out, the password
        is locked. SSH takes keys only.
    type: str
  sudo:
    description:
      - What O(user) may do with sudo. V(true) is everything without a password, which holds if it
        is left out; V(false) is nothing; other text is the rule, as in C(sudoers).
    type: str
  users:
    description:
      - Further users.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name of the user; has to be given.
        type: str
        default: ""
      ssh_public_keys:
        description:
          - Keys that may log in, a list or text with one on each line.
        type: list
        elements: str
      password_hash:
        description:
          - Hash of the password. Left out, it is locked.
        type: str
      sudo:
        description:
          - What the user may do with sudo, as for the first user. Left out, nothing.
        type: str
      groups:
        description:
          - Groups of the guest.
        type: list
        elements: str
      shell:
        description:
          - Login shell; the image's if left out.
        type: str
  network:
    description:
      - NICs that are not simply to ask a DHCP server. A list, or a mapping from names to the rest.
      - The NIC is found by its MAC address, whatever the guest calls it. The boot waits for the NIC
        with a gateway, else for the first.
    type: raw
    suboptions:
      name:
        description:
          - Name of the VM's NIC, in the order of its definition V(eth0), V(eth1) and so on for a VM
            that this collection did not make. Either this or O(network.mac) has to be given.
        type: str
      mac:
        description:
          - MAC address of the VM's NIC.
        type: str
      addresses:
        description:
          - Addresses, each with its prefix length, such as V(192.0.2.10/24).
        type: list
        elements: str
      gateway:
        description:
          - Router, one for IPv4 and one for IPv6 at most.
        type: list
        elements: str
      dhcp4:
        description:
          - Whether to ask a DHCP server. Left out, true without an IPv4 address.
        type: bool
      dhcp6:
        description:
          - Whether to ask a DHCPv6 server.
        type: bool
        default: false
      routes:
        description:
          - Further routes.
        type: list
        elements: dict
        suboptions:
          to:
            description:
              - Network it leads to, such as V(198.51.100.0/24).
            type: str
            required: true
          via:
            description:
              - Address of the router.
            type: str
            required: true
          metric:
            description:
              - Metric; lower is preferred. From 0 to 4294967295.
            type: int
      dns_servers:
        description:
          - Addresses of name servers.
        type: list
        elements: str
      dns_search:
        description:
          - Domains that names are looked up in.
        type: list
        elements: str
      mtu:
        description:
          - MTU in bytes. From 576 to 65535.
        type: int
  dns_servers:
    description:
      - Addresses of name servers, for the NIC the boot waits for.
    type: list
    elements: str
  dns_search:
    description:
      - Domains that names are looked up in, for the NIC the boot waits for.
    type: list
    elements: str
  timezone:
    description:
      - Time zone, such as V(Europe/Berlin). Left out, the image's.
    type: str
  locale:
    description:
      - Locale, such as V(de_DE.UTF-8). Left out, the image's.
    type: str
  ca_certificates:
    description:
      - Certificates the guest trusts, as text in PEM or a list of such texts.
    type: list
    elements: str
  files:
    description:
      - Files of the guest, at most 1 MiB each.
    type: list
    elements: dict
    suboptions:
      path:
        description:
          - Absolute path, without C(.) or C(..); has to be given.
        type: str
      content:
        description:
          - What is in it; has to be given.
        type: str
      encoding:
        description:
          - How O(files[].content) is written.
        type: str
        choices: [text, base64]
        default: text
      mode:
        description:
          - Permissions, octal and in quotes.
        type: str
        default: "0644"
      owner:
        description:
          - Its user, or user and group, such as V(root:adm).
        type: str
        default: root:root
  packages:
    description:
      - Packages that are installed at the first boot, from where the image gets its packages.
    type: list
    elements: str
  commands:
    description:
      - Commands at the end of the first boot, as root. Each is a line for the shell, or a list of a
        program and its arguments.
    type: list
    elements: raw
  grow_root:
    description:
      - Grow the root file system to the size of its disk.
    type: bool
    default: true
  user_data:
    description:
      - More of cloud-init's cloud-config, as a mapping or as YAML text, for what has no option.
        Lists are added to those of the other options, mappings are merged, the rest prevails. What
        decides who the guest is (host keys, host name, network) cannot be set here. Not with
        O(method=offline).
    type: raw
  method:
    description:
      - How the seed reaches the guest. V(nocloud) is a medium that cloud-init reads. V(offline)
        writes into the VM's own disk before it can be started, for images without cloud-init; it
        needs libguestfs with its Python binding on the hypervisor, and systemd in the image.
        V(auto) looks into the disk and takes V(nocloud) if cloud-init is installed, else
        V(offline); without libguestfs it takes V(nocloud).
      - With V(offline), commands, packages and growing the root file system are left to a unit of
        the first boot that removes itself. An SSH server, Python and sudo are installed by it if
        the image has none. What is written into the disk cannot be taken away again.
    type: str
    choices: [nocloud, offline, auto]
    default: nocloud
"""

    OPTION = r"""
options:
  seed:
    description:
      - What the guest is told before its first boot; V(false) for nothing. Left out, a VM made from
        an image is seeded with the defaults.
      - The guest's SSH host key is made for it, so that it is known before it boots; its public
        half is in the VM's metadata.
    type: raw
    suboptions:
      hostname:
        description:
          - Host name of the guest, at most 63 characters; the VM's name if left out. One with dots
            is the full name.
        type: str
      fqdn:
        description:
          - Full name of the guest. Each part has at most 63 characters, all together 253.
        type: str
      user:
        description:
          - User Ansible logs in as. V(root) is possible.
        type: str
        default: ansible
      ssh_public_keys:
        description:
          - Keys that may log in as O(seed.user), a list or text with one on each line. Left out,
            the variable C(virt_ssh_public_key), else the first of the controller's own.
        type: list
        elements: str
      password_hash:
        description:
          - Hash of the password of O(seed.user), as C(openssl passwd -6) prints it. Left out, the
            password is locked. SSH takes keys only.
        type: str
      sudo:
        description:
          - What O(seed.user) may do with sudo. V(true) is everything without a password, which
            holds if it is left out; V(false) is nothing; other text is the rule, as in C(sudoers).
        type: str
      users:
        description:
          - Further users.
        type: list
        elements: dict
        suboptions:
          name:
            description:
              - Name of the user; has to be given.
            type: str
            default: ""
          ssh_public_keys:
            description:
              - Keys that may log in, a list or text with one on each line.
            type: list
            elements: str
          password_hash:
            description:
              - Hash of the password. Left out, it is locked.
            type: str
          sudo:
            description:
              - What the user may do with sudo, as for the first user. Left out, nothing.
            type: str
          groups:
            description:
              - Groups of the guest.
            type: list
            elements: str
          shell:
            description:
              - Login shell; the image's if left out.
            type: str
      network:
        description:
          - NICs that are not simply to ask a DHCP server. A list, or a mapping from names to the
            rest.
          - The NIC is found by its MAC address, whatever the guest calls it. The boot waits for the
            NIC with a gateway, else for the first.
        type: raw
        suboptions:
          name:
            description:
              - Name of the VM's NIC, in the order of its definition V(eth0), V(eth1) and so on for
                a VM that this collection did not make. Either this or O(seed.network.mac) has to be
                given.
            type: str
          mac:
            description:
              - MAC address of the VM's NIC.
            type: str
          addresses:
            description:
              - Addresses, each with its prefix length, such as V(192.0.2.10/24).
            type: list
            elements: str
          gateway:
            description:
              - Router, one for IPv4 and one for IPv6 at most.
            type: list
            elements: str
          dhcp4:
            description:
              - Whether to ask a DHCP server. Left out, true without an IPv4 address.
            type: bool
          dhcp6:
            description:
              - Whether to ask a DHCPv6 server.
            type: bool
            default: false
          routes:
            description:
              - Further routes.
            type: list
            elements: dict
            suboptions:
              to:
                description:
                  - Network it leads to, such as V(198.51.100.0/24).
                type: str
                required: true
              via:
                description:
                  - Address of the router.
                type: str
                required: true
              metric:
                description:
                  - Metric; lower is preferred. From 0 to 4294967295.
                type: int
          dns_servers:
            description:
              - Addresses of name servers.
            type: list
            elements: str
          dns_search:
            description:
              - Domains that names are looked up in.
            type: list
            elements: str
          mtu:
            description:
              - MTU in bytes. From 576 to 65535.
            type: int
      dns_servers:
        description:
          - Addresses of name servers, for the NIC the boot waits for.
        type: list
        elements: str
      dns_search:
        description:
          - Domains that names are looked up in, for the NIC the boot waits for.
        type: list
        elements: str
      timezone:
        description:
          - Time zone, such as V(Europe/Berlin). Left out, the image's.
        type: str
      locale:
        description:
          - Locale, such as V(de_DE.UTF-8). Left out, the image's.
        type: str
      ca_certificates:
        description:
          - Certificates the guest trusts, as text in PEM or a list of such texts.
        type: list
        elements: str
      files:
        description:
          - Files of the guest, at most 1 MiB each.
        type: list
        elements: dict
        suboptions:
          path:
            description:
              - Absolute path, without C(.) or C(..); has to be given.
            type: str
          content:
            description:
              - What is in it; has to be given.
            type: str
          encoding:
            description:
              - How O(seed.files[].content) is written.
            type: str
            choices: [text, base64]
            default: text
          mode:
            description:
              - Permissions, octal and in quotes.
            type: str
            default: "0644"
          owner:
            description:
              - Its user, or user and group, such as V(root:adm).
            type: str
            default: root:root
      packages:
        description:
          - Packages that are installed at the first boot, from where the image gets its packages.
        type: list
        elements: str
      commands:
        description:
          - Commands at the end of the first boot, as root. Each is a line for the shell, or a list
            of a program and its arguments.
        type: list
        elements: raw
      grow_root:
        description:
          - Grow the root file system to the size of its disk.
        type: bool
        default: true
      user_data:
        description:
          - More of cloud-init's cloud-config, as a mapping or as YAML text, for what has no option.
            Lists are added to those of the other options, mappings are merged, the rest prevails.
            What decides who the guest is (host keys, host name, network) cannot be set here. Not
            with O(seed.method=offline).
        type: raw
      method:
        description:
          - How the seed reaches the guest. V(nocloud) is a medium that cloud-init reads. V(offline)
            writes into the VM's own disk before it can be started, for images without cloud-init;
            it needs libguestfs with its Python binding on the hypervisor, and systemd in the image.
            V(auto) looks into the disk and takes V(nocloud) if cloud-init is installed, else
            V(offline); without libguestfs it takes V(nocloud).
          - With V(offline), commands, packages and growing the root file system are left to a unit
            of the first boot that removes itself. An SSH server, Python and sudo are installed by
            it if the image has none. What is written into the disk cannot be taken away again.
        type: str
        choices: [nocloud, offline, auto]
        default: nocloud
"""
