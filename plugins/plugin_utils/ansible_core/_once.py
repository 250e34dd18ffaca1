# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A failure that Ansible shows once.

Since 2.19 it shows a task's failure as an error with an excerpt of the playbook, and then once more
with the result. The excerpt is of a playbook of this collection, where there is nothing to correct.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display

_DEBUGGING = 3  # -vvv, from which Ansible shows where an error comes from


class FailedStage(AnsibleActionFail):
    """The failure of a stage of a playbook; ``result`` has no more than is to be shown."""

    def __init__(self, message: str, result: Mapping[str, object]) -> None:
        super().__init__(message, result={**result})  # type: ignore[no-untyped-call]
        if self.omit_exception_key:
            self.result.pop("exception", None)  # 2.18 has it there, later versions a copy

    @property
    def omit_exception_key(self) -> bool:
        """Whether the result has no error besides its message; 2.18 does not ask."""
        return int(Display().verbosity) < _DEBUGGING
