# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the controller does for the fleet's keys before any hypervisor gets new ones.

This file is private to the collection.
"""

from __future__ import annotations

import os
import shutil
import typing as t
from dataclasses import dataclass

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._model import keys
from ansible_collections.fleet.virt.plugins.module_utils._model.keys import (
    CERTIFICATES,
    DAY,
    KINDS,
    STEADY,
    Authority,
    Rotation,
    Seen,
    Wanted,
)
from ansible_collections.fleet.virt.plugins.plugin_utils import _key_store, _x509
from ansible_collections.fleet.virt.plugins.plugin_utils._key_store import KeyStore, KindStore
from ansible_collections.fleet.virt.plugins.plugin_utils._x509 import Ca

CLIENT_FILES = {
    "ca": "cacert.pem",
    "crl": "cacrl.pem",
    "certificate": "clientcert.pem",
    "key": "clientkey.pem",
}
Look = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class Settings:
    """How long things are valid, and whose they are."""

    organization: str
    days: int
    ca_days: int
    renew_days: int
    client_name: str
    renew: bool = False


@dataclass(frozen=True)
class Orders:
    """What is to be done beyond keeping everything right."""

    rotate: tuple[str, ...] = ()
    revoke: tuple[str, ...] = ()
    readmit: tuple[str, ...] = ()
    replace: bool = False


@dataclass(frozen=True)
class Fleet:
    """What each hypervisor of the fleet answered (None: nothing), without those that are lost."""

    looks: t.Mapping[str, Look | None]

    @property
    def silent(self) -> list[str]:
        """Those that gave no answer."""
        return [name for name, look in self.looks.items() if look is None]


def seen(look: Look, kind: str, own: t.Sequence[Ca]) -> Seen:
    """What a hypervisor has, from what it returned."""
    entry = look["kinds"][kind]
    return Seen(
        tuple(_x509.trusted(entry["ca"])), _x509.read(entry["certificate"], own), entry["key_id"]
    )


def authority(part: KindStore, rotation: Rotation) -> Authority:
    """Who signs now, whom to trust, and what was revoked."""
    signing = rotation.signing
    return Authority(
        part.ca(signing).id if part.is_own(signing) else None,
        tuple(part.ca(number).id for number in rotation.trusted),
        frozenset(serial for number in rotation.trusted for serial in part.revoked(number)),
    )


def bundles(part: KindStore, rotation: Rotation) -> tuple[str, str]:
    """The text of the CA file and of the file of revocation lists."""
    trusted = rotation.trusted
    return "".join(part.ca(n).pem for n in trusted), "".join(part.crl(n) for n in trusted)


def sign(
    part: KindStore, number: int, public_key: t.Any, wanted: Wanted, now: float, *, server: bool
) -> str:
    """A certificate, written down before it leaves; the folder is locked."""
    issued = part.issued(number)
    for name, entries in issued.items():
        latest = entries[-1]
        if name == wanted.common_name or latest["revoked"] is not None:
            continue
        shared = sorted(set(latest["names"]) & set(wanted.names))
        if shared and latest["not_after"] > now:
            raise PlanRefused(
                f"{wanted.common_name}: {', '.join(shared)} is in the certificate of {name}, which"
                f" could stand in for it; if {name} is gone or has another address now, revoke it"
                f" first (-e libvirt_keys_revoke={name}) and then readmit it"
            )
    certificate = _x509.sign(part.signer(number), public_key, wanted, now, server=server)
    issued.setdefault(wanted.common_name, []).append(
        {
            "serial": f"{certificate.serial_number:x}",
            "not_after": _x509.expiry(certificate),
            "names": list(wanted.names),
            "revoked": None,
        }
    )
    part.save_issued(number, issued, now)
    return _x509.to_pem(certificate)


class Preparation:
    """One run of the controller's part: CAs, revocation lists, its own certificate."""

    def __init__(
        self, store: KeyStore, settings: Settings, fleet: Fleet, now: float, *, check: bool
    ) -> None:
        self.store = store
        self.settings = settings
        self.fleet = fleet
        self.now = now
        self.check = check
        self.changes: list[str] = []
        self.warnings: list[str] = []
        self.waiting: list[str] = []
        self.phases: dict[str, str] = {}
        self.pending: set[str] = set()
        self.made: dict[str, str] = {}

    def run(self, orders: Orders) -> dict[str, t.Any]:
        """Everything, in an order in which it may end at any point and be done again."""
        with self.store.lock(check=self.check):
            self._require_possible(orders)
            for kind in KINDS:
                part = self.store.kind(kind)
                rotation = self._rotation(part, orders)
                self.phases[kind] = rotation.phase if rotation else STEADY
            refused = self._revoke(orders)
            for kind in KINDS:
                part = self.store.kind(kind)
                if part.protect(check=self.check):
                    self.changes.append(f"{kind}: the CA's key is encrypted")
                self._revocation_lists(part, refused)
            self._client()
        return {
            "changed": bool(self.changes),
            "diff": {"before": "", "after": "".join(f"{line}\n" for line in self.changes)},
            "phases": self.phases,
            "waiting": self.waiting,
            "pending": sorted(self.pending),
            "made": self.made,
            "refused": sorted(refused),
            "revoked": sorted(orders.revoke),
            "warnings": self.warnings,
        }

    # Whether it may be done at all: said before anything is done

    def _require_possible(self, orders: Orders) -> None:
        unknown = [name for name in orders.rotate if name not in KINDS]
        if unknown:
            raise FleetVirtError(
                f"libvirt_keys_rotate: {unknown[0]!r} is none of {', '.join(KINDS)} and all"
            )
        if self.settings.client_name in self.fleet.looks:
            raise FleetVirtError(
                f"libvirt_keys_client_name: {self.settings.client_name!r} is a hypervisor of the"
                " fleet; the controller needs a name of its own"
            )
        known = {
            name
            for kind in KINDS
            for number in self.store.kind(kind).generations()
            for name in self.store.kind(kind).issued(number)
        }
        for name in orders.revoke:
            if name not in known and name not in self.store.refused():
                raise PlanRefused(
                    f"libvirt_keys_revoke: {name!r} was never given a certificate; known are"
                    f" {', '.join(sorted(known)) or 'none'}"
                )
        for kind in KINDS:
            self._require_kind(self.store.kind(kind), orders)

    def _require_kind(self, part: KindStore, orders: Orders) -> None:
        kind, rotation = part.kind, part.rotation()
        known = {part.ca(number).id for number in part.generations()}
        given = self.store.given.get(kind)
        if given is not None:
            known.add(given.id)
        foreign = self._foreign(kind, known)
        starts = kind in orders.rotate and (rotation is None or rotation.phase == STEADY)
        if rotation is not None and rotation.phase == STEADY and given is not None:
            in_use = part.ca(rotation.new)
            if given.id != in_use.id and not starts:
                raise PlanRefused(
                    f"libvirt_keys_{kind}_ca is {given.name}, and {in_use.name} is in use; exchange"
                    f" them with an overlap (-e libvirt_keys_rotate={kind})"
                )
        if starts and self.fleet.silent:
            raise PlanRefused(
                f"libvirt_keys_rotate: every hypervisor takes part, and {_names(self.fleet.silent)}"
                " gave no answer; bring them back, or name them in libvirt_keys_lost if they are"
                " off for good"
            )
        if foreign and not starts and not (orders.replace and rotation is not None):
            host, identity = next(iter(foreign.items()))
            have = (
                "and no CA of that fingerprint is in this fleet"
                if rotation is not None
                else "whose key is not on this controller; run where it is, hand it in by"
                f" libvirt_keys_{kind}_ca"
            )
            raise PlanRefused(
                f"{host} trusts a {kind} CA with SHA-256 {identity[:16]}..., {have}; or exchange it"
                f" for one of this controller with an overlap (-e libvirt_keys_rotate={kind})"
                + (", or at once (-e libvirt_keys_replace=true)" if rotation is not None else "")
            )
        settled = rotation is not None and rotation.phase == STEADY and not starts
        if rotation is not None and settled and not part.is_own(rotation.new):
            raise PlanRefused(
                f"the exchange of the {kind} CA {part.ca(rotation.new).name}, which hypervisors"
                " trust and whose key is not here, was interrupted; begin it again (-e"
                f" libvirt_keys_rotate={kind})"
            )
        if rotation is None and given is None and self.fleet.silent:
            raise PlanRefused(
                f"there is no {kind} CA on this controller, and {_names(self.fleet.silent)}, which"
                " may trust one already, gave no answer; bring them back, name them in"
                " libvirt_keys_lost if they are off for good, or run where the CA is"
            )

    def _foreign(self, kind: str, known: t.Container[str]) -> dict[str, str]:
        """By hypervisor a CA that it trusts and that is none of ours."""
        return {
            host: identity
            for host, look in self.fleet.looks.items()
            for identity in (_x509.trusted(look["kinds"][kind]["ca"]) if look else ())
            if identity not in known
        }

    # CAs and their exchange

    def _rotation(self, part: KindStore, orders: Orders) -> Rotation | None:
        """The state of a kind after this run; None if its first CA is only predicted."""
        rotation = part.rotation()
        starts = part.kind in orders.rotate
        if rotation is None:
            return self._first(part, starts)
        if rotation.phase != STEADY:
            new_id = part.ca(rotation.new).id
            hosts = {
                name: seen(look, part.kind, part.own()) if look else None
                for name, look in self.fleet.looks.items()
            }
            after, waiting = keys.advance(rotation, new_id, hosts)
            self.waiting += [f"{part.kind}: {name} {why}" for name, why in waiting.items()]
            self.warnings += [
                f"the exchange of the {part.kind} CA waits for {name}, which gave no answer"
                for name in waiting
                if self.fleet.looks[name] is None
            ]
            if after != rotation:
                words = {
                    CERTIFICATES: "everybody trusts it, it signs from now on",
                    STEADY: "nobody trusts the former one any more, whose key is removed",
                }.get(after.phase, "the former one is no longer needed")
                self.changes.append(f"{part.kind}: {part.ca(after.new).name}: {words}")
                self.pending.add(part.kind)
                if not self.check:
                    part.save(after)
            return after
        if not starts:
            return rotation
        return self._begin(part, rotation)

    def _first(self, part: KindStore, starts: bool) -> Rotation | None:
        foreign = self._foreign(part.kind, ())
        given = self.store.given.get(part.kind)
        if given is not None:
            foreign = {host: ca for host, ca in foreign.items() if ca != given.id}
        if foreign and starts:
            return self._begin(part, None)
        self.made[part.kind] = self._new_name(part)
        self.changes.append(f"{part.kind}: new CA {self.made[part.kind]}")
        self.pending.add(part.kind)
        if self.check:
            return None
        number = part.add(given or self._make(part), own=True, first=Rotation(STEADY, 1))
        return Rotation(STEADY, number)

    def _begin(self, part: KindStore, rotation: Rotation | None) -> Rotation | None:
        """Begin an exchange: what hypervisors trust now, whoever made it, is the overlap."""
        name = self.made[part.kind] = self._new_name(part)
        self.changes.append(f"{part.kind}: exchange for the new CA {name}")
        self.pending.add(part.kind)
        if self.check:
            return rotation
        known = {part.ca(number).id: number for number in part.generations()}
        foreign: dict[str, str] = {}
        for look in self.fleet.looks.values():
            if look:
                foreign.update(_x509.trusted(look["kinds"][part.kind]["ca"]))
        numbers = []
        for identity, text in foreign.items():
            if identity in known:
                continue
            ca = Ca(_x509.load(text, "a hypervisor's CA"))
            first = Rotation(STEADY, 1) if not part.folder.exists() else None
            numbers.append(part.add(ca, own=False, first=first))
        rotation = rotation or part.rotation()
        assert rotation is not None  # noqa: S101 - without any CA nothing is exchanged
        new = part.unfinished(rotation)
        if new is None:
            new = part.add(self.store.given.get(part.kind) or self._make(part), own=True)
        foreign_old = [n for n in numbers if n not in rotation.trusted]
        after = keys.begin(rotation, new, foreign_old)
        part.save(after)
        return after

    def _new_name(self, part: KindStore) -> str:
        given = self.store.given.get(part.kind)
        if given is not None:
            return given.name
        # never the name of a former CA: lists are looked up by it
        taken = {part.ca(number).name for number in part.generations()}
        for look in self.fleet.looks.values():
            for text in _x509.trusted(look["kinds"][part.kind]["ca"] if look else "").values():
                taken.add(Ca(_x509.load(text, "a hypervisor's CA")).name)
        number = 1
        while self._ca_name(part, number) in taken:
            number += 1
        return self._ca_name(part, number)

    def _ca_name(self, part: KindStore, number: int) -> str:
        return f"{self.settings.organization} {part.kind} CA {number}"

    def _make(self, part: KindStore) -> Ca:
        settings = self.settings
        return _x509.new_ca(settings.organization, self._new_name(part), settings.ca_days, self.now)

    # Revocation

    def _revoke(self, orders: Orders) -> dict[str, int]:
        refused = self.store.refused()
        after = {name: since for name, since in refused.items() if name not in orders.readmit}
        for name in orders.revoke:
            after.setdefault(name, int(self.now))
        for name in sorted(after.keys() - refused.keys()):
            self.changes.append(f"{name} is revoked")
        for name in sorted(refused.keys() - after.keys()):
            self.changes.append(f"{name} is readmitted")
        if not self.check and after != refused:
            self.store.save_refused(after)
        for kind in KINDS:
            part = self.store.kind(kind)
            for number in part.generations():
                issued = part.issued(number)
                fresh = [
                    entry
                    for name in after
                    for entry in issued.get(name, ())
                    if entry["revoked"] is None
                ]
                if fresh and not self.check:
                    for entry in fresh:
                        entry["revoked"] = int(self.now)
                    part.save_issued(number, issued, self.now)
        return after

    def _revocation_lists(self, part: KindStore, refused: t.Mapping[str, int]) -> None:
        rotation = part.rotation()
        if rotation is None:  # predicted
            self._list_changes(part, self._new_name(part))
            return
        for number in rotation.trusted:
            if not part.is_own(number):
                continue
            ca = part.ca(number)
            left = int((_x509.expiry(ca.certificate) - self.now) // DAY)
            if left < self.settings.days:
                self.warnings.append(
                    f"{ca.name} expires in {left} days, and no certificate lasts longer; exchange"
                    f" it (-e libvirt_keys_rotate={part.kind})"
                )
            revoked = dict(part.revoked(number))
            for name, entries in part.issued(number).items():
                if name in refused:
                    revoked.update((entry["serial"], int(self.now)) for entry in entries)
            text = part.crl(number)
            found = _x509.read_revocation_list(text) if text else None
            if (
                found is not None
                and found.revoked == frozenset(revoked)
                and found.next_update - self.now >= self.settings.renew_days * DAY
            ):
                continue
            self._list_changes(part, ca.name)
            if not self.check:
                new = _x509.revocation_list(
                    part.signer(number),
                    part.revoked(number),
                    found.number + 1 if found else 1,
                    self.settings.days,
                    self.now,
                )
                part.save_crl(number, _x509.to_pem(new))

    def _list_changes(self, part: KindStore, name: str) -> None:
        self.changes.append(f"{part.kind}: new revocation list of {name}")
        self.pending.add(part.kind)

    # The controller's own certificate, for control

    def _client(self) -> None:
        part = self.store.kind("control")
        rotation = part.rotation()
        folder = self.store.folder / "client"
        wanted = Wanted(
            self.settings.organization,
            self.settings.client_name,
            (),
            self.settings.days,
            self.settings.renew_days,
            self.settings.renew and not self.fleet.silent,
        )
        if rotation is None:
            self.changes.append("client certificate: it has none")
            return
        have = _texts(folder)
        chosen = authority(part, rotation)
        key = None
        if have["key"]:
            key = _x509.load_key(have["key"].encode("ascii"), None, str(folder / "clientkey.pem"))
        found = Seen(
            tuple(_x509.trusted(have["ca"])),
            _x509.read(have["certificate"], part.own()),
            _x509.key_id(key.public_key()) if key is not None else None,
        )
        reason = keys.reason_to_issue(found, chosen, wanted, self.now)
        ca, crl = bundles(part, rotation)
        same = (ca, crl) == (have["ca"], have["crl"])
        if reason is None and same and not (self.check and "control" in self.pending):
            return
        self.changes.append(
            f"client certificate: {reason.text if reason else 'other CAs or revocation lists'}"
        )
        if self.check:
            return
        texts = {**have, "ca": ca, "crl": crl}
        if reason is not None:
            if reason.new_key or key is None:
                key = _x509.new_key()
            texts["key"] = _x509.key_bytes(key, None).decode("ascii")
            texts["certificate"] = sign(
                part, rotation.signing, key.public_key(), wanted, self.now, server=False
            )
        _write_client(self.store, {name: text for name, text in texts.items() if text})


def _texts(folder: t.Any) -> dict[str, str]:
    found = {}
    for name, file in CLIENT_FILES.items():
        path = folder / file
        found[name] = path.read_text(encoding="ascii") if path.is_file() else ""
    return found


def _write_client(store: KeyStore, texts: t.Mapping[str, str]) -> None:
    """All of the client's files at once: a new folder, and the link to it renamed."""
    link = store.folder / "client"
    numbers = [
        int(entry.name[8:]) for entry in store.folder.glob("client.v*") if entry.name[8:].isdigit()
    ]
    name = f"client.v{max(numbers, default=0) + 1}"
    before = os.readlink(link) if link.is_symlink() else None
    new = store.folder / ".client.new"
    shutil.rmtree(new, ignore_errors=True)
    _key_store.make_folder(new)
    for part, text in texts.items():
        mode = 0o600 if part == "key" else 0o644
        _key_store.write(new / CLIENT_FILES[part], text.encode("ascii"), mode)
    os.rename(new, store.folder / name)
    temporary = store.folder / ".client.link"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(name)
    os.rename(temporary, link)
    _key_store.flush(store.folder)
    for entry in store.folder.glob("client.v*"):
        if entry.name not in (name, before):
            shutil.rmtree(entry)


def _names(names: t.Sequence[str]) -> str:
    return ", ".join(names)


def wanted_on(settings: Settings, host: str, address: str | None, names: t.Sequence[str]) -> Wanted:
    """What a hypervisor's certificates are to say: only what the inventory says."""
    return Wanted(
        settings.organization,
        host,
        keys.certificate_names(host, address, names),
        settings.days,
        settings.renew_days,
        settings.renew,
    )


def given_ca(kind: str, value: t.Any, passphrase: str | None, now: float) -> Ca | None:
    """The CA in ``libvirt_keys_<kind>_ca``: a mapping with certificate and key."""
    if not value:
        return None
    name = f"libvirt_keys_{kind}_ca"
    if not isinstance(value, dict) or set(value) != {"certificate", "key"}:
        raise FleetVirtError(f"{name} is not a mapping with just certificate and key (PEM texts)")
    certificate = _x509.load(str(value["certificate"]), f"{name}.certificate")
    problem = _x509.ca_problem(certificate, now)
    if problem is not None:
        raise FleetVirtError(f"{name}.certificate: {problem}")
    key = _x509.load_key(str(value["key"]).encode("utf-8"), passphrase, f"{name}.key")
    if _x509.key_id(key.public_key()) != _x509.key_id(certificate.public_key()):
        raise FleetVirtError(f"{name}.key is not the key of its certificate")
    return Ca(certificate, key)
