# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The folder on the controller with the fleet's CAs.

    lock                  held by a process that signs or changes anything
    refused.json          names that were revoked and get no certificate until they are readmitted
    control/state.json    which generation is in use, and the phase of a rotation; data/ likewise
    control/1/            a generation: ca.pem, ca.key, issued.json, crl.pem
    client                link to client.v<n>: the controller's own certificate (a pkipath)

Private files are 0600 from the moment they exist, and every change is a rename.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import typing as t
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_files as files
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks as locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import (
    CERTIFICATES,
    DAY,
    DROP,
    STEADY,
    TRUST,
    Rotation,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _x509
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._x509 import Ca


class Issued(t.TypedDict):
    """An issued certificate; ``revoked`` is the time of its revocation or None."""

    serial: str
    not_after: int
    names: list[str]
    revoked: int | None


# The step of each hypervisor holds it while it signs
_LOCK_SECONDS = 120.0
_PHASES = (STEADY, TRUST, CERTIFICATES, DROP)


class KeyStore:
    """The folder; ``given`` are CAs from variables, by kind, whose keys are never written."""

    def __init__(
        self, folder: str, passphrase: str | None, given: t.Mapping[str, Ca] | None = None
    ) -> None:
        self.folder = Path(folder).expanduser()
        self.passphrase = passphrase
        self.given = dict(given or {})
        self.opened: dict[Path, Ca] = {}

    def check_folder(self) -> None:
        """Refuse a folder that other users may access."""
        try:
            status = self.folder.stat()
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode):
            raise FleetVirtError(f"libvirt_keys_dir: {self.folder} is not a folder")
        if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise FleetVirtError(
                f"libvirt_keys_dir: {self.folder} has mode {stat.S_IMODE(status.st_mode):04o} and"
                f" belongs to user {status.st_uid}; it contains CA keys, so only you may have"
                f" access: chmod 700 {self.folder}"
            )

    @contextlib.contextmanager
    def lock(self, *, check: bool = False) -> t.Iterator[None]:
        """Lock the folder and create it if missing; do neither in check mode."""
        self.check_folder()
        if check:
            yield
            return
        make_folder(self.folder)
        path = self.folder / "lock"
        refusal = (
            f"another run has been using {self.folder} for {_LOCK_SECONDS:g} seconds; find it with"
            f" fuser {path}, and try again"
        )
        with locks.held(path, _LOCK_SECONDS, refusal):
            yield

    def kind(self, name: str) -> KindStore:
        """The part for one kind of keys."""
        return KindStore(self, name)

    def refused(self) -> dict[str, int]:
        """Names that get no certificate, with the time they were revoked."""
        path = self.folder / "refused.json"
        refused = _read_json(path)
        if refused is None:
            return {}
        if not isinstance(refused, dict):
            raise _damaged(path)
        return {name: _number(since, path) for name, since in refused.items()}

    def save_refused(self, names: t.Mapping[str, int]) -> None:
        """Store the refused names."""
        write(self.folder / "refused.json", _json(names), 0o600)


class KindStore:
    """The CAs of one kind."""

    def __init__(self, store: KeyStore, kind: str) -> None:
        self._store = store
        self.kind = kind
        self.folder = store.folder / kind

    # Generations

    def rotation(self) -> Rotation | None:
        """Which generation is in use; None while there is no CA."""
        path = self.folder / "state.json"
        state = _read_json(path)
        if state is None:
            if self.folder.is_dir():
                raise FleetVirtError(
                    f"{self.folder} has no state.json, which says which CA is in use; restore it"
                    " from a backup"
                )
            return None
        if not isinstance(state, dict) or state.get("phase") not in _PHASES:
            raise _damaged(path)
        old = state.get("old")
        if not isinstance(old, list):
            raise _damaged(path)
        return Rotation(
            str(state["phase"]),
            _number(state.get("new"), path),
            tuple(_number(generation, path) for generation in old),
        )

    def save(self, rotation: Rotation) -> None:
        """Store the state of the rotation; remove the keys of CAs that are no longer needed."""
        write(self.folder / "state.json", _state(rotation), 0o600)
        for number in self.generations():
            key = self.folder / str(number) / "ca.key"
            if number < rotation.new and number not in rotation.old and key.exists():
                key.unlink()

    def generations(self) -> list[int]:
        """The numbers of all generations that ever existed."""
        if not self.folder.is_dir():
            return []
        return sorted(int(entry.name) for entry in self.folder.iterdir() if entry.name.isdigit())

    def ca(self, number: int) -> Ca:
        """A generation without its key."""
        path = self.folder / str(number) / "ca.pem"
        try:
            return Ca(_x509.load(path.read_text(encoding="ascii"), str(path)))
        except OSError as error:
            raise FleetVirtError(f"{path}: {error.strerror}; restore it from a backup") from None

    def is_own(self, number: int) -> bool:
        """Whether it was created or provided for this fleet, not just found on a hypervisor."""
        return (self.folder / str(number) / "issued.json").exists()

    def own(self) -> list[Ca]:
        """All CAs that this fleet had."""
        return [self.ca(number) for number in self.generations() if self.is_own(number)]

    def can_sign(self, number: int) -> bool:
        """Whether the key of a generation is available (encrypted or not)."""
        return (self.folder / str(number) / "ca.key").exists() or self._given(number) is not None

    def _given(self, number: int) -> Ca | None:
        given = self._store.given.get(self.kind)
        return given if given is not None and given.id == self.ca(number).id else None

    def signer(self, number: int) -> Ca:
        """A generation with its key."""
        given = self._given(number)
        if given is not None:
            return given
        path = self.folder / str(number) / "ca.key"
        if path in self._store.opened:
            return self._store.opened[path]
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            raise FleetVirtError(
                f"the key of {self.ca(number).name} is not on this controller ({path}); provide it"
                f" in libvirt_keys_{self.kind}_ca"
            ) from None
        certificate = self.ca(number).certificate
        key = _x509.load_key(text, self._store.passphrase, str(path))
        if _x509.key_id(key.public_key()) != _x509.key_id(certificate.public_key()):
            raise FleetVirtError(f"{path} is not the key of {path.with_name('ca.pem')}")
        self._store.opened[path] = Ca(certificate, key)
        return self._store.opened[path]

    def unfinished(self, rotation: Rotation | None) -> int | None:
        """A generation that was created, but is not in use yet."""
        newest = max(self.generations(), default=0)
        if rotation is None or newest <= rotation.new or not self.is_own(newest):
            return None
        return newest if self.can_sign(newest) else None

    def add(self, ca: Ca, *, own: bool, first: Rotation | None = None) -> int:
        """Add a new generation atomically; returns its number.

        ``first`` is the initial state if there is none.
        """
        number = max(self.generations(), default=0) + 1
        folder = self.folder
        if not folder.exists():
            folder = self.folder.with_name(f".{self.kind}.new")
            shutil.rmtree(folder, ignore_errors=True)
            make_folder(folder)
        new = folder / ".new"
        shutil.rmtree(new, ignore_errors=True)
        make_folder(new)
        if own and ca.id not in {given.id for given in self._store.given.values()}:
            text = _x509.key_bytes(ca.signing_key, self._store.passphrase)
            write(new / "ca.key", text, 0o600)
        if own:
            write(new / "issued.json", _json({}), 0o600)
        write(new / "ca.pem", ca.pem.encode("ascii"), 0o644)
        files.move(new, folder / str(number))
        if folder != self.folder:
            if first is not None:
                write(folder / "state.json", _state(first), 0o600)
                files.move(folder, self.folder)
            else:
                files.flush(self.folder.parent)
        return number

    def protect(self, *, check: bool) -> bool:
        """Encrypt unencrypted keys if there is a passphrase; returns whether there were any."""
        unencrypted = False
        for number in self.generations() if self._store.passphrase else ():
            path = self.folder / str(number) / "ca.key"
            if path.exists() and not _x509.is_encrypted(path.read_bytes()):
                unencrypted = True
                if not check:
                    key = self.signer(number).signing_key
                    write(path, _x509.key_bytes(key, self._store.passphrase), 0o600)
        return unencrypted

    # What was issued and revoked

    def issued(self, number: int) -> dict[str, list[Issued]]:
        """The issued certificates by name."""
        path = self.folder / str(number) / "issued.json"
        certificates = _read_json(path)
        if certificates is None:
            return {}
        if not isinstance(certificates, dict) or not all(
            isinstance(entries, list) for entries in certificates.values()
        ):
            raise _damaged(path)
        return {
            name: [_issued(entry, path) for entry in entries]
            for name, entries in certificates.items()
        }

    def save_issued(self, number: int, issued: t.Mapping[str, list[Issued]], now: float) -> None:
        """Store the issued certificates, without expired ones."""
        current = {
            name: [entry for entry in entries if entry["not_after"] > now - DAY]
            for name, entries in issued.items()
        }
        current = {name: entries for name, entries in current.items() if entries}
        write(self.folder / str(number) / "issued.json", _json(current), 0o600)

    def revoked(self, number: int) -> dict[str, int]:
        """Serial numbers with the time they were revoked."""
        return {
            entry["serial"]: entry["revoked"]
            for entries in self.issued(number).values()
            for entry in entries
            if entry["revoked"] is not None
        }

    def crl(self, number: int) -> str:
        """The revocation list of a generation; empty when it has none."""
        path = self.folder / str(number) / "crl.pem"
        return path.read_text(encoding="ascii") if path.exists() else ""

    def save_crl(self, number: int, text: str) -> None:
        """Store the revocation list."""
        write(self.folder / str(number) / "crl.pem", text.encode("ascii"), 0o644)


def _state(rotation: Rotation) -> bytes:
    return _json({"phase": rotation.phase, "new": rotation.new, "old": list(rotation.old)})


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode("utf-8")


def _read_json(path: Path) -> object:
    """The content of the file; None if it does not exist."""
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FleetVirtError(f"{path}: {error}; restore it from a backup") from None
    return content


def _damaged(path: Path) -> FleetVirtError:
    return FleetVirtError(
        f"{path}: it does not contain what this collection writes there; restore it from a backup"
    )


def _number(value: object, path: Path) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _damaged(path)
    return value


def _issued(entry: object, path: Path) -> Issued:
    if not isinstance(entry, dict) or not isinstance(entry.get("names"), list):
        raise _damaged(path)
    since = entry.get("revoked")
    return {
        "serial": str(entry.get("serial")),
        "not_after": _number(entry.get("not_after"), path),
        "names": [str(name) for name in entry["names"]],
        "revoked": None if since is None else _number(since, path),
    }


def make_folder(path: Path) -> None:
    """Create a folder that only its owner may access, and its parents."""
    if path.is_dir():
        return
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)


def write(path: Path, data: bytes, mode: int) -> None:
    """Write a file atomically, with its mode from the moment it exists."""
    files.write(path, data, mode=mode, locked=True)
