# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A seed as the documents of a NoCloud medium, which cloud-init reads.

They are JSON, which YAML parsers accept: no quoting rules are needed, and a hypervisor needs no
YAML library.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import typing as t
from collections.abc import Mapping

from . import first_boot
from .types import HostKey, NicConfig, Seed, SeededNic, User

if t.TYPE_CHECKING:
    from ..base.json_values import Json

# What JSON allows unescaped, and YAML refuses or reads as a line break
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# A name of a network device that the kernel, udev and netplan accept, and the kernel gives to none
_DEVICE = re.compile(r"(?!(?:lo|all|default|eth[0-9]+)$)[A-Za-z][A-Za-z0-9_-]{0,14}")
_ROUTES = {4: "0.0.0.0/0", 6: "::/0"}
_DISABLED = "/etc/cloud/cloud-init.disabled"
# Until cloud-init is disabled: otherwise a boot without the medium would be a new instance
_TRUST = "/etc/cloud/cloud.cfg.d/95-fleet-virt.cfg"
# An id that came with the image is shared by all VMs of that image; one that was created by this
# boot (its file changed since) stays. systemd itself uses the VM's UUID under KVM.
_MACHINE_ID = """\
[ -e /etc/machine-id ] || exit 0
changed=$(stat -c %Z /etc/machine-id) booted=$(sed -n 's/^btime //p' /proc/stat)
[ "${changed:-0}" -ge "${booted:-1}" ] && [ -s /etc/machine-id ] && exit 0
echo "$1" > /etc/machine-id
[ -L /var/lib/dbus/machine-id ] || [ ! -e /var/lib/dbus/machine-id ] || \
echo "$1" > /var/lib/dbus/machine-id
"""


def nocloud(
    seed: Seed,
    name: str,
    uuid: str,
    nics: t.Sequence[SeededNic],
    host_key: HostKey,
    entropy: bytes,
) -> dict[str, bytes]:
    """The files of a NoCloud medium (label ``cidata``) for the VM ``name``.

    ``nics`` are in the VM's order, with their MAC addresses. ``host_key`` makes the guest's SSH
    identity known before it boots, ``entropy`` makes its random numbers unique; both make the
    medium a secret. ``uuid`` is the instance, and the machine id if the image comes with one.
    """
    hostname, fqdn = host_names(seed, name)
    meta = {"instance-id": uuid, "local-hostname": fqdn or hostname}
    data = _user_data(seed, hostname, fqdn, uuid, host_key, entropy)
    data["write_files"] = _files(seed, links(nics))
    if seed.user_data is not None:
        data = merged(data, json.loads(seed.user_data))
    commands = data.pop("runcmd")
    if isinstance(commands, list):
        commands = first_boot.watched(commands)
    if commands:  # cloud-init's schema has no empty list
        data["runcmd"] = commands
    return {
        "meta-data": _document(meta),
        "network-config": _document(network(seed, nics)),
        "user-data": b"#cloud-config\n" + _document(data),
    }


def host_names(seed: Seed, name: str) -> tuple[str, str | None]:
    """The guest's short host name, and its FQDN if it has a domain."""
    full = seed.fqdn or seed.hostname or name
    short, dot, _domain = full.partition(".")
    return short, full if dot else None


def merged(ours: Mapping[str, Json], theirs: Mapping[str, Json]) -> dict[str, Json]:
    """Merge mappings key by key and append lists; otherwise the user's value wins."""
    both = {key: _merged(ours[key], theirs[key]) for key in ours if key in theirs}
    return {**ours, **theirs, **both}


def _merged(ours: Json, theirs: Json) -> Json:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return merged(ours, theirs)
    if isinstance(ours, list) and isinstance(theirs, list):
        return [*ours, *theirs]
    return theirs


def _user_data(
    seed: Seed,
    hostname: str,
    fqdn: str | None,
    uuid: str,
    host_key: HostKey,
    entropy: bytes,
) -> dict[str, Json]:
    machine_id = uuid.replace("-", "")
    data: dict[str, Json] = {
        "bootcmd": [
            ["sh", "-c", _MACHINE_ID, "machine-id", machine_id],
            ["sh", "-c", first_boot.REPORT, "first-boot", _DISABLED],
        ],
        "disable_root": seed.user != "root",
        "growpart": {"mode": "auto" if seed.grow_root else "off", "devices": ["/"]},
        "hostname": hostname,
        "manage_etc_hosts": "localhost",  # sudo looks up its own host name
        "preserve_hostname": False,
        "random_seed": {
            "data": base64.b64encode(entropy).decode("ascii"),
            "encoding": "base64",
            "file": "/dev/urandom",
        },
        "resize_rootfs": seed.grow_root,
        "runcmd": [_command(command) for command in seed.commands],
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": host_key.private, "ed25519_public": host_key.public},
        "ssh_pwauth": False,
        "users": [_user(user, lock=lock) for user, lock in logins(seed)],
        "write_files": [],
    }
    if fqdn is not None:
        data["fqdn"] = fqdn
    if seed.timezone is not None:
        data["timezone"] = seed.timezone
    if seed.locale is not None:
        data["locale"] = seed.locale
    if seed.ca_certificates:
        data["ca_certs"] = {"trusted": list(seed.ca_certificates)}
    if seed.packages:
        data["packages"] = list(seed.packages)
    return data


def _command(command: str | tuple[str, ...]) -> str | list[str]:
    return command if isinstance(command, str) else list(command)


def logins(seed: Seed) -> list[tuple[User, bool]]:
    """All users, each with whether its password is locked if none is given.

    The first is the one Ansible logs in as. root has its privileges already, and keeps the image's
    password.
    """
    root = seed.user == "root"
    sudo = None if root else seed.sudo
    first = User(seed.user, seed.ssh_public_keys, seed.password_hash, sudo)
    return [(first, not root), *((user, True) for user in seed.users)]


def _user(user: User, *, lock: bool) -> dict[str, Json]:
    entry: dict[str, Json] = {"name": user.name}
    if user.ssh_public_keys:
        entry["ssh_authorized_keys"] = list(user.ssh_public_keys)
    if user.password_hash is not None:
        entry["hashed_passwd"], entry["lock_passwd"] = user.password_hash, False
    elif lock:
        entry["lock_passwd"] = True
    if user.sudo is not None:
        entry["sudo"] = user.sudo
    if user.groups:
        entry["groups"] = list(user.groups)
    if user.shell is not None:
        entry["shell"] = user.shell
    return entry


def _files(seed: Seed, own: Mapping[str, str]) -> list[Json]:
    trust = "# Made by fleet.virt: this VM stays the instance it was seeded as.\n"
    files: list[Json] = [
        {
            "path": path,
            "content": base64.b64encode(text.encode()).decode("ascii"),
            "encoding": "b64",
            "owner": "root:root",
            "permissions": "0644",
        }
        for path, text in {_TRUST: trust + "manual_cache_clean: true\n", **own}.items()
    ]
    for file in seed.files:
        entry: dict[str, Json] = {
            "path": file.path,
            "content": file.content,
            "encoding": "b64",
            "owner": file.owner,
            "permissions": file.mode,
        }
        if file.owner.partition(":")[0] != "root":
            entry["defer"] = True  # users are created after files are written
        files.append(entry)
    return files


def actual_nic(nic: NicConfig, nics: t.Sequence[SeededNic]) -> SeededNic | None:
    """The VM's NIC with that name or MAC address."""
    return next(
        (seeded for seeded in nics if nic.name == seeded.name or nic.mac == seeded.mac.lower()),
        None,
    )


class ConfiguredNic(t.NamedTuple):
    """A NIC and its configuration; the boot waits for the one that is ``first``."""

    nic: SeededNic
    config: NicConfig
    first: bool


def configured_nics(seed: Seed, nics: t.Sequence[SeededNic]) -> list[ConfiguredNic]:
    """Every NIC, with DHCP if not configured.

    The boot waits for one NIC only: the one with a gateway, else the first.
    """
    chosen: dict[str, NicConfig] = {}
    for config in seed.network:
        actual = actual_nic(config, nics)
        if actual is not None:
            chosen[actual.mac] = config
    first = next((nic.mac for nic in nics if nic.mac in chosen and chosen[nic.mac].gateways), None)
    if first is None and nics:
        first = nics[0].mac
    configured: list[ConfiguredNic] = []
    for nic in nics:
        config = chosen.get(nic.mac, NicConfig())
        if nic.mac == first:
            config = dataclasses.replace(
                config,
                dns_servers=config.dns_servers or seed.dns_servers,
                dns_search=config.dns_search or seed.dns_search,
            )
        configured.append(ConfiguredNic(nic, config, nic.mac == first))
    return configured


def network(seed: Seed, nics: t.Sequence[SeededNic]) -> dict[str, Json]:
    """Version 2 network configuration: every NIC is matched by its MAC address.

    It is given a name, too: without one, cloud-init before 22.2 writes the entry's key as the name
    into what it makes for ifupdown, sysconfig and systemd-networkd, and the guest may call the NIC
    otherwise. cloud-init renames it at this boot, :func:`links` at the following ones.

    The DHCP client identifies itself by the MAC address: by default it would use the machine id,
    so that a VM recreated with the same address would get a different lease, and two VMs of one
    image might get the same one.
    """
    ethernets: dict[str, dict[str, Json]] = {}
    for nic, config, first in configured_nics(seed, nics):
        optional = {} if first else {"optional": True}
        ethernets[nic.name] = {**_ethernet(nic, config), **optional}
    for nic, name in guest_names(nics):
        ethernets[nic.name]["set-name"] = name
    return {"version": 2, "ethernets": {**ethernets}}


def guest_names(nics: t.Sequence[SeededNic]) -> list[tuple[SeededNic, str]]:
    """Each NIC with its name in the guest: its own, or else eth0, eth1... by its place.

    So is one that is called ethN itself: the kernel counts NICs by their places, and udev renames
    none to a name that another has meanwhile.
    """
    return [
        (nic, nic.name if _DEVICE.fullmatch(nic.name) else f"eth{place}")
        for place, nic in enumerate(nics)
    ]


def links(nics: t.Sequence[SeededNic]) -> dict[str, str]:
    """Files for systemd's udev, by path, that keep the names at boots without cloud-init.

    ``Path`` excludes what has the MAC address of a NIC below it, such as a bridge or a VLAN.
    """
    return {
        f"/etc/systemd/network/10-fleet-virt-{name}.link": (
            f"# Made by fleet.virt.\n[Match]\nMACAddress={nic.mac}\nPath=?*\n\n"
            f"[Link]\nName={name}\nAlternativeNamesPolicy=database onboard slot path\n"
        )
        for nic, name in guest_names(nics)
    }


def _ethernet(nic: SeededNic, config: NicConfig) -> dict[str, Json]:
    entry: dict[str, Json] = {"match": {"macaddress": nic.mac}, "dhcp4": config.dhcp4}
    if config.dhcp4:
        entry["dhcp-identifier"] = "mac"
    if config.dhcp6:
        entry["dhcp6"] = True
    if config.addresses:
        entry["addresses"] = list(config.addresses)
    routes: list[dict[str, Json]] = [
        {"to": _ROUTES[6 if ":" in gateway else 4], "via": gateway} for gateway in config.gateways
    ]
    for route in config.routes:
        routes.append({"to": route.to, "via": route.via})
        if route.metric is not None:
            routes[-1]["metric"] = route.metric
    for written in routes:
        if config.on_link(str(written["via"])):
            written["on-link"] = True
    if routes:
        entry["routes"] = routes
    servers: dict[str, Json] = {}
    if config.dns_servers:
        servers["addresses"] = list(config.dns_servers)
    if config.dns_search:
        servers["search"] = list(config.dns_search)
    if servers:
        entry["nameservers"] = servers
    if config.mtu is not None:
        entry["mtu"] = config.mtu
    return entry


def _document(content: t.Mapping[str, Json]) -> bytes:
    # not ASCII only: JSON's surrogate pairs are not valid YAML
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    text = _NOT_YAML.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    return text.encode("utf-8") + b"\n"
