# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Signing of certificates, and its settings."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import decide as keys
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import (
    Authority,
    DesiredCertificate,
    Rotation,
)
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _x509
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._key_store import KindStore


@dataclass(frozen=True)
class SigningSettings:
    """Validity periods and names for certificates."""

    organization: str
    days: int
    ca_days: int
    renew_days: int
    client_name: str
    renew: bool = False


def authority(part: KindStore, rotation: Rotation) -> Authority:
    """The signing CA, the trusted CAs, and the revoked certificates."""
    signing = rotation.signing
    return Authority(
        part.ca(signing).id if part.is_own(signing) else None,
        tuple(part.ca(number).id for number in rotation.trusted),
        frozenset(serial for number in rotation.trusted for serial in part.revoked(number)),
    )


def bundles(part: KindStore, rotation: Rotation) -> tuple[str, str]:
    """The text of the CA file and of the file of revocation lists."""
    trusted = rotation.trusted
    return "".join(part.ca(n).pem for n in trusted), "".join(part.crl(n) for n in trusted)


def sign(
    part: KindStore,
    number: int,
    public_key: _x509.PublicKey,
    wanted: DesiredCertificate,
    now: float,
    *,
    server: bool,
) -> str:
    """A signed certificate, recorded before it is returned; the folder must be locked."""
    issued = part.issued(number)
    for name, entries in issued.items():
        latest = entries[-1]
        if name == wanted.common_name or latest["revoked"] is not None:
            continue
        shared = sorted(set(latest["names"]) & set(wanted.names))
        if shared and latest["not_after"] > now:
            raise PlanRefused(
                f"{wanted.common_name}: {', '.join(shared)} is in the certificate of {name}, which"
                f" could impersonate it; if {name} is gone or has another address now, revoke it"
                f" first (-e libvirt_keys_revoke={name}) and then readmit it"
            )
    certificate = _x509.sign(part.signer(number), public_key, wanted, now, server=server)
    issued.setdefault(wanted.common_name, []).append(
        {
            "serial": f"{certificate.serial_number:x}",
            "not_after": _x509.expiry(certificate),
            "names": list(wanted.names),
            "revoked": None,
        }
    )
    part.save_issued(number, issued, now)
    return _x509.to_pem(certificate)


def wanted_on(
    settings: SigningSettings,
    host: str,
    address: str | None,
    names: t.Sequence[str],
    others: t.Collection[str] = (),
) -> DesiredCertificate:
    """The content of a hypervisor's certificates, from the inventory only."""
    return DesiredCertificate(
        settings.organization,
        host,
        keys.certificate_names(host, address, names, others),
        settings.days,
        settings.renew_days,
        settings.renew,
    )
