# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible's settings, which it makes constants of a module as it starts: no source has them."""

from __future__ import annotations

from pathlib import Path

from ansible import constants


def local_tmp() -> Path:
    """The folder of this run's temporary files."""
    return Path(vars(constants)["DEFAULT_LOCAL_TMP"])


def stdout_callback() -> str:
    """The callback that prints what tasks do."""
    return str(vars(constants)["DEFAULT_STDOUT_CALLBACK"])
