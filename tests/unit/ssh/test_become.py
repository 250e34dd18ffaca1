# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The password for sudo on its way: through input only, whatever sudo does with it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleError
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _become, _sent, _ssh

_PASSWORD = "s'ec \"ret$(id)\\n"  # noqa: S105 - of a program made here
# ssh runs the command here, and records the arguments and environment that others could see
_SSH = """\
#!/bin/sh
tr '\\0' '\\n' </proc/$$/cmdline >>{folder}/seen; env >>{folder}/seen
for last; do :; done
exec sh -c "$last"
"""
# As sudo -S: it reads a password from its input unless the rule or its memory saves that
_SUDO = """\
#!/bin/sh
tr '\\0' '\\n' </proc/$$/cmdline >>{folder}/seen; env >>{folder}/seen
ask() {{
  for try in 1 2 3; do
    echo >>{folder}/tries
    IFS= read -r line || {{ echo "sudo: no password was provided" >&2; exit 1; }}
    [ "$line" = "$(cat {folder}/right)" ] && return
  done
  echo "sudo: 3 incorrect password attempts" >&2; exit 1
}}
shift 3
case {mode} in
  asked*) ask ;;
  remembered) [ "$1" != -v ] || ask ;;
esac
[ "$1" = -v ] || exec "$@"
"""


class Far:
    """A hypervisor whose ssh and sudo are programs here."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        (folder / "right").write_text(_PASSWORD)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def ssh(self, mode: str, password: str = _PASSWORD) -> _ssh.Ssh:
        for name, text in (("ssh", _SSH), ("sudo", _SUDO)):
            program = self.folder / name
            program.write_text(text.format(folder=self.folder, mode=mode))
            program.chmod(0o755)
        return _ssh.Ssh("hv1", become=True, password=password, python=sys.executable)

    def seen(self) -> str:
        return (self.folder / "seen").read_text()

    def tries(self) -> int:
        file = self.folder / "tries"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Far:
    return Far(tmp_path, monkeypatch)


def _run(command: t.Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=False, input=text, capture_output=True, text=True, timeout=30
    )


@pytest.mark.parametrize(("mode", "tries"), [("asked", 2), ("remembered", 1), ("unasked", 0)])
def test_password_is_read_by_sudo_only(far: Far, mode: str, tries: int) -> None:
    """What sudo leaves of it is no input of the program, which gets all of its own."""
    ssh = far.ssh(mode)
    program = "import sys\nprint('runs', sys.stdin.read())"
    for command, text in (
        (_ssh.python_command(ssh), "print('runs ')"),
        (_ssh.program_command(ssh), f"{len(program)}\n{program}"),
        (_sent.command(_ssh.Reached("", ssh)), f"{len(program)}\n{program}"),
    ):
        assert command is not None
        done = _run(command, text)
        assert (done.returncode, done.stdout, done.stderr) == (0, "runs \n", ""), done
    assert far.tries() == 3 * tries
    assert _PASSWORD not in far.seen()
    assert not [word for word in command if _PASSWORD in word]


@pytest.mark.parametrize("mode", ["asked", "remembered", "unasked"])
def test_password_precedes_what_libvirt_sends(far: Far, mode: str) -> None:
    """The script of libvirt's transport: bytes as they are, and its own text has no password."""
    helper = far.folder / "virt-ssh-helper"
    helper.write_text("#!/bin/sh\nprintf '%s:' \"$1\"\nexec cat\n")
    helper.chmod(0o755)
    text = _ssh.script(far.ssh(mode), "qemu:///system")
    assert _PASSWORD not in text
    script = far.folder / "script"
    script.write_text(text)
    data = bytes(range(256)) * 64  # what a socket takes, as cat does not wait for it
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)  # as libvirt's
    received = bytearray()
    with subprocess.Popen(["sh", script], stdin=theirs, stdout=theirs) as process, ours:
        theirs.close()
        ours.settimeout(60)
        try:
            while len(received) < len("qemu:///system:"):
                received += ours.recv(4096)
            ours.sendall(data)
            ours.shutdown(socket.SHUT_WR)
            while piece := ours.recv(1 << 16):
                received += piece
        except TimeoutError:
            process.kill()
            raise
    assert (process.returncode, bytes(received)) == (0, b"qemu:///system:" + data)
    assert _PASSWORD not in far.seen()


def test_password_that_is_wrong_is_tried_once(far: Far) -> None:
    """An account is not locked by it, the program does not start, and the remedy is named."""
    done = _run(_ssh.python_command(far.ssh("asked", "wrong")), "print('runs')")
    assert (done.returncode, done.stdout) == (1, "")
    assert far.tries() == 2  # the second one finds the input at its end
    assert _become.remedy(done.stderr, "hv1").startswith("; sudo on hv1 asks for a password: set")


def test_password_with_line_break_is_refused(far: Far) -> None:
    with pytest.raises(FleetVirtError, match="line break"):
        _ssh.python_command(far.ssh("asked", "a\nb"))


def test_login_without_sudo_has_no_password() -> None:
    ssh = _ssh.Ssh("hv1", "root", become=False, password=_PASSWORD)
    assert _ssh.python_command(ssh)[-1] == "python3 -"
    assert "password" not in repr(ssh)
    assert _PASSWORD not in repr(ssh)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"ansible_become_password": ""}, None),
        ({"ansible_become_password": None}, None),
        ({"ansible_become_password": "a"}, "a"),
        ({"ansible_become_password": 1234}, "1234"),
        ({"ansible_sudo_pass": "c", "ansible_become_password": "a"}, "c"),
        ({"ansible_become_pass": "b", "ansible_become_password": "a"}, "b"),
    ],
)
def test_password_from_variables_as_ansible_reads_them(
    variables: dict[str, object], expected: str | None
) -> None:
    options = {"host": "hv1", "remote_user": "admin"}
    assert _ssh.from_options(options, variables, 10.0).password == expected


class _Lazy(dict[str, object]):
    """Variables of a host, which Ansible templates when they are read."""

    def __getitem__(self, key: str) -> object:
        if key == "ansible_become_password":
            raise AnsibleError("undefined")
        return super().__getitem__(key)


def test_password_that_cannot_be_templated_is_left_out() -> None:
    found = _ssh.connection_variables(
        _Lazy({"ansible_become_password": "{{ x }}", "ansible_user": "a"})
    )
    assert found == {"ansible_user": "a"}


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Cannot recv data: sudo: a password is required: Connection reset by peer", True),
        ("Cannot recv data: Sorry, try again.\nsudo: no password was provided", True),
        ("Cannot recv data: ssh: Connection refused", False),
    ],
)
def test_remedy_is_named_where_sudo_asks_for_a_password(reason: str, expected: bool) -> None:
    assert bool(_become.remedy(reason, "hv1")) is expected
