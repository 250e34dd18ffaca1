# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPU of the fleet: read, combined with that of a VM, and as a line for group_vars."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._errors import Problem
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import fleet_cpu
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.devices import Cpu
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults, many

BASELINE = (
    "<cpu mode='custom' match='exact'><model fallback='forbid'>EPYC</model><vendor>AMD</vendor>"
    "<feature policy='require' name='sse4.1'/><feature policy='require' name='3dnow'/>"
    "<feature policy='disable' name='svm'/></cpu>"
)
FLEET = Cpu("custom", "EPYC", require=("a", "b"), disable=("c", "d"))


def problems_of(value: object) -> str:
    problems: list[Problem] = []
    assert fleet_cpu.read(value, problems) is None
    return "; ".join(map(str, problems))


@pytest.mark.parametrize(
    "value", ["EPYC", {"model": "EPYC"}, '{"model": "EPYC"}', {"mode": "custom", "model": "EPYC"}]
)
def test_fleet_cpu_of_a_model_is_read(value: object) -> None:
    assert fleet_cpu.read(value, []) == Cpu("custom", "EPYC")


@pytest.mark.parametrize("value", [None, ""])
def test_fleet_cpu_that_is_not_set_is_none(value: object) -> None:
    assert not problems_of(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("host-model", "virt_cpu: it names no model that all hypervisors support"),
        ({"require": ["a"]}, "virt_cpu: it names no model"),
        ({"model": "EPYC", "cores": 2}, "virt_cpu.cores: it is a matter of each VM"),
        ({"model": "EPYC", "feature": 1}, "virt_cpu.feature"),
        ({"model": "EPYC", "require": ["a"], "disable": ["a"]}, "cannot be required and disabled"),
        ("{model}", "is not JSON"),
        (7, "virt_cpu"),
    ],
)
def test_fleet_cpu_that_is_wrong_is_refused(value: object, text: str) -> None:
    assert text in problems_of(value)


def test_fleet_cpu_that_is_wrong_is_a_problem_of_any_batch() -> None:
    domains, problems = many([{"name": "web1"}], defaults=Defaults(fleet_cpu="host-model"))
    assert not domains
    assert [problem.path for problem in problems] == ["virt_cpu"]


def test_fleet_cpu_does_not_become_the_setting_of_a_vm() -> None:
    """An existing VM would differ from it."""
    (domain,), _problems = many([{"name": "web1"}], defaults=Defaults(fleet_cpu="EPYC"))
    assert domain.cpu == Cpu()
    assert "cpu" not in domain.written


def test_line_of_a_baseline_is_read_as_the_same_cpu() -> None:
    cpu = fleet_cpu.from_libvirt(BASELINE)
    line = fleet_cpu.line(cpu)
    assert line == "virt_cpu: {model: EPYC, require: [sse4.1, 3dnow], disable: [svm]}"
    assert fleet_cpu.read(yaml.safe_load(line)["virt_cpu"], []) == cpu


@pytest.mark.parametrize("model", ["486", "n270", "EPYC-Rome-v2", "Broadwell-IBRS", "kvm64"])
def test_line_of_any_model_stays_text_in_yaml(model: str) -> None:
    line = fleet_cpu.line(Cpu("custom", model, require=("3dnow", "no", "1e5", "de")))
    read: t.Any = yaml.safe_load(line)["virt_cpu"]
    assert read == {"model": model, "require": ["3dnow", "no", "1e5", "de"]}


def test_vm_with_features_of_its_own_overrides_those_of_the_fleet() -> None:
    own = Cpu(None, None, require=("c", "e"), disable=("a",), sockets=1, cores=2, threads=1)
    cpu = fleet_cpu.combined(own, FLEET)
    assert (cpu.mode, cpu.model, cpu.cores) == ("custom", "EPYC", 2)
    assert (cpu.require, cpu.disable) == (("b", "c", "e"), ("d", "a"))


def test_same_cpu_in_another_order_is_the_same() -> None:
    other = Cpu("custom", "EPYC", require=("b", "a"), disable=("d", "c"))
    assert fleet_cpu.same(FLEET, other)
    assert not fleet_cpu.same(FLEET, Cpu("custom", "EPYC"))
    assert not fleet_cpu.same(FLEET, None)


def test_description_counts_the_features() -> None:
    assert fleet_cpu.describe(FLEET) == "EPYC (+2 -2 features)"
    assert fleet_cpu.describe(Cpu("custom", "EPYC")) == "EPYC"
