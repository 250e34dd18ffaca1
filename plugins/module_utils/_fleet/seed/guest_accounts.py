# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Users in a guest's disk: the texts of passwd(5), shadow(5), group(5), sudoers(5).

Does what useradd and usermod would do, without running any program of the guest.
"""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass, field
from .types import User

_FIRST, _LAST = 1000, 59999  # numbers of people's accounts (login.defs(5))
_PASSWD_FIELDS, _SHADOW_FIELDS, _GROUP_FIELDS = 7, 9, 4


@dataclass(frozen=True)
class Accounts:
    """The texts of the files; a file that the guest does not have is empty."""

    passwd: str
    shadow: str = field(repr=False)
    group: str
    gshadow: str = field(repr=False)


@dataclass(frozen=True)
class Home:
    """A user's home directory; ``new`` if the user was not in the image."""

    user: str
    path: str
    uid: int
    gid: int
    new: bool


class _Table:
    """Lines of fields separated by colons; other lines stay unchanged."""

    def __init__(self, text: str, path: str, width: int) -> None:
        self.path, self.width = path, width
        self.rows = [line.split(":") for line in text.splitlines()]

    def row(self, name: str) -> list[str] | None:
        fields = next((row for row in self.rows if row[0] == name and len(row) > 1), None)
        if fields is not None and len(fields) != self.width:
            raise PlanRefused(
                f"{self.path} of the image has a line of {name!r} with {len(fields)} fields instead"
                f" of {self.width}; repair the image"
            )
        return fields

    def add(self, *fields: str) -> list[str]:
        row = list(fields)
        at = next((i for i, row in enumerate(self.rows) if row[0][:1] in "+-" and row[0]), None)
        self.rows.insert(len(self.rows) if at is None else at, row)  # NIS lines stay last
        return row

    def number(self, row: t.Sequence[str], index: int) -> int:
        try:
            return int(row[index])
        except ValueError:
            raise PlanRefused(
                f"{self.path} of the image gives {row[0]!r} the number {row[index]!r}; repair the"
                " image"
            ) from None

    def numbers(self) -> set[int]:
        return {int(row[2]) for row in self.rows if len(row) > 2 and row[2].isdecimal()}

    def text(self) -> str:
        return "".join(":".join(row) + "\n" for row in self.rows)


def with_users(
    accounts: Accounts, users: t.Sequence[tuple[User, bool]], shell: str
) -> tuple[Accounts, list[Home]]:
    """The texts with these users in them, and each one's home.

    Each user comes with whether its password is to be locked if none is given. An existing user
    keeps UID, groups and home. ``shell`` is for new users without one.
    """
    passwd = _Table(accounts.passwd, "/etc/passwd", _PASSWD_FIELDS)
    shadow = _Table(accounts.shadow, "/etc/shadow", _SHADOW_FIELDS)
    group = _Table(accounts.group, "/etc/group", _GROUP_FIELDS)
    gshadow = _Table(accounts.gshadow, "/etc/gshadow", _GROUP_FIELDS)
    homes: list[Home] = []

    def gid_of(name: str, wanted: int | None = None) -> int:
        row = group.row(name)
        if row is None:
            taken = group.numbers()
            if wanted is None or wanted in taken:
                wanted = _free(taken | passwd.numbers(), name)
            row = group.add(name, "x", str(wanted), "")
        if accounts.gshadow and gshadow.row(name) is None:
            gshadow.add(name, "!", "", "")
        return group.number(row, 2)

    for user, lock in users:
        row = passwd.row(user.name)
        new = row is None
        if row is None:
            uid = _free(passwd.numbers() | group.numbers(), user.name)
            own = group.row(user.name)
            gid = gid_of(user.name, uid) if own is None else group.number(own, 2)
            home = f"/home/{user.name}"
            row = passwd.add(user.name, "x", str(uid), str(gid), "", home, user.shell or shell)
        elif user.shell is not None:
            row[6] = user.shell
        secret = shadow.row(user.name)
        if secret is None:
            before = row[1] if not new and row[1] != "x" else "!"
            # no date of the last change: the password never expires
            secret = shadow.add(user.name, before, "", "0", "99999", "7", "", "", "")
        row[1] = "x"
        if user.password_hash is not None:
            secret[1] = user.password_hash
        elif lock and not secret[1].startswith("!"):
            secret[1] = f"!{secret[1]}"
        for name in user.groups:
            gid_of(name)
            _join(group, name, user.name)
            if accounts.gshadow:
                _join(gshadow, name, user.name)
        uid, gid = passwd.number(row, 2), passwd.number(row, 3)
        homes.append(Home(user.name, row[5] or "/", uid, gid, new))
    return Accounts(passwd.text(), shadow.text(), group.text(), gshadow.text()), homes


def _free(taken: t.Container[int], name: str) -> int:
    for number in range(_FIRST, _LAST + 1):
        if number not in taken:
            return number
    raise PlanRefused(f"the image has no free UID or GID for {name!r} ({_FIRST} to {_LAST})")


def _join(table: _Table, name: str, user: str) -> None:
    row = table.row(name)
    if row is not None:
        members = [member for member in row[3].split(",") if member]
        row[3] = ",".join(members if user in members else [*members, user])


def sudoers(users: t.Sequence[tuple[User, bool]]) -> str:
    """A file for sudoers.d with the users' rules; empty if there are none."""
    return "".join(f"{user.name} {user.sudo}\n" for user, _lock in users if user.sudo is not None)


def ids(accounts: Accounts, owner: str) -> tuple[int, int] | None:
    """The UID and GID of ``user`` or ``user:group``; None if the guest does not have them yet."""
    name, colon, group_name = owner.partition(":")
    passwd = _Table(accounts.passwd, "/etc/passwd", _PASSWD_FIELDS)
    user = passwd.row(name)
    if user is None:
        return None
    gid = passwd.number(user, 3)
    if colon:
        group = _Table(accounts.group, "/etc/group", _GROUP_FIELDS)
        row = group.row(group_name)
        if row is None:
            return None
        gid = group.number(row, 2)
    return passwd.number(user, 2), gid
