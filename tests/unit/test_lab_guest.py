# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The laboratory's Debian does everything that a seed can ask for."""

from __future__ import annotations

from pathlib import Path

import yaml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    documents as seed_documents,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import (
    HostKey,
    Seed,
    SeedFile,
)

_GUEST = Path(__file__).resolve().parents[1] / "lab" / "guest" / "debian"
# Which of cloud-init's modules reads what stands in user-data
_MODULES = {
    "bootcmd": "bootcmd",
    "ca_certs": "ca-certs",
    "disable_root": "ssh",
    "fqdn": "set_hostname",
    "growpart": "growpart",
    "hostname": "set_hostname",
    "locale": "locale",
    "manage_etc_hosts": "update_etc_hosts",
    "packages": "package-update-upgrade-install",
    "preserve_hostname": "update_hostname",
    "random_seed": "seed_random",
    "resize_rootfs": "resizefs",
    "runcmd": "runcmd",
    "ssh_deletekeys": "ssh",
    "ssh_keys": "ssh",
    "ssh_pwauth": "set-passwords",
    "timezone": "timezone",
    "users": "users-groups",
    "write_files": "write-files",
}


def test_no_wish_of_a_seed_is_dropped() -> None:
    seed = Seed(
        None,
        "ansible",
        ("ssh-ed25519 AAAA me",),
        fqdn="web1.example.org",
        timezone="Asia/Tokyo",
        locale="ja_JP.UTF-8",
        packages=("less",),
        commands=("true",),
        ca_certificates=("x",),
        files=(SeedFile("/x", "eA==", "ansible:ansible", "0600"),),
    )
    text = seed_documents.nocloud(seed, "web1", "x", [], HostKey("a", "b"), b"x")["user-data"]
    asked = yaml.safe_load(text)
    configuration = yaml.safe_load((_GUEST / "etc/cloud/cloud.cfg").read_text(encoding="utf-8"))
    stages = ("init", "config", "final")
    has = {name for stage in stages for name in configuration[f"cloud_{stage}_modules"]}
    assert {key: _MODULES[key] for key in asked if _MODULES[key] not in has} == {}
    assert any(file.get("defer") for file in asked["write_files"])
    assert {"write-files-deferred", "scripts-user"} <= has
    assert asked.keys() == _MODULES.keys(), "the table has what a seed can ask for, and no more"
