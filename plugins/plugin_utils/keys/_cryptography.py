# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guarded import of the Python package cryptography, a dependency of ansible-core."""

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._errors import DependencyMissing

__all__ = [
    "AVAILABLE",
    "ExtendedKeyUsageOID",
    "InvalidSignature",
    "NameOID",
    "ec",
    "hashes",
    "padding",
    "require",
    "rsa",
    "serialization",
    "x509",
]

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    globals().update(dict.fromkeys(__all__))  # require() fails before any of them is used
    AVAILABLE = False
else:
    AVAILABLE = True


def require() -> None:
    """Raise DependencyMissing unless the package is installed."""
    if not AVAILABLE:
        raise DependencyMissing(
            "the Python package cryptography, a dependency of ansible-core, is missing on the"
            " controller; install it there (pip install cryptography, or python3-cryptography)"
        )
