# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory over libvirt's TLS, with the fleet's own keys."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from ansible_collections.fleet.virt.tests.integration.support.guests import Guests

from .conftest import Keys

_OURS = "<metadata><fleet xmlns='urn:fleet.virt:1'/></metadata>"


def test_over_tls(keys: Keys, guests: Guests, tmp_path: Path) -> None:
    """No SSH is used for it: it works while there is nobody to log in to."""
    for host, name in (("hv1", "tls1"), ("hv2", "tls2")):
        guests.define(host, name, top=_OURS)
    shutil.copy(keys.lab.inventory / "10-hypervisors.yml", tmp_path)
    plugin = {
        "plugin": "fleet.virt.virt",
        "uri": f"qemu+tls:///system?pkipath={keys.folder / 'client'}",
        "strict": True,
    }
    (tmp_path / "20-guests.virt.yml").write_text(json.dumps(plugin), encoding="utf-8")
    more = {"hypervisors": {"vars": {"ansible_ssh_executable": "/no/such/ssh"}}}
    (tmp_path / "15-no-ssh.yml").write_text(json.dumps(more), encoding="utf-8")
    run = keys.ansible.run("ansible-inventory", ["--list"], inventory=tmp_path).succeeded()
    found = json.loads(run.stdout)["_meta"]["hostvars"]
    assert {"tls1", "tls2"} <= set(found), str(run)
    assert not any("virt_unreachable" in values for values in found.values())
