# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exception family: every failure that a user can meet is one of these.

Helpers raise them; only a module's ``main()``, an action plugin or the inventory plugin turns one
into a result. Each message names the value, the rule it breaks and what to do about it.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

# What changes the direction of the text around it
TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# What Python calls printable although nothing is seen of it (Default_Ignorable_Code_Point)
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def visible(text: str, kept: str = "\n\t") -> str:
    """The text as it is shown to people, with everything else than visible characters escaped.

    Names, titles and errors come from guests and hypervisors, and could move the cursor, turn the
    direction of writing, or look like another name. ``kept`` are characters to leave as they are.
    """
    if text.isprintable() and not _UNSEEN.search(text):
        return text
    return "".join(
        c if c in kept or (c.isprintable() and not _UNSEEN.match(c)) else ascii(c)[1:-1]
        for c in text
    )


class FleetVirtError(Exception):
    """Base of every error this collection raises on purpose; its text can be shown."""

    def __str__(self) -> str:
        return visible(super().__str__())


@dataclass(frozen=True)
class Problem:
    """One finding about the input: where it is (``vms[3].disks[0].size``) and what is wrong."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SpecError(FleetVirtError):
    """The input breaks rules; carries every problem found, a line each, not the first only."""

    def __init__(self, problems: t.Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class XmlError(FleetVirtError):
    """A document from libvirt or elsewhere is not XML that the collection accepts."""


class DependencyMissing(FleetVirtError):
    """Software that the hypervisor needs is not installed; names the distribution's package."""


class HostUnreachable(FleetVirtError):
    """No connection to libvirt at ``uri``: refused, stopped, forbidden or no response."""

    def __init__(self, uri: str, reason: str, code: int | None = None) -> None:
        self.uri = uri
        self.reason = reason
        self.code = code
        super().__init__(f"cannot connect to libvirt at {_place(uri)}: {reason}")


def _place(uri: str) -> str:
    """The URI; without the name of a script that is gone when somebody reads it."""
    scheme, transport, rest = uri.partition("+ext://")
    path = rest.partition("?")[0]
    return f"{scheme}://{path} through a command of the controller" if transport else uri


# The code of a failure for which libvirt has no code
NO_CODE = -1


class LibvirtFailure(FleetVirtError):
    """A libvirt call failed; keeps libvirt's code (virErrorNumber) and domain (virErrorDomain)."""

    def __init__(
        self, action: str, message: str, code: int = NO_CODE, domain: int = NO_CODE
    ) -> None:
        self.action = action
        self.code = code
        self.domain = domain
        super().__init__(f"{action}: {message}")


class DeadlineExceeded(FleetVirtError):
    """A call did not return within its limit; it may still be running on the other side."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what = what
        self.seconds = seconds
        super().__init__(f"{what}: no answer within {seconds:g} seconds")


class PlanRefused(FleetVirtError):
    """The request is well formed, but carrying it out here and now would be wrong or unsafe."""


def error_message(error: Exception) -> str:
    """The message for one of several tasks that ended with ``error``; the others go on."""
    if isinstance(error, FleetVirtError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        strerror = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        return visible(strerror)
    return visible(f"unexpected {type(error).__name__}: {error}; this is a bug in fleet.virt")
