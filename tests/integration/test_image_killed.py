# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_image killed at moments spread over all that it does: run again, it ends right.

Once each; FLEET_VIRT_TRIALS sets another number. Killed in the middle of each of its steps it is
in test_image.py and test_image_sources.py.
"""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.integration.support import images, killing
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.images import (
    FOLDER,
    MIB,
    MODULE,
    POOL,
    Site,
    digest,
)
from ansible_collections.fleet.virt.tests.integration.support.killing import (
    kill_tree,
    killer,
    lifetime,
    seconds,
)
from ansible_collections.fleet.virt.tests.integration.support.process import Process
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261122"))
_SLOWLY = "-l 160000"  # sftp's limit in kbit/s: three seconds


@pytest.fixture
def site(ansible: Ansible, lab: Laboratory, tmp_path: Path) -> Iterator[Site]:
    """Nothing there yet; nothing left afterwards."""
    with images.site(ansible, lab, tmp_path) as made:
        yield made


def _begin(site: Site, image: str, **environment: str) -> Process:
    """The module as somebody types it."""
    options = {"image": image, **site.options}
    args = shlex.join(f"{key}={word}" for key, word in options.items())
    words = ("hv1", "--become", "-m", MODULE, "-a", args)
    return site.ansible.begin("ansible", *words, **environment)


def _ends_right(site: Site, image: str, path: Path, where: str) -> None:
    """What is there may be taken for an image only if it is whole; again, and once more."""
    volume = f"{digest(path)}-{path.name}"
    for name in site.files("hv1"):
        assert name == volume, where
        assert site.sha256("hv1", f"{FOLDER}/{name}") == digest(path), where
    done = site.run(image)["hv1"]
    assert not done["failed"], f"{where}: {done}"
    site.only("hv1", volume)
    assert site.sha256("hv1", done["image"]["path"]) == digest(path), where
    assert not site.run(image)["hv1"]["changed"], where
    site.lab.ssh("hv1", f"chattr -i {FOLDER}/* && virsh -q vol-delete {volume} {POOL}")


@pytest.mark.trials
def test_the_run_is_killed(site: Site) -> None:
    """The controller dies, somewhere between its start and its end."""
    path = site.convert("large.qcow2", os.urandom(64 * MIB), 512 * MIB)
    began = time.monotonic()
    with _begin(site, path.name, ANSIBLE_SFTP_EXTRA_ARGS=_SLOWLY) as run:
        assert run.wait(timeout=120) == 0
    duration = time.monotonic() - began
    _ends_right(site, path.name, path, "not killed")
    chance = random.Random(_SEED)  # noqa: S311 (where to kill, no secret)
    kills = 0
    for trial in range(_TRIALS):
        after = chance.uniform(0.0, duration)
        with _begin(site, path.name, ANSIBLE_SFTP_EXTRA_ARGS=_SLOWLY) as run:
            try:
                run.wait(timeout=after)
            except subprocess.TimeoutExpired:
                kills += 1
            kill_tree(run.pid)
        _ends_right(site, path.name, path, f"seed {_SEED}, trial {trial}, {after:.2f} s")
    print(f"the run killed {kills} times of {_TRIALS} within {duration:.1f} s (seed {_SEED})")
    assert kills >= _TRIALS // 2


@pytest.mark.trials
def test_the_module_is_killed(site: Site) -> None:
    """The module dies on the hypervisor, where the image lies: copying, checking, naming."""
    path = site.convert("large.qcow2", os.urandom(128 * MIB), 256 * MIB)
    there = site.put("hv1", path, "large.qcow2")

    def meanwhile(script: str) -> str:
        run = _begin(site, there, ANSIBLE_PIPELINING="false")
        return killing.meanwhile(run, site.lab, "hv1", script)

    duration = seconds(meanwhile(lifetime("virt_image")))
    _ends_right(site, there, path, "not killed")
    chance = random.Random(_SEED)  # noqa: S311 (where to kill, no secret)
    kills = 0
    for trial in range(_TRIALS):
        after = chance.uniform(0.0, 0.95 * duration)
        kills += "killed" in meanwhile(killer("virt_image", after))
        _ends_right(site, there, path, f"seed {_SEED}, trial {trial}, {after:.2f} s")
    print(f"virt_image killed {kills} times of {_TRIALS} within {duration:.1f} s (seed {_SEED})")
    assert kills >= _TRIALS // 2
