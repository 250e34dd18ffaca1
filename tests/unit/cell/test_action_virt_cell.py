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
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.files import digest
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _cell_keys

_FENCE = {"agent": "fence_ipmilan", "ip": "192.0.2.113", "password": "xyzzy"}
_HOSTS = ("hv1", "hv2", "hv3")


class Controller:
    """A play on three hypervisors, of which none has a cell yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[dict[str, t.Any]] = []
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

    def act(self, host: str = "hv1", *, check: bool = False, **given: t.Any) -> dict[str, t.Any]:
        """The action's result; what it has a hypervisor do is in ``sent``."""
        sent = self.sent

        class Action(virt_cell.ActionModule):
            def __init__(self) -> None:
                self._task = types.SimpleNamespace(args={}, action="x", check_mode=check)

            def options(self, *_given: t.Any) -> t.Any:
                return {"token": 3000, "system": {}, "_results": "look", "_decided": "decided"} | {
                    "_round": 0,
                    **given,
                }

            def module(self, _task_vars: t.Any, arguments: t.Any = None) -> t.Any:
                sent.append(arguments)
                return {"changed": True}

        values = {
            "inventory_hostname": host,
            "hostvars": self.variables,
            "groups": {"hypervisors": [*self.variables]},
            "ansible_play_hosts_all": [*self.variables],
        }
        action: t.Any = Action()
        return dict(action.work({**values, "keys_dir": str(self.folder)}))

    def decide(self, **given: t.Any) -> dict[str, t.Any]:
        """What is decided, which all hypervisors of the play have as well."""
        decided = self.act(_stage="decide", keys_dir=str(self.folder), **given)
        for variables in self.variables.values():
            variables["decided"] = decided
        return decided


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
    with pytest.raises(FleetVirtError, match="chmod 700"):
        controller.decide()


def test_secrets_are_sent_in_option_of_their_own(controller: Controller) -> None:
    controller.decide()
    controller.act("hv2", _stage="write", keys_dir=str(controller.folder))
    (given,) = controller.sent
    keys = _cell_keys.read(str(controller.folder), "a")
    assert keys is not None
    assert given["_secrets"]["corosync"] == keys[0].hex()
    assert given["_secrets"]["fence-hv3/password"] == "xyzzy"
    assert "xyzzy" not in str(given["_job"])
    assert keys[0].hex() not in str(given["_job"])


def test_cell_is_configured_by_single_member(controller: Controller) -> None:
    controller.decide()
    for host in _HOSTS:
        controller.act(host, _stage="configure", keys_dir=str(controller.folder))
    assert [given["_job"]["host"] for given in controller.sent] == ["hv1"]


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
            controller.act(host, _stage="write", keys_dir=str(controller.folder), _round=number)
            for given in controller.sent[before:]:
                if given["_job"]["leave"]:
                    left.append((number, host))
    assert left == [(0, "hv2"), (1, "hv4")]


def test_play_is_refused_with_all_reasons(controller: Controller) -> None:
    controller.variables["hv2"]["virt_fence"] = None
    controller.variables["hv3"]["look"]["release"] = "debian 12"
    with pytest.raises(PlanRefused) as refused:
        controller.decide()
    assert "hv2 has no fence device" in str(refused.value)
    assert "several releases" in str(refused.value)
    assert "xyzzy" not in str(refused.value)
    assert not controller.folder.exists(), "and no keys are made"


def test_controller_with_other_keys_is_refused(controller: Controller) -> None:
    for variables in controller.variables.values():
        variables["look"] |= {"cell": "a", "keys": "0"}
    with pytest.raises(PlanRefused, match="hv1 has other keys of the cell 'a'"):
        controller.decide()


def test_member_without_variable_is_named(controller: Controller) -> None:
    controller.variables["hv3"]["look"] |= {"cell": "a"}
    controller.variables["hv3"]["virt_ha_cell"] = ""
    with pytest.raises(PlanRefused, match="hv3 is a member of the cell 'a', and its virt_ha_cell"):
        controller.decide()


def test_host_that_did_not_answer_is_named(controller: Controller) -> None:
    controller.variables["hv3"]["look"] = {"unreachable": True, "msg": "timed out"}
    with pytest.raises(PlanRefused, match=r"hv3 does not answer \(timed out\)"):
        controller.decide()


def test_state_that_is_none_is_refused(controller: Controller) -> None:
    controller.variables["hv3"]["virt_ha_state"] = "absnet"
    with pytest.raises(PlanRefused, match="virt_ha_state of hv3 is 'absnet'"):
        controller.decide()
