# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Image files judged by qemu-img, and by QEMU's locks."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    read_check as image_check,
)

pytestmark = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="no qemu-img here")

MIB = 1 << 20


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A qcow2 image of 64 MiB with 4 MiB of data."""
    folder = tmp_path_factory.mktemp("pristine")
    (folder / "raw").write_bytes(os.urandom(4 * MIB))
    os.truncate(folder / "raw", 64 * MIB)
    path = folder / "image"
    subprocess.run(
        ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", folder / "raw", path], check=True
    )
    return path


@pytest.fixture
def image(pristine: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    tmp_path.parent.chmod(0o755)
    path = tmp_path / "image"
    shutil.copyfile(pristine, path)
    path.chmod(0o644)
    return path


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def check(path: Path) -> str:
    """The format of a sound image."""
    with opened(path) as descriptor:
        found = image_check.read_format(descriptor, "tiny.qcow2")
        image_check.check_structure(descriptor, found, "tiny.qcow2")
    return found.format


def test_a_sound_image_passes(image: Path) -> None:
    before = image.read_bytes()
    assert check(image) == "qcow2"
    assert image.read_bytes() == before


@pytest.mark.parametrize("part", [0.05, 0.1, 0.5, 0.9, 0.97])
def test_a_truncated_image_is_refused(image: Path, part: float) -> None:
    os.truncate(image, int(image.stat().st_size * part))
    with pytest.raises(PlanRefused, match=r"image tiny\.qcow2 is .*truncated.*copy the image"):
        check(image)


def test_a_corrupt_table_is_refused(image: Path) -> None:
    with image.open("r+b") as file:
        file.seek(40)
        file.seek(int.from_bytes(file.read(8), "big"))
        file.write(b"\x80\0\x12\x34\x56\x78\x9a\xbc")  # neither a cluster nor in the file
    with pytest.raises(PlanRefused, match=r"image tiny\.qcow2 is corrupt or truncated \(qemu-img"):
        check(image)


def test_a_leaked_cluster_is_harmless(image: Path) -> None:
    with image.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.write(bytes(-size % 65536 + 65536))
        file.seek(48)
        table = int.from_bytes(file.read(8), "big")
        file.seek(table)
        block = int.from_bytes(file.read(8), "big")
        file.seek(block + 2 * ((size + 65535) // 65536))
        file.write(b"\0\1")
    done = subprocess.run(["qemu-img", "check", "-q", "-f", "qcow2", image], check=False)
    assert done.returncode == 3
    assert check(image) == "qcow2"


def test_a_hanging_check_ends(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_check, "_LIMITED", ("sh", "-c", "exec sleep 60"))
    monkeypatch.setattr(image_check, "_SECONDS", 0.1)
    with pytest.raises(PlanRefused, match=r"did not finish within 0\.1 seconds"):
        check(image)


def test_a_check_without_memory_is_refused(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_check, "_LIMITED", ("prlimit", "--as=1000000", "--"))
    with pytest.raises(PlanRefused, match=r"corrupt or truncated \(qemu-img check"):
        check(image)


def test_raw_needs_no_check(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_bytes(bytes(MIB))
    assert check(path) == "raw"


def test_every_problem_of_a_header_is_in_the_message(tmp_path: Path, image: Path) -> None:
    subprocess.run(
        [
            *("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image),
            *("-o", f"data_file={tmp_path}/data", tmp_path / "both"),
        ],
        check=True,
    )
    with opened(tmp_path / "both") as descriptor, pytest.raises(PlanRefused) as caught:
        image_check.read_format(descriptor, "both")
    assert "image both has a backing file" in str(caught.value)
    assert "; it stores its data in another file" in str(caught.value)


@pytest.mark.parametrize("image_format", ["qcow2", "raw"])
def test_an_image_that_is_written_to_is_noticed(tmp_path: Path, image_format: str) -> None:
    path = tmp_path / "disk"
    subprocess.run(["qemu-img", "create", "-q", "-f", image_format, path, "1M"], check=True)
    with subprocess.Popen(
        ["qemu-io", "-f", image_format, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write(b"write -P 1 0 512\n")
        writer.stdin.flush()
        assert b"wrote 512/512" in writer.stdout.readline()
        with opened(path) as descriptor, pytest.raises(PlanRefused, match="is in use"):
            image_check.refuse_if_written(descriptor, str(path))
        writer.stdin.write(b"quit\n")
        writer.stdin.flush()
        writer.wait()
    with opened(path) as descriptor:
        image_check.refuse_if_written(descriptor, str(path))
