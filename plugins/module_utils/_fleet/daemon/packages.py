# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of a hypervisor: the arguments of Ansible's own modules, and reading their results."""

from __future__ import annotations

import re
import typing as t

from ..._errors import FleetVirtError
from ..base import answers
from ..base.json_values import as_mapping
from ..base.tables import clean
from ..engine import outcomes

if t.TYPE_CHECKING:
    from ..base.arguments import Spec


class PlatformFacts(t.TypedDict):
    """A machine, according to :data:`SETUP`."""

    architecture: str
    distribution: str
    distribution_major_version: str
    os_family: str
    pkg_mgr: str


class Platform(t.TypedDict):
    """The facts of :data:`SETUP` that are used."""

    platform: PlatformFacts


class Installed(t.TypedDict, total=False):
    """The facts of :data:`PACKAGE_FACTS`: by package what is installed of it."""

    packages: dict[str, list[object]] | None


Settings = dict[str, t.Union[bool, int]]  # options of a package manager's module
ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "default": []},
}

SETUP = "ansible.builtin.setup"
SETUP_ARGUMENTS = {"gather_subset": ["!all", "!min", "distribution", "pkg_mgr", "platform"]}
PACKAGE_FACTS = "ansible.builtin.package_facts"
COMMAND = "ansible.builtin.command"
APT = "ansible.builtin.apt"
AUDIT = {"argv": ["dpkg", "--audit"]}
FINISH = {"argv": ["dpkg", "--force-confdef", "--force-confold", "--configure", "--pending"]}

_NAME = re.compile(r"[ -~]{1,64}")  # it becomes part of messages and of a file name
_LONGEST = 2000  # characters of what a package manager says
# For each package manager its module, and how to install only what is needed: packages that are
# merely recommended are for desktops (fonts, cups, vulkan). Another installation may be running,
# perhaps one that an earlier run started, so wait for it where that is possible.
_MANAGERS: dict[str, tuple[str, Settings]] = {
    "apt": (APT, {"install_recommends": False, "lock_timeout": 300, "update_cache_retries": 1}),
    "dnf": ("ansible.builtin.dnf", {"install_weak_deps": False, "lock_timeout": 300}),
    "dnf5": ("ansible.builtin.dnf5", {"install_weak_deps": False}),
    "zypper": ("community.general.zypper", {"disable_recommends": True}),
}


def platform(facts: t.Mapping[str, object]) -> dict[str, str]:
    """The machine's platform, from the facts of :data:`SETUP`. Raises FleetVirtError."""
    fields = {key: facts.get(f"ansible_{key}") for key in answers.keys(PlatformFacts)}
    problem = answers.problem({"platform": fields}, Platform)
    for key, value in fields.items():
        if problem is None and not _NAME.fullmatch(str(value)):
            problem = f"platform.{key} is not a name"
    if problem is not None:
        raise _unsound(SETUP, problem)
    return {key: str(value) for key, value in fields.items()}


def missing(names: t.Iterable[str], facts: t.Mapping[str, object]) -> list[str]:
    """The ``names`` that are not installed, from the facts of :data:`PACKAGE_FACTS`.

    Raises FleetVirtError.
    """
    problem = answers.problem(facts, Installed)
    if facts.get("packages") is None:
        problem = "it lists no packages"
    if problem is not None:
        raise _unsound(PACKAGE_FACTS, problem)
    return sorted(set(names) - set(as_mapping(facts["packages"])))


def manager(name: str) -> tuple[str, Settings]:
    """The module of a package manager, and its arguments. Raises FleetVirtError."""
    if name not in _MANAGERS:
        raise FleetVirtError(
            f"its package manager is {name!r}, and this collection supports only"
            f" {', '.join(_MANAGERS)}"
        )
    return _MANAGERS[name]


def reason(answer: t.Mapping[str, object]) -> str:
    """Why a package manager's module failed, in its own words."""
    message, failures = answer.get("msg"), answer.get("failures")
    if outcomes.is_cut(answer) or not isinstance(message, str) or not message:
        return outcomes.reason(answer)
    parts = [message, *(map(str, failures) if isinstance(failures, list) else ())]
    text = clean(" ".join(" ".join(parts).split())).rstrip(":. ")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def refused(names: t.Sequence[str], why: str) -> str:
    """The message that packages cannot be installed, and what to do."""
    return (
        f"cannot install {' '.join(names)}: {why}. Ensure that it can reach its package mirror, or"
        " install them yourself, and run it again"
    )


def _unsound(module: str, problem: str) -> FleetVirtError:
    return FleetVirtError(
        f"its answer is not what {module} returns ({problem}); check what is responding there"
    )
