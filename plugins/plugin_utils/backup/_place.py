# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the controller reaches the place of backups, from the play's variables."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_text
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values
from ansible_collections.fleet.virt.plugins.plugin_utils.images._images import cache_folder

if t.TYPE_CHECKING:
    from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Templar

_NAMED = "virt_backup_passphrase"


def access(values: Values, templar: Templar) -> Access:
    """How this controller opens repositories; raises FleetVirtError without a passphrase."""
    variables = Variables(values, templar)
    passphrase = as_text(variables.get(_NAMED))
    if passphrase is None:
        raise FleetVirtError(
            f"{_NAMED} is not set; it is the passphrase of the repositories, which a file of"
            " variables in a vault holds"
        )
    key = as_text(variables.get("virt_backup_ssh_key"))
    return Access(passphrase, str(cache_folder() / "borg"), key)


def nearby(values: Values, templar: Templar, place: str) -> tuple[str, str | None, str]:
    """The place as this controller reaches it, its private key, and the folder of borg's caches."""
    variables = Variables(values, templar)
    near = variables.get("virt_backup_read_from")
    if near is not None:
        place = str(near[0] if isinstance(near, list) and near else near)
    return place, as_text(variables.get("virt_backup_ssh_key")), str(cache_folder() / "borg")
