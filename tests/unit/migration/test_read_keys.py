# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which certificates QEMU uses for a move, and which of them are missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    read_keys as migration_keys,
)

_ALL = ("ca-cert.pem", "client-cert.pem", "client-key.pem", "server-cert.pem", "server-key.pem")


@pytest.fixture
def pki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders in place of those in /etc, without any certificate."""
    monkeypatch.setattr(migration_keys, "_QEMU_CONF", str(tmp_path / "qemu.conf"))
    monkeypatch.setattr(migration_keys, "_FOR_MIGRATION", str(tmp_path / "libvirt-migrate"))
    monkeypatch.setattr(migration_keys, "_FOR_EVERYTHING", str(tmp_path / "qemu"))
    return tmp_path


def _fill(folder: Path, *names: str) -> None:
    folder.mkdir()
    for name in names or _ALL:
        (folder / name).write_text("")


def test_keys_without_any_are_missing_on_both_ends(pki: Path) -> None:
    assert migration_keys.missing_for_outgoing() == [
        f"QEMU's certificates ca-cert.pem, client-cert.pem, client-key.pem are not in {pki}/qemu"
    ]
    assert migration_keys.missing_for_incoming() == [
        f"QEMU's certificates ca-cert.pem, server-cert.pem, server-key.pem are not in {pki}/qemu"
    ]


@pytest.mark.parametrize("name", _ALL)
def test_key_missing_alone_is_named(pki: Path, name: str) -> None:
    _fill(pki / "qemu", *(one for one in _ALL if one != name))
    found = [*migration_keys.missing_for_outgoing(), *migration_keys.missing_for_incoming()]
    assert found == [f"QEMU's certificates {name} are not in {pki}/qemu"] * len(found)
    assert len(found) == (2 if name == "ca-cert.pem" else 1)


@pytest.mark.parametrize(
    ("folder", "settings"),
    [
        ("qemu", ""),
        ("qemu", '#migrate_tls_x509_cert_dir = "{pki}/other"\n'),
        ("libvirt-migrate", ""),
        ("libvirt-migrate", 'default_tls_x509_cert_dir = "{pki}/other"\n'),
        ("other", 'default_tls_x509_cert_dir = "{pki}/other"\n'),
        ("other", 'migrate_tls_x509_cert_dir="{pki}/other/" # "x"\n'),
        ("other", 'default_tls_x509_cert_dir="/x"\nmigrate_tls_x509_cert_dir = "{pki}/other"\n'),
        ("other", 'migrate_tls_x509_cert_dir="{pki}/other"\nmigrate_tls_x509_cert_dir = "/x"\n'),
    ],
)
def test_keys_in_the_configured_folder_are_used(pki: Path, folder: str, settings: str) -> None:
    (pki / "qemu.conf").write_text(settings.format(pki=pki))
    assert migration_keys.missing_for_incoming()
    _fill(pki / folder)
    assert migration_keys.missing_for_incoming() == []
    assert migration_keys.missing_for_outgoing() == []
