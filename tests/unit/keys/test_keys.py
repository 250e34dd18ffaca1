# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's CAs in a folder, with hypervisors that are plain data."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import Silence
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import decide as keys
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import (
    DAY,
    KINDS,
    DesiredCertificate,
    Rotation,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import (
    _key_store,
    _keys,
    _keys_signing,
    _x509,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._key_store import KeyStore
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._keys import KeysFleet, Orders
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._keys_signing import SigningSettings
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

NOW = 1_800_000_000.0
SETTINGS = SigningSettings("fleet", 365, 3650, 30, "controller")
GONE = Silence("ssh: no route")
SILENT = {
    "ill": Silence("openssl: not found", reached=True),
    "out": Silence("excluded by --limit", asked=False),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[Any]:
    """A few keys, one after the other: making a key takes longer than everything else here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_x509, "BITS", 2048)
        found = [_x509.new_key() for _ in range(8)]
    return itertools.cycle(found)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, pool: Iterator[Any]) -> Iterator[None]:
    """Keys of the pool, no waiting for disks, and the widest umask: modes must not depend on it."""
    monkeypatch.setattr(_x509, "new_key", lambda: next(pool))
    monkeypatch.setattr(os, "fsync", lambda _: None)
    before = os.umask(0)
    yield
    os.umask(before)


class Host:
    """A hypervisor that has what it was given."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys = {kind: _x509.new_key() for kind in KINDS}
        self.kinds: dict[str, dict[str, Any]] = {
            kind: {"ca": "", "crl": "", "certificate": "", "key_id": None} for kind in KINDS
        }

    def look(self) -> dict[str, Any]:
        return {"kinds": self.kinds, "faults": [], "daemons": []}

    def give(self, store: KeyStore, now: float = NOW) -> None:
        """What the controller gives it, as the task does."""
        for kind in KINDS:
            part = store.kind(kind)
            rotation = part.rotation()
            assert rotation is not None
            wanted = _keys_signing.wanted_on(SETTINGS, self.name, None, [])
            found = _keys.seen(self.look(), kind, part.own())
            reason = keys.reason_to_issue(
                found, _keys_signing.authority(part, rotation), wanted, now
            )
            if reason is not None:
                self.kinds[kind]["key_id"] = _x509.key_id(self.keys[kind].public_key())
                self.kinds[kind]["certificate"] = _keys_signing.sign(
                    part, rotation.signing, self.keys[kind].public_key(), wanted, now, server=True
                )
            self.kinds[kind]["ca"], self.kinds[kind]["crl"] = _keys_signing.bundles(part, rotation)


def prepare(
    store: KeyStore, hosts: dict[str, Any], now: float = NOW, *, check: bool = False, **orders: Any
) -> dict[str, Any]:
    silent = {name: SILENT.get(name, GONE) for name, look in hosts.items() if look is None}
    fleet = KeysFleet(hosts, silent)
    return _keys.Preparation(store, SETTINGS, fleet, now, check=check).run(Orders(**orders))


def files(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_first_run_second_run_and_modes(tmp_path: Path) -> None:
    store = KeyStore(str(tmp_path / "keys"), "secret")
    host = Host("hv1")
    predicted = prepare(store, {"hv1": host.look()}, check=True)
    assert not store.folder.exists()
    done = prepare(store, {"hv1": host.look()})
    assert predicted == done
    assert done["made"] == {"control": "fleet control CA 1", "data": "fleet data CA 1"}
    host.give(store)
    before = files(store.folder)
    assert not prepare(store, {"hv1": host.look()})["changed"]
    assert files(store.folder) == before
    assert store.folder.stat().st_mode & 0o777 == 0o700
    for name, (mode, text) in before.items():
        if b"PRIVATE KEY" in text or name.endswith("json"):
            assert mode == 0o600, name
    assert b"ENCRYPTED PRIVATE KEY" in before["control/1/ca.key"][1]
    assert b"BEGIN PRIVATE KEY" in before["client.v1/clientkey.pem"][1]


def test_the_two_kinds_do_not_trust_each_other(tmp_path: Path) -> None:
    store = KeyStore(str(tmp_path / "keys"), None)
    host = Host("hv1")
    prepare(store, {"hv1": host.look()})
    host.give(store)
    control, data = (store.kind(kind).own() for kind in KINDS)
    for kind, mine, other in (("control", control, data), ("data", data, control)):
        text = host.kinds[kind]["certificate"]
        own = _x509.read(text, mine)
        assert own is not None
        assert own.issuer == mine[0].id
        foreign = _x509.read(text, other)
        assert foreign is not None
        assert foreign.issuer is None


def test_an_exchange_round_by_round_with_a_stop_after_each(tmp_path: Path) -> None:
    store = KeyStore(str(tmp_path / "keys"), None)
    hosts = {name: Host(name) for name in ("hv1", "hv2")}

    def looks() -> dict[str, Any]:
        return {name: host.look() for name, host in hosts.items()}

    prepare(store, looks())
    for host in hosts.values():
        host.give(store)
    part = store.kind("control")
    assert prepare(store, looks(), rotate=("control",))["phases"]["control"] == "trust"
    # stopped before any hypervisor was reached, and after the first: nothing moves on, and the
    # same order makes no third CA
    for _turn in range(2):
        again = prepare(store, looks(), rotate=("control",))
        assert again["phases"] == {"control": "trust", "data": "steady"}
        assert part.generations() == [1, 2]
        hosts["hv1"].give(store)
    hosts["hv2"].give(store)
    for phase in ("certificates", "drop", "steady"):
        assert prepare(store, looks())["phases"]["control"] == phase
        if phase != "steady":
            assert prepare(store, looks())["phases"]["control"] == phase
            waiting = prepare(store, {**looks(), "hv2": None})
            assert any("hv2" in line for line in waiting["waiting"])
        for host in hosts.values():
            host.give(store)
    assert part.rotation() == Rotation("steady", 2)
    assert not (part.folder / "1" / "ca.key").exists()
    assert (part.folder / "2" / "ca.key").exists()
    assert not prepare(store, looks())["changed"]


def test_an_exchange_that_was_stopped_while_its_ca_was_made_takes_that_one(tmp_path: Path) -> None:
    store = KeyStore(str(tmp_path / "keys"), None)
    host = Host("hv1")
    prepare(store, {"hv1": host.look()})
    host.give(store)
    part = store.kind("data")
    part.add(_x509.new_ca("fleet", "fleet data CA 2", 3650, NOW), own=True)
    made = part.ca(2).id
    prepare(store, {"hv1": host.look()}, rotate=("data",))
    assert part.rotation() == Rotation("trust", 2, (1,))
    assert part.ca(2).id == made


@pytest.mark.parametrize(
    ("silent", "trusts", "orders", "match"),
    [
        (True, False, {}, "hv2, which may trust one already, did not respond"),
        (False, True, {}, "hv1 trusts a control CA .* whose key is not on this controller"),
        (True, True, {"rotate": ("control",)}, "rotation needs every hypervisor, but hv2 did not"),
        (False, False, {"revoke": ("hv9",)}, "'hv9' was never issued .*; known names: none"),
        (False, False, {"rotate": ("controll",)}, "is not one of control, data and all"),
    ],
)
def test_no_ca_is_made(
    tmp_path: Path, silent: bool, trusts: bool, orders: dict[str, Any], match: str
) -> None:
    store = KeyStore(str(tmp_path / "keys"), None)
    hosts: dict[str, Any] = {"hv1": Host("hv1").look(), "hv2": Host("hv2").look()}
    if trusts:
        hosts["hv1"]["kinds"]["control"]["ca"] = _x509.new_ca("x", "x", 9, NOW).pem
    if silent:
        hosts["hv2"] = None
    for check in (True, False):
        with pytest.raises(FleetVirtError, match=match):
            prepare(store, hosts, check=check, **orders)
        assert not (store.folder / "control").exists()


@pytest.mark.parametrize("orders", [{}, {"rotate": ("control",)}])
@pytest.mark.parametrize(
    ("silent", "said", "unsaid"),
    [
        ("ill", "openssl: not found.*ill can be reached, so fix the problem", "hypervisors_lost"),
        ("out", "run without --limit to include out", "hypervisors_lost"),
        (
            "hv2",
            "no route.*bring hv2 back; only if permanently gone.*hypervisors_lost=hv2",
            "keys_lost",
        ),
    ],
)
def test_only_one_that_was_not_reached_may_be_gone(
    tmp_path: Path, orders: dict[str, Any], silent: str, said: str, unsaid: str
) -> None:
    """Both where the first CA is created and where one is rotated."""
    store = KeyStore(str(tmp_path / "keys"), None)
    with pytest.raises(PlanRefused, match=said) as caught:
        prepare(store, {"hv1": Host("hv1").look(), silent: None}, **orders)
    assert unsaid not in str(caught.value)


def test_a_ca_of_somebody_else_is_exchanged_with_an_overlap(tmp_path: Path) -> None:
    store = KeyStore(str(tmp_path / "keys"), None)
    host = Host("hv1")
    theirs = _x509.new_ca("x", "theirs", 900, NOW)
    host.kinds["control"]["ca"] = theirs.pem
    done = prepare(store, {"hv1": host.look()}, rotate=("control",))
    assert done["phases"] == {"control": "trust", "data": "steady"}
    host.give(store)
    assert host.kinds["control"]["certificate"] == "", "nobody trusts the new one yet"
    assert list(_x509.trusted(host.kinds["control"]["ca"])) == [
        store.kind("control").ca(2).id,
        theirs.id,
    ]
    for phase in ("certificates", "drop", "steady"):
        done = prepare(store, {"hv1": host.look()})
        assert done["phases"]["control"] == phase
        host.give(store)
    assert list(_x509.trusted(host.kinds["control"]["ca"])) == [store.kind("control").ca(2).id]


def test_a_name_belongs_to_one_hypervisor(tmp_path: Path) -> None:
    store = KeyStore(str(tmp_path / "keys"), None)
    prepare(store, {"hv1": Host("hv1").look()})
    part, key = store.kind("control"), _x509.new_key().public_key()
    first = DesiredCertificate("fleet", "hv1", ("DNS:hv1", "IP:198.51.100.1"), 9, 1)
    _keys_signing.sign(part, 1, key, first, NOW, server=True)
    second = DesiredCertificate("fleet", "hv2", ("DNS:hv2", "IP:198.51.100.1"), 9, 1)
    with pytest.raises(PlanRefused, match=r"IP:198.51.100.1 is in the certificate of hv1"):
        _keys_signing.sign(part, 1, key, second, NOW, server=True)
    _keys_signing.sign(part, 1, key, second, NOW + 10 * DAY, server=True)


@pytest.mark.parametrize("seen", [True, False], ids=["answers", "is not in this run"])
def test_the_controller_has_no_hypervisors_name(tmp_path: Path, seen: bool) -> None:
    """Revoking one would shut out the other; also of one that is lost, revoked or limited away."""
    store = KeyStore(str(tmp_path / "keys"), None)
    host = Host("hv1")
    prepare(store, {"hv1": host.look()})
    host.give(store)
    hosts = {"hv1": host.look()} if seen else {}
    settings = dataclasses.replace(SETTINGS, client_name="hv1")
    with pytest.raises(FleetVirtError, match="libvirt_keys_client_name: 'hv1' is a hypervisor"):
        _keys.Preparation(store, settings, KeysFleet(hosts), NOW, check=True).run(Orders())


def test_revoked_until_readmitted(tmp_path: Path) -> None:
    store = KeyStore(str(tmp_path / "keys"), None)
    host = Host("hv1")
    prepare(store, {"hv1": host.look()})
    host.give(store)
    predicted = prepare(store, {}, revoke=("hv1",), check=True)
    done = prepare(store, {}, revoke=("hv1",))
    assert predicted == done
    assert done["refused"] == ["hv1"]
    for kind in KINDS:
        found = _x509.read_revocation_list(store.kind(kind).crl(1))
        certificate = _x509.read(host.kinds[kind]["certificate"], [])
        assert certificate is not None
        assert (found.number, found.revoked) == (2, frozenset({certificate.serial}))
    assert not prepare(store, {}, revoke=("hv1",))["changed"]
    assert prepare(store, {}, readmit=("hv1",))["refused"] == []
    before = host.kinds["control"]["certificate"]
    host.give(store)
    assert host.kinds["control"]["certificate"] != before
    assert not prepare(store, {"hv1": host.look()})["changed"]


def test_lists_are_renewed_before_they_expire(tmp_path: Path) -> None:
    store = KeyStore(str(tmp_path / "keys"), None)
    prepare(store, {})
    assert not prepare(store, {}, NOW + 334 * DAY)["changed"]
    done = prepare(store, {}, NOW + 336 * DAY)
    assert done["pending"] == ["control", "data"]
    assert _x509.read_revocation_list(store.kind("data").crl(1)).number == 2
    late = prepare(store, {}, NOW + 3600 * DAY)
    assert "expires in 50 days, and no certificate lasts longer" in late["warnings"][0]


def test_passphrases(tmp_path: Path) -> None:
    prepare(KeyStore(str(tmp_path / "keys"), None), {})
    key = tmp_path / "keys" / "control" / "1" / "ca.key"
    assert b"BEGIN PRIVATE KEY" in key.read_bytes()
    done = prepare(KeyStore(str(tmp_path / "keys"), "one"), {})
    assert "control: the CA's key is encrypted" in done["diff"]["after"]
    assert b"ENCRYPTED" in key.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    assert not prepare(KeyStore(str(tmp_path / "keys"), "one"), {})["changed"]
    for passphrase, match in (("two", "does not decrypt it"), (None, "give its passphrase")):
        with pytest.raises(FleetVirtError, match=match) as caught:
            KeyStore(str(tmp_path / "keys"), passphrase).kind("control").signer(1)
        assert "two" not in str(caught.value)


def test_a_ca_that_is_handed_in_is_never_written_down(tmp_path: Path) -> None:
    ca = _x509.new_ca("site", "site CA", 3650, NOW)
    value = {"certificate": ca.pem, "key": _x509.key_bytes(ca.key, "pw").decode()}
    given = _keys.given_ca("control", value, "pw", NOW)
    assert given is not None
    store = KeyStore(str(tmp_path / "keys"), None, {"control": given})
    host = Host("hv1")
    done = prepare(store, {"hv1": host.look()})
    assert done["made"]["control"] == "site CA"
    host.give(store)
    certificate = _x509.read(host.kinds["control"]["certificate"], [given])
    assert certificate is not None
    assert certificate.issuer == given.id
    assert not (store.folder / "control/1/ca.key").exists()
    assert (store.folder / "data/1/ca.key").exists()
    assert not prepare(store, {"hv1": host.look()})["changed"]
    other = _x509.new_ca("site", "other", 3650, NOW)
    another = KeyStore(str(tmp_path / "keys"), None, {"control": other})
    with pytest.raises(PlanRefused, match="rotate the CA with an overlap"):
        prepare(another, {"hv1": host.look()})
    with pytest.raises(FleetVirtError, match="provide it in libvirt_keys_control_ca"):
        KeyStore(str(tmp_path / "keys"), None).kind("control").signer(1)


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("text", "is not a mapping"),
        ({"certificate": "x"}, "is not a mapping with just certificate and key"),
        ({"certificate": "x", "key": "y"}, "is not a certificate in PEM format"),
    ],
)
def test_no_ca(value: Any, match: str) -> None:
    with pytest.raises(FleetVirtError, match=match):
        _keys.given_ca("control", value, None, NOW)


def test_a_key_whose_signatures_nobody_here_reads_is_refused() -> None:
    text = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(FleetVirtError, match="is neither an RSA nor"):
        _x509.load_key(text, None, "ca.key")


def test_a_certificate_of_a_host_is_no_ca() -> None:
    ca = _x509.new_ca("site", "site CA", 3650, NOW)
    key = _x509.new_key()
    leaf = _x509.sign(
        ca, key.public_key(), DesiredCertificate("f", "x", (), 9, 1), NOW, server=False
    )
    value = {"certificate": _x509.to_pem(leaf), "key": _x509.key_bytes(key, None).decode()}
    with pytest.raises(FleetVirtError, match="may not sign"):
        _keys.given_ca("control", value, None, NOW)
    value = {"certificate": ca.pem, "key": value["key"]}
    with pytest.raises(FleetVirtError, match="is not the key of its certificate"):
        _keys.given_ca("control", value, None, NOW)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("refused.json", "[]"),
        ("refused.json", '{"hv1": "yesterday"}'),
        ("control/state.json", "[1]"),
        ("control/state.json", '{"phase": "later", "new": 1, "old": []}'),
        ("control/state.json", '{"phase": "steady", "new": 1}'),
        ("control/state.json", '{"phase": "steady", "new": "1", "old": []}'),
        ("control/1/issued.json", '{"hv1": {}}'),
        ("control/1/issued.json", '{"hv1": ["certificate"]}'),
        ("control/1/issued.json", '{"hv1": [{"serial": "1", "names": []}]}'),
    ],
)
def test_a_damaged_file_of_the_folder_is_named(tmp_path: Path, name: str, text: str) -> None:
    store = KeyStore(str(tmp_path / "keys"), None)
    prepare(store, {})
    (store.folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(FleetVirtError, match=f"{name}: it does not contain what this collection"):
        prepare(store, {})


def test_a_folder_that_others_may_look_into_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o750)
    with pytest.raises(FleetVirtError, match="chmod 700"):
        prepare(KeyStore(str(folder), None), {})


def test_a_request_that_lies_about_its_key() -> None:
    x509, hashes = _x509.x509, _x509.hashes
    mine, theirs = _x509.new_key(), _x509.new_key()
    name = x509.Name([])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(mine, hashes.SHA256())
    text = _x509.to_pem(request)
    assert _x509.key_id(_x509.public_key_of(text, "hv1")) == _x509.key_id(mine.public_key())
    der = request.public_bytes(_x509.serialization.Encoding.DER)

    def modulus(key: Any) -> bytes:
        number = key.public_key().public_numbers().n
        return bytes(number.to_bytes(256, "big"))

    forged = x509.load_der_x509_csr(der.replace(modulus(mine), modulus(theirs)))
    with pytest.raises(FleetVirtError, match="is not signed with its own key"):
        _x509.public_key_of(_x509.to_pem(forged), "hv1")
    with pytest.raises(FleetVirtError, match="no certificate request"):
        _x509.public_key_of("x", "hv1")


def test_whoever_holds_the_store_for_long_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_key_store, "_LOCK_SECONDS", 0.2)
    one, two = KeyStore(str(tmp_path / "keys"), None), KeyStore(str(tmp_path / "keys"), None)
    with (
        one.lock(),
        pytest.raises(PlanRefused, match=r"for 0.2 seconds; find it with fuser .*/keys/lock"),
        two.lock(),
    ):
        raise AssertionError("two have it")
    with two.lock():
        pass
