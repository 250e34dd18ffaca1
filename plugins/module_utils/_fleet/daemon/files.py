# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines we write to qemu.conf and to the other files that libvirt reads."""

from __future__ import annotations

import difflib
import ipaddress
import re
import typing as t

from ..._errors import Problem, SpecError
from ..base.json_values import as_list

Value = t.Union[bool, int, str, t.Sequence[str]]

# Guests' memory and disks cross the network only encrypted and to a verified host. Screens do not
# cross it: they listen on loopback, which is reached through SSH. Requiring a certificate there
# would lock out all viewers, because only hypervisors have one.
_DEFAULTS: dict[str, Value] = {
    "default_tls_x509_verify": True,
    "migrate_tls_force": True,
    "migrate_tls_x509_verify": True,
    "nbd_tls": True,
    "vnc_listen": "127.0.0.1",
    "vnc_tls": False,
}
_VERIFIED_VNC: dict[str, Value] = {"vnc_tls": True, "vnc_tls_x509_verify": True}
# TLS 1.3, and the forward-secret AEAD suites of 1.2; by default GnuTLS accepts AES128-SHA
_TLS_PRIORITY = (
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-DHE-RSA"
    ":-CIPHER-ALL:+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM:-MAC-ALL:+AEAD"
)
_OUTSIDE = "write it to qemu.conf yourself, outside the block of this collection"
_CONFINES = f"it decides how guests are confined, which this role must not change; {_OUTSIDE}"
_SECRET = f"a secret would be shown by every run with --diff; {_OUTSIDE}"
_FORCED = "guests migrate only encrypted and to verified hosts; this cannot be disabled here"
_REFUSED = {
    "dynamic_ownership": _CONFINES,
    "security_driver": _CONFINES,
    "spice_password": _SECRET,
    "vnc_password": _SECRET,
    "default_tls_x509_verify": _FORCED,
    "migrate_tls_force": _FORCED,
    "migrate_tls_x509_verify": _FORCED,
    "lock_manager": "use the option lockspace, which sets it with all that belongs to it",
}
# Empty they are no secrets: a screen admits no client until a console gives it a password
_EMPTY = ("spice_password", "vnc_password")
_KEY = re.compile(r"[a-z][a-z0-9_]*")


def qemu(
    site: t.Mapping[str, object], known: frozenset[str] | None, lockspace: str | None
) -> tuple[str, ...]:
    """The lines of qemu.conf: our defaults, overridden and extended by the site's settings.

    ``known`` are the settings that this version of libvirt has; None if that is not known yet.
    Raises SpecError with every problem.
    """
    problems = []
    for key, value in site.items():
        where = f"qemu_conf.{key}"
        if not _KEY.fullmatch(str(key)):
            problems.append(Problem(where, "is not a valid name of a qemu.conf setting"))
        elif key in _REFUSED and not (key in _EMPTY and value == ""):
            problems.append(Problem(where, _REFUSED[key]))
        elif known is not None and key not in known:
            near = difflib.get_close_matches(key, sorted(known), 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            problems.append(Problem(where, f"this version of libvirt has no such setting{hint}"))
        problems += [Problem(where, text) for text in _faults(value)]
    if problems:
        raise SpecError(problems)
    own = {key: _value(value) for key, value in site.items()}
    wanted = {**_DEFAULTS, **own}
    if not _vnc_stays_here(wanted):
        wanted = {**_DEFAULTS, **_VERIFIED_VNC, **own}
    if lockspace:
        wanted["lock_manager"] = "lockd"
    return tuple(f"{key} = {_render(wanted[key])}" for key in sorted(wanted))


def _vnc_stays_here(settings: t.Mapping[str, Value]) -> bool:
    """Whether screens listen on loopback, unless a guest's own definition says otherwise."""
    listen = str(settings.get("vnc_listen", "127.0.0.1"))
    return bool(settings.get("vnc_auto_unix_socket")) or is_loopback(listen)


def is_loopback(address: str) -> bool:
    """Whether an address, or a name for one, is the machine's own loopback."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def lockd(lockspace: str | None) -> tuple[str, ...]:
    """The lines of qemu-lockd.conf."""
    if not lockspace:
        return ()
    return ("auto_disk_leases = 1", f"file_lockspace_dir = {_render(lockspace)}")


def daemon(allowed: t.Sequence[str]) -> tuple[str, ...]:
    """The lines of libvirtd.conf (or virtproxyd.conf); ``allowed`` are names of clients."""
    problems = [
        Problem(f"tls_allowed_dn_list[{index}]", text)
        for index, name in enumerate(allowed)
        for text in _faults(name)
    ]
    if problems:
        raise SpecError(problems)
    lines = ["listen_tcp = 0", "listen_tls = 1", "tls_no_verify_certificate = 0"]
    lines.append(f"tls_priority = {_render(_TLS_PRIORITY)}")
    if allowed:
        lines.append(f"tls_allowed_dn_list = {_render(allowed)}")
    return (*sorted(lines), 'tls_port = "16514"')


def guests(timeout: int, parallel: int) -> tuple[str, ...]:
    """The lines of libvirt-guests' settings: shut guests down within the limit, start none."""
    problems = []
    if timeout < 1:
        problems.append(
            Problem("shutdown_timeout", f"{timeout} is not a time limit; give seconds, at least 1")
        )
    if parallel < 1:
        message = f"{parallel} is not a number of guests; give at least 1"
        problems.append(Problem("shutdown_parallel", message))
    if problems:
        raise SpecError(problems)
    return (
        "ON_BOOT=ignore",
        "ON_SHUTDOWN=shutdown",
        f"PARALLEL_SHUTDOWN={parallel}",
        f"SHUTDOWN_TIMEOUT={timeout}",
    )


def arguments(before: str, listen: bool) -> tuple[str, ...]:
    """The line with the daemon's arguments if it opens its port itself."""
    words = [word for word in before.strip("\"'").split() if word not in ("--listen", "-l")]
    # A daemon that exits when idle closes its port
    while "--timeout" in words:
        place = words.index("--timeout")
        del words[place : place + 2]
    if listen:
        words.append("--listen")
    return (f'LIBVIRTD_ARGS="{" ".join(words)}"',)


def _faults(value: object) -> t.Iterator[str]:
    """Why libvirt could not read a value back; its strings have no escapes."""
    if isinstance(value, (bool, int)):
        return
    if isinstance(value, str):
        if '"' in value or "\n" in value:
            yield f"{value!r} has a quotation mark or line break, which libvirt's files cannot hold"
    elif isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value):
        for text in value:
            yield from _faults(text)
    else:
        yield f"{value!r} is not a number, true or false, text or a list of texts"


def _value(value: object) -> Value:
    """A value without faults."""
    return value if isinstance(value, (bool, int, str)) else [str(one) for one in as_list(value)]


def _render(value: Value) -> str:
    if isinstance(value, (bool, int)):
        return str(int(value))
    if isinstance(value, str):
        return f'"{value}"'
    return f"[ {', '.join(_render(one) for one in value)} ]"
