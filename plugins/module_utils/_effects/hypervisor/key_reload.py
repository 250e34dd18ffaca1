# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Have running daemons read their TLS files again, without a restart.

libvirt frees the old credentials at once, also those of connections whose handshake is under way;
when such a connection goes on, the daemon crashes (seen with 9.0 and 11.3). So for a moment nobody
enters: with a limit of one client, which is us, connections wait in the kernel's queue, and those
under way come to their end. Then the files are read, and the limits are what they were.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import typing as t
from pathlib import Path

from ..._errors import DeadlineExceeded, FleetVirtError
from ..._pure.hypervisor.keys import common_names
from ..base import processes, programs, systemd

# The daemons that listen with TLS: the one for all, or of the modular ones the proxy
DAEMONS = ("libvirtd", "virtproxyd")
# Where both listen on this machine. Without a path libvirt's client would go to virtqemud, past the
# proxy that has TLS.
_GUARD_URI = "qemu+unix:///system?socket=/run/libvirt/libvirt-sock-ro"
_NO_TLS = "no tls service found"
_HANDSHAKE_SECONDS = 5.0
_BACK_SECONDS = 20.0  # after which people are let in again, whatever has become of this process


def serving(timeout: float) -> list[str]:
    """Names of the daemons that run and have TLS; one that does not run reads the files when it
    starts."""
    return [
        daemon for daemon in DAEMONS if _is_running(daemon, timeout) and _listens(daemon, timeout)
    ]


def reload(timeout: float, revoked: t.Collection[str]) -> list[str]:
    """Names of the daemons that have read the files again.

    :param revoked: common names, of which no connection is left afterwards.
    :raises FleetVirtError: one of them could not.
    """
    done = []
    for daemon in serving(timeout):
        if shutil.which("virt-admin") is None:
            raise FleetVirtError(
                f"{daemon} runs, and virt-admin, which tells it to read its TLS files again, is not"
                " installed (package libvirt-clients, on RHEL and SUSE libvirt-client)"
            )
        with _nobody_enters(daemon, timeout):
            try:
                _admin(daemon, timeout, "server-update-tls", daemon)
            except FleetVirtError as error:
                if _NO_TLS not in str(error):
                    raise
                continue  # it began before its socket, and reads the files when it begins anew
            _shut_out(daemon, timeout, revoked)
        done.append(daemon)
    return done


@contextlib.contextmanager
def _nobody_enters(daemon: str, timeout: float) -> t.Iterator[None]:
    """Nobody is let in, and no handshake is under way.

    Should this process be killed, a timer of systemd's lets people in again.
    """
    unit, saved = f"fleet-virt-keys-{daemon}", Path(f"/run/fleet-virt-keys-{daemon}.json")
    limits = _limits(daemon, timeout)
    if limits["nclients_max"] == 1 and saved.exists():  # an earlier run was killed just here
        limits = json.loads(saved.read_text(encoding="ascii"))
    saved.write_text(json.dumps(limits), encoding="ascii")
    systemd.stop(f"{unit}.timer", timeout)
    back = (
        *("server-clients-set", daemon, "--max-clients", str(limits["nclients_max"])),
        *("--max-unauth-clients", str(limits["nclients_unauth_max"])),
    )
    admin = [shutil.which("virt-admin") or "virt-admin", "-c", f"{daemon}:///system", *back]
    status, said = _run(systemd.own_unit(unit, admin, after=_BACK_SECONDS), timeout)
    if status != 0:
        raise FleetVirtError(f"systemd-run failed, without which {daemon} is not touched: {said}")
    with a_client(daemon, timeout):
        try:
            only = ("--max-clients", "1", "--max-unauth-clients", "1")
            _admin(daemon, timeout, "server-clients-set", daemon, *only)
            _settle(daemon, timeout)
            yield
        finally:
            _admin(daemon, timeout, *back)
            systemd.stop(f"{unit}.timer", timeout)
            saved.unlink(missing_ok=True)


@contextlib.contextmanager
def a_client(daemon: str, timeout: float) -> t.Iterator[None]:
    """A client of the daemon that has been let in, and stays."""
    words = ["virsh", "--readonly", "--quiet", "--connect", _GUARD_URI]
    with programs.greeted(words, "uri\n", "://", seconds=timeout) as refusal:
        if refusal is not None:
            raise FleetVirtError(f"{daemon} lets nobody in: {refusal or 'no answer'}")
        yield


def _settle(daemon: str, timeout: float) -> None:
    """Wait until nobody is being verified; who takes too long is disconnected.

    libvirt does not count those in a handshake among the unauthenticated. Who has been verified has
    a name. Nobody twice in a row: one may have been on its way in when the limit came.
    """
    limit = time.monotonic() + _HANDSHAKE_SECONDS
    verified: set[str] = set()
    clean = 0
    while clean < 2:
        unverified = _unverified(daemon, timeout, verified)
        clean = 0 if unverified else clean + 1
        if unverified and time.monotonic() > limit:
            for client in unverified:
                _admin(daemon, timeout, "client-disconnect", daemon, client, missing=True)
            limit += _HANDSHAKE_SECONDS
        time.sleep(0.05)


def _unverified(daemon: str, timeout: float, verified: set[str]) -> list[str]:
    """Clients that have come by TLS and have no name yet; those that have are added."""
    clients = _tls_clients(daemon, timeout, verified)
    verified.update(client for client, name in clients.items() if name is not None)
    return [client for client, name in clients.items() if name is None]


def _tls_clients(
    daemon: str, timeout: float, known: t.Container[str] = ()
) -> dict[str, str | None]:
    """Clients that have come by TLS, without those known, with the name they were verified by."""
    found = {}
    for line in _admin(daemon, timeout, "client-list", daemon).splitlines():
        words = line.split()
        if len(words) > 1 and words[0].isdigit() and words[1] == "tls" and words[0] not in known:
            shown = _admin(daemon, timeout, "client-info", daemon, words[0], missing=True)
            found[words[0]] = _verified_name(shown)
    return found


def _verified_name(info: str) -> str | None:
    for line in info.splitlines():
        field, _colon, value = line.partition(":")
        if field.strip() == "tls_x509_dname":
            return value.strip()
    return None


def _shut_out(daemon: str, timeout: float, revoked: t.Collection[str]) -> None:
    """Close the connections of ``revoked``; nobody enters meanwhile."""
    limit = time.monotonic() + _HANDSHAKE_SECONDS
    while True:
        clients = [
            client
            for client, name in _tls_clients(daemon, timeout).items()
            if set(common_names(name or "")) & set(revoked)
        ]
        if not clients:
            return
        if time.monotonic() > limit:
            raise FleetVirtError(
                f"{daemon} did not close the connections of a revoked certificate (clients"
                f" {', '.join(clients)}); run again, or restart it: systemctl restart {daemon}"
            )
        for client in clients:
            _admin(daemon, timeout, "client-disconnect", daemon, client, missing=True)
        time.sleep(0.05)


def _limits(daemon: str, timeout: float) -> dict[str, int]:
    found = {}
    for line in _admin(daemon, timeout, "server-clients-info", daemon).splitlines():
        name, colon, number = line.partition(":")
        if colon:
            found[name.strip()] = int(number)
    return found


def _admin(daemon: str, timeout: float, *words: str, missing: bool = False) -> str:
    """What virt-admin says; ``missing`` when the client may have gone meanwhile."""
    status, said = _run(["virt-admin", "-c", f"{daemon}:///system", *words], timeout)
    if status != 0 and not missing:
        raise FleetVirtError(
            f"{daemon} did not read its TLS files again ({words[0]}: {said}); the new files are in"
            " place, run again when the cause is gone"
        )
    return said


def _is_running(daemon: str, timeout: float) -> bool:
    return systemd.is_active(f"{daemon}.service", timeout)


def _listens(daemon: str, timeout: float) -> bool:
    """Whether a running daemon has TLS at all: by a socket of systemd's, or by itself."""
    if systemd.is_active(f"{daemon}-tls.socket", timeout):
        return True
    pid = systemd.properties(f"{daemon}.service", "MainPID").get("MainPID", "")
    arguments = processes.arguments(int(pid)) if pid.isdigit() else ()
    return "--listen" in arguments or "-l" in arguments


def _run(words: list[str], timeout: float) -> tuple[int, str]:
    try:
        done = programs.execute(words, seconds=timeout)
    except FileNotFoundError:
        return 127, f"{words[0]} is not installed"
    except DeadlineExceeded:
        return 124, f"{' '.join(words)} did not end within {timeout:g} seconds"
    return done.status, done.out.strip() if done.status == 0 else done.said
