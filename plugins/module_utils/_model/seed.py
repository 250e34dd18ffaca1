# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is put into a VM before its first boot, and its form as a NoCloud medium.

The documents are JSON, which YAML readers take as they are: nothing needs quoting rules.

This file is private to the collection.
"""

from __future__ import annotations

import base64
import binascii
import json
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from .._errors import Problem
from .names import check_host_name
from .options import Reader, show, to_boolean

DEFAULT_USER = "ansible"
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
_USER = r"[a-z_][a-z0-9_-]{0,31}"
_USER_RULE = "1 to 32 small letters, digits, '_' or '-', the first a letter or '_'"


@dataclass(frozen=True)
class Seed:
    """Host name (None: the VM's name), the user Ansible logs in as, and its public keys."""

    hostname: str | None = None
    user: str = DEFAULT_USER
    ssh_public_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostKey:
    """An SSH host key pair made for one VM; the private half is in no representation."""

    public: str
    private: str

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
    value: t.Any, path: str, default_keys: t.Sequence[str], problems: list[Problem]
) -> Seed:
    """The seed that ``value`` (a mapping, or true) asks for; findings go to ``problems``.

    ``default_keys`` are the controller's own public keys, taken when none are written.
    """
    reader = Reader(value if isinstance(value, Mapping) else None, path, problems)
    if not isinstance(value, (Mapping, bool, str, int, type(None))):
        problems.append(
            Problem(
                path,
                f"{show(value)} is neither a mapping nor true or false; "
                'write false, or for example {"user": "ansible"}',
            )
        )
    hostname = reader.value("hostname")
    if hostname is not None:
        problems.extend(check_host_name(hostname, reader.at("hostname")))
    keys = public_keys(reader, "ssh_public_keys", default_keys)
    user = reader.text("user", DEFAULT_USER, _USER, _USER_RULE) or DEFAULT_USER
    reader.finish()
    return Seed(str(hostname) if hostname is not None else None, user, keys)


def public_keys(reader: Reader, key: str, default: t.Sequence[str]) -> tuple[str, ...]:
    """The public keys under ``key``: a list, or text with one on each line."""
    written = reader.structure(key)
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
    if not keys and not findings:
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


def nocloud(
    seed: Seed,
    name: str,
    instance_id: str,
    nics: t.Sequence[SeededNic],
    host_key: HostKey | None = None,
) -> dict[str, bytes]:
    """The files of a NoCloud medium (label ``cidata``) for the VM ``name``.

    ``nics`` come in the VM's order, with their MAC addresses. ``host_key`` makes the guest's SSH
    identity known before it boots; it makes the medium a secret.
    """
    hostname = seed.hostname or name
    meta = {"instance-id": instance_id, "local-hostname": hostname}
    return {
        "meta-data": _document(meta),
        "network-config": _document(_network(nics)),
        "user-data": b"#cloud-config\n" + _document(_user_data(seed, hostname, host_key)),
    }


def _user_data(seed: Seed, hostname: str, host_key: HostKey | None) -> dict[str, t.Any]:
    root = seed.user == "root"
    user: dict[str, t.Any] = {"name": seed.user, "ssh_authorized_keys": list(seed.ssh_public_keys)}
    if not root:
        user.update(lock_passwd=True, sudo="ALL=(ALL) NOPASSWD:ALL")
    data: dict[str, t.Any] = {
        "disable_root": not root,
        "hostname": hostname.partition(".")[0],
        "manage_etc_hosts": "localhost",  # sudo looks its own host name up
        "preserve_hostname": False,
        # Without the medium a later boot would be a new instance, with new host keys
        "runcmd": [["touch", "/etc/cloud/cloud-init.disabled"]],
        "ssh_pwauth": False,
        "users": [user],
    }
    if "." in hostname:
        data["fqdn"] = hostname
    if host_key is not None:
        data["ssh_deletekeys"] = True
        data["ssh_keys"] = {
            "ed25519_private": host_key.private,
            "ed25519_public": host_key.public,
        }
    return data


def _network(nics: t.Sequence[SeededNic]) -> dict[str, t.Any]:
    """Version 2 network configuration: DHCP on every NIC, found by its address.

    The DHCP client identifies itself by the MAC address: by default it would use the machine id,
    so that a VM made anew under the same address is given another lease. The boot waits for the
    first NIC only.
    """
    ethernets: dict[str, t.Any] = {}
    for index, nic in enumerate(nics):
        ethernets[nic.name] = {
            "match": {"macaddress": nic.mac},
            "dhcp4": True,
            "dhcp-identifier": "mac",
        }
        if index:
            ethernets[nic.name]["optional"] = True
    return {"version": 2, "ethernets": ethernets}


def _document(content: t.Mapping[str, t.Any]) -> bytes:
    # not ASCII only: JSON's surrogate pairs are not YAML
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    return text.encode("utf-8") + b"\n"
