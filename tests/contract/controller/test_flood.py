# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An answer without end, read by Ansible's own connection plugins."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ansible_collections.fleet.virt.tests.contract import _tools


def test_a_python_that_never_stops(tmp_path: Path, programs: _tools.Preloaded) -> None:
    """It ends long before all that it says is read."""
    flood = tmp_path / "python"
    flood.write_text("#!/bin/sh\nyes 'no end' | head -c 1500000000\n")
    flood.chmod(0o755)
    host = {
        "ansible_connection": "local",
        "ansible_python_interpreter": str(flood),
        "ansible_playbook_python": sys.executable,
    }
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"hv1": host}}}))
    ask = {
        "name": "Ask",
        "fleet.virt.virt_query": {},
        "register": "asked",
        "ignore_errors": True,
    }
    show = {"name": "Show", "ansible.builtin.debug": {"var": "asked.msg"}}
    play = {"hosts": "hv1", "gather_facts": False, "tasks": [ask, show]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    words = ("-i", tmp_path / "hosts.yml", tmp_path / "play.yml")
    shown = programs.run("ansible-playbook", *words, limit_s=300)
    assert "its response exceeds the limit of 67108864 characters and was aborted" in shown
