# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Have running daemons read their TLS files again, without a restart.

This file is private to the collection.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from .._errors import FleetVirtError

# The daemons that listen with TLS: the one for all, or of the modular ones the proxy
_DAEMONS = ("libvirtd", "virtproxyd")


def serving(timeout: float) -> list[str]:
    """Names of the daemons that run and have TLS; one that does not run reads the files when it
    starts."""
    return [
        daemon for daemon in _DAEMONS if _is_running(daemon, timeout) and _listens(daemon, timeout)
    ]


def reload(timeout: float) -> list[str]:
    """Names of the daemons that have read the files again.

    :raises FleetVirtError: one of them could not.
    """
    done = []
    for daemon in serving(timeout):
        if shutil.which("virt-admin") is None:
            raise FleetVirtError(
                f"{daemon} runs, and virt-admin, which tells it to read its TLS files again, is not"
                " installed (package libvirt-clients, on RHEL and SUSE libvirt-client)"
            )
        status, said = _run(
            ["virt-admin", "-c", f"{daemon}:///system", "server-update-tls", daemon], timeout
        )
        if status != 0:
            raise FleetVirtError(
                f"{daemon} did not read its TLS files again: {said}; the new files are in place,"
                " run again when the cause is gone"
            )
        done.append(daemon)
    return done


def _is_running(daemon: str, timeout: float) -> bool:
    return _run(["systemctl", "is-active", "--quiet", f"{daemon}.service"], timeout)[0] == 0


def _listens(daemon: str, timeout: float) -> bool:
    """Whether a running daemon has TLS at all: by a socket of systemd's, or by itself."""
    if _run(["systemctl", "is-active", "--quiet", f"{daemon}-tls.socket"], timeout)[0] == 0:
        return True
    _status, words = _run(
        ["systemctl", "show", "--property=MainPID", "--value", f"{daemon}.service"], timeout
    )
    try:
        with open(f"/proc/{int(words)}/cmdline", "rb") as file:
            arguments = file.read().split(b"\0")
    except (OSError, ValueError):
        return False
    return b"--listen" in arguments or b"-l" in arguments


def _run(words: list[str], timeout: float) -> tuple[int, str]:
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=timeout,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        return 127, f"{words[0]} is not installed"
    except subprocess.TimeoutExpired:
        return 124, f"{' '.join(words)} did not end within {timeout:g} seconds"
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
    return done.returncode, said
