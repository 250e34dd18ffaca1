# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has a hypervisor try whether plan, check mode and run agree (``judgement.py``).

All trials are of one process there, which calls what the modules call: a run of Ansible for each of
them would take a hundred times as long.
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_CHECKOUT = Path(__file__).resolve().parents[3]
_HELPERS = "plugins/module_utils"
_FOLDER = "/var/tmp/fv-judgement"
_SECONDS = 5.0  # for one trial, on a machine that does much else


def _archive() -> bytes:
    """The program, and the collection's code for hypervisors, as Ansible lays it out."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as archive:
        for path in sorted((_CHECKOUT / _HELPERS).rglob("*.py")):
            below = path.relative_to(_CHECKOUT)
            archive.add(path, f"ansible_collections/fleet/virt/{below}")
        for path in sorted(Path(__file__).parent.glob("judgement*.py")):
            archive.add(path, path.name)
    return found.getvalue()


def judge(lab: Laboratory, host: str, seed: str, trials: int, *words: str) -> dict[str, int]:
    """Try ``trials`` pairs of ``seed`` on a hypervisor; how many came out how.

    :raises AssertionError: not all of them agreed.
    """
    unpack = f"rm -rf {_FOLDER}; mkdir -p {_FOLDER}; tar -C {_FOLDER} -xz"
    subprocess.run([*lab.login(host), "--", unpack], input=_archive(), check=True, timeout=60)
    command = ["python3", f"{_FOLDER}/judgement.py", seed, str(trials), *words]
    done = lab.ssh(host, command, timeout=300 + trials * _SECONDS)
    result = json.loads(done.stdout.splitlines()[-1])
    lab.ssh(host, f"rm -r {_FOLDER}")
    print(f"{host}: {trials} pairs of seed {seed}: {result['outcomes']}")
    assert result["problems"] == [], f"seed {seed}:\n{done.stderr}"
    return dict(result["outcomes"])
