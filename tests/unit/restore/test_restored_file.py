# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of guests: what is requested, who reads them, and how they come to the controller."""

from __future__ import annotations

import functools
import os
import stat
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    FleetVirtError,
    PlanRefused,
    SpecError,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    decide_file,
    effects_file,
    options_file,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options_file import (
    RestoreFileOptions,
    RestoreFileWork,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.backup import _restored_file
from ansible_collections.fleet.virt.tests.unit import _kill

_OPTIONS: RestoreFileOptions = {
    "name": "web1",
    "path": "/etc/fstab",
    "dest": "fstab",
    "archive": None,
    "place": "/srv/backup",
    "passphrase": "x",
    "ssh_key": None,
    "max_mib": 16,
}
_CONTENT = b"LABEL=root / ext4\n\x00\xff" * 1000


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"path": "etc/fstab"}, "is no such path"),
        ({"path": "/etc/../shadow"}, "is no such path"),
        ({"path": "/etc/fstab/"}, "is no such path"),
        ({"path": "//etc/fstab/."}, "is no such path"),
        ({"path": "/etc/\nfstab"}, "is no such path"),
        ({"path": ""}, "is no such path"),
        ({"name": ""}, "give -e vm_name=web1"),
        ({"dest": ""}, "-e virt_restore_to=fstab"),
        ({"max_mib": 0}, "give 1 to 64"),
        ({"max_mib": 65}, "give 1 to 64"),
    ],
)
def test_options_that_are_not_possible_are_refused(options: dict[str, t.Any], why: str) -> None:
    given: t.Any = {**_OPTIONS, **options}
    with pytest.raises(SpecError, match=why):
        options_file.file_options(given)
    assert options_file.file_options(_OPTIONS) == _OPTIONS


@pytest.mark.parametrize(
    ("output", "content"),
    [
        (b"true\n5\na\nb\nc", b"a\nb\nc"),
        (b"true\n0\n", b""),
        (b"false\n5\nabcde", "is no plain file of the guest"),
        (b"true\n5\nabcd", "was not read completely"),
        (b"true\n5\nabcdef", "was not read completely"),
        (b"true\n-5\nabcde", "was not read completely"),
        (b"true\n", "was not read completely"),
        (b"", "is no plain file of the guest"),
    ],
)
def test_file_that_was_not_read_completely_is_refused(output: bytes, content: bytes | str) -> None:
    if isinstance(content, bytes):
        assert effects_file.parsed(output, "/etc/fstab") == content
        return
    with pytest.raises(PlanRefused, match=content):
        effects_file.parsed(output, "/etc/fstab")


def test_hypervisor_that_can_read_is_chosen_and_none_is_refused_with_the_remedy() -> None:
    lacking: t.Any = {"lacks": ["guestfish is not installed; install the package guestfs-tools"]}
    answers: t.Any = {"hv1": lacking, "hv2": {"lacks": []}, "hv3": {"lacks": []}, "hv4": {}}
    assert decide_file.decide("web1", None, answers) == {"hv2": ["web1"]}
    assert decide_file.decide("web1", "hv3", answers) == {"hv3": ["web1"]}
    for host, why in (("hv1", "install the package"), ("hv4", "did not answer"), ("hv9", "hv1, ")):
        with pytest.raises(PlanRefused, match=why):
            decide_file.decide("web1", host, answers)
    with pytest.raises(PlanRefused, match="hv1: guestfish is not installed; install the package"):
        decide_file.decide("web1", None, {"hv1": lacking})


def test_module_without_libguestfs_refuses_before_it_opens_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed: t.Any = {"borg": "/usr/bin/borg", "unshare": "x", "setpriv": "x"}
    monkeypatch.setattr(effects_file.programs, "find", installed.get)
    with pytest.raises(PlanRefused, match="guestfish is not installed; install the package"):
        effects_file.run(_OPTIONS, RestoreFileWork(stage="act"))


def _written(path: Path) -> bytes | None:
    if not path.exists():
        return None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path.read_bytes()


def test_write_killed_at_any_step_leaves_the_file_or_none(tmp_path: Path) -> None:
    path = tmp_path / "fstab"
    write = functools.partial(_restored_file.write, str(path), _CONTENT, check=False)
    seen = set()
    old = os.umask(0)
    try:
        for _step in _kill.each_step(write, lambda: path.unlink(missing_ok=True)):
            before = _written(path)
            seen.add(before)
            for other in tmp_path.iterdir():
                assert stat.S_IMODE(other.stat().st_mode) & 0o077 == 0, other
            assert write() is (before is None)
            assert _written(path) == _CONTENT
    finally:
        os.umask(old)
    assert seen == {None, _CONTENT}


@pytest.mark.parametrize("check", [False, True])
def test_what_exists_is_not_overwritten(tmp_path: Path, *, check: bool) -> None:
    other, link, readable = tmp_path / "other", tmp_path / "link", tmp_path / "readable"
    other.write_bytes(b"somebody's")
    link.symlink_to(tmp_path / "nowhere")
    readable.write_bytes(_CONTENT)
    readable.chmod(0o644)
    for path in (other, link, readable, tmp_path):
        with pytest.raises(PlanRefused, match="refusing to overwrite it"):
            _restored_file.write(str(path), _CONTENT, check=check)
    assert other.read_bytes() == b"somebody's"
    assert link.is_symlink()
    assert not (tmp_path / "nowhere").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"other", "link", "readable"}


def test_check_mode_writes_nothing_and_refuses_as_the_run(tmp_path: Path) -> None:
    path = tmp_path / "fstab"
    assert _restored_file.write(str(path), _CONTENT, check=True) is True
    assert not list(tmp_path.iterdir())
    assert _restored_file.write(str(path), _CONTENT, check=False) is True
    for check in (True, False):
        assert _restored_file.write(str(path), _CONTENT, check=check) is False
        with pytest.raises(FleetVirtError, match="is no folder here; create it first"):
            _restored_file.write(f"{tmp_path}/none/fstab", _CONTENT, check=check)
