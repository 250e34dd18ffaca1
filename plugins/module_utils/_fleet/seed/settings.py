# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of a seed, one row each, in the order of the documentation."""

from __future__ import annotations

from ..base.settings import Boolean, Choice, Group, Integer, Table, Text, Value, Words, never

DEFAULT_USER = "ansible"
# How the seed reaches the guest: a medium that cloud-init reads, or written into its own disk
METHODS = ("nocloud", "offline", "auto")
# what useradd accepts on every distribution
USER = r"[a-z_][a-z0-9_-]{0,31}"
USER_RULE = "1 to 32 lowercase letters, digits, '_' or '-', the first a letter or '_'"
_DOMAIN = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
_PATH = r"(?:/(?!\.{1,2}(?:/|$))[^/\0]{1,255}){1,64}"

HOSTNAME = Value(
    "hostname",
    "Host name of the guest, at most 63 characters; defaults to the VM's name. A name with dots is"
    " the fully qualified name.",
    default=None,
)
FQDN = Value(
    "fqdn",
    "Fully qualified name of the guest, at most 253 characters, 63 in each part.",
    default=None,
)
LOGIN = Text(
    "user",
    "User that Ansible logs in as. V(root) is allowed.",
    default=DEFAULT_USER,
    pattern=USER,
    rule=USER_RULE,
)
KEYS = Value(
    "ssh_public_keys",
    "Public keys that may log in as O(user), as a list or as text with one key per line. Defaults"
    " to the variable C(virt_ssh_public_key), else to the first of the controller's own keys.",
    default=None,
    of="list",
    elements="str",
    secret=False,
)
PASSWORD_HASH = Value(
    "password_hash",
    "Hash of the password of O(user), as C(openssl passwd -6) prints it. If omitted, the password"
    " is locked. SSH accepts keys only.",
    default=None,
    secret=True,
)
SUDO = Value(
    "sudo",
    "Sudo rights of O(user). V(true), the default, allows everything without a password; V(false)"
    " allows nothing; any other text is the rule itself, as in C(sudoers).",
    default=None,
)


class GuestUserSettings:
    """The settings of an additional user."""

    name = Text("name", "Name of the user. Required.", default="", pattern=USER, rule=USER_RULE)
    keys = Value(
        "ssh_public_keys",
        "Public keys that may log in, as a list or as text with one key per line.",
        default=None,
        of="list",
        elements="str",
        secret=False,
    )
    password_hash = Value(
        "password_hash",
        "Hash of the password. If omitted, the password is locked.",
        default=None,
        secret=True,
    )
    sudo = Value(
        "sudo",
        "Sudo rights of the user, as for the first user. None by default.",
        default=None,
    )
    groups = Words(
        "groups", "Groups in the guest that the user is in.", pattern=USER, rule=USER_RULE
    )
    shell = Text(
        "shell",
        "Login shell; defaults to the image's.",
        default=None,
        pattern=_PATH,
        rule="an absolute path such as /bin/bash",
    )


USERS = Group(
    "users",
    "Additional users.",
    settings=(
        GuestUserSettings.name,
        GuestUserSettings.keys,
        GuestUserSettings.password_hash,
        GuestUserSettings.sudo,
        GuestUserSettings.groups,
        GuestUserSettings.shell,
    ),
    of="list",
)
DNS_SERVERS = Value(
    "dns_servers",
    "Addresses of name servers, for the NIC that the boot waits for.",
    default=None,
    of="list",
    elements="str",
)
DNS_SEARCH = Words(
    "dns_search",
    "DNS search domains, for the NIC that the boot waits for.",
    pattern=_DOMAIN,
    rule="a domain is letters, digits, '-' and '.', for example example.org",
)


class GuestNicSettings:
    """The settings of a NIC of the guest."""

    name = Text(
        "name",
        "Name of the VM's NIC. In a VM that this collection did not create, NICs are V(eth0),"
        " V(eth1) and so on, in the order of its definition. Either this or O(mac) is required.",
        default=None,
        pattern=r"[^\s/]{1,32}",
        rule="the name of a NIC of this VM",
    )
    mac = Text(
        "mac",
        "MAC address of the VM's NIC.",
        default=None,
        pattern=r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}",
        rule="six pairs of hexadecimal digits in quotes",
    )
    addresses = Value(
        "addresses",
        "Addresses, each with its prefix length, such as V(192.0.2.10/24).",
        default=None,
        of="list",
        elements="str",
    )
    gateway = Value(
        "gateway",
        (
            "Default gateway, at most one for IPv4 and one for IPv6.",
            "Where all addresses of a family have the prefix length 32, or 128 for IPv6, it may be"
            " any address on the link. cloud-init cannot write that into"
            " C(/etc/network/interfaces); seed such a guest with V(offline).",
        ),
        default=None,
        of="list",
        elements="str",
    )
    dhcp4 = Boolean(
        "dhcp4",
        "Whether to use DHCP. Defaults to true if no IPv4 address is given.",
        default=None,
    )
    dhcp6 = Boolean("dhcp6", "Whether to use DHCPv6.", default=False)
    metric = Integer(
        "metric", "Route metric; lower is preferred.", default=None, low=0, high=2**32 - 1
    )
    routes = Group(
        "routes",
        "Additional routes.",
        settings=(
            Value(
                "to",
                "Destination network, such as V(198.51.100.0/24).",
                default=None,
                required=True,
            ),
            Value("via", "Address of the router.", default=None, required=True),
            metric,
        ),
        of="list",
    )
    dns_servers = Value(
        "dns_servers", "Addresses of name servers.", default=None, of="list", elements="str"
    )
    dns_search = Words(
        "dns_search",
        "DNS search domains.",
        pattern=DNS_SEARCH.pattern,
        rule=DNS_SEARCH.rule,
    )
    mtu = Integer("mtu", "MTU in bytes.", default=None, low=576, high=65535)


NETWORK = Group(
    "network",
    (
        "NICs that need more than DHCP. A list, or a mapping from NIC names to the other options.",
        "A NIC is matched by its MAC address. cloud-init gives it its name in the guest too, or"
        " C(eth0), C(eth1)... by its place if it is called so, or if that can be no device name."
        " The boot waits for the NIC with a gateway, else for the first one.",
    ),
    settings=(
        GuestNicSettings.name,
        GuestNicSettings.mac,
        GuestNicSettings.addresses,
        GuestNicSettings.gateway,
        GuestNicSettings.dhcp4,
        GuestNicSettings.dhcp6,
        GuestNicSettings.routes,
        GuestNicSettings.dns_servers,
        GuestNicSettings.dns_search,
        GuestNicSettings.mtu,
    ),
    of="raw",
)
TIMEZONE = Text(
    "timezone",
    "Time zone, such as V(Europe/Berlin). Defaults to the image's.",
    default=None,
    pattern=r"[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z0-9_+-]{1,32}){0,2}",
    rule="for example Europe/Berlin or UTC",
)
LOCALE = Text(
    "locale",
    "Locale, such as V(de_DE.UTF-8). Defaults to the image's.",
    default=None,
    pattern=r"(?:C|POSIX|[a-z]{2,3}(?:_[A-Z]{2})?)(?:\.[A-Za-z0-9-]{1,16})?(?:@[a-z]{1,16})?",
    rule="for example de_DE.UTF-8 or C.UTF-8",
)
CA_CERTIFICATES = Value(
    "ca_certificates",
    "CA certificates that the guest trusts, as PEM text or a list of such texts.",
    default=None,
    of="list",
    elements="str",
)


class GuestFileSettings:
    """The settings of a file of the guest."""

    path = Text(
        "path",
        "Absolute path, without C(.) or C(..). Required.",
        default=None,
        pattern=_PATH,
        rule="an absolute path without '.' or '..', for example /etc/motd",
    )
    content = Value("content", "Content of the file. Required.", default=None)
    encoding = Choice(
        "encoding", "Encoding of O(content).", default="text", choices=("text", "base64")
    )
    mode = Value("mode", "Permissions, octal and in quotes.", default="0644")
    owner = Text(
        "owner",
        "Owner, or owner and group, such as V(root:adm).",
        default="root:root",
        pattern=rf"{USER}(?::{USER})?",
        rule="a user, or user:group, for example root:adm",
    )


FILES = Group(
    "files",
    "Files to write in the guest, at most 1 MiB each.",
    settings=(
        GuestFileSettings.path,
        GuestFileSettings.content,
        GuestFileSettings.encoding,
        GuestFileSettings.mode,
        GuestFileSettings.owner,
    ),
    of="list",
)
PACKAGES = Words(
    "packages",
    "Packages to install at the first boot, from the package sources configured in the image.",
    pattern=r"[A-Za-z0-9][A-Za-z0-9+._:=~@-]{0,127}",
    rule="use the name that its package manager uses, for example qemu-guest-agent",
)
COMMANDS = Value(
    "commands",
    "Commands to run as root at the end of the first boot. Each is a shell command, or a list of a"
    " program and its arguments.",
    default=None,
    of="list",
    elements="raw",
)
GROW_ROOT = Boolean("grow_root", "Grow the root file system to the size of its disk.", default=True)
USER_DATA = Value(
    "user_data",
    "Additional cloud-config for cloud-init, as a mapping or as YAML text, for settings without an"
    " option here. Lists are appended to those of the other options, mappings are merged, other"
    " values override. The guest's identity (host keys, host name, network) cannot be set here."
    " Not with O(method=offline).",
    default=None,
    of="raw",
)
METHOD = Choice(
    "method",
    (
        "How the seed is delivered to the guest. V(nocloud) is a medium that cloud-init reads."
        " V(offline) writes into the VM's own disk before the VM can be started, for images"
        " without cloud-init; it needs libguestfs with its Python binding on the hypervisor, and"
        " systemd in the image. V(auto) inspects the disk and uses V(nocloud) if cloud-init is"
        " installed, else V(offline); without libguestfs it uses V(nocloud).",
        "With V(offline), commands, packages and growing the root file system are left to a"
        " systemd unit at the first boot, which removes itself. It also installs an SSH server,"
        " Python and sudo if the image lacks them. What was written into the disk cannot be"
        " removed again.",
    ),
    default=METHODS[0],
    choices=METHODS,
)

SEED: Table = (
    HOSTNAME,
    FQDN,
    LOGIN,
    KEYS,
    PASSWORD_HASH,
    SUDO,
    USERS,
    NETWORK,
    DNS_SERVERS,
    DNS_SEARCH,
    TIMEZONE,
    LOCALE,
    CA_CERTIFICATES,
    FILES,
    PACKAGES,
    COMMANDS,
    GROW_ROOT,
    USER_DATA,
    METHOD,
)
SEEDS = Group(
    "seed",
    (
        "Configuration of the guest at its first boot; V(false) for none. If omitted, a VM created"
        " from an image is seeded with the defaults.",
        "The guest's SSH host key is generated in advance, so that it is known before the guest"
        " boots; the public key is stored in the VM's metadata.",
    ),
    settings=tuple(SEED),
    of="raw",
    change=never("a seed applies only at the first boot; recreate the VM, or change the guest"),
)
