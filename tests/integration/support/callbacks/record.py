# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes every task's result to the file that FLEET_VIRT_RECORD names, one JSON line each."""

from __future__ import annotations

import json
import os
import typing as t

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: record
type: notification
short_description: Results as JSON lines
description: Results of all tasks as they are, for tests.
"""


class CallbackModule(CallbackBase):
    """See above; Ansible finds callbacks by this name."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "record"

    def _write(self, result: t.Any, status: str, ignored: bool = False) -> None:
        entry = {
            "host": result._host.get_name(),
            "task": result._task.get_name(),
            "status": status,
            "ignored": ignored,
            "result": result._result,
        }
        with open(os.environ["FLEET_VIRT_RECORD"], "a", encoding="utf-8") as file:
            file.write(json.dumps(entry, default=str) + "\n")

    def v2_runner_on_ok(self, result: t.Any) -> None:
        """Note a success."""
        self._write(result, "ok")

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        """Note a failure."""
        self._write(result, "failed", ignore_errors)

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        """Note a host that could not be reached."""
        self._write(result, "unreachable")

    def v2_runner_on_skipped(self, result: t.Any) -> None:
        """Note a task that was skipped."""
        self._write(result, "skipped")
