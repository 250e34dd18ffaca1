# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's part for one hypervisor: compare its keys, sign, and deploy."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mapping,
    as_text,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import decide as keys
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import (
    DAY,
    KINDS,
    DeployedKeys,
    DesiredCertificate,
    Reason,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.facts import (
    KeyFiles,
)
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass, field
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _keys, _keys_signing, _x509
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._key_store import KeyStore
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._x509 import Ca

# Runs a stage on the hypervisor by name and options; returns its result
Module = t.Callable[[str, t.Mapping[str, object]], dict[str, object]]


@dataclass(frozen=True)
class Prepared:
    """The result of the controller's part: refused names, kinds that will change, and kinds whose
    first CA is only predicted, with its name."""

    refused: t.Collection[str] = ()
    pending: t.Collection[str] = ()
    made: t.Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: t.Mapping[str, object]) -> Prepared:
        """The values from the task's result."""
        made = as_mapping(answer.get("made"))
        return cls(
            [str(name) for name in as_list(answer.get("refused"))],
            [str(kind) for kind in as_list(answer.get("pending"))],
            {str(kind): str(name) for kind, name in made.items()},
        )


@dataclass
class Applied:
    """The outcome; ``failure`` is the result of a failed module call, None if none failed."""

    changed: bool
    issued: dict[str, str]
    reloaded: list[str]
    diff: dict[str, str] | None = None
    failure: dict[str, object] | None = None

    def result(self) -> dict[str, object]:
        """The task's result."""
        if self.failure is not None:
            return self.failure
        result: dict[str, object] = {
            "changed": self.changed,
            "issued": self.issued,
            "reloaded": self.reloaded,
        }
        return result if self.diff is None else {**result, "diff": self.diff}


@dataclass(frozen=True)
class KeysJob:
    """Everything about one hypervisor."""

    store: KeyStore
    host: str
    look: _keys.Look
    wanted: DesiredCertificate
    prepared: Prepared
    replace: bool
    check: bool


@dataclass(frozen=True)
class Part:
    """One kind of keys of a hypervisor: its present and wanted state, and the reason."""

    kind: str
    seen: DeployedKeys
    reason: Reason | None
    ca: str
    crl: str
    differs: bool
    before: list[str]
    after: list[str]


def run(job: KeysJob, module: Module, now: float) -> Applied:
    """Apply the job and return the outcome; ``module`` runs a stage on the hypervisor."""
    if job.host in job.prepared.refused:
        raise PlanRefused(
            f"{job.host} was revoked and gets no certificate; take it out of the inventory, or"
            f" readmit it with new keys (-e libvirt_keys_readmit={job.host})"
        )
    parts = [_part(job, kind, now) for kind in KINDS]
    faults = job.look["faults"]
    changed = bool(faults) or any(part.differs for part in parts)
    result = Applied(
        changed,
        {part.kind: part.reason.text for part in parts if part.reason},
        list(job.look["daemons"]) if changed else [],
    )
    if not changed:
        return result
    before = [line for part in parts for line in part.before] + faults
    after = [line for part in parts for line in part.after]
    result.diff = {
        "before": "".join(f"{line}\n" for line in before),
        "after": "".join(f"{line}\n" for line in after),
    }
    if not job.check:
        _deploy(job, parts, module, now, result)
    return result


def _part(job: KeysJob, kind: str, now: float) -> Part:
    part = job.store.kind(kind)
    rotation = part.rotation()
    known = [part.ca(number) for number in part.generations()]
    entry = job.look["kinds"][kind]
    seen = _keys.seen(job.look, kind, part.own())
    names = {**_common_names(entry["ca"]), **{ca.id: ca.name for ca in known}}
    if rotation is None:
        if not job.check:
            raise FleetVirtError(
                f"there is no {kind} CA in {job.store.folder}; run the stage prepare first"
            )
        reason: Reason | None = Reason("it has none", True)
        issuer = job.prepared.made[kind]
        trust, ca, crl = [issuer], "", ""
    else:
        chosen = _keys_signing.authority(part, rotation)
        reason = keys.reason_to_issue(seen, chosen, job.wanted, now)
        ca, crl = _keys_signing.bundles(part, rotation)
        issuer = part.ca(rotation.signing).name
        trust = [names[identity] for identity in chosen.trust]
    predicted = job.check and kind in job.prepared.pending
    differs = reason is not None or predicted or (ca, crl) != (entry["ca"], entry["crl"])
    have = "none"
    if seen.certificate is not None:
        has = seen.certificate
        by = names.get(has.issuer or "", "an unknown CA")
        days = int((has.not_after - now) // DAY)
        have = keys.certificate_words(has.organization, has.common_name, has.names, by, days)
    want = have
    if reason is not None:
        wanted = job.wanted
        want = keys.certificate_words(
            wanted.organization, wanted.common_name, wanted.names, issuer, wanted.days
        )
        want += f", {'with a new key' if reason.new_key else 'for the same key'}: {reason.text}"
    before = keys.describe(
        kind, have, [names[i] for i in seen.trust], "present" if entry["crl"] else "none"
    )
    changes = predicted or crl != entry["crl"]
    after = keys.describe(kind, want, trust, "new" if changes else "present")
    return Part(kind, seen, reason, ca, crl, differs, before, after)


def _common_names(text: str) -> dict[str, str]:
    return {
        identity: Ca(_x509.load(pem, "a hypervisor's CA")).name
        for identity, pem in _x509.trusted(text).items()
    }


def _deploy(
    job: KeysJob, parts: t.Sequence[Part], module: Module, now: float, result: Applied
) -> None:
    """Get requests, sign certificates and deploy the files."""
    new_keys = {part.kind: part.reason.new_key for part in parts if part.reason}
    requests: t.Mapping[str, object] = {}
    if new_keys:
        answer = module("request", {"_new_keys": new_keys})
        if answer.get("failed") or answer.get("unreachable"):
            result.failure = answer
            return
        requests = as_mapping(answer.get("requests"))
    files = {}
    for part in parts:
        entry: KeyFiles = {
            "ca": part.ca,
            "crl": part.crl,
            "certificate": job.look["kinds"][part.kind]["certificate"],
            "key_id": part.seen.key_id,
        }
        if part.reason is not None:
            public_key = _x509.public_key_of(as_text(requests.get(part.kind)) or "", job.host)
            entry["key_id"] = _x509.key_id(public_key)
            entry["certificate"] = _sign(job, part.kind, public_key, now)
        files[part.kind] = entry
    answer = module("deploy", {"_files": files, "_revoked": list(job.prepared.refused)})
    if answer.get("failed") or answer.get("unreachable"):
        result.failure = answer
        return
    result.reloaded = [str(unit) for unit in as_list(answer.get("reloaded"))]


def _sign(job: KeysJob, kind: str, public_key: _x509.PublicKey, now: float) -> str:
    with job.store.lock():
        part = job.store.kind(kind)
        rotation = part.rotation()
        if rotation is None:
            raise AssertionError("the CA existed before")
        wanted = dataclasses.replace(job.wanted, renew=False)
        return _keys_signing.sign(part, rotation.signing, public_key, wanted, now, server=True)
