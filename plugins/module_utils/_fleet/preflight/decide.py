# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything preflight finds: in each hypervisor's facts, and in comparing them."""

from __future__ import annotations

import re
import shlex
import typing as t

from ..._records import dataclass
from ..base.findings import SEVERITIES, Finding, merged, ordered
from ..base.names import playbook_command
from ..notes import silent as silent_notes
from . import decide_host as preflight_host
from . import decide_pools
from .decide_host import Limits

if t.TYPE_CHECKING:
    from ..spec.devices import Cpu
    from .facts import Baseline, ClockOffset, PreflightFacts

_NO_BASELINE: Baseline = {"model": None, "xml": None, "runs": None, "error": None}
_CLOCK_WRONG = 60.0  # seconds; beyond this it is an error, not a warning


@dataclass(frozen=True)
class Answer:
    """The answer of a hypervisor: its facts, or why there are none."""

    name: str
    facts: PreflightFacts | None
    error: str | None = None


def judge(answers: t.Sequence[Answer], expected: t.Sequence[str], limits: Limits) -> list[Finding]:
    """All findings, errors first; ``expected`` are the hypervisors of the fleet."""
    asked = {answer.name for answer in answers}
    findings = _silent(answers)
    absent = [name for name in expected if name not in asked]
    if absent:
        text = f"not checked, so what they can reach is unknown: {', '.join(absent)}"
        findings.append(Finding("host_not_asked", tuple(absent), text))
    facts = {answer.name: answer.facts for answer in answers if answer.facts is not None}
    silent = asked - set(facts)
    for name, host_facts in facts.items():
        findings += preflight_host.find(name, host_facts, limits, asked, silent)
    findings += duplicates({name: one.get("uuid") for name, one in facts.items()})
    measured = {name: clock for name, one in facts.items() if (clock := one.get("clock"))}
    findings += clocks(measured, limits.clock_seconds)
    findings += _cpus(facts)
    findings += decide_pools.compare(facts)
    return ordered(merged(findings))


def _silent(answers: t.Sequence[Answer]) -> list[Finding]:
    """Those that do not answer; one that was put into maintenance may be off on purpose."""
    told: dict[str, silent_notes.Told] = {
        answer.name: {"machine": facts.get("uuid"), "held": facts.get("marks") or []}
        for answer in answers
        if (facts := answer.facts) is not None
    }
    mute = {answer.name: str(answer.error) for answer in answers if answer.facts is None}
    since = silent_notes.in_maintenance(told, list(mute))
    return [
        without_libvirt(name, why)
        or Finding(
            "host_silent",
            (name,),
            f"{f'in maintenance since {since[name]}; ' if name in since else ''}no answer: {why}",
        )
        for name, why in mute.items()
    ]


def without_libvirt(name: str, why: str) -> Finding | None:
    """The finding about a hypervisor without an answer where it says itself what it lacks, so that
    it runs and can be reached: software (:mod:`read_requirements`), or a libvirt that answers."""
    text = f"it cannot be looked at: {why}"
    if why.startswith("not installed: "):
        install = f"{playbook_command('setup_hypervisors')} --limit {shlex.quote(name)}"
        return Finding("libvirt_silent", (name,), text, f"{install} installs what is lacking")
    if why.startswith("cannot connect to libvirt at qemu:///"):  # its own, by no network
        return Finding("libvirt_silent", (name,), text)
    return None


def duplicates(uuids: t.Mapping[str, str | None]) -> list[Finding]:
    """The UUIDs that libvirt has of several hypervisors, to which others are one machine."""
    return [
        Finding("uuid_duplicate", tuple(names), f"{' and '.join(names)} have the host UUID {uuid}")
        for uuid, names in groups(uuids).items()
        if len(names) > 1
    ]


class CommonCpu(t.NamedTuple):
    """The CPU that all of ``hosts``, which have one architecture, support."""

    hosts: tuple[str, ...]
    cpu: Cpu
    line: str

    def as_dict(self) -> dict[str, object]:
        return {"hosts": list(self.hosts), "line": self.line}


def common_cpus(answers: t.Sequence[Answer]) -> list[CommonCpu]:
    """The CPU of the fleet, for each architecture of which several hypervisors were compared.

    Each libvirt computed one. That of the oldest names only features that the others know as well.
    """
    from ..spec import fleet_cpu  # the tables of settings, which nothing else here needs

    facts = {answer.name: answer.facts for answer in answers if answer.facts is not None}
    common = []
    for names in _arch(facts).values():
        baselines = [facts[name].get("baseline") or _NO_BASELINE for name in names]
        if len(names) < 2 or not all(one["runs"] and one["xml"] for one in baselines):
            continue  # a finding says why
        oldest = min(names, key=lambda name: numbers(facts[name].get("libvirt_version") or ""))
        xml = str((facts[oldest].get("baseline") or _NO_BASELINE)["xml"])
        cpu = fleet_cpu.from_libvirt(xml)
        common.append(CommonCpu(tuple(names), cpu, fleet_cpu.line(cpu)))
    return common


def summary(findings: t.Sequence[Finding]) -> dict[str, int]:
    """The number of findings of each severity."""
    return {word: sum(one.severity == word for one in findings) for word in SEVERITIES}


def groups(values: t.Mapping[str, str | None]) -> dict[str, list[str]]:
    """Names of the hypervisors, grouped by value."""
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        if value is not None:
            groups.setdefault(value, []).append(name)
    return groups


def _arch(facts: t.Mapping[str, PreflightFacts]) -> dict[str, list[str]]:
    return groups({name: one.get("arch") for name, one in facts.items()})


def clocks(clocks: t.Mapping[str, ClockOffset], limit: float) -> list[Finding]:
    """Findings about clocks, each a host's time minus the controller's, plus or minus some seconds
    of uncertainty.

    Only certain differences count. Hosts that differ from the controller are reported; hosts are
    also compared with each other, because the controller's clock may be the wrong one.
    """
    if not clocks:
        return []
    findings = []
    for name, clock in clocks.items():
        certain = abs(clock["offset"]) - clock["uncertainty"]
        if certain > limit:
            text = f"its clock differs from the controller's by {_seconds(clock)}"
            findings.append(Finding(_clock_kind(certain), (name,), text))
    late = min(clocks, key=lambda name: clocks[name]["offset"] + clocks[name]["uncertainty"])
    early = max(clocks, key=lambda name: clocks[name]["offset"] - clocks[name]["uncertainty"])
    apart = clocks[early]["offset"] - clocks[late]["offset"]
    unsure = clocks[early]["uncertainty"] + clocks[late]["uncertainty"]
    if late != early and apart - unsure > limit:
        between = _seconds({"offset": apart, "uncertainty": unsure})
        text = f"the clocks of {early} and {late} differ by {between}"
        findings.append(Finding(_clock_kind(apart - unsure), (early, late), text))
    return findings


def _clock_kind(certain: float) -> str:
    return "clock_wrong" if certain > _CLOCK_WRONG else "clock_differs"


def _seconds(clock: ClockOffset) -> str:
    return f"{clock['offset']:+.3f} s (+/- {clock['uncertainty']:.3f} s)"


def _cpus(facts: t.Mapping[str, PreflightFacts]) -> list[Finding]:
    """Findings about CPUs; ``baseline`` is a host's common CPU model for all hosts
    (virConnectBaselineHypervisorCPU)."""
    findings = []
    models: dict[str, list[str]] = {}
    for name, host_facts in facts.items():
        cpu, baseline = host_facts.get("cpu"), host_facts.get("baseline") or _NO_BASELINE
        if not cpu:  # its libvirt does not respond, which is a finding of its own
            continue
        models.setdefault(str(cpu.get("model")), []).append(name)
        if cpu.get("xml") and host_facts.get("not_compared"):
            text = f"its CPU is not compared with the others': {host_facts['not_compared']}"
            findings.append(Finding("cpu_not_compared", (name,), text))
        if baseline.get("error"):
            text = (
                f"no CPU model common to all hypervisors, according to {name}: {baseline['error']}"
            )
            findings.append(Finding("cpu_incompatible", (name,), text))
        elif baseline.get("runs") is False:
            model = baseline["model"]
            text = f"{name} does not support the CPU model common to all hypervisors, {model}"
            findings.append(Finding("cpu_incompatible", (name,), text))
    if len(models) > 1:
        listed = "; ".join(
            f"{model}: {', '.join(names)}" for model, names in sorted(models.items())
        )
        common = {
            both["model"]
            for host_facts in facts.values()
            if (both := host_facts.get("baseline")) and both.get("model")
        }
        text = f"CPU models: {listed}"
        if len(common) == 1:
            text += f". All support {common.pop()}"
        compared = [name for name, host_facts in facts.items() if host_facts.get("cpu")]
        findings.append(Finding("cpu_differs", tuple(compared), text))
    return findings


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]{1,9}", version))
