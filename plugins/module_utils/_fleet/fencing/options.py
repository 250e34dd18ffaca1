# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_fence``, for the module and its action plugin."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from ..._errors import Problem, SpecError
from ..base.options import join, show

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

DEVICE: Spec = {
    "agent": {"type": "str"},
    "command": {"type": "list", "elements": "str"},
    "status_command": {"type": "list", "elements": "str"},
    "parameters": {"type": "dict", "default": {}},
    "secrets": {"type": "dict", "default": {}, "no_log": True},
}
ARGUMENTS: Spec = {
    "host": {"type": "str", "required": True},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "ports": {"type": "list", "elements": "int", "default": []},
    "devices": {"type": "list", "elements": "dict", "default": [], "options": DEVICE},
    "stated": {"type": "bool", "default": False},
    "ignore_signs": {"type": "bool", "default": False},
    "lease": {"type": "float", "default": 100.0},
    "off_timeout": {"type": "float", "default": 60.0},
}
# ``_audible``: another hypervisor asked it that would have heard it
INTERNAL: Spec = {"_audible": {"type": "bool", "default": False}}
_AGENT = re.compile(r"fence_[a-z0-9_]+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
# What an agent is to do is decided here: a second one of these would be believed instead
_OURS = ("action", "option", "o")
# Parameters that have an agent say "off" of what may run, and what each does
_NOT_OFF = {
    "missing_as_off": "says that a machine is off which its device does not know, mistyped or not",
    "network_fencing": "says that a machine is off which is cut off from its network",
}
_TRUE = ("1", "true", "yes", "on")
# Whose values agents and people keep to themselves: passwords, SNMP communities, keys in text,
# IPMI's key (Kg), the page that only who knows its name reaches. Names of files are no secrets.
_SECRET = re.compile(
    r"pass|pwd|secret|token|community|credential|private|(^|_)(access|api|auth)?_?key$|(^|_)kg$"
    r"|(^|_)pin$|(^|_)page$",
    re.IGNORECASE,
)
_SECRET_NOT = re.compile(r"(script|file|file_profile|timeout|method|path)$", re.IGNORECASE)
# A URL may have the password of who calls it, whatever its parameter's name is
_URL_WITH_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]*@")


class FenceDevice(t.TypedDict):
    """What :data:`DEVICE` makes of one power supply."""

    agent: str | None
    command: list[str] | None
    status_command: list[str] | None
    parameters: dict[str, object]
    secrets: dict[str, object]


class FenceOptions(t.TypedDict):
    """What :data:`ARGUMENTS` makes of a task's options."""

    host: str
    addresses: list[str]
    ports: list[int]
    devices: list[FenceDevice]
    stated: bool
    ignore_signs: bool
    lease: float
    off_timeout: float
    _audible: bool


def fence_options(params: Mapping[str, object]) -> FenceOptions:
    """The validated options of the module, without those of the connection."""
    return t.cast("FenceOptions", {name: params[name] for name in (*ARGUMENTS, *INTERNAL)})


def require_sound(options: FenceOptions) -> None:
    """Raise SpecError, naming every mistake, for options that contradict each other or that an
    agent would take for something else."""
    problems: list[Problem] = []
    if options["devices"] and options["stated"]:
        problems.append(
            Problem("stated", "devices are given too, and they prove it; leave one of them out")
        )
    if not options["devices"] and not options["stated"]:
        problems.append(Problem("devices", "nothing is given that could prove it; give one"))
    if options["stated"] and options["ignore_signs"]:
        problems.append(
            Problem("ignore_signs", "only what devices prove outweighs a sign of life; give those")
        )
    for name, value in (("lease", options["lease"]), ("off_timeout", options["off_timeout"])):
        if not 0 <= value <= 3600:
            problems.append(Problem(name, f"{value:g} is no time to wait; use 0 to 3600 seconds"))
    for number, device in enumerate(options["devices"]):
        problems += _device_problems(device, f"devices[{number}]")
    if problems:
        raise SpecError(problems)


def _device_problems(device: FenceDevice, path: str) -> t.Iterator[Problem]:
    agent, command, status = device["agent"], device["command"], device["status_command"]
    if agent is not None and not _AGENT.fullmatch(agent):
        rule = "is no name of a fence agent; use one such as fence_ipmilan"
        yield Problem(join(path, "agent"), f"{show(agent)} {rule}")
    if agent is not None and (command or status):
        yield Problem(join(path, "agent"), "a command is given too; leave one of them out")
    if agent is None and not (command and status):
        rule = "without an agent both command and status_command are needed; give them"
        yield Problem(path, rule)
    for option in ("parameters", "secrets"):
        given = device["secrets"] if option == "secrets" else device["parameters"]
        for name, value in given.items():
            place = join(join(path, option), name)
            if not _NAME.fullmatch(name) or name in _OURS:
                yield Problem(place, "is no parameter that can be given; leave it out")
            elif why := _not_off(name, value):
                yield Problem(place, why)
            elif not isinstance(value, (str, int, float, bool)) or not _one_line(str(value)):
                yield Problem(place, "its value is not one line of text; agents read lines")
    for name in device["parameters"].keys() & device["secrets"].keys():
        yield Problem(join(join(path, "secrets"), name), "is among the parameters too; give one")


def _not_off(name: str, value: object) -> str:
    why = _NOT_OFF.get(name.replace("-", "_"))
    return f"with it the agent {why}; leave it out" if why and str(value).lower() in _TRUE else ""


def problems_of_off(parameters: t.Mapping[str, object]) -> list[str]:
    """Why an agent with these parameters says "off" of what may run."""
    found = ((name, _not_off(name, value)) for name, value in parameters.items())
    return [f"{name}: {why}" for name, why in found if why]


def _one_line(text: str) -> bool:
    return text.isprintable()


def devices_of(variable: object, path: str = "virt_fence") -> list[dict[str, object]]:
    """The devices that a hypervisor's variable declares: a mapping, or a list of them where each
    has a power supply. Parameters of the agent stand beside its name; secrets are set apart.

    Raises SpecError for anything else, without any value.
    """
    entries = variable if isinstance(variable, (list, tuple)) else [variable]
    problems: list[Problem] = []
    devices: list[dict[str, object]] = []
    for number, entry in enumerate(entries):
        place = f"{path}[{number}]" if len(entries) > 1 else path
        if not isinstance(entry, Mapping):
            rule = "is no mapping such as {agent: fence_ipmilan, ip: 192.0.2.9, username: admin}"
            problems.append(Problem(place, rule))
            continue
        device: dict[str, object] = {}
        parameters: dict[str, object] = {}
        secrets: dict[str, object] = {}
        for key, value in entry.items():
            name = str(key)
            if name in ("agent", "command", "status_command"):
                device[name] = value
            elif is_secret(name) or _URL_WITH_PASSWORD.search(str(value)):
                secrets[name] = value
            else:
                parameters[name] = value
        devices.append({**device, "parameters": parameters, "secrets": secrets})
    if problems:
        raise SpecError(problems)
    return devices


def is_secret(name: str) -> bool:
    """Whether the value of a parameter of this name is kept out of all output."""
    plain = name.replace("-", "_")
    return bool(_SECRET.search(plain)) and not _SECRET_NOT.search(plain)
