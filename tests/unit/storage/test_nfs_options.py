# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NFS for disks of VMs: which mount options are safe, and what is said of the others."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.nfs_options import (
    LOCKS,
    LOOKUPS,
    SOFT,
    VERSION,
    NfsSource,
    lockless,
    problems,
    weaknesses,
)

MOUNTED = (
    "rw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys,"
    "clientaddr=192.0.2.11,lookupcache=none,local_lock=none,addr=192.0.2.5"
)
SAFE = ["vers=4.1", "hard", "lookupcache=none"]
WITH = [
    (MOUNTED.split(","), []),
    (SAFE, []),
    (["nfsvers=4.2", "lookupcache=none"], []),  # hard and with locks unless told otherwise
    (["vers=4", "minorversion=1", "lookupcache=none"], []),
    (["v4.2", "lookupcache=none"], []),
    (["soft", "nolock", *SAFE, "lock"], []),  # the last one counts
    ([*SAFE, "local_lock=none"], []),
    (["vers=10.0", "lookupcache=none"], []),
    ([], [VERSION, LOOKUPS]),
    (["lookupcache=none"], [VERSION]),
    (["vers=3", "lookupcache=none"], [VERSION]),
    (["vers=4", "lookupcache=none"], [VERSION]),
    (["nfsvers=4.0", "lookupcache=none"], [VERSION]),
    (["v3", "lookupcache=none"], [VERSION]),
    (["vers=4", "minorversion=0", "lookupcache=none"], [VERSION]),
    ([*SAFE, "vers=3"], [VERSION]),
    ([*SAFE, "soft"], [SOFT]),
    ([*SAFE, "softerr"], [SOFT]),
    ([*SAFE, "nolock"], [LOCKS]),
    ([*SAFE, "local_lock=all"], [LOCKS]),
    ([*SAFE, "local_lock=posix"], [LOCKS]),
    ([*SAFE, "local_lock=flock"], [LOCKS]),
    (["vers=4.1"], [LOOKUPS]),
    ([*SAFE, "lookupcache=all"], [LOOKUPS]),
    ([*SAFE, "lookupcache=pos"], [LOOKUPS]),
    (["vers=3", "soft", "nolock"], [VERSION, SOFT, LOCKS, LOOKUPS]),
]


@pytest.mark.parametrize(("options", "expected"), WITH, ids=[",".join(row[0]) for row in WITH])
def test_options_of_nfs_are_judged(options: list[str], expected: list[str]) -> None:
    assert [weak.id for weak in weaknesses(options)] == expected


@pytest.mark.parametrize(("options", "expected"), WITH, ids=[",".join(row[0]) for row in WITH])
def test_lookups_make_no_lock_weak(options: list[str], expected: list[str]) -> None:
    assert len(lockless(options)) == len({*expected} - {LOOKUPS})


def test_required_options_leave_no_weakness() -> None:
    source = NfsSource("nas1", "/export")
    assert weaknesses([f"nfsvers={source.version}", *source.mount_options]) == []
    assert problems(source) == []
    more = ("nconnect=4", "sec=krb5p", "proto=tcp6", "noatime")
    assert problems(NfsSource("2001:db8::1", "/", "4.1", more)) == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (NfsSource("", "/e"), "server: ''"),
        (NfsSource("a b", "/e"), "server: 'a b'"),
        (NfsSource("a", "e"), "export: 'e' is not the absolute path"),
        (NfsSource("a", "/e", "3"), "version: '3' is none of 4.2, 4.1"),
        (NfsSource("a", "/e", options=("soft",)), "options: soft: a write"),
        (NfsSource("a", "/e", options=("nolock",)), "options: nolock: locks are held on this"),
        (NfsSource("a", "/e", options=("local_lock=all",)), "options: local_lock=all: locks"),
        (NfsSource("a", "/e", options=("vers=3",)), "options: vers=3 is none to choose"),
        (NfsSource("a", "/e", options=("v3",)), "options: v3 is none to choose"),
        (NfsSource("a", "/e", options=("lookupcache=pos",)), "lookupcache=pos is none to choose"),
        (NfsSource("a", "/e", options=("ro,soft",)), "'ro,soft' is not one mount option"),
        (NfsSource("a", "/e", options=("ro soft",)), "'ro soft' is not one mount option"),
    ],
)
def test_source_that_is_not_safe_is_refused_with_the_reason(source: NfsSource, words: str) -> None:
    (text,) = problems(source)
    assert words in text
