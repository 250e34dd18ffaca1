# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A hypervisor's keys: current state, certificate requests, and deployment of new files.

All files of a state are in one folder, a version; the paths that libvirt and qemu read are links
through ``current``, itself a link to a version. So renaming one link activates a complete new state
at once. Everything before that can be interrupted and repeated.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import stat
import typing as t
from pathlib import Path

from ..._errors import FleetVirtError, PlanRefused
from ..base import effects_files as files
from ..base.key_files import (
    BASE,
    CA,
    CERTIFICATE,
    CRL,
    CURRENT,
    FILES,
    FOLDERS,
    KEY,
    PKI,
    KeyFile,
    alike,
    first,
    target,
)
from ..engine import effects_lease_holder as owner
from . import effects_reload as key_reload
from . import effects_start as key_start
from . import effects_tool as key_tool
from .decide import KINDS
from .facts import KeyFiles

_STAGED = "staged"
_FOUND = "found"
_RELOADED = "reloaded"
_LOCK = "keys"
_KEY_SECONDS = 60.0
_QEMU_CONF = "/etc/libvirt/qemu.conf"
_QEMU_USERS = ("libvirt-qemu", "qemu")


def _tool(timeout: float) -> key_tool.KeyTool:
    return key_tool.KeyTool(key_tool.require(), max(timeout, _KEY_SECONDS))


# Current state


def qemu_user(given: str | None) -> str | None:
    """The user that guests run as: the given one, else that of qemu.conf or the distribution."""
    names = [given] if given else []
    with contextlib.suppress(OSError):
        text = Path(_QEMU_CONF).read_text(encoding="utf-8", errors="replace")
        names += re.findall(r'^\s*user\s*=\s*"\+?([^"]+)"', text, re.MULTILINE)[-1:]
    for name in names or _QEMU_USERS:
        with contextlib.suppress(KeyError):
            account = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
            return account.pw_name
    return None


def _owner(file: KeyFile, user: str | None) -> tuple[int, int] | None:
    """Owner and group of a file; None while qemu's user is not known."""
    if not file.secret or file.kind == "control":
        return 0, 0
    if user is None:
        return None
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""


class Looked(t.TypedDict):
    """The current state."""

    changed: bool
    tool: str | None
    qemu_user: str | None
    kinds: dict[str, KeyFiles]
    faults: list[str]
    daemons: list[str]


class Requested(t.TypedDict):
    """Requests for certificates, in PEM, by kind."""

    changed: bool
    requests: dict[str, str]


class Deployed(t.TypedDict):
    """The daemons that have loaded the files."""

    changed: bool
    reloaded: list[str]


def look(user: str | None, timeout: float) -> Looked:
    """The public part of the current state and its faults; nothing secret."""
    program = key_tool.find()
    found_user = qemu_user(user)
    if user and found_user is None:
        raise FleetVirtError(f"qemu_user: no user {user!r} here; install libvirt and qemu first")
    tool = key_tool.KeyTool(program, max(timeout, _KEY_SECONDS)) if program else None
    kinds: dict[str, KeyFiles] = {}
    for kind in KINDS:
        key = Path(PKI, first(kind, KEY))
        kinds[kind] = {
            "ca": _read(f"{PKI}/{first(kind, CA)}"),
            "crl": _read(f"{PKI}/{first(kind, CRL)}"),
            "certificate": _read(f"{PKI}/{first(kind, CERTIFICATE)}"),
            "key_id": tool.key_id(key) if tool and key.exists() else None,
        }
    return {
        "changed": False,
        "tool": program,
        "qemu_user": found_user,
        "kinds": kinds,
        "faults": _faults(found_user) + [f"{unit} has failed" for unit in _failed()],
        "daemons": _serving(timeout),
    }


def _failed() -> list[str]:
    return [unit for daemon in key_reload.DAEMONS for unit in key_start.failed(daemon)]


def _serving(timeout: float) -> list[str]:
    """Daemons that serve TLS, or would if they had not failed."""
    running = key_reload.serving(timeout)
    return [
        daemon
        for daemon in key_reload.DAEMONS
        if daemon in running or (key_start.failed(daemon) and key_start.listens(daemon))
    ]


def _faults(user: str | None) -> list[str]:
    """Faults of links, owners and modes, and whether the daemon has yet to load the files."""
    faults = []
    for file in FILES:
        path = Path(PKI, file.path)
        if not path.is_symlink() or os.readlink(path) != target(file.path):
            foreign = "not a link of this collection"
            faults.append(f"{path} is {foreign if os.path.lexists(path) else 'missing'}")
            continue
        try:
            status = path.stat()
        except OSError:
            faults.append(f"{path} is a dangling link")
            continue
        owner = _owner(file, user)
        mode = stat.S_IMODE(status.st_mode)
        if mode != file.mode:
            faults.append(f"{path} has mode {mode:04o}")
        if owner is not None and (status.st_uid, status.st_gid) != owner:
            faults.append(f"{path} is owned by {status.st_uid}:{status.st_gid}")
        if _read(str(path)) != _read(f"{PKI}/{first(file.kind, file.content)}"):
            faults.append(f"{path} differs from {first(file.kind, file.content)}")
    if not faults and _link(Path(BASE, _RELOADED)) != _link(Path(CURRENT)):
        faults.append("the running daemon has not loaded the files yet")
    return faults


def _link(path: Path) -> str | None:
    return os.readlink(path) if path.is_symlink() else None


# Keys and requests


def request(kinds: t.Mapping[str, bool], timeout: float, *, check: bool) -> Requested:
    """Create a certificate request for each of ``kinds``; the value requests a new key.

    A new key is stored beside the versions until its certificate arrives; one left by an
    interrupted run is reused, as it has not been used yet.
    """
    if check:
        return {"changed": bool(kinds), "requests": dict.fromkeys(kinds, "(generated)")}
    tool = _tool(timeout)
    requests = {}
    with owner.host_lock(name=_LOCK):
        _folder(Path(BASE), 0o755)
        _folder(Path(BASE, _STAGED), 0o700)
        for kind, new_key in kinds.items():
            key = Path(PKI, first(kind, KEY))
            if new_key:
                key = Path(BASE, _STAGED, f"{kind}.pem")
                if not key.exists() or tool.key_id(key) is None:
                    tool.make(key)
            requests[kind] = tool.request(key)
    return {"changed": bool(kinds), "requests": requests}


# Deployment


def deploy(
    kinds: t.Mapping[str, KeyFiles],
    revoked: t.Collection[str],
    user: str | None,
    timeout: float,
    *,
    check: bool,
) -> Deployed:
    """Deploy certificates, CAs and revocation lists with the keys they belong to.

    Daemons that had failed are started; connections of ``revoked``, common names, are closed.

    Each of ``kinds`` has ``ca``, ``crl``, ``certificate`` and ``key_id``, the key that the
    certificate is for.
    """
    if check:
        return {"changed": True, "reloaded": []}
    found_user = qemu_user(user)
    if found_user is None:
        raise PlanRefused(
            "the user that qemu runs as, which must own its keys, does not exist here; install"
            " libvirt and qemu first, or set libvirt_keys_qemu_user"
        )
    tool = _tool(timeout)
    with owner.host_lock(name=_LOCK):
        contents = {kind: _contents(tool, kind, values) for kind, values in kinds.items()}
        _adopt()
        version = _write_version(contents, found_user)
        before = _link(Path(CURRENT))
        _switch(Path(CURRENT), version.name)
        for file in FILES:
            _place(file)
        for daemon in key_reload.DAEMONS:
            if key_start.failed(daemon):
                key_start.start(daemon, timeout)
        reloaded = key_reload.reload(timeout, revoked)
        _switch(Path(BASE, _RELOADED), version.name)
        shutil.rmtree(Path(BASE, _STAGED), ignore_errors=True)
        _prune({version.name, before, _FOUND})
    return {"changed": True, "reloaded": reloaded}


def _contents(tool: key_tool.KeyTool, kind: str, values: KeyFiles) -> dict[str, bytes]:
    """The contents of the files of a kind; the key is the one that the certificate is for.

    Without a certificate (its CA is about to be replaced), only the CA and CRL are deployed.
    """
    contents = {CA: values["ca"].encode("ascii"), CRL: values["crl"].encode("ascii")}
    if not values["certificate"]:
        return contents
    contents[CERTIFICATE] = values["certificate"].encode("ascii")
    staged, current = Path(BASE, _STAGED, f"{kind}.pem"), Path(PKI, first(kind, KEY))
    for key in (staged, current):
        if key.exists() and tool.key_id(key) == values["key_id"]:
            return {**contents, KEY: key.read_bytes()}
    raise PlanRefused(
        f"{kind}: the certificate belongs to a key that is not on this machine (another run"
        " replaced it meanwhile); run again"
    )


def _adopt() -> None:
    """Copy files that others put at our paths into a version of their own, named ``found``.

    They are never removed. While ``found`` is current and the links are placed, every path still
    yields its former content.
    """
    folder = Path(BASE, _FOUND)
    for file in FILES:
        path = Path(PKI, file.path)
        if _is_ours(path) or not path.is_file():
            continue
        _folder(Path(BASE), 0o755)
        _folders(folder)
        status, copy = path.stat(), folder / file.path
        number = 1
        while copy.exists() and copy.read_bytes() != path.read_bytes():
            number += 1
            copy = folder / f"{file.path}.{number}"
        if not copy.exists():
            mode = stat.S_IMODE(status.st_mode)
            own = (status.st_uid, status.st_gid)
            files.write(copy, path.read_bytes(), mode=mode, owner=own, locked=True)
    if folder.is_dir() and _link(Path(CURRENT)) in (None, _FOUND):
        _switch(Path(CURRENT), _FOUND)
        for file in FILES:
            if (folder / file.path).exists():
                _place(file)


def _is_ours(path: Path) -> bool:
    return (_link(path) or "").startswith(f"{CURRENT}/")


def _write_version(contents: t.Mapping[str, t.Mapping[str, bytes]], user: str) -> Path:
    """Write a new, complete version, flushed and not in use yet."""
    _folder(Path(BASE), 0o755)
    numbers = [int(entry.name[1:]) for entry in Path(BASE).glob("v*") if entry.name[1:].isdigit()]
    version = Path(BASE, f"v{max(numbers, default=0) + 1}")
    new = Path(BASE, ".new")
    shutil.rmtree(new, ignore_errors=True)
    _folders(new)
    for kind, values in contents.items():
        for name, data in values.items():
            for file in alike(kind, name):
                owner = _owner(file, user)
                if owner is None:
                    raise AssertionError("the user is known")
                files.create(new / file.path, data, mode=file.mode, owner=owner)
    for folder, _mode in FOLDERS:
        files.flush(new / folder)
    files.move(new, version)
    return version


def _place(file: KeyFile) -> None:
    """Create the link at a default path in one step."""
    path = Path(PKI, file.path)
    if _link(path) == target(file.path):
        return
    for folder, mode in FOLDERS:
        if path.parent == Path(PKI, folder):
            _folder(path.parent, mode)
    _switch(path, target(file.path))


def _switch(link: Path, to: str) -> None:
    """Point ``link`` at ``to`` atomically."""
    files.switch_link(link, to, link.with_name(f".{link.name}.new"))


def _prune(keep: t.Container[str | None]) -> None:
    """Remove old versions except the previous one, which a process may still be reading."""
    for entry in Path(BASE).glob("v*"):
        if entry.name not in keep:
            shutil.rmtree(entry)


def _folders(root: Path) -> None:
    _folder(root, 0o755)
    for name, mode in FOLDERS:
        _folder(root / name, mode)


def _folder(path: Path, mode: int) -> None:
    """Create a folder and its parents; an existing folder is left unchanged."""
    if path.is_dir():
        return
    _folder(path.parent, 0o755)
    # in one step: a wrong mode left by a killed run would stay, and QEMU could not read its keys
    former = os.umask(0o777 & ~mode)
    try:
        path.mkdir(mode)
    finally:
        os.umask(former)
