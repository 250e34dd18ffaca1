# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a member does before Pacemaker is stopped, and what check mode says of its configuration."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_systemd as systemd,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import (
    cib,
    corosync,
    files,
    read,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha import effects
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha.options import CellJob
from ansible_collections.fleet.virt.tests.unit.cell.test_configuration import SETTINGS

_EMPTY: frozenset[str] = frozenset()
_SEEN = cib.Monitored(frozenset(("hv1",)), _EMPTY, True, {"fleet-1": ["hv1"]}, _EMPTY)
_IDLE = dataclasses.replace(_SEEN, vms={"fleet-1": ["hv2"]})


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> effects.CellOrder:
    """The job of a member, hv1, that leaves."""
    path = tmp_path / "corosync.conf"
    path.write_text(corosync.text_of(SETTINGS), encoding="utf-8")
    monkeypatch.setattr(corosync, "PATH", str(path))
    monkeypatch.setattr(effects, "_ANSWER", 0.05)
    monkeypatch.setattr(effects, "_stop", lambda name: pytest.fail(f"{name} would be stopped"))
    monkeypatch.setattr(effects, "_PAUSE", 0.01)
    return effects.CellOrder(CellJob("hv1", SETTINGS, leave=True), (b"", b""), ())


@pytest.mark.parametrize(
    ("seen", "active", "problem"),
    [
        (_SEEN, True, "hv1, which runs fleet-1; evacuate it"),
        (None, True, "hv1, whose Pacemaker does not answer, so nobody knows which VMs run"),
        (None, False, ""),
        (_IDLE, True, ""),
    ],
)
def test_member_leaves_only_once_it_is_known_to_run_no_vm(
    order: effects.CellOrder,
    monkeypatch: pytest.MonkeyPatch,
    seen: cib.Monitored | None,
    active: bool,
    problem: str,
) -> None:
    """Its Pacemaker is stopped then, which stops them; check mode says so, too."""
    monkeypatch.setattr(read, "monitored", lambda: seen)
    monkeypatch.setattr(systemd, "is_active", lambda _name: active)
    monkeypatch.setattr(systemd, "is_enabled", lambda _name: False)
    if not problem:
        assert effects.write(order, check=True)["changed"]
        return
    for check in (True, False):
        with pytest.raises(PlanRefused, match=problem):
            effects.write(order, check=check)
    assert Path(corosync.PATH).exists()


def test_member_without_its_file_is_not_stopped_while_it_runs_vms(
    order: effects.CellOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(corosync.PATH).unlink()
    order = dataclasses.replace(order, job=dataclasses.replace(order.job, leave=False))
    monkeypatch.setattr(systemd, "is_active", lambda _name: True)
    monkeypatch.setattr(read, "monitored", lambda: _SEEN)
    for check in (True, False):
        with pytest.raises(PlanRefused, match="stopped on hv1, which runs fleet-1"):
            effects.write(order, check=check)
    monkeypatch.setattr(read, "monitored", lambda: _IDLE)
    assert "stop pacemaker.service" in effects.write(order, check=True)["steps"]


def test_pacemaker_that_is_being_started_is_waited_for(
    order: effects.CellOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [None, None, _SEEN]
    monkeypatch.setattr(read, "monitored", lambda: answers.pop(0))
    monkeypatch.setattr(systemd, "is_active", lambda _name: True)
    monkeypatch.setattr(systemd, "is_enabled", lambda _name: True)
    monkeypatch.setattr(effects, "_ANSWER", 60)
    with pytest.raises(PlanRefused, match="which runs fleet-1"):
        effects.write(order, check=True)


def test_removal_of_node_is_predicted(
    order: effects.CellOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that Pacemaker knows from before, without a fence device."""
    nodes = "".join(f"<node uname='{name}'/>" for name in ("hv1", "hv2", "hv3", "old"))
    text = f"<cib><configuration><nodes>{nodes}</nodes></configuration></cib>"
    monkeypatch.setattr(read, "configuration", lambda: _lxml.parse(text, "cib"))
    steps = effects.configure(order, check=True)["steps"]
    assert steps[0] == "remove the node old"
    assert len([step for step in steps if step.startswith("remove the node")]) == 1


def test_log_file_of_distribution_is_switched_off(
    order: effects.CellOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd.exec(5): files win over Environment=, and of files the later one; drop-ins are later
    than the unit."""
    order = dataclasses.replace(order, job=dataclasses.replace(order.job, leave=False))
    monkeypatch.setattr(systemd, "is_active", lambda _name: False)
    steps = effects.write(order, check=True)["steps"]
    assert f"write {files.ENVIRONMENT}" in steps
    assert f"EnvironmentFile=-{files.ENVIRONMENT}" in files.UNIT_TEXT.splitlines()
    assert "PCMK_logfile=none" in files.ENVIRONMENT_TEXT.splitlines()
