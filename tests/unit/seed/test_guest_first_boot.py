# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a guest without cloud-init does at its first boot."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    first_boot,
    guest_first_boot,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.guest_image import Image
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import Seed, User

FULL = Image("debian 12", python=True, sshd=True, sudo=True, manager="apt-get")
BARE = Image("debian 12", manager="apt-get")
NOTHING = Seed(grow_root=False)


@pytest.mark.parametrize(
    ("seed", "image", "wanted"),
    [
        (Seed(), FULL, []),
        (Seed(packages=("nginx",)), FULL, ["nginx"]),
        (Seed(), BARE, ["openssh-server", "python3", "sudo"]),
        (Seed(sudo=None), BARE, ["openssh-server", "python3"]),
        (Seed(user="root"), BARE, ["openssh-server", "python3"]),
        (
            Seed(user="root", users=(User("a", sudo="ALL=(ALL) ALL"),)),
            BARE,
            ["openssh-server", "python3", "sudo"],
        ),
        (Seed(packages=("python3", "nginx")), BARE, ["openssh-server", "python3", "sudo", "nginx"]),
        (Seed(), dataclasses.replace(BARE, manager="pacman"), ["openssh", "python", "sudo"]),
        (Seed(), dataclasses.replace(FULL, manager=None), []),
    ],
)
def test_what_is_installed(seed: Seed, image: Image, wanted: list[str]) -> None:
    assert guest_first_boot.packages(seed, image) == wanted


def test_without_a_package_manager_what_is_missing_is_named() -> None:
    image = Image("debian 12", sshd=True)
    with pytest.raises(
        PlanRefused, match="lacks Python, sudo, nginx, and has no supported package manager"
    ):
        guest_first_boot.packages(Seed(packages=("nginx",)), image)


def test_nothing_to_do_is_no_script() -> None:
    assert guest_first_boot.script(NOTHING, FULL) == ("", False)
    assert guest_first_boot.commands(NOTHING) == ""


def test_growing_needs_no_network() -> None:
    text, online = guest_first_boot.script(Seed(), FULL)
    assert "resize2fs" in text
    assert not online
    assert "network-online" not in guest_first_boot.unit(online=online)
    assert "After=network-online.target" in guest_first_boot.unit(online=True)


@pytest.mark.parametrize("manager", ["apt-get", "dnf", "yum", "zypper", "pacman"])
def test_packages_are_installed_by_whatever_there_is(manager: str) -> None:
    image = dataclasses.replace(FULL, manager=manager)
    text, online = guest_first_boot.script(Seed(packages=("a-b", "c")), image)
    (line,) = [line for line in text.splitlines() if " a-b c || problem " in line]
    assert f"{manager} " in line
    assert online


def test_all_of_it_is_what_a_shell_takes(tmp_path: Path) -> None:
    seed = Seed(
        locale="de_DE.UTF-8",
        ca_certificates=("PEM",),
        packages=("nginx",),
        commands=("a 'b", ("touch", "/a file")),
    )
    image = dataclasses.replace(BARE, trust="/usr/local/share/ca-certificates")
    later = [("www-data:adm", "0640", "/etc/it's")]
    text, _online = guest_first_boot.script(seed, image, later)
    script = tmp_path / "script"
    script.write_text(text)
    subprocess.run(["sh", "-n", script], check=True)
    assert "\nupdate-ca-certificates\n" in text
    assert "'^de_DE[.]UTF-8( .*)?$'" in text
    assert """chown www-data:adm '/etc/it'"'"'s' && chmod 0640""" in text
    # what precedes the commands can be done twice, what follows is done once
    order = ["apt-get -q update", "chown", "rm -f", "/bin/sh /proc/self/fd/3"]
    assert [text.index(word) for word in order] == sorted(text.index(word) for word in order)


def test_commands_are_one_script_as_cloud_inits(tmp_path: Path) -> None:
    seed = Seed(commands=("value=7", ("echo", "a b"), "echo $value"))
    script = tmp_path / "commands"
    script.write_text(guest_first_boot.commands(seed))
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=True)
    assert done.stdout == "a b\n7\n"


def test_the_script_goes_before_the_commands_begin(tmp_path: Path) -> None:
    folder = tmp_path / "fleet-virt"
    folder.mkdir()
    seed = dataclasses.replace(NOTHING, commands=(f"ls {folder} || echo gone", "echo end"))
    text, _online = guest_first_boot.script(seed, FULL)
    here = str(folder)
    text = text.replace(guest_first_boot.FOLDER, here).replace("/etc/systemd", f"{here}/etc")
    (folder / "commands").write_text(guest_first_boot.commands(seed))
    (folder / "first-boot").write_text(text)
    done = subprocess.run(["sh", folder / "first-boot"], capture_output=True, text=True, check=True)
    assert done.stdout == "gone\nend\n"
    assert not folder.exists()


@pytest.mark.parametrize(
    ("commands", "packages", "expected"),
    [
        (("true",), (), []),
        (("false", "true"), (), ["a command failed; the journal of the unit has its output"]),
        ((), ("no'such",), ["these packages were not installed: no'such"]),
    ],
)
def test_its_end_and_what_failed_are_told_on_the_console(
    tmp_path: Path, commands: tuple[str, ...], packages: tuple[str, ...], expected: list[str]
) -> None:
    (tmp_path / "commands").write_text("")
    seed = dataclasses.replace(NOTHING, commands=commands, packages=packages)
    text, _online = guest_first_boot.script(seed, dataclasses.replace(FULL, manager="dnf"))
    console = tmp_path / "console"
    for place in ("/dev/console", "/dev/ttyS0"):
        text = text.replace(place, str(console))
    text = text.replace("[ ! -c ", "[ -z ").replace("/dev/ttyAMA0", "/dev/null")
    text = text.replace("> $place", ">> $place").replace("dnf -q", "/nonexistent")
    text = text.replace(guest_first_boot.FOLDER, str(tmp_path)).replace("/etc/systemd", "/x")
    text = text.replace(f"rm -rf {tmp_path}\n", "").replace(f"rmdir {tmp_path}\n", "")
    (tmp_path / "commands").write_text(guest_first_boot.commands(seed))
    (tmp_path / "first-boot").write_text(text)
    subprocess.run(["sh", tmp_path / "first-boot"], capture_output=True, check=False)
    assert first_boot.errors(console.read_text()) == expected
