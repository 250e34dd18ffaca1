# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPU of the fleet, which new VMs get that do not choose theirs: ``virt_cpu``."""

from __future__ import annotations

import re

from ..._errors import Problem
from ..._lxml import parse
from ..base.options import Reader
from ..base.settings import rows as rows_of
from ..base.xml_values import attribute, first_children, text_of
from .devices import Cpu
from .options_devices import cpu_from
from .settings_tuning import CpuTuning

VARIABLE = "virt_cpu"
_NO_TEXT = re.compile(r"[\d._]+(e\d+)?|true|false|yes|no|on|off|y|n|null", re.I)
_FEATURES = (CpuTuning.require.name, CpuTuning.disable.name)
_OTHER = [row.name for row in rows_of(CpuTuning) if row.name not in _FEATURES]


def read(value: object, problems: list[Problem]) -> Cpu | None:
    """The fleet's CPU as it was written; None if none was, or with problems."""
    known = len(problems)
    structure = Reader({VARIABLE: value}, "", problems).structure(VARIABLE)
    if structure in (None, ""):
        return None
    cpu = cpu_from(structure, VARIABLE, problems)
    if cpu.model is None and len(problems) == known:
        text = (
            "it names no model that all hypervisors support; ansible-playbook"
            " fleet.virt.preflight prints the line"
        )
        problems.append(Problem(VARIABLE, text))
    problems += [
        Problem(f"{VARIABLE}.{name}", "it is a matter of each VM; write it in vm_cpu")
        for name in _OTHER
        if getattr(cpu, name)
    ]
    return cpu if len(problems) == known else None


def combined(own: Cpu, fleet: Cpu) -> Cpu:
    """The CPU of a VM that chose neither mode nor model; its own features come first."""
    require = (*(one for one in fleet.require if one not in own.disable), *own.require)
    disable = (*(one for one in fleet.disable if one not in own.require), *own.disable)
    rows = {row.name: getattr(own, row.name) for row in rows_of(CpuTuning)}
    rows["require"] = tuple(dict.fromkeys(require))
    rows["disable"] = tuple(dict.fromkeys(disable))
    return Cpu(fleet.mode, fleet.model, **rows)


def describe(cpu: Cpu) -> str:
    """``EPYC (+18 -7 features)``."""
    counts = [f"+{len(cpu.require)}"] * bool(cpu.require)
    counts += [f"-{len(cpu.disable)}"] * bool(cpu.disable)
    return f"{cpu.model} ({' '.join(counts)} features)" if counts else str(cpu.model)


def from_libvirt(xml: str) -> Cpu:
    """A CPU as libvirt describes it, without its vendor."""
    root = parse(xml, "CPU")
    off: dict[bool, list[str]] = {False: [], True: []}
    for feature in root.iterchildren("feature"):
        off[attribute(feature, "policy") == "disable"].append(attribute(feature, "name") or "")
    model = text_of(first_children(root).get("model"))
    features = {name: tuple(off[policy]) for name, policy in zip(_FEATURES, (False, True))}
    return Cpu("custom", model, **features)


def same(cpu: Cpu | None, other: Cpu | None) -> bool:
    """Whether both are the same CPU, in whatever order its features are."""
    both = (cpu, other)
    return (
        len({one and (one.model, *map(frozenset, (one.require, one.disable))) for one in both}) == 1
    )


def line(cpu: Cpu) -> str:
    """The line for group_vars."""
    parts = [f"model: {_scalar(cpu.model or '')}"]
    for name in _FEATURES:
        features = getattr(cpu, name)
        if features:
            parts.append(f"{name}: [{', '.join(map(_scalar, features))}]")
    return f"{VARIABLE}: {{{', '.join(parts)}}}"


def _scalar(text: str) -> str:
    """The text as YAML, where ``486`` would be a number and ``no`` a boolean."""
    return f'"{text}"' if _NO_TEXT.fullmatch(text) else text
