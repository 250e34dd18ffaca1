# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the controller reaches libvirt over SSH: as Ansible would, and no name can add to it."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible import context
from ansible.module_utils.common.collections import ImmutableDict
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _ssh
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh._ssh import Ssh


@pytest.mark.parametrize(
    ("options", "variables", "expected"),
    [
        ({}, {}, Ssh("hv1", become=True)),
        ({"remote_user": "root"}, {}, Ssh("hv1", "root", become=False)),
        ({"remote_user": "admin"}, {}, Ssh("hv1", "admin", become=True)),
        ({"remote_user": "admin"}, {"virt_become": "false"}, Ssh("hv1", "admin", become=False)),
        ({"remote_user": "root"}, {"ansible_become": True}, Ssh("hv1", "root", become=True)),
        (
            {},
            {"virt_become": "no", "ansible_become": True},
            Ssh("hv1", become=False),
        ),
        ({"port": "2222"}, {}, Ssh("hv1", port=2222, become=True)),
        ({"private_key_file": "/k"}, {}, Ssh("hv1", key_file="/k", become=True)),
        (
            {"ssh_common_args": "-o A=1 -J 'jump host'", "ssh_extra_args": "-4"},
            {},
            Ssh("hv1", arguments=("-o", "A=1", "-J", "jump host", "-4"), become=True),
        ),
        (
            {"host_key_checking": False},
            {},
            Ssh("hv1", arguments=("-o", "StrictHostKeyChecking=no"), become=True),
        ),
        ({"host_key_checking": "yes"}, {}, Ssh("hv1", become=True)),
        ({"ssh_executable": "/opt/ssh"}, {}, Ssh("hv1", become=True, executable="/opt/ssh")),
        (
            {"remote_user": "root"},
            {"ansible_python_interpreter": "/opt/python"},
            Ssh("hv1", "root", python="/opt/python"),
        ),
        ({"remote_user": "root"}, {"ansible_python_interpreter": "auto"}, Ssh("hv1", "root")),
    ],
)
def test_from_options(
    options: dict[str, t.Any], variables: dict[str, t.Any], expected: Ssh
) -> None:
    assert _ssh.from_options({"host": "hv1", **options}, variables, 10.0) == expected


def test_settings_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables first, then the configuration (here the environment), then nothing."""
    monkeypatch.setenv("ANSIBLE_REMOTE_USER", "configured")
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "false")
    options = _ssh.ansible_options(
        {"inventory_hostname": "hv1", "ansible_host": "192.0.2.1", "ansible_port": 2222}
    )
    assert options["host"] == "192.0.2.1"
    assert options["port"] == 2222
    assert options["remote_user"] == "configured"
    assert options["host_key_checking"] is False
    options = _ssh.ansible_options({"inventory_hostname": "hv1", "ansible_user": "admin"})
    assert options["host"] == "hv1"
    assert options["remote_user"] == "admin"


def run_script(tmp_path: Path, ssh: Ssh, uri: str = "qemu:///system") -> list[str]:
    """The arguments that ssh is started with by the script."""
    told = tmp_path / "told"
    fake = tmp_path / "bin" / "ssh"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" > {told}\n")
    fake.chmod(0o700)
    path = tmp_path / "script"
    path.write_text(_ssh.script(ssh, uri))
    environment = {**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"}
    subprocess.run(["/bin/sh", str(path)], env=environment, check=True)
    return told.read_text().split("\0")[:-1]


def test_the_script_asks_nothing_and_ends(tmp_path: Path) -> None:
    ssh = Ssh("hv1", "admin", 2222, "/key", ("-J", "jump host"), timeout=7)
    arguments = run_script(tmp_path, ssh)
    joined = " ".join(arguments)
    for option in ("BatchMode=yes", "ConnectTimeout=7", "ServerAliveInterval=7"):
        assert f"-o {option}" in joined
    assert "-o ControlMaster=no -S none" in joined
    assert "ControlPath" not in joined  # Ansible would take it for its own connection's
    at = arguments.index("--")
    assert arguments[at + 1] == "hv1"
    assert arguments[arguments.index("-J") + 1] == "jump host"
    assert arguments[arguments.index("-l") + 1] == "admin"
    assert arguments[arguments.index("-p") + 1] == "2222"
    assert arguments[arguments.index("-i") + 1] == "/key"


@pytest.mark.parametrize(
    "name", ["-oProxyCommand=touch x", "; touch x", "$(touch x)", "`touch x`", "a'b\"c\nd"]
)
def test_names_are_arguments_and_nothing_else(tmp_path: Path, name: str) -> None:
    arguments = run_script(tmp_path, Ssh(name, user=name, key_file=name), f"qemu:///{name}")
    at = arguments.index("--")
    assert arguments[at + 1] == name
    assert arguments[arguments.index("-l") + 1] == name
    assert len(arguments) == at + 3
    assert not (tmp_path / "x").exists()
    # what the remote shell gets is one word for sh -c, whose own text is valid
    shell, flag, remote = shlex.split(arguments[at + 2])
    assert (shell, flag) == ("sh", "-c")
    assert subprocess.run(["sh", "-n", "-c", remote], check=False).returncode == 0


@pytest.mark.parametrize("become", [True, False])
def test_root_is_become_without_asking(tmp_path: Path, become: bool) -> None:
    remote = run_script(tmp_path, Ssh("hv1", become=become))[-1]
    assert ("sudo -n virt-ssh-helper" in remote) is become
    assert "virt-ssh-helper" in remote


def test_the_script_is_private(tmp_path: Path) -> None:
    uri = _ssh.write_script(Ssh("hv1"), "qemu:///system", tmp_path, 3)
    path = tmp_path / "hypervisor3"
    assert uri == f"qemu+ext:///system?command={path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


_HV1 = Ssh("hv1", become=True)
_ELSEWHERE = {"ansible_host": "192.0.2.1", "ansible_user": "root"}
_LOCAL = {"ansible_connection": "local"}
_SCRIPT = "qemu+ext:///system?command={}/hypervisor0"


@pytest.mark.parametrize(
    ("uri", "variables", "expected", "ssh", "local"),
    [
        ("qemu:///system", {}, _SCRIPT, _HV1, False),
        ("qemu:///system", {"ansible_connection": "ssh"}, _SCRIPT, _HV1, False),
        ("qemu+ssh:///system", {}, _SCRIPT, _HV1, False),
        ("qemu+ssh:///system?keyfile=/k", {}, _SCRIPT, _HV1, False),
        ("qemu:///system", _LOCAL, "qemu:///system", None, True),
        (
            "qemu:///system",
            {"ansible_connection": "ansible.builtin.local"},
            "qemu:///system",
            None,
            True,
        ),
        ("qemu+ssh:///system", _LOCAL, "qemu:///system", None, True),
        ("qemu+tls:///system", {}, "qemu+tls://hv1/system", _HV1, False),
        (
            "qemu+tls:///system?pkipath=/k",
            _ELSEWHERE,
            "qemu+tls://192.0.2.1/system?pkipath=/k",
            Ssh("192.0.2.1", "root"),
            False,
        ),
        (
            "qemu+tls:///system",
            {"ansible_host": "2001:db8::1"},
            "qemu+tls://[2001:db8::1]/system",
            Ssh("2001:db8::1", become=True),
            False,
        ),
        # a host's own goes first
        (
            "qemu:///system",
            {"virt_inventory_uri": "qemu+tls://hv1.example.org/system"},
            "qemu+tls://hv1.example.org/system",
            _HV1,
            False,
        ),
        (
            "qemu:///system",
            {"virt_inventory_uri": "qemu+tls:///system", **_ELSEWHERE},
            "qemu+tls://192.0.2.1/system",
            Ssh("192.0.2.1", "root"),
            False,
        ),
        (
            "qemu+tls:///system",
            {"virt_inventory_uri": "qemu:///session"},
            "qemu:///session",
            None,
            True,
        ),
        ("qemu:///system", {"virt_inventory_uri": "test:///x.xml"}, "test:///x.xml", None, False),
    ],
)
def test_reach(
    tmp_path: Path,
    uri: str,
    variables: dict[str, str],
    expected: str,
    ssh: Ssh | None,
    local: bool,
) -> None:
    found = _ssh.reach("hv1", variables, uri, 10, tmp_path, 0)
    assert found == _ssh.Reached(expected.format(tmp_path), ssh, local)
    assert _ssh.uri_for("hv1", variables, uri, 10, tmp_path, 0) == found.uri


@pytest.mark.parametrize(
    ("uri", "ssh", "local"),
    [
        ("test:///default", None, False),
        ("qemu:///system", None, True),
        ("qemu+unix:///system?socket=/run/x", None, True),
        ("qemu+tls://hv1/system", None, False),
        ("qemu+ssh://hv1/system", Ssh("hv1"), False),
        (
            "qemu+ssh://admin@hv1:2222/system?keyfile=/k%20y&no_verify=1",
            Ssh(
                "hv1",
                "admin",
                2222,
                "/k y",
                ("-o", "StrictHostKeyChecking=no"),
                become=True,
            ),
            False,
        ),
        (
            "qemu+libssh2://root@[2001:db8::1]/system?known_hosts=/f",
            Ssh("2001:db8::1", "root", arguments=("-o", "UserKnownHostsFile=/f")),
            False,
        ),
    ],
)
def test_from_uri(uri: str, ssh: Ssh | None, local: bool) -> None:
    assert _ssh.from_uri(uri, 10) == _ssh.Reached(uri, ssh, local)


def test_a_way_through(tmp_path: Path) -> None:
    """What ssh makes of the ProxyCommand is the hypervisor's own way, jump host and all."""
    ssh = Ssh("hv1%a", "ad min", 2222, "/k%d", ("-J", "jump", "-o", "ProxyCommand=nc %h %p"))
    told = tmp_path / "told"
    fake = tmp_path / "ssh"
    fake.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" > {told}\n")
    fake.chmod(0o700)
    text = _ssh.proxy_command(ssh)
    # as ssh does: percent_expand, then a shell
    expanded = re.sub("%(.)", lambda one: {"h": "192.168.122.5", "p": "22", "%": "%"}[one[1]], text)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["/bin/sh", "-c", f"exec {expanded}"], env=environment, check=True)
    arguments = told.read_text().split("\0")[:-1]
    assert arguments[-4:] == ["-W", "[192.168.122.5]:22", "--", "hv1%a"]
    assert arguments[arguments.index("-i") + 1] == "/k%d"
    assert arguments[arguments.index("-l") + 1] == "ad min"
    assert "ProxyCommand=nc %h %p" in arguments


@pytest.mark.parametrize("become", [True, False])
def test_python_is_run_there(become: bool) -> None:
    command = _ssh.python_command(Ssh("hv1", become=become, python="/opt/py thon"))
    sudo = "sudo -n " if become else ""
    assert command[-3:] == ["--", "hv1", f"{sudo}'/opt/py thon' -"]


def test_configured_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(**variables: str) -> list[str]:
        return [one for one in _ssh.configured_args(variables).all if one]

    (default,) = found()
    assert "ControlPersist" in default
    assert _ssh.configured_args({}).control_path_dir.endswith("/.ansible/cp")
    monkeypatch.setenv("ANSIBLE_SSH_ARGS", "-4")
    monkeypatch.setenv("ANSIBLE_SSH_COMMON_ARGS", "-J jump")
    assert found() == ["-4", "-J jump"]
    assert found(ansible_ssh_args="-6", ansible_ssh_common_args="-C") == ["-6", "-C"]
    given = {"ssh_common_args": "-a", "ssh_extra_args": "-k"}
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict(given))
    assert found() == ["-4", "-a", "-k"]
    assert found(ansible_ssh_common_args="-C") == ["-4", "-C", "-k"]


def test_no_connection_is_shared_though_a_host_asks_for_it(tmp_path: Path) -> None:
    words = ("-S", "/s", "-o", "ControlPath=/p", "-oControlPath=/q", "-o", "Port=3")
    ssh = Ssh("hv1", arguments=words)
    arguments = run_script(tmp_path, ssh)
    assert arguments.count("-S") == 1
    assert arguments[arguments.index("-S") + 1] == "none"
    assert "Port=3" in arguments
    assert not any("controlpath" in one.lower() for one in arguments)
    assert "controlpath" not in _ssh.proxy_command(ssh).lower()
