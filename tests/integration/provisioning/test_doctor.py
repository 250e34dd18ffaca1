# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a fleet is found at once, mended by the remedies as they are printed, gone.

What one machine cannot have, such as two clocks, is in ``tests/unit/doctor``. No guest is booted.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Fleet

_DOCTOR = "ansible-playbook fleet.virt.doctor"
# As the guide shows them, each with what it must print
COMMANDS = {
    f"{_DOCTOR} -e virt_output=json -e virt_output_file=findings.json": r"changed: \[hv1\]",
    _DOCTOR: r"0 error, \d+ warning, \d+ info",
    f"{_DOCTOR} -e virt_strict=true": r"\[versions_differ\]",  # libvirt 9.0 and 11.3
}
_LOOK, _AGAIN, _STRICT = COMMANDS
_FREE = "virt_min_free=32MiB"
_MAC = "52:54:00:d0:c7:01"
_UUID = "d0c70000-0000-4000-8000-00000000000{}"
_SMALL = "/srv/doctor"
_NIC = f"<interface type='bridge'><mac address='{_MAC}'/><source bridge='br0'/></interface>"
# A removal that was interrupted, and what somebody wrote that no version of ours reads
_HALF = "<fleet xmlns='urn:fleet.virt:1'><phase>purging</phase><request>{}</request></fleet>"
_BROKEN = _HALF.replace("{}", "Infinity").replace("purging", "changing")
_DEFINE = """
virsh -q define /dev/stdin <<END
<domain type='qemu'><name>doctor-{name}</name>{uuid}<memory unit='MiB'>64</memory>
 <metadata>{metadata}</metadata><os><type arch='x86_64' machine='q35'>hvm</type></os>
 <devices>{devices}</devices></domain>
END
"""
_FILL = f"""
mkdir -p {_SMALL} && mount -t tmpfs -o size=64M none {_SMALL}
virsh -q pool-define-as doctor dir --target {_SMALL} && virsh -q pool-start doctor
virsh -q vol-create-as doctor doctor-old.img 48M --format raw
"""
_FORGET = f"""
for name in $(virsh -q list --all --name | grep ^doctor-); do virsh -q undefine $name; done
virsh -q pool-destroy doctor 2>/dev/null; virsh -q pool-undefine doctor 2>/dev/null
umount {_SMALL} 2>/dev/null; rmdir {_SMALL} 2>/dev/null; :
"""
# The id of each fault, a word of its message, and the hypervisor whose remedy is typed
FAULTS = [
    ("name_twice", "'doctor-twin'", "hv2"),
    ("uuid_twice", "'doctor-copy'", "hv2"),
    ("mac_twice", _MAC, "hv2"),
    ("work_unfinished", "'doctor-half'", "hv1"),
    ("metadata_unusable", "'doctor-bad'", "hv2"),
    ("volume_unused", f"{_SMALL}/doctor-old.img", "hv1"),
    ("pool_low", "pool doctor", ""),  # it was the unused volume
]


def _domain(name: str, number: int = 0, metadata: str = "", devices: str = "") -> str:
    uuid = f"<uuid>{_UUID.format(number)}</uuid>" if number else ""
    return _DEFINE.format(name=name, uuid=uuid, metadata=metadata, devices=devices)


@pytest.fixture
def ill(fleet: Fleet) -> Iterator[Fleet]:
    """A fleet with all of these faults."""
    made = {
        "hv1": [
            _domain("twin", devices=_NIC),
            _domain("orig", 1),
            _domain("half", metadata=_HALF),
            _FILL,
        ],
        "hv2": [
            _domain("twin"),
            _domain("copy", 1),
            _domain("mac", devices=_NIC),
            _domain("bad", metadata=_BROKEN),
        ],
    }
    try:
        for host, scripts in made.items():
            fleet.lab.ssh(host, "/bin/sh -e", input="".join(scripts))
        yield fleet
    finally:
        for host in made:
            fleet.lab.ssh(host, "/bin/sh", input=_FORGET, check=False)


def _matching(findings: list[dict[str, Any]], kind: str, word: str) -> list[dict[str, Any]]:
    return [one for one in findings if one["id"] == kind and word in one["message"]]


def _type(fleet: Fleet, remedy: str) -> None:
    """Type the commands of a remedy, without what is said before them."""
    typed = re.search(r"\bansible(-playbook)? .*", remedy)
    assert typed is not None, remedy
    for part in typed[0].split(" && "):
        program, *words = shlex.split(part)
        fleet.ansible.run(program, words).succeeded()


def test_faults_are_reported_mended_by_their_remedies_and_gone(ill: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "findings.json"
    program, *words = shlex.split(_LOOK.replace("findings.json", str(file)))
    run = ill.ansible.run(program, [*words, "-e", _FREE])
    assert run.returncode == 2, str(run)
    assert re.search(COMMANDS[_LOOK], run.stdout), str(run)
    told = json.loads(file.read_text(encoding="utf-8"))
    assert told["not_looked_at"] == []
    assert "name_twice: " in run.stdout, "what fails the run is said"

    for kind, word, host in FAULTS:
        named = _matching(told["findings"], kind, word)
        assert len(named) == 1, (kind, told["findings"])
        if host:
            assert host in named[0]["hosts"]
            _type(ill, named[0]["remedy"])

    program, *words = shlex.split(_AGAIN)
    again = ill.ansible.run(program, [*words, "-e", _FREE]).succeeded()
    assert re.search(COMMANDS[_AGAIN], again.stdout), str(again)
    left = [f"[{kind}]" for kind, _word, _host in FAULTS if f"[{kind}]" in again.stdout]
    assert left == [], str(again)

    program, *words = shlex.split(_STRICT)
    strict = ill.ansible.run(program, [*words, "-e", _FREE])
    assert strict.returncode == 2, str(strict)
    assert re.search(COMMANDS[_STRICT], strict.stdout), str(strict)
