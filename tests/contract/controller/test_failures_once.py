# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A failure is on the screen once, as text, and the recap names the hypervisors where it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import _tools

_DOCUMENT = """\
<node><domain type='test'>
  <name>{name}</name><memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type>hvm</type></os>
</domain></node>
"""
_REFUSED = "has no writable disk; there is nothing to snapshot"


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    """An inventory of three hypervisors, vm1 on hv1 to vm3 on hv3."""
    entries = {}
    for number in (1, 2, 3):
        document = tmp_path / f"hv{number}.xml"
        document.write_text(_DOCUMENT.format(name=f"vm{number}"), encoding="utf-8")
        entries[f"hv{number}"] = {"virt_uri": f"test://{document}"}
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"hypervisors": {"hosts": entries, "vars": {**local, "virt_become": False}}}
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps(inventory), encoding="utf-8")
    return path


def _failed(text: str) -> dict[str, str]:
    """How many tasks failed on each hypervisor, as the recap says."""
    recap = text.split("PLAY RECAP")[1].splitlines()[1:]
    return {
        line.split()[0]: line.split("failed=")[1].split()[0] for line in recap if "failed=" in line
    }


def test_failed_share_is_shown_once_and_named_in_recap(
    hosts: Path, programs: _tools.Preloaded
) -> None:
    words = ("-i", str(hosts), "fleet.virt.snapshot", "-e", "virt_names=vm1,vm3")
    status, text = programs.ended("ansible-playbook", *words, "-e", "virt_snapshot=before")
    assert status == 2, text
    assert [text.count(f"'{name}' {_REFUSED}") for name in ("vm1", "vm2", "vm3")] == [1, 0, 1], text
    assert _failed(text) == {"hv1": "1", "hv2": "0", "hv3": "1"}
    assert '"output"' not in text
    assert "Origin:" not in text


def test_refused_request_is_shown_once(hosts: Path, programs: _tools.Preloaded) -> None:
    words = ("-i", str(hosts), "fleet.virt.state", "-e", "vm_name=nosuch", "-e", "vm_state=running")
    status, text = programs.ended("ansible-playbook", *words)
    assert status == 2, text
    assert text.count("nosuch") == 1, text
    assert "Origin:" not in text


def test_failure_goes_to_standard_error_with_the_callback_for_programs(hosts: Path) -> None:
    words = ("-i", str(hosts), "fleet.virt.query", "-e", "virt_names=nosuch")
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), *words],
        env={**os.environ, "ANSIBLE_STDOUT_CALLBACK": "fleet.virt.output"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "nosuch" not in done.stdout
    assert done.stderr.count("not found on any hypervisor: nosuch") == 1


def test_failure_beside_data_is_reported_only_at_end(
    hosts: Path, programs: _tools.Preloaded
) -> None:
    words = ("-i", str(hosts), "fleet.virt.list", "-e", "virt_output=json", "--limit", "hv1")
    status, text = programs.ended(
        "ansible-playbook", *words, "-e", "virt_hypervisors_lost=hv1,hv2,hv3"
    )
    assert status == 2, text
    shown, _recap = text.split("TASK [Fail if something failed]")
    assert json.loads(shown[shown.index("\n{\n") : shown.rindex("\n}\n") + 3])
    assert "no hypervisor answered" not in shown
    assert text.count("no hypervisor answered") == 1
