# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is put into a VM before its first boot: the values."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import ipaddress
import json
import typing as t

from ..._records import dataclass, field
from .settings import DEFAULT_USER, METHODS

ALL_SUDO = "ALL=(ALL) NOPASSWD:ALL"
ReadYaml = t.Callable[[str], object]
# Options whose content is one digest in the stored request: see Seed.without_secrets
HIDDEN = ("password_hash", "users", "files", "ca_certificates", "commands", "user_data")
_ROUNDS = 100_000  # about 50 ms; see Seed.without_secrets


@dataclass(frozen=True)
class User:
    """A user in addition to the one Ansible logs in as; ``sudo`` is a rule of sudoers(5)."""

    name: str
    ssh_public_keys: tuple[str, ...] = ()
    password_hash: str | None = field(default=None, repr=False)
    sudo: str | None = None
    groups: tuple[str, ...] = ()
    shell: str | None = None


@dataclass(frozen=True)
class SeedFile:
    """A file of the guest; ``content`` is base64."""

    path: str
    content: str = field(default="", repr=False)
    mode: str = "0644"
    owner: str = "root:root"


@dataclass(frozen=True)
class Route:
    """A route of one NIC."""

    to: str
    via: str
    metric: int | None = None


@dataclass(frozen=True)
class NicConfig:
    """The configuration of a NIC, given by name or MAC address; addresses have a prefix length."""

    name: str | None = None
    mac: str | None = None
    dhcp4: bool = True
    dhcp6: bool = False
    addresses: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    dns_servers: tuple[str, ...] = ()
    dns_search: tuple[str, ...] = ()
    mtu: int | None = None

    def on_link(self, via: str) -> bool:
        """Whether the guest must be told that ``via`` is on the NIC's link: see on_link below."""
        return on_link(ipaddress.ip_address(via), map(ipaddress.ip_interface, self.addresses))


def on_link(
    via: ipaddress.IPv4Address | ipaddress.IPv6Address,
    addresses: t.Iterable[ipaddress.IPv4Interface | ipaddress.IPv6Interface],
) -> bool:
    """Whether all addresses of its family stand alone (prefix 32 or 128), and ``via`` is another.

    No network of such a NIC contains a router. One that has a network as well is not meant: there
    a router outside it is a slip. A guest looks for link-local routers on the link by itself.
    """
    same = [address for address in addresses if address.version == via.version]
    alone = bool(same) and all(one.network.prefixlen == one.max_prefixlen for one in same)
    return alone and not via.is_link_local and all(one.ip != via for one in same)


@dataclass(frozen=True)
class Seed:
    """Host name (None: the VM's name), the user Ansible logs in as and its public keys, and more.

    ``user_data`` is JSON. ``secrets`` replaces what :meth:`without_secrets` removed.
    """

    hostname: str | None = None
    user: str = DEFAULT_USER
    ssh_public_keys: tuple[str, ...] = ()
    fqdn: str | None = None
    sudo: str | None = ALL_SUDO
    password_hash: str | None = field(default=None, repr=False)
    users: tuple[User, ...] = ()
    network: tuple[NicConfig, ...] = ()
    dns_servers: tuple[str, ...] = ()
    dns_search: tuple[str, ...] = ()
    timezone: str | None = None
    locale: str | None = None
    ca_certificates: tuple[str, ...] = field(default=(), repr=False)
    files: tuple[SeedFile, ...] = ()
    packages: tuple[str, ...] = ()
    commands: tuple[str | tuple[str, ...], ...] = field(default=(), repr=False)
    grow_root: bool = True
    user_data: str | None = field(default=None, repr=False)
    secrets: str | None = None
    method: str = METHODS[0]

    @property
    def static_addresses(self) -> tuple[str, ...]:
        """The addresses it configures, without prefix length, in the order of its NICs."""
        return tuple(address.partition("/")[0] for nic in self.network for address in nic.addresses)

    def without_secrets(self, name: str) -> Seed:
        """The same seed of the VM ``name``, safe for metadata that anyone may read.

        What may be secret (and what is merely large) is replaced by one digest, so that a different
        request is recognised. A short secret must not be guessable from it, hence PBKDF2.
        """
        hidden = (
            self.password_hash,
            tuple(user.password_hash for user in self.users),
            tuple(file.content for file in self.files),
            self.ca_certificates,
            self.commands,
            self.user_data,
        )
        if not any(hidden[2:]) and not self.password_hash and not any(hidden[1]):
            return self
        return dataclasses.replace(
            self,
            password_hash=None,
            users=tuple(dataclasses.replace(user, password_hash=None) for user in self.users),
            files=tuple(dataclasses.replace(file, content="") for file in self.files),
            ca_certificates=(),
            commands=(),
            user_data=None,
            secrets=_digest(name, json.dumps(hidden)),
        )


@functools.lru_cache(maxsize=1024)
def _digest(name: str, text: str) -> str:
    salt = f"urn:fleet.virt:1 {name}".encode("utf-8", "surrogatepass")
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.pbkdf2_hmac("sha256", data, salt, _ROUNDS).hex()


@dataclass(frozen=True)
class HostKey:
    """An SSH host key pair created for one VM; the private key is in no representation."""

    public: str
    private: str = field(repr=False)

    def __repr__(self) -> str:
        return f"HostKey(public={self.public!r}, private=<hidden>)"


class SeededNic(t.NamedTuple):
    """The part of a NIC that the guest's network configuration needs."""

    name: str
    mac: str
