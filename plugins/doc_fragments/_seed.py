# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


# Written by tests/contract/test_settings.py from module_utils/_fleet/seed/settings.py
class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  hostname:
    description:
      - Host name of the guest, at most 63 characters; defaults to the VM's name. A name with dots
        is the fully qualified name.
    type: str
  fqdn:
    description:
      - Fully qualified name of the guest, at most 253 characters, 63 in each part.
    type: str
  user:
    description:
      - User that Ansible logs in as. V(root) is allowed.
    type: str
    default: ansible
  ssh_public_keys:
    description:
      - Public keys that may log in as O(user), as a list or as text with one key per line. Defaults
        to the variable C(virt_ssh_public_key), else to the first of the controller's own keys.
    type: list
    elements: str
  password_hash:
    description:
      - Hash of the password of O(user), as C(openssl passwd -6) prints it. If omitted, the password
        is locked. SSH accepts keys only.
    type: str
  sudo:
    description:
      - Sudo rights of O(user). V(true), the default, allows everything without a password; V(false)
        allows nothing; any other text is the rule itself, as in C(sudoers).
    type: str
  users:
    description:
      - Additional users.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name of the user. Required.
        type: str
        default: ""
      ssh_public_keys:
        description:
          - Public keys that may log in, as a list or as text with one key per line.
        type: list
        elements: str
      password_hash:
        description:
          - Hash of the password. If omitted, the password is locked.
        type: str
      sudo:
        description:
          - Sudo rights of the user, as for the first user. None by default.
        type: str
      groups:
        description:
          - Groups in the guest that the user is in.
        type: list
        elements: str
      shell:
        description:
          - Login shell; defaults to the image's.
        type: str
  network:
    description:
      - NICs that need more than DHCP. A list, or a mapping from NIC names to the other options.
      - A NIC is matched by its MAC address. cloud-init gives it its name in the guest too, or
        C(eth0), C(eth1)... by its place if it is called so, or if that can be no device name. The
        boot waits for the NIC with a gateway, else for the first one.
    type: raw
    suboptions:
      name:
        description:
          - Name of the VM's NIC. In a VM that this collection did not create, NICs are V(eth0),
            V(eth1) and so on, in the order of its definition. Either this or O(network.mac) is
            required.
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
          - Default gateway, at most one for IPv4 and one for IPv6.
          - Where all addresses of a family have the prefix length 32, or 128 for IPv6, it may be
            any address on the link. cloud-init cannot write that into C(/etc/network/interfaces);
            seed such a guest with V(offline).
        type: list
        elements: str
      dhcp4:
        description:
          - Whether to use DHCP. Defaults to true if no IPv4 address is given.
        type: bool
      dhcp6:
        description:
          - Whether to use DHCPv6.
        type: bool
        default: false
      routes:
        description:
          - Additional routes.
        type: list
        elements: dict
        suboptions:
          to:
            description:
              - Destination network, such as V(198.51.100.0/24).
            type: str
            required: true
          via:
            description:
              - Address of the router.
            type: str
            required: true
          metric:
            description:
              - Route metric; lower is preferred. From 0 to 4294967295.
            type: int
      dns_servers:
        description:
          - Addresses of name servers.
        type: list
        elements: str
      dns_search:
        description:
          - DNS search domains.
        type: list
        elements: str
      mtu:
        description:
          - MTU in bytes. From 576 to 65535.
        type: int
  dns_servers:
    description:
      - Addresses of name servers, for the NIC that the boot waits for.
    type: list
    elements: str
  dns_search:
    description:
      - DNS search domains, for the NIC that the boot waits for.
    type: list
    elements: str
  timezone:
    description:
      - Time zone, such as V(Europe/Berlin). Defaults to the image's.
    type: str
  locale:
    description:
      - Locale, such as V(de_DE.UTF-8). Defaults to the image's.
    type: str
  ca_certificates:
    description:
      - CA certificates that the guest trusts, as PEM text or a list of such texts.
    type: list
    elements: str
  files:
    description:
      - Files to write in the guest, at most 1 MiB each.
    type: list
    elements: dict
    suboptions:
      path:
        description:
          - Absolute path, without C(.) or C(..). Required.
        type: str
      content:
        description:
          - Content of the file. Required.
        type: str
      encoding:
        description:
          - Encoding of O(files[].content).
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
          - Owner, or owner and group, such as V(root:adm).
        type: str
        default: root:root
  packages:
    description:
      - Packages to install at the first boot, from the package sources configured in the image.
    type: list
    elements: str
  commands:
    description:
      - Commands to run as root at the end of the first boot. Each is a shell command, or a list of
        a program and its arguments.
    type: list
    elements: raw
  grow_root:
    description:
      - Grow the root file system to the size of its disk.
    type: bool
    default: true
  user_data:
    description:
      - Additional cloud-config for cloud-init, as a mapping or as YAML text, for settings without
        an option here. Lists are appended to those of the other options, mappings are merged, other
        values override. The guest's identity (host keys, host name, network) cannot be set here.
        Not with O(method=offline).
    type: raw
  method:
    description:
      - How the seed is delivered to the guest. V(nocloud) is a medium that cloud-init reads.
        V(offline) writes into the VM's own disk before the VM can be started, for images without
        cloud-init; it needs libguestfs with its Python binding on the hypervisor, and systemd in
        the image. V(auto) inspects the disk and uses V(nocloud) if cloud-init is installed, else
        V(offline); without libguestfs it uses V(nocloud).
      - With V(offline), commands, packages and growing the root file system are left to a systemd
        unit at the first boot, which removes itself. It also installs an SSH server, Python and
        sudo if the image lacks them. What was written into the disk cannot be removed again.
    type: str
    choices: [nocloud, offline, auto]
    default: nocloud
"""

    OPTION = r"""
options:
  seed:
    description:
      - Configuration of the guest at its first boot; V(false) for none. If omitted, a VM created
        from an image is seeded with the defaults.
      - The guest's SSH host key is generated in advance, so that it is known before the guest
        boots; the public key is stored in the VM's metadata.
    type: raw
    suboptions:
      hostname:
        description:
          - Host name of the guest, at most 63 characters; defaults to the VM's name. A name with
            dots is the fully qualified name.
        type: str
      fqdn:
        description:
          - Fully qualified name of the guest, at most 253 characters, 63 in each part.
        type: str
      user:
        description:
          - User that Ansible logs in as. V(root) is allowed.
        type: str
        default: ansible
      ssh_public_keys:
        description:
          - Public keys that may log in as O(seed.user), as a list or as text with one key per line.
            Defaults to the variable C(virt_ssh_public_key), else to the first of the controller's
            own keys.
        type: list
        elements: str
      password_hash:
        description:
          - Hash of the password of O(seed.user), as C(openssl passwd -6) prints it. If omitted, the
            password is locked. SSH accepts keys only.
        type: str
      sudo:
        description:
          - Sudo rights of O(seed.user). V(true), the default, allows everything without a password;
            V(false) allows nothing; any other text is the rule itself, as in C(sudoers).
        type: str
      users:
        description:
          - Additional users.
        type: list
        elements: dict
        suboptions:
          name:
            description:
              - Name of the user. Required.
            type: str
            default: ""
          ssh_public_keys:
            description:
              - Public keys that may log in, as a list or as text with one key per line.
            type: list
            elements: str
          password_hash:
            description:
              - Hash of the password. If omitted, the password is locked.
            type: str
          sudo:
            description:
              - Sudo rights of the user, as for the first user. None by default.
            type: str
          groups:
            description:
              - Groups in the guest that the user is in.
            type: list
            elements: str
          shell:
            description:
              - Login shell; defaults to the image's.
            type: str
      network:
        description:
          - NICs that need more than DHCP. A list, or a mapping from NIC names to the other options.
          - A NIC is matched by its MAC address. cloud-init gives it its name in the guest too, or
            C(eth0), C(eth1)... by its place if it is called so, or if that can be no device name.
            The boot waits for the NIC with a gateway, else for the first one.
        type: raw
        suboptions:
          name:
            description:
              - Name of the VM's NIC. In a VM that this collection did not create, NICs are V(eth0),
                V(eth1) and so on, in the order of its definition. Either this or
                O(seed.network.mac) is required.
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
              - Default gateway, at most one for IPv4 and one for IPv6.
              - Where all addresses of a family have the prefix length 32, or 128 for IPv6, it may
                be any address on the link. cloud-init cannot write that into
                C(/etc/network/interfaces); seed such a guest with V(offline).
            type: list
            elements: str
          dhcp4:
            description:
              - Whether to use DHCP. Defaults to true if no IPv4 address is given.
            type: bool
          dhcp6:
            description:
              - Whether to use DHCPv6.
            type: bool
            default: false
          routes:
            description:
              - Additional routes.
            type: list
            elements: dict
            suboptions:
              to:
                description:
                  - Destination network, such as V(198.51.100.0/24).
                type: str
                required: true
              via:
                description:
                  - Address of the router.
                type: str
                required: true
              metric:
                description:
                  - Route metric; lower is preferred. From 0 to 4294967295.
                type: int
          dns_servers:
            description:
              - Addresses of name servers.
            type: list
            elements: str
          dns_search:
            description:
              - DNS search domains.
            type: list
            elements: str
          mtu:
            description:
              - MTU in bytes. From 576 to 65535.
            type: int
      dns_servers:
        description:
          - Addresses of name servers, for the NIC that the boot waits for.
        type: list
        elements: str
      dns_search:
        description:
          - DNS search domains, for the NIC that the boot waits for.
        type: list
        elements: str
      timezone:
        description:
          - Time zone, such as V(Europe/Berlin). Defaults to the image's.
        type: str
      locale:
        description:
          - Locale, such as V(de_DE.UTF-8). Defaults to the image's.
        type: str
      ca_certificates:
        description:
          - CA certificates that the guest trusts, as PEM text or a list of such texts.
        type: list
        elements: str
      files:
        description:
          - Files to write in the guest, at most 1 MiB each.
        type: list
        elements: dict
        suboptions:
          path:
            description:
              - Absolute path, without C(.) or C(..). Required.
            type: str
          content:
            description:
              - Content of the file. Required.
            type: str
          encoding:
            description:
              - Encoding of O(seed.files[].content).
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
              - Owner, or owner and group, such as V(root:adm).
            type: str
            default: root:root
      packages:
        description:
          - Packages to install at the first boot, from the package sources configured in the image.
        type: list
        elements: str
      commands:
        description:
          - Commands to run as root at the end of the first boot. Each is a shell command, or a list
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
          - Additional cloud-config for cloud-init, as a mapping or as YAML text, for settings
            without an option here. Lists are appended to those of the other options, mappings are
            merged, other values override. The guest's identity (host keys, host name, network)
            cannot be set here. Not with O(seed.method=offline).
        type: raw
      method:
        description:
          - How the seed is delivered to the guest. V(nocloud) is a medium that cloud-init reads.
            V(offline) writes into the VM's own disk before the VM can be started, for images
            without cloud-init; it needs libguestfs with its Python binding on the hypervisor, and
            systemd in the image. V(auto) inspects the disk and uses V(nocloud) if cloud-init is
            installed, else V(offline); without libguestfs it uses V(nocloud).
          - With V(offline), commands, packages and growing the root file system are left to a
            systemd unit at the first boot, which removes itself. It also installs an SSH server,
            Python and sudo if the image lacks them. What was written into the disk cannot be
            removed again.
        type: str
        choices: [nocloud, offline, auto]
        default: nocloud
"""
