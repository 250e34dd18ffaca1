# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the controller decides for the cells of a play, and the keys that it has."""

from __future__ import annotations

import stat
import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.action import virt_cell
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.files import digest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import Work
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha.effects import order_of
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha.options import CellWork
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core._once import FailedStage
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _cell_keys

_FENCE = {"agent": "fence_ipmilan", "ip": "192.0.2.113", "password": "xyzzy"}
_HOSTS = ("hv1", "hv2", "hv3")


class Controller:
    """A play on three hypervisors, of which none has a cell yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[dict[str, t.Any]] = []
        self.decided: dict[str, t.Any] = {}
        self.end: dict[str, t.Any] = {"changed": True}
        look = {"release": "debian 13", "cell": None, "numbers": {}, "running": False}
        self.variables: dict[str, dict[str, t.Any]] = {
            name: {
                "ansible_host": f"192.0.2.{number}",
                "virt_ha_cell": "a",
                "virt_fence": _FENCE,
                "look": dict(look),
            }
            for number, name in enumerate(_HOSTS, 1)
        }

    def act(
        self, stage: str, host: str = "hv1", number: int = 0, *, check: bool = False
    ) -> dict[str, t.Any]:
        """The action's result; what it has a hypervisor do is in ``sent``."""
        sent, end = self.sent, self.end
        work = Work("r1", "virt_cell", "look")
        values: dict[str, t.Any] = {
            "inventory_hostname": host,
            "hostvars": {
                name: {**own, "ha_look": envelope.answered(work, own["look"])}
                for name, own in self.variables.items()
            },
            "groups": {"hypervisors": [*self.variables]},
            "ansible_play_hosts_all": [*self.variables],
            "ha_decided": self.decided,
        }

        class Action(virt_cell.ActionModule):
            def __init__(self) -> None:
                play = types.SimpleNamespace(_uuid="r1")
                self._values = values
                self._task = types.SimpleNamespace(
                    args={"_work": {"stage": stage, "round": number}},
                    action="fleet.virt.virt_cell",
                    check_mode=check,
                    get_play=lambda: play,
                    get_name=lambda: "Ensure it",
                )

            def options(self, *_given: t.Any) -> t.Any:
                return {"token": 3000, "system": {}, "keys_dir": str(folder)}

            def module(self, _task_vars: t.Any, arguments: t.Any = None) -> t.Any:
                sent.append(arguments)
                return {**end}

        folder = self.folder
        action: t.Any = Action()
        answer: dict[str, t.Any] = action._worked(values)
        return answer

    def decide(self, *, check: bool = False) -> dict[str, t.Any]:
        """What is decided, which all hypervisors of the play have as well."""
        self.decided = self.act("decide", check=check)
        return self.decided


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    return Controller(tmp_path / "keys")


def test_keys_are_made_once_with_mode_0600(controller: Controller) -> None:
    controller.decide(check=True)
    assert not controller.folder.exists(), "not in check mode"
    decided = controller.decide()
    assert decided["plans"]["a"]["rounds"] == [[*_HOSTS]]
    assert decided["members"] == [*_HOSTS]
    paths = sorted((controller.folder / "cells").iterdir())
    assert [path.name for path in paths] == ["a.corosync", "a.pacemaker"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    keys = _cell_keys.read(str(controller.folder), "a")
    controller.decide()
    assert _cell_keys.read(str(controller.folder), "a") == keys
    controller.folder.chmod(0o750)
    with pytest.raises(FailedStage, match="chmod 700"):
        controller.decide()


def test_secrets_are_sent_in_option_of_their_own(controller: Controller) -> None:
    controller.decide()
    controller.act("write", "hv2")
    (given,) = controller.sent
    keys = _cell_keys.read(str(controller.folder), "a")
    assert keys is not None
    assert given["_secrets"]["corosync"] == keys[0].hex()
    assert given["_secrets"]["fence-hv3/password"] == "xyzzy"
    assert "xyzzy" not in str(given["_work"])
    assert keys[0].hex() not in str(given["_work"])
    order = order_of(envelope.read(CellWork, given).job, given["_secrets"])
    assert order.keys == keys
    assert [device.secrets for device in order.devices] == [{"password": "xyzzy"}] * 3
    assert next(member.addresses for member in order.job.settings.members) == ["192.0.2.1"]


def test_cell_is_configured_by_single_member(controller: Controller) -> None:
    controller.decide()
    for host in _HOSTS:
        controller.act("configure", host)
    assert [given["_work"]["job"]["host"] for given in controller.sent] == ["hv1"]


@pytest.mark.parametrize("end", [{"failed": True, "msg": "no"}, {"unreachable": True, "msg": "no"}])
def test_member_that_fails_stops_run(controller: Controller, end: dict[str, t.Any]) -> None:
    controller.decide()
    controller.end = end
    with pytest.raises(FailedStage, match="no"):
        controller.act("activate")


def test_plan_of_another_run_is_refused(controller: Controller) -> None:
    controller.decide()
    controller.decided["_work"]["run"] = "r0"
    with pytest.raises(FailedStage, match="ha_decided is no decision of this run"):
        controller.act("write")
    assert not controller.sent


def test_member_that_leaves_does_so_in_its_round(controller: Controller) -> None:
    controller.folder.mkdir(mode=0o700)
    keys = _cell_keys.make(str(controller.folder), "a")
    for name in ("hv4", "hv5"):
        controller.variables[name] = {**controller.variables["hv3"], "ansible_host": name}
    members = {name: number for number, name in enumerate(controller.variables, 1)}
    for variables in controller.variables.values():
        variables["look"] = {
            **variables["look"],
            "cell": "a",
            "running": True,
            "quorate": True,
            "numbers": members,
            "online": [*members],
            "keys": digest(*keys),
        }
    for name in ("hv2", "hv4"):
        controller.variables[name]["virt_ha_state"] = "absent"
    decided = controller.decide()
    assert decided["rounds"] == [0, 1]
    left = []
    for number in range(2):
        for host in members:
            before = len(controller.sent)
            controller.act("write", host, number)
            for given in controller.sent[before:]:
                if given["_work"]["job"]["leave"]:
                    left.append((number, host))
    assert left == [(0, "hv2"), (1, "hv4")]


def test_play_is_refused_with_all_reasons(controller: Controller) -> None:
    controller.variables["hv2"]["virt_fence"] = None
    controller.variables["hv3"]["look"]["release"] = "debian 12"
    with pytest.raises(FailedStage) as refused:
        controller.decide()
    assert "hv2 has no fence device" in str(refused.value)
    assert "several releases" in str(refused.value)
    assert "xyzzy" not in str(refused.value)
    assert not controller.folder.exists(), "and no keys are made"


def test_controller_with_other_keys_is_refused(controller: Controller) -> None:
    for variables in controller.variables.values():
        variables["look"] |= {"cell": "a", "keys": "0"}
    with pytest.raises(FailedStage, match="hv1 has other keys of the cell 'a'"):
        controller.decide()


def test_member_without_variable_is_named(controller: Controller) -> None:
    controller.variables["hv3"]["look"] |= {"cell": "a"}
    controller.variables["hv3"]["virt_ha_cell"] = ""
    with pytest.raises(FailedStage, match="hv3 is a member of the cell 'a', and its virt_ha_cell"):
        controller.decide()


def test_host_that_did_not_answer_is_named(controller: Controller) -> None:
    controller.variables["hv3"]["look"] = {"unreachable": True, "msg": "timed out"}
    with pytest.raises(FailedStage, match=r"hv3 does not answer \(timed out\)"):
        controller.decide()


def test_host_that_is_gone_leaves_unvisited(controller: Controller) -> None:
    controller.folder.mkdir(mode=0o700)
    keys = _cell_keys.make(str(controller.folder), "a")
    controller.variables["hv4"] = {**controller.variables["hv3"], "ansible_host": "192.0.2.4"}
    members = {name: number for number, name in enumerate(controller.variables, 1)}
    running = {"running": True, "quorate": True, "online": [*_HOSTS], "numbers": members}
    for variables in controller.variables.values():
        variables["look"] = {**variables["look"], **running, "cell": "a", "keys": digest(*keys)}
    controller.variables["hv4"] |= {
        "virt_ha_state": "absent",
        "look": {"unreachable": True, "msg": "timed out"},
    }
    controller.decide()
    for host in members:
        controller.act("write", host)
    assert [given["_work"]["job"]["host"] for given in controller.sent] == [*_HOSTS]


def test_state_that_is_none_is_refused(controller: Controller) -> None:
    controller.variables["hv3"]["virt_ha_state"] = "absnet"
    with pytest.raises(FailedStage, match="virt_ha_state of hv3 is 'absnet'"):
        controller.decide()
