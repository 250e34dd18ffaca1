# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a member says of its cell and of its VMs, from recorded answers of Pacemaker."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_programs as programs,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import cib, corosync, read
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.facts import CellView, CellVm
from ansible_collections.fleet.virt.tests.unit.cell.test_configuration import SETTINGS

FIXTURES = Path(__file__).parents[1] / "fixtures" / "cell"
RELEASES = {"debian12": "hv1", "debian13": "hv2"}
UUID = "5f0c1b8e-8a57-4f43-9a39-3a1f9cbe1c1"


def recorded(kind: str, release: str) -> str:
    return (FIXTURES / f"{kind}_{release}.xml").read_text()


@pytest.mark.parametrize(("release", "host"), RELEASES.items())
def test_vms_of_cell_are_read(release: str, host: str) -> None:
    root = _lxml.parse(recorded("crm_mon", release), "crm_mon")
    vms = cib.vms(root, _lxml.parse(recorded("resources", release), "cibadmin"))
    running = CellVm(f"{UUID}1", "/srv/shared", (host,), True, False, None, None, None)
    assert vms == {
        f"{UUID}1": running,
        f"{UUID}2": dataclasses.replace(running, uuid=f"{UUID}2", managed=False, by="hv1"),
        f"{UUID}3": dataclasses.replace(running, uuid=f"{UUID}3", nodes=(), target_role="Stopped"),
        f"{UUID}4": dataclasses.replace(
            running,
            uuid=f"{UUID}4",
            nodes=(),
            failed=True,
            reason=f"start on {host}: not installed",
        ),
    }


def test_vm_that_runs_elsewhere_after_failure_has_not_failed() -> None:
    text = recorded("crm_mon", "debian13").replace(f"{UUID}4_start_0", f"{UUID}1_start_0")
    vms = cib.vms(_lxml.parse(text, "crm_mon"), _lxml.new("resources"))
    assert not [vm for vm in vms.values() if vm.failed or vm.reason]


class _Pacemaker:
    """Answers as recorded, and remembers which programs were started."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers
        self.started: list[str] = []

    def attempt(self, command: list[str], **_options: object) -> programs.Done | None:
        self.started.append(command[0])
        out = self.answers.get(command[0])
        return programs.Done(0, out, "") if out is not None else programs.Done(102, "", "")


def _here(
    monkeypatch: pytest.MonkeyPatch, place: Path, text: str | None, answers: dict[str, str]
) -> tuple[CellView | None, list[str]]:
    file = place / "corosync.conf"
    if text is not None:
        file.write_text(text)
    pacemaker = _Pacemaker(answers)
    monkeypatch.setattr(corosync, "PATH", str(file))
    monkeypatch.setattr(programs, "attempt", pacemaker.attempt)
    return read.here(), pacemaker.started


def test_view_of_member_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers = {
        "crm_mon": recorded("crm_mon", "debian13"),
        "cibadmin": recorded("resources", "debian13"),
    }
    view, _started = _here(monkeypatch, tmp_path, corosync.text_of(SETTINGS), answers)
    assert view is not None
    assert (view.cell, view.members, view.running) == ("a", ("hv1", "hv2", "hv3"), True)
    assert (view.quorate, view.online, view.unclean) == (True, {"hv2"}, {"hv9"})
    assert [vm.by for vm in view.vms.values() if not vm.managed] == ["hv1"]


@pytest.mark.parametrize(
    ("said", "votes"),
    [("votes", True), ("dead", False), ("without_daemon", False), (None, False)],
)
def test_vote_of_quorum_device_is_read(
    said: str | None, votes: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers = {"crm_mon": recorded("crm_mon", "debian13"), "cibadmin": "<resources/>"}
    if said is not None:
        answers["corosync-quorumtool"] = (FIXTURES / f"quorumtool_{said}.txt").read_text()
    settings = dataclasses.replace(SETTINGS, qdevice={"host": "192.0.2.5"})
    view, _started = _here(monkeypatch, tmp_path, corosync.text_of(settings), answers)
    assert view is not None
    assert view.device is votes
    without, started = _here(monkeypatch, tmp_path, corosync.text_of(SETTINGS), answers)
    assert without is not None
    assert (without.device, "corosync-quorumtool" in started) == (None, False)


@pytest.mark.parametrize("text", [None, "totem {\n  cluster_name: other\n}\n", "\udcff"])
def test_hypervisor_in_no_cell_starts_no_program(
    text: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if text == "\udcff":
        (tmp_path / "corosync.conf").write_bytes(b"\xff")
        text = None
    assert _here(monkeypatch, tmp_path, text, {}) == (None, [])


def test_member_without_pacemaker_is_in_its_cell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    view, _started = _here(monkeypatch, tmp_path, corosync.text_of(SETTINGS), {})
    assert view == CellView("a", ("hv1", "hv2", "hv3"))
