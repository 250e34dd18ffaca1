# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make catalogue`` against a server that lists folders as the publishers do."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _catalogue
from ansible_collections.fleet.virt.tests import catalogue
from ansible_collections.fleet.virt.tests.unit import _https

SHIPPED = _catalogue.FILE.read_text(encoding="utf-8")
ENTRIES: dict[str, dict[str, str]] = yaml.safe_load(SHIPPED)
NEW, OLD = "a" * 64, "b" * 64


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_https.Server]:
    with _https.serving("127.0.0.1", tmp_path_factory.mktemp("https")) as made:
        yield made


@pytest.fixture
def server(started: _https.Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[_https.Server]:
    monkeypatch.setenv("SSL_CERT_FILE", str(started.ca))
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield started
    started.forget()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A copy of the collection's own catalogue."""
    copy = tmp_path / "catalogue.yml"
    copy.write_text(SHIPPED, encoding="utf-8")
    return copy


def publish(server: _https.Server, files: Mapping[str, str]) -> None:
    """Serve these files by their paths, and a page for each folder, as Apache lists it."""
    folders: dict[str, set[str]] = {}
    for path, text in files.items():
        server.files[path] = text.encode()
        parts = path.split("/")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth]) + "/"
            more = "/" if depth < len(parts) - 1 else ""
            folders.setdefault(folder, set()).add(parts[depth] + more)
    for folder, names in folders.items():
        links = "".join(f'<img src="x.png"><a href="{name}">{name}</a>\n' for name in names)
        page = f'<a href="?C=M;O=A">Modified</a><a href="../">Parent</a><a name="x">x</a>{links}'
        server.files[folder] = page.encode()


def local(server: _https.Server) -> dict[str, catalogue.Place]:
    """The places, on the server of the test: its first folder is the name of the publisher's."""

    def moved(place: catalogue.Place) -> catalogue.Place:
        parts = urlsplit(place.folder)
        return dataclasses.replace(place, folder=server.url(f"/{parts.netloc}{parts.path}"))

    return {name: moved(place) for name, place in catalogue.PLACES.items()}


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return f"/{parts.netloc}{parts.path}"


def later(url: str) -> str:
    """The URL of a later image: another date, or another build."""
    if "fedora" in url:
        return url.replace("43-1.6", "43-1.10")
    return re.sub(r"20260(\d)", r"20261\1", url)


def sums_name(name: str, image: str) -> str:
    if name.startswith("centos"):
        return f"{image}.SHA256SUM"
    sums = catalogue.PLACES[name].sums
    return "Fedora-Cloud-43-1.10-x86_64-CHECKSUM" if name == "fedora43" else sums


def with_sums(name: str, url: str, digits: str) -> dict[str, str]:
    """The image (of which nothing is read) and its file of checksums, GNU's lines or BSD's."""
    folder, _slash, image = path_of(url).rpartition("/")
    line = f"{digits}  {image}\n"
    if name.startswith(("rocky", "fedora", "centos")):
        line = f"# {image}: 1 bytes\nSHA256 ({image}) = {digits}\n"
    return {f"{folder}/{image}": "", f"{folder}/{sums_name(name, image)}": line}


def test_every_name_of_the_catalogue_has_a_place_that_its_image_is_at() -> None:
    assert set(catalogue.PLACES) == set(ENTRIES)
    for name, place in catalogue.PLACES.items():
        pattern = re.escape(place.folder) + place.dated + re.escape(place.inner) + place.image
        assert re.fullmatch(pattern, ENTRIES[name]["url"]), name


def test_newest_image_of_every_name_is_written_with_its_checksum(
    server: _https.Server, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files: dict[str, str] = {}
    for name, entry in ENTRIES.items():
        files.update(with_sums(name, entry["url"], OLD))
        files.update(with_sums(name, later(entry["url"]), NEW))
    publish(server, files)
    assert catalogue.refresh(file, local(server), []) == 0
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert written == {
        name: {
            "url": server.url(path_of(later(entry["url"]))),
            "checksum": f"sha256:{NEW}",
            "os": entry["os"],
        }
        for name, entry in ENTRIES.items()
    }
    before, after = SHIPPED.splitlines(), file.read_text(encoding="utf-8").splitlines()
    changed = {line.split(":")[0] for line, now in zip(before, after) if line != now}
    assert (len(before), changed) == (len(after), {"  url", "  checksum"})
    assert capsys.readouterr().out.count(" -> ") == len(ENTRIES)
    assert catalogue.refresh(file, local(server), []) == 0
    assert capsys.readouterr().out.count("up to date") == len(ENTRIES)


def debian(date: str) -> str:
    file = f"debian-12-genericcloud-amd64-{date}.qcow2"
    return f"https://cloud.debian.org/images/cloud/bookworm/{date}/{file}"


def test_image_without_a_checksum_yet_is_passed_over(server: _https.Server, file: Path) -> None:
    files = with_sums("debian12", debian("20261001-9"), NEW)
    files |= with_sums("debian12", debian("20261002-10"), "c" * 32)
    files["/cloud.debian.org/images/cloud/bookworm/20261003-11/README"] = ""
    files["/cloud.debian.org/images/cloud/bookworm/latest/README"] = ""
    publish(server, files)
    assert catalogue.refresh(file, local(server), ["debian12"]) == 0
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert written["debian12"]["url"] == server.url(path_of(debian("20261001-9")))
    assert {**written, "debian12": ENTRIES["debian12"]} == ENTRIES


def test_numbers_and_not_texts_decide_which_image_is_the_newest(server: _https.Server) -> None:
    places = local(server)
    files: dict[str, str] = {}
    for version in ("9.9", "9.10"):
        url = ENTRIES["rocky9"]["url"].replace("/9.8/", f"/{version}/").replace("-9.8-", "-9.9-")
        files.update(with_sums("rocky9", url, NEW))
    publish(server, files)
    assert "/rocky/9.10/" in catalogue.newest(places["rocky9"])["url"]


def test_entry_that_cannot_be_refreshed_stays_and_the_others_are_written(
    server: _https.Server, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(server, with_sums("debian12", debian("20261001-9"), NEW))
    places = local(server)
    del places["rocky10"]
    assert catalogue.refresh(file, places, ["debian13", "debian12", "rocky10"]) == 1
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert written["debian12"]["checksum"] == f"sha256:{NEW}"
    assert {**written, "debian12": ENTRIES["debian12"]} == ENTRIES
    output = capsys.readouterr().out
    assert re.search(r"debian13: left as it is: https://.*/trixie/: HTTP Error 404", output)
    assert "rocky10: left as it is: tests/catalogue.py has no place" in output


def test_listing_that_leads_to_http_is_refused(server: _https.Server) -> None:
    folder = "/cloud.debian.org/images/cloud/bookworm/"
    server.redirects[folder] = "http://127.0.0.1:9/"
    with pytest.raises(catalogue.NotFoundError):
        catalogue.newest(local(server)["debian12"])


def test_name_that_is_not_in_the_catalogue_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert catalogue.refresh(file, catalogue.PLACES, ["debian99"]) == 2
    assert "not in the catalogue: debian99; it has debian12, debian13" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == SHIPPED
