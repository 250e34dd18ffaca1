# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether guests can have KVM here."""

from __future__ import annotations

from .errors import Progress

__all__ = ["usable"]


def usable(progress: Progress) -> bool:
    """Not asked yet: guests run emulated."""
    return False
