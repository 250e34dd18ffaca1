# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers that has proven that another one is off."""

from __future__ import annotations

from ..base import answers


class Fenced(answers.Result, total=False):
    """How it is known, in a word and as a sentence; neither if it is not proven."""

    outcome: str | None
    text: str | None
