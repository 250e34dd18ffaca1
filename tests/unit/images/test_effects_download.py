# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Downloads from a server of the tests' own, on the loopback interface."""

from __future__ import annotations

import base64
import gzip
import hashlib
import lzma
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import read_caller as company
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_download as download,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_url as image_url,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.options import (
    Limits,
    limits_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.source import parse_image
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _downloads
from ansible_collections.fleet.virt.tests.unit import _https

MIB = 1 << 20
RAW = b"a disk".ljust(MIB, b"\1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_https.Server]:
    with _https.serving("127.0.0.1", tmp_path_factory.mktemp("https")) as made:
        yield made


@pytest.fixture(autouse=True)
def trusted(
    server: _https.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """This machine trusts the server's CA; nothing is between the two."""
    monkeypatch.setenv("SSL_CERT_FILE", str(server.ca))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield
    server.forget()


def fetch(image: str, seconds: float = 5.0, limit: int = 1 << 30) -> bytes:
    with download.opened(parse_image(image), seconds, limit) as answer:
        came = b"".join(answer.blocks())
        answer.verify()
    return came


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_what_comes_is_what_was_meant(server: _https.Server, algorithm: str) -> None:
    assert fetch(server.put("/a/disk.raw?x=1", RAW, algorithm)) == RAW
    assert server.asked == ["/a/disk.raw?x=1"]


def test_another_checksum_is_told_with_both(server: _https.Server) -> None:
    image = server.put("/disk.raw", RAW)
    server.files["/disk.raw"] = RAW[::-1]
    wanted, came = hashlib.sha256(RAW).hexdigest(), hashlib.sha256(RAW[::-1]).hexdigest()
    with pytest.raises(PlanRefused, match=f"checksum sha256:{came} instead of sha256:{wanted}"):
        fetch(image)


def test_redirects_to_https_are_followed(server: _https.Server) -> None:
    image = server.put("/disk.raw", RAW)
    server.files["/elsewhere"] = server.files.pop("/disk.raw")
    server.redirects["/disk.raw"] = "/elsewhere"
    assert fetch(image) == RAW


@pytest.mark.parametrize("code", [301, 303, 307, 308])
def test_redirects_of_every_kind(server: _https.Server, code: int) -> None:
    image = server.put("/a/disk.raw", RAW)
    server.files["/b/its disk.raw".replace(" ", "%20")] = server.files.pop("/a/disk.raw")
    server.redirects["/a/disk.raw"], server.code = "../b/its disk.raw", code
    assert fetch(image) == RAW


def test_through_a_proxy(server: _https.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with _https.proxy() as (url, asked):
        monkeypatch.setenv("https_proxy", url)
        assert fetch(server.put("/disk.raw", RAW)) == RAW
        assert asked == [f"127.0.0.1:{server.port}"]
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert fetch(server.put("/disk.raw", RAW)) == RAW
        assert len(asked) == 1


def test_a_password_of_netrc_goes_to_its_server_alone(
    server: _https.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / "netrc").chmod(0o600)
    with _https.serving("127.0.0.2", tmp_path) as mirror:
        both = tmp_path / "both.pem"
        both.write_bytes(server.ca.read_bytes() + mirror.ca.read_bytes())
        monkeypatch.setenv("SSL_CERT_FILE", str(both))
        image = server.put("/disk.raw", RAW)
        mirror.put("/disk.raw", RAW)
        server.redirects["/disk.raw"] = mirror.url("/disk.raw")
        assert fetch(image) == RAW
        assert server.logins == ["Basic " + base64.b64encode(b"me:secret").decode()]
        assert mirror.logins == [None]


def test_a_netrc_that_cannot_be_read_is_named_without_what_it_holds(
    server: _https.Server, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me passwort secret\n")
    (tmp_path / "netrc").chmod(0o600)
    with pytest.raises(
        PlanRefused, match=r"/netrc is not valid according to netrc\(5\).*correct it"
    ) as refused:
        fetch(server.put("/disk.raw", RAW))
    assert "passwort" not in str(refused.value)
    assert "secret" not in str(refused.value)
    assert server.asked == []


@pytest.mark.parametrize(
    "target", ["file:///etc/shadow", "http://127.0.0.1/x", "ftp://127.0.0.1/x", "data:,x"]
)
def test_redirects_to_anything_else_are_refused(server: _https.Server, target: str) -> None:
    image = server.put("/disk.raw", RAW)
    server.redirects["/disk.raw"] = target
    with pytest.raises(
        PlanRefused, match=f"redirects to {target}; only redirects to https are followed"
    ):
        fetch(image)


def test_redirects_in_circles_end(server: _https.Server) -> None:
    image = server.put("/disk.raw", RAW)
    server.redirects["/disk.raw"] = "/disk.raw"
    with pytest.raises(PlanRefused, match="the server answered 302"):
        fetch(image)
    assert len(server.asked) < 20


def test_a_server_that_stalls(server: _https.Server) -> None:
    image = server.put("/disk.raw", RAW)
    server.stalls.add("/disk.raw")
    started = time.monotonic()
    with pytest.raises(PlanRefused, match=r"sent little or no data for 1 seconds"):
        fetch(image, 1)
    assert time.monotonic() - started < 20


def test_a_server_that_drips(server: _https.Server) -> None:
    image = server.put("/disk.raw", RAW)
    server.drips.add("/disk.raw")
    with pytest.raises(PlanRefused, match=r"little or no data for 1 seconds"):
        fetch(image, 1)


def test_a_server_that_is_silent(server: _https.Server) -> None:
    image = server.put("/disk.raw", RAW)
    server.silent.add("/disk.raw")
    with pytest.raises(PlanRefused, match=r"sent little or no data for 1 seconds"):
        fetch(image, 1)


def test_an_answer_that_is_cut(server: _https.Server) -> None:
    image = server.put("/disk.raw", RAW)
    server.cut.add("/disk.raw")
    with pytest.raises(PlanRefused, match=f"ended after {MIB // 2} of {MIB} bytes"):
        fetch(image)


def test_an_answer_that_is_too_large(server: _https.Server) -> None:
    with pytest.raises(PlanRefused, match="max_unpacked"):
        fetch(server.put("/disk.raw", RAW), limit=MIB - 1)


def test_what_is_not_there(server: _https.Server) -> None:
    image = server.put("/disk.raw", RAW).replace("disk.raw", "nothing.raw")
    with pytest.raises(PlanRefused, match="the server answered 404 Not Found; check the URL"):
        fetch(image)


def test_a_server_that_is_not_there(server: _https.Server) -> None:
    image = server.put("/disk.raw", RAW).replace(f":{server.port}/", ":1/")
    with pytest.raises(PlanRefused, match="Connection refused; check the URL"):
        fetch(image)


def test_a_server_that_nobody_vouches_for(
    server: _https.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(PlanRefused, match="make this machine trust the server's CA"):
        fetch(server.put("/disk.raw", RAW))
    assert server.asked == []


def preview(image: str) -> tuple[str, str, str, int]:
    found = image_url.preview(parse_image(image), Limits(5.0))
    return found.name, found.identity, found.format, found.virtual_bytes


def test_preview(server: _https.Server) -> None:
    """What the beginning tells: all of a plain file, of a packed one what is not its whole."""
    digest = hashlib.sha256(RAW).hexdigest()
    assert preview(server.put("/d.raw", RAW)) == ("d.raw", digest, "raw", MIB)
    assert preview(server.put("/d.raw", RAW, "sha512")) == ("d.raw", "", "raw", MIB)
    assert preview(server.put("/d.raw.xz", lzma.compress(RAW))) == ("d.raw.xz", "", "raw", 0)


def test_preview_refuses(server: _https.Server) -> None:
    page = b"<!DOCTYPE html><title>Log in</title>"
    for path, content in {"/d.raw": page, "/d.raw.gz": gzip.compress(page)}.items():
        with pytest.raises(PlanRefused, match=r"is a web page, not an image"):
            preview(server.put(path, content))
    with pytest.raises(PlanRefused, match="not a multiple of 512"):
        preview(server.put("/d.raw", RAW + b"x"))


def test_the_controller_downloads_once(server: _https.Server, tmp_path: Path) -> None:
    source = parse_image(server.put("/disk.raw.gz", gzip.compress(RAW)))
    seen = _downloads.downloaded(source, Limits(5.0), check=True)
    assert (seen.path, seen.facts.digest, seen.facts.format) == ("", None, "raw")
    assert not (tmp_path / "cache").exists()
    for _ in range(2):
        found = _downloads.downloaded(source, Limits(5.0), check=False)
        assert (found.name, found.facts.virtual_bytes) == ("disk.raw.gz", MIB)
        assert found.facts.identity == hashlib.sha256(RAW).hexdigest()
    assert server.asked == ["/disk.raw.gz"] * 2  # the preview was one
    folder = Path(found.path).parent
    assert [path.name for path in folder.iterdir()] == ["disk.raw.gz"]
    assert folder.parent.parent.parent == tmp_path / "cache"
    Path(found.path).write_bytes(RAW)
    with pytest.raises(Exception, match="has changed since it was downloaded"):
        _downloads.downloaded(source, Limits(5.0), check=False)


def test_a_download_that_fails_leaves_nothing(server: _https.Server, tmp_path: Path) -> None:
    image = server.put("/disk.raw", RAW)
    server.cut.add("/disk.raw")
    with pytest.raises(PlanRefused, match="ended after"):
        _downloads.downloaded(parse_image(image), Limits(5.0), check=False)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_unpacked": "much"}, "max_unpacked: 'much' is not a size"),
        ({"download_timeout": 0}, "download_timeout: 0 is not a time limit"),
        ({"download_timeout": "soon"}, "download_timeout: 'soon' is not a time limit"),
    ],
)
def test_limits_that_are_none(options: dict[str, object], message: str) -> None:
    with pytest.raises(PlanRefused, match=message):
        limits_of(options)


def test_limits() -> None:
    assert limits_of({}) == Limits() == Limits(30.0, 256 << 30)
    assert limits_of({"max_unpacked": "1GiB", "download_timeout": "5"}) == Limits(5.0, 1 << 30)


def test_what_would_take_days_is_refused(
    server: _https.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never so slow that it stalls, and never there."""
    monkeypatch.setattr(download, "_SETTLED", 0.3)
    monkeypatch.setattr(download, "SLOWEST", 1)
    image = server.put("/disk.raw", RAW)
    server.drips.add("/disk.raw")
    begun = time.monotonic()
    with pytest.raises(PlanRefused, match="0 KiB a second and would take more than 6 hours"):
        fetch(image, seconds=2)
    assert time.monotonic() - begun < 20


def test_a_limit_for_all_of_it(server: _https.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "LONGEST", 0.5)
    monkeypatch.setattr(download, "_SETTLED", 60)
    image = server.put("/disk.raw", RAW)
    server.drips.add("/disk.raw")
    with pytest.raises(PlanRefused, match="would take more than"):
        fetch(image)


def test_what_has_no_room_is_not_begun(
    server: _https.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = server.put("/disk.raw", RAW)
    there = os.statvfs(tmp_path)
    values = list(there)
    values[4] = MIB // there.f_frsize - 1  # f_bavail: a block less than the image has
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(values))
    with pytest.raises(PlanRefused, match=r"has 1 MiB, but .* has only 0 MiB free"):
        _downloads.downloaded(parse_image(image), Limits(), check=False)
    folder = tmp_path / "cache" / "fleet.virt" / "images"
    assert [path for path in folder.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_a_huge_file_in_the_cache_is_given_up_with_whoever_asked(
    server: _https.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    source = parse_image(server.put("/disk.raw", RAW, algorithm))
    folder = tmp_path / "cache" / "fleet.virt" / "images" / str(source.checksum).replace(":", "-")
    folder.mkdir(parents=True)
    with (folder / "disk.raw").open("wb") as file:
        file.truncate(8 << 40)  # so much that nobody sums it up within the time of a test
    monkeypatch.setattr(company._state, "parent", 0)
    with pytest.raises(company.Abandoned):
        _downloads.downloaded(source, Limits(), check=False)


def test_a_link_to_nothing_in_the_cache(server: _https.Server, tmp_path: Path) -> None:
    source = parse_image(server.put("/disk.raw", RAW))
    folder = tmp_path / "cache" / "fleet.virt" / "images" / str(source.checksum).replace(":", "-")
    folder.mkdir(parents=True)
    (folder / "disk.raw").symlink_to(tmp_path / "none")
    for check in (True, False):
        with pytest.raises(FleetVirtError, match="is a broken symbolic link; remove it"):
            _downloads.downloaded(source, Limits(), check=check)
    (folder / "disk.raw").unlink()
    (folder / "disk.raw").mkdir()
    with pytest.raises(FleetVirtError, match="Is a directory; remove it"):
        _downloads.downloaded(source, Limits(), check=False)
    assert server.asked == []
