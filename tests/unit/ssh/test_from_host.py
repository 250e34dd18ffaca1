# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that is sent to a hypervisor: it runs there as it is, here on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _from_host, _ssh

CONSOLE = """\
ci-info: +++++++++++++++Net device info+++++++++++++++
ci-info: +--------+------+-----------+---------------+--------+-------------------+
ci-info: |  eth0  | True | 192.0.2.9 | 255.255.255.0 | global | 52:54:00:00:00:09 |
"""


def guest(uuid: str, mac: str, log: str | None = None) -> dict[str, t.Any]:
    return {
        "uuid": uuid,
        "nics": [{"mac": mac, "target": "no-such-device"}, {"mac": None, "target": None}],
        "consoles": [{"log": log}, {"log": None}],
    }


def test_the_console_is_read_where_the_network_knows_nothing(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_text(CONSOLE)
    hostile = "{{ 1 }}'\"\\\n$(touch x)"
    guests = [guest("a", "52:54:00:00:00:09", str(log)), guest(hostile, "zz", hostile)]
    found = _from_host.ask(_ssh.Reached("qemu:///system", local=True), guests, 20)
    assert found["a"] == {"neighbour": [], "console": ["192.0.2.9"]}
    assert found[hostile] == {"neighbour": [], "console": []}


def test_the_program_needs_no_more_than_python(tmp_path: Path) -> None:
    text = _from_host.program(_from_host.request([guest("a", "52:54:00:00:00:09")]))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-"],
        input=text,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"a": {"neighbour": [], "console": []}}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", {}),
        ("nonsense", {}),
        ("[]", {}),
        ('{"a": 3, "b": {"neighbour": "x", "console": ["1"], "agent": ["2"]}}', {"b": ["1"]}),
    ],
)
def test_answers_of_another_shape(said: str, expected: dict[str, list[str]]) -> None:
    found = _from_host._answer(said)
    assert {uuid: sources["console"] for uuid, sources in found.items()} == expected
    assert all(set(sources) <= set(_from_host.SOURCES) for sources in found.values())


def test_nobody_to_ask() -> None:
    nobody = _ssh.Reached("qemu+tls://hv1/system")
    assert _from_host.ask(nobody, [guest("a", "52:54:00:00:00:09")], 5) == {}
    dead = _ssh.Reached("x", _ssh.Ssh("hv1", executable="/no/such/ssh"))
    assert _from_host.ask(dead, [guest("a", "52:54:00:00:00:09")], 5) == {}
    assert _from_host.ask(dead, [], 5) == {}


def test_nesting_without_end_is_no_answer() -> None:
    assert _from_host._answer("[" * 100_000) == {}
