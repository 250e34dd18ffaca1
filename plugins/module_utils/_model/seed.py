# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is put into a VM before its first boot: the specification, and reading it.

What few requests have is read in ``seed_options`` and ``seed_network``, which are imported when it
is there. The documents that cloud-init reads are made in ``seed_documents``.

This file is private to the collection.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
import json
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from .._errors import Problem
from .names import check_host_name
from .options import Reader, to_boolean

DEFAULT_USER = "ansible"
ALL_SUDO = "ALL=(ALL) NOPASSWD:ALL"
# How it reaches the guest: a medium that cloud-init reads, or written into the guest's own disk
METHODS = ("nocloud", "offline", "auto")
ReadYaml = t.Callable[[str], t.Any]
_KEY_TYPES = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
# what useradd of every distribution takes
USER = r"[a-z_][a-z0-9_-]{0,31}"
USER_RULE = "1 to 32 small letters, digits, '_' or '-', the first a letter or '_'"
# Options that seed_options reads
_MORE = (
    "fqdn",
    "sudo",
    "password_hash",
    "users",
    "timezone",
    "locale",
    "ca_certificates",
    "files",
    "packages",
    "commands",
    "grow_root",
    "user_data",
)
# Options that seed_network reads
_NETWORK = ("network", "dns_servers", "dns_search")
_ROUNDS = 100_000  # some 50 ms; see Seed.without_secrets


@dataclass(frozen=True)
class User:
    """A user beside the one Ansible logs in as; ``sudo`` is a rule of sudoers(5)."""

    name: str
    ssh_public_keys: tuple[str, ...] = ()
    password_hash: str | None = field(default=None, repr=False)
    sudo: str | None = None
    groups: tuple[str, ...] = ()
    shell: str | None = None


@dataclass(frozen=True)
class File:
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
    """What a NIC, named or found by its MAC address, is told; addresses have a prefix length."""

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


@dataclass(frozen=True)
class Seed:
    """Host name (None: the VM's name), the user Ansible logs in as and its public keys, and more.

    ``user_data`` is JSON. ``secrets`` stands for what :meth:`without_secrets` took out.
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
    files: tuple[File, ...] = ()
    packages: tuple[str, ...] = ()
    commands: tuple[str | tuple[str, ...], ...] = field(default=(), repr=False)
    grow_root: bool = True
    user_data: str | None = field(default=None, repr=False)
    secrets: str | None = None
    method: str = METHODS[0]

    @property
    def static_addresses(self) -> tuple[str, ...]:
        """The addresses it gives, without prefix length, in the order of its NICs."""
        return tuple(one.partition("/")[0] for nic in self.network for one in nic.addresses)

    def without_secrets(self, name: str) -> Seed:
        """The same seed of the VM ``name``, fit for metadata that everybody may read.

        What may be secret (and what is only bulky) is replaced by one digest, so that another
        request is told apart. A short secret must not be guessed from it, hence PBKDF2.
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
    import hashlib

    salt = f"urn:fleet.virt:1 {name}".encode("utf-8", "surrogatepass")
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.pbkdf2_hmac("sha256", data, salt, _ROUNDS).hex()


@dataclass(frozen=True)
class HostKey:
    """An SSH host key pair made for one VM; the private half is in no representation."""

    public: str
    private: str = field(repr=False)

    def __repr__(self) -> str:
        return f"HostKey(public={self.public!r}, private=<hidden>)"


class SeededNic(t.NamedTuple):
    """As much of a NIC as the guest's network configuration needs."""

    name: str
    mac: str


def wanted(value: t.Any, default: bool) -> bool:
    """Whether ``seed: value`` asks for seeding: a boolean, a word for one, or a mapping."""
    if value is None:
        return default
    if isinstance(value, (bool, str, int)):
        if isinstance(value, str) and value.strip().lower() == "none":
            return False
        return to_boolean(value)
    return True


def from_options(
    value: t.Any,
    path: str,
    default_keys: t.Sequence[str],
    problems: list[Problem],
    read_yaml: ReadYaml | None = None,
) -> Seed:
    """The seed that ``value`` (a mapping, or true) asks for; findings go to ``problems``.

    ``default_keys`` are the controller's own public keys, taken when none are written.
    ``read_yaml`` reads user-data that is YAML text, and raises ValueError with what is wrong;
    without it (on a hypervisor) only JSON is taken.
    """
    reader = Reader(value if isinstance(value, Mapping) else None, path, problems)
    if not isinstance(value, (Mapping, bool, str, int, type(None))):
        problems.append(
            Problem(
                path,
                "this is neither a mapping nor true or false; "
                'write false, or for example {"user": "ansible"}',
            )
        )
    hostname = reader.value("hostname")
    if hostname is not None:
        problems.extend(check_host_name(hostname, reader.at("hostname")))
    keys = public_keys(reader, "ssh_public_keys", default_keys)
    user = reader.text("user", DEFAULT_USER, USER, USER_RULE) or DEFAULT_USER
    method = reader.choice("method", METHODS, METHODS[0]) or METHODS[0]
    host = str(hostname) if hostname is not None else None
    seed = Seed(host, user, keys, method=method)
    # all of them, not any(): what was not asked for is unknown
    more = [key for key in _MORE if reader.given(key)]
    network = [key for key in _NETWORK if reader.given(key)]
    if more:
        from . import seed_options

        seed = dataclasses.replace(seed, **seed_options.read(reader, seed, read_yaml))
    if network:
        from . import seed_network

        seed = dataclasses.replace(seed, **seed_network.read(reader))
    if method == "offline" and seed.user_data is not None:
        reader.problem(
            "user_data",
            "cloud-init reads it, and method offline uses none; say it with the other options, with"
            " files and with commands",
        )
    reader.finish()
    return seed


def public_keys(
    reader: Reader, key: str, default: t.Sequence[str], *, required: bool = True
) -> tuple[str, ...]:
    """The public keys under ``key``: a list, or text with one on each line."""
    written = reader.structure(key, secret=True)
    origin = reader.at(key)
    lines: t.Any = list(default) if written is None else written
    if isinstance(lines, str):
        lines = [lines] if "PRIVATE KEY" in lines else lines.splitlines()
    if not isinstance(lines, (list, tuple)):
        reader.problem(key, "this is not a list of public keys; write [ssh-ed25519 AAAA...]")
        return ()
    keys: list[str] = []
    findings = 0
    for index, line in enumerate(lines):
        text = line.strip() if isinstance(line, str) else line
        if text == "":
            continue
        message = public_key_problem(text)
        if message:
            findings += 1
            reader.problems.append(Problem(f"{origin}[{index}]", message))
        elif text not in keys:
            keys.append(str(text))
    if required and not keys and not findings:
        reader.problem(
            key,
            "no public key: nobody could log in; set virt_ssh_public_key, make one "
            "with ssh-keygen -t ed25519, or set seed to false",
        )
    return tuple(keys)


def public_key_problem(text: t.Any) -> str | None:
    """What is wrong with one line of ``authorized_keys``; never shows any of it."""
    remedy = "give the one line of the .pub file, such as ssh-ed25519 AAAA... name"
    if not isinstance(text, str):
        return f"this is not text; {remedy}"
    if "PRIVATE KEY" in text or text.startswith("-----") or "openssh-key-v1" in text:
        return f"this is a PRIVATE key, which belongs into no variable; {remedy}"
    if not text.isprintable():
        return f"this is more than one line, or has control characters; {remedy}"
    kind, _dummy, rest = text.partition(" ")
    if kind not in _KEY_TYPES:
        return f"this does not start with a known type ({', '.join(_KEY_TYPES)}); {remedy}"
    try:
        blob = base64.b64decode(rest.split(" ", 1)[0], validate=True)
    except (binascii.Error, ValueError):
        return f"the {kind} key is not base64; {remedy}"
    if blob[: 4 + len(kind)] != len(kind).to_bytes(4, "big") + kind.encode("ascii") or (
        len(blob) < len(kind) + 32
    ):
        return f"the {kind} key is cut short, or of another type than it says; {remedy}"
    return None
