# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that a laboratory's hypervisor runs in a fork is given what Python would have given it.

Both hosts: the one Python is 3.11, the other 3.13.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .support.waiting import wait_for

_PYTHON = "/usr/bin/python3"
_SAYS = """
import sys
known = sorted({"libvirt", "lxml.etree", "ssl"} & set(sys.modules))
import json, os, signal
umask = os.umask(0)
print(json.dumps({
    "known": known, "argv": sys.argv, "path": sys.path, "name": __name__,
    "program": sys.executable, "folder": os.getcwd(), "umask": umask,
    "environment": {name: value for name, value in os.environ.items() if name != "_"},
    "open": len(os.listdir("/proc/self/fd")), "read": sys.stdin.read(),
    "ignored": [n for n in range(1, 32) if signal.getsignal(n) == signal.SIG_IGN],
}))
"""
# program: how it ends
_ENDINGS = {
    "nothing": "",
    "a number": "raise SystemExit(3)",
    "a text": "import sys; sys.exit('no such thing')",
    "an error": "def f():\n  raise ValueError('no')\nf()",
    "a wrong program": "if",
    "a signal": "import os; os.kill(os.getpid(), 9)",
    "at exit": "import atexit; atexit.register(print, 'done'); print('first', end=' ')",
    "a thread": "import threading; threading.Timer(0.1, lambda: print('late')).start()",
    "no memory of others": "import builtins; print(hasattr(builtins, 'x')); builtins.x = 1",
}


def _run(lab: Laboratory, host: str, program: str, text: str) -> subprocess.CompletedProcess[str]:
    command = f"cd /srv && umask 027 && trap '' HUP && GIVEN='a b' {program}"
    return lab.ssh(host, command, input=text, check=False)


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_it_is_given_the_same(lab: Laboratory, host: str) -> None:
    own = json.loads(_run(lab, host, _PYTHON, _SAYS).stdout)
    forked = json.loads(_run(lab, host, lab.host(host).python, _SAYS).stdout)
    assert own.pop("known") == []
    assert forked.pop("known") == ["libvirt", "lxml.etree", "ssl"]
    assert forked == own


@pytest.mark.parametrize("host", ["hv1", "hv2"])
@pytest.mark.parametrize("program", _ENDINGS)
def test_it_ends_the_same(lab: Laboratory, host: str, program: str) -> None:
    for _twice in range(2):
        own = _run(lab, host, _PYTHON, _ENDINGS[program])
        forked = _run(lab, host, lab.host(host).python, _ENDINGS[program])
        assert (forked.returncode, forked.stdout) == (own.returncode, own.stdout)
        assert forked.stderr == own.stderr


def test_words_and_users_get_a_python_of_their_own(lab: Laboratory) -> None:
    text = "import sys; print('libvirt' in sys.modules)"
    python = lab.host("hv2").python
    assert lab.ssh("hv2", [python, "-c", text]).stdout == "False\n"
    assert lab.ssh("hv2", python, input=text, user_root=False).stdout == "False\n"
    assert lab.ssh("hv2", python, input=text).stdout == "True\n"


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_a_program_of_the_tests_has_words(lab: Laboratory, host: str) -> None:
    text = "from __future__ import annotations\nimport sys\n"
    text += "print(sys.argv, __name__, 'libvirt' in sys.modules)"
    words = ["it's", '{"a": "\\n"}']
    assert lab.python(host, text, words).stdout == f"{['-', *words]} __main__ True\n"
    done = lab.python(host, "import sys; sys.exit(len(sys.argv))", check=False)
    assert done.returncode == 1


def test_neither_outlives_the_other(lab: Laboratory) -> None:
    """Who asked is killed, as a module is; and the server, which nobody else does."""
    python = lab.host("hv1").python
    text = "import os, time; print(os.getpid(), flush=True); time.sleep(300)"
    begin = (
        "cd /run; rm -f forked; cat >program\n"
        f"{python} <program >forked & until [ -s forked ]; do sleep 0.05; done"
    )
    killed = lab.ssh("hv1", f"{begin}; kill -9 $!; cat forked", input=text).stdout.strip()
    wait_for(lambda: not _lives(lab, killed), 10, f"process {killed} is gone")

    server = "systemctl show --property MainPID --value lab-preloaded"
    end = f"kill -9 $({server}); wait $!; echo $?; cat forked; rm forked program"
    status, left = lab.ssh("hv1", f"{begin}; {end}", input=text).stdout.split()
    assert status == "137"
    wait_for(lambda: not _lives(lab, left), 10, f"process {left} is gone")
    wait_for(lambda: _serves(lab, python), 20, "the server is back")


def _lives(lab: Laboratory, pid: str) -> bool:
    return lab.ssh("hv1", f"kill -0 {pid}", check=False).returncode == 0


def _serves(lab: Laboratory, python: str) -> bool:
    text = "import sys; print('libvirt' in sys.modules)"
    return lab.ssh("hv1", python, input=text).stdout == "True\n"
