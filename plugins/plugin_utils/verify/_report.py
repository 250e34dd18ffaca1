# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What hypervisors found of backups: recorded, shown, and written as a page."""

from __future__ import annotations

import base64
import binascii
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import archives, listing
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.places import BackupPlace
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import png
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.outcomes import (
    Failure,
    outcomes,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import effects_record, report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.facts import (
    Cleared,
    Proven,
    ProvenVm,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.options import (
    SavedArchive,
    VerifyOptions,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.report import VerifiedBackup
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass, field
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _files, _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer
from ansible_collections.fleet.virt.plugins.plugin_utils.verify import _page


def cleared(answers: t.Mapping[str, Cleared], *, check: bool) -> tuple[str, list[str]]:
    """What was removed of proofs that were killed, and why not; who did not answer at all is named
    by the report of what is repaired."""
    lines, failures = [], []
    done = "would be removed" if check else "was removed"
    for host, answer in answers.items():
        lines += [
            f"{host}: {name} {done}, which a killed proof had left\n"
            for name in answer.get("removed") or []
        ]
        if answer.get("failed"):
            failures.append(Failure(host, f"{host}: {answer.get('msg')}"))
    return "".join(lines), [*failures]


@dataclass
class Reporter:
    """Reports on the backups ``vms``, by name: which hypervisor was to prove them (``shares``), why
    some are only read, which were found to be ``damaged`` before, and what people have to know of
    the place (``notes``)."""

    place: BackupPlace
    access: Access
    vms: t.Mapping[str, SavedArchive]
    shares: t.Mapping[str, t.Sequence[str]]
    unbootable: t.Mapping[str, str]
    damaged: t.Mapping[str, str]
    notes: t.Sequence[str]
    check: bool
    screens: dict[str, bytes] = field(default_factory=dict, init=False)

    def verified(self, answers: t.Mapping[str, Proven]) -> list[VerifiedBackup]:
        """What was found of each, once it is recorded."""
        entries = {}
        for name, why in self.damaged.items():
            entries[name] = self._recorded(self._found(name, archives.FAILED, why), None)
        if self.check:
            for host, names in self.shares.items():
                entries.update({name: self._planned(name, host) for name in names})
        else:
            for outcome in outcomes(self.shares, answers, ProvenVm):
                entries[outcome.name] = self.proven(
                    outcome.name, outcome.host, outcome.entry, outcome.problem
                )
        return [entries[name] for name in self.vms if name in entries]

    def failures(self, verified: t.Sequence[VerifiedBackup]) -> list[str]:
        """What is not as it has to be, with the hypervisor that found it."""
        failures = []
        for entry in verified:
            message = report.failure(entry)
            if message is not None:
                host = entry["hypervisor"]
                failures.append(message if host is None else Failure(host, message))
        return failures

    def delivered(
        self, verified: t.Sequence[VerifiedBackup], options: VerifyOptions, *, diff: bool
    ) -> Answer:
        """The data as they were shown or written, and the page."""
        text = _output.render(
            options["output"],
            {"backups": [*verified], "notes": [*self.notes]},
            lambda: report.text(verified, self.notes),
            lambda: report.records(verified),
        )
        written = _output.deliver(text, options["output_file"], check=self.check, diff=diff)
        changed = bool(written["changed"]) or any(entry["changed"] for entry in verified)
        page = options["page"]
        if page is not None and verified:
            content = _page.page(verified, self.screens).encode("utf-8")
            before = _files.replace_if_changed(page, content, check=self.check, option="page")
            changed = changed or before is not None
        data = {"backups": [*verified], "notes": [*self.notes]}
        return {**data, "output": text, **written, "changed": changed}

    def _found(self, name: str, proof: str | None, how: str | None) -> VerifiedBackup:
        vm = self.vms[name]
        return {
            "name": vm.vm,
            "uuid": vm.uuid,
            "archive": vm.archive,
            "hypervisor": None,
            "state": listing.COMPLETE if proof is None else report.STATES[proof],
            "proof": proof,
            "how": how,
            "seconds": None,
            "screenshot": False,
            "recorded": None,
            "changed": False,
            "failed": proof == archives.FAILED,
            "msg": None,
        }

    def _planned(self, name: str, host: str) -> VerifiedBackup:
        why = self.unbootable.get(name)
        entry = self._found(name, None, why)
        return {
            **entry,
            "hypervisor": host,
            "state": report.would_be(why or ""),
            "changed": True,
        }

    def proven(
        self, name: str, host: str, given: ProvenVm | None, problem: str | None
    ) -> VerifiedBackup:
        proof = None if given is None else given["proof"]
        if given is None or problem is not None or proof not in archives.PROOFS:
            failed = self._found(name, None, None)
            return {**failed, "hypervisor": host, "failed": True, "msg": problem or "no result"}
        entry = self._found(name, proof, given["how"])
        entry = {**entry, "hypervisor": host, "seconds": given["seconds"]}
        screen = None
        if given["screen"] is not None:
            try:
                screen = png.checked(base64.b64decode(given["screen"], validate=True)).content
                self.screens[name] = screen
            except (FleetVirtError, binascii.Error) as error:
                entry["msg"] = f"its screenshot was not saved: {error}"
        return self._recorded(entry, screen)

    def _recorded(self, entry: VerifiedBackup, screen: bytes | None) -> VerifiedBackup:
        """The proof as it is recorded beside the backup, but in check mode."""
        entry = {**entry, "screenshot": screen is not None}
        proof, how = entry["proof"], entry["how"]
        if self.check or proof is None:
            return entry
        where = "" if entry["hypervisor"] is None else f", on {entry['hypervisor']}"
        how = f"{' '.join((how or '').split())[:900]}{where}"
        archive_id = self.vms[f"{entry['uuid']}::{entry['archive']}"].archive_id or None
        known = (entry["archive"], archive_id, proof, how)
        data = {key: value for key, value in entry.items() if key not in ("changed", "recorded")}
        try:
            made = effects_record.record(
                self.place, self.access, entry["uuid"], known, data, screen
            )
        except FleetVirtError as error:
            why = f"what was found of it could not be recorded: {error}"
            return {**entry, "failed": True, "msg": why}
        return {**entry, "recorded": made.archive, "changed": True}
