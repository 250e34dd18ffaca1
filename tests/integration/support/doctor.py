# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor finds in a laboratory, and its remedies, typed as they are printed."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.findings import KINDS

from .ansible import Ansible, Run

Findings = list[dict[str, Any]]


def look(ansible: Ansible, *words: str, complete: bool = True, **variables: Any) -> Findings:
    """The findings; ``complete``: it could look at everything. ``words`` are arguments."""
    run = ansible.playbook("doctor", {"virt_output": "json", **variables}, words)
    (answer,) = run.of("Show the findings").values()
    told = json.loads(answer["output"])
    assert not complete or told["not_looked_at"] == [], str(run)
    findings: Findings = told["findings"]
    assert run.returncode == (2 if told["summary"]["error"] else 0), str(run)
    return findings


def the_one(findings: Findings, kind: str, word: str, host: str = "") -> dict[str, Any]:
    """The only finding of that kind with that word in its message, of the severity it should have;
    ``host`` is among its hypervisors."""
    named = [one for one in findings if one["id"] == kind and word in one["message"]]
    assert len(named) == 1, (kind, word, findings)
    assert named[0]["severity"] == KINDS[kind][0]
    assert not host or host in named[0]["hosts"], named
    return named[0]


def commands(remedy: str) -> list[str]:
    """The commands that end a remedy, without what is said before them."""
    shown = re.search(r"\bansible(-playbook)? .*", remedy)
    assert shown is not None, remedy
    return shown[0].split(" && ")


def follow(ansible: Ansible, remedy: str, *words: str) -> Run:
    """Type the commands of a remedy, with ``words`` that belong to the laboratory; the last run."""
    for command in commands(remedy):
        program, *arguments = shlex.split(command)
        run = ansible.run(program, [*arguments, *words], limit=300).succeeded()
    return run
