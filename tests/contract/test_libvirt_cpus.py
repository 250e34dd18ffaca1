# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unlike CPUs, as libvirt recorded them on real machines: the fleet's, and who lacks what.

libvirt itself computes, by its test driver, which has the tables of the real one.
"""

from __future__ import annotations

import itertools
import re
import types
import typing as t
from pathlib import Path

import libvirt
import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._errors import LibvirtFailure
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import cpu_xml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import unlike
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.hosts import (
    PlacementHost,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.offers import (
    HostCpu,
    Offers,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.types import Placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import read as preflight
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import fleet_cpu
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import many
from ansible_collections.fleet.virt.tests.contract import _libvirt_source

URI = "test:///default"
EXPAND = libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES


def baseline(xmls: list[str], flags: int = 0) -> str:
    """What libvirt computes, without features that are too new for the libvirt here."""
    with connect(URI, 10.0) as connection:
        # the test driver has the older of both functions, which is not asked for a hypervisor
        conn = types.SimpleNamespace(
            baselineHypervisorCPU=lambda *given: connection.conn.baselineCPU(given[4], flags)
        )
        asked: t.Any = types.SimpleNamespace(conn=conn, call=connection.call)
        return preflight._baseline(asked, (None, "x86_64", None, "kvm"), xmls)


class Recorded(t.NamedTuple):
    """The CPU of a real machine, and all its features."""

    xml: str
    cpu: HostCpu


@pytest.fixture(scope="module")
def recorded() -> dict[str, Recorded]:
    """Every other CPU that libvirt recorded, by its name; there are some of Intel and of AMD."""
    folder: Path = _libvirt_source.documents(_libvirt_source.CPUS)
    known: dict[str, Recorded] = {}
    for path in sorted(folder.glob("x86_64-cpuid-*-host.xml"))[::2]:
        xml = path.read_text(encoding="utf-8")
        try:
            entry = cpu_xml.features(baseline([xml], EXPAND))
        except LibvirtFailure as error:
            # a later version of a model, of which this libvirt has no table
            assert re.search(r"Unknown CPU model \S+-v[2-9]", str(error)), path  # noqa: PT017
            continue
        cpu = HostCpu(entry["vendor"], frozenset(entry["features"]))
        known[path.name[len("x86_64-cpuid-") : -len("-host.xml")]] = Recorded(xml, cpu)
    assert len(known) >= 15
    assert {one.cpu.vendor for one in known.values()} >= {"Intel", "AMD"}
    return known


def test_line_for_recorded_cpus_has_what_each_of_them_has(recorded: dict[str, Recorded]) -> None:
    compared = 0
    pairs = list(itertools.combinations(recorded.values(), 2))
    for first, second in pairs[::7]:  # of some hundreds
        if first.cpu.vendor != second.cpu.vendor:
            with pytest.raises(LibvirtFailure):
                baseline([first.xml, second.xml])
            continue
        for flags in (0, EXPAND):
            found = fleet_cpu.from_libvirt(baseline([first.xml, second.xml], flags))
            line = fleet_cpu.line(found)
            cpu = fleet_cpu.read(yaml.safe_load(line)["virt_cpu"], [])
            assert cpu == found, line
            require: set[str] = set(cpu.require)
            assert require <= first.cpu.features & second.cpu.features, line
        assert len(require) > 20
        compared += 1
    assert compared >= 20


def test_recorded_cpu_that_lacks_a_feature_is_named_and_no_other(
    recorded: dict[str, Recorded],
) -> None:
    hosts = [
        PlacementHost(
            name, domain_types=frozenset({"kvm"}), arch="x86_64", offers=Offers(cpu=one.cpu)
        )
        for name, one in recorded.items()
    ]
    (domain,), _problems = many([{"name": "web1"}])
    for name, one in recorded.items():
        placed = Placement("web1", name, (), ())
        remark = unlike.find([domain], [placed], hosts, fleet_cpu=False).get("web1", "")
        named = {other for other in recorded if f" {other} (" in remark.partition("could not")[2]}
        unable = {
            other
            for other, theirs in recorded.items()
            if theirs.cpu.vendor != one.cpu.vendor or one.cpu.features - theirs.cpu.features
        }
        assert named == unable
        assert not unlike.find([domain], [placed], hosts, fleet_cpu=True)
