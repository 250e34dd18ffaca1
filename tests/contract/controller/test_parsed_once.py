# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A batch is read once in each process, of the controller's and of a hypervisor's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

_CHECKOUT = Path(__file__).resolve().parents[3]
_COUNTED = """

def many(*args: t.Any, _many: t.Any = many, **more: t.Any) -> t.Any:
    with open("{path}", "a") as file:
        file.write(f"{{__import__('os').getpid()}} {{__file__}}\\n")
    return _many(*args, **more)
"""
_VM = {"vm_name": "web1", "vm_memory": 64, "vm_seed": False, "vm_host": "hv1"}


@dataclass(frozen=True)
class Controller:
    """A copy of the collection that notes every reading of a batch, and one test hypervisor."""

    folder: Path

    def count(self, *words: str) -> dict[str, list[int]]:
        """How often each process has read it, the controller's and the hypervisor's."""
        noted = self.folder / "parsed"
        noted.unlink(missing_ok=True)
        done = subprocess.run(
            [*words, "-i", str(self.folder / "hosts.json"), "--check"],
            cwd=self.folder,
            env={
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": str(self.folder),
                "ANSIBLE_HOME": str(self.folder / "home"),
                "ANSIBLE_NOCOLOR": "true",
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert noted.exists(), done.stdout + done.stderr
        found = Counter(noted.read_text(encoding="ascii").splitlines())
        where: dict[str, list[int]] = {"controller": [], "hypervisor": []}
        for line, times in found.items():
            where["controller" if str(self.folder) in line else "hypervisor"].append(times)
        return where


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Controller:
    folder = tmp_path_factory.mktemp("controller")
    collection = folder / "ansible_collections" / "fleet" / "virt"
    collection.mkdir(parents=True)
    for name in ("meta", "plugins", "playbooks"):
        shutil.copytree(
            _CHECKOUT / name, collection / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(_CHECKOUT / "galaxy.yml", collection)
    parser = collection / "plugins/module_utils/_fleet/spec/options.py"
    text = parser.read_text(encoding="utf-8")
    parser.write_text(text + _COUNTED.format(path=folder / "parsed"), encoding="utf-8")
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    here.update({"virt_uri": "test:///default", "virt_become": "false"})
    hosts = {"hypervisors": {"hosts": {"hv1": here}}}
    (folder / "hosts.json").write_text(json.dumps(hosts), encoding="ascii")
    return Controller(folder)


def test_by_the_module_alone(controller: Controller) -> None:
    options = "name=web1 memory=64 seed=false uri=test:///default"
    found = controller.count("ansible", "hv1", "-m", "fleet.virt.virt_init", "-a", options)
    assert found == {"controller": [1], "hypervisor": [1]}


@pytest.mark.parametrize("playbook", ["provision_vm", "plan"])
def test_by_a_playbook(controller: Controller, playbook: str) -> None:
    found = controller.count("ansible-playbook", f"fleet.virt.{playbook}", "-e", json.dumps(_VM))
    assert set(found["controller"]) == {1}
    assert set(found["hypervisor"]) <= {1}  # none is asked for more where nothing fits
