# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The seed: its options, and the NoCloud files as cloud-init reads them."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._errors import Problem
from ansible_collections.fleet.virt.plugins.module_utils._model.seed import (
    HostKey,
    Seed,
    SeededNic,
    from_options,
    nocloud,
    public_key_problem,
)


def public_key(kind: str = "ssh-ed25519", says: str | None = None, comment: str = "me") -> str:
    inner = kind.encode()
    blob = len(inner).to_bytes(4, "big") + inner + b"\0\0\0\x20" + bytes(range(32))
    return f"{says or kind} {base64.b64encode(blob).decode()} {comment}"


KEY = public_key()
# in pieces: nothing in this file is a private key to a scanner either
PRIVATE = "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END"
NICS = [SeededNic("eth0", "52:01:02:03:04:05"), SeededNic("eth1", "52:01:02:03:04:06")]


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
    ({"user": "Ansible"}, "seed.user", "small letters"),
    ({"user": "a" * 33}, "seed.user", "small letters"),
    ({"user": "a:b"}, "seed.user", "small letters"),
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
    ("ssh-ed25519", "cut short"),
    ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", "cut short"),
    (public_key("ssh-rsa", says="ssh-ed25519"), "of another type"),
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


def test_nocloud_files() -> None:
    seed = Seed(None, "ansible", (public_key(comment="Jörg \U0001f511 \"x\" 'y' #z"),))
    files = nocloud(seed, "web1", "6f0f7c2e", NICS)
    assert sorted(files) == ["meta-data", "network-config", "user-data"]
    assert files["user-data"].startswith(b"#cloud-config\n{")
    # JSON, and the same to a YAML reader: cloud-init uses one
    documents = {name: yaml.safe_load(content) for name, content in files.items()}
    for name, content in files.items():
        assert json.loads(content.decode().replace("#cloud-config\n", "")) == documents[name]
    assert documents["meta-data"] == {"instance-id": "6f0f7c2e", "local-hostname": "web1"}
    assert documents["network-config"] == {
        "version": 2,
        "ethernets": {
            "eth0": {
                "match": {"macaddress": "52:01:02:03:04:05"},
                "dhcp4": True,
                "dhcp-identifier": "mac",
            },
            "eth1": {
                "match": {"macaddress": "52:01:02:03:04:06"},
                "dhcp4": True,
                "dhcp-identifier": "mac",
                "optional": True,
            },
        },
    }
    user_data = documents["user-data"]
    assert user_data["users"] == [
        {
            "name": "ansible",
            "sudo": "ALL=(ALL) NOPASSWD:ALL",
            "lock_passwd": True,
            "ssh_authorized_keys": list(seed.ssh_public_keys),
        }
    ]
    assert user_data["ssh_pwauth"] is False
    assert user_data["disable_root"] is True
    assert user_data["hostname"] == "web1"
    assert "ssh_keys" not in user_data


def test_the_seeds_host_name_and_domain() -> None:
    files = nocloud(Seed("db.example.org", "ansible", (KEY,)), "db_1", "i", NICS)
    user_data = yaml.safe_load(files["user-data"])
    assert (user_data["hostname"], user_data["fqdn"]) == ("db", "db.example.org")
    assert yaml.safe_load(files["meta-data"])["local-hostname"] == "db.example.org"


def test_root_as_the_user_may_log_in() -> None:
    user_data = yaml.safe_load(nocloud(Seed(None, "root", (KEY,)), "v", "i", [])["user-data"])
    assert user_data["disable_root"] is False
    assert user_data["users"] == [{"name": "root", "ssh_authorized_keys": [KEY]}]


def test_a_host_key_is_the_only_one_and_shows_nowhere() -> None:
    pair = HostKey(public=KEY, private=PRIVATE)
    user_data = yaml.safe_load(nocloud(Seed(None, "a", (KEY,)), "v", "i", NICS, pair)["user-data"])
    assert user_data["ssh_keys"] == {"ed25519_private": PRIVATE, "ed25519_public": KEY}
    assert user_data["ssh_deletekeys"] is True
    assert "PRIVATE" not in repr(pair)
    assert "PRIVATE" not in str(pair)


def test_files_are_the_same_every_time() -> None:
    seed = Seed(None, "ansible", (KEY,))
    assert nocloud(seed, "v", "i", NICS) == nocloud(seed, "v", "i", NICS)
