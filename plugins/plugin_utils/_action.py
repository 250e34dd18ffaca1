# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The frame of the collection's action plugins.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import gc
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError

# As every module of the action group accepts them
_CONNECTION: dict[str, dict[str, t.Any]] = {
    "uri": {"type": "str", "default": "qemu:///system"},
    "timeout": {"type": "float", "default": 10.0},
}


class FleetAction(ActionBase):
    """An action that does :meth:`work`; our own errors end it with their message alone."""

    if t.TYPE_CHECKING:  # ansible-core states no types for these
        validate_argument_spec: t.Any
        _low_level_execute_command: t.Any

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        try:
            result.update(self.work(task_vars or {}))
        except FleetVirtError as error:
            raise AnsibleActionFail(str(error)) from None
        return result

    def work(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        """The result of the action for the task's host."""
        raise NotImplementedError

    def options(self, arguments: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
        """The task's options by an argument spec, which every action's ``uri`` and ``timeout`` are
        added to."""
        _validation, options = self.validate_argument_spec(
            argument_spec={**arguments, **_CONNECTION}
        )
        return t.cast("dict[str, t.Any]", options)

    def module(
        self, task_vars: dict[str, t.Any], arguments: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """What the module of the same name returns; ``arguments`` replace the task's."""
        with _uncollected():
            answer: dict[str, t.Any] = self._execute_module(
                module_args=arguments, task_vars=task_vars
            )
        return answer


@contextlib.contextmanager
def _uncollected() -> t.Iterator[None]:
    """Without Python's collector of cycles.

    A module is packed by parsing all that it imports, into hundreds of thousands of objects that
    stay; the collector would look at them, and at the fleet's variables, over and over.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
