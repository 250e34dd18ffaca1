# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A volume as it comes from a hypervisor that misbehaves; what goes well is in the laboratory."""

from __future__ import annotations

import threading
import time
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_peer as image_peer,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import (
    BaseName,
    Digest,
)

KIB = 1024


class Stream:
    """Bytes come as they are, a number is a hole, and an event is a peer that stalls."""

    def __init__(self, pieces: t.Sequence[t.Any]) -> None:
        self.pieces = list(pieces)
        self.ended = ""

    def recvFlags(self, _length: int, flags: int) -> bytes | int:
        assert flags == 1
        if not self.pieces:
            return b""
        if isinstance(self.pieces[0], threading.Event):
            self.pieces[0].wait(30)
            return b""
        return -3 if isinstance(self.pieces[0], int) else t.cast("bytes", self.pieces.pop(0))

    def recvHole(self, _flags: int) -> int:
        return t.cast("int", self.pieces.pop(0))

    def finish(self) -> None:
        self.ended = "finished"

    def abort(self) -> None:
        self.ended = "aborted"


class Raw:
    """libvirt's connection and its one volume."""

    def __init__(self, size: int, pieces: t.Sequence[t.Any]) -> None:
        self.size = size
        self.stream = Stream(pieces)

    def newStream(self, _flags: int) -> Stream:
        return self.stream

    def download(self, stream: Stream, offset: int, length: int, flags: int) -> None:
        assert (stream, offset, length, flags) == (self.stream, 0, 0, 1)

    def infoFlags(self, flags: int) -> list[int]:
        assert flags == 1
        return [0, 0, self.size]


def coming(raw: Raw, seconds: float = 10.0) -> tuple[image_peer._Incoming, Connection]:
    far = Connection(raw, "qemu+tls://hv9/system", 10)
    name = BaseName(Digest("ab" * 32), "small.img", "qcow2")
    return image_peer._Incoming(far, image_peer._Offered(raw, name), seconds), far


def test_holes_come_as_zeros() -> None:
    raw = Raw(700 * KIB, [b"a" * KIB, 598 * KIB, b"b" * KIB])
    one, far = coming(raw)
    content = b"".join(one.blocks())
    assert content == b"a" * KIB + bytes(598 * KIB) + b"b" * KIB + bytes(100 * KIB)
    assert str(one) == "716800 of 716800 bytes (100 %)"
    assert one.name == "small.img.qcow2"
    assert (raw.stream.ended, far.hanging) == ("finished", 0)


def test_one_that_stalls_is_given_up_with_how_far_it_came() -> None:
    release = threading.Event()
    one, far = coming(Raw(4 * KIB, [b"a" * KIB, release]), 0.2)
    started = time.monotonic()
    with pytest.raises(
        PlanRefused, match=r"received nothing for 0\.2 seconds .* after 1024 of 4096"
    ):
        list(one.blocks())
    assert time.monotonic() - started < 5
    assert far.hanging == 1  # so that closing the connection is not waited for
    release.set()


def test_more_than_was_announced_is_refused() -> None:
    raw = Raw(2 * KIB, [b"a" * KIB, 2 * KIB])
    one, _far = coming(raw)
    with pytest.raises(PlanRefused, match="received more than the 2048 bytes"):
        list(one.blocks())


def test_who_writes_no_more_ends_it() -> None:
    raw = Raw(1 << 30, [b"a" * KIB] * 1000)
    one, far = coming(raw)
    blocks = one.blocks()
    next(blocks)
    blocks.close()
    assert (raw.stream.ended, far.hanging) == ("aborted", 0)


def test_an_empty_one_is_whole() -> None:
    one, _far = coming(Raw(0, []))
    assert list(one.blocks()) == []
    assert str(one) == "0 of 0 bytes (100 %)"
