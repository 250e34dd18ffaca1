# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's own client certificate, of the kind control."""

from __future__ import annotations

import os
import shutil
import typing as t
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_files as files
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import decide as keys
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import (
    DeployedKeys,
    DesiredCertificate,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _key_store, _x509
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._key_store import KeyStore, KindStore
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._keys_signing import (
    SigningSettings,
    authority,
    bundles,
    sign,
)

# The names that libvirt expects in a pkipath
CLIENT_FILES = {
    "ca": "cacert.pem",
    "crl": "cacrl.pem",
    "certificate": "clientcert.pem",
    "key": "clientkey.pem",
}


def ensure(
    store: KeyStore,
    part: KindStore,
    settings: SigningSettings,
    now: float,
    check: bool,
    pending: bool,
) -> str | None:
    """Ensure the certificate; returns why it changes, or None. ``pending``: its CA will change."""
    rotation = part.rotation()
    folder = store.folder / "client"
    wanted = DesiredCertificate(
        settings.organization,
        settings.client_name,
        (),
        settings.days,
        settings.renew_days,
        settings.renew,
    )
    if rotation is None:
        return "it has none"
    have = _texts(folder)
    chosen = authority(part, rotation)
    key = None
    if have["key"]:
        key = _x509.load_key(have["key"].encode("ascii"), None, str(folder / "clientkey.pem"))
    seen = DeployedKeys(
        tuple(_x509.trusted(have["ca"])),
        _x509.read(have["certificate"], part.own()),
        _x509.key_id(key.public_key()) if key is not None else None,
    )
    reason = keys.reason_to_issue(seen, chosen, wanted, now)
    ca, crl = bundles(part, rotation)
    same = (ca, crl) == (have["ca"], have["crl"])
    if reason is None and same and not pending:
        return None
    why = reason.text if reason else "different CAs or revocation lists"
    if check:
        return why
    texts = {**have, "ca": ca, "crl": crl}
    if reason is not None:
        if reason.new_key or key is None:
            key = _x509.new_key()
        texts["key"] = _x509.key_bytes(key, None).decode("ascii")
        texts["certificate"] = sign(
            part, rotation.signing, key.public_key(), wanted, now, server=False
        )
    _write(store, {name: text for name, text in texts.items() if text})
    return why


def _texts(folder: Path) -> dict[str, str]:
    content = {}
    for name, file in CLIENT_FILES.items():
        path = folder / file
        content[name] = path.read_text(encoding="ascii") if path.is_file() else ""
    return content


def _write(store: KeyStore, texts: t.Mapping[str, str]) -> None:
    """Write all of the client's files at once: a new folder, then rename the link to it."""
    link = store.folder / "client"
    numbers = [
        int(entry.name[8:]) for entry in store.folder.glob("client.v*") if entry.name[8:].isdigit()
    ]
    name = f"client.v{max(numbers, default=0) + 1}"
    before = os.readlink(link) if link.is_symlink() else None
    new = store.folder / ".client.new"
    shutil.rmtree(new, ignore_errors=True)
    _key_store.make_folder(new)
    for part, text in texts.items():
        mode = 0o600 if part == "key" else 0o644
        _key_store.write(new / CLIENT_FILES[part], text.encode("ascii"), mode)
    files.move(new, store.folder / name)
    files.switch_link(link, name, store.folder / ".client.link")
    for entry in store.folder.glob("client.v*"):
        if entry.name not in (name, before):
            shutil.rmtree(entry)
