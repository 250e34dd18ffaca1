# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules across settings, applied to a whole definition: the request over what is kept.

A request has only some of the settings of a VM that exists. The rules are those of a new VM
(:mod:`..domain.rules`), on values that the rows read from the definition.
"""

from __future__ import annotations

import typing as t

from ..base.json_values import as_number, as_text, require_type
from ..base.options import Reader
from ..base.settings import Group
from ..spec import device_groups, rules, settings, settings_devices
from ..spec.devices import Console, Cpu
from ..spec.domain import Domain

if t.TYPE_CHECKING:
    from ..._errors import Problem
    from ..._lxml import Element
    from ..spec.difference import Difference

_READ = (
    *(settings.Rows.secure_boot, settings.Rows.kernel, settings.Rows.initrd, settings.Rows.cmdline),
    *(settings.Rows.on_poweroff, settings.Rows.on_reboot),
)


def conflicts(before: Element, after: Element, written: t.Collection[str]) -> list[str]:
    """Which settings would exclude each other in ``after`` and do not in ``before``."""
    known = [str(one) for one in _problems(before)]
    return [
        f"{one}. {_remedy(one.path, written)}" for one in _problems(after) if str(one) not in known
    ]


def _remedy(path: str, written: t.Collection[str]) -> str:
    row = next((one for one in settings.VM if one.name == path), None)
    if path in written or row is None:
        return "The definition keeps what is not requested: request all of these settings"
    if isinstance(row, Group) and row.change is not None and row.change.when == "never":
        return (
            f"The definition keeps {path}, which is changed with virsh edit: shut the VM down and"
            " change both there"
        )
    return f"The definition keeps {path}: request it too"


def is_of_definition(path: str) -> bool:
    """Whether a setting is read from the definition alone, without what is stored beside it."""
    top, _dot, inner = path.partition("[")[0].partition(".")
    row = next((one for one in settings.VM if one.name == top), None)
    return row is not None and bool(row.xml) and not (inner and row.name in ("disks", "nics"))


def excluded(difference: Difference, after: Element) -> str:
    """Why the definition would not have what is requested, because of what it keeps."""
    key = {"vcpus_max": "vcpus", "memory_max": "memory"}.get(difference.path)
    row = next((row for row in settings.VM if row.name == key), None)
    if row is None:
        return "another setting that the definition keeps excludes it; request that too"
    kept = row.show(row.found(after))
    return f"the definition keeps {key} {kept}, which is more; request {key} too"


def _problems(root: Element) -> list[Problem]:
    problems: list[Problem] = []
    given = {row.name: row.found(root) for row in _READ}
    reader = Reader({key: value for key, value in given.items() if value}, "", problems)
    rules.check(_definition(root), "this one", reader)
    return problems


def _definition(root: Element) -> Domain:
    """What the rules look at; disks, seed and host's devices are in no definition as requested."""
    values: dict[str, t.Any] = {kind.group.name: _group(kind, root) for kind in device_groups.KINDS}
    graphics = [settings_devices.ConsoleSettings.type.found(one) for one in _graphics(root)]
    screen = "spice" if "spice" in graphics else str(graphics[0]) if graphics else "none"
    keys = ("sockets", "dies", "cores", "threads")
    rows = {row.name: row for row in settings_devices.CPU}
    element = root.find("cpu")
    topology: dict[str, t.Any] = {key: rows[key].found(element) for key in keys}
    values.update(
        vcpus=require_type(settings.Rows.vcpus.found(root) or 1, int),
        vcpus_max=require_type(settings.Rows.vcpus_max.found(root) or 1, int),
        memory=require_type(settings.Rows.memory.found(root) or 0, int),
        memory_max=as_number(settings.Rows.memory_max.found(root)),
        machine=as_text(settings.Rows.machine.found(root)),
        arch=as_text(settings.Rows.arch.found(root)),
        firmware=as_text(settings.Rows.firmware.found(root)),
        serials=values["serials"][1:],  # the first is the console's
        channels=tuple(channel for channel in values["channels"] if channel.name),
        hostdevs=(),
    )
    return Domain(name="", cpu=Cpu(**topology), console=Console(screen), **values)


def _graphics(root: Element) -> list[Element]:
    return root.findall(str(settings_devices.CONSOLES.xml))


def _group(kind: device_groups.Kind, root: Element) -> object:
    """The group as the type that a request has: one, None, or a tuple of them."""
    made = [
        kind.spec_class(**{row.name: row.found(one) for row in kind.group.settings})
        for one in root.findall(str(kind.group.xml))
    ]
    if kind.several:
        return tuple(made)
    return made[0] if made else None
