# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real TLS connections to libvirt, as a migration opens them, and the validity of keys.

Names are verified as libvirt does: the certificate must contain the name connected to. In TLS 1.3
the client's handshake completes before the server has checked its certificate; libvirt then sends
one byte to signal that the client is admitted.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import stat
import typing as t

from ..._errors import FleetVirtError
from ..base import effects_deadline as deadline
from ..base import effects_programs as programs
from ..base.key_files import CONTROL
from ..hosts.listeners import TLS_PORT

if t.TYPE_CHECKING:
    from .facts import Peer, PrivateKey, Socket, Tls, Validity

_SECONDS = 5.0
_PARALLEL = 16
_CONTROL_CRL = "/etc/pki/CA/cacrl.pem"
_CERTIFICATES = (
    CONTROL["ca"],
    CONTROL["cert"],
    "/etc/pki/libvirt/servercert.pem",
    *(
        f"/etc/pki/{use}/{name}-cert.pem"
        for use in ("qemu", "libvirt-migrate", "libvirt-vnc", "libvirt-nbd")
        for name in ("ca", "server", "client")
    ),
)
_KEYS = (
    CONTROL["key"],
    "/etc/pki/libvirt/private/serverkey.pem",
    *(
        f"/etc/pki/{use}/{name}-key.pem"
        for use in ("qemu", "libvirt-migrate", "libvirt-vnc", "libvirt-nbd")
        for name in ("server", "client")
    ),
)
_CRLS = (_CONTROL_CRL, "/etc/pki/qemu/ca-crl.pem")
# Where to reach a socket that listens on all addresses
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - found, not bound
_BLOCK = re.compile(
    r"-----BEGIN (?:CERTIFICATE|X509 CRL)-----.*?-----END (?:CERTIFICATE|X509 CRL)-----", re.DOTALL
)


def reach(peers: t.Sequence[Peer], listeners: t.Sequence[Socket]) -> Tls:
    """The outcome of a TLS connection to each of ``peers`` (name, address).

    ``listeners`` are the sockets of this machine; its TLS port is tried without a certificate.
    """
    missing = [path for path in CONTROL.values() if not os.path.exists(path)]
    own = [listener["address"] for listener in listeners if listener["port"] == TLS_PORT]
    anonymous = any(_admits_anonymous(address) for address in own)
    tls: Tls = {"missing": missing, "peers": [], "anonymous": anonymous}
    if missing:
        return tls

    def attempt(peer: Peer) -> str | None:
        return problem(peer["address"])

    outcomes = deadline.each(
        attempt,
        peers,
        seconds=3 * _SECONDS,
        what=lambda peer: f"TLS to {peer['name']}",
        parallel=_PARALLEL,
    )
    for peer, outcome in zip(peers, outcomes):
        error = str(outcome.error) if isinstance(outcome, deadline.Failed) else outcome.value
        tls["peers"].append({**peer, "error": error})
    return tls


def problem(address: str) -> str | None:
    """Why libvirt at ``address`` cannot be used; None if it can."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(CONTROL["ca"])
        context.load_cert_chain(CONTROL["cert"], CONTROL["key"])
        if os.path.exists(_CONTROL_CRL):
            context.load_verify_locations(_CONTROL_CRL)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except (OSError, ssl.SSLError) as error:
        return f"the keys on this machine cannot be used: {error}"
    try:
        if _greeting(context, address) == b"\1":
            return None
        return "it does not accept the certificate of this hypervisor"
    except ssl.SSLCertVerificationError as error:
        return f"its certificate cannot be verified: {error.verify_message}"
    except ssl.SSLError as error:
        return f"no TLS: {error.reason or error}"
    except socket.timeout:
        return f"no response within {_SECONDS:g} s: it is down, or a firewall blocks it"
    except OSError as error:
        return str(error.strerror or error)


def own_problem(address: str) -> str | None:
    """Why a client of this machine's libvirt would refuse its certificate; None if it does not.

    ``address`` is where it listens, which need not be in the certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    try:
        context.load_verify_locations(CONTROL["ca"])
        context.load_cert_chain(CONTROL["cert"], CONTROL["key"])
        _greeting(context, _LOOPBACK.get(address, address))
    except OSError as error:
        return str(error)
    return None


def _greeting(context: ssl.SSLContext, address: str) -> bytes:
    plain = socket.create_connection((address, TLS_PORT), timeout=_SECONDS)
    with plain, context.wrap_socket(plain, server_hostname=address) as tls:
        try:
            return tls.recv(1)
        except (ssl.SSLError, ConnectionResetError):
            return b""  # an alert instead of the byte


def _admits_anonymous(address: str) -> bool:
    """Whether libvirt, listening on this address, accepts a client without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reached = _LOOPBACK.get(address, address)
    try:
        return _greeting(context, reached) == b"\1"
    except OSError:
        return False


def keys() -> list[PrivateKey | Validity]:
    """The existing certificates, revocation lists and private keys."""
    entries: list[PrivateKey | Validity] = []
    for path in _KEYS:
        if os.path.exists(path):
            entries.append(
                {"path": path, "kind": "key", "mode": stat.S_IMODE(os.stat(path).st_mode)}
            )
    for path in _CERTIFICATES:
        if os.path.exists(path):
            entries += validity(path, "cert")
    for path in _CRLS:
        if os.path.exists(path):
            entries += validity(path, "crl")
    return entries


def validity(path: str, kind: t.Literal["cert", "crl"]) -> list[Validity]:
    """One entry for each certificate or list in a file, which may hold several CAs."""
    with open(path, encoding="ascii", errors="replace") as file:
        blocks = _BLOCK.findall(file.read())
    if not blocks:
        raise FleetVirtError(f"{path} contains neither a certificate nor a revocation list")
    options = ["crl", "-noout", "-lastupdate", "-nextupdate", "-issuer"]
    if kind == "cert":
        options = ["x509", "-noout", "-startdate", "-enddate", "-subject"]
    certificates: list[Validity] = []
    for block in blocks:
        printed = programs.run(["openssl", *options, "-nameopt", "RFC2253"], text=block)
        fields = dict(line.partition("=")[::2] for line in printed.splitlines())
        first = ssl.cert_time_to_seconds(fields.get("notBefore") or fields["lastUpdate"])
        last = ssl.cert_time_to_seconds(fields.get("notAfter") or fields["nextUpdate"])
        certificates.append(
            {
                "path": path,
                "kind": kind,
                "subject": (fields.get("subject") or fields.get("issuer") or "").strip(),
                "until": last,
                "days": (last - first) / 86400,
            }
        )
    return certificates
