# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the picture of README.md: a VM is created, moved, its next move is killed, and repaired.

    .venv/bin/python -m tests.recording

runs the commands that the picture shows, in a laboratory of its own that is gone afterwards, and
writes docs/recording.svg. What programs print is shown as they print it; pauses are shortened.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab import images
from tests.lab.errors import LabError
from tests.lab.laboratory import Laboratory
from tests.screencast import Line, svg

CHECKOUT = Path(__file__).resolve().parents[1]
PICTURE = CHECKOUT / "docs" / "recording.svg"
_PROGRAMS = CHECKOUT / ".venv" / "bin"
_CONFIGURATION = """\
[defaults]
collections_path = {collections}
inventory = {inventory}
forks = 50
host_key_checking = true
localhost_warning = false
stdout_callback = fleet.virt.output
[ssh_connection]
pipelining = true
"""
_VARIABLES = """\
---
virt_image_dir: {folder}/images
virt_ssh_public_key: {key}.pub
libvirt_keys_dir: {folder}/keys
virt_wait_timeout: 600
"""
_IMAGE = "tiny.qcow2"
# The VM's metadata say which process moves it
_MOVER = "virsh -q dumpxml --inactive web1 | grep ':owner ' | grep -o ' pid=.[0-9]*' | tr -dc 0-9"
_COPIES = "virsh -q domjobinfo web1 | grep -E '^(File|Memory|Data) processed: +[1-9]'"


@dataclass
class Recorder:
    """Runs commands in a laboratory, and keeps what they print with the moment of each line."""

    lab: Laboratory
    lines: list[Line]

    def prepare(self) -> None:
        """Configuration and images as an administrator has them, and hypervisors with keys."""
        folder = self.lab.directory
        collections = CHECKOUT / ".venv" / "collections"
        text = _CONFIGURATION.format(collections=collections, inventory=self.lab.inventory)
        (folder / "ansible.cfg").write_text(text, encoding="utf-8")
        (folder / "images").mkdir(exist_ok=True)
        image = folder / "images" / _IMAGE
        image.unlink(missing_ok=True)
        image.symlink_to(images.image("tiny", progress=self.lab.progress))
        variables = self.lab.inventory / "group_vars" / "all.yml"
        variables.parent.mkdir(exist_ok=True)
        variables.write_text(_VARIABLES.format(folder=folder, key=self.lab.key), encoding="utf-8")
        self.ansible("ansible-playbook", "fleet.virt.setup_hypervisors").wait()

    def ansible(self, *words: str) -> subprocess.Popen[str]:
        """Begin a command in the administrator's environment."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
        clean["ANSIBLE_CONFIG"] = str(self.lab.directory / "ansible.cfg")
        return subprocess.Popen(
            [str(_PROGRAMS / words[0]), *words[1:]],
            env={**clean, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "true", "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def say(self, kind: str, text: str) -> None:
        """A line of the picture, which is shown here as well."""
        print(text, flush=True)
        self.lines.append(Line(time.monotonic(), kind, text))

    def show(self, command: str, *, fails: bool = False, meanwhile: bool = False) -> None:
        """Run a command that is shown.

        ``meanwhile``: its module on hv2 is killed while it copies.

        :raises LabError: it ended otherwise than expected.
        """
        self.say("command", command)
        process = self.ansible(*shlex.split(command))
        assert process.stdout is not None
        killer = threading.Thread(target=self._kill) if meanwhile else None
        if killer:
            killer.start()
        for text in process.stdout:
            self.say("output", text.rstrip())
        if killer:
            killer.join()
        if (process.wait() != 0) != fails:
            raise LabError(f"{command}: exit status {process.returncode}")
        self.say("output", "")

    def _kill(self) -> None:
        """What a power cut does to a module, once something was copied."""
        deadline = time.monotonic() + 120
        while self.lab.ssh("hv2", _COPIES, check=False).returncode:
            if time.monotonic() > deadline:
                raise LabError("nothing was copied")
            time.sleep(0.2)
        command = f"kill -9 {self.lab.ssh('hv2', _MOVER).stdout.strip()}"
        self.say("comment", f"# meanwhile, on hv2: {command}")
        self.lab.ssh("hv2", command)


def record(lab: Laboratory) -> list[Line]:
    """The lines of the picture."""
    recorder = Recorder(lab, [])
    recorder.prepare()
    play = "ansible-playbook fleet.virt."
    recorder.show(f"{play}provision_vm -e vm_name=web1 -e vm_image={_IMAGE} -e vm_host=hv1")
    recorder.show(f"{play}migrate_vm -e vm_name=web1")
    recorder.show(
        f"{play}migrate_vm -e vm_name=web1 -e virt_bandwidth=1", fails=True, meanwhile=True
    )
    recorder.show(f"{play}list")
    recorder.show(f"{play}repair_vms")
    recorder.show(f"{play}list")
    return recorder.lines


def main(words: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tests.recording", description=__doc__)
    parser.add_argument("--name", default="recording", help="the laboratory")
    parser.add_argument("--keep", action="store_true", help="leave the laboratory up")
    options = parser.parse_args(words)
    lab = Laboratory(options.name, None if options.keep else os.getpid())
    lab.up(2)
    try:
        lines = record(lab)
    finally:
        if not options.keep:
            lab.down()
    seen = [Line(line.moment, line.kind, _anonymous(line.text)) for line in lines]
    PICTURE.write_text(svg(seen), encoding="utf-8")
    return 0


def _anonymous(text: str) -> str:
    """Without the folders of whoever records."""
    return re.sub(rf"{re.escape(str(CHECKOUT))}|{re.escape(str(Path.home()))}", "~", text)


if __name__ == "__main__":
    sys.exit(main())
