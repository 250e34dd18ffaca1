# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether another hypervisor sees the lock that this one holds on a file of a shared pool.

The other's libvirt makes a small qcow2 image, which must show up here. This one locks it as a
running QEMU does; then the other's ``qemu-img`` (virStorageVolResize) must be refused it, and be
given it once the lock is gone. Nothing but the image is touched, and it is removed again.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import struct
import typing as t
from contextlib import contextmanager

from ..._errors import FleetVirtError, LibvirtFailure, PlanRefused
from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection, connect
from ..images.options import peer_uris
from ..storage import effects_storage as storage
from ..storage.effects_probe import appears, probe
from ..storage.read_file_users import LOCK_BYTES, LOCK_FIRST

if t.TYPE_CHECKING:
    from .facts import LockTrial
    from .options import LockPeer

_MIB = 1024 * 1024
_FLOCK = struct.Struct("hhqqi4x")


def attempt(own: str, peers: t.Sequence[LockPeer], timeout: float) -> list[LockTrial]:
    """Try each pool with its peer; ``own`` is this hypervisor's name."""
    trials: list[LockTrial] = []
    for peer in peers:
        outcome, error = "untried", None
        try:
            outcome = _attempt(own, peer, timeout)
        except (FleetVirtError, OSError) as failure:
            error = str(failure)
        trials.append({"pool": peer.pool, "peer": peer.name, "outcome": outcome, "error": error})
    return trials


def _attempt(own: str, peer: LockPeer, timeout: float) -> str:
    (uri,) = peer_uris([peer.address]).values()
    key = f"lock-{hashlib.sha256(own.encode()).hexdigest()[:16]}"
    with connect(uri, timeout) as there:
        pool = storage.pool_at(there, peer.peer_path)
        if pool is None:
            raise PlanRefused(f"there is no pool at {peer.peer_path}")
        with probe(there, pool, key, _MIB, "qcow2") as (name, volume):
            path = f"{peer.path}/{name}"
            if not appears(path, timeout):
                return "invisible"
            with _locked(path, timeout):
                refused = _refusal(there, functools.partial(volume.resize, 2 * _MIB, 0))
            if refused is None:
                return "unseen"
            if "lock" not in str(refused):
                raise refused
            free = _refusal(there, functools.partial(volume.resize, 3 * _MIB, 0))
            if free is not None:
                raise free
            return "held"


def _refusal(there: Connection, resize: t.Callable[[], int]) -> LibvirtFailure | None:
    try:
        storage.patiently(there, "try the lock", resize)
    except LibvirtFailure as error:
        return error
    return None


@contextmanager
def _locked(path: str, timeout: float) -> t.Iterator[None]:
    """Hold QEMU's locks on the image: all that it can take, and nothing granted to others."""

    def lock() -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            asked = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, LOCK_FIRST, LOCK_BYTES, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, asked)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    descriptor = deadline.call(lock, seconds=timeout, what=f"lock {path}")
    try:
        yield
    finally:
        deadline.call(lambda: os.close(descriptor), seconds=timeout, what=f"close {path}")
