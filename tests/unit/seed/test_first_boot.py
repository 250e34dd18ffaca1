# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a first boot: what is expected, what the guest runs, and what its console says."""

from __future__ import annotations

import json
import shlex
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import first_boot
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.first_boot import MARK
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import Seed


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (None, None),
        (Seed(), None),
        (Seed(commands=("true",)), "pending"),
        (Seed(packages=("nginx",)), "pending"),
        (Seed(user_data='{"runcmd": ["x"]}'), "pending"),
        (Seed(commands=("true",), method="offline"), "written"),
        (Seed(commands=("true",), method="auto"), "pending"),
        (Seed(commands=("apt upgrade -y && reboot",)), "unknown"),
        (Seed(commands=(("shutdown", "-r", "now"),)), "unknown"),
        (Seed(user_data='{"power_state": {"mode": "reboot"}}'), "unknown"),
    ],
)
def test_what_is_expected(seed: Seed | None, expected: str | None) -> None:
    assert first_boot.expected(seed) == expected


def shell(commands: t.Sequence[t.Any]) -> tuple[int, str]:
    """As cloud-init makes one script of them; its end and its output."""
    lines = [one if isinstance(one, str) else shlex.join(one) for one in commands]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


COMMANDS: list[tuple[list[t.Any], int, str]] = [
    (["true"], 0, ""),
    (["false"], 1, "fleet.virt: command 1 ended with 1\n"),
    (["false", ["echo", "on"]], 1, "fleet.virt: command 1 ended with 1\non\n"),
    (["value=7", "echo $value", ["sh", "-c", "exit 3"]], 1,
     "7\nfleet.virt: command 3 ended with 3\n"),
    (["set -e", "false", "echo never"], 1, ""),
    (["if true; then\n echo in\nfi"], 0, "in\n"),
    (["exit 4"], 4, ""),
]  # fmt: skip


@pytest.mark.parametrize(("commands", "status", "output"), COMMANDS, ids=str)
def test_any_command_that_fails_fails_all(commands: list[t.Any], status: int, output: str) -> None:
    assert shell(first_boot.watched(commands)) == (status, output)


@pytest.mark.parametrize(
    "commands",
    [
        ["cat <<END", "text", "END"],
        ["if true; then", "echo in", "fi"],
        ["for one in a b; do", "echo $one", "done"],
        ["echo a |", "cat"],
        ["true &&", "echo b"],
        ["case x in", "x) echo c", ";;", "esac"],
        ["echo a \\", "b"],
        [],
    ],
    ids=str,
)
def test_commands_that_are_parts_of_a_statement_are_left_alone(commands: list[t.Any]) -> None:
    assert first_boot.watched(commands) == commands


def result(*errors: str) -> str:
    return json.dumps({"v1": {"datasource": "NoCloud", "errors": list(errors)}})


# As cloud-init has it: the representation of an exception, in which line breaks are escaped
FAILED = (
    "('bootcmd', ProcessExecutionError('Failed.\\nCommand: [{}]\\nExit code: 1\\nStdout: HUSH'))"
)
# The command of an installation has more options than packages
INSTALL = ", ".join(
    repr(word)
    for word in (
        *("eatmydata", "apt-get", "--option=Dpkg::Options::=--force-confold", "--assume-yes"),
        *("install", "--no-remove", "one", "two", "no-such-package"),
    )
)
CONSOLES: list[tuple[str, list[str] | None]] = [
    ("", None),
    (f"boot\n{MARK} begun\nmore", None),
    (f"{MARK} begun\r\n{MARK} {result()}\r\n", []),
    (f"x {MARK} {result('one', 'two')}\n{MARK} {result('one', 'two')}\n", ["one", "two"]),
    (f"{MARK} {result('first')}\n{MARK} {result()}\n", []),
    (f'{MARK} {{"v1": {{"errors": ["cut o', ['{"v1": {"errors": ["cut o']),
    (f"{MARK} {result('one')}\n{MARK} {result('one')[:-4]} login: \n", ["one"]),  # torn
    (f"{MARK} {result('one')[:9]}\n{MARK} {result('one')}\n", ["one"]),
    (f"{MARK} {result()}\n{MARK} begun\n{MARK} torn\n", ["torn"]),  # of a later boot
    (f"{MARK} [1]", ["[1]"]),
    (f'{MARK} {{"v1": {{"errors": 7}}}}', ['{"v1": {"errors": 7}}']),
    (
        f"{MARK} {result(FAILED.format(chr(39) + 'HUSH' + chr(39)))}",
        ["('bootcmd', ProcessExecutionError('Failed.\\nExit code: 1"],
    ),
    (
        f"{MARK} {result(FAILED.format(INSTALL))}",
        [
            "('bootcmd', ProcessExecutionError('Failed. Packages: one, two, no-such-package."
            "\\nExit code: 1"
        ],
    ),
    (
        f"{MARK} {result(FAILED.format(chr(39) + 'install' + chr(39)) + 'install')}",
        ["('bootcmd', ProcessExecutionError('Failed.\\nExit code: 1"],
    ),
    (f"{MARK} {result('x' * 400)}", ["x" * 300 + "..."]),
    (f"{MARK} {result(*'abcdefg')}", ["a", "b", "c", "d", "e", "and 2 more"]),
    (MARK + result("a\n\x1b[31mb\u2028\ud800c"), ["a [31mb c"]),
]


@pytest.mark.parametrize(("text", "expected"), CONSOLES, ids=lambda value: str(value)[:40])
def test_what_the_console_says(text: str, expected: list[str] | None) -> None:
    assert first_boot.errors(text) == expected


def test_whether_the_guest_took_its_seed() -> None:
    assert first_boot.begun(f"a\n{MARK} begun\n")
    assert not first_boot.begun(f"a\n{MARK} {result()}\n")


def test_the_report_is_what_a_shell_takes_and_says_what_cloud_init_says(tmp_path: Path) -> None:
    """Without systemd; with it a unit runs the same script (a test on the laboratory)."""
    tty, marker = tmp_path / "console", tmp_path / "disabled"
    text = first_boot.REPORT.replace("/run/fleet-virt", str(tmp_path / "work"))
    text = text.replace("/run/cloud-init/result.json", str(tmp_path / "result"))
    text = text.replace("/dev/console /dev/ttyS0 /dev/ttyAMA0", str(tty))
    text = text.replace("[ ! -c ", "[ -z ").replace("> $place", ">> $place")
    text = text.replace("systemd-run ", f"{tmp_path}/none ").replace("< /dev/null > /dev/null", "")
    text = text.replace(" 2>&1 &", "")
    (tmp_path / "result").write_text(result("scripts-user"))
    subprocess.run(["sh", "-c", text, "first-boot", marker], check=True, timeout=30)
    said = tty.read_text()
    assert first_boot.begun(said)
    assert first_boot.errors(said) == ["scripts-user"]
    assert marker.exists()


IGNORED = {
    "Debian GNU/Linux 12 debian ttyS0\r\n\r\ndebian login: ": True,
    "login: ": True,
    "[   12.1] cloud-init[300]: Cloud-init v. 22.4.2\ndebian login: ": False,
    "ci-info: no authorized keys\ndebian login: ": False,
    f"{MARK} begun\ndebian login: ": False,
    "last login: never\nbooting": False,
    "": False,
}


@pytest.mark.parametrize(("text", "expected"), IGNORED.items(), ids=IGNORED)
def test_a_console_without_a_word_of_cloud_init(text: str, expected: bool) -> None:
    assert first_boot.is_ignored(text) is expected
