# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import verb
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.facts import (
    SnapshottedVm,
    SnapshotVm,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.options import (
    SnapshotWork,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import Selection, VerbAction


class ActionModule(VerbAction[SnapshotWork, SnapshotVm, SnapshottedVm]):
    """Work on snapshots, as it is declared; and a list of them."""

    WORK = SnapshotWork
    VERB = verb.VERB
    CONTROLLER = ("decide", "report", "list")
    REPORTS = ("report", "list")

    def decided(self, work: SnapshotWork) -> t.Mapping[str, object]:
        if work.stage != "list":
            return super().decided(work)
        options = self.options(Selection, self.VERB.arguments)
        return self.shown(*verb.listing(options["names"], self.seen(), work.groups))
