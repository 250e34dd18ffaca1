# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checksums in a publisher's file: whose line it is, and what is no checksum."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible import constants
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _sums
from ansible_collections.fleet.virt.tests.unit import _https

SHORT, OTHER, LONG = "5" * 64, "6" * 64, "a" * 128
NAME = "web-1.qcow2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{SHORT}  {NAME}\n", [f"sha256:{SHORT}"]),
        (f"{SHORT} *{NAME}\n{OTHER} *{NAME}.asc\n", [f"sha256:{SHORT}"]),
        (f"{SHORT}  ./images/{NAME}\n", [f"sha256:{SHORT}"]),
        (f"{LONG.upper()}  {NAME}\n", [f"sha512:{LONG}"]),
        (f"# {NAME}: 12 bytes\nSHA256 ({NAME}) = {SHORT}\n", [f"sha256:{SHORT}"]),
        (f"SHA256 ({NAME}) = {SHORT}\nSHA512 ({NAME}) = {LONG}\n", [f"sha512:{LONG}"]),
        (f"{SHORT}  {NAME}\n{SHORT}  {NAME}\n", [f"sha256:{SHORT}"]),
        (f"{SHORT}  {NAME}\n{OTHER}  {NAME}\n", [f"sha256:{SHORT}", f"sha256:{OTHER}"]),
        (f"{SHORT}\n", [f"sha256:{SHORT}"]),
        (f"{SHORT}\n{OTHER}\n", []),
        (f"{SHORT}  other.qcow2\n", []),
        (f"{SHORT}  my-{NAME}\n", []),
        (f"{'5' * 32}  {NAME}\n", []),
        (f"MD5 ({NAME}) = {'5' * 32}\n", []),
        ("<!DOCTYPE html>\n", []),
        ("", []),
    ],
)
def test_checksum_is_that_of_the_line_of_the_image(text: str, expected: list[str]) -> None:
    assert [str(checksum) for checksum in _sums.checksums_in(text, NAME)] == expected


@pytest.mark.parametrize("program", ["sha256sum", "sha512sum"])
@pytest.mark.parametrize("options", [[], ["--tag"], ["--binary"]])
def test_file_of_coreutils_is_read(program: str, options: list[str], tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"a disk")
    (tmp_path / "b").write_bytes(b"another")
    command = [program, *options, NAME, "b"]
    text = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, text=True).stdout
    algorithm = program.removesuffix("sum")
    digits = hashlib.new(algorithm, b"a disk").hexdigest()
    assert [str(found) for found in _sums.checksums_in(text, NAME)] == [f"{algorithm}:{digits}"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_https.Server]:
    with _https.serving("127.0.0.1", tmp_path_factory.mktemp("https")) as made:
        yield made


@pytest.fixture
def sums(server: _https.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a file of checksums, in a run of Ansible that has read none yet."""
    monkeypatch.setenv("SSL_CERT_FILE", str(server.ca))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    server.put("/SHA256SUMS", f"{SHORT}  {NAME}\n".encode())
    yield server.url("/SHA256SUMS")
    server.forget()


def test_file_is_read_once_in_a_run(server: _https.Server, sums: str, tmp_path: Path) -> None:
    image = f"https://images.example/{NAME}"
    assert str(_sums.checksum_of(image, sums)) == f"sha256:{SHORT}"
    server.put("/SHA256SUMS", f"{OTHER}  {NAME}\n".encode())
    assert str(_sums.checksum_of(image, sums)) == f"sha256:{SHORT}"
    assert server.asked == ["/SHA256SUMS"]
    assert len([path.name for path in tmp_path.iterdir() if "fleet-virt-sums" in path.name]) == 1


def test_image_that_the_file_does_not_have_is_refused(sums: str) -> None:
    with pytest.raises(PlanRefused, match=r"SHA256SUMS has no checksum \(SHA-256 or SHA-512\) for"):
        _sums.checksum_of("https://images.example/other.qcow2", sums)


def test_missing_sums_file_is_refused(server: _https.Server, sums: str) -> None:
    del server.files["/SHA256SUMS"]
    with pytest.raises(PlanRefused, match="the server answered 404"):
        _sums.checksum_of(f"https://images.example/{NAME}", sums)


def test_address_that_is_not_https_is_refused() -> None:
    with pytest.raises(PlanRefused, match=r"checksum 'http://x/SUMS' is not an https URL; give"):
        _sums.checksum_of(f"https://images.example/{NAME}", "http://x/SUMS")


@pytest.mark.parametrize(
    "line",
    [
        "{}  image.qcow2",
        "{} image.qcow2",
        "{}\timage.qcow2",
        "{} *image.qcow2\r",
        "\ufeff{}  image.qcow2",
        "SHA256 (image.qcow2)= {}",
        "SHA256(image.qcow2)= {}",
        "SHA2-256(./image.qcow2)={}",
        "sha256 (image.qcow2) = {}",
    ],
)
def test_line_of_any_program_is_read(line: str) -> None:
    text = line.format("A" * 64) + "\n" + "b" * 64 + "  other.qcow2\n"
    assert [str(found) for found in _sums.checksums_in(text, "image.qcow2")] == [
        f"sha256:{'a' * 64}"
    ]


def test_line_that_names_the_build_counts_in_the_file_of_its_image() -> None:
    text = f"{'a' * 64}  image-Build7.3.qcow2\n"
    assert _sums.checksums_in(text, "image.qcow2") == []
    assert len(_sums.checksums_in(text, "image.qcow2", alone=True)) == 1
    assert _sums.checksums_in(text + text.replace("a", "b"), "image.qcow2", alone=True) == []
