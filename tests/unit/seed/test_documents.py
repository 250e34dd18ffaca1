# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documents of a NoCloud medium, as cloud-init reads them."""

from __future__ import annotations

import base64
import json
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    documents as seed_documents,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import first_boot
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import (
    HostKey,
    Seed,
    SeededNic,
    SeedFile,
    User,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me"
# in pieces: nothing in this file is a private key to a scanner either
PRIVATE = "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END\n"
PAIR = HostKey(public="ssh-ed25519 AAAAhost web1", private=PRIVATE)
UUID = "6f0f7c2e-1111-4222-8333-444455556666"
NICS = [SeededNic("eth0", "52:01:02:03:04:05"), SeededNic("eth1", "52:01:02:03:04:06")]


def documents(seed: Seed, name: str = "web1") -> dict[str, t.Any]:
    """Each file as a YAML reader and a JSON reader see it; both see the same."""
    files = seed_documents.nocloud(seed, name, UUID, NICS, PAIR, b"noise")
    assert sorted(files) == ["meta-data", "network-config", "user-data"]
    assert files["user-data"].startswith(b"#cloud-config\n{")
    read = {file: yaml.safe_load(content) for file, content in files.items()}
    for file, content in files.items():
        assert json.loads(content.decode().replace("#cloud-config\n", "")) == read[file]
    return read


def user_data(seed: Seed, name: str = "web1") -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", documents(seed, name)["user-data"])


def test_the_least_seed() -> None:
    seed = Seed(None, "ansible", (KEY,))
    read = documents(seed)
    assert read["meta-data"] == {"instance-id": UUID, "local-hostname": "web1"}
    assert sorted(read["network-config"]["ethernets"]) == ["eth0", "eth1"]
    data = read["user-data"]
    assert data["users"] == [
        {
            "name": "ansible",
            "sudo": "ALL=(ALL) NOPASSWD:ALL",
            "lock_passwd": True,
            "ssh_authorized_keys": [KEY],
        }
    ]
    assert data["ssh_pwauth"] is False
    assert data["disable_root"] is True
    assert (data["hostname"], "fqdn" in data) == ("web1", False)
    assert data["growpart"] == {"mode": "auto", "devices": ["/"]}
    assert data["resize_rootfs"] is True
    for key in ("timezone", "locale", "ca_certs", "packages", "runcmd"):
        assert key not in data


def test_the_host_key_is_the_only_one() -> None:
    data = user_data(Seed(None, "ansible", (KEY,)))
    assert data["ssh_keys"] == {"ed25519_private": PRIVATE, "ed25519_public": PAIR.public}
    assert data["ssh_deletekeys"] is True


def test_random_numbers_are_the_vms_own() -> None:
    seeded = user_data(Seed(None, "ansible", (KEY,)))["random_seed"]
    assert base64.b64decode(seeded["data"]) == b"noise"
    assert (seeded["encoding"], seeded["file"]) == ("base64", "/dev/urandom")


def test_a_later_boot_without_the_medium_is_the_same_instance() -> None:
    data = user_data(Seed(None, "ansible", (KEY,), commands=("reboot",)))
    # cloud-init's status is "disabled" while the marker is there, so it is made in the end
    assert data["runcmd"][0] == "reboot"
    machine_id, report = data["bootcmd"]
    assert machine_id[3] == "machine-id"
    assert report[2:] == [first_boot.REPORT, "first-boot", "/etc/cloud/cloud-init.disabled"]
    file, *links = data["write_files"]
    assert [one["path"] for one in links] == list(seed_documents.links(NICS))
    assert file["path"].startswith("/etc/cloud/cloud.cfg.d/")
    assert yaml.safe_load(base64.b64decode(file["content"])) == {"manual_cache_clean": True}


def test_everything_at_once() -> None:
    seed = Seed(
        "db",
        "ansible",
        (KEY,),
        fqdn="db.example.org",
        sudo="ALL=(ALL) ALL",
        password_hash="$6$a$b",  # noqa: S106
        users=(User("alice", (KEY,), "$6$c$d", "ALL=(ALL) ALL", ("adm",), "/bin/sh"), User("bob")),
        timezone="Europe/Berlin",
        locale="de_DE.UTF-8",
        ca_certificates=("PEM\n",),
        files=(SeedFile("/a", "QQ==", "0600"), SeedFile("/b", "Qg==", owner="bob:bob")),
        packages=("nginx",),
        commands=("a; b", ("c", "d e")),
        grow_root=False,
        user_data=json.dumps(
            {
                "growpart": {"ignore_growroot_disabled": True},
                "runcmd": ["theirs"],
                "ssh_pwauth": True,
                "swap": {"size": 0},
            }
        ),
    )
    read = documents(seed, "db_1")
    assert read["meta-data"]["local-hostname"] == "db.example.org"
    data = read["user-data"]
    assert (data["hostname"], data["fqdn"]) == ("db", "db.example.org")
    assert data["users"] == [
        {
            "name": "ansible",
            "ssh_authorized_keys": [KEY],
            "sudo": "ALL=(ALL) ALL",
            "hashed_passwd": "$6$a$b",
            "lock_passwd": False,
        },
        {
            "name": "alice",
            "ssh_authorized_keys": [KEY],
            "sudo": "ALL=(ALL) ALL",
            "hashed_passwd": "$6$c$d",
            "lock_passwd": False,
            "groups": ["adm"],
            "shell": "/bin/sh",
        },
        {"name": "bob", "lock_passwd": True},
    ]
    assert (data["timezone"], data["locale"]) == ("Europe/Berlin", "de_DE.UTF-8")
    assert data["ca_certs"] == {"trusted": ["PEM\n"]}
    assert data["packages"] == ["nginx"]
    first, second = data["write_files"][1 + len(NICS) :]
    assert first == {
        "path": "/a", "content": "QQ==", "encoding": "b64", "owner": "root:root",
        "permissions": "0600",
    }  # fmt: skip
    assert second["owner"] == "bob:bob"
    assert second["defer"] is True
    # what the user wrote is added: lists behind ours, mappings by key, the rest as it is
    assert data["runcmd"] == first_boot.watched(["a; b", ["c", "d e"], "theirs"])
    assert data["growpart"] == {
        "mode": "off", "devices": ["/"], "ignore_growroot_disabled": True,
    }  # fmt: skip
    assert data["resize_rootfs"] is False
    assert data["ssh_pwauth"] is True
    assert data["swap"] == {"size": 0}


def test_root_as_the_user_may_log_in() -> None:
    data = user_data(Seed(None, "root", (KEY,)))
    assert data["disable_root"] is False
    assert data["users"] == [{"name": "root", "ssh_authorized_keys": [KEY]}]


NAMES = [
    (None, None, "web1", ("web1", None)),
    ("db", None, "web_1", ("db", None)),
    ("db.example.org", None, "web1", ("db", "db.example.org")),
    (None, "db.example.org", "web1", ("db", "db.example.org")),
    (None, None, "web1.example.org", ("web1", "web1.example.org")),
]


@pytest.mark.parametrize(("hostname", "fqdn", "name", "expected"), NAMES)
def test_host_names(
    hostname: str | None, fqdn: str | None, name: str, expected: tuple[str, str | None]
) -> None:
    assert seed_documents.host_names(Seed(hostname, fqdn=fqdn), name) == expected


def test_every_character_reads_the_same_in_yaml() -> None:
    awkward = "Jörg \U0001f511 \"x\" 'y' #z \x1b\x7f\x85\x9f\u2028\u2029\ufeff\ufffe\t\n: - {a} %b"
    data = user_data(Seed(None, "ansible", (KEY,), commands=(awkward,)))
    assert data["runcmd"][0] == awkward


def test_files_are_the_same_every_time() -> None:
    seed = Seed(None, "ansible", (KEY,))
    one, two = (seed_documents.nocloud(seed, "v", UUID, NICS, PAIR, b"x") for _ in range(2))
    assert one == two


MACHINE_IDS = [
    ("old\n", 1, "vm"),  # came with the image
    ("", 1, "vm"),
    ("made\n", None, "made"),  # by this boot
    (None, None, None),  # not a system with one
]


@pytest.mark.parametrize(("content", "age", "expected"), MACHINE_IDS)
def test_an_id_that_came_with_the_image_is_replaced(
    tmp_path: Path, content: str | None, age: int | None, expected: str | None
) -> None:
    """The script itself, with its paths in a folder: only what is older than the boot goes."""
    script = user_data(Seed(None, "ansible", (KEY,)))["bootcmd"][0]
    assert script[:2] == ["sh", "-c"]
    assert script[-1] == UUID.replace("-", "")
    file, stat = tmp_path / "machine-id", tmp_path / "stat"
    if content is not None:
        file.write_text(content)
    booted = int(tmp_path.stat().st_ctime) + (1000 if age else -1000)
    stat.write_text(f"cpu 1 2 3\nbtime {booted}\n")
    text = script[2].replace("/etc/machine-id", str(file)).replace("/proc/stat", str(stat))
    text = text.replace("/var/lib/dbus", str(tmp_path))
    subprocess.run(["sh", "-c", text, "machine-id", "vm"], check=True)
    assert (file.read_text().strip() if file.exists() else None) == expected
