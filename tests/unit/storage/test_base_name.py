# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of base images, digests and checksums as text and back."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.facts import ImageFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import (
    BaseName,
    Checksum,
    Digest,
    have_same_content,
)

DIGITS = "0123456789abcdef" * 4
DIGEST = Digest(DIGITS)
OTHER = Digest("f" * 64)


@pytest.mark.parametrize(
    ("rest", "name", "image_format"),
    [
        ("debian12.qcow2", "debian12", "qcow2"),
        ("disk.raw", "disk", "raw"),
        ("really-raw.qcow2.raw", "really-raw.qcow2", "raw"),
        ("web1-copy-0a1b2c3d-vdb.qcow2", "web1-copy-0a1b2c3d-vdb", "qcow2"),
        ("-.raw", "-", "raw"),
        ("..qcow2", ".", "qcow2"),
        ("Größe 1.raw", "Größe 1", "raw"),
    ],
)
def test_base_name_round_trip_is_same_text(rest: str, name: str, image_format: str) -> None:
    base = BaseName.parse(f"{DIGITS}-{rest}")
    assert base == BaseName(DIGEST, name, image_format)
    assert str(base) == f"{DIGITS}-{rest}"
    assert base.file_name == rest
    assert BaseName.at(f"/var/lib/libvirt/base/{base}") == base


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "debian12.qcow2",
        DIGITS,
        f"{DIGITS}.qcow2",
        f"{DIGITS}-",
        f"{DIGITS}-debian12",
        f"{DIGITS}-.qcow2",
        f"{DIGITS}-qcow2",
        f"{DIGITS}-debian12.vmdk",
        f"{DIGITS}-debian12.QCOW2",
        f"{DIGITS}-debian12.qcow2.",
        f"{DIGITS}-debian12.qcow2\n",
        f"{DIGITS}-a\nb.qcow2",
        f"{DIGITS}-a\0b.qcow2",
        f"{DIGITS}-../debian12.qcow2",
        f"{DIGITS}_debian12.qcow2",
        f" {DIGITS}-debian12.qcow2",
        f".{DIGITS}-debian12.qcow2",
        f"{DIGITS[:-1]}-debian12.qcow2",
        f"{DIGITS}0-debian12.qcow2",
        f"{DIGITS.upper()}-debian12.qcow2",
        f"{DIGITS[:-1]}g-debian12.qcow2",
        f"{DIGITS[:-1]}٣-debian12.qcow2",  # a digit, but no hexadecimal one
    ],
)
def test_base_name_of_another_file_is_refused(text: str) -> None:
    assert BaseName.parse(text) is None


@pytest.mark.parametrize(
    ("name", "image_format"), [("", "raw"), ("a/b", "raw"), ("a", "vmdk"), ("a", "")]
)
def test_base_name_that_could_not_be_read_again_is_refused(name: str, image_format: str) -> None:
    with pytest.raises(ValueError, match="is no name of a base image"):
        BaseName(DIGEST, name, image_format)


@pytest.mark.parametrize(
    "text", ["", DIGITS[:-1], f"{DIGITS}0", DIGITS.upper(), f"{DIGITS[:-1]}\n", None, "(generated)"]
)
def test_digest_of_other_text_is_refused(text: object) -> None:
    assert Digest.parse(text) is None
    with pytest.raises(ValueError, match="is not a checksum"):
        Digest(str(text))


def test_digest_round_trip_is_same_text() -> None:
    assert Digest.parse(DIGITS) == DIGEST
    assert str(DIGEST) == DIGITS
    assert DIGEST.checksum == Checksum("sha256", DIGITS)
    assert DIGEST.checksum.digest == DIGEST


@pytest.mark.parametrize("text", [f"sha256:{DIGITS}", f"sha512:{DIGITS}{DIGITS}"])
def test_checksum_round_trip_is_same_text(text: str) -> None:
    checksum = Checksum.parse(text)
    assert str(checksum) == text
    assert checksum is not None
    assert (checksum.digest is None) == text.startswith("sha512")


@pytest.mark.parametrize(
    "text",
    [
        "",
        DIGITS,
        f":{DIGITS}",
        f"sha256{DIGITS}",
        f"sha256:{DIGITS}{DIGITS}",
        f"sha512:{DIGITS}",
        f"SHA256:{DIGITS}",
        f"md5:{DIGITS[:32]}",
        f"sha256:{DIGITS.upper()}",
        f"sha256:{DIGITS}\n",
        f"sha256: {DIGITS[1:]}",
    ],
)
def test_checksum_of_other_text_is_refused(text: str) -> None:
    assert Checksum.parse(text) is None


def test_names_and_digests_cannot_be_changed() -> None:
    for value, field in ((DIGEST, "digits"), (BaseName(DIGEST, "a", "raw"), "name")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field, "other")


@pytest.mark.parametrize(
    ("path", "other", "same"),
    [
        (None, None, True),
        (None, f"/b/{DIGEST}-a.raw", False),
        ("/b/x.iso", "/b/x.iso", True),
        ("/b/x.iso", "/c/x.iso", False),
        (f"/b/{DIGEST}-a.raw", f"/c/{DIGEST}-b.raw", True),
        (f"/b/{DIGEST}-a.raw", f"/b/{OTHER}-a.raw", False),
        (f"/b/{DIGEST}-a.raw", "/b/a.raw", False),
    ],
)
def test_files_of_equal_digest_have_same_content(
    path: str | None, other: str | None, same: bool
) -> None:
    assert have_same_content(path, other) is same


@pytest.mark.parametrize(
    ("facts", "digest"),
    [
        (ImageFacts("a.raw", DIGEST, "raw", 512), DIGITS),
        (ImageFacts("a.raw", None, "raw", 0), ""),
        (ImageFacts("a.raw", None, "qcow2", 1, pending=True), "(generated)"),
    ],
)
def test_image_facts_round_trip_is_same_image(facts: ImageFacts, digest: str) -> None:
    known = facts.as_dict()
    assert known["digest"] == digest
    assert ImageFacts.of(known) == facts
