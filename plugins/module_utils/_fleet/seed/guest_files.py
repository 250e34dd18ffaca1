# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A seed as changes to a guest's own disk: files, folders, links, and removals.

A seed produces the same guest as with the documents that cloud-init reads (``documents``).
"""

from __future__ import annotations

import base64
import re
import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass, field
from . import guest_accounts, guest_first_boot, guest_network
from .documents import configured_nics, host_names, logins
from .guest_accounts import Accounts, Home
from .guest_paths import Look
from .types import HostKey, Seed, SeededNic

if t.TYPE_CHECKING:
    from .guest_image import Image

# The text of a file in the image, empty if missing
Read = t.Callable[[str], str]

HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
_SSHD = "/etc/ssh/sshd_config"
_SSHD_FOLDER = "/etc/ssh/sshd_config.d"
_SUDOERS = "/etc/sudoers.d"
_ZONES = "/usr/share/zoneinfo"
_SYSTEM = "/etc/systemd/system"
_UNITS = ("/usr/lib/systemd/system", "/lib/systemd/system", _SYSTEM)
_ENABLE = {
    "networkd": "systemd-networkd.service",
    "networkmanager": "NetworkManager.service",
    "ifupdown": "networking.service",
}
# What another VM of the same image would share: keys, random seeds, DHCP identities
REMOVED = (
    "/etc/ssh/ssh_host_*",
    "/var/lib/systemd/random-seed",
    "/var/lib/systemd/credential.secret",
    "/var/lib/systemd/network/*",
    "/var/lib/urandom/random-seed",
    "/var/lib/misc/random-seed",
    "/boot/loader/random-seed",
    "/boot/efi/loader/random-seed",
    "/efi/loader/random-seed",
    "/var/lib/dhcp/*.lease*",
    "/var/lib/dhclient/*.lease*",
    "/var/lib/NetworkManager/*.lease",
    "/var/lib/NetworkManager/secret_key",
    "/var/lib/dhcpcd*/*.lease*",
    "/var/lib/dhcpcd*/duid",
    "/var/lib/dhcpcd*/secret",
    "/etc/dhcpcd.duid",
    "/etc/dhcpcd.secret",
    "/var/lib/wicked/*.xml",
)
# What cloud-init stored for another VM, and what a seed wrote so that it trusts that or stays off
_CLOUD_INIT = (
    "/var/lib/cloud/*",
    "/etc/cloud/cloud-init.disabled",
    "/etc/cloud/cloud.cfg.d/95-fleet-virt.cfg",
    "/etc/netplan/50-cloud-init.yaml",
    "/etc/network/interfaces.d/50-cloud-init*",
)


@dataclass(frozen=True)
class GuestFile:
    """A file; ``keep``: an existing one keeps its mode and owner."""

    path: str
    content: bytes = field(repr=False)
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    keep: bool = False


@dataclass(frozen=True)
class Folder:
    """A folder that is created if missing; ``own``: mode and owner are set anyway."""

    path: str
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    own: bool = False


@dataclass(frozen=True)
class GuestFilesPlan:
    """All changes to the guest's file systems, in this order.

    ``removed`` are patterns. ``homes`` are new and start as copies of /etc/skel.
    """

    removed: tuple[str, ...]
    homes: tuple[Home, ...]
    folders: tuple[Folder, ...]
    files: tuple[GuestFile, ...]
    links: tuple[tuple[str, str], ...]

    def paths(self) -> list[str]:
        """All paths that are written."""
        return [
            *(home.path for home in self.homes),
            *(folder.path for folder in self.folders),
            *(file.path for file in self.files),
        ]


def anonymous(look: Look) -> GuestFilesPlan:
    """The changes that remove a VM's identity from its disk, so that it accepts another seed."""
    files = [GuestFile("/etc/machine-id", b"", 0o444)]
    links = []
    if look("/var/lib/dbus") is not None:
        links.append(("/var/lib/dbus/machine-id", "/etc/machine-id"))
    return GuestFilesPlan((*REMOVED, *_CLOUD_INIT), (), (), tuple(files), tuple(links))


class _Making:
    """A plan under construction. The user's files count as part of the image."""

    def __init__(self, image: Image, read: Read, look: Look) -> None:
        self.image, self.look, self._read = image, look, read
        self.files: dict[str, GuestFile] = {}
        self.folders: dict[str, Folder] = {}
        self.links: dict[str, str] = {}

    def read(self, path: str) -> str:
        if path in self.files:
            return self.files[path].content.decode("utf-8", "surrogateescape")
        return self._read(path)

    def exists(self, path: str) -> bool:
        return self.look(path) is not None

    def put(self, path: str, text: str, mode: int = 0o644, *, keep: bool = False) -> None:
        content = text.encode("utf-8", "surrogateescape")
        self.files[path] = GuestFile(path, content, mode, keep=keep)

    def enable(self, unit: str, target: str = "multi-user.target") -> None:
        """Enable an existing systemd unit."""
        folder = next((units for units in _UNITS if self.exists(f"{units}/{unit}")), None)
        if folder is not None:
            self.links[f"{_SYSTEM}/{target}.wants/{unit}"] = f"{folder}/{unit}"


def plan(
    seed: Seed,
    name: str,
    nics: t.Sequence[SeededNic],
    host_key: HostKey,
    image: Image,
    read: Read,
    look: Look,
) -> GuestFilesPlan:
    """The changes that turn the image into the VM ``name``.

    ``look`` is as in :mod:`guest_paths`, with links followed up to the last part of a path. Raises
    PlanRefused for what cannot be done in this image.
    """
    if seed.user_data is not None:
        raise PlanRefused(
            "user_data is read by cloud-init, which the image does not have; use the seed's other"
            " options, files and commands instead"
        )
    making = _Making(image, read, look)
    later = _files(making, seed)
    accounts, homes = _users(making, seed)
    placed = [
        (path, owner) for path, owner in later if not _set_owner(making, accounts, path, owner)
    ]
    _identity(making, seed, name, host_key)
    _network(making, seed, nics)
    _localisation(making, seed)
    _first_boot(making, seed, placed)
    if image.cloud_init:
        making.put("/etc/cloud/cloud-init.disabled", "")
    if re.search(r"^\s*SELINUX\s*=\s*(enforcing|permissive)", read("/etc/selinux/config"), re.M):
        making.put("/.autorelabel", "")  # what is written here has no labels
    return GuestFilesPlan(
        REMOVED,
        tuple(home for home in homes if home.new and not making.exists(home.path)),
        tuple(making.folders.values()),
        tuple(making.files.values()),
        tuple(making.links.items()),
    )


def _files(making: _Making, seed: Seed) -> list[tuple[str, str]]:
    """Add the user's files; returns path and owner of those not owned by root."""
    owners: list[tuple[str, str]] = []
    for file in seed.files:
        content = base64.b64decode(file.content)
        making.files[file.path] = GuestFile(file.path, content, int(file.mode, 8))
        if file.owner not in ("root", "root:root"):
            owners.append((file.path, file.owner))
    return owners


def _set_owner(making: _Making, accounts: Accounts, path: str, owner: str) -> bool:
    """Give a file its owner; if a package creates that one, only root can read it so far."""
    file = making.files[path]
    numbers = guest_accounts.ids(accounts, owner)
    mode, (uid, gid) = (file.mode, numbers) if numbers else (0o600, (0, 0))
    making.files[path] = GuestFile(path, file.content, mode, uid, gid)
    return numbers is not None


def _users(making: _Making, seed: Seed) -> tuple[Accounts, list[Home]]:
    users = logins(seed)
    texts = {name: making.read(f"/etc/{name}") for name in ("passwd", "shadow", "group", "gshadow")}
    if not texts["passwd"] or not texts["group"]:
        raise PlanRefused(
            "the image has no /etc/passwd or no /etc/group; it is not a complete system"
        )
    shell = "/bin/bash" if making.image.bash else "/bin/sh"
    accounts, homes = guest_accounts.with_users(Accounts(**texts), users, shell)
    for name in texts:
        text = getattr(accounts, name)
        if text:
            secret = name in ("shadow", "gshadow")
            making.put(f"/etc/{name}", text, 0o600 if secret else 0o644, keep=True)
    for (user, _lock), home in zip(users, homes):
        if home.new:
            making.folders[home.path] = Folder(home.path, 0o700, home.uid, home.gid)
        if not user.ssh_public_keys:
            continue
        folder = f"{home.path.rstrip('/')}/.ssh"
        path = f"{folder}/authorized_keys"
        making.folders[folder] = Folder(folder, 0o700, home.uid, home.gid, own=True)
        lines = dict.fromkeys([*making.read(path).splitlines(), *user.ssh_public_keys])
        content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        making.files[path] = GuestFile(path, content, 0o600, home.uid, home.gid)
    rules = guest_accounts.sudoers(users)
    if rules:
        making.folders[_SUDOERS] = Folder(_SUDOERS, 0o750)
        making.put(f"{_SUDOERS}/90-fleet-virt", rules, 0o440)
        main = making.read("/etc/sudoers")
        if main and not re.search(rf"^[#@]includedir\s+{_SUDOERS}\s*$", main, re.M):
            text = f"{main.rstrip()}\n#includedir {_SUDOERS}\n"
            making.put("/etc/sudoers", text, 0o440, keep=True)
    return accounts, homes


def _identity(making: _Making, seed: Seed, name: str, host_key: HostKey) -> None:
    short, full = host_names(seed, name)
    making.put("/etc/hostname", f"{short}\n", keep=True)
    names = f"{full} {short}" if full else short
    hosts = [line for line in making.read("/etc/hosts").splitlines() if _first(line) != "127.0.1.1"]
    if not any(_first(line) == "127.0.0.1" for line in hosts):
        hosts.insert(0, "127.0.0.1 localhost")
    at = next(i for i, line in enumerate(hosts) if _first(line) == "127.0.0.1")
    hosts.insert(at + 1, f"127.0.1.1 {names}")
    making.put("/etc/hosts", "".join(f"{line}\n" for line in hosts), keep=True)
    # present and empty: systemd creates an id without treating it as its own first boot
    making.put("/etc/machine-id", "", 0o444)
    if making.exists("/var/lib/dbus"):
        making.links["/var/lib/dbus/machine-id"] = "/etc/machine-id"
    making.put(HOST_KEY, host_key.private, 0o600)
    making.put(f"{HOST_KEY}.pub", f"{host_key.public}\n")
    lines = f"# Made by fleet.virt.\nHostKey {HOST_KEY}\nPasswordAuthentication no\n"
    main = making.read(_SSHD)
    if not main or re.search(rf"^\s*Include\s+\"?{_SSHD_FOLDER}/\*", main, re.M):
        making.put(f"{_SSHD_FOLDER}/10-fleet-virt.conf", lines)
    else:  # the first of two values counts
        making.put(_SSHD, f"{lines}\n{main}", 0o600, keep=True)
    if making.image.sshd_unit is not None:
        making.enable(making.image.sshd_unit)


def _first(line: str) -> str:
    return (line.split() or [""])[0]


def _network(making: _Making, seed: Seed, nics: t.Sequence[SeededNic]) -> None:
    every = configured_nics(seed, nics)
    backend = guest_network.require(making.image.network, every)
    if not every:
        return
    for path, text, mode in guest_network.files(backend, every):
        making.put(path, text, mode)
    if not making.image.network_enabled:
        making.enable(_ENABLE[backend])
        if backend == "networkd":
            making.enable("systemd-networkd-wait-online.service", "network-online.target")
    text = guest_network.resolv_conf(every)
    ours = backend == "ifupdown" or (backend == "networkd" and not making.image.resolved)
    # a link belongs to a service that writes it at run time
    if text and ours and making.look("/etc/resolv.conf") in ("", None):
        making.put("/etc/resolv.conf", text)


def _localisation(making: _Making, seed: Seed) -> None:
    if seed.timezone is not None:
        if not making.exists(f"{_ZONES}/{seed.timezone}"):
            raise PlanRefused(
                f"the image has no time zone {seed.timezone!r} ({_ZONES}); choose another, or build"
                " the package tzdata into the image"
            )
        making.links["/etc/localtime"] = f"..{_ZONES}/{seed.timezone}"
        if making.exists("/etc/timezone"):
            making.put("/etc/timezone", f"{seed.timezone}\n", keep=True)
    if seed.locale is not None:
        debian = making.image.manager == "apt-get"
        path = "/etc/default/locale" if debian else "/etc/locale.conf"
        making.put(path, f"LANG={seed.locale}\n", keep=True)
    if seed.ca_certificates and making.image.trust is None:
        raise PlanRefused(
            "the image has no known location for CA certificates; build the package"
            " ca-certificates into it"
        )
    for number, text in enumerate(seed.ca_certificates, 1):
        making.put(f"{making.image.trust}/fleet-virt-{number}.crt", text)


def _first_boot(making: _Making, seed: Seed, later: t.Sequence[tuple[str, str]]) -> None:
    modes = {file.path: file.mode for file in seed.files}
    owners = [(owner, modes[path], path) for path, owner in later]
    script, online = guest_first_boot.script(seed, making.image, owners)
    if not script:
        return
    making.folders[guest_first_boot.FOLDER] = Folder(guest_first_boot.FOLDER, 0o700)
    making.put(guest_first_boot.SCRIPT, script, 0o700)
    commands = guest_first_boot.commands(seed)
    if commands:
        making.put(guest_first_boot.COMMANDS, commands, 0o700)
    making.put(guest_first_boot.UNIT, guest_first_boot.unit(online=online))
    making.links[guest_first_boot.WANTED] = guest_first_boot.UNIT
