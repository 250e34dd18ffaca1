# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's part of the fleet's keys, before any hypervisor gets new ones."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import proofs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import Silence
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import decide as keys
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import (
    CERTIFICATES,
    DAY,
    KINDS,
    STEADY,
    DeployedKeys,
    Rotation,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.facts import (
    KeyFiles,
    KeysLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass, field
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _keys_client, _x509
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._key_store import KeyStore, KindStore
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._keys_signing import SigningSettings
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._x509 import Ca


class Look(t.TypedDict):
    """What a hypervisor reports: its keys, faults in them, and the daemons that use them."""

    kinds: dict[str, KeyFiles]
    faults: list[str]
    daemons: list[str]


def look_of(answer: KeysLook) -> Look | None:
    """The report in a hypervisor's result; None if it has no keys."""
    kinds = answer.get("kinds")
    if kinds is None:
        return None
    return {
        "kinds": {"control": kinds["control"], "data": kinds["data"]},
        "faults": answer.get("faults") or [],
        "daemons": answer.get("daemons") or [],
    }


class Prepared(t.TypedDict):
    """What the controller's part did, and what remains to be done on hypervisors."""

    changed: bool
    diff: dict[str, str]
    phases: dict[str, str]
    waiting: list[str]
    pending: list[str]
    made: dict[str, str]
    refused: list[str]
    revoked: list[str]
    warnings: list[str]


@dataclass(frozen=True)
class Orders:
    """Orders beyond keeping everything up to date."""

    rotate: tuple[str, ...] = ()
    revoke: tuple[str, ...] = ()
    readmit: tuple[str, ...] = ()
    replace: bool = False


@dataclass(frozen=True)
class KeysFleet:
    """The report of each hypervisor (None: no response, and ``silent`` says why), without those
    declared lost."""

    looks: t.Mapping[str, Look | None]
    silent: t.Mapping[str, Silence] = field(default_factory=dict)
    advice: str | None = None

    @property
    def remedy(self) -> str:
        """What to do about those that did not respond; ``advice`` replaces it."""
        return self.advice or proofs.remedy(self.silent)


def seen(look: Look, kind: str, own: t.Sequence[Ca]) -> DeployedKeys:
    """A hypervisor's keys of one kind, from its report."""
    entry = look["kinds"][kind]
    return DeployedKeys(
        tuple(_x509.trusted(entry["ca"])), _x509.read(entry["certificate"], own), entry["key_id"]
    )


class Preparation:
    """One run of the controller's part: CAs, revocation lists, its own certificate."""

    def __init__(
        self,
        store: KeyStore,
        settings: SigningSettings,
        fleet: KeysFleet,
        now: float,
        *,
        check: bool,
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

    def run(self, orders: Orders) -> Prepared:
        """Do everything, in an order that may stop at any point and be repeated."""
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
            part = self.store.kind("control")
            settings = replace(self.settings, renew=self.settings.renew and not self.fleet.silent)
            pending = self.check and "control" in self.pending
            why = _keys_client.ensure(self.store, part, settings, self.now, self.check, pending)
            if why is not None:
                self.changes.append(f"client certificate: {why}")
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

    # Checks before anything is done

    def _require_possible(self, orders: Orders) -> None:
        unknown = [name for name in orders.rotate if name not in KINDS]
        if unknown:
            raise FleetVirtError(
                f"libvirt_keys_rotate: {unknown[0]!r} is not one of {', '.join(KINDS)} and all"
            )
        client = self.settings.client_name
        if client in {*self.fleet.looks, *self._hypervisors_of_store()}:
            raise FleetVirtError(
                f"libvirt_keys_client_name: {client!r} is a hypervisor of the fleet, or was one;"
                " the controller needs a name of its own"
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
                    f"libvirt_keys_revoke: {name!r} was never issued a certificate; known names:"
                    f" {', '.join(sorted(known)) or 'none'}"
                )
        for kind in KINDS:
            self._require_kind(self.store.kind(kind), orders)

    def _hypervisors_of_store(self) -> set[str]:
        """Hypervisors that were ever issued a certificate; only theirs have names."""
        return {
            name
            for kind in KINDS
            for number in self.store.kind(kind).generations()
            for name, entries in self.store.kind(kind).issued(number).items()
            if any(entry["names"] for entry in entries)
        }

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
                    f"libvirt_keys_{kind}_ca is {given.name}, but {in_use.name} is in use; rotate"
                    f" the CA with an overlap (-e libvirt_keys_rotate={kind})"
                )
        if starts and self.fleet.silent:
            raise PlanRefused(
                "libvirt_keys_rotate: a rotation needs every hypervisor, but"
                f" {_names(self.fleet.silent)} did not respond ({proofs.named(self.fleet.silent)});"
                f" {self.fleet.remedy}"
            )
        if foreign and not starts and not (orders.replace and rotation is not None):
            host, identity = next(iter(foreign.items()))
            problem = (
                "but no CA of this fleet has that fingerprint;"
                if rotation is not None
                else "whose key is not on this controller; run where it is, provide it in"
                f" libvirt_keys_{kind}_ca, or"
            )
            raise PlanRefused(
                f"{host} trusts a {kind} CA with SHA-256 {identity[:16]}..., {problem} replace it"
                f" by one of this controller with an overlap (-e libvirt_keys_rotate={kind})"
                + (", or at once (-e libvirt_keys_replace=true)" if rotation is not None else "")
            )
        steady = rotation is not None and rotation.phase == STEADY and not starts
        if rotation is not None and steady and not part.is_own(rotation.new):
            raise PlanRefused(
                f"the rotation of the {kind} CA {part.ca(rotation.new).name}, which hypervisors"
                " trust and whose key is not on this controller, was interrupted; start it again"
                f" (-e libvirt_keys_rotate={kind})"
            )
        if rotation is None and given is None and self.fleet.silent:
            raise PlanRefused(
                f"there is no {kind} CA on this controller, and {_names(self.fleet.silent)}, which"
                f" may trust one already, did not respond ({proofs.named(self.fleet.silent)});"
                f" {self.fleet.remedy}; or run where the CA is"
            )

    def _foreign(self, kind: str, known: t.Container[str]) -> dict[str, str]:
        """By hypervisor, a CA that it trusts and that is not ours."""
        return {
            host: identity
            for host, look in self.fleet.looks.items()
            for identity in (_x509.trusted(look["kinds"][kind]["ca"]) if look else ())
            if identity not in known
        }

    # CAs and their rotation

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
                f"the rotation of the {part.kind} CA waits for {name}, which did not respond"
                for name in waiting
                if self.fleet.looks[name] is None
            ]
            if after != rotation:
                words = {
                    CERTIFICATES: "every hypervisor trusts it; it signs from now on",
                    STEADY: "no hypervisor trusts the former one any more; its key is removed",
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
        """Begin a rotation: all CAs that hypervisors trust now form the overlap."""
        name = self.made[part.kind] = self._new_name(part)
        self.changes.append(f"{part.kind}: rotation to the new CA {name}")
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
        if rotation is None:
            raise AssertionError("there is no CA to rotate")
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
        # never the name of a former CA: revocation lists are found by it
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
                    f"{ca.name} expires in {left} days, and no certificate lasts longer; rotate"
                    f" it (-e libvirt_keys_rotate={part.kind})"
                )
            revoked = dict(part.revoked(number))
            for name, entries in part.issued(number).items():
                if name in refused:
                    revoked.update((entry["serial"], int(self.now)) for entry in entries)
            text = part.crl(number)
            current = _x509.read_revocation_list(text) if text else None
            if (
                current is not None
                and current.revoked == frozenset(revoked)
                and current.next_update - self.now >= self.settings.renew_days * DAY
            ):
                continue
            self._list_changes(part, ca.name)
            if not self.check:
                new = _x509.revocation_list(
                    part.signer(number),
                    part.revoked(number),
                    current.number + 1 if current else 1,
                    self.settings.days,
                    self.now,
                )
                part.save_crl(number, _x509.to_pem(new))

    def _list_changes(self, part: KindStore, name: str) -> None:
        self.changes.append(f"{part.kind}: new revocation list of {name}")
        self.pending.add(part.kind)


def _names(names: t.Iterable[str]) -> str:
    return ", ".join(names)


def given_ca(kind: str, value: object, passphrase: str | None, now: float) -> Ca | None:
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
