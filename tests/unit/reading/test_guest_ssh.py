# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A guest is taken by its own key only, through its hypervisor if need be, whatever else is told.

ssh itself says what it makes of the options (``ssh -G``).
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import typing as t
from pathlib import Path

import pytest
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _guest_ssh
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _ssh
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh._ssh import Arguments, Ssh

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1Z4o5w1n9wYt3V0pQ1m0xQ3xZg3q1v0m0Q0m0Q0m0Q"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
UUID = "6695eb01-f6a4-8304-79aa-97f2502e193f"
HYPERVISOR = Ssh("hv1", "admin", 2222, "/k", ("-J", "jump", "-o", "UserKnownHostsFile=/hosts"))


def guest(key: t.Any = KEY, **values: t.Any) -> dict[str, t.Any]:
    return {"name": "web1", "uuid": UUID, "metadata": {"host_key": key}, **values}


def variables(
    one: dict[str, t.Any],
    first: str = "",
    common: str = "",
    *,
    through: Ssh | None = None,
    address: str = "192.0.2.5",
    strict: bool = True,
    **more: str,
) -> dict[str, t.Any]:
    """The guest's variables where Ansible has these arguments."""
    given = {"ansible_ssh_args": first, "ansible_ssh_common_args": common, **more}
    paths = {key: given.pop(f"ansible_{key}", "") for key in ("control_path", "control_path_dir")}
    inherited = Arguments(given, **paths)
    return _guest_ssh.variables("hv1", one, address, through, inherited, strict=strict)


def settings(values: t.Mapping[str, t.Any]) -> dict[str, str]:
    """What ssh makes of the arguments."""
    return asked(["ssh", "-F", "none", *shlex.split(values["ansible_ssh_args"])])


def asked(command: list[str]) -> dict[str, str]:
    command = [*command, "-G", "192.0.2.5"]
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
    values = variables(guest(), lax)
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


def test_only_where_it_is_wanted_and_known() -> None:
    for values in (variables(guest(), "-C", strict=False), variables(guest("no key"), "-C")):
        assert "ansible_host_key_checking" not in values
        found = settings(values)
        assert found["stricthostkeychecking"] == "ask"
        assert "knownhostscommand" not in found


def test_through_the_hypervisor() -> None:
    values = variables(guest(None), "-4 -J other", "-C -Jother", through=HYPERVISOR)
    found = settings(values)
    assert "proxyjump" not in found
    assert found["addressfamily"] == "inet"
    assert values["ansible_ssh_common_args"] == "-C"
    command = found["proxycommand"]
    for part in ("-J jump", "-l admin", "-p 2222", "-i /k", "-W '[%h]:%p' -- hv1"):
        assert part in command
    assert "ansible_host_key_checking" not in values


# What users and Ansible have, and whether a connection is kept
SHARING: dict[str, tuple[dict[str, str], bool]] = {
    "Ansible's default": ({}, True),
    "arguments": ({"ansible_ssh_args": "-o ControlPersist=60s -o ControlMaster=auto"}, True),
    "arguments without": ({"ansible_ssh_args": "-C"}, False),
    "a path": (
        {"ansible_ssh_args": "-o ControlMaster=auto -o ControlPersist=9s -o ControlPath=/d/%C"},
        True,
    ),
    "a path in a word": ({"ansible_ssh_args": "-oControlPath=/d/%r@%h:%p"}, True),
    "a path with a space": ({"ansible_ssh_args": "-o 'controlpath /d/%C'"}, True),
    "a path in quotes": ({"ansible_ssh_args": "-o 'ControlPath=\"/d/%C\"'"}, True),
    "a common path": ({"ansible_ssh_common_args": "-o ControlPath=~/%C"}, True),
    "an extra path": ({"ansible_ssh_extra_args": "-o ControlPath=/d/%C"}, True),
    "a socket": ({"ansible_ssh_args": "-S /d/%C"}, True),
    "a common socket": ({"ansible_ssh_common_args": "-4CS/d/%C -C"}, True),
    "an extra socket": ({"ansible_ssh_extra_args": "-S /d/%C"}, True),
    "none": ({"ansible_ssh_args": "-o ControlPersist=9s -o ControlPath=none"}, False),
    "a long path": ({"ansible_ssh_args": f"-o ControlPath=/{'d' * 60}/c"}, False),
    "Ansible's path": ({"ansible_control_path": "%(directory)s/%%h-%%p-%%r"}, True),
    "Ansible's path elsewhere": ({"ansible_control_path": "/d/%%h-%%p-%%r"}, True),
    "a long folder": ({"ansible_control_path_dir": f"{'d' * 60}/c"}, False),
}


@pytest.mark.parametrize("through", [None, HYPERVISOR])
@pytest.mark.parametrize(("given", "kept"), SHARING.values(), ids=SHARING)
def test_kept_connections_are_one_guests(
    given: dict[str, str], kept: bool, through: Ssh | None, tmp_path: Path
) -> None:
    """Whatever the user has set, and though two of them have one address.

    Ansible's own plugin builds the command, ssh says what it makes of it.
    """
    folder = tempfile.mkdtemp(dir="/tmp")  # its path is short
    given = {name: value.replace("/d/", f"{folder}/") for name, value in given.items()}
    if not given.get("ansible_control_path_dir"):
        given["ansible_control_path_dir"] = folder
    else:
        given["ansible_control_path_dir"] = str(tmp_path / given["ansible_control_path_dir"])
    inherited = _ssh.configured_args(given)

    def path(one: dict[str, t.Any] | None, **more: str) -> str:
        values = dict(given)
        if one is not None:
            values.update(_guest_ssh.variables("hv1", one, "192.0.2.5", through, inherited))
        plugin: t.Any = connection_loader.get("ssh", PlayContext())
        values.update({"ansible_host": "192.0.2.5", "ansible_user": "root", **more})
        plugin.set_options(var_options=values)
        plugin.host = "192.0.2.5"
        words = [str(word, "utf-8") for word in plugin._build_command("ssh", "ssh")]
        config = tmp_path / "config"
        config.write_text(f"ControlPath {folder}/from-config-%h\n")
        return asked([words[0], "-F", str(config), *words[1:]]).get("controlpath", "none")

    try:
        hosts = path(None)  # of any other host at this address
        ours = path(guest(None))
        assert kept is (ours != "none")
        if not kept:
            return
        others = [guest(None, uuid="another"), guest(None, name="web2"), guest(KEY), guest(OTHER)]
        paths = [ours, *map(path, others), path(guest(None), ansible_user="admin")]
        paths.append(path(guest(None), ansible_port="2222"))
        assert hosts not in paths
        assert len(set(paths)) == len(paths)
        assert {os.path.dirname(one) for one in paths} == {os.path.dirname(hosts)}
        assert ours == path(guest(None))
        assert all(len(one) <= 103 - 17 for one in paths)
    finally:
        shutil.rmtree(folder)


def test_arguments_that_are_none() -> None:
    with pytest.raises(FleetVirtError, match=r"ssh_common_args: .* No closing quotation"):
        _ssh.configured_args({"ansible_ssh_common_args": "-o 'x"})
