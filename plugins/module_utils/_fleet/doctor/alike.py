# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where hypervisors of a fleet differ that should be alike."""

from __future__ import annotations

import typing as t

from ..base import machine_types as machines
from ..base.findings import Finding
from ..preflight.decide import duplicates, groups, numbers

if t.TYPE_CHECKING:
    from .facts import Checkup, Examined

_SHOWN = 8  # features of a CPU


def find(answers: t.Mapping[str, Examined]) -> list[Finding]:
    """All differences."""
    checkups = {host: checkup for host, one in answers.items() if (checkup := one.get("checkup"))}
    findings = duplicates(
        {name: host.get("uuid") for name, one in answers.items() if (host := one.get("host"))}
    )
    arches = groups({host: checkup["arch"] for host, checkup in checkups.items()})
    if len(arches) > 1:
        findings.append(Finding("arch_differs", tuple(checkups), _listed(arches)))
    for program in ("libvirt", "qemu", "kernel"):
        versions = groups({host: _version(checkup, program) for host, checkup in checkups.items()})
        if len(versions) > 1:
            text = f"versions of {program}: {_listed(versions)}"
            findings.append(Finding("versions_differ", tuple(checkups), text))
    findings += _set_up(checkups)
    for names in arches.values():
        findings += _cpus({name: checkups[name] for name in names})
        findings += _machines({name: answers[name] for name in names})
    return findings


def _version(checkup: Checkup, program: str) -> str | None:
    return {
        "libvirt": checkup["libvirt"],
        "qemu": checkup["qemu"],
        "kernel": checkup["kernel"],
    }[program]


def _listed(names_by_value: t.Mapping[str, t.Sequence[str]]) -> str:
    ordered = sorted(names_by_value.items(), key=lambda pair: (numbers(pair[0]), pair[0]))
    return "; ".join(f"{value}: {', '.join(names)}" for value, names in ordered)


def _set_up(checkups: t.Mapping[str, Checkup]) -> list[Finding]:
    """That the set-up wrote other lines into a file than on most others; all if there is no such
    majority."""
    findings = []
    for path in sorted({path for checkup in checkups.values() for path in checkup["setup"]}):
        digests = groups({name: one["setup"].get(path) for name, one in checkups.items()})
        if len(digests) < 2:
            continue
        most = max(digests.values(), key=len)
        others = [names for names in digests.values() if names is not most]
        differs = f"differs from that on {', '.join(most)}"
        if any(len(names) == len(most) for names in others):
            others = [*digests.values()]
            differs = f"differs between {' and '.join(', '.join(names) for names in others)}"
        text = (
            f"what the set-up wrote into {path} {differs}: another version of this collection, or"
            " other variables"
        )
        hosts = tuple(name for names in others for name in names)
        findings.append(Finding("setup_differs", hosts, text))
    return findings


def _cpus(checkups: t.Mapping[str, Checkup]) -> list[Finding]:
    """That guests with the CPU of their hypervisor cannot move between all of these."""
    cpus = {name: cpu for name, one in checkups.items() if (cpu := one["cpu"]) is not None}
    vendors = groups({name: cpu["vendor"] or "no vendor" for name, cpu in cpus.items()})
    if len(vendors) > 1:
        return [Finding("cpu_differs", tuple(cpus), f"CPUs: {_listed(vendors)}")]
    known = {name: frozenset(cpu["features"]) for name, cpu in cpus.items()}
    everything: frozenset[str] = frozenset().union(*known.values())
    lacking = groups({name: _some(everything - features) for name, features in known.items()})
    lacking.pop("", None)
    if not lacking:
        return []
    text = "; ".join(f"{what}: not {', '.join(names)}" for what, names in sorted(lacking.items()))
    return [Finding("cpu_differs", tuple(cpus), f"not all CPUs offer the same to guests: {text}")]


def _some(features: t.Collection[str]) -> str:
    named = sorted(features)
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return f"{', '.join(named[:_SHOWN])}{more}"


def _machines(answers: t.Mapping[str, Examined]) -> list[Finding]:
    """That hypervisors of one architecture share no versioned machine type."""
    known = {
        name: supported
        for name, one in answers.items()
        if (host := one.get("host")) and (supported := host.get("machines"))
    }
    if len(known) < 2 or machines.newest_common(list(known.values()), None) is not None:
        return []
    newest = [
        f"{name}: {machines.newest_common([types], None) or 'none'}"
        for name, types in known.items()
    ]
    text = f"no machine type is common to all; the newest of each: {'; '.join(newest)}"
    return [Finding("machines_apart", tuple(known), text)]
