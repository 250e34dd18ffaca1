# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a seed that few requests have: each good value, and each bad one with its path."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import time
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._errors import Problem
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import network as seed_network
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.specification import (
    from_options,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import (
    ALL_SUDO,
    Seed,
    SeededNic,
    SeedFile,
    User,
)

KEY = (
    "ssh-ed25519 "
    + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(range(32))).decode()
)
HASH = "$6$rounds=5000$saltsalt$" + "a" * 86
DER = base64.b64encode(b"\x30\x82\x00\x04\x02\x02\x01\x02").decode()
PEM = f"-----BEGIN CERTIFICATE-----\n{DER}\n-----END CERTIFICATE-----"


def read_yaml(text: str) -> t.Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError("this is not YAML") from None


def read(
    value: t.Any, reader: t.Callable[[str], t.Any] | None = read_yaml
) -> tuple[Seed, list[Problem]]:
    problems: list[Problem] = []
    return from_options(value, "seed", (KEY,), problems, reader), problems


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


GOOD: list[tuple[str, t.Any, t.Any]] = [
    ("fqdn", "web1.example.org", "web1.example.org"),
    ("fqdn", f"{'a' * 63}.{'b' * 63}.{'c' * 63}", f"{'a' * 63}.{'b' * 63}.{'c' * 63}"),
    ("sudo", True, ALL_SUDO),
    ("sudo", "no", None),
    ("sudo", "ALL=(ALL) ALL", "ALL=(ALL) ALL"),
    ("password_hash", HASH, HASH),
    (
        "password_hash",
        "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o",
        "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o",
    ),
    ("users", [{"name": "alice"}], (User("alice"),)),
    ("users", json.dumps([{"name": "alice"}]), (User("alice"),)),
    (
        "users",
        [
            {
                "name": "bob",
                "ssh_public_keys": [KEY],
                "password_hash": HASH,
                "sudo": "yes",
                "groups": "adm,users",
                "shell": "/bin/bash",
            }
        ],
        (User("bob", (KEY,), HASH, ALL_SUDO, ("adm", "users"), "/bin/bash"),),
    ),
    ("timezone", "Europe/Berlin", "Europe/Berlin"),
    ("timezone", "America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
    ("timezone", "Etc/GMT+5", "Etc/GMT+5"),
    ("locale", "de_DE.UTF-8", "de_DE.UTF-8"),
    ("locale", "ca_ES.UTF-8@valencia", "ca_ES.UTF-8@valencia"),
    ("locale", "C.UTF-8", "C.UTF-8"),
    ("ca_certificates", PEM, (PEM + "\n",)),
    ("ca_certificates", [f"{PEM}\n{PEM}\n"], (PEM + "\n",)),
    (
        "files",
        [{"path": "/etc/motd", "content": "Grüße\n"}],
        (SeedFile("/etc/motd", b64("Grüße\n")),),
    ),
    (
        "files",
        [{"path": "/k", "content": "AAEC", "encoding": "base64", "mode": "600", "owner": "a:b"}],
        (SeedFile("/k", "AAEC", "0600", "a:b"),),
    ),
    ("files", [{"path": "/a..b/c", "content": ""}], (SeedFile("/a..b/c", ""),)),
    (
        "packages",
        ["qemu-guest-agent", "libstdc++6", "nginx=1.22.1-9"],
        ("qemu-guest-agent", "libstdc++6", "nginx=1.22.1-9"),
    ),
    (
        "commands",
        ["systemctl start x", ["touch", "/a file"], "if a; then\n  b\nfi\n"],
        ("systemctl start x", ("touch", "/a file"), "if a; then\n  b\nfi\n"),
    ),
    ("grow_root", "false", False),
    ("user_data", {"swap": {"size": 0}}, '{"swap": {"size": 0}}'),
    ("user_data", "#cloud-config\nswap: {size: 0}\n", '{"swap": {"size": 0}}'),
    ("user_data", '{"swap": {"size": 0}}', '{"swap": {"size": 0}}'),
]


@pytest.mark.parametrize(("key", "value", "expected"), GOOD, ids=lambda value: str(value)[:30])
def test_good(key: str, value: t.Any, expected: t.Any) -> None:
    seed, problems = read({key: value})
    assert problems == []
    assert getattr(seed, key) == expected


BAD: list[tuple[str, t.Any, str, str]] = [
    ("fqdn", "web1", "fqdn", "no domain"),
    ("fqdn", f"{'a' * 64}.example.org", "fqdn", "1 to 63"),
    ("fqdn", "web1..org", "fqdn", "1 to 63"),
    ("fqdn", "web_1.example.org", "fqdn", "1 to 63"),
    ("fqdn", "web1.-a.org", "fqdn", "1 to 63"),
    ("fqdn", ".".join(["a" * 63] * 4), "fqdn", "253"),
    ("fqdn", 5, "fqdn", "not a name"),
    ("hostname", "a" * 64, "hostname", "at most 63"),
    ("sudo", "#1", "sudo", "a rule"),
    ("sudo", "a: b", "sudo", "a rule"),
    ("password_hash", "HUSHHUSH", "password_hash", "openssl passwd -6"),
    ("password_hash", "$6$salt:HUSHHUSH", "password_hash", "openssl passwd -6"),
    ("password_hash", "$1$saltsalt$HUSHHUSHHUSH", "password_hash", "openssl passwd -6"),
    ("password_hash", "!", "password_hash", "openssl passwd -6"),
    ("users", "alice", "users", "not a list"),
    ("users", '[{"name": "HUSHHUSH"', "users", "not JSON"),
    ("commands", '["HUSHHUSH"', "commands", "not JSON"),
    ("files", '[{"HUSHHUSH"', "files", "not JSON"),
    ("users", ["alice"], "users[0]", "not a mapping"),
    ("users", [{}], "users[0].name", "needs a name"),
    ("users", [{"name": "Alice"}], "users[0].name", "lowercase letters"),
    ("users", [{"name": "ansible"}], "users[0].name", "given twice"),
    ("users", [{"name": "a"}, {"name": "a"}], "users[1].name", "given twice"),
    ("users", [{"name": "a", "password": "HUSHHUSH"}], "users[0].password", "unknown option"),
    ("users", [{"name": "a", "password_hash": "HUSHHUSH"}], "users[0].password_hash", "shadow"),
    ("users", [{"name": "a", "shell": "bash"}], "users[0].shell", "absolute path"),
    ("users", [{"name": "a", "groups": ["a b"]}], "users[0].groups[0]", "lowercase letters"),
    (
        "users",
        [{"name": "a", "ssh_public_keys": ["HUSHHUSH"]}],
        "users[0].ssh_public_keys[0]",
        "known type",
    ),
    ("timezone", "../../etc/passwd", "timezone", "Europe/Berlin"),
    ("timezone", "/Europe/Berlin", "timezone", "Europe/Berlin"),
    ("locale", "german", "locale", "de_DE.UTF-8"),
    ("ca_certificates", 5, "ca_certificates", "not a list"),
    ("ca_certificates", ["HUSHHUSH"], "ca_certificates[0]", "not a PEM"),
    ("ca_certificates", [PEM, 5], "ca_certificates[1]", "not text"),
    (
        "ca_certificates",
        [PEM.replace("\n-----END CERTIFICATE-----", "")],
        "ca_certificates[0]",
        "truncated",
    ),
    ("ca_certificates", [PEM.replace(DER, DER[:-4])], "ca_certificates[0]", "damaged"),
    (
        "ca_certificates",
        ["-----BEGIN " + "PRIVATE KEY-----\nHUSHHUSH"],
        "ca_certificates[0]",
        "PRIVATE",
    ),
    ("files", {"path": "/x"}, "files", "not a list"),
    ("files", ["HUSHHUSH"], "files[0]", "not a mapping"),
    ("files", [{"content": ""}], "files[0].path", "needs a path"),
    ("files", [{"path": "etc/motd", "content": ""}], "files[0].path", "absolute"),
    ("files", [{"path": "/etc/../motd", "content": ""}], "files[0].path", "absolute"),
    ("files", [{"path": "/etc/", "content": ""}], "files[0].path", "absolute"),
    ("files", [{"path": "/x"}], "files[0].content", "needs content"),
    ("files", [{"path": "/x", "content": 5}], "files[0].content", "not text"),
    (
        "files",
        [{"path": "/x", "content": "HUSH!HUSH", "encoding": "base64"}],
        "files[0].content",
        "not base64",
    ),
    ("files", [{"path": "/x", "content": "\ud800"}], "files[0].content", "UTF-8"),
    (
        "files",
        [{"path": "/x", "content": "a" * (1024 * 1024 + 1)}],
        "files[0].content",
        "bytes are more",
    ),
    (
        "files",
        [{"path": "/x", "content": "", "encoding": "gzip"}],
        "files[0].encoding",
        "not one of",
    ),
    ("files", [{"path": "/x", "content": "", "mode": 420}], "files[0].mode", "in quotes"),
    ("files", [{"path": "/x", "content": "", "mode": "rw"}], "files[0].mode", "octal"),
    ("files", [{"path": "/x", "content": "", "owner": "a b"}], "files[0].owner", "user:group"),
    (
        "files",
        [{"path": "/x", "content": ""}, {"path": "/x", "content": ""}],
        "files[1].path",
        "twice",
    ),
    ("packages", ["nginx; HUSH"], "packages[0]", "package manager"),
    ("packages", ["--download"], "packages[0]", "package manager"),
    ("commands", "HUSHHUSH", "commands", "not a list"),
    ("commands", [""], "commands[0]", "neither"),
    ("commands", [[]], "commands[0]", "neither"),
    ("commands", [["HUSH", 5]], "commands[0]", "neither"),
    ("commands", [{"HUSH": 1}], "commands[0]", "neither"),
    ("commands", ["a\0b"], "commands[0]", "neither"),
    ("grow_root", "perhaps", "grow_root", "neither true nor false"),
    ("user_data", "a: [HUSH", "user_data", "not YAML"),
    ("user_data", "HUSHHUSH", "user_data", "not a mapping"),
    ("user_data", [1], "user_data", "not a mapping"),
    ("user_data", {1: 2}, "user_data", "not text"),
    ("user_data", "a: 2020-01-01", "user_data", "in quotes"),
    ("user_data", "#!/bin/sh\necho HUSH", "user_data", "of a kind other than"),
    ("user_data", "Content-Type: multipart/mixed", "user_data", "of a kind other than"),
    ("user_data", "## template: jinja\n#cloud-config\na: 1", "user_data", "of a kind other than"),
    (
        "user_data",
        {"ssh_keys": {"rsa_private": "HUSH"}},
        "user_data.ssh_keys",
        "known before it boots",
    ),
    ("user_data", {"ssh_deletekeys": False}, "user_data.ssh_deletekeys", "known before it boots"),
    ("user_data", {"hostname": "HUSH"}, "user_data.hostname", "set hostname"),
    (
        "user_data",
        {"manual_cache_clean": False},
        "user_data.manual_cache_clean",
        "preserves the VM's identity",
    ),
]


@pytest.mark.parametrize(("key", "value", "path", "words"), BAD, ids=lambda value: repr(value)[:30])
def test_bad(key: str, value: t.Any, path: str, words: str) -> None:
    _seed, problems = read({key: value})
    assert [problem.path for problem in problems] == [f"seed.{path}"]
    assert words in problems[0].message
    assert "HUSHHUSH" not in problems[0].message


def test_every_problem_is_found_at_once() -> None:
    value = {key: value for key, value, _path, _words in BAD if key not in ("hostname", "fqdn")}
    _seed, problems = read({**value, "hostname": "a b", "fqdn": "x", "nonsense": 1})
    wrong = {problem.path.split(".", 1)[1].split("[")[0].split(".")[0] for problem in problems}
    assert wrong == {*value, "hostname", "fqdn", "nonsense"}


def test_host_name_and_full_name_agree() -> None:
    for hostname in ("web1", "web1.example.org"):
        assert read({"hostname": hostname, "fqdn": "web1.example.org"})[1] == []
    (problem,) = read({"hostname": "web2", "fqdn": "web1.example.org"})[1]
    assert problem.path == "seed.fqdn"
    assert "does not begin with hostname" in problem.message


def _doubled(times: int, inner: t.Any) -> dict[str, t.Any]:
    """A mapping of a variables file whose anchors are each used twice by the next."""
    for _time in range(times):
        inner = [inner, inner]
    return {"a": inner}


@pytest.mark.parametrize(
    "value",
    [_doubled(60, ["x"]), {"a": [{"b": "x" * 1_000_000}] * 5}, {"a": ["x" * 1000] * 5000}],
    ids=["lists", "texts", "many"],
)
def test_a_mapping_is_measured_before_it_is_expanded(value: t.Any) -> None:
    begun = time.process_time()  # not the clock's: others may have the processors
    _seed, problems = read({"user_data": value})
    assert time.process_time() - begun < 10
    (problem,) = problems
    assert problem.path == "seed.user_data"
    assert problem.message == (
        "with its aliases expanded this has more than 4194304 characters; shorten it"
    )


def test_a_mapping_with_aliases_is_taken() -> None:
    seed, problems = read({"user_data": _doubled(10, "x")})
    assert (problems, str(seed.user_data).count("x")) == ([], 1024)


def test_a_mapping_that_contains_itself_or_has_no_end() -> None:
    own: dict[str, t.Any] = {}
    own["a"] = [own]
    deep: t.Any = "x"
    for _time in range(5000):
        deep = [deep]
    for value in (own, {"a": deep}):
        (problem,) = read({"user_data": value})[1]
        assert "contains itself, or is nested too deeply" in problem.message


def test_a_hypervisor_needs_no_yaml() -> None:
    seed, problems = read({"user_data": '#cloud-config\n{"a": 1}'}, None)
    assert (seed.user_data, problems) == ('{"a": 1}', [])
    _seed, problems = read({"user_data": "a: 1"}, None)
    assert "not JSON" in problems[0].message


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"method": "magic"}, "'magic' is not one of nocloud, offline, auto"),
        ({"method": "offline", "user_data": {"swap": {}}}, "cloud-init reads it, and method off"),
    ],
)
def test_methods(value: dict[str, t.Any], words: str) -> None:
    _seed, problems = read(value)
    assert len(problems) == 1
    assert words in problems[0].message


def test_the_guides_seeds_are_some() -> None:
    guide = Path(__file__).parents[3] / "docs" / "docsite" / "rst" / "seeding.rst"
    text = guide.read_text(encoding="utf-8")
    blocks = re.findall(r"code-block:: yaml\n\n((?:    .*\n|\n)+)", text)
    shown = [one for one in blocks if one.strip().startswith("seed:")]
    assert len(shown) == 2
    nics = [SeededNic("eth0", "52:00:00:00:00:01"), SeededNic("eth1", "52:00:00:00:00:02")]
    for block in shown:
        seed, problems = read(yaml.safe_load(block)["seed"])
        assert problems == []
        assert seed_network.problems(seed, nics, "seed") == []
    # every option is explained
    known = {field.name for field in dataclasses.fields(Seed)} - {"secrets"}
    assert {option for option in known if f"``{option}``" not in text} == set()
