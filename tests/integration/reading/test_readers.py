# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An account without rights reads over libvirt's read-only socket, and changes nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_GUIDE = Path(__file__).resolve().parents[3] / "docs/docsite/rst/several_administrators.rst"
# Of the guide, with what each prints
COMMANDS = {
    "virsh -r -c qemu:///system list --all": r"web1 +shut off",
    "virsh -r -c qemu:///system dumpxml web1": r"<name>web1</name>",
}
_OURS = "readable1"  # a web1 may be among the guests that tests share
_SCREEN = "<graphics type='vnc' listen='127.0.0.1' passwd='s3cretpw'/>"


@pytest.fixture
def reader(lab: Laboratory) -> Iterator[str]:
    """The account's name, on hv1."""
    lab.ssh("hv1", "useradd reader")
    yield "reader"
    lab.ssh("hv1", "userdel reader")


def test_reader_without_rights_reads_and_cannot_change(
    reader: str, guests: Guests, lab: Laboratory
) -> None:
    guests.define("hv1", _OURS, blank=True, devices=_SCREEN)

    def run(command: str) -> subprocess.CompletedProcess[str]:
        alone = f"setpriv --reuid {reader} --regid {reader} --clear-groups"
        return lab.ssh("hv1", f"{alone} {command}", check=False)

    shown = re.findall(r"^    (virsh .*)$", _GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown == list(COMMANDS)
    for command, pattern in COMMANDS.items():
        done = run(command.replace("web1", _OURS))
        assert done.returncode == 0, done.stderr
        assert re.search(pattern.replace("web1", _OURS), done.stdout)
        assert "s3cretpw" not in done.stdout
    for change in ("start", "undefine", "dumpxml --security-info"):
        refused = run(f"virsh -r -c qemu:///system {change} {_OURS}")
        assert refused.returncode != 0
        assert re.search("read only access|with secure flag", refused.stderr)
    assert run("virsh -c qemu:///system list").returncode != 0
