# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What people read of a move, and what of a hypervisor's words gets that far."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import progress

_MIB = 1024 * 1024


def test_a_line_says_memory_and_disks_with_rate_and_time_left() -> None:
    stats: dict[str, int | str] = {
        "data_total": 200 * _MIB,
        "data_processed": 60 * _MIB,
        "data_remaining": 150 * _MIB,
        "memory_total": 120 * _MIB,
        "memory_processed": 30 * _MIB,
        "memory_remaining": 100 * _MIB,
        "disk_total": 80 * _MIB,
        "disk_processed": 30 * _MIB,
        "disk_remaining": 50 * _MIB,
        "time_elapsed": 3000,
        "memory_dirty_rate": 512,
        "memory_page_size": 4096,
    }
    assert progress.line("web1", stats) == (
        "web1: 25 %, memory 20.0 of 120.0 MiB, disk 30.0 of 80.0 MiB, 20.0 MiB/s, changes"
        " 2.0 MiB/s, 8 s left"
    )


@pytest.mark.parametrize(
    ("stats", "text"),
    [
        ({}, "web1: 0 %, 0.0 of 0.0 MiB, 0.0 MiB/s"),
        (
            {"data_total": 10 * _MIB, "data_remaining": 10 * _MIB, "time_elapsed": 0},
            "web1: 0 %, 0.0 of 10.0 MiB, 0.0 MiB/s",
        ),
        # hardly begun: any estimate would be one of weeks
        (
            {"data_total": 400 * _MIB, "data_remaining": 392 * _MIB, "data_processed": 400}
            | {"time_elapsed": 3000},
            "web1: 2 %, 8.0 of 400.0 MiB, 0.0 MiB/s",
        ),
        # more is left than there was: the guest has changed it again
        (
            {"memory_total": _MIB, "memory_remaining": 2 * _MIB, "data_total": _MIB}
            | {"data_remaining": 2 * _MIB},
            "web1: 0 %, memory 0.0 of 1.0 MiB, 0.0 MiB/s",
        ),
    ],
)
def test_libvirt_tells_only_a_part(stats: dict[str, int | str], text: str) -> None:
    assert progress.line("web1", stats) == text


def test_lines_are_shown_once_and_whole() -> None:
    news = progress.News(["web1", "web2"])
    first = progress.encode("web1", "web1: 10 %")
    assert news.take(b"\n" + first[:7], 0.0) == []
    assert news.take(first[7:] + progress.encode("web2", "web2: 5 %"), 1.0) == [
        "web1: 10 %",
        "web2: 5 %",
    ]
    assert news.take(first, 9.0) == [], "it was shown"
    assert news.take(progress.encode("web1", "web1: 20 %"), 12.0) == ["web1: 20 %"]


def test_what_comes_last_is_shown_in_the_end() -> None:
    news = progress.News(["web1", "web2"])
    news.take(progress.encode("web1", "web1: 20 %"), 0.0)
    assert news.late("web1", ["web1: 10 %", "web1: 20 %", "web1: 90 %"]) == ["web1: 90 %"]
    assert news.late("web1", ["web1: 10 %", "web1: 20 %"]) == []
    # nothing of it could be shown on the way
    assert news.late("web2", [f"web2: {n} %" for n in range(9)]) == [
        "web2: 6 %",
        "web2: 7 %",
        "web2: 8 %",
    ]
    assert news.late("web3", ["web3: \x1b[2J"]) == [r"web3: \x1b[2J"]


def test_a_hypervisors_words_move_no_cursor() -> None:
    news = progress.News(["web1"])
    assert news.take(progress.encode("web1", "web1: \x1b]0;evil\x07\r\n20 %"), 0.0) == [
        r"web1: \x1b]0;evil\x07\r\n20 %"
    ]
    long = progress.encode("web1", "web1: " + "x" * 1000)
    (shown,) = news.take(long, 5.0)
    assert len(shown) == 200


@pytest.mark.parametrize(
    "said",
    [
        b"no JSON",
        b"[1]",
        b"{}",
        b'{"name": ["web1"], "line": "web1: x"}',
        b'{"name": "web1", "line": 5}',
        b'{"name": "web1", "line": "fatal: all is lost"}',
        progress.encode("db1", "db1: nobody asked for it").strip(),
        progress.encode("web1", "web1: " + "x" * 5000).strip(),
        b"[" * 4000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_line_of_ours_is_passed_over(said: bytes) -> None:
    news = progress.News(["web1"])
    assert news.take(said + b"\n", 0.0) == []
    assert news.take(progress.encode("web1", "web1: 1 %"), 0.0) == ["web1: 1 %"]


def test_a_flood_is_neither_shown_nor_kept() -> None:
    news = progress.News(["web1"])
    flood = b"".join(progress.encode("web1", f"web1: {n} %") for n in range(1000))
    assert news.take(flood, 0.0) == ["web1: 0 %"]
    for _turn in range(100):
        assert news.take(b"x" * 65536, 1.0) == []
    assert len(news._rest) <= progress.MOST_SAID
