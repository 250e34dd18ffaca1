# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Base images with who uses them: listing, verifying, and removing those that nobody uses.

A base image is used by whatever lies on it in any pool, attached to a VM or not, and by a VM in
creation. A creation claims its image before it makes anything of it, and under the host's lock: an
image that is looked at and removed under that lock is either seen to be claimed, or gone before the
claim, and then that creation ends with a word and nothing made.

This file is private to the collection.
"""

from __future__ import annotations

import functools
import os
import typing as t
from dataclasses import dataclass

from ... import _lxml
from ..._errors import PlanRefused
from ..._libvirt import DOMAIN_XML_INACTIVE, ERR_NO_DOMAIN
from ..._pure.base import metadata
from ..._pure.base.options import show
from ..._pure.base.xml_values import mib_up
from ..base import owner
from ..base.connection import Connection
from ..machine import ownership, storage
from ..machine.ownership import References
from ..machine.storage import Pool
from . import base_file, digests, images
from .images import BaseImage, described

if t.TYPE_CHECKING:
    from ..._pure.images.entries import Diff, ListedEntry, UsedEntry

_USED = "used by "
_LONG = 6 * 3600.0


@dataclass(frozen=True)
class Use:
    """A base image, what it takes of the disk in bytes and, in words, who uses it."""

    base: BaseImage
    occupied: int
    users: tuple[str, ...]


class Listed(t.TypedDict):
    """What ``virt_image_info`` returns."""

    changed: bool
    images: list[ListedEntry]
    damaged: list[str]


class _Difference(t.TypedDict, total=False):
    diff: Diff


class Removed(_Difference):
    """What ``virt_image`` returns of images that are removed."""

    changed: bool
    images: list[UsedEntry]


def listed(connection: Connection, base_pool: str, base_path: str, *, verify: bool) -> Listed:
    """The base images of this hypervisor; with ``verify`` each is read and compared."""
    images.require_local(connection)
    pool = images.find_pool(connection, base_pool, base_path, check=True)
    found = _uses(connection, pool) if pool else []
    entries: list[ListedEntry] = [{**_entry(pool, use), "intact": None} for use in found if pool]
    if verify:
        for entry, use in zip(entries, found):
            work = functools.partial(_digest, use.base.path)
            came = images.file_work(f"read {use.base.path}", work)
            entry["intact"] = came == use.base.digest
    damaged = [entry["volume"] for entry in entries if entry["intact"] is False]
    return {"changed": False, "images": entries, "damaged": damaged}


class Pools(t.TypedDict):
    """The ids of the pools that this hypervisor reads and writes."""

    changed: bool
    pool_ids: list[str]


def pools(connection: Connection) -> Pools:
    """What other hypervisors have to know before images are removed: the ids of pools here."""
    images.require_local(connection)
    there = ownership.read_pools(connection).values()
    return {"changed": False, "pool_ids": sorted(pool.id for pool in there if pool.id)}


def removed(
    connection: Connection,
    image: str | None,
    base_pool: str,
    base_path: str,
    sole_pool_ids: t.Collection[str],
    *,
    check: bool,
) -> Removed:
    """Remove the base image ``image`` (volume, digest or name), which nobody may use, or without
    one all that nobody uses.

    ``sole_pool_ids`` are of pools that no other hypervisor has, which all were asked for.
    """
    choose = _unused if image is None else functools.partial(_one, image)
    return _remove(connection, base_pool, base_path, choose, sole_pool_ids, check=check)


def _unused(found: t.Sequence[Use]) -> list[Use]:
    return [use for use in found if not use.users]


def _one(image: str, found: t.Sequence[Use]) -> list[Use]:
    chosen = [use for use in found if image in (use.base.volume, use.base.digest)]
    chosen = chosen or [use for use in found if _is_called(use.base, image)]
    if len(chosen) > 1:
        names = ", ".join(use.base.volume for use in chosen)
        raise PlanRefused(f"image {show(image)} is each of {names}; name one of these")
    for use in chosen:
        if use.users:
            raise PlanRefused(
                f"image {use.base.volume} is in use by {'; '.join(use.users)}; nothing was"
                " removed: remove what uses it first"
            )
    return chosen


def users_of(references: References, path: str) -> list[str]:
    """Who uses the image ``path``, however many overlays lie between."""
    found: set[str] = set()
    waiting, seen = [path], {path}
    while waiting:
        image = waiting.pop()
        for user in references.users(image):
            if user.image is None:
                found.add(user.text[len(_USED) :] if user.text.startswith(_USED) else user.text)
            elif user.image not in seen:
                seen.add(user.image)
                waiting.append(user.image)
                if not references.users(user.image):
                    found.add(f"{user.image}, which no VM uses")
    if len(seen) > 1 and not found:
        found.add(f"images that lie on each other ({', '.join(sorted(seen - {path}))})")
    return sorted(found)


def _is_called(base: BaseImage, image: str) -> bool:
    """Whether it has that name, as it was written or as volumes are named."""
    volume = images.base_volume_name(image, base.digest, base.format)
    return image == base.name or volume == base.volume


def _uses(connection: Connection, pool: Pool) -> list[Use]:
    references = ownership.read(connection)
    made_from = _in_creation(connection)
    uses = []
    for base in images.list_bases(connection, pool):
        users = users_of(references, base.path) + made_from.get(base.digest, [])
        if not users and ownership.is_locked(base.path):
            users = ["a program that has it open"]
        uses.append(Use(base, _occupied(base.path), tuple(sorted(set(users)))))
    return uses


def _in_creation(connection: Connection) -> dict[str, list[str]]:
    """By digest, the VMs that are being made of an image."""
    raws = connection.call("list domains", connection.conn.listAllDomains, 0)
    read = connection.each_there(
        lambda dom: (str(dom.name()), dom.XMLDesc(DOMAIN_XML_INACTIVE)),
        raws,
        lambda _raw: "read a domain",
        ERR_NO_DOMAIN,
    )
    found: dict[str, list[str]] = {}
    for _raw, (name, text) in read:
        stored = metadata.parse(_lxml.parse(text, f"domain {name}"))
        if stored is not None and stored.phase == "creating" and stored.image is not None:
            found.setdefault(stored.image.digest, []).append(
                f"domain {name!r}, which is being made"
            )
    return found


def _remove(
    connection: Connection,
    base_pool: str,
    base_path: str,
    choose: t.Callable[[t.Sequence[Use]], list[Use]],
    sole_pool_ids: t.Collection[str],
    *,
    check: bool,
) -> Removed:
    images.require_local(connection)
    pool = images.find_pool(connection, base_pool, base_path, check=check)
    if pool is None:
        return {"changed": False, "images": []}
    # all is looked at before the lock is taken, so that what hangs holds up nobody else
    chosen = choose(_uses(connection, pool))
    if chosen and not check:
        _require_own(connection, pool, sole_pool_ids)
        with base_file.folder_lock(pool.path, _LONG), owner.host_lock():
            chosen = choose(_uses(connection, pool))
            for use in chosen:
                images.file_work(
                    f"remove {use.base.path}",
                    functools.partial(base_file.remove_immutable, use.base.path),
                    storage.CHANGE_SECONDS,
                )
        _forget(connection, pool)
    elif chosen:
        _require_own(connection, pool, sole_pool_ids)
    entries = [_entry(pool, use) for use in chosen]
    result: Removed = {"changed": bool(chosen), "images": entries}
    if chosen:
        lines = "".join(f"base image {use.base.volume}\n" for use in chosen)
        result["diff"] = {"before": lines, "after": ""}
    return result


def _require_own(connection: Connection, pool: Pool, sole_pool_ids: t.Collection[str]) -> None:
    """Raise PlanRefused for a pool that other hypervisors may have too: who uses its images there
    is not known here."""
    place = ownership.read_pools(connection).get(pool.name)
    if place is None or place.shared:
        raise PlanRefused(
            f"pool {pool.name} at {pool.path} is on shared storage, and who uses its images on"
            " other hypervisors is not known here; nothing was removed"
        )
    if place.id is not None and place.id not in sole_pool_ids:
        raise PlanRefused(
            f"pool {pool.name} at {pool.path} has an id, and another hypervisor has the same pool"
            " or was not asked; nothing was removed: the playbook fleet.virt.images asks all,"
            " and each has to answer"
        )


def _forget(connection: Connection, pool: Pool) -> None:
    """Have libvirt see what is gone."""
    storage.patiently(connection, f"refresh pool {pool.name}", lambda: pool.existing.refresh(0))


def _digest(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return digests.sha256(descriptor)
    finally:
        os.close(descriptor)


def _entry(pool: Pool, use: Use) -> UsedEntry:
    return {
        **described(pool, use.base),
        "allocated_mib": mib_up(use.occupied),
        "users": list(use.users),
    }


def _occupied(path: str) -> int:
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0  # it was removed just now
