# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules across settings look at what the definition keeps beside the request."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import plan as change
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.definition import (
    DefinitionRequest,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.plan import ChangeFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import domain_xml, request
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import from_options

_BASE: dict[str, t.Any] = {"name": "web1", "disk_profile": "none", "nic_profile": "none"}
_CELLS = [{"cpus": "0", "memory": 64}, {"cpus": "1", "memory": 64}]
# What the VM was created with, what is asked for alone, and whether they fit
CASES: list[tuple[dict[str, t.Any], dict[str, t.Any], str]] = [
    ({"vcpus": 2, "memory": 128, "numa": _CELLS}, {"memory": 256}, "nodes have 128 MiB in total"),
    ({"vcpus": 2, "memory": 128, "numa": _CELLS}, {"vcpus": 4}, "must be in one node"),
    ({"vcpus": 2, "memory": 128, "numa": _CELLS}, {"title": "A"}, ""),
    ({"vcpus": 4, "cpu": {"cores": 4}}, {"vcpus": 8}, "make 4, but the VM has 8 vCPUs"),
    ({"vcpus": 4, "vcpus_max": 4, "cpu": {"cores": 4}}, {"vcpus_max": 8}, "make 4"),
    ({"vcpus": 2, "vcpus_max": 4, "cpu": {"cores": 4}}, {"vcpus": 3}, ""),
    ({"vcpus": 4, "cpu": {"cores": 4}}, {"vcpus": 8, "cpu": {"cores": 8}}, ""),
    ({"vcpus": 4, "cputune": {"vcpupin": ["3:0"]}}, {"vcpus": 2}, "there is no vCPU 3"),
    ({"memory": 128, "memtune": {"hard_limit": 256}}, {"memory": 512}, "less than the VM's memory"),
    ({"on_reboot": "destroy"}, {"on_poweroff": "restart"}, "restart excludes on_reboot destroy"),
    ({"console": "spice", "channels": [{"name": "a", "type": "spicevmc"}]}, {"console": "vnc"},
     "spicevmc needs console spice"),
]  # fmt: skip


def _domain(options: dict[str, t.Any]) -> Domain:
    domain, problems = from_options({**_BASE, **options})
    assert problems == []
    assert domain is not None
    return domain


def _xml(domain: Domain) -> str:
    return domain_xml.render(
        domain,
        uuid="5f2c8f0e-9d0a-4d0b-8a2b-6e1f7c3a9b54",
        domain_type="qemu",
        machine="pc-q35-7.2",
        arch="x86_64",
        volumes={},
    )


def _plan(made: dict[str, t.Any], asked: dict[str, t.Any], live: bool = False) -> change.Converged:
    domain = _domain(made)
    xml, kept = _xml(domain), Metadata(request=request.to_text(domain))
    facts = ChangeFacts("web1", xml, xml if live else None, kept, running=live)
    wanted = _domain(asked)
    return change.plan(facts, DefinitionRequest(wanted, _xml(wanted)), {})


@pytest.mark.parametrize("live", [False, True], ids=["off", "running"])
@pytest.mark.parametrize(("made", "asked", "reason"), CASES, ids=lambda value: str(value)[:40])
def test_request_that_excludes_what_is_kept_is_refused(
    made: dict[str, t.Any], asked: dict[str, t.Any], reason: str, live: bool
) -> None:
    found = _plan(made, asked, live)
    if not reason:
        assert found.plan.refusals == ()
        assert found.plan.steps != ()
        return
    assert found.plan.steps == ()
    (refusal,) = found.plan.refusals
    assert reason in refusal
    assert "The definition keeps" in refusal


@pytest.mark.parametrize(
    ("key", "kept", "most", "less", "shown"),
    [("vcpus", 64, 128, 32, "64"), ("memory", 4096, 8192, 2048, "4.0GiB")],
)
def test_maximum_below_what_is_kept_is_refused(
    key: str, kept: int, most: int, less: int, shown: str
) -> None:
    found = _plan({key: kept, f"{key}_max": most}, {f"{key}_max": less})
    assert found.plan.steps == ()
    (refusal,) = found.plan.refusals
    assert f"the definition keeps {key} {shown}, which is more; request {key} too" in refusal


def test_conflict_that_was_there_before_is_not_the_requests() -> None:
    """An adopted VM with a limit below its memory can still be given a title."""
    domain = _domain({"memory": 128, "memtune": {"hard_limit": 256}})
    xml = _xml(domain).replace("262144", "65536")
    assert "65536" in xml
    facts = ChangeFacts("web1", xml, None, Metadata(request=request.to_text(domain)))
    wanted = _domain({"title": "A"})
    assert change.plan(facts, DefinitionRequest(wanted, _xml(wanted)), {}).plan.refusals == ()
