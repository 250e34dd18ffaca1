# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the hosts of a play have registered.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.plugin_utils._plain import to_plain


def registered(
    task_vars: t.Mapping[str, t.Any], variable: str | None
) -> dict[str, dict[str, t.Any]]:
    """What each host of the play registered as ``variable``, as plain data; empty if nothing."""
    hostvars = task_vars["hostvars"]
    return {
        str(name): to_plain(hostvars[name].get(variable) or {}) if variable else {}
        for name in task_vars["ansible_play_hosts_all"]
    }
