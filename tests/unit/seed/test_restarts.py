# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which seeds restart the guest: by their commands and keys, not by the words in them."""

from __future__ import annotations

import itertools
import json
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import first_boot
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import Seed

# Each ends the boot
RESTARTS = [
    "reboot",
    "/sbin/reboot",
    "reboot -f",
    "shutdown -r now",
    "shutdown -h +1",
    "poweroff",
    "halt -p",
    "init 6",
    "telinit 0",
    "kexec -e",
    "systemctl reboot",
    "systemctl --no-block reboot",
    "systemctl isolate reboot.target",
    "systemctl start reboot.target",
    "echo b > /proc/sysrq-trigger",
]
# Each is run, with %s in its place
AROUND = [
    "%s",
    "  %s  # for the kernel",
    "apt-get -y upgrade && %s",
    "true; %s",
    "sleep 5\n%s",
    "(sleep 5; %s) &",
    "{ %s; }",
    "if [ -e /run/x ]; then\n  %s\nfi",
    "test -e /run/x || %s",
    "sudo %s",
    "sudo -n env A=b %s",
    "/usr/bin/sudo -u root /usr/bin/nice %s",
    "chroot /host %s",
    "nohup %s &",
    "systemd-run --on-active=5 %s",
    "timeout 5m nice -n 10 %s",
    "sh -c '%s'",
    "bash -euc 'echo x; %s'",
    "eval '%s'",
    "cat > /etc/x <<'EOF'\nsaid\nEOF\n%s",
    "sh <<EOF\n%s\nEOF",
    "echo '%s' # a comment\n%s",
]
# None is run
HARMLESS = [
    "echo %s",
    "echo 'now; %s'",
    "# %s",
    "true # then %s",
    "printf '%%s\\n' \"%s\" > /etc/motd",
    "cat > /usr/local/bin/x <<'EOF'\n%s\nEOF",
    "cat > /usr/local/bin/x <<-EOF\n\t%s\n\tEOF\ntrue",
    "logger --tag x '%s'",
    "sudo /bin/echo %s",
    "grep -q '%s' /etc/crontab",
]
NEVER = [
    "touch /var/run/reboot-required",
    "shutdown -c",
    "systemctl enable reboot-guard.service",
    "systemctl restart sshd",
    "apt-get install -y reboot-notifier halt-tools",
    "init 3",
    "echo '@reboot root /x' > /etc/cron.d/x",
    "sed -i s/reboot/poweroff/ /etc/x",
]


def _expected(**given: t.Any) -> str | None:
    if "user_data" in given:
        given["user_data"] = json.dumps(given["user_data"])
    return first_boot.expected(Seed(**given))


@pytest.mark.parametrize("around", AROUND)
def test_command_that_restarts_makes_the_end_unknown(around: str) -> None:
    for command in RESTARTS:
        text = around.replace("%s", command)
        assert _expected(commands=(text,)) == "unknown", text
        assert _expected(commands=("true", ("sh", "-c", text))) == "unknown", text
        for key in ("runcmd", "bootcmd"):
            assert _expected(user_data={key: ["true", text]}) == "unknown", text


@pytest.mark.parametrize("around", HARMLESS)
def test_word_in_a_text_that_is_not_run_changes_nothing(around: str) -> None:
    for command in RESTARTS[:-1]:  # the last one redirects into the kernel, wherever it stands
        text = around.replace("%s", command)
        assert _expected(commands=(text, ("echo", command))) == "pending", text
        assert _expected(user_data={"runcmd": [text, ["echo", command]]}) == "pending", text


@pytest.mark.parametrize("command", NEVER)
def test_command_that_only_mentions_a_restart_is_waited_for(command: str) -> None:
    assert _expected(commands=(command,)) == "pending"
    assert _expected(commands=(tuple(command.split()),)) == "pending"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"power_state": {"mode": "reboot"}}, "unknown"),
        ({"power_state": {"mode": "poweroff", "condition": "test -e /x"}}, "unknown"),
        ({"power_state": {"mode": "reboot", "condition": False}}, "pending"),
        ({"package_reboot_if_required": True}, "unknown"),
        ({"package_reboot_if_required": False}, "pending"),
        ({"runcmd": [["reboot"]]}, "unknown"),
        ({"runcmd": [None, ["systemctl", "reboot"]]}, "unknown"),
        ({"runcmd": [["echo", "reboot"]]}, "pending"),
        ({"write_files": [{"path": "/x", "content": "reboot\n"}]}, "pending"),
        ({"final_message": "reboot when you like; power_state is yours"}, "pending"),
        ({"hostname": "reboot", "runcmd": "reboot"}, "pending"),
    ],
)
def test_keys_of_cloud_init_are_judged(data: dict[str, object], expected: str) -> None:
    assert _expected(user_data=data) == expected


def test_quotation_without_an_end_is_judged_by_its_words() -> None:
    assert _expected(commands=("echo 'never ends; reboot",)) == "unknown"
    assert _expected(commands=("echo 'never ends",)) == "pending"


def test_judging_ends() -> None:
    nested = "reboot"
    for _level in range(8):
        nested = f"sh -c {json.dumps(nested)}"
    assert _expected(commands=(nested,)) in ("pending", "unknown")
    for mixed in itertools.product("'\"\\`;#\n<$(", repeat=3):
        _expected(commands=("".join(mixed),))
