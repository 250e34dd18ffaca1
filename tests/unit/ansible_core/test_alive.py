# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Noticing that a hypervisor has fallen silent: Ansible's connection, and a clock of our own."""

from __future__ import annotations

import signal
import threading
import time
import typing as t
from collections.abc import Iterator

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader
from ansible.template import Templar
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    DeadlineExceeded,
    PlanRefused,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import outcomes
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _alive
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import FleetAction, failure

_PLAIN = "-C -o ControlMaster=auto -o ControlPersist=60s"


def _connection(kind: str, **options: str) -> t.Any:
    context = PlayContext()
    context.remote_addr = "hv1.example"
    found = connection_loader.get(kind, context, "/dev/null")
    found.set_options(direct={"host": "hv1.example", "control_path_dir": "/tmp/cp", **options})
    return found


def _command(connection: t.Any) -> str:
    built = connection._build_command("ssh", "ssh", "hv1.example", "true")
    return " ".join(word.decode() for word in built)


def test_ansibles_defaults_ask_for_an_answer_on_a_connection_of_their_own() -> None:
    connection = _connection("ssh", ssh_args=_PLAIN, ssh_common_args="-o User=admin")
    before = _command(connection)
    assert "ServerAlive" not in before
    _alive.keep(connection)
    after = _command(connection)
    assert "-o User=admin -o ServerAliveInterval=10 -o ServerAliveCountMax=3" in after
    assert 'ControlPath="/tmp/cp/alive/' in after
    assert 'ControlPath="/tmp/cp/alive/' not in before
    _alive.keep(connection)
    assert _command(connection) == after


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ("-o ControlPath=/x/%C", "-o ControlPath=/x/%C-alive"),
        ("-o 'controlpath /x/a b'", "-o ControlPath=/x/a b-alive"),
        ("-oControlPath=/x", "-o ControlPath=/x-alive"),
        ("-o ControlPath=none", "-o ControlPath=none"),
    ],
)
@pytest.mark.parametrize("where", ["ssh_args", "ssh_common_args", "ssh_extra_args"])
def test_where_the_user_keeps_connections_ours_is_beside_them(
    where: str, given: str, first: str
) -> None:
    connection = _connection("ssh", **{"ssh_args": "-o ControlPersist=60s", where: given})
    _alive.keep(connection)
    found = _command(connection)
    assert "ServerAliveInterval" in found
    assert found.lower().index("controlpath") == found.index(first) + 3


@pytest.mark.parametrize("where", ["ssh_args", "ssh_common_args", "ssh_extra_args"])
def test_what_the_user_has_set_stays(where: str) -> None:
    options = {"ssh_args": _PLAIN, where: f"{_PLAIN} -o serveraliveinterval=5"}
    connection = _connection("ssh", **options)
    before = _command(connection)
    _alive.keep(connection)
    assert _command(connection) == before


def test_other_connections_are_left_alone() -> None:
    local = connection_loader.get("local", PlayContext(), "/dev/null")
    _alive.keep(local)
    _alive.keep(None)


@pytest.fixture
def alarm() -> Iterator[list[str]]:
    """A task's own limit, as Ansible sets one."""
    rung: list[str] = []
    before = signal.signal(signal.SIGALRM, lambda *_a: rung.append("task"))
    yield rung
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_what_hangs_is_interrupted(alarm: list[str]) -> None:
    def hang() -> None:
        try:
            time.sleep(30)
        except Exception:
            raise AssertionError("it was taken for an error of its own") from None

    began = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="look: no answer"), _alive.limited(0.1, "look"):
        hang()
    assert time.monotonic() - began < 5
    time.sleep(0.2)
    assert alarm == []


def test_the_tasks_own_limit_goes_on(alarm: list[str]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.6)
    with pytest.raises(DeadlineExceeded), _alive.limited(0.1, "look"):
        threading.Event().wait(30)
    assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 0.6
    with _alive.limited(30, "look"):
        time.sleep(0.8)
    assert alarm == ["task"]


class _Hypervisor(FleetAction):
    """An action that asks in every way there is, on a connection that notes it."""

    def __init__(self, task_vars: dict[str, t.Any]) -> None:
        self._values = task_vars
        self._templar = Templar(DataLoader(), variables=task_vars)


def test_what_the_controller_refuses_is_told_from_what_was_cut_off() -> None:
    """As a module's refusal: nobody is told that it is not known what had been done by then."""
    found = failure(PlanRefused("image: no https URL")).result
    assert found["error"] == "PlanRefused"
    assert outcomes.error_message({**found, "msg": "image: no https URL"}).startswith(
        "image: no https URL; fix that, and run it again"
    )


@pytest.mark.parametrize(
    ("lost", "asked"),
    [
        (["hv1"], False),
        (["hv2", "hv1"], False),
        ("hv2, hv1", False),
        ([], True),
        ("", True),
        (None, True),
        (["hv12"], True),
        ("hv12", True),
    ],
)
def test_who_is_declared_lost_is_not_asked(lost: t.Any, asked: bool) -> None:
    values = {"inventory_hostname": "hv1", "virt_hypervisors_lost": lost}
    action = _Hypervisor(values)
    if asked:
        action._require_there()
        return
    for ask in (action._require_there, action._execute_module, action._low_level_execute_command):
        with pytest.raises(AnsibleConnectionFailure, match="hv1 is declared lost"):
            ask()
