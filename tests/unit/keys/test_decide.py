# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import key_files as keys_layout
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import decide as keys
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import (
    DAY,
    Authority,
    Certificate,
    DeployedKeys,
    DesiredCertificate,
    Reason,
    Rotation,
)

NOW = 1_800_000_000
RIGHT = Certificate("ca2", "fleet", "hv1", ("DNS:hv1",), NOW - DAY, NOW + 100 * DAY, "5", "k")
WANTED = DesiredCertificate("fleet", "hv1", ("DNS:hv1",), 365, 30)
AUTHORITY = Authority("ca2", ("ca2",), frozenset({"7"}))


@pytest.mark.parametrize(
    ("host", "address", "more", "names"),
    [
        ("hv1", "198.51.100.1", [], ("DNS:hv1", "IP:198.51.100.1")),
        ("HV1.Example.COM.", None, [], ("DNS:hv1.example.com",)),
        ("hv1", "hv1", [], ("DNS:hv1",)),
        ("hv1", "127.0.0.1", [], ("DNS:hv1",)),
        ("hv1", "localhost", [], ("DNS:hv1",)),
        ("hv1", "::1", [], ("DNS:hv1",)),
        (
            "hv1",
            "2001:DB8::0001",
            ["a_b.example"],
            ("DNS:a_b.example", "DNS:hv1", "IP:2001:db8::1"),
        ),
        ("198.51.100.7", "198.51.100.7", [], ("IP:198.51.100.7",)),
        ("hv1", None, ["127.0.0.1"], ("DNS:hv1", "IP:127.0.0.1")),
    ],
)
def test_names_are_the_inventorys(
    host: str, address: str | None, more: list[str], names: tuple[str, ...]
) -> None:
    assert keys.certificate_names(host, address, more) == names


@pytest.mark.parametrize(
    ("host", "address", "more", "paths"),
    [
        ("h v", None, [], ["inventory name"]),
        ("hv1", "a b", ["*.example.com", "ok", "-a"], ["ansible_host", "libvirt_keys_names[0]"]),
        ("h" * 65, None, [], ["h" * 65, "inventory name"]),
        ("hv1", None, [""], ["libvirt_keys_names[0]"]),
    ],
)
def test_names_that_no_certificate_can_have(
    host: str, address: str | None, more: list[str], paths: list[str]
) -> None:
    with pytest.raises(SpecError) as caught:
        keys.certificate_names(host, address, more)
    found = [problem.path for problem in caught.value.problems]
    assert found[: len(paths)] == paths


@pytest.mark.parametrize("name", ["hv2", "HV2", "hv2."])
def test_another_hypervisors_name_is_in_no_certificate(name: str) -> None:
    """Whether that one has a certificate yet or not."""
    with pytest.raises(SpecError, match="is the name of another hypervisor"):
        keys.certificate_names("hv1", None, [name], ["hv1", "hv2"])
    assert keys.certificate_names("hv1", "hv1", ["HV1"], ["hv1", "hv2"]) == ("DNS:hv1",)


@pytest.mark.parametrize("value", ["fleet", "Fleet 1.a_b-c", "x"])
def test_organizations(value: str) -> None:
    assert keys.organization_problem(value) is None


@pytest.mark.parametrize("value", ["", " a", "a,b", "a*", "a" * 41, "a=b", "a\n"])
def test_no_organizations(value: str) -> None:
    assert keys.organization_problem(value) is not None


@pytest.mark.parametrize(
    ("certificate", "key", "wanted", "reason"),
    [
        ({}, "k", {}, None),
        (None, "k", {}, Reason("it has none", True)),
        ({}, None, {}, Reason("it has none", True)),
        ({}, "x", {}, Reason("its key and its certificate do not belong together", True)),
        ({"serial": "7"}, "k", {}, Reason("it was revoked", True)),
        ({}, "k", {"renew": True}, Reason("it was requested", True)),
        ({"issuer": "ca1"}, "k", {}, Reason("it is from another CA", False)),
        ({"issuer": None}, "k", {}, Reason("it is from another CA", True)),
        ({"common_name": "hv2"}, "k", {}, Reason("it is for hv2 of fleet", False)),
        ({"organization": "f"}, "k", {}, Reason("it is for hv1 of f", False)),
        ({"names": ()}, "k", {}, Reason("its names are none", False)),
        ({"not_after": NOW + 30 * DAY}, "k", {}, None),
        ({"not_after": NOW + 30 * DAY - 1}, "k", {}, Reason("it expires in 29 days", False)),
        ({"not_after": NOW + DAY}, "k", {}, Reason("it expires in 1 day", False)),
        ({"not_after": NOW}, "k", {}, Reason("it has expired", False)),
        ({"not_before": NOW + 1}, "k", {}, Reason("it is not valid yet", False)),
    ],
)
def test_reasons_for_a_certificate(
    certificate: dict[str, Any] | None,
    key: str | None,
    wanted: dict[str, Any],
    reason: Reason | None,
) -> None:
    has = None if certificate is None else dataclasses.replace(RIGHT, **certificate)
    want = dataclasses.replace(WANTED, **wanted)
    assert keys.reason_to_issue(DeployedKeys(("ca2",), has, key), AUTHORITY, want, NOW) == reason


def test_a_ca_without_its_key_signs_nothing() -> None:
    assert keys.reason_to_issue(DeployedKeys(), Authority(None, ("ca9",)), WANTED, NOW) is None


OLD = dataclasses.replace(RIGHT, issuer="ca1")


@pytest.mark.parametrize(
    ("phase", "hosts", "after", "waiting"),
    [
        ("trust", {"a": DeployedKeys(("ca2", "ca1"), OLD, "k")}, "certificates", []),
        (
            "trust",
            {"a": DeployedKeys(("ca2", "ca1"), OLD, "k"), "b": DeployedKeys(("ca1",))},
            "trust",
            ["b"],
        ),
        ("trust", {"a": DeployedKeys(("ca2", "ca1"), OLD, "k"), "b": None}, "trust", ["b"]),
        ("certificates", {"a": DeployedKeys(("ca2", "ca1"), RIGHT, "k")}, "drop", []),
        ("certificates", {"a": DeployedKeys(("ca2", "ca1"), OLD, "k")}, "certificates", ["a"]),
        ("certificates", {"a": DeployedKeys(("ca2", "ca1"), RIGHT, "x")}, "certificates", ["a"]),
        ("certificates", {"a": DeployedKeys(("ca2", "ca1"))}, "certificates", ["a"]),
        ("drop", {"a": DeployedKeys(("ca2",), RIGHT, "k")}, "steady", []),
        ("drop", {"a": DeployedKeys(("ca2", "ca1"), RIGHT, "k")}, "drop", ["a"]),
        ("steady", {"a": None}, "steady", []),
    ],
)
def test_an_exchange_waits_for_everybody(
    phase: str, hosts: dict[str, DeployedKeys | None], after: str, waiting: list[str]
) -> None:
    rotation = Rotation(phase, 2, () if phase == "steady" else (1,))
    found, missing = keys.advance(rotation, "ca2", hosts)
    assert found.phase == after
    assert list(missing) == waiting
    if after == "steady":
        assert found == Rotation("steady", 2)


def test_whom_to_trust_and_who_signs_in_each_phase() -> None:
    begun = keys.begin(Rotation("steady", 1), 2)
    assert begun == Rotation("trust", 2, (1,))
    assert (begun.trusted, begun.signing) == ((2, 1), 1)
    assert (Rotation("certificates", 2, (1,)).trusted, begun.new) == ((2, 1), 2)
    assert Rotation("certificates", 2, (1,)).signing == 2
    assert (Rotation("drop", 2, (1,)).trusted, Rotation("drop", 2, (1,)).signing) == ((2,), 2)
    foreign = keys.begin(Rotation("steady", 1), 4, (2, 3))
    assert (foreign.trusted, foreign.signing) == ((4, 2, 3, 1), 1)


def test_neighbouring_phases_understand_each_other() -> None:
    """Whoever is a phase behind or ahead trusts whoever signs: the reason for the overlap."""
    phases = [Rotation("steady", 1), *(Rotation(p, 2, (1,)) for p in ("trust", "certificates"))]
    phases += [Rotation("drop", 2, (1,)), Rotation("steady", 2)]
    for before, after in zip(phases, phases[1:]):
        assert before.signing in after.trusted
        assert after.signing in before.trusted


def test_every_file_has_its_place() -> None:
    paths = [file.path for file in keys_layout.FILES]
    assert len(set(paths)) == len(paths)
    folders = {folder for folder, _ in keys_layout.FOLDERS}
    assert {path.rpartition("/")[0] for path in paths} <= folders
    for kind in keys.KINDS:
        for content in ("ca", "crl", "certificate", "key"):
            first = keys_layout.first(kind, content)
            assert first in [file.path for file in keys_layout.alike(kind, content)]
    assert {oct(file.mode) for file in keys_layout.FILES if file.secret} == {"0o600"}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("O=fleet,CN=hv1", ("hv1",)),
        ("CN=hv1,O=fleet", ("hv1",)),
        ("CN=hv1.example.org, O=my fleet", ("hv1.example.org",)),
        (r"CN=a\,CN=b,O=fleet", ("a,CN=b",)),
        (r"O=x\,CN=hv1,CN=hv2", ("hv2",)),
        (r"CN=m\C3\BCller,O=fleet", ("müller",)),
        ("O=CN", ()),
        ("XCN=hv1", ()),
        ("", ()),
    ],
)
def test_common_names_of_who_is_connected(name: str, wanted: tuple[str, ...]) -> None:
    assert keys.common_names(name) == wanted
