# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of a seed, one row each, in the order of the documentation.

This file is private to the collection.
"""

from __future__ import annotations

from ..base.settings import Boolean, Choice, Group, Integer, Table, Text, Value, Words, never

DEFAULT_USER = "ansible"
# How it reaches the guest: a medium that cloud-init reads, or written into the guest's own disk
METHODS = ("nocloud", "offline", "auto")
# what useradd of every distribution takes
USER = r"[a-z_][a-z0-9_-]{0,31}"
USER_RULE = "1 to 32 small letters, digits, '_' or '-', the first a letter or '_'"
_DOMAIN = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
_PATH = r"(?:/(?!\.{1,2}(?:/|$))[^/\0]{1,255}){1,64}"

HOSTNAME = Value(
    "hostname",
    "Host name of the guest, at most 63 characters; the VM's name if left out. One with dots is the"
    " full name.",
    default=None,
)
FQDN = Value(
    "fqdn",
    "Full name of the guest. Each part has at most 63 characters, all together 253.",
    default=None,
)
LOGIN = Text(
    "user",
    "User Ansible logs in as. V(root) is possible.",
    default=DEFAULT_USER,
    pattern=USER,
    rule=USER_RULE,
)
KEYS = Value(
    "ssh_public_keys",
    "Keys that may log in as O(user), a list or text with one on each line. Left out, the variable"
    " C(virt_ssh_public_key), else the first of the controller's own.",
    default=None,
    of="list",
    elements="str",
    secret=False,
)
PASSWORD_HASH = Value(
    "password_hash",
    "Hash of the password of O(user), as C(openssl passwd -6) prints it. Left out, the password is"
    " locked. SSH takes keys only.",
    default=None,
    secret=True,
)
SUDO = Value(
    "sudo",
    "What O(user) may do with sudo. V(true) is everything without a password, which holds if it is"
    " left out; V(false) is nothing; other text is the rule, as in C(sudoers).",
    default=None,
)


class User:
    """The settings of a further user."""

    name = Text(
        "name", "Name of the user; has to be given.", default="", pattern=USER, rule=USER_RULE
    )
    keys = Value(
        "ssh_public_keys",
        "Keys that may log in, a list or text with one on each line.",
        default=None,
        of="list",
        elements="str",
        secret=False,
    )
    password_hash = Value(
        "password_hash",
        "Hash of the password. Left out, it is locked.",
        default=None,
        secret=True,
    )
    sudo = Value(
        "sudo",
        "What the user may do with sudo, as for the first user. Left out, nothing.",
        default=None,
    )
    groups = Words("groups", "Groups of the guest.", pattern=USER, rule=USER_RULE)
    shell = Text(
        "shell",
        "Login shell; the image's if left out.",
        default=None,
        pattern=_PATH,
        rule="an absolute path such as /bin/bash",
    )


USERS = Group(
    "users",
    "Further users.",
    settings=(User.name, User.keys, User.password_hash, User.sudo, User.groups, User.shell),
    of="list",
)
DNS_SERVERS = Value(
    "dns_servers",
    "Addresses of name servers, for the NIC the boot waits for.",
    default=None,
    of="list",
    elements="str",
)
DNS_SEARCH = Words(
    "dns_search",
    "Domains that names are looked up in, for the NIC the boot waits for.",
    pattern=_DOMAIN,
    rule="a domain is letters, digits, '-' and '.', for example example.org",
)


class Nic:
    """The settings of a NIC of the guest."""

    name = Text(
        "name",
        "Name of the VM's NIC, in the order of its definition V(eth0), V(eth1) and so on for a VM"
        " that this collection did not make. Either this or O(mac) has to be given.",
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
        "Router, one for IPv4 and one for IPv6 at most.",
        default=None,
        of="list",
        elements="str",
    )
    dhcp4 = Boolean(
        "dhcp4",
        "Whether to ask a DHCP server. Left out, true without an IPv4 address.",
        default=None,
    )
    dhcp6 = Boolean("dhcp6", "Whether to ask a DHCPv6 server.", default=False)
    metric = Integer("metric", "Metric; lower is preferred.", default=None, low=0, high=2**32 - 1)
    routes = Group(
        "routes",
        "Further routes.",
        settings=(
            Value(
                "to",
                "Network it leads to, such as V(198.51.100.0/24).",
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
        "Domains that names are looked up in.",
        pattern=DNS_SEARCH.pattern,
        rule=DNS_SEARCH.rule,
    )
    mtu = Integer("mtu", "MTU in bytes.", default=None, low=576, high=65535)


NETWORK = Group(
    "network",
    (
        "NICs that are not simply to ask a DHCP server. A list, or a mapping from names to the"
        " rest.",
        "The NIC is found by its MAC address, whatever the guest calls it. The boot waits for the"
        " NIC with a gateway, else for the first.",
    ),
    settings=(
        Nic.name,
        Nic.mac,
        Nic.addresses,
        Nic.gateway,
        Nic.dhcp4,
        Nic.dhcp6,
        Nic.routes,
        Nic.dns_servers,
        Nic.dns_search,
        Nic.mtu,
    ),
    of="raw",
)
TIMEZONE = Text(
    "timezone",
    "Time zone, such as V(Europe/Berlin). Left out, the image's.",
    default=None,
    pattern=r"[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z0-9_+-]{1,32}){0,2}",
    rule="for example Europe/Berlin or UTC",
)
LOCALE = Text(
    "locale",
    "Locale, such as V(de_DE.UTF-8). Left out, the image's.",
    default=None,
    pattern=r"(?:C|POSIX|[a-z]{2,3}(?:_[A-Z]{2})?)(?:\.[A-Za-z0-9-]{1,16})?(?:@[a-z]{1,16})?",
    rule="for example de_DE.UTF-8 or C.UTF-8",
)
CA_CERTIFICATES = Value(
    "ca_certificates",
    "Certificates the guest trusts, as text in PEM or a list of such texts.",
    default=None,
    of="list",
    elements="str",
)


class File:
    """The settings of a file of the guest."""

    path = Text(
        "path",
        "Absolute path, without C(.) or C(..); has to be given.",
        default=None,
        pattern=_PATH,
        rule="an absolute path without '.' or '..', for example /etc/motd",
    )
    content = Value("content", "What is in it; has to be given.", default=None)
    encoding = Choice(
        "encoding", "How O(content) is written.", default="text", choices=("text", "base64")
    )
    mode = Value("mode", "Permissions, octal and in quotes.", default="0644")
    owner = Text(
        "owner",
        "Its user, or user and group, such as V(root:adm).",
        default="root:root",
        pattern=rf"{USER}(?::{USER})?",
        rule="a user, or user:group, for example root:adm",
    )


FILES = Group(
    "files",
    "Files of the guest, at most 1 MiB each.",
    settings=(File.path, File.content, File.encoding, File.mode, File.owner),
    of="list",
)
PACKAGES = Words(
    "packages",
    "Packages that are installed at the first boot, from where the image gets its packages.",
    pattern=r"[A-Za-z0-9][A-Za-z0-9+._:=~@-]{0,127}",
    rule="a package is named as its package manager does, for example qemu-guest-agent",
)
COMMANDS = Value(
    "commands",
    "Commands at the end of the first boot, as root. Each is a line for the shell, or a list of a"
    " program and its arguments.",
    default=None,
    of="list",
    elements="raw",
)
GROW_ROOT = Boolean("grow_root", "Grow the root file system to the size of its disk.", default=True)
USER_DATA = Value(
    "user_data",
    "More of cloud-init's cloud-config, as a mapping or as YAML text, for what has no option. Lists"
    " are added to those of the other options, mappings are merged, the rest prevails. What decides"
    " who the guest is (host keys, host name, network) cannot be set here. Not with"
    " O(method=offline).",
    default=None,
    of="raw",
)
METHOD = Choice(
    "method",
    (
        "How the seed reaches the guest. V(nocloud) is a medium that cloud-init reads. V(offline)"
        " writes into the VM's own disk before it can be started, for images without cloud-init; it"
        " needs libguestfs with its Python binding on the hypervisor, and systemd in the image."
        " V(auto) looks into the disk and takes V(nocloud) if cloud-init is installed, else"
        " V(offline); without libguestfs it takes V(nocloud).",
        "With V(offline), commands, packages and growing the root file system are left to a unit of"
        " the first boot that removes itself. An SSH server, Python and sudo are installed by it if"
        " the image has none. What is written into the disk cannot be taken away again.",
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
        "What the guest is told before its first boot; V(false) for nothing. Left out, a VM made"
        " from an image is seeded with the defaults.",
        "The guest's SSH host key is made for it, so that it is known before it boots; its public"
        " half is in the VM's metadata.",
    ),
    settings=tuple(SEED),
    of="raw",
    change=never("a seed is for the first boot; make the VM anew, or change the guest"),
)
