# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemctl is asked and how its answers are taken; the real one is asked on a laboratory."""

from __future__ import annotations

import contextlib
import time
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


_FAILING = """\
#!/bin/sh
case "$*" in
  *"--no-pager start libvirtd.service")
    left=$(cat {folder}/left)
    echo "$((left - 1))" >{folder}/left
    [ "$left" -gt 0 ] || exit 0
    echo "A dependency job for libvirtd.service failed." >&2
    exit 1;;
  *--property=Requires*libvirtd*) echo "Requires=virtlogd.socket system.slice";;
  *"--property=Id,"*) printf 'Id=virtlogd.socket\\nLoadState=loaded\\nActiveState=failed\\n\\n'
    printf 'Id=system.slice\\nLoadState=loaded\\nActiveState=active\\n';;
  *"enable --now x.timer") echo "no such unit" >&2; exit 1;;
esac
"""
_JOURNAL = """\
#!/bin/sh
echo "$@" >>{folder}/asked
case "$*" in
  *_SYSTEMD_UNIT=virtlogd.socket*) printf '\\nvirtlogd.socket:   too often\\n%0400d\\n' 0;;
esac
"""


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A daemon that starts when it was tried ``left`` times more."""
    for name, text in (("systemctl", _FAILING), ("journalctl", _JOURNAL)):
        program = tmp_path / name
        program.write_text(text.format(folder=tmp_path))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    return tmp_path


def test_unit_that_fails_is_named_with_the_journal_of_what_it_needs(failing: Path) -> None:
    (failing / "left").write_text("9")
    with pytest.raises(PlanRefused) as refused:
        systemd.systemctl("start", "libvirtd.service")
    message = str(refused.value)
    assert "start libvirtd.service failed: A dependency job for libvirtd.service" in message
    assert "; its journal: virtlogd.socket: too often | 000" in message
    assert len(message) < 600, "a line has a length"
    asked = (failing / "asked").read_text()
    assert "--since=@" in asked
    assert "_SYSTEMD_UNIT=libvirtd.service _SYSTEMD_UNIT=virtlogd.socket +" in asked
    assert "system.slice" not in asked, "it did not fail"


def test_unit_without_a_journal_is_named_without_lines(
    failing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PlanRefused, match=r"enable --now x\.timer failed: no such unit$"):
        systemd.systemctl("enable", "--now", "x.timer")
    (failing / "journalctl").unlink()
    monkeypatch.setenv("PATH", str(failing))  # no journalctl at all
    with pytest.raises(PlanRefused, match=r"failed: no such unit$"):
        systemd.systemctl("enable", "--now", "x.timer")


@pytest.mark.parametrize(("left", "starts"), [(1, True), (2, True), (3, False)])
def test_daemon_whose_start_fails_once_is_started_again(
    failing: Path, left: int, starts: bool
) -> None:
    (failing / "left").write_text(str(left))
    with contextlib.nullcontext() if starts else pytest.raises(PlanRefused, match="too often"):
        systemd.restart("libvirtd.service", ["libvirtd.socket"])


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
