# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether guests are started in their order when this machine boots; nothing is started now."""

from __future__ import annotations

import pkgutil
import typing as t

from ..._records import dataclass
from ..base import effects_config_files as config_files
from ..base import effects_systemd as systemd
from . import autostart
from . import effects_start_guests as program


@dataclass(frozen=True)
class AutostartPlan:
    """The files to be written, their texts before, and the units to be enabled or disabled."""

    before: t.Mapping[str, str | None]
    texts: t.Mapping[str, str]
    verb: str
    units: tuple[str, ...]

    @property
    def steps(self) -> list[str]:
        """What is done."""
        return [*(f"write {path}" for path in self.texts), *self._switching]

    @property
    def _switching(self) -> list[str]:
        return [f"{self.verb} {' '.join(self.units)}"] if self.units else []

    @property
    def diff(self) -> list[dict[str, str]]:
        """The files before and after, and what is done to the units."""
        return [
            {"before_header": path, "before": self.before[path] or ""}
            | {"after_header": path, "after": text}
            for path, text in self.texts.items()
        ] + [{"prepared": f"+ {step}\n"} for step in self._switching]

    def apply(self) -> None:
        """Do it."""
        with config_files.replaced(self.texts):
            if self.texts:
                systemd.systemctl("daemon-reload")
            if self.units:
                systemd.systemctl(self.verb, *self.units)


def files() -> dict[str, str]:
    """The text of each file by its path."""
    package, _dot, name = program.__name__.rpartition(".")
    text = pkgutil.get_data(package, f"{name}.py")
    return autostart.files((text or b"").decode())


def plan(*, wanted: bool) -> AutostartPlan:
    """What is to be done so that the units are enabled, or not."""
    texts = files() if wanted else {}
    before = {path: config_files.read(path) for path in texts}
    return AutostartPlan(
        before,
        {path: text for path, text in texts.items() if before[path] != text},
        "enable" if wanted else "disable",
        tuple(
            unit
            for unit in (autostart.HOLD, autostart.START)
            if systemd.is_enabled(unit) is not wanted
        ),
    )
