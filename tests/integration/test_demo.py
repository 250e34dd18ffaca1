# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demonstration does what it says, and what it suggests works when pasted into a shell.

With FLEET_VIRT_TRIALS its Debian is rebooted too, which takes minutes where there is no KVM.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests import release, release_demo
from ansible_collections.fleet.virt.tests.contract import _tools, _versions
from ansible_collections.fleet.virt.tests.lab import cleanup, images_kernel

_NAME = f"d{os.getpid()}"
_REBOOT = bool(int(os.environ.get("FLEET_VIRT_TRIALS", "0")))

# What each suggestion must print, by how it begins ({lab}: the laboratory's program)
_EXPECTED = (
    (
        "ansible-playbook fleet.virt.query -e virt_names=web1",
        [r"web1\n +CPU: 1", r"vnc - \S+:5900"],
    ),
    ("ansible-playbook fleet.virt.list -e virt_output=json", [r'"name": "spare1"']),
    ("ansible hypervisors -b -m fleet.virt.virt_query", [r"hv1 \| SUCCESS", r'"name": "db1"']),
    (
        "ansible-inventory --graph",
        [r"@hypervisor_hv2:\n(.*\n)*.*--db1", r"@shutoff:\n(.*\n)*.*--spare1"],
    ),
    ("ansible-inventory --host web1", [r'"ansible_host": "198\.(18|19)\.\d+\.\d+"']),
    ("{lab} ssh hv1", [r"web1 +running"]),
    ("{lab} kill hv2", [r"hv2: power cut"]),
    # while hv2 is dead
    ("ansible-playbook fleet.virt.list", [r"web1 +running", r"hv2"]),
    ("{lab} start hv2", [r"hv2: answers"]),
)


# The demonstration's guests have the kernel that they have for its users, Debian's
_OF_TESTS = ("ANSIBLE_", images_kernel.VARIABLE)


def _run(command: list[str], limit: float = 300, cwd: Path | str = "/") -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={key: value for key, value in os.environ.items() if not key.startswith(_OF_TESTS)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def shown(checkout: Path) -> Iterator[tuple[str, float]]:
    """What the demonstration prints, and the seconds it takes."""
    program = [str(checkout / "tests" / "demo"), "--name", _NAME]
    started = time.monotonic()
    try:
        text = _run([*program, "--owner", str(os.getpid()), "up"], limit=1200)
        yield text, time.monotonic() - started
    finally:
        _run([*program, "down"])


def _suggested(text: str) -> list[str]:
    _, found, rest = text.partition("\nTry next.")
    assert found
    return re.findall(r"^ {4}(\S.*)$", rest, re.MULTILINE)


def test_it_shows_hypervisors_and_guests(shown: tuple[str, float]) -> None:
    text, seconds = shown
    steps = [int(number) for number in re.findall(r"^== (\d+)\. \S", text, re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1))
    for pattern in (
        r"\$ ansible-playbook fleet\.virt\.host_info",
        r"hv1 +ready",
        r"hv2 +ready",
        r"\$ ansible-playbook fleet\.virt\.list",
        r"hv1 +web1 +running",
        r"hv2 +spare1 +shutoff",
        r"\$ ansible-playbook fleet\.virt\.query",
        r"Graphics: vnc - \S+:5900",
        r"Addresses: 198\.",
        r"debian1 +hv[12] +chosen",
        r"debian1 +hv[12] +198\.\S+ +created",
        r"debian1 \| SUCCESS",
    ):
        assert re.search(pattern, text), f"{pattern}\n{text}"
    # under 2 minutes on two idle cores, mostly Debian's boot without KVM; only gross slowness is
    # caught on a machine that does other things too
    assert seconds < 900


def _shape(text: str) -> list[str]:
    """Lines without what differs from run to run: numbers, addresses, width of columns, and of what
    the chosen hypervisor has more than the other, which is equal but for what else it does."""
    text = re.sub(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", "MAC", text)
    text = re.sub(r"(?<=[\s:(])[\d.]+(?=[MGT]?\b)", "N", text)
    text = re.sub(r"(?<= most free )[\w ]+(?=: N % after it)", "RESOURCE", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]


def test_guide_shows_what_it_prints(shown: tuple[str, float], checkout: Path) -> None:
    guide = (checkout / "docs/docsite/rst/laboratory.rst").read_text(encoding="utf-8")
    (shown_block,) = re.findall(
        r"^\.\. code-block:: console\n\n((?:    .*\n|\n)+)", guide, re.MULTILINE
    )
    block = textwrap.dedent(shown_block)
    printed = _shape(shown[0])
    lines = [line for line in _shape(block) if not line.startswith("$")]
    assert len(lines) > 15
    assert [line for line in lines if line not in printed] == []
    commands = re.findall(r"^\$ (ansible-playbook \S+)", block, re.MULTILINE)
    shown_commands = [line for line in printed if line.startswith("$ ")]
    for command in commands:
        assert any(line.startswith(f"$ {command}") for line in shown_commands), command


def test_its_debian_is_known_by_the_key_that_its_seed_gave_it(
    shown: tuple[str, float], checkout: Path
) -> None:
    activate, *_ = _suggested(shown[0])
    lab = f"{checkout}/tests/lab/lab --name {_NAME}"

    def shell(command: str, limit: float = 300) -> str:
        return _run(["/bin/sh", "-c", f"{activate}\n{command}"], limit=limit)

    found = json.loads(shell("ansible-inventory --host debian1"))
    key = " ".join(found["virt_metadata"]["host_key"].split()[:2])
    options = found["ansible_ssh_args"]
    assert "StrictHostKeyChecking=yes" in shlex.split(options)
    assert "accept-new" not in json.dumps(found)
    assert found["ansible_user"] == "ansible"

    def who() -> list[str]:
        files = "/etc/hostname /etc/ssh/ssh_host_ed25519_key.pub /etc/machine-id"
        # cloud-init ends the file of the key without a line's end
        command = f"for file in {files}; do echo $(cat $file); done"
        said = shell(f"ansible debian1 -b -m ansible.builtin.shell -a {shlex.quote(command)}")
        return said.partition(">>\n")[2].splitlines()

    hostname, public, machine_id = who()
    assert hostname == "debian1"
    assert public.startswith(key)
    assert re.fullmatch("[0-9a-f]{32}", machine_id)
    stranger = options.replace(key.split()[1], "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8Q")
    words = json.dumps({"ansible_ssh_args": f"-o ControlPath=none {stranger}"})
    refused = shell(f"! ansible debian1 -m ansible.builtin.ping -e {shlex.quote(words)}")
    assert "UNREACHABLE" in refused
    assert "Host key verification failed" in refused
    # what held the private key is gone: the file, and from the drive
    place = found["virt_hypervisor"]
    left = shell(f"{lab} ssh {place} 'ls /var/lib/libvirt/images; virsh domblklist debian1'")
    assert "debian1_system.qcow2" in left
    assert "seed" not in left
    if _REBOOT:
        shell("ansible debian1 -b -m ansible.builtin.command -a 'cloud-init status --wait'", 900)
        shell("ansible debian1 -b -m ansible.builtin.reboot -a reboot_timeout=900", 1000)
        assert who() == [hostname, public, machine_id]
        again = json.loads(shell("ansible-inventory --host debian1"))
        assert again["ansible_host"] == found["ansible_host"]


def test_its_cas_are_not_among_the_users_own(shown: tuple[str, float], tmp_path: Path) -> None:
    """A real fleet would take them for its own, and the demonstration's end would leave them."""
    activate, *_ = _suggested(shown[0])
    command = "ansible-playbook fleet.virt.renew_keys"
    _run(["/bin/sh", "-c", f"{activate}\nexport XDG_DATA_HOME={tmp_path}\n{command}"])
    assert list(tmp_path.iterdir()) == []
    folder = dict(cleanup.registered())[_NAME]
    assert (folder / "keys" / "control" / "state.json").exists()


def test_what_it_suggests_works(shown: tuple[str, float], checkout: Path) -> None:
    activate, *commands, _down = _suggested(shown[0])
    lab = f"{checkout}/tests/lab/lab --name {_NAME}"
    assert len(commands) == len(_EXPECTED)
    for command, (beginning, patterns) in zip(commands, _EXPECTED):
        assert command.startswith(beginning.format(lab=lab))
        printed = _run(["/bin/sh", "-c", f"{activate}\n{command}"])
        for pattern in patterns:
            assert re.search(pattern, printed), f"{command}\n{pattern}\n{printed}"


def test_release_does_its_steps_with_the_newest_ansible(
    shown: tuple[str, float], checkout: Path, tmp_path: Path
) -> None:
    """What is installed from the file that is released; ``make release-demo`` begins from nothing,
    and with every version."""
    assert shown
    programs = _tools.virtual_environment("lint")
    project = _tools.copy_project(tmp_path)
    release.prepare(project, "1.0.0-rc1", programs)
    artifact = release.build(project, tmp_path, programs)
    newest = release_demo.controller(_versions.VERSIONS[-1], artifact, tmp_path / "controller")
    places = ["--programs", str(newest.programs), "--collections", str(newest.collections)]
    again = _run([str(checkout / "tests" / "demo"), "--name", _NAME, *places, "up"], limit=600)
    assert re.search(r"debian1 +hv[12] +198\.\S+ +unchanged", again)
    assert "web1 is on hv1 already" in again
    activate = dict(cleanup.registered())[_NAME] / "demo.sh"
    said = _run(
        ["/bin/sh", "-c", f". {activate}; ansible --version; ansible-galaxy collection list"]
    )
    assert f"core {_versions.VERSIONS[-1].core}" in said
    assert re.search(r"^fleet\.virt +1\.0\.0-rc1", said, re.MULTILINE)


def test_its_end_leaves_nothing(shown: tuple[str, float]) -> None:
    *_, down = _suggested(shown[0])
    folder = dict(cleanup.registered())[_NAME]
    _run(["/bin/sh", "-c", down])
    assert _NAME not in dict(cleanup.registered())
    assert not folder.exists(), "with it go the demonstration's CAs"


def test_its_name_is_the_default(checkout: Path) -> None:
    text = _run([str(checkout / "tests" / "demo"), "--help"])
    assert "default: demo" in text
