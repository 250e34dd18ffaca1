# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys of the fleet as plain values: what a hypervisor has, what it should have, and why.

Times are seconds since the epoch. A CA is identified by the SHA-256 of its certificate, a key by
that of its public key.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..._errors import Problem, SpecError
from ..._records import dataclass
from ..base import ip

KINDS = ("control", "data")
DAY = 86400
# Certificates are valid from a day earlier: a hypervisor's clock may be behind
BACKDATED = DAY
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_-]{1,63})*\.?")
_ORGANIZATION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9 ._-]{0,38}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Certificate:
    """The content of a certificate; ``issuer`` is the known CA that signed it, or None."""

    issuer: str | None
    organization: str
    common_name: str
    names: tuple[str, ...]
    not_before: int
    not_after: int
    serial: str
    key_id: str


@dataclass(frozen=True)
class DeployedKeys:
    """What one hypervisor has of one kind."""

    trust: tuple[str, ...] = ()
    certificate: Certificate | None = None
    key_id: str | None = None


@dataclass(frozen=True)
class Authority:
    """The signing CA, the CAs that all hypervisors should trust, and what was revoked."""

    issuer: str | None
    trust: tuple[str, ...]
    revoked: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DesiredCertificate:
    """The desired content of a certificate, and how long it may be valid."""

    organization: str
    common_name: str
    names: tuple[str, ...]
    days: int
    renew_days: int
    renew: bool = False


@dataclass(frozen=True)
class Reason:
    """Why a certificate has to be issued, and whether it needs a new key."""

    text: str
    new_key: bool


def organization_problem(value: str) -> str | None:
    """Why ``value`` cannot be the organization in the fleet's certificates, or None."""
    if _ORGANIZATION.fullmatch(value):
        return None
    return (
        f"{value!r} is not 1 to 40 letters, digits, spaces, '.', '_' or '-' that begin and end with"
        " a letter or digit (it becomes part of a name pattern)"
    )


def certificate_names(
    host: str, address: str | None, more: t.Sequence[str], others: t.Collection[str] = ()
) -> tuple[str, ...]:
    """The names in a hypervisor's certificate, as ``DNS:name`` and ``IP:address``.

    :param host: its name in the inventory, which is also the certificate's common name.
    :param address: its ``ansible_host``; left out if loopback, which names every machine.
    :param more: ``libvirt_keys_names``.
    :param others: names in the inventory of the fleet's other hypervisors.
    :raises SpecError: with every name that cannot be in a certificate.
    """
    problems = []
    if len(host) > 64:
        problems.append(
            Problem(host, "the name is longer than 64 characters, a certificate's limit")
        )
    names: dict[str, None] = {}
    given = [("inventory name", host)]
    if address and not _is_loopback(address):
        given.append(("ansible_host", address))
    given += [(f"libvirt_keys_names[{index}]", name) for index, name in enumerate(more)]
    taken = {other.rstrip(".").lower() for other in others} - {host.rstrip(".").lower()}
    for path, name in given:
        try:
            names.setdefault(f"IP:{ip.address(name)}")
            continue
        except ValueError:
            pass
        if path.startswith("libvirt_keys_names") and name.rstrip(".").lower() in taken:
            problems.append(
                Problem(
                    path,
                    f"{name!r} is the name of another hypervisor, which {host} could"
                    " then impersonate; leave it out",
                )
            )
        elif _NAME.fullmatch(name) and len(name) <= 253:
            names.setdefault(f"DNS:{name.rstrip('.').lower()}")
        else:
            problems.append(
                Problem(path, f"{name!r} is neither an IP address nor a DNS name (no wildcards)")
            )
    if problems:
        raise SpecError(problems)
    return tuple(sorted(names))


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.rstrip(".").lower() in ("localhost", "localhost.localdomain")


def reason_to_issue(
    seen: DeployedKeys, authority: Authority, wanted: DesiredCertificate, now: float
) -> Reason | None:
    """Why a hypervisor needs a certificate, or None when it has the right one.

    The key is kept where possible: a client that reads certificate and key while they are being
    replaced gets a matching pair, whichever of the two certificates it reads.
    """
    if authority.issuer is None:
        return None  # we cannot sign with the CA in use; we can with the next one
    certificate = seen.certificate
    if seen.key_id is None or certificate is None:
        return Reason("it has none", True)
    if certificate.key_id != seen.key_id:
        return Reason("its key and its certificate do not belong together", True)
    if certificate.serial in authority.revoked:
        return Reason("it was revoked", True)
    if wanted.renew:
        return Reason("it was requested", True)
    if certificate.issuer != authority.issuer:
        return Reason("it is from another CA", certificate.issuer is None)
    if (certificate.organization, certificate.common_name) != (
        wanted.organization,
        wanted.common_name,
    ):
        return Reason(f"it is for {certificate.common_name} of {certificate.organization}", False)
    if set(certificate.names) != set(wanted.names):
        return Reason(f"its names are {', '.join(certificate.names) or 'none'}", False)
    left = certificate.not_after - now
    if left < wanted.renew_days * DAY:
        return Reason("it has expired" if left <= 0 else f"it {expires(left)}", False)
    if certificate.not_before > now:
        return Reason("it is not valid yet", False)
    return None


def expires(left: float) -> str:
    """The remaining validity, in words."""
    days = int(left // DAY)
    return f"expires in {days} day{'' if days == 1 else 's'}"


def common_names(name: str) -> tuple[str, ...]:
    """The common names in a distinguished name as libvirt prints it (RFC 4514)."""
    parts = (part.strip() for part in re.findall(r"(?:\\.|[^\\,+])+", name))
    return tuple(_unescaped(part[3:]) for part in parts if part[:3].upper() == "CN=")


def _unescaped(text: str) -> str:
    raw = re.sub(
        rb"\\([0-9A-Fa-f]{2}|.)",
        lambda match: bytes.fromhex(match[1].decode()) if len(match[1]) == 2 else match[1],
        text.encode("utf-8", "surrogateescape"),
    )
    return raw.decode("utf-8", "replace")


# Rotation

STEADY, TRUST, CERTIFICATES, DROP = "steady", "trust", "certificates", "drop"


@dataclass(frozen=True)
class Rotation:
    """The progress of a CA rotation; generations are numbers.

    - ``steady``: all hypervisors trust ``new``, which signs;
    - ``trust``: all hypervisors are to trust ``new`` as well, ``old`` signs;
    - ``certificates``: all hypervisors trust both, ``new`` signs;
    - ``drop``: all hypervisors have certificates of ``new`` and are to trust only it.
    """

    phase: str
    new: int
    old: tuple[int, ...] = ()

    @property
    def trusted(self) -> tuple[int, ...]:
        """The generations to trust, the newest first."""
        return (self.new, *(self.old if self.phase in (TRUST, CERTIFICATES) else ()))

    @property
    def signing(self) -> int:
        """The generation that signs."""
        return self.old[-1] if self.phase == TRUST else self.new


def begin(rotation: Rotation, new: int, foreign: t.Sequence[int] = ()) -> Rotation:
    """The first phase of a rotation; ``foreign`` are CAs created by others."""
    return Rotation(TRUST, new, (*foreign, *rotation.trusted))


def advance(
    rotation: Rotation, new_id: str, hosts: t.Mapping[str, DeployedKeys | None]
) -> tuple[Rotation, dict[str, str]]:
    """The next phase once every hypervisor has completed this one; else what is missing where.

    ``hosts`` are all that take part; None for those that did not respond.
    """
    if rotation.phase == STEADY:
        return rotation, {}
    waiting: dict[str, str] = {}
    for name, seen in hosts.items():
        if seen is None:
            waiting[name] = "did not respond"
        elif rotation.phase == TRUST and new_id not in seen.trust:
            waiting[name] = "does not trust the new CA yet"
        elif rotation.phase == CERTIFICATES and (
            seen.certificate is None
            or seen.certificate.issuer != new_id
            or seen.certificate.key_id != seen.key_id
        ):
            waiting[name] = "has no certificate of the new CA yet"
        elif rotation.phase == DROP and seen.trust != (new_id,):
            waiting[name] = "still trusts another CA"
    if waiting:
        return rotation, waiting
    if rotation.phase == TRUST:
        return Rotation(CERTIFICATES, rotation.new, rotation.old), {}
    if rotation.phase == CERTIFICATES:
        return Rotation(DROP, rotation.new, rotation.old), {}
    return Rotation(STEADY, rotation.new), {}


# In words, for --diff


def describe(
    kind: str,
    certificate: str,
    trust: t.Sequence[str],
    crl: str,
    faults: t.Sequence[str] = (),
) -> list[str]:
    """Lines for one side of a diff."""
    lines = [
        f"{kind}: certificate {certificate}",
        f"{kind}: trusts {', '.join(trust) or 'none'}",
        f"{kind}: revocation list {crl}",
    ]
    return lines + [f"{kind}: {fault}" for fault in faults]


def certificate_words(
    organization: str, common_name: str, names: t.Sequence[str], issuer: str, days: int
) -> str:
    """A certificate in one line."""
    return (
        f"O={organization},CN={common_name} ({', '.join(names) or 'no names'}) by {issuer},"
        f" {expires(days * DAY)}"
    )
