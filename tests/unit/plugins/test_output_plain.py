# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an action returns goes to another process of Ansible, which knows plain text only."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.outcomes import Failure
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output


def _types(value: t.Any) -> set[type]:
    if isinstance(value, dict):
        return set().union(*map(_types, value.values()))
    if isinstance(value, (list, tuple)):
        return set().union(*map(_types, value))
    return {type(value)}


def test_failure_in_result_is_plain_text() -> None:
    failure = Failure("hv1", "web1 on hv1: it failed")
    result = {"msg": failure, "problems": [failure], "vms": [{"why": (failure,)}], "web1": failure}
    assert _types(_output.shown(result)) == {str}
    assert _output.shown(result) == {**result, "vms": [{"why": ["web1 on hv1: it failed"]}]}
