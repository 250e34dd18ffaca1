# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of the fleet and of a hypervisor, templated.

Without those of VMs (``_batch.py``), which load everything that describes a VM.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import Json
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values, to_plain

POOL_PATH = "/var/lib/libvirt/images"
BASE_PATH = "/var/lib/libvirt/base"
LIMITS = (
    "virt_zone",
    "virt_tags",
    "virt_memory_reserve",
    "virt_memory_ratio",
    "virt_vcpu_ratio",
    "virt_disk_ratio",
)


class Templar(t.Protocol):
    """The part of Ansible's templar that is used."""

    def template(self, variable: object, /) -> object: ...


class Variables:
    """Templated, plain values of the task's variables."""

    def __init__(self, task_vars: Values, templar: Templar) -> None:
        self._task_vars = task_vars
        self._templar = templar
        self._known: dict[str, Json] = {}  # templating a large batch takes time

    def get(self, name: str, default: Json = None) -> Json:
        if name not in self._known:
            value = self._task_vars.get(name)
            self._known[name] = None if value is None else to_plain(self._templar.template(value))
        value = self._known[name]
        return default if value is None or value == "" else value

    def given(self, prefix: str) -> dict[str, Json]:
        """All variables that begin with ``prefix``, without it."""
        return {
            str(name)[len(prefix) :]: self.get(name)
            for name in self._task_vars
            if str(name).startswith(prefix)
        }

    def limits(self) -> dict[str, Json]:
        """The settings of this hypervisor that placement uses."""
        return {name: self.get(name) for name in LIMITS if self.get(name) is not None}

    def pool_paths(self) -> dict[str, str]:
        """The paths of pools that may be created, by name."""
        return {
            str(self.get("virt_pool", "default")): str(self.get("virt_images_path", POOL_PATH)),
            self.base_pool(): str(self.get("virt_base_path", BASE_PATH)),
        }

    def base_pool(self) -> str:
        """The pool of base images."""
        return str(self.get("virt_base_pool", "base"))
