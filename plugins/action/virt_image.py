# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._model.image_source import parse_image
from ansible_collections.fleet.virt.plugins.plugin_utils import _images
from ansible_collections.fleet.virt.plugins.plugin_utils._plain import to_plain


class ActionModule(ActionBase):
    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        options = to_plain(self._task.args)
        folder = options.pop("image_dir", None)
        if folder is None:
            folder = self._templar.template(variables.get("virt_image_dir"))
        try:
            source = parse_image(options.get("image"))
            if source.kind == "file":
                unknown = set(options) - {"image", *_images.OPTIONS}
                if unknown:
                    raise FleetVirtError(f"unknown options: {', '.join(sorted(unknown))}")
                local = _images.local_image(
                    folder, source.value, remember=not self._task.check_mode
                )
                found = _images.ensure_on_host(self, variables, local, options)
            else:
                options.pop("source", None)
                found = _images.run_module(self, variables, options)
        except ValueError as error:
            raise AnsibleActionFail(f"image: {error}") from None
        except FleetVirtError as error:
            raise AnsibleActionFail(str(error)) from None
        found.pop("missing", None)
        result.update(found)
        return result
