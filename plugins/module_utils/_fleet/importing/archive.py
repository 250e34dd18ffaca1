# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The members of an OVA, which is a flat tar archive (DSP0243), read from its headers alone.

An archive may come from anyone. Nothing is ever unpacked: a disk is read where it stands in the
archive, so no name in it becomes a path, and no size is believed before it is compared with the
file. Python's tarfile would read whatever length an extended header claims into memory.
"""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass
from ..base.options import show

# count bytes at an offset; fewer at the end of the file
Read = t.Callable[[int, int], bytes]

BLOCK = 512
_MOST_MEMBERS = 256
_LONGEST_HEADER = 64 << 10
_CHECKSUM = slice(148, 156)
_REGULAR = (b"0", b"\0", b"7")
_OTHERS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a folder",
    b"6": "a named pipe",
    b"S": "a sparse file",
}
_REMEDY = (
    "if you trust where it comes from, unpack it into an empty folder (tar -xf ARCHIVE -C FOLDER)"
    " and import the OVF file that is there"
)


@dataclass(frozen=True)
class Member:
    """A file of the archive: ``size`` bytes from ``offset`` on."""

    name: str
    offset: int
    size: int


def is_archive(head: bytes) -> bool:
    """Whether a file with these first bytes is a tar archive."""
    return len(head) >= BLOCK and head[257:262] == b"ustar" and _is_header(head[:BLOCK])


def members(read: Read, size: int) -> list[Member]:
    """The files of an archive of ``size`` bytes; raises PlanRefused for any that is no OVA's."""
    members: list[Member] = []
    more: dict[str, str] = {}
    place = 0
    while place + BLOCK <= size:
        header = read(place, BLOCK)
        if not header.strip(b"\0"):
            break
        if not _is_header(header):
            raise PlanRefused(
                f"the archive is damaged at byte {place}: no member begins there; copy it again"
            )
        kind = header[156:157]
        length = int(more.get("size", _number(header[124:136])))
        content = place + BLOCK
        if content + length > size:
            raise PlanRefused(
                f"the archive has {size} bytes, and a member from byte {content} on claims"
                f" {length}; it is truncated, or made to mislead: copy it again"
            )
        if kind in (b"x", b"g", b"L", b"K"):
            more = _extended(kind, read, content, length, more)
        else:
            name = more.get("path") or _name(header)
            members.append(_member(name, kind, content, length, members))
            more = {}
        place = content + -(-length // BLOCK) * BLOCK
    if not members:
        raise PlanRefused("the archive has no files; copy it again")
    return members


def _member(name: str, kind: bytes, offset: int, size: int, before: t.Sequence[Member]) -> Member:
    name = name.removeprefix("./")
    if kind not in _REGULAR:
        what = _OTHERS.get(kind, f"of the unknown kind {kind!r}")
        raise PlanRefused(
            f"the archive's member {show(name)} is {what}; an OVA has files alone: {_REMEDY}"
        )
    problem = name_problem(name)
    if problem:
        raise PlanRefused(f"the archive's member {show(name)} {problem}; {_REMEDY}")
    if any(member.name == name for member in before):
        raise PlanRefused(f"the archive has two members {show(name)}; {_REMEDY}")
    if len(before) >= _MOST_MEMBERS:
        raise PlanRefused(f"the archive has more than {_MOST_MEMBERS} members; {_REMEDY}")
    return Member(name, offset, size)


def name_problem(name: str) -> str | None:
    """Why a file cannot be called so beside an OVF descriptor; None if it can."""
    if "/" in name or "\\" in name or name in ("", ".", ".."):
        return "has a path, and a file of an OVF package is beside its descriptor"
    if len(name) > 255 or not name.isprintable():
        return "has a name of more than 255 characters, or one that cannot be printed"
    return None


def _is_header(header: bytes) -> bool:
    """Whether the checksum of a header is right."""
    blank = header[: _CHECKSUM.start] + b" " * 8 + header[_CHECKSUM.stop :]
    try:
        return len(header) == BLOCK and sum(blank) == _number(header[_CHECKSUM])
    except PlanRefused:
        return False


def _number(field: bytes) -> int:
    """A number, octal, or binary with the first bit set, as GNU's tar writes large ones."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    text = field.strip(b" \0")
    if text.strip(b"01234567"):
        raise PlanRefused(f"the archive has a header whose number is {field!r}; copy it again")
    return int(text or b"0", 8)


def _name(header: bytes) -> str:
    prefix = b"" if header[257:265] == b"ustar  \0" else header[345:500]
    parts = [part.partition(b"\0")[0] for part in (prefix, header[:100])]
    return b"/".join(part for part in parts if part).decode("utf-8", "replace")


def _extended(
    kind: bytes, read: Read, offset: int, length: int, before: t.Mapping[str, str]
) -> dict[str, str]:
    """What an extended header says of the next member, besides what is known ``before``."""
    if length > _LONGEST_HEADER:
        raise PlanRefused(
            f"the archive has an extended header of {length} bytes; at most {_LONGEST_HEADER} are"
            f" read: {_REMEDY}"
        )
    data = read(offset, length)
    if kind == b"L":
        return {**before, "path": data.partition(b"\0")[0].decode("utf-8", "replace")}
    if kind != b"x":
        return dict(before)
    values = dict(before)
    while data:
        digits, _space, _rest = data.partition(b" ")
        count = int(digits) if digits.isdigit() and len(digits) < 8 else 0
        key, equals, value = data[len(digits) + 1 : count - 1].partition(b"=")
        if not equals or not len(digits) < count <= len(data):  # else this would never end
            raise PlanRefused("the archive has a damaged extended header; copy it again")
        values[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        data = data[count:]
    if any(key.startswith("GNU.sparse") for key in values):
        raise PlanRefused(f"the archive has a sparse file; {_REMEDY}")
    size = values.get("size", "0")
    if not (size.isascii() and size.isdigit()) or len(size) > 18:
        raise PlanRefused("the archive has a damaged extended header; copy it again")
    return values
