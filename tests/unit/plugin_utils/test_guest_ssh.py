# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A guest is taken by its own key only, through its hypervisor if need be, whatever else is told.

ssh itself says what it makes of the options (``ssh -G``).
"""

from __future__ import annotations

import shlex
import subprocess
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.plugin_utils import _guest_ssh
from ansible_collections.fleet.virt.plugins.plugin_utils._ssh import Arguments, Ssh

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1Z4o5w1n9wYt3V0pQ1m0xQ3xZg3q1v0m0Q0m0Q0m0Q"
UUID = "6695eb01-f6a4-8304-79aa-97f2502e193f"
HYPERVISOR = Ssh("hv1", "admin", 2222, "/k", ("-J", "jump", "-o", "UserKnownHostsFile=/hosts"))


def guest(key: t.Any = KEY) -> dict[str, t.Any]:
    return {"uuid": UUID, "metadata": {"host_key": key}}


def settings(values: t.Mapping[str, t.Any]) -> dict[str, str]:
    """What ssh makes of the arguments."""
    command = ["ssh", "-F", "none", *shlex.split(values["ansible_ssh_args"]), "-G", "192.0.2.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pairs = (line.partition(" ") for line in done.stdout.splitlines())
    return {name: value for name, _space, value in pairs}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (KEY, KEY),
        (f"{KEY} root@web1", KEY),
        (f"{KEY} a\nb ssh-rsa AAAA", None),
        ("ssh-ed25519 AAAA", None),
        (f"evil {KEY}", None),
        (f"{KEY}; touch x", None),
        ("{{ lookup('pipe', 'touch x') }}", None),
        ("", None),
        (None, None),
    ],
)
def test_host_key(written: t.Any, expected: str | None) -> None:
    assert _guest_ssh.host_key(written) == expected


def test_strict_though_all_else_is_not() -> None:
    lax = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/tmp/known -o ControlMaster=auto"
    values = _guest_ssh.variables(guest(), "192.0.2.5", None, Arguments(lax))
    assert values["ansible_host_key_checking"] is True
    found = settings(values)
    assert found["stricthostkeychecking"] == "true"
    assert found["userknownhostsfile"] == found["globalknownhostsfile"] == "/dev/null"
    assert found["hostkeyalias"] == UUID
    assert found["controlmaster"] == "auto"
    said = subprocess.run(
        shlex.split(found["knownhostscommand"]), capture_output=True, text=True, check=True
    )
    assert said.stdout == f"{UUID} {KEY}\n"
    assert "ansible_control_path" not in values


def test_only_where_it_is_wanted_and_known() -> None:
    assert _guest_ssh.variables(guest(), "192.0.2.5", None, Arguments("-C"), strict=False) == {}
    assert _guest_ssh.variables(guest("no key"), "192.0.2.5", None, Arguments("-C")) == {}


def test_through_the_hypervisor() -> None:
    jumping = Arguments("-4 -J other", "-C -Jother")
    values = _guest_ssh.variables(guest(None), "192.168.122.5", HYPERVISOR, jumping)
    found = settings(values)
    assert "proxyjump" not in found
    assert found["addressfamily"] == "inet"
    assert values["ansible_ssh_common_args"] == "-C"
    command = found["proxycommand"]
    for part in ("-J jump", "-l admin", "-p 2222", "-i /k", "-W '[%h]:%p' -- hv1"):
        assert part in command
    assert "ansible_host_key_checking" not in values


def test_kept_connections_are_one_guests() -> None:
    """Though a guest of another hypervisor may have the same address."""

    def values(uuid: str, first: str = "") -> dict[str, t.Any]:
        one = {**guest(None), "uuid": uuid}
        return _guest_ssh.variables(one, "192.168.122.5", HYPERVISOR, Arguments(first))

    paths = [values(uuid)["ansible_control_path"] for uuid in ("a", "b")]
    assert paths[0] != paths[1]
    assert (paths[0] % {"directory": "/cp"}).endswith("-%r-%p")
    assert "ansible_ssh_common_args" not in values("a")
    kept = values("a", "-o ControlPath=/%C")
    assert settings(kept).get("controlpath", "none") == "none"
    assert "ansible_control_path" not in kept
