# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said of a backup, from what was seen of it."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import archives
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import verdict
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.verdict import (
    CRASHED,
    ENDED,
    READ_ERROR,
    SHUT_OFF,
    Evidence,
)

_WHY = "its QEMU has no machine type 'pc-q35-99.0'"


@pytest.mark.parametrize(
    ("seen", "proof", "words"),
    [
        (Evidence(agent="web1", seconds=9), archives.BOOTED, "agent: web1 after 9 s"),
        (
            Evidence(agent="web1", login=True, screen=True, seconds=9, read=True),
            archives.BOOTED,
            "agent: web1, console: login prompt, screenshot after 9 s; every byte was read back",
        ),
        (Evidence(login=True), archives.BOOTED, "console: login prompt"),
        (Evidence(damage="disks/vda.raw", agent="web1"), archives.FAILED, "damaged: disks/vda.raw"),
        (Evidence(not_started=_WHY, read=True), archives.READ_BACK, f"cannot boot here: {_WHY}"),
        (Evidence(not_started=_WHY), "", "it was not read"),
        (Evidence(stopped=CRASHED), archives.FAILED, "does not boot: it crashed"),
        (
            Evidence(printed="Kernel panic - not syncing: VFS"),
            archives.FAILED,
            "does not boot: it crashed, its console's last line: Kernel panic - not syncing: VFS",
        ),
        (Evidence(stopped=SHUT_OFF), archives.FAILED, "does not boot: it shut itself off"),
        (Evidence(stopped=READ_ERROR, read=True), "", "could not be read, and yet"),
        (Evidence(stopped=ENDED, expected=True), "", "its QEMU did not end by its guest"),
        (Evidence(stopped=ENDED, printed="Kernel panic - not syncing"), "", "try again"),
        (Evidence(expected=True, limit=60), archives.FAILED, "nothing in it answered within 60 s"),
        (Evidence(printed="boot:", limit=60), archives.FAILED, "its console's last line: boot:"),
        (Evidence(read=True), archives.READ_BACK, "whether it boots cannot be asked"),
    ],
)
def test_evidence_has_its_verdict(seen: Evidence, proof: str, words: str) -> None:
    result = verdict.judge(seen)
    assert result.proof == proof
    assert words in result.how


@pytest.mark.parametrize(
    ("seen", "needed"),
    [
        (Evidence(agent="web1"), False),
        (Evidence(login=True), False),
        (Evidence(not_started=_WHY), True),
        (Evidence(not_started=_WHY, read=True), False),
        (Evidence(stopped=READ_ERROR), True),
        (Evidence(stopped=ENDED), False),
        (Evidence(), True),
        (Evidence(expected=True), False),
        (Evidence(printed="boot:"), False),
        (Evidence(damage="disks/vda.raw"), False),
    ],
)
def test_backup_without_verdict_is_read(seen: Evidence, needed: bool) -> None:
    assert verdict.must_be_read(seen) is needed
    if needed:
        assert not verdict.judge(seen).proof, "nothing is said of it unless it was read"


_LOG = (
    "char device redirected to /dev/pts/0\n2026-11-28 14:09:47.100+0000: shutting down, reason={}"
)


@pytest.mark.parametrize(
    ("log", "how"),
    [
        (_LOG.format("shutdown"), SHUT_OFF),
        (_LOG.format("crashed"), ENDED),
        (_LOG.format("destroyed"), ENDED),
        (f"{_LOG.format('shutdown')}\n{_LOG.format('crashed')}", ENDED),
        ("qemu-system-x86_64: terminating on signal 15", ENDED),
        ("", ENDED),
    ],
)
def test_guest_shut_itself_off_only_where_libvirt_says_so(log: str, how: str) -> None:
    assert verdict.stopped(log) == how


@pytest.mark.parametrize(
    ("line", "login"),
    [
        ("web1 login: ", True),
        ("login:", True),
        ("web1.example.org login: root (automatic login)", True),
        ("Last login: Sat Nov 28 06:51:18 on ttyS0", False),
        ("systemd[1]: Started login: the service", False),
        ("tiny# ", False),
        ("grub> ", False),
        ("(initramfs) ", False),
    ],
)
def test_login_prompt_is_recognised(line: str, login: bool) -> None:
    assert verdict.is_login(line) is login


def test_words_of_guests_are_printable() -> None:
    printed = "\x1b[31mboot:\n<script>" + "x" * 5000
    how = verdict.judge(Evidence(printed=printed, limit=1)).how
    assert how.isprintable()
    assert len(how) < 1000
