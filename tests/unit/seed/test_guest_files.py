# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A seed as what is written into an image."""

from __future__ import annotations

import base64
import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import guest_files
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.guest_image import Image
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import (
    HostKey,
    NicConfig,
    Seed,
    SeededNic,
    SeedFile,
    User,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me"
# in pieces: nothing in this file is a private key to a scanner either
PRIVATE = "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END\n"
PAIR = HostKey(public="ssh-ed25519 AAAAhost web1", private=PRIVATE)
NICS = [SeededNic("eth0", "52:01:02:03:04:05")]
IMAGE = Image(
    "debian 12", python=True, sshd=True, sudo=True, network="networkd", manager="apt-get", bash=True
)
FILES = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
    "/etc/shadow": "root:*:19000:0:99999:7:::\n",
    "/etc/group": "root:x:0:\nadm:x:4:\n",
    "/etc/hosts": "127.0.0.1 localhost\n127.0.1.1 image\n::1 ip6-localhost\n",
    "/etc/ssh/sshd_config": "Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n",
    "/etc/sudoers": "Defaults env_reset\n@includedir /etc/sudoers.d\n",
    "/usr/share/zoneinfo/Europe/Berlin": "zone",
    "/usr/lib/systemd/system/systemd-networkd.service": "unit",
    "/usr/lib/systemd/system/systemd-networkd-wait-online.service": "unit",
}
SEED = Seed(None, "ansible", (KEY,))


def plan(
    seed: Seed = SEED,
    image: Image = IMAGE,
    files: t.Mapping[str, str] = FILES,
    nics: t.Sequence[SeededNic] = NICS,
    links: t.Mapping[str, str] | None = None,
) -> guest_files.GuestFilesPlan:
    there = {**dict.fromkeys(files, ""), **(links or {})}
    return guest_files.plan(
        seed, "web1", nics, PAIR, image, lambda path: files.get(path, ""), there.get
    )


def written(found: guest_files.GuestFilesPlan) -> dict[str, str]:
    assert len({file.path for file in found.files}) == len(found.files)
    return {file.path: file.content.decode() for file in found.files}


def file(found: guest_files.GuestFilesPlan, path: str) -> guest_files.GuestFile:
    (one,) = [one for one in found.files if one.path == path]
    return one


def test_the_least_seed() -> None:
    found = plan()
    texts = written(found)
    assert sorted(texts) == [
        "/etc/group",
        "/etc/hostname",
        "/etc/hosts",
        "/etc/machine-id",
        "/etc/passwd",
        "/etc/shadow",
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/ssh/ssh_host_ed25519_key.pub",
        "/etc/ssh/sshd_config.d/10-fleet-virt.conf",
        "/etc/sudoers.d/90-fleet-virt",
        "/etc/systemd/network/05-fleet-virt-eth0.network",
        "/etc/systemd/system/fleet-virt-first-boot.service",
        "/home/ansible/.ssh/authorized_keys",
        "/var/lib/fleet-virt/first-boot",
    ]
    assert texts["/etc/hostname"] == "web1\n"
    assert texts["/etc/hosts"] == "127.0.0.1 localhost\n127.0.1.1 web1\n::1 ip6-localhost\n"
    assert texts["/etc/machine-id"] == ""
    assert texts["/etc/sudoers.d/90-fleet-virt"] == "ansible ALL=(ALL) NOPASSWD:ALL\n"
    assert texts["/home/ansible/.ssh/authorized_keys"] == f"{KEY}\n"
    assert "PasswordAuthentication no" in texts["/etc/ssh/sshd_config.d/10-fleet-virt.conf"]
    assert [home.path for home in found.homes] == ["/home/ansible"]
    assert dict(found.links) == {
        "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service": (
            "/usr/lib/systemd/system/systemd-networkd.service"
        ),
        "/etc/systemd/system/network-online.target.wants/systemd-networkd-wait-online.service": (
            "/usr/lib/systemd/system/systemd-networkd-wait-online.service"
        ),
        "/etc/systemd/system/multi-user.target.wants/fleet-virt-first-boot.service": (
            "/etc/systemd/system/fleet-virt-first-boot.service"
        ),
    }


@pytest.mark.parametrize(
    ("path", "mode", "owner"),
    [
        ("/etc/ssh/ssh_host_ed25519_key", 0o600, (0, 0)),
        ("/etc/ssh/ssh_host_ed25519_key.pub", 0o644, (0, 0)),
        ("/etc/sudoers.d/90-fleet-virt", 0o440, (0, 0)),
        ("/home/ansible/.ssh/authorized_keys", 0o600, (1000, 1000)),
        ("/var/lib/fleet-virt/first-boot", 0o700, (0, 0)),
        ("/etc/hostname", 0o644, (0, 0)),
    ],
)
def test_modes_and_owners(path: str, mode: int, owner: tuple[int, int]) -> None:
    one = file(plan(), path)
    assert (one.mode, (one.uid, one.gid)) == (mode, owner)


def test_no_secret_is_in_a_representation() -> None:
    assert "PRIVATE KEY" not in repr(plan())


def test_what_two_of_one_image_would_share_goes() -> None:
    dhcp = ("/var/lib/dhcp/*.lease*", "/var/lib/dhcpcd*/duid", "/var/lib/wicked/*.xml")
    for path in ("/etc/ssh/ssh_host_*", "/var/lib/systemd/random-seed", *dhcp):
        assert path in plan().removed
    linked = dict(plan(links={"/var/lib/dbus": ""}).links)
    assert linked["/var/lib/dbus/machine-id"] == "/etc/machine-id"


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ("Include /etc/ssh/sshd_config.d/*.conf\n", "/etc/ssh/sshd_config.d/10-fleet-virt.conf"),
        ("", "/etc/ssh/sshd_config.d/10-fleet-virt.conf"),
        ("PasswordAuthentication yes\n", "/etc/ssh/sshd_config"),
        ("#Include /etc/ssh/sshd_config.d/*.conf\n", "/etc/ssh/sshd_config"),
    ],
)
def test_the_ssh_server_shows_the_key_that_was_made(config: str, path: str) -> None:
    text = written(plan(files={**FILES, "/etc/ssh/sshd_config": config}))[path]
    begin = "# Made by fleet.virt.\nHostKey /etc/ssh/ssh_host_ed25519_key\nPasswordAuthentication"
    assert text.startswith(begin)
    assert text.endswith(config if path.endswith("_config") else "no\n")


def test_everything_at_once() -> None:
    seed = Seed(
        "db",
        "ansible",
        (KEY,),
        fqdn="db.example.org",
        sudo="ALL=(ALL) ALL",
        password_hash="$6$a$b",  # noqa: S106
        users=(User("alice", (KEY,), None, None, ("adm",), "/bin/sh"),),
        network=(NicConfig(name="eth0", dhcp4=False, addresses=("192.0.2.1/24",)),),
        dns_servers=("192.0.2.53",),
        timezone="Europe/Berlin",
        locale="de_DE.UTF-8",
        ca_certificates=("PEM\n",),
        files=(
            SeedFile("/etc/a", "QQ==", "0600"),
            SeedFile("/etc/b", "Qg==", owner="alice:adm"),
            SeedFile("/etc/c", "Qw==", "0640", owner="postgres"),
        ),
        packages=("postgresql",),
        commands=("a; b",),
    )
    trust = "/usr/local/share/ca-certificates"
    found = plan(
        seed,
        dataclasses.replace(IMAGE, trust=trust, cloud_init=True),
        {**FILES, "/etc/timezone": "Etc/UTC\n", "/etc/selinux/config": "SELINUX=enforcing\n"},
    )
    texts = written(found)
    assert texts["/etc/hosts"].splitlines()[1] == "127.0.1.1 db.example.org db"
    assert texts["/etc/hostname"] == "db\n"
    assert texts["/etc/timezone"] == "Europe/Berlin\n"
    assert dict(found.links)["/etc/localtime"] == "../usr/share/zoneinfo/Europe/Berlin"
    assert texts["/etc/default/locale"] == "LANG=de_DE.UTF-8\n"
    assert texts[f"{trust}/fleet-virt-1.crt"] == "PEM\n"
    assert texts["/var/lib/fleet-virt/commands"].startswith("#!/bin/sh\na; b\n")
    assert "/etc/cloud/cloud-init.disabled" in texts
    assert "/.autorelabel" in texts
    assert "nameserver 192.0.2.53\n" in texts["/etc/resolv.conf"]
    assert "alice:x:1001:1001::/home/alice:/bin/sh\n" in texts["/etc/passwd"]
    assert "ansible:$6$a$b:" in texts["/etc/shadow"]
    owners = {path: file(found, path) for path in ("/etc/a", "/etc/b", "/etc/c")}
    assert [(one.mode, one.uid, one.gid) for one in owners.values()] == [
        (0o600, 0, 0),
        (0o644, 1001, 4),
        (0o600, 0, 0),  # until its owner is there
    ]
    assert "chown postgres /etc/c && chmod 0640 /etc/c\n" in texts["/var/lib/fleet-virt/first-boot"]


def test_a_file_of_the_users_counts_as_the_images() -> None:
    hosts = base64.b64encode(b"127.0.0.1 localhost\n192.0.2.7 db\n").decode()
    key = "/etc/ssh/ssh_host_ed25519_key"
    found = plan(
        dataclasses.replace(SEED, files=(SeedFile("/etc/hosts", hosts), SeedFile(key, hosts)))
    )
    texts = written(found)
    assert texts["/etc/hosts"] == "127.0.0.1 localhost\n127.0.1.1 web1\n192.0.2.7 db\n"
    assert texts[key] == PRIVATE


def test_a_home_that_is_there_is_not_made_anew() -> None:
    passwd = FILES["/etc/passwd"] + "ansible:x:1000:1000::/srv/ansible:/bin/sh\n"
    files = {**FILES, "/etc/passwd": passwd, "/srv/ansible/.ssh/authorized_keys": "theirs\n"}
    found = plan(files=files)
    assert found.homes == ()
    assert written(found)["/srv/ansible/.ssh/authorized_keys"] == f"theirs\n{KEY}\n"
    assert "/srv/ansible" not in [folder.path for folder in found.folders]


def test_a_sudoers_file_that_reads_no_folder_is_told_to() -> None:
    texts = written(plan(files={**FILES, "/etc/sudoers": "Defaults env_reset\n"}))
    assert texts["/etc/sudoers"] == "Defaults env_reset\n#includedir /etc/sudoers.d\n"
    assert "/etc/sudoers" not in written(plan())


@pytest.mark.parametrize(
    ("network", "links", "there"),
    [
        ("networkd", {}, True),
        ("ifupdown", {}, True),
        ("networkmanager", {}, False),
        ("networkd", {"/etc/resolv.conf": "../run/systemd/resolve/stub-resolv.conf"}, False),
    ],
)
def test_resolv_conf(network: str, links: dict[str, str], there: bool) -> None:
    seed = dataclasses.replace(SEED, dns_servers=("192.0.2.53",))
    found = plan(seed, dataclasses.replace(IMAGE, network=network), links=links)
    assert ("/etc/resolv.conf" in written(found)) is there


def test_a_vm_without_nics_needs_no_network() -> None:
    texts = written(plan(image=dataclasses.replace(IMAGE, network=None), nics=()))
    assert not [path for path in texts if "/network/" in path]


@pytest.mark.parametrize(
    ("change", "files", "words"),
    [
        ({"timezone": "Europe/Nowhere"}, FILES, "has no time zone 'Europe/Nowhere'"),
        ({"ca_certificates": ("PEM",)}, FILES, "no known location for CA certificates"),
        ({"user_data": "{}"}, FILES, "user_data is read by cloud-init"),
        ({}, {**FILES, "/etc/passwd": ""}, "no /etc/passwd"),
    ],
)
def test_what_cannot_be_done_in_this_image(
    change: dict[str, t.Any], files: dict[str, str], words: str
) -> None:
    with pytest.raises(PlanRefused, match=words):
        plan(dataclasses.replace(SEED, **change), files=files)


def test_a_copy_of_a_disk_is_nobodys() -> None:
    found = guest_files.anonymous({"/var/lib/dbus": ""}.get)
    assert {"/etc/ssh/ssh_host_*", "/var/lib/cloud/*", "/etc/cloud/cloud-init.disabled"} <= set(
        found.removed
    )
    assert [(file.path, file.content, file.mode) for file in found.files] == [
        ("/etc/machine-id", b"", 0o444)
    ]
    assert found.links == (("/var/lib/dbus/machine-id", "/etc/machine-id"),)
    assert guest_files.anonymous({}.get).links == ()
