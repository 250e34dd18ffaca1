# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating, signing, revoking and reading certificates, without any file."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import (
    BACKDATED,
    DAY,
    Certificate,
    DesiredCertificate,
)
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._cryptography import (
    AVAILABLE,
    ExtendedKeyUsageOID,
    InvalidSignature,
    NameOID,
    ec,
    hashes,
    padding,
    require,
    rsa,
    serialization,
    x509,
)

if t.TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

    PublicKey = CertificatePublicKeyTypes
    PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

# Elliptic curves are refused by libvirt 9.0, see docs/design/keys.md
BITS = 3072
_LEAST_BITS = 2048
# Keys whose signatures can be verified here and by every hypervisor's tools
_PRIVATE = (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey) if AVAILABLE else ()
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


@dataclass(frozen=True)
class Ca:
    """A CA's certificate, and its private key if available."""

    certificate: x509.Certificate
    key: PrivateKey | None = None

    @property
    def id(self) -> str:
        """SHA-256 of the certificate."""
        return fingerprint(self.certificate)

    @property
    def name(self) -> str:
        """Its common name."""
        return _attribute(self.certificate.subject, NameOID.COMMON_NAME)

    @property
    def pem(self) -> str:
        """The certificate as text."""
        return to_pem(self.certificate)

    @property
    def signing_key(self) -> PrivateKey:
        """The private key; it must be available."""
        if self.key is None:
            raise AssertionError(f"the key of {self.name} is not available for signing")
        return self.key


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate, in hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def to_pem(value: x509.Certificate | x509.CertificateRevocationList) -> str:
    """A certificate or a revocation list as text."""
    return value.public_bytes(serialization.Encoding.PEM).decode("ascii")


def split(text: str) -> list[str]:
    """The certificates in a text, each as a separate text."""
    certificates = []
    for part in text.split(_BEGIN)[1:]:
        body, end, _rest = part.partition(_END)
        if end:
            certificates.append(f"{_BEGIN}{body}{_END}\n")
    return certificates


def load(text: str, what: str) -> x509.Certificate:
    """The one certificate in ``text``."""
    require()
    try:
        return x509.load_pem_x509_certificate(text.encode("utf-8"))
    except ValueError:
        raise FleetVirtError(f"{what} is not a certificate in PEM format") from None


def key_id(public_key: PublicKey) -> str:
    """SHA-256 of a public key, as the hypervisors' tools return it."""
    return hashlib.sha256(
        public_key.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    ).hexdigest()


# Private keys


def new_key() -> rsa.RSAPrivateKey:
    """A new private key."""
    require()
    return rsa.generate_private_key(public_exponent=65537, key_size=BITS)


def key_bytes(key: PrivateKey, passphrase: str | None) -> bytes:
    """A private key as text, encrypted if there is a passphrase."""
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        protection = serialization.BestAvailableEncryption(passphrase.encode("utf-8"))
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection
    )


def is_encrypted(text: bytes) -> bool:
    """Whether a private key needs a passphrase."""
    return b"ENCRYPTED" in text


def load_key(text: bytes, passphrase: str | None, what: str) -> PrivateKey:
    """The private key in a text; a superfluous passphrase is no error."""
    require()
    encrypted = is_encrypted(text)
    if encrypted and not passphrase:
        raise FleetVirtError(f"{what} is encrypted; give its passphrase in libvirt_keys_passphrase")
    try:
        key = serialization.load_pem_private_key(
            text, str(passphrase).encode("utf-8") if encrypted else None
        )
    except (ValueError, TypeError):
        reason = (
            "libvirt_keys_passphrase does not decrypt it"
            if encrypted
            else "it is not a private key"
        )
        raise FleetVirtError(f"{what}: {reason}") from None
    if not isinstance(key, _PRIVATE):
        raise FleetVirtError(f"{what} is neither an RSA nor an elliptic curve key; use RSA")
    return key


# Creating and signing


def _subject(organization: str, common_name: str) -> x509.Name:
    # in this order: libvirt shows and matches it as O=...,CN=...
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)


def _usage(*allowed: str) -> x509.KeyUsage:
    names = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: name in allowed for name in names})


def new_ca(organization: str, name: str, days: int, now: float) -> Ca:
    """A new self-signed CA."""
    key = new_key()
    subject = _subject(organization, name)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_time(now - BACKDATED))
        .not_valid_after(_time(now + days * DAY))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Ca(certificate, key)


def public_key_of(request: str, host: str) -> rsa.RSAPublicKey:
    """The key of a request, whose sender has proved to have it. Nothing else of it is used."""
    require()
    try:
        parsed = x509.load_pem_x509_csr(request.encode("utf-8"))
        proven = parsed.is_signature_valid
    except ValueError:
        raise FleetVirtError(f"{host} sent no certificate request in PEM format") from None
    if not proven:
        raise FleetVirtError(f"the certificate request of {host} is not signed with its own key")
    return checked_key(parsed.public_key(), host)


def checked_key(public_key: PublicKey, host: str) -> rsa.RSAPublicKey:
    """A public key that may be in a certificate."""
    if not isinstance(public_key, rsa.RSAPublicKey) or public_key.key_size < _LEAST_BITS:
        raise FleetVirtError(
            f"the key of {host} is not RSA with {_LEAST_BITS} bits or more, which every libvirt"
            " accepts; renew it with libvirt_keys_renew"
        )
    return public_key


def sign(
    ca: Ca, public_key: PublicKey, wanted: DesiredCertificate, now: float, *, server: bool
) -> x509.Certificate:
    """A certificate of ``ca`` with the wanted names; without ``server`` for a client only."""
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    usages[:0] = [ExtendedKeyUsageOID.SERVER_AUTH] if server else []
    expires = min(_time(now + wanted.days * DAY), _utc(ca.certificate, "not_valid_after"))
    if expires <= _time(now + DAY):
        raise FleetVirtError(f"{ca.name} has expired or is about to; rotate it")
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.signing_key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(wanted.organization, wanted.common_name))
        .issuer_name(ca.certificate.subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_time(now - BACKDATED))
        .not_valid_after(expires)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature", "key_encipherment"), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(authority, critical=False)
    )
    if wanted.names:
        names = x509.SubjectAlternativeName([_general_name(name) for name in wanted.names])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(ca.signing_key, hashes.SHA256())


def _general_name(name: str) -> x509.GeneralName:
    kind, _colon, value = name.partition(":")
    if kind == "IP":
        return x509.IPAddress(ipaddress.ip_address(value))
    return x509.DNSName(value)


def revocation_list(
    ca: Ca, revoked: t.Mapping[str, int], number: int, days: int, now: float
) -> x509.CertificateRevocationList:
    """A revocation list; ``revoked`` are serial numbers with the time they were revoked."""
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.signing_key.public_key())
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(ca.certificate.subject)
        .last_update(_time(now - BACKDATED))
        .next_update(_time(now + days * DAY))
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(authority, critical=False)
    )
    for serial, since in sorted(revoked.items()):
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder()
            .serial_number(int(serial, 16))
            .revocation_date(_time(since))
            .build()
        )
    return builder.sign(ca.signing_key, hashes.SHA256())


@dataclass(frozen=True)
class RevocationList:
    """The content of a revocation list."""

    number: int
    next_update: int
    revoked: frozenset[str]


def read_revocation_list(text: str) -> RevocationList:
    """The content of a revocation list in PEM format."""
    require()
    parsed = x509.load_pem_x509_crl(text.encode("ascii"))
    number = parsed.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    expires = int(_utc(parsed, "next_update").timestamp())
    serials = frozenset(f"{entry.serial_number:x}" for entry in parsed)
    return RevocationList(number, expires, serials)


# Reading


def read(text: str, known: t.Sequence[Ca]) -> Certificate | None:
    """The content of the first certificate in ``text``; None if there is no readable one."""
    require()
    parts = split(text)
    if not parts:
        return None
    try:
        parsed = x509.load_pem_x509_certificate(parts[0].encode("utf-8"))
        names = _names(parsed)
        key = key_id(parsed.public_key())
    except ValueError:
        return None
    issuer = next((ca.id for ca in known if is_signed_by(parsed, ca.certificate)), None)
    return Certificate(
        issuer=issuer,
        organization=_attribute(parsed.subject, NameOID.ORGANIZATION_NAME),
        common_name=_attribute(parsed.subject, NameOID.COMMON_NAME),
        names=names,
        not_before=int(_utc(parsed, "not_valid_before").timestamp()),
        not_after=int(_utc(parsed, "not_valid_after").timestamp()),
        serial=f"{parsed.serial_number:x}",
        key_id=key,
    )


def trusted(text: str) -> dict[str, str]:
    """The CAs in a text: their certificates by id."""
    authorities = {}
    for part in split(text):
        try:
            authorities[fingerprint(x509.load_pem_x509_certificate(part.encode("utf-8")))] = part
        except ValueError:
            continue
    return authorities


def is_signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Whether ``ca`` signed ``certificate``."""
    if certificate.issuer != ca.subject:
        return False
    public_key = ca.public_key()
    signed, digest = certificate.tbs_certificate_bytes, certificate.signature_hash_algorithm
    if digest is None:  # neither RSA nor elliptic curve signatures lack a digest
        return False
    try:
        if isinstance(public_key, rsa.RSAPublicKey):
            public_key.verify(certificate.signature, signed, padding.PKCS1v15(), digest)
        elif isinstance(public_key, ec.EllipticCurvePublicKey):
            public_key.verify(certificate.signature, signed, ec.ECDSA(digest))
        else:
            return False
    except InvalidSignature:
        return False
    return True


def ca_problem(certificate: x509.Certificate, now: float) -> str | None:
    """Why a certificate cannot be the fleet's CA, or None."""
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return "it has no basic constraints or no key usage: it is not a CA"
    if not (constraints.ca and usage.key_cert_sign and usage.crl_sign):
        return "it may not sign both certificates and revocation lists"
    if _utc(certificate, "not_valid_after") <= _time(now):
        return "it has expired"
    return None


def expiry(certificate: x509.Certificate) -> int:
    """When a certificate expires."""
    return int(_utc(certificate, "not_valid_after").timestamp())


def _names(parsed: x509.Certificate) -> tuple[str, ...]:
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = [f"IP:{entry}" for entry in names.get_values_for_type(x509.IPAddress)]
    return tuple(
        sorted([*addresses, *(f"DNS:{name}" for name in names.get_values_for_type(x509.DNSName))])
    )


def _attribute(name: x509.Name, identifier: x509.ObjectIdentifier) -> str:
    attributes = name.get_attributes_for_oid(identifier)
    return str(attributes[0].value) if attributes else ""


def _utc(
    value: x509.Certificate | x509.CertificateRevocationList, attribute: str
) -> datetime.datetime:
    """A time of a certificate or list; older releases of cryptography return it without zone."""
    moment = getattr(value, f"{attribute}_utc", None) or getattr(value, attribute)
    if not isinstance(moment, datetime.datetime):
        raise FleetVirtError(f"a certificate or revocation list has no {attribute}")
    return moment.replace(tzinfo=datetime.timezone.utc)
