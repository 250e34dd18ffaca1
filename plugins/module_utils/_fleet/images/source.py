# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The source of a disk's content, as the user writes it: one string, four kinds.

Names of the catalogue are replaced by their URLs on the controller before this reads them.
"""

from __future__ import annotations

import typing as t
from urllib.parse import urlsplit

from ..._records import dataclass
from ..base.options import show
from ..storage.base_name import Checksum

FORMS = (
    "write a file name in virt_image_dir, a name of the catalogue, an absolute path on the "
    "hypervisor, an https URL with its checksum, or pool/volume"
)
_CHECKSUM_FORMS = (
    "write https://host/path/file.qcow2#sha256:... or {url: ..., checksum: 'sha256:...'}"
)
# A base image's name adds digest and ending to this, and has at most 255 bytes
_LONGEST_NAME = 180


@dataclass(frozen=True)
class ImageSource:
    """``file`` in ``virt_image_dir``, ``path`` on the hypervisor, ``url`` or ``volume``.

    ``value`` is the string as written; of a URL it ends with ``#`` and the checksum.
    """

    kind: t.Literal["file", "path", "url", "volume"]
    value: str

    @property
    def pool_and_volume(self) -> tuple[str, str]:
        """The two parts of a ``volume``."""
        pool, _dummy, volume = self.value.partition("/")
        return pool, volume

    @property
    def url(self) -> str:
        """A ``url`` without its checksum."""
        return self.value.partition("#")[0]

    @property
    def checksum(self) -> Checksum:
        """The checksum of a ``url``; ValueError for any other source."""
        checksum = Checksum.parse(self.value.partition("#")[2])
        if checksum is None:
            raise ValueError(f"{show(self.value)} has no checksum")
        return checksum

    @property
    def file_name(self) -> str:
        """The last part of the path, for names and messages."""
        path = urlsplit(self.value).path if self.kind == "url" else self.value
        return path.rpartition("/")[2]


def parse_image(value: object) -> ImageSource:
    """The source that ``value`` names; ValueError with rule and remedy.

    A mapping of ``url`` and ``checksum`` is equivalent to one string of both.
    """
    if isinstance(value, dict):
        value = _joined(value)
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{show(value)} is not an image; {FORMS}")
    if len(value) > 1024:
        raise ValueError(f"{show(value)} is longer than 1024 characters; {FORMS}")
    text = str(value)
    if "://" in text:
        return _url(text)
    if ".." in text.split("/"):
        raise ValueError(f"{show(text)} has a '..' in its path; {FORMS}")
    if text.startswith("/"):
        if text.endswith("/") or "//" in text:
            raise ValueError(
                f"{show(text)} is not a file path: it ends in '/' or has '//'; {FORMS}"
            )
        return ImageSource("path", text)
    if text.startswith(("-", ".")) or text.count("/") > 1 or text.endswith("/"):
        raise ValueError(f"{show(text)} is not an image; {FORMS}")
    return ImageSource("volume" if "/" in text else "file", text)


def with_checksum(image: object, checksum: str | None) -> object:
    """The image with a separately given checksum."""
    return image if checksum is None else {"url": image, "checksum": checksum}


def _joined(value: t.Mapping[object, object]) -> str:
    url, checksum = value.get("url"), value.get("checksum")
    if set(value) != {"url", "checksum"} or not isinstance(url, str) or "://" not in url:
        raise ValueError(f"an image as a mapping has a URL and its checksum: {_CHECKSUM_FORMS}")
    if "#" in url:
        raise ValueError(f"{show(url)} has a '#' besides the checksum; {_CHECKSUM_FORMS}")
    return f"{url}#{checksum}"


def _url(text: str) -> ImageSource:
    scheme, _dummy, rest = text.partition("://")
    if scheme == "salt":
        name = rest.rpartition("/")[2]
        raise ValueError(
            f"{show(text)}: salt:// is not supported; put the file into virt_image_dir and "
            f"write {name or 'its name'}"
        )
    if scheme != "https":
        raise ValueError(f"{show(text)} is not an https URL; nothing else is downloaded: {FORMS}")
    try:
        parts = urlsplit(text)
        host, secret = parts.hostname, parts.password
    except ValueError:
        host, secret = None, None
    if secret is not None or not host or not parts.path.rpartition("/")[2]:
        raise ValueError(
            "an image's URL needs a host and a file name, and must not contain a password: "
            "write https://host/path/file.qcow2"
        )
    name = parts.path.rpartition("/")[2]
    if name.startswith((".", "-")) or len(name.encode("utf-8")) > _LONGEST_NAME:
        raise ValueError(
            f"{show(text)} does not end with a file name of at most {_LONGEST_NAME} bytes that"
            " begins with neither '.' nor '-'; write the URL of the image itself"
        )
    url, _dummy, checksum = text.partition("#")
    checksum = checksum.lower()
    if not checksum:
        raise ValueError(
            f"{show(text)} has no checksum, which identifies the image; {_CHECKSUM_FORMS}"
        )
    if Checksum.parse(checksum) is None:
        raise ValueError(
            f"{show(checksum)} is not a checksum: sha256: and 64 hexadecimal digits, or sha512: and"
            f" 128; {_CHECKSUM_FORMS}"
        )
    return ImageSource("url", f"{url}#{checksum}")
