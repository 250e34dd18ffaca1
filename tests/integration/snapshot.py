# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine's libvirt and files look like now, as one plain value to be compared.

Used twice: imported, for files of the controller, and piped into the Python of a hypervisor, which
prints :func:`snapshot` as JSON. So it needs nothing but Python 3.9 and libvirt's binding. It asks
libvirt for nothing that refreshes a pool.

What a running guest writes by itself (its disks' size and time, its log) is left out, what somebody
else could do to the same file (owner, mode, another file of that name) is not.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import stat
import struct
import subprocess
import sys
import typing as t
from pathlib import Path

# Always looked at on a hypervisor: contents of small files, else size and time.
FOLDERS = (
    "/etc/libvirt",
    "/var/lib/libvirt/base",
    "/var/lib/libvirt/images",
    "/var/lib/libvirt/qemu/nvram",
    "/var/lib/libvirt/qemu/save",
    "/var/lib/libvirt/qemu/snapshot",
)
_DIGEST_LIMIT = 8 << 20
_GETFLAGS = 0x80086601  # FS_IOC_GETFLAGS: whether a file is immutable
_IMMUTABLE = 0x10


def file_entry(path: str, busy: t.Container[str] = ()) -> dict[str, t.Any] | None:
    """What there is to say about a path; None where nothing is."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    entry: dict[str, t.Any] = {
        "type": stat.filemode(status.st_mode)[0],
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "owner": f"{status.st_uid}:{status.st_gid}",
        "inode": status.st_ino,
    }
    if path in busy:
        return entry
    entry["mtime"] = status.st_mtime_ns
    if stat.S_ISLNK(status.st_mode):
        entry["link"] = os.readlink(path)
    if stat.S_ISREG(status.st_mode):
        entry["size"] = status.st_size
        with contextlib.suppress(OSError), open(path, "rb") as file:
            flags = fcntl.ioctl(file, _GETFLAGS, struct.pack("l", 0))
            entry["immutable"] = bool(struct.unpack("l", flags)[0] & _IMMUTABLE)
        if status.st_size <= _DIGEST_LIMIT:
            entry["sha256"] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return entry


def files(paths: t.Iterable[str], busy: t.Container[str] = ()) -> dict[str, t.Any]:
    """Every path given and, for folders, everything below; what is not there is not listed."""
    found: dict[str, t.Any] = {}
    for path in paths:
        for folder, names, others in os.walk(path):
            for name in (*names, *others):
                below = os.path.join(folder, name)
                found[below] = file_entry(below, busy)
        found[path] = file_entry(path, busy)
    return {path: entry for path, entry in sorted(found.items()) if entry is not None}


def _own_doing(xml: str) -> str:
    """A domain's XML without what the guest itself changes."""
    xml = re.sub(r" state='(dis)?connected'", "", xml)
    return re.sub(r"<currentMemory unit='KiB'>\d+</currentMemory>", "", xml)


def _domains(connection: t.Any) -> tuple[dict[str, t.Any], set[str]]:
    found: dict[str, t.Any] = {}
    busy: set[str] = set()
    for domain in connection.listAllDomains(0):
        active = domain.XMLDesc(1) if domain.isActive() else None
        if active:
            busy.update(re.findall(r"(?:file|dev|path)='(/[^']*)'", active))
            busy.update(re.findall(r"<nvram[^>]*>([^<]*)<", active))
        found[domain.name()] = {
            "state": domain.state(0),
            "active": active and _own_doing(active).splitlines(),
            # secure and inactive
            "inactive": domain.XMLDesc(3).splitlines() if domain.isPersistent() else None,
            "autostart": domain.autostart() if domain.isPersistent() else None,
            "managed_save": domain.hasManagedSaveImage(0),
            "snapshots": {
                snapshot.getName(): snapshot.getXMLDesc(0)
                for snapshot in domain.listAllSnapshots(0)
            },
            "checkpoints": [
                checkpoint.getName() for checkpoint in _supported(domain.listAllCheckpoints)
            ],
        }
    return found, busy


def _supported(function: t.Callable[[int], list[t.Any]]) -> list[t.Any]:
    import libvirt

    try:
        return function(0)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
            raise
        return []


def _pools(connection: t.Any, busy: t.Container[str]) -> tuple[dict[str, t.Any], list[str]]:
    found: dict[str, t.Any] = {}
    folders: list[str] = []
    for pool in connection.listAllStoragePools(0):
        xml = pool.XMLDesc(0)
        folders += re.findall(r"<path>(/[^<]*)</path>", xml)
        volumes: dict[str, t.Any] = {}
        for volume in pool.listAllVolumes(0) if pool.isActive() else ():
            path = volume.path()
            # The size from the listing; info() would open the file, which is no business of ours.
            volumes[volume.name()] = {"path": path, **(file_entry(path, busy) or {"gone": True})}
        found[pool.name()] = {
            # Numbers in there are those of the last refresh: they betray one.
            "xml": xml.splitlines(),
            "active": pool.isActive(),
            "autostart": pool.autostart() if pool.isPersistent() else None,
            "volumes": volumes,
        }
    return found, folders


def _networks(connection: t.Any) -> dict[str, t.Any]:
    return {
        network.name(): {
            "xml": network.XMLDesc(0).splitlines(),
            "active": network.isActive(),
            "autostart": network.autostart() if network.isPersistent() else None,
        }
        for network in connection.listAllNetworks(0)
    }


def _links() -> dict[str, t.Any]:
    """Network links with their bridges and lasting addresses."""
    done = subprocess.run(["ip", "-j", "address"], capture_output=True, text=True, check=True)
    return {
        link["ifname"]: {
            "master": link.get("master"),
            "mtu": link.get("mtu"),
            "mac": link.get("address"),
            "addresses": sorted(
                f"{address['local']}/{address['prefixlen']}"
                for address in link.get("addr_info", ())
                if "local" in address and address.get("scope") == "global"
            ),
        }
        for link in json.loads(done.stdout)
        if link
    }


def snapshot(watch: t.Sequence[str] = (), uri: str = "qemu:///system") -> dict[str, t.Any]:
    """Domains, pools with volumes, networks, secrets, links, and files below FOLDERS and watch."""
    import libvirt

    connection = libvirt.openReadOnly(uri) if uri.startswith("test:") else libvirt.open(uri)
    try:
        domains, busy = _domains(connection)
        pools, targets = _pools(connection, busy)
        return {
            "domains": domains,
            "pools": pools,
            "networks": _networks(connection),
            "secrets": {
                secret.UUIDString(): secret.XMLDesc(0)
                for secret in _supported(connection.listAllSecrets)
            },
            "links": _links(),
            "files": files(sorted({*FOLDERS, *targets, *watch}), busy),
        }
    finally:
        connection.close()


def differences(before: t.Any, after: t.Any, path: str = "") -> list[str]:
    """Where two plain values differ, one line each; none when they are equal."""
    if isinstance(before, dict) and isinstance(after, dict):
        lines = []
        for key in sorted({*before, *after}, key=str):
            where = f"{path}[{key!r}]"
            if key not in before:
                lines.append(f"{where} is new: {_short(after[key])}")
            elif key not in after:
                lines.append(f"{where} is gone: {_short(before[key])}")
            else:
                lines += differences(before[key], after[key], where)
        return lines
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            line
            for index, pair in enumerate(zip(before, after))
            for line in differences(*pair, f"{path}[{index}]")
        ]
    return [] if before == after else [f"{path}: {_short(before)} -> {_short(after)}"]


def _short(value: t.Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."


if __name__ == "__main__":
    json.dump(snapshot(**json.loads(sys.argv[1])), sys.stdout)
