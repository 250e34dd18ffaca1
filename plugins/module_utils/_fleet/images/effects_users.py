# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Base images and their users: listing, verifying, and removing unused ones.

A base image is used by any overlay on it in any pool, attached to a VM or not, and by a VM in
creation. A creation claims its image before it creates anything from it, and under the host's lock:
an image that is checked and removed under that lock is either seen as claimed, or gone before the
claim, and then that creation fails with an error and creates nothing.
"""

from __future__ import annotations

import functools
import os
import typing as t

from ... import _lxml
from ..._errors import PlanRefused
from ..._libvirt import DOMAIN_XML_INACTIVE, ERR_NO_DOMAIN
from ..._records import dataclass
from ..base import metadata
from ..base.effects_connection import Connection
from ..base.options import show
from ..base.xml_values import mib_up
from ..engine import effects_lease_holder as owner
from ..storage import effects_storage as storage
from ..storage import read_file_users as ownership
from ..storage.base_name import BaseName, Digest
from ..storage.effects_storage import Pool
from ..storage.read_file_users import References
from . import effects_base_file as base_file
from . import effects_base_images as images
from . import effects_digests as digests
from .effects_base_images import BaseImage, described

if t.TYPE_CHECKING:
    from .entries import Diff, ListedEntry, UsedEntry

_USED = "used by "
_LONG = 6 * 3600.0


@dataclass(frozen=True)
class Use:
    """A base image, the bytes it occupies on disk and its users as text."""

    base: BaseImage
    occupied: int
    users: tuple[str, ...]


class Listed(t.TypedDict):
    """The result of ``virt_image_info``."""

    changed: bool
    images: list[ListedEntry]
    damaged: list[str]


class _Difference(t.TypedDict, total=False):
    diff: Diff


class Removed(_Difference):
    """The result of ``virt_image`` for removed images."""

    changed: bool
    images: list[UsedEntry]


def listed(connection: Connection, base_pool: str, base_path: str, *, verify: bool) -> Listed:
    """The base images of this hypervisor; with ``verify``, each is read and its digest compared."""
    images.require_local(connection)
    pool = images.find_pool(connection, base_pool, base_path, check=True, to_make=False)
    uses = _uses(connection, pool) if pool else []
    entries: list[ListedEntry] = [{**_entry(pool, use), "intact": None} for use in uses if pool]
    if verify:
        for entry, use in zip(entries, uses):
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
    """The ids of the pools here, which other hypervisors need before they remove images."""
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
    """Remove the base image ``image`` (volume, digest or name), which must be unused, or without
    one all unused base images.

    ``sole_pool_ids`` are those of pools that no other hypervisor has; all were queried for that.
    """
    choose = _unused if image is None else functools.partial(_one, image)
    return _remove(connection, base_pool, base_path, choose, sole_pool_ids, check=check)


def _unused(uses: t.Sequence[Use]) -> list[Use]:
    return [use for use in uses if not use.users]


def _one(image: str, uses: t.Sequence[Use]) -> list[Use]:
    chosen = [use for use in uses if image in (str(use.base.volume), str(use.base.digest))]
    chosen = chosen or [use for use in uses if _is_called(use.base, image)]
    if len(chosen) > 1:
        names = ", ".join(str(use.base.volume) for use in chosen)
        raise PlanRefused(f"several images match {show(image)}: {names}; specify one of these")
    for use in chosen:
        if use.users:
            raise PlanRefused(
                f"image {use.base.volume} is in use by {'; '.join(use.users)}; nothing was"
                " removed. Remove its users first"
            )
    return chosen


def users_of(references: References, path: str) -> list[str]:
    """The users of the image ``path``, through any number of overlays."""
    users: set[str] = set()
    waiting, seen = [path], {path}
    while waiting:
        image = waiting.pop()
        for user in references.users(image):
            if user.image is None:
                users.add(user.text[len(_USED) :] if user.text.startswith(_USED) else user.text)
            elif user.image not in seen:
                seen.add(user.image)
                waiting.append(user.image)
                if not references.users(user.image):
                    users.add(f"{user.image}, which no VM uses")
    if len(seen) > 1 and not users:
        users.add(f"images that back each other ({', '.join(sorted(seen - {path}))})")
    return sorted(users)


def _is_called(base: BaseImage, image: str) -> bool:
    """Whether the base image has that name, as written or as in volume names."""
    volume = BaseName.of(image, base.digest, base.format)
    return image == base.name or volume == base.volume


def _uses(connection: Connection, pool: Pool) -> list[Use]:
    references = ownership.read(connection)
    made_from = _in_creation(connection)
    uses = []
    for base in images.list_bases(connection, pool):
        creating = made_from.get(str(base.digest), ())
        users = [f"domain {name!r}, which is being created" for name in creating]
        users += set(users_of(references, base.path)) - {f"domain {name!r}" for name in creating}
        if not users and ownership.is_locked(base.path):
            users = ["a program that has it open"]
        uses.append(Use(base, _occupied(base.path), tuple(sorted(set(users)))))
    return uses


def _in_creation(connection: Connection) -> dict[str, list[str]]:
    """The names of VMs that are being created from an image, by its digest."""
    raws = connection.call("list domains", connection.conn.listAllDomains, 0)
    read = connection.each_there(
        lambda dom: (str(dom.name()), dom.XMLDesc(DOMAIN_XML_INACTIVE)),
        raws,
        lambda _raw: "read a domain",
        ERR_NO_DOMAIN,
    )
    names: dict[str, list[str]] = {}
    for _raw, (name, text) in read:
        stored = metadata.parse(_lxml.parse(text, f"domain {name}"))
        if stored is not None and stored.phase == "creating" and stored.image is not None:
            names.setdefault(stored.image.digest, []).append(name)
    return names


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
    pool = images.find_pool(connection, base_pool, base_path, check=check, to_make=False)
    if pool is None:
        return {"changed": False, "images": []}
    # everything is read before the lock is taken, so that a hanging call does not delay others
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
    """Raise PlanRefused for a pool that other hypervisors may have, too: the users of its images
    there are not known here."""
    place = ownership.read_pools(connection).get(pool.name)
    if place is None or place.shared:
        raise PlanRefused(
            f"pool {pool.name} at {pool.path} is on shared storage, and this hypervisor cannot tell"
            " which images other hypervisors use; nothing was removed"
        )
    if place.id is not None and place.id not in sole_pool_ids:
        raise PlanRefused(
            f"pool {pool.name} at {pool.path} has an id, and another hypervisor has the same pool"
            " or was not queried; nothing was removed. Run ansible-playbook fleet.virt.images,"
            " which queries all hypervisors; each of them must respond"
        )


def _forget(connection: Connection, pool: Pool) -> None:
    """Refresh the pool, so that libvirt notices the removal."""
    storage.patiently(connection, f"refresh pool {pool.name}", lambda: pool.existing.refresh(0))


def _digest(path: str) -> Digest:
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
        return 0  # it was just removed
