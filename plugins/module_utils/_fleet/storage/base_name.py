# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of base images: the digest of the content, the image's name, the format.

The only place where such a name, a digest or a checksum is taken apart or put together.
"""

from __future__ import annotations

import posixpath
import re

from ..._records import dataclass

FORMATS = ("qcow2", "raw")
_HEXADECIMAL = re.compile(r"[0-9a-f]+")
_LENGTHS = {"sha256": 64, "sha512": 128}
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_PACKED = re.compile(r"\.(xz|gz|zst)$")
_NAME_LENGTH = 128


@dataclass(frozen=True)
class Checksum:
    """What is published with a file, ``sha256:`` or ``sha512:`` and the digits in hexadecimal."""

    algorithm: str
    digits: str

    def __post_init__(self) -> None:
        length = _LENGTHS.get(self.algorithm)
        if len(self.digits) != length or not _HEXADECIMAL.fullmatch(self.digits):
            raise ValueError(f"{self.algorithm}:{self.digits} is not a checksum")

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.digits}"

    @classmethod
    def parse(cls, text: str) -> Checksum | None:
        """The checksum that ``text`` is; None if it is none."""
        algorithm, _colon, digits = text.partition(":")
        try:
            return cls(algorithm, digits)
        except ValueError:
            return None

    @property
    def digest(self) -> Digest | None:
        """The SHA-256 of the file, if it is one."""
        return Digest(self.digits) if self.algorithm == "sha256" else None


@dataclass(frozen=True)
class Digest:
    """The SHA-256 of an image's content, which identifies it everywhere; as text, the digits."""

    digits: str

    def __post_init__(self) -> None:
        Checksum("sha256", self.digits)

    def __str__(self) -> str:
        return self.digits

    @property
    def checksum(self) -> Checksum:
        """The same as it is published."""
        return Checksum("sha256", self.digits)

    @classmethod
    def parse(cls, text: object) -> Digest | None:
        """The digest that ``text`` is; None if it is none."""
        try:
            return cls(str(text))
        except ValueError:
            return None


@dataclass(frozen=True)
class BaseName:
    """The name of a base image's file: as text, ``<digest>-<name>.<format>``."""

    digest: Digest
    name: str
    format: str

    def __post_init__(self) -> None:
        unprintable = not self.name or set(self.name) & {"/", "\n", "\0"}
        if unprintable or self.format not in FORMATS:
            raise ValueError(f"{self.name!r} is no name of a base image in {self.format!r}")

    def __str__(self) -> str:
        return f"{self.digest}-{self.file_name}"

    @property
    def file_name(self) -> str:
        """The image's name with its ending."""
        return f"{self.name}.{self.format}"

    @classmethod
    def parse(cls, volume: str) -> BaseName | None:
        """The name that ``volume`` is; None if it is none of a base image."""
        digits, dash, rest = volume.partition("-")
        name, dot, image_format = rest.rpartition(".")
        try:
            return cls(Digest(digits), name, image_format) if dash and dot else None
        except ValueError:
            return None

    @classmethod
    def at(cls, path: str | None) -> BaseName | None:
        """The name of the file ``path``; None if it is none of a base image."""
        return cls.parse(posixpath.basename(path or ""))

    @classmethod
    def of(cls, image: str, digest: Digest, image_format: str) -> BaseName:
        """The name for the content of ``image``, as the user named it: characters except letters,
        digits and ``._-`` become ``_``.

        Extensions of compressed files are removed: a base image is not compressed.
        """
        clean = _UNSAFE.sub("_", _PACKED.sub("", image)).removesuffix(f".{image_format}")
        return cls(digest, clean[:_NAME_LENGTH] or "image", image_format)


def have_same_content(path: str | None, other: str | None) -> bool:
    """Whether two paths are one file, or base images of one digest, whatever their names."""
    if path is None or other is None or path == other:
        return path == other
    ours, theirs = BaseName.at(path), BaseName.at(other)
    return ours is not None and theirs is not None and ours.digest == theirs.digest
