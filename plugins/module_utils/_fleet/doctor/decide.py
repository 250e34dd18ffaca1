# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything the doctor finds in what all hypervisors answered, and what could not be looked at."""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..base.findings import Finding, merged, ordered
from ..base.names import playbook_command
from ..notes import rule
from ..notes import silent as silent_notes
from ..placement import decide as placement
from ..preflight import decide as preflight
from ..preflight import decide_host
from ..preflight.decide_host import Limits
from . import alike, cells, identities, space, unfinished

if t.TYPE_CHECKING:
    from ..engine.proofs import Silence
    from ..preflight.facts import Validity
    from .facts import Examined, Expiry


@dataclass(frozen=True)
class Diagnosis:
    """The findings, errors first; ``unseen`` says what could not be looked at, and why."""

    findings: tuple[Finding, ...]
    unseen: tuple[str, ...]


def diagnose(
    answers: t.Mapping[str, Examined],
    silent: t.Mapping[str, Silence],
    hosts: t.Sequence[placement.PlacementHost],
    policy: placement.Policy,
    limits: Limits,
    lost: t.Collection[str] = (),
) -> Diagnosis:
    """``answers`` are of those that answered, ``hosts`` all as placement sees them; ``lost`` is
    what is declared permanently gone."""
    findings = [*_silent(answers, silent), *identities.find(answers), *alike.find(answers)]
    findings += unfinished.find(answers)
    findings += cells.find(answers)
    findings += unfinished.compare_notes(answers, silent, lost)
    findings += space.space(answers, hosts, limits)
    findings += space.losses(answers, hosts, policy)
    clocks = {name: clock for name, one in answers.items() if (clock := one.get("clock"))}
    findings += preflight.clocks(clocks, limits.clock_seconds)
    for name, answer in answers.items():
        checkup, host = answer.get("checkup"), answer.get("host")
        now = ((host and host.get("at")) or 0) / 1000
        for entry in checkup["keys"] if checkup else ():
            findings += decide_host.expiry(name, _validity(entry), now, limits)
    unseen = _unseen(answers, silent, hosts)
    unasked = _not_everywhere(answers, silent, lost)
    if unasked:
        unseen.append(f"volumes that nothing uses: {unasked}")
    else:
        findings += space.unused(answers)
    return Diagnosis(tuple(ordered(merged(findings))), tuple(unseen))


def _validity(entry: Expiry) -> Validity:
    return {
        "path": entry["path"],
        "kind": "crl" if entry["kind"] == "crl" else "cert",
        "subject": entry["subject"],
        "until": entry["until"],
        "days": entry["days"],
    }


def _silent(
    answers: t.Mapping[str, Examined], silent: t.Mapping[str, Silence]
) -> t.Iterator[Finding]:
    """Those that did not answer; one in maintenance is off on purpose."""
    told: dict[str, silent_notes.Told] = {
        name: {"machine": host.get("uuid"), "held": [*(host.get("notes") or ())]}
        for name, one in answers.items()
        if (host := one.get("host")) is not None
    }
    since = silent_notes.in_maintenance(told, list(silent))
    for name, silence in silent.items():
        if not silence.asked:
            text = "excluded by --limit: nothing is known of it now"
            yield Finding("host_not_asked", (name,), text)
        elif (lacking := preflight.without_libvirt(name, silence.why)) is not None:
            yield lacking
        elif name in since:
            text = f"in maintenance since {since[name]}; no answer: {silence.why}"
            back = playbook_command("return_vms", virt_host=name)
            fix = f"once it is switched on, end its maintenance: {back}"
            yield Finding("host_off", (name,), text, fix)
        else:
            yield Finding("host_silent", (name,), f"no answer: {silence.why}")


def _unseen(
    answers: t.Mapping[str, Examined],
    silent: t.Mapping[str, Silence],
    hosts: t.Sequence[placement.PlacementHost],
) -> list[str]:
    unseen = [f"{name}: everything ({silence.why})" for name, silence in silent.items()]
    for name, answer in answers.items():
        checkup = answer.get("checkup")
        if checkup is None:
            unseen.append(f"{name}: all but what a move looks at")
            continue
        unseen += [f"{name}: {what}: {why}" for what, why in sorted(checkup["errors"].items())]
        unseen += [
            f"{name}: VM {vm['name']!r}: {vm['error']}"
            for vm in answer.get("vms") or ()
            if vm.get("error")
        ]
    for host in hosts:
        if host.name not in answers:
            continue
        if host.problem is not None:
            unseen.append(f"{host.name}: what is promised there: {host.problem}")
        unseen += [f"{host.name}: {pool.problem}" for pool in host.pools if pool.problem]
    return unseen


def _not_everywhere(
    answers: t.Mapping[str, Examined],
    silent: t.Mapping[str, Silence],
    lost: t.Collection[str],
) -> str:
    """Why it is not known of every volume whether something uses it; empty if it is."""
    if silent:
        return f"{', '.join(silent)} may use any of them, and did not answer"
    answering = {
        name: rule.Answering(str(host.get("uuid")), host.get("notes") or ())
        for name, one in answers.items()
        if (host := one.get("host")) is not None
    }
    machines = [one for one in rule.silent_machines(answering) if one not in lost]
    if machines:
        return f"by notes the fleet also has machine {', '.join(machines)}, which did not answer"
    unread = [
        name
        for name, one in answers.items()
        if (checkup := one.get("checkup")) is None or checkup["unused"] is None
    ]
    return f"{', '.join(unread)} could not look at all of its files" if unread else ""
