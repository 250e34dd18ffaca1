# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemctl is asked and how its answers are taken; the real one is asked on a laboratory."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    DeadlineExceeded,
    DependencyMissing,
    PlanRefused,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_systemd as systemd,
)

_SYSTEMCTL = """\
#!/bin/sh
echo "$@" >>{words}
case "$*" in
  *slow*) exec sleep 60;;
  "is-active up"|"is-enabled up") echo yes;;
  *"show --property=A,B up") printf 'A=1\\nB=x=y\\n';;
  *) echo "no $*" >&2; exit 3;;
esac
"""


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "systemctl"
    program.write_text(_SYSTEMCTL.format(words=tmp_path / "words"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "words"


@pytest.mark.usefixtures("words")
def test_questions() -> None:
    assert (systemd.is_active("up"), systemd.is_active("down")) == (True, False)
    assert (systemd.is_enabled("up"), systemd.is_enabled("down")) == (True, False)
    assert systemd.properties("up", "A", "B") == {"A": "1", "B": "x=y"}
    with pytest.raises(PlanRefused, match="show --property=A down failed: no --no-pager show"):
        systemd.properties("down", "A")
    with pytest.raises(DeadlineExceeded, match="systemctl: no answer within"):
        systemd.is_active("slow", 0.2)


def test_units_that_need_not_be_there_are_ended(words: Path) -> None:
    systemd.stop("down")
    systemd.clear("down")
    asked = words.read_text().splitlines()
    assert asked == ["stop down", "stop down", "reset-failed down"]


def test_without_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    systemd.stop("up")
    assert not systemd.is_active("up")
    assert not systemd.is_enabled("up")
    with pytest.raises(DependencyMissing, match="systemctl is missing"):
        systemd.properties("up", "A")


def test_units_of_our_own() -> None:
    """At once it stays when it has ended; after some time it is exact, and forgotten."""
    program = ["/usr/bin/virsh", "-c", "qemu:///system"]
    quiet = ["systemd-run", "--quiet", "--unit=x"]
    found = systemd.own_unit("x", program, properties=["RemainAfterExit=yes"])
    assert found == [*quiet, "--property=RemainAfterExit=yes", "--", *program]
    timer = ["--collect", "--on-active=8.5s", "--timer-property=AccuracySec=100ms"]
    assert systemd.own_unit("x", program, after=8.5) == [*quiet, *timer, "--", *program]
