# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading disks that qemu-nbd has: content, holes and digests, in order and in any other."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_disk_reader import (
    CHUNK,
    DiskReader,
)

_MIB = 1 << 20
# MiB of data at MiB; the last of each is shorter than a chunk, and begins in the middle of one
CASES = {
    "all data": (9, [(0, 9)]),
    "empty": (3, []),
    "hole at both ends": (40, [(8, 5)]),
    "many holes": (64, [(place, 1) for place in range(0, 64, 3)]),
    "smaller than a chunk": (0.125, [(0, 0.125)]),
    "no whole chunk": (5.0625, [(0.9375, 0.125), (3, 2.0625)]),
}
Serve = Callable[[bytes, list[tuple[int, int]]], tuple[DiskReader, subprocess.Popen[bytes]]]


def disk(case: str) -> tuple[bytes, list[tuple[int, int]]]:
    """The content, and where its data begin and end."""
    size, parts = CASES[case]
    content, chance = bytearray(int(size * _MIB)), random.Random(case)  # noqa: S311
    ranges = [(int(begin * _MIB), int((begin + count) * _MIB)) for begin, count in parts]
    for begin, end in ranges:
        content[begin:end] = chance.randbytes(end - begin)
    return bytes(content), ranges


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Make content that of a qcow2 image, which qemu-nbd serves."""
    servers = []

    def begin(
        content: bytes, ranges: list[tuple[int, int]]
    ) -> tuple[DiskReader, subprocess.Popen[bytes]]:
        raw, image, place = tmp_path / "raw", tmp_path / "image", tmp_path / "nbd"
        with raw.open("wb") as file:
            file.truncate(len(content))
            for start, end in ranges:
                file.seek(start)
                file.write(content[start:end])
        subprocess.run(["qemu-img", "convert", "-O", "qcow2", raw, image], check=True)
        argv = ["qemu-nbd", "--read-only", "--shared=0", "--persistent", "--format=qcow2"]
        server = subprocess.Popen([*argv, f"--socket={place}", "--export-name=vda", image])
        servers.append(server)
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            assert server.poll() is None
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                client.connect(str(place))
                break
            time.sleep(0.01)
        return DiskReader(str(place), "vda"), server

    yield begin
    for server in servers:
        server.kill()
        server.wait()


def holes(reader: DiskReader) -> list[tuple[int, int]]:
    """Where data begin and end, as borg asks for it."""
    ranges, position = [], 0
    while position < reader.size:
        try:
            begin = reader.sought(position, os.SEEK_DATA)
        except OSError:
            break
        position = reader.sought(begin, os.SEEK_HOLE)
        ranges.append((begin, position))
    return ranges


@pytest.mark.parametrize("case", CASES)
def test_disk_read_in_order_is_what_the_image_has_with_its_digest(serve: Serve, case: str) -> None:
    content, written = disk(case)
    reader, _server = serve(content, written)
    assert reader.size == len(content)
    restored, ranges = bytearray(len(content)), holes(reader)
    for begin, end in ranges:
        assert begin % CHUNK == 0
        assert end % CHUNK == 0 or end == len(content)
        for offset in range(begin, end, CHUNK):
            block = reader.content(offset, CHUNK)
            assert len(block) == min(CHUNK, len(content) - offset)
            restored[offset : offset + len(block)] = block
    assert bytes(restored) == content
    assert sum(end - begin for begin, end in ranges) <= sum(
        end - begin + 2 * CHUNK for begin, end in written
    )
    assert reader.digest() == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("case", CASES)
def test_disk_read_in_any_order_or_not_at_all_has_the_same_content_and_digest(
    serve: Serve, case: str
) -> None:
    content, written = disk(case)
    reader, _server = serve(content, written)
    chance = random.Random(case)  # noqa: S311
    for _number in range(30):
        offset = chance.randrange(len(content))
        count = chance.randrange(1, 3 * _MIB)
        assert bytes(reader.content(offset, count)) == content[offset : offset + count]
    assert reader.digest() == hashlib.sha256(content).hexdigest()
    unread = DiskReader(reader._server, "vda")
    assert unread.digest() == hashlib.sha256(content).hexdigest()
    assert bytes(unread.content(0, CHUNK)) == content[:CHUNK]


def test_disk_of_a_killed_server_has_no_digest(serve: Serve) -> None:
    content, written = disk("many holes")
    reader, server = serve(content, written)
    assert bytes(reader.content(0, CHUNK)) == content[:CHUNK]
    server.kill()
    server.wait()
    begin, _end = holes(reader)[-1]
    with pytest.raises(PlanRefused, match="disk vda could not be read"):
        reader.content(begin, CHUNK)
    with pytest.raises(PlanRefused, match="disk vda could not be read"):
        reader.digest()


def test_missing_export_is_refused(serve: Serve) -> None:
    reader, _server = serve(*disk("empty"))
    with pytest.raises(PlanRefused, match="disk vdb could not be read"):
        DiskReader(reader._server, "vdb")
