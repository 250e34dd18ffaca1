# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible in a fork of a server is to its starter what a process of its own is."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.killing import kill_tree
from ansible_collections.fleet.virt.tests.integration.support.preloaded import Servers
from ansible_collections.fleet.virt.tests.integration.support.process import Forked, Process
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

_GOES_ON = ("localhost", "-m", "ansible.builtin.pause", "-a", "seconds=60")
_WAYS = ("of its own", "forked")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ansible]]:
    """Ansible by how its programs are run."""
    servers = Servers()
    home = tmp_path_factory.mktemp("ansible")
    forking = Ansible("localhost,", home, servers)
    for _turn in range(2):  # the third in an environment is the first that is forked
        assert not servers.serving("ansible", forking.environment())
    yield {"of its own": Ansible("localhost,", home), "forked": forking}
    servers.close()


def _given(process: Process) -> dict[str, Any]:
    """What a command that goes on has from its starter, as the system knows it."""
    proc = Path(f"/proc/{process.pid}")
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
    signals = {name: status[name] for name in ("SigBlk", "SigIgn", "SigCgt")}
    files = {
        number: re.split("[:#]", os.path.basename((proc / "fd" / number).readlink()))[0]
        for number in os.listdir(proc / "fd")
    }
    leads = os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
    return {**signals, "files": files, "folder": (proc / "cwd").readlink(), "leads": leads}


def test_it_ends_the_same(both: dict[str, Ansible]) -> None:
    said = {}
    for way in _WAYS:
        ends = []
        for module, args in (("debug", "msg=wörd"), ("fail", ""), ("debug", "no")):
            words = ("localhost", "-m", f"ansible.builtin.{module}", "-a", args)
            with both[way].begin("ansible", *words, heard=True) as process:
                assert isinstance(process, Forked) is (way == "forked")
                text = process.communicate(timeout=60)[0]
            ends.append((process.returncode, process.poll(), text))
        said[way] = ends
        unheard = both[way].begin("ansible", *words)
        assert unheard.communicate(timeout=60) == (None, None)
        assert unheard.returncode == ends[-1][0] != 0
    assert said["forked"] == said["of its own"]
    assert [status for status, _again, _text in said["forked"]][:2] == [0, 2]
    assert "wörd" in said["forked"][0][2]


def test_it_goes_on_the_same(both: dict[str, Ansible]) -> None:
    given = {}
    for way in _WAYS:
        process = both[way].begin("ansible", *_GOES_ON, heard=True)
        try:
            assert process.stdout is not None
            assert "Pausing" in process.stdout.readline()
            given[way] = _given(process)
            assert process.poll() is None
            for wait in (process.wait, process.communicate):
                with pytest.raises(subprocess.TimeoutExpired):
                    wait(timeout=0.1)
            # SIGINT it may miss at this moment, in either way
            os.killpg(process.pid, signal.SIGTERM)
            assert process.communicate(timeout=30)[0] == ""
        finally:
            kill_tree(process.pid)
        assert process.returncode == -signal.SIGTERM
    assert given["forked"] == given["of its own"]
    assert given["forked"]["leads"]


@pytest.mark.parametrize("way", _WAYS)
def test_it_is_killed_the_same(both: dict[str, Ansible], way: str) -> None:
    process = both[way].begin("ansible", *_GOES_ON)
    process.send_signal(signal.SIGKILL)
    status = Path(f"/proc/{process.pid}/status")
    wait_for(lambda: "zombie" in status.read_text(), 10, "its end")
    os.killpg(process.pid, signal.SIGKILL)  # its number is still its own
    assert process.wait(timeout=10) == process.poll() == process.returncode == -signal.SIGKILL
    assert not status.exists()
    process.send_signal(signal.SIGKILL)


def test_it_outlives_its_server(tmp_path: Path) -> None:
    """With the folder in which modules are packed, which is of all of the server's commands."""
    servers = Servers()
    ansible = Ansible("localhost,", tmp_path, servers)
    for _turn in range(2):
        servers.serving("ansible", ansible.environment())
    with ansible.begin("ansible", *_GOES_ON, heard=True) as process:
        assert process.stdout is not None
        assert "Pausing" in process.stdout.readline()
        servers.close()
        assert process.poll() is None
        assert list((tmp_path / "tmp").glob("ansible-local-*"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == -signal.SIGTERM
