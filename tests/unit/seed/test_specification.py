# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The seed: what is always asked for, and what of it may be kept."""

from __future__ import annotations

import base64
import typing as t
from dataclasses import replace

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import Problem
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.public_keys import (
    public_key_problem,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.specification import (
    from_options,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import (
    HostKey,
    NicConfig,
    Seed,
    SeedFile,
    User,
)


def public_key(kind: str = "ssh-ed25519", says: str | None = None, comment: str = "me") -> str:
    inner = kind.encode()
    blob = len(inner).to_bytes(4, "big") + inner + b"\0\0\0\x20" + bytes(range(32))
    return f"{says or kind} {base64.b64encode(blob).decode()} {comment}"


KEY = public_key()
# in pieces: nothing in this file is a private key to a scanner either
PRIVATE = "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END"


def read(value: t.Any, keys: t.Sequence[str] = (KEY,)) -> tuple[Seed, list[Problem]]:
    problems: list[Problem] = []
    return from_options(value, "seed", keys, problems), problems


GOOD: list[tuple[t.Any, Seed]] = [
    (None, Seed(None, "ansible", (KEY,))),
    (True, Seed(None, "ansible", (KEY,))),
    ({}, Seed(None, "ansible", (KEY,))),
    ({"hostname": "web1.example.org"}, Seed("web1.example.org", "ansible", (KEY,))),
    ({"user": "root"}, Seed(None, "root", (KEY,))),
    ({"ssh_public_keys": [public_key(comment="b"), KEY, KEY]},
     Seed(None, "ansible", (public_key(comment="b"), KEY))),
    ({"ssh_public_keys": f"{KEY}\n\n{public_key('ssh-rsa')}\n"},
     Seed(None, "ansible", (KEY, public_key("ssh-rsa")))),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), GOOD, ids=lambda value: str(value)[:40])
def test_good(value: t.Any, expected: Seed) -> None:
    assert read(value) == (expected, [])


BAD: list[tuple[t.Any, str, str]] = [
    ([], "seed", "neither a mapping"),
    ({"hostname": "a b"}, "seed.hostname", "not allowed"),
    ({"hostname": 5}, "seed.hostname", "not a host name"),
    ({"user": "Ansible"}, "seed.user", "lowercase letters"),
    ({"user": "a" * 33}, "seed.user", "lowercase letters"),
    ({"user": "a:b"}, "seed.user", "lowercase letters"),
    ({"ssh_public_keys": []}, "seed.ssh_public_keys", "virt_ssh_public_key"),
    ({"ssh_public_keys": 5}, "seed.ssh_public_keys", "not a list"),
    ({"ssh_public_keys": [KEY, 5]}, "seed.ssh_public_keys[1]", "not text"),
    ({"ssh_public_key": KEY}, "seed.ssh_public_key", "did you mean ssh_public_keys?"),
    ({"password": "hunter2"}, "seed.password", "unknown option"),
]


@pytest.mark.parametrize(("value", "path", "words"), BAD, ids=lambda value: str(value)[:40])
def test_bad(value: t.Any, path: str, words: str) -> None:
    _, problems = read(value)
    assert [problem.path for problem in problems] == [path]
    assert words in problems[0].message
    assert "hunter2" not in problems[0].message


@pytest.mark.parametrize(
    "kind",
    ["ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp521",
     "sk-ssh-ed25519@openssh.com"],
)  # fmt: skip
def test_public_keys_of_every_kind_are_taken(kind: str) -> None:
    assert public_key_problem(public_key(kind)) is None
    assert public_key_problem(public_key(kind, comment="Jörg's key")) is None
    assert public_key_problem(public_key(kind).rsplit(" ", 1)[0]) is None


NO_KEYS: list[tuple[t.Any, str]] = [
    (PRIVATE, "PRIVATE key"),
    (PRIVATE.splitlines()[0], "PRIVATE key"),
    ("-----BEGIN CERTIFICATE-----", "PRIVATE key"),
    ("", "known type"),
    ("ssh-dss AAAA", "known type"),
    ('command="x" ' + KEY, "known type"),
    (f"{KEY}\n{KEY}", "more than one line"),
    (f"{KEY}\x85", "more than one line"),
    ("ssh-ed25519 !!!", "base64"),
    ("ssh-ed25519", "truncated"),
    ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", "truncated"),
    (public_key("ssh-rsa", says="ssh-ed25519"), "of a different type"),
]


@pytest.mark.parametrize(("text", "words"), NO_KEYS, ids=lambda value: repr(value)[:30])
def test_what_is_no_public_key_is_refused_and_never_shown(text: str, words: str) -> None:
    message = public_key_problem(text)
    assert message is not None
    assert words in message
    for part in (p for p in text.replace("\n", " ").split(" ") if len(p) > 12):
        assert part not in message


@pytest.mark.parametrize(
    "value", [PRIVATE, [PRIVATE], [KEY, PRIVATE]], ids=["text", "list", "second"]
)
def test_a_private_key_by_mistake_is_one_clear_error(value: t.Any) -> None:
    _, problems = read({"ssh_public_keys": value})
    assert len(problems) == 1
    assert "PRIVATE key" in problems[0].message
    assert "b3Bl" not in str(problems)


def test_a_host_key_shows_its_public_half_only() -> None:
    pair = HostKey(public=KEY, private=PRIVATE)
    assert KEY in repr(pair)
    assert "PRIVATE" not in repr(pair)
    assert "PRIVATE" not in str(pair)


SECRET = Seed(
    "web1",
    "ansible",
    (KEY,),
    password_hash="$6$salt$HUSH1",  # noqa: S106
    users=(User("alice", (KEY,), "$6$salt$HUSH2"),),
    files=(SeedFile("/etc/motd", "SFVTSDM="),),
    ca_certificates=("HUSH4",),
    commands=("echo HUSH5", ("echo", "HUSH6")),
    user_data='{"a": "HUSH7"}',
)


def test_what_is_kept_has_no_secret_and_changes_with_every_one_of_them() -> None:
    kept = SECRET.without_secrets("web1")
    assert "HUSH" not in repr(vars(kept))
    assert "SFVTSDM=" not in repr(vars(kept))
    assert (kept.users[0].name, kept.files[0].path) == ("alice", "/etc/motd")
    assert kept.secrets is not None
    changed = [
        {"password_hash": "$6$salt$OTHER"},
        {"users": (User("alice", (KEY,), "$6$salt$OTHER"),)},
        {"files": (SeedFile("/etc/motd", "T1RIRVI="),)},
        {"ca_certificates": ("OTHER",)},
        {"commands": ("echo OTHER",)},
        {"user_data": None},
    ]
    digests = {kept.secrets}
    for one in changed:
        digests.add(replace(SECRET, **one).without_secrets("web1").secrets)  # type: ignore[arg-type]
    assert len(digests) == 1 + len(changed)
    # not the same for two VMs, so that one guess is not one for all
    assert SECRET.without_secrets("web2").secrets not in digests
    assert replace(SECRET).without_secrets("web1") == kept


def test_a_seed_without_secrets_is_kept_as_it_is() -> None:
    seed = Seed("web1", "ansible", (KEY,), timezone="UTC", users=(User("alice"),))
    assert seed.without_secrets("web1") is seed


def test_no_secret_shows_in_a_representation() -> None:
    assert "HUSH" not in repr(SECRET)
    assert "SFVTSDM=" not in repr(SECRET)


def test_static_addresses_come_in_the_order_of_the_nics() -> None:
    network = (
        NicConfig("eth0", addresses=("192.0.2.1/24", "2001:db8::1/64")),
        NicConfig("eth1"),
        NicConfig("eth2", addresses=("198.51.100.7/32",)),
    )
    seed = Seed(network=network)
    assert seed.static_addresses == ("192.0.2.1", "2001:db8::1", "198.51.100.7")
