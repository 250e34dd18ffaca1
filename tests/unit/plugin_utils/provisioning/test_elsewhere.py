# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who else may have a VM."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.plugin_utils.provisioning import _elsewhere
from ansible_collections.fleet.virt.plugins.plugin_utils.provisioning._batch import Variables


class _Templar:
    def template(self, value: object) -> object:
        return value


@pytest.mark.parametrize("lost", [["hv2", "hv3"], "hv2,hv3", "hv2, hv3"])
def test_whoever_is_declared_lost_is_not_asked(lost: t.Any) -> None:
    values = {
        "inventory_hostname": "hv1",
        "groups": {"hypervisors": ["hv1", "hv2", "hv3", "hv4"]},
        "virt_hypervisors_lost": lost,
    }
    assert _elsewhere.not_lost(values, Variables(values, _Templar())) == ["hv4"]
