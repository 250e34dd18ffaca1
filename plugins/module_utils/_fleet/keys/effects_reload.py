# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Making running daemons reload their TLS files without a restart.

libvirt frees the old credentials at once, even while a connection that uses them is in its
handshake; when that handshake continues, the daemon crashes (seen with 9.0 and 11.3). So for a
moment no client is admitted: with a limit of one client, which is us, new connections wait in the
kernel's queue, and handshakes in progress finish. Then the files are read and the limits restored.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import typing as t
from pathlib import Path

from ..._errors import DeadlineExceeded, FleetVirtError
from ..base import effects_programs as programs
from ..base import effects_systemd as systemd
from ..base import read_processes as processes
from .decide import common_names

# The daemons that serve TLS: the monolithic daemon, or the proxy of the modular ones
DAEMONS = ("libvirtd", "virtproxyd")
# Where both listen on this machine. Without a path libvirt's client would connect to virtqemud,
# bypassing the proxy that serves TLS.
_GUARD_URI = "qemu+unix:///system?socket=/run/libvirt/libvirt-sock-ro"
_NO_TLS = "no tls service found"
_HANDSHAKE_SECONDS = 5.0
_BACK_SECONDS = 20.0  # after which clients are admitted again, whatever happened to this process


def serving(timeout: float) -> list[str]:
    """Names of the running daemons that serve TLS; the others read the files when they start."""
    return [
        daemon for daemon in DAEMONS if _is_running(daemon, timeout) and _listens(daemon, timeout)
    ]


def reload(timeout: float, revoked: t.Collection[str]) -> list[str]:
    """Make the daemons reload their TLS files; returns the names of those that did.

    :param revoked: common names whose connections are closed.
    :raises FleetVirtError: a daemon could not reload them.
    """
    done = []
    for daemon in serving(timeout):
        if shutil.which("virt-admin") is None:
            raise FleetVirtError(
                f"{daemon} is running, but virt-admin, which makes it reload its TLS files, is not"
                " installed (package libvirt-clients, on RHEL and SUSE libvirt-client)"
            )
        with _clients_held_off(daemon, timeout):
            try:
                _admin(daemon, timeout, "server-update-tls", daemon)
            except FleetVirtError as error:
                if _NO_TLS not in str(error):
                    raise
                continue  # it started before its socket, and reads the files when it restarts
            _disconnect_revoked(daemon, timeout, revoked)
        done.append(daemon)
    return done


@contextlib.contextmanager
def _clients_held_off(daemon: str, timeout: float) -> t.Iterator[None]:
    """Admit no new clients, with no handshake in progress.

    If this process is killed, a systemd timer admits clients again.
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
    status, output = _run(systemd.own_unit(unit, admin, after=_BACK_SECONDS), timeout)
    if status != 0:
        raise FleetVirtError(f"systemd-run failed, so {daemon} was not changed: {output}")
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
    """Keep one client connected to the daemon."""
    words = ["virsh", "--readonly", "--quiet", "--connect", _GUARD_URI]
    with programs.greeted(words, "uri\n", "://", seconds=timeout) as refusal:
        if refusal is not None:
            raise FleetVirtError(f"{daemon} accepts no connections: {refusal or 'no response'}")
        yield


def _settle(daemon: str, timeout: float) -> None:
    """Wait until no client is being verified; clients that take too long are disconnected.

    libvirt does not count clients in a handshake as unauthenticated. Verified clients have a name.
    Two checks in a row must find none: a client may have been connecting when the limit was set.
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
    """TLS clients that have no name yet; those that have one are added to ``verified``."""
    clients = _tls_clients(daemon, timeout, verified)
    verified.update(client for client, name in clients.items() if name is not None)
    return [client for client, name in clients.items() if name is None]


def _tls_clients(
    daemon: str, timeout: float, known: t.Container[str] = ()
) -> dict[str, str | None]:
    """TLS clients except the known ones, with the name from their verified certificate."""
    names = {}
    for line in _admin(daemon, timeout, "client-list", daemon).splitlines():
        words = line.split()
        if len(words) > 1 and words[0].isdigit() and words[1] == "tls" and words[0] not in known:
            shown = _admin(daemon, timeout, "client-info", daemon, words[0], missing=True)
            names[words[0]] = _verified_name(shown)
    return names


def _verified_name(info: str) -> str | None:
    for line in info.splitlines():
        field, _colon, value = line.partition(":")
        if field.strip() == "tls_x509_dname":
            return value.strip()
    return None


def _disconnect_revoked(daemon: str, timeout: float, revoked: t.Collection[str]) -> None:
    """Close the connections of ``revoked``; no client is admitted meanwhile."""
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
    limits = {}
    for line in _admin(daemon, timeout, "server-clients-info", daemon).splitlines():
        name, colon, number = line.partition(":")
        if colon:
            limits[name.strip()] = int(number)
    return limits


def _admin(daemon: str, timeout: float, *words: str, missing: bool = False) -> str:
    """The output of virt-admin; ``missing``: the client may have disconnected meanwhile."""
    status, output = _run(["virt-admin", "-c", f"{daemon}:///system", *words], timeout)
    if status != 0 and not missing:
        raise FleetVirtError(
            f"{daemon} did not reload its TLS files ({words[0]}: {output}); the new files are in"
            " place. Fix the cause and run again"
        )
    return output


def _is_running(daemon: str, timeout: float) -> bool:
    return systemd.is_active(f"{daemon}.service", timeout)


def _listens(daemon: str, timeout: float) -> bool:
    """Whether a running daemon serves TLS at all, on a systemd socket or by itself."""
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
        return 124, f"{' '.join(words)} timed out after {timeout:g} seconds"
    return done.status, done.out.strip() if done.status == 0 else done.error_text
