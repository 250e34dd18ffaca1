# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make catalogue``: the newest image of each name in the catalogue, with its checksum.

By hand, because a maintainer looks at the difference and commits it. Of each publisher the folders
are listed, the newest whose file of checksums has the image is taken, and its URL and checksum are
written into the file. The images themselves are not downloaded. An entry that cannot be refreshed
stays as it is, is named, and makes the exit status 1.

    make catalogue ARGS="[NAME ...]"
"""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import yaml
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _catalogue, _sums

_LIMIT = 8 << 20  # bytes of a listing
_SECONDS = 30.0


class NotFoundError(Exception):
    """There is no image to be had; the text says where it was looked for."""


@dataclass(frozen=True)
class Place:
    """Where a publisher has the images of a release.

    ``folder`` lists folders that match ``dated`` (itself, if that is empty), below which ``inner``
    leads to the images. ``image`` and ``sums`` are patterns of file names there; in ``sums``,
    ``{image}`` is the name of the image.
    """

    folder: str
    image: str
    sums: str
    dated: str = ""
    inner: str = ""


def _debian(name: str, number: int) -> Place:
    return Place(
        f"https://cloud.debian.org/images/cloud/{name}/",
        rf"debian-{number}-genericcloud-amd64-\d{{8}}-\d+\.qcow2",
        "SHA512SUMS",
        r"\d{8}-\d+/",
    )


def _ubuntu(name: str, number: str) -> Place:
    return Place(
        f"https://cloud-images.ubuntu.com/releases/{name}/",
        rf"ubuntu-{re.escape(number)}-server-cloudimg-amd64\.img",
        "SHA256SUMS",
        r"release-\d{8}(\.\d+)?/",
    )


def _almalinux(number: int, level: str) -> Place:
    return Place(
        "https://repo.almalinux.org/almalinux/",
        rf"AlmaLinux-{number}-GenericCloud-{number}\.\d+-\d{{8}}(\.\d+)?\.{level}\.qcow2",
        "CHECKSUM",
        rf"{number}\.\d+/",
        f"cloud/{level}/images/",
    )


def _rocky(number: int) -> Place:
    return Place(
        "https://dl.rockylinux.org/pub/rocky/",
        rf"Rocky-{number}-GenericCloud-Base-{number}\.\d+-\d{{8}}\.\d+\.x86_64\.qcow2",
        "CHECKSUM",
        rf"{number}\.\d+/",
        "images/x86_64/",
    )


def _centos(number: int) -> Place:
    return Place(
        f"https://cloud.centos.org/centos/{number}-stream/x86_64/images/",
        rf"CentOS-Stream-GenericCloud-{number}-\d{{8}}\.\d+\.x86_64\.qcow2",
        r"{image}\.SHA256SUM",
    )


PLACES: Mapping[str, Place] = {
    "debian12": _debian("bookworm", 12),
    "debian13": _debian("trixie", 13),
    "ubuntu22.04": _ubuntu("jammy", "22.04"),
    "ubuntu24.04": _ubuntu("noble", "24.04"),
    "almalinux9": _almalinux(9, "x86_64"),
    "almalinux10": _almalinux(10, "x86_64_v2"),
    "rocky9": _rocky(9),
    "rocky10": _rocky(10),
    "centos-stream9": _centos(9),
    "centos-stream10": _centos(10),
    "fedora43": Place(
        "https://dl.fedoraproject.org/pub/fedora/linux/releases/43/Cloud/x86_64/images/",
        r"Fedora-Cloud-Base-Generic-43-\d+\.\d+\.x86_64\.qcow2",
        r"Fedora-Cloud-43-\d+\.\d+-x86_64-CHECKSUM",
    ),
}


class _Links(HTMLParser):
    """The targets of a page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value for key, value in attrs if tag == "a" and key == "href" and value]


def _read(url: str) -> str:
    try:
        # A new one: urlopen keeps the first, with the authorities that were known to it
        with urllib.request.build_opener().open(url, timeout=_SECONDS) as answer:
            if not answer.url.startswith("https://"):
                raise NotFoundError(f"{url} leads to {answer.url}, which is not https")
            content: bytes = answer.read(_LIMIT + 1)
    except (urllib.error.URLError, OSError) as error:
        raise NotFoundError(f"{url}: {error}") from None
    if len(content) > _LIMIT:
        raise NotFoundError(f"{url} has more than {_LIMIT} bytes")
    return content.decode("utf-8", "replace")


def _listed(folder: str, pattern: str) -> list[str]:
    """What is in a folder and matches, the newest first; files and folders beside it do not."""
    links = _Links()
    links.feed(_read(folder))
    targets = {urljoin(folder, target) for target in links.targets}
    names = {unquote(target[len(folder) :]) for target in targets if target.startswith(folder)}
    return sorted((name for name in names if re.fullmatch(pattern, name)), key=_age, reverse=True)


def _age(name: str) -> tuple[int, ...]:
    """What ``9.10`` is greater than ``9.9`` by."""
    return tuple(int(number) for number in re.findall(r"\d+", name))


def newest(place: Place) -> dict[str, str]:
    """URL and checksum of the newest image; one without a checksum yet is passed over.

    Raises NotFoundError.
    """
    folders = [place.folder]
    if place.dated:
        folders = [
            f"{place.folder}{dated}{place.inner}" for dated in _listed(place.folder, place.dated)
        ]
    problems = [] if folders else [f"{place.folder} has no folder {place.dated}"]
    for folder in folders:
        try:
            return _newest_in(folder, place)
        except NotFoundError as error:
            problems.append(str(error))
    raise NotFoundError("; ".join(problems))


def _newest_in(folder: str, place: Place) -> dict[str, str]:
    images = _listed(folder, place.image)
    for image in images:
        for sums in _listed(folder, place.sums.replace("{image}", re.escape(image))):
            checksums = _sums.checksums_in(_read(f"{folder}{sums}"), image)
            if len(checksums) == 1:
                return {"url": f"{folder}{image}", "checksum": str(checksums[0])}
    what = f"no checksum of {images[0]}" if images else f"no image {place.image}"
    raise NotFoundError(f"{folder} has {what}")


def refresh(file: Path, places: Mapping[str, Place], names: list[str]) -> int:
    """Write the newest image of each of ``names`` (of all, if there are none) into the catalogue;
    the exit status."""
    text = file.read_text(encoding="utf-8")
    catalogue: dict[str, dict[str, str]] = yaml.safe_load(text)
    unknown = sorted(set(names) - catalogue.keys())
    if unknown:
        print(f"not in the catalogue: {', '.join(unknown)}; it has {', '.join(catalogue)}")
        return 2
    failed = False
    for name in names or catalogue:
        entry = catalogue[name]
        try:
            if name not in places:
                raise NotFoundError("tests/catalogue.py has no place to look for it: add one")
            image = newest(places[name])
        except NotFoundError as error:
            failed = True
            print(f"{name}: left as it is: {error}")
            continue
        if image.items() <= entry.items():
            print(f"{name}: up to date")
            continue
        print(f"{name}: {_last(entry['url'])} -> {_last(image['url'])}")
        for key, value in image.items():
            # so that the comments and the order of the file stay
            text = text.replace(f"\n  {key}: {entry[key]}\n", f"\n  {key}: {value}\n")
        entry.update(image)
    if yaml.safe_load(text) != catalogue:
        print(f"{file} is not written: it is not in the form that this program expects")
        return 1
    file.write_text(text, encoding="utf-8")
    return 1 if failed else 0


def _last(url: str) -> str:
    """The end of a URL that has the date, of the folder or of the file."""
    return "/".join(urlsplit(url).path.split("/")[-2:])


if __name__ == "__main__":
    sys.exit(refresh(_catalogue.FILE, PLACES, sys.argv[1:]))
