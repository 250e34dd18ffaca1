# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.selected import Selected
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import png, report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.facts import (
    CapturedScreen,
    CapturedScreens,
    SavedScreen,
    SavedScreens,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.options import (
    ARGUMENTS,
    ConsoleWork,
    wanted,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _files
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import read
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.console import _pages

_SHEET = "index.html"


class VirtScreenshotOptions(Connected):
    names: list[str] | None
    ignore_missing: bool
    dest: str
    screen: int


class ActionModule(StagedAction[ConsoleWork]):
    """The module takes the screenshots; this writes them to files."""

    WORK = ConsoleWork

    def decided(self, work: ConsoleWork) -> Answer:
        options = self.options(VirtScreenshotOptions, ARGUMENTS)
        wanted(options)
        return self._report(options, work.groups)

    def asked(self, work: ConsoleWork, task_vars: Values) -> Answer:
        return self._taken(task_vars, {"_groups": work.groups} if work.groups else {})

    def alone(self, task_vars: Values) -> Answer:
        return self._taken(task_vars, {})

    def _taken(self, task_vars: Values, groups: Answer) -> Answer:
        options = self.options(VirtScreenshotOptions, ARGUMENTS)
        wanted(options)
        own = {name: value for name, value in self.given.items() if not name.startswith("_")}
        answer = read(self.module(task_vars, {**own, **groups}), CapturedScreens)
        captured = answer.get("screens")
        if captured is None:
            return {**answer}
        host = str(task_vars.get("inventory_hostname"))
        screens = [self._written(entry, host, options["dest"]) for entry in captured]
        result: Answer = {
            **answer,
            "screens": screens,
            "changed": any(screen["changed"] for screen in screens),
        }
        problems = [f"{screen['name']}: {screen['msg']}" for screen in screens if screen["failed"]]
        if problems:
            result.update(failed=True, msg="\n".join(problems))
        return result

    def _written(self, entry: CapturedScreen, host: str, folder: str) -> SavedScreen:
        name = entry["name"]
        screen: SavedScreen = {
            "name": name,
            "uuid": entry["uuid"],
            "path": None,
            "file": None,
            "width": None,
            "height": None,
            "changed": False,
            "failed": entry["failed"],
            "msg": entry["msg"],
        }
        if entry["content"] is None:
            return screen
        try:
            picture = png.checked(base64.b64decode(entry["content"], validate=True))
            below = _below(host, name)
            path = Path(folder) / below
            if not self.check:
                _files.make_private_folder(path.parent, "dest")
            if self.check and not path.exists():
                changed = True
            else:
                changed = (
                    _files.replace_if_changed(
                        str(path), picture.content, check=self.check, option="dest"
                    )
                    is not None
                )
        except (FleetVirtError, binascii.Error) as error:
            return {**screen, "failed": True, "msg": f"its screenshot was not saved: {error}"}
        return {
            **screen,
            "path": str(path),
            "file": below,
            "width": picture.width,
            "height": picture.height,
            "changed": changed,
            "failed": False,
            "msg": None,
        }

    def _report(self, options: VirtScreenshotOptions, groups: list[str]) -> Answer:
        given = self.answers("virt_screens", SavedScreens, "read")
        seen = located.sort(given, "screens", self.expected(), self.lost())
        screens = [
            screen for host, answer in seen.answers.items() for screen in report.read(host, answer)
        ]
        text = report.text(screens, {host: silence.why for host, silence in seen.silent.items()})
        changed = False
        if any(screen.file for screen in screens):
            sheet = Path(options["dest"]) / _SHEET
            if self.check and not sheet.parent.is_dir():
                changed = True
            else:
                page = _pages.screens(screens).encode("utf-8")
                before = _files.replace_if_changed(
                    str(sheet), page, check=self.check, option="dest"
                )
                changed = before is not None
            text += f"all screenshots: {sheet}\n"
        selected = Selected.of(options["names"] or (), groups)
        problems = report.problems(screens, selected, given, seen.silent)
        return self.shown(text, problems, changed=changed)


def _below(host: str, name: str) -> str:
    """The path of a VM's file below the folder. Raises PlanRefused for a name that is too long."""
    folder, file = report.file_name(host), report.file_name(name)
    if folder is None or file is None:
        raise PlanRefused("its name is too long for a file name")
    return f"{folder}/{file}.png"
