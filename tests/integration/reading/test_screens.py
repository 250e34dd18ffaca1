# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of what guests show, files of the controller and one page; what they said."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import png
from ansible_collections.fleet.virt.tests.integration.reading.conftest import Fleet
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run


@pytest.fixture(scope="module", autouse=True)
def _db1(fleet: Fleet) -> Iterator[None]:
    """One whose screen does not change: no cursor blinks."""
    fleet.guests.define("hv2", "db1", paused=True, devices="<video><model type='vga'/></video>")
    yield
    fleet.guests.remove("hv2", "db1")


def _changed(run: Run) -> set[str]:
    results = run.of("Take the screenshots on every hypervisor")
    return {host for host, result in results.items() if result["changed"]}


def test_all_that_run(ansible: Ansible, fleet: Fleet, tmp_path: Path) -> None:
    """What is off is not there, what has no screen is named."""
    assert fleet.guests.made
    folder = tmp_path / "screens"
    given = {"virt_screenshots": str(folder)}
    check = ansible.playbook("screenshot", given, check=True).succeeded()
    assert _changed(check) == {"hv1", "hv2"}
    assert not folder.exists()
    run = ansible.playbook("screenshot", given).succeeded()
    assert _changed(run) == {"hv1", "hv2"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    found = {str(one.relative_to(folder)) for one in folder.rglob("*.png")}
    assert found == {"hv1/web1.png", "hv2/db1.png"}
    assert "paused1 on hv1: it has no screen, only its serial console" in run.stdout
    assert "off1" not in run.stdout
    for name in found:
        picture = png.checked((folder / name).read_bytes())
        assert picture.width >= 640
        assert picture.height >= 400
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        assert f'src="{name}"' in (folder / "index.html").read_text(encoding="utf-8")
        assert name in run.stdout
    assert "content" not in str(run.of("Take the screenshots on every hypervisor"))


def test_one_that_does_not_change(ansible: Ansible, fleet: Fleet, tmp_path: Path) -> None:
    assert fleet.guests.made
    given = {"virt_screenshots": str(tmp_path), "vm_name": "db1"}
    assert _changed(ansible.playbook("screenshot", given).succeeded()) == {"hv2"}
    for check in (False, True):
        assert _changed(ansible.playbook("screenshot", given, check=check).succeeded()) == set()


def test_what_cannot_be_seen_is_a_failure(ansible: Ansible, fleet: Fleet, tmp_path: Path) -> None:
    assert fleet.guests.made
    given = {"virt_screenshots": str(tmp_path), "virt_names": "off1,db1,web2,nobody"}
    run = ansible.playbook("screenshot", given)
    assert run.returncode == 2
    said = " ".join(run.stdout.split())
    assert "off1 on hv1: it is shutoff, so it has no screen output; start it first" in said
    assert "web2 on hv2: it has no screen, only its serial console" in said
    assert "on no hypervisor that answered: nobody" in said
    assert (tmp_path / "hv2" / "db1.png").exists()


def test_what_guests_said(ansible: Ansible, fleet: Fleet) -> None:
    """The laboratory's guests have logs of their consoles; those in a session of virsh have not."""
    assert fleet.guests.made
    given = {"virt_names": "web1,web2", "virt_console_lines": 5}
    run = ansible.playbook("console_log", given).succeeded()
    shown = run.of("Show the console output")["hv1"]["output"]
    for name, host in (("web1", "hv1"), ("web2", "hv2")):
        _head, _found, said = shown.partition(f"{name} on {host}:\n")
        lines = [line for line in said.splitlines() if line.startswith("  ")]
        assert 0 < len(lines) <= 10
    assert "\x1b" not in shown
    guests = fleet.guests
    said = "for n in $(seq 40); do echo followed-$n-end; sleep 1; done > /dev/ttyS0 2>&1 &"
    guests.wait_agent("hv1", "web1")
    guests.execute("hv1", "web1", said)
    run = ansible.playbook("console_log", {**given, "virt_console_follow": 10}).succeeded()
    during, _task, _after = run.stdout.partition("TASK [Show the console output]")
    lines = re.findall(r"^web1 \| followed-(\d+)-end$", during, re.M)
    assert len(lines) == len(set(lines)) >= 3, str(run)
    run = ansible.playbook("console_log", {"virt_names": "web1,nobody"})
    assert run.returncode == 2
    assert "on no hypervisor that answered: nobody" in " ".join(run.stdout.split())
    assert "web1 on hv1:" in run.stdout
    for wrong in ({"vm_name": "web1", "virt_console_lines": 0}, {}):
        run = ansible.playbook("console_log", wrong)
        assert run.returncode == 2
        assert "not a number of lines" in run.stdout or "no VM is named" in run.stdout
