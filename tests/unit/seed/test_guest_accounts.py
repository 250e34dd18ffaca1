# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Users of a guest whose disk is at hand."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import guest_accounts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.guest_accounts import (
    Accounts,
    Home,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import User

IMAGE = Accounts(
    "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:,,,:/home/user:/bin/sh\n",
    "root:*:19000:0:99999:7:::\nuser:$6$old:19000:0:99999:7:::\n",
    "root:x:0:\nadm:x:4:user\nuser:x:1000:\nbuilders:x:1001:\n",
    "root:*::\nadm:*::user\nuser:!::\nbuilders:!::\n",
)


def line(text: str, name: str) -> str:
    (found,) = [one for one in text.splitlines() if one.startswith(f"{name}:")]
    return found


def test_a_new_user() -> None:
    alice = User("alice", (), "$6$hash", groups=("adm", "docker"))
    after, (home,) = guest_accounts.with_users(IMAGE, [(alice, True)], "/bin/bash")
    # 1001 is a group's already: user and group have one number
    assert line(after.passwd, "alice") == "alice:x:1002:1002::/home/alice:/bin/bash"
    assert line(after.shadow, "alice") == "alice:$6$hash::0:99999:7:::"
    assert line(after.group, "alice") == "alice:x:1002:"
    assert line(after.group, "adm") == "adm:x:4:user,alice"
    assert line(after.group, "docker") == "docker:x:1003:alice"
    assert line(after.gshadow, "alice") == "alice:!::"
    assert line(after.gshadow, "docker") == "docker:!::alice"
    assert home == Home("alice", "/home/alice", 1002, 1002, True)
    for name in ("passwd", "shadow", "group"):
        before = getattr(IMAGE, name).splitlines()
        assert [one for one in getattr(after, name).splitlines() if one in before] == [
            one for one in before if not one.startswith("adm:")
        ]


@pytest.mark.parametrize(
    ("user", "lock", "secret"),
    [
        (User("new"), True, "!"),
        (User("new", password_hash="$6$a"), True, "$6$a"),  # noqa: S106
        (User("user"), True, "!$6$old"),
        (User("user", password_hash="$6$a"), True, "$6$a"),  # noqa: S106
        (User("root"), False, "*"),
        (User("root", password_hash="$6$a"), False, "$6$a"),  # noqa: S106
    ],
)
def test_passwords(user: User, lock: bool, secret: str) -> None:
    after, _homes = guest_accounts.with_users(IMAGE, [(user, lock)], "/bin/sh")
    assert line(after.shadow, user.name).split(":")[1] == secret
    assert line(after.passwd, user.name).split(":")[1] == "x"


def test_one_that_is_there_keeps_what_it_has() -> None:
    again = User("user", (), None, None, ("adm",), "/bin/zsh")
    after, (home,) = guest_accounts.with_users(IMAGE, [(again, True)], "/bin/bash")
    assert line(after.passwd, "user") == "user:x:1000:1000:,,,:/home/user:/bin/zsh"
    assert line(after.group, "adm") == "adm:x:4:user"
    assert home == Home("user", "/home/user", 1000, 1000, False)


def test_twice_is_once() -> None:
    users = [(User("alice", groups=("adm",)), True), (User("user"), True)]
    once, _homes = guest_accounts.with_users(IMAGE, users, "/bin/sh")
    twice, homes = guest_accounts.with_users(once, users, "/bin/sh")
    assert twice == once
    assert [home.new for home in homes] == [False, False]


def test_an_image_without_shadows() -> None:
    image = dataclasses.replace(IMAGE, shadow="", gshadow="")
    after, _homes = guest_accounts.with_users(image, [(User("user"), True)], "/bin/sh")
    assert after.shadow == "user:!::0:99999:7:::\n"
    assert after.gshadow == ""


def test_a_number_that_is_none_takes_no_number() -> None:
    """Of a superscript two Python says that it is a digit, and makes no number of it."""
    image = dataclasses.replace(IMAGE, passwd=IMAGE.passwd + "odd:x:\u00b2:0::/:/bin/sh\n")
    alice = User("alice", (), None)
    after, _homes = guest_accounts.with_users(image, [(alice, False)], "/bin/bash")
    assert line(after.passwd, "alice").startswith("alice:x:1002:")


def test_lines_of_nis_stay_last() -> None:
    image = dataclasses.replace(IMAGE, passwd=IMAGE.passwd + "+::::::\n")
    after, _homes = guest_accounts.with_users(image, [(User("alice"), True)], "/bin/sh")
    assert after.passwd.splitlines()[-1] == "+::::::"


@pytest.mark.parametrize(
    ("passwd", "words"),
    [
        ("user:x:1000\n", "/etc/passwd of the image has a line of 'user' with 3 fields"),
        ("user:x:many:1000::/home/user:/bin/sh\n", "the number 'many'"),
    ],
)
def test_a_damaged_file_is_refused(passwd: str, words: str) -> None:
    image = dataclasses.replace(IMAGE, passwd=passwd)
    with pytest.raises(PlanRefused, match=words):
        guest_accounts.with_users(image, [(User("user"), True)], "/bin/sh")


def test_no_secret_is_in_a_representation() -> None:
    assert "$6$old" not in repr(IMAGE)


@pytest.mark.parametrize(
    ("owner", "numbers"),
    [
        ("root:root", (0, 0)),
        ("user", (1000, 1000)),
        ("user:adm", (1000, 4)),
        ("postgres:postgres", None),
        ("user:postgres", None),
    ],
)
def test_numbers_of_an_owner(owner: str, numbers: tuple[int, int] | None) -> None:
    assert guest_accounts.ids(IMAGE, owner) == numbers


def test_rules_of_sudo() -> None:
    users = [(User("a", sudo="ALL=(ALL) ALL"), True), (User("b"), True)]
    assert guest_accounts.sudoers(users) == "a ALL=(ALL) ALL\n"
    assert guest_accounts.sudoers(users[1:]) == ""
