# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: output
type: stdout
short_description: Limits standard output to what a playbook itself prints
version_added: 0.1.0
description:
  - Prints neither plays nor tasks nor a recap. What the actions of this collection print, such as
    the JSON or CSV of the playbooks C(list), C(query), C(host_info), C(images), C(plan) and
    C(preflight), is the only text on standard output, so that a program can read it.
  - Failed tasks and unreachable hosts are reported on standard error, unless the playbook continues
    despite them. The exit status is Ansible's.
author:
  - Fleet Virt contributors (@fleet-virt)
"""

import typing as t

from ansible.plugins.callback import CallbackBase
from ansible_collections.fleet.virt.plugins.module_utils._errors import visible

if t.TYPE_CHECKING:
    from ansible.executor.task_result import CallbackTaskResult


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "fleet.virt.output"

    def _report(self, result: CallbackTaskResult) -> None:
        # All supported versions of Ansible have these underscored names
        reason = result._result.get("msg") or "failed without a message"
        line = f"{result._host.get_name()}: {result._task.get_name()}: {reason}"
        self._display.display(visible(line), stderr=True)

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            self._report(result)

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        if not getattr(result._task, "ignore_unreachable", False):
            self._report(result)

    def v2_runner_item_on_failed(self, result: CallbackTaskResult) -> None:
        self._report(result)

    def v2_playbook_on_no_hosts_matched(self) -> None:
        self._display.display("no hosts matched", stderr=True)

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self._display.display("no hosts left", stderr=True)
