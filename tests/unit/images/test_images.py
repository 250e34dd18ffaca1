# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images in ``virt_image_dir``."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_digests as digests,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.facts import ImageFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import Digest
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _catalogue, _images
from ansible_collections.fleet.virt.plugins.plugin_utils.images._images import (
    LocalImage,
    local_image,
)

RAW = b"a disk".ljust(1 << 20, b"\0") + bytes(512)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own; every file is old enough to be remembered."""
    folder = tmp_path / "home"
    (folder / "images").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(digests, "_SETTLED_NS", -1)
    return folder


def expected(folder: Path, name: str) -> LocalImage:
    return LocalImage(
        path=str(folder / name),
        size=len(RAW),
        facts=ImageFacts(name, Digest(hashlib.sha256(RAW).hexdigest()), "raw", len(RAW)),
    )


@pytest.mark.parametrize("given", [None, "", "~/images"])
def test_the_default_folder(home: Path, given: str | None) -> None:
    (home / "images" / "disk.qcow2").write_bytes(RAW)
    found = local_image(given, "disk.qcow2")
    assert found == expected(home / "images", "disk.qcow2")
    assert found.facts.virtual_mib == 2


def test_a_relative_folder_starts_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "disk").write_bytes(RAW)
    monkeypatch.chdir(tmp_path)
    assert local_image("files", "disk") == expected(Path("files"), "disk")


def test_a_link_is_followed(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(RAW)
    (home / "images" / "disk").symlink_to(tmp_path / "elsewhere")
    assert local_image(None, "disk") == expected(home / "images", "disk")


def test_a_digest_is_remembered_unless_in_check_mode(home: Path) -> None:
    (home / "images" / "disk").write_bytes(RAW)
    local_image(None, "disk", remember=False)
    assert sorted(entry.name for entry in home.iterdir()) == ["images"]
    local_image(None, "disk")
    cache = home / ".cache" / "fleet.virt" / "digests.json"
    assert expected(home, "disk").facts.identity in cache.read_text()
    assert cache.stat().st_mode & 0o777 == 0o600


def test_the_cache_folder_is_the_users(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (home / "images" / "disk").write_bytes(RAW)
    local_image(None, "disk")
    assert (tmp_path / "cache" / "fleet.virt" / "digests.json").exists()
    assert not (home / ".cache").exists()


@pytest.mark.parametrize(
    "name",
    ["", "../secret", "a/b", "/etc/passwd", "..", ".hidden", "-rf", "a\0b"],
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(PlanRefused, match=r"is not the name of a file in .*images"):
        local_image(None, name)


def test_what_exists_is_listed(home: Path) -> None:
    with pytest.raises(PlanRefused, match="which has no files; copy the image there"):
        local_image(None, "centos.img")
    (home / "images" / ".hidden").write_bytes(b"")
    (home / "images" / "folder").mkdir()
    for name in ("debian12.qcow2", "centos7.img"):
        (home / "images" / name).write_bytes(RAW)
    with pytest.raises(PlanRefused) as caught:
        local_image(None, "centos.img")
    assert str(caught.value) == (
        f"image 'centos.img': no such file in {home}/images (virt_image_dir), which has"
        " centos7.img, debian12.qcow2; copy the image there, or name one of these, or of the"
        f" catalogue: {', '.join(_catalogue.Catalogue(None, None).names())}"
    )
    for number in range(30):
        (home / "images" / f"z{number:02}").write_bytes(b"")
    with pytest.raises(PlanRefused, match=r"z17 and 12 more; copy"):
        local_image(None, "centos.img")


def test_a_missing_folder_is_named(home: Path) -> None:
    with pytest.raises(PlanRefused, match=r"/nothing \(virt_image_dir\) does not exist; create it"):
        local_image(f"{home}/nothing", "centos.img")
    (home / "file").write_bytes(b"")
    with pytest.raises(PlanRefused, match="Not a directory"):
        local_image(f"{home}/file", "centos.img")


def test_only_files_are_images(home: Path) -> None:
    (home / "images" / "folder").mkdir()
    with pytest.raises(PlanRefused, match="is not a regular file"):
        local_image(None, "folder")
    os.mkfifo(home / "images" / "pipe")
    with pytest.raises(PlanRefused, match="is not a regular file"):
        local_image(None, "pipe")


def test_what_is_no_image_is_refused_before_it_travels(home: Path) -> None:
    (home / "images" / "page.qcow2").write_bytes(b"<!DOCTYPE html>")
    with pytest.raises(PlanRefused, match=r"image .*/page\.qcow2 is a web page, not an image"):
        local_image(None, "page.qcow2")


def test_the_default_is_what_the_documentation_says() -> None:
    module = Path(_images.__file__).parents[2] / "modules" / "virt_image.py"
    assert f"without that to C({_images.DEFAULT_IMAGE_DIR})" in module.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("by", "expected"), [(None, False), ("hypervisor", False), ("controller", True)]
)
def test_who_downloads(by: str | None, expected: bool) -> None:
    assert _images.downloads_by_controller(by) is expected


@pytest.mark.parametrize("by", ["", "Controller", True, ["controller"]])
def test_who_cannot_download(by: object) -> None:
    with pytest.raises(PlanRefused, match=r"virt_image_download_by.* is neither hypervisor nor"):
        _images.downloads_by_controller(by)


@pytest.mark.parametrize("peers", [["hv1", "192.0.2.2"], "hv1,192.0.2.2", "hv1, 192.0.2.2"])
def test_peers_as_lists_are_written(peers: object) -> None:
    assert _images._listed(peers) == ["hv1", "192.0.2.2"]
    assert _images._listed(None) == []


@pytest.mark.parametrize(
    ("path", "size", "said"),
    [("/x/a.raw", 512, "512 of 512 bytes"), ("", 0, "(generated) of (generated) bytes")],
)
def test_what_the_controller_sends(path: str, size: int, said: str) -> None:
    """Of a download that is yet to be made no size is predicted."""
    local = _images.LocalImage(path, size, ImageFacts("a.raw", None, "raw", 512))
    assert _images._sent(local) == f"{said} (100 %) from the controller"
