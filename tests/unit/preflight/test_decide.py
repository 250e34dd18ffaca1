# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every kind of finding: what brings it about, and what does not."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import findings, tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import decide_pools
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight.decide import (
    Answer,
    common_cpus,
    judge,
    summary,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight.decide_host import Limits
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight.options import LockPeer

ANY = "0.0.0.0"  # noqa: S104 - read, not bound
NOW = 1_800_000_000
DAY = 86400
GOOD_KVM = {"device": True, "tried": True, "problem": None, "offered": True}
UPLINK = {"name": "eth0", "guest": False, "active": True}
TAP = {"name": "vnet0", "guest": True, "active": True}
POOL = {
    "name": "default",
    "state": "running",
    "error": None,
    "capacity_mib": 204800,
    "available_mib": 102400,
    "autostart": True,
}
CERT = {"path": "/etc/pki/c.pem", "kind": "cert", "subject": "CN=hv1", "days": 365}
CRL = {"path": "/etc/pki/crl.pem", "kind": "crl", "subject": "CN=ca", "days": 30}
KEY = {"path": "/etc/pki/k.pem", "kind": "key", "mode": 0o600}
BASELINE = {"model": "EPYC", "xml": "<cpu/>", "runs": True, "error": None}
FOLDER: dict[str, t.Any] = {
    "name": "vms",
    "path": "/srv/vms",
    "id": "a",
    "shared": False,
    "absent": None,
    "mounted": None,
    "defined": None,
}
TLS: dict[str, t.Any] = {"missing": [], "anonymous": False, "peers": []}


def facts(**more: t.Any) -> dict[str, t.Any]:
    """A hypervisor that there is nothing to say about."""
    return {
        "errors": {},
        "time": NOW,
        "uuid": "u1",
        "arch": "x86_64",
        "libvirt_version": "9.0.0",
        "hypervisor_version": "7.2.0",
        "machines": ["pc-q35-7.2", "pc-q35-7.1"],
        "cpu": {"model": "EPYC", "xml": "<cpu/>"},
        "baseline": BASELINE,
        "clock": {"offset": 0.01, "uncertainty": 0.02},
        "kvm": GOOD_KVM,
        "iommu": True,
        "bridges": [
            {"name": "br0", "exists": True, "up": True, "needed": True, "ports": [UPLINK, TAP]}
        ],
        "bridge_filter": [],
        "listeners": [
            {"address": ANY, "port": 22, "process": "sshd"},
            {"address": "::", "port": 16514, "process": "libvirtd"},
            {"address": "127.0.0.1", "port": 5900, "process": "qemu-system-x86"},
            {"address": "::", "port": 49152, "process": "qemu-system-x86"},
        ],
        "tls": {**TLS, "peers": [{"name": "hv2", "address": "198.51.100.2", "error": None}]},
        "pools": [POOL],
        "keys": [{**CERT, "until": NOW + 90 * DAY}, {**CRL, "until": NOW + 5 * DAY}, KEY],
        **more,
    }


def found(*answers: Answer, expected: t.Sequence[str] = ()) -> list[findings.Finding]:
    return judge(answers, expected, Limits())


def one(**more: t.Any) -> list[tuple[str, str]]:
    return [(entry.id, entry.message) for entry in found(Answer("hv1", facts(**more)))]


def two(first: dict[str, t.Any], second: dict[str, t.Any]) -> list[findings.Finding]:
    return found(Answer("hv1", facts(**first)), Answer("hv2", facts(**{"uuid": "u2", **second})))


def bridge(**more: t.Any) -> dict[str, t.Any]:
    whole = {"name": "br0", "exists": True, "up": True, "needed": True, "ports": [UPLINK]}
    return {"bridges": [{**whole, **more}]}


def listener(address: str, port: int, process: str) -> dict[str, t.Any]:
    return {"listeners": [{"address": address, "port": port, "process": process}]}


def peer(error: str) -> dict[str, t.Any]:
    return {"tls": {**TLS, "peers": [{"name": "hv2", "address": "192.0.2.2", "error": error}]}}


def nfs(*mounted: str, defined: list[str] | None = None) -> dict[str, t.Any]:
    """An NFS pool that is mounted with these options beside those that are safe."""
    options = ["vers=4.2", "hard", "lookupcache=none", *mounted]
    pool = {**FOLDER, "mounted": options, "defined": defined}
    return {"folder_pools": [pool]}


def shared(**more: t.Any) -> dict[str, t.Any]:
    """A pool that was declared shared."""
    return {"folder_pools": [{**FOLDER, "shared": True, **more}]}


def trial(outcome: str, error: str | None = None) -> dict[str, t.Any]:
    """A lock that was tried with hv2."""
    return {"locks": [{"pool": "vms", "peer": "hv2", "outcome": outcome, "error": error}]}


# facts of one hypervisor that differ, the finding's id and words of its message
ONE: list[tuple[dict[str, t.Any], str, str]] = [
    ({"errors": {"libvirt": "cannot connect: refused"}}, "libvirt_silent", "cannot connect"),
    ({"errors": {"keys": "openssl failed"}}, "check_failed", "keys: openssl failed"),
    ({"kvm": {**GOOD_KVM, "device": False, "tried": False}}, "kvm_missing", "no /dev/kvm"),
    ({"kvm": {**GOOD_KVM, "problem": "it crashed"}}, "kvm_crashes", "it crashed"),
    (
        {"kvm": {**GOOD_KVM, "problem": "it crashed", "offered": False}},
        "kvm_missing",
        "it crashed",
    ),
    ({"kvm": {**GOOD_KVM, "offered": False}}, "kvm_not_offered", "offers emulation only"),
    (
        {"kvm": {**GOOD_KVM, "tried": False, "problem": "no trial for arm"}},
        "kvm_not_tried",
        "no trial for arm",
    ),
    ({"iommu": False}, "iommu_off", "iommu_groups is empty"),
    ({"uuid_lasts": False}, "uuid_made_up", "another machine for the others"),
    (bridge(exists=False, up=False, ports=[]), "bridge_missing", "there is no bridge br0"),
    (
        bridge(exists=False, up=False, ports=[], needed=None),
        "bridge_missing",
        "there is no bridge br0",
    ),
    (
        bridge(exists=False, up=False, ports=[], needed=False),
        "bridge_unavailable",
        "there is no bridge br0, which a NIC profile names; no VM here is on it",
    ),
    (bridge(up=False), "bridge_down", "bridge br0 is down"),
    (bridge(ports=[]), "bridge_no_uplink", "br0 has no uplink"),
    (bridge(ports=[TAP]), "bridge_no_uplink", "br0 has no uplink"),
    (
        bridge(ports=[TAP, {**UPLINK, "active": False}]),
        "bridge_uplink_down",
        "no uplink is active (eth0)",
    ),
    ({"bridge_filter": ["the chain X"]}, "bridge_filtered", "to the chain X, which drops"),
    (listener("127.0.0.1", 16509, "libvirtd"), "libvirt_plain", "libvirtd on 127.0.0.1:16509"),
    (listener("::", 16509, "systemd"), "libvirt_plain", "systemd on [::]:16509"),
    (listener(ANY, 9999, "virtproxyd"), "libvirt_plain", f"virtproxyd on {ANY}:9999"),
    ({"tls": {**TLS, "anonymous": True}}, "libvirt_unverified", "without a certificate"),
    (listener(ANY, 5900, "qemu-system-x86"), "qemu_exposed", f"{ANY}:5900"),
    (listener("192.0.2.1", 10809, "qemu-nbd"), "qemu_exposed", "qemu-nbd on 192.0.2.1:10809"),
    (listener("::", 49152, "qemu-storage-da"), "qemu_exposed", "[::]:49152"),
    ({"tls": {**TLS, "missing": ["/x/key.pem"]}}, "tls_keys_missing", "/x/key.pem"),
    (peer("no answer"), "tls_not_known", "hv1 is not accepted by hv2 (no answer)"),
    ({"pools": [{**POOL, "state": None, "autostart": None}]}, "pool_missing", "no pool default"),
    ({"pools": [{**POOL, "state": "inactive"}]}, "pool_inactive", "pool default is inactive"),
    ({"pools": [{**POOL, "state": None, "error": "hangs"}]}, "pool_unreadable", "hangs"),
    ({"pools": [{**POOL, "autostart": False}]}, "pool_no_autostart", "does not start at boot"),
    (
        {"pools": [{**POOL, "available_mib": 10239}]},
        "pool_low",
        "10.0G free of 200.0G, less than 10.0G",
    ),
    (nfs("vers=3"), "nfs_version", "pool vms at /srv/vms, version 3: only from 4.1 on"),
    (nfs("soft"), "nfs_soft", "soft: a write that the server does not answer in time"),
    (nfs("local_lock=all"), "nfs_locks", "local_lock=all: locks are held on this hypervisor only"),
    (nfs("lookupcache=pos"), "nfs_lookups", "lookupcache=pos: a file that another"),
    (
        nfs(defined=["vers=4.1", "lookupcache=none", "soft"]),
        "nfs_soft",
        "pool vms at /srv/vms, in its definition, soft",
    ),
    # of what is wrong in both, the mount is named
    (nfs("soft", defined=["vers=4.1", "lookupcache=none", "soft"]), "nfs_soft", "/srv/vms, soft:"),
    (shared(absent="pool vms is not mounted on hv1"), "pool_not_mounted", "vms is not mounted on"),
    (
        {
            "pools": [{**POOL, "name": "vms", "error": "pool vms is not mounted on hv1"}],
            **shared(absent="pool vms is not mounted on hv1"),
        },
        "pool_not_mounted",
        "vms is not mounted on hv1",
    ),
    (trial("unseen"), "pool_lock_unseen", "pool vms: hv2 does not see the lock that hv1 holds"),
    (trial("invisible"), "pool_copied", "a file made on hv2 does not appear on hv1"),
    (trial("untried", "no key"), "pool_lock_untried", "locks of hv1 could not be tried: no key"),
    ({**nfs(), "recovers_locks": True}, "nfs_recovers_locks", "pools on NFS: vms"),
    ({"keys": [{**CERT, "until": NOW - 2 * DAY}]}, "key_expired", "expired 2 days ago"),
    ({"keys": [{**CERT, "until": NOW + 29 * DAY}]}, "key_expires", "expires in 29 days"),
    ({"keys": [{**KEY, "mode": 0o640}]}, "key_readable", "has mode 0640"),
    ({"keys": [{**CRL, "until": NOW - DAY}]}, "crl_expired", "expired 1 days ago"),
    ({"keys": [{**CRL, "until": NOW + 2 * DAY}]}, "crl_expires", "expires in 2 days"),
    ({"clock": {"offset": -5.0, "uncertainty": 0.1}}, "clock_differs", "-5.000 s (+/- 0.100 s)"),
    ({"clock": {"offset": 100.0, "uncertainty": 0.1}}, "clock_wrong", "+100.000 s"),
    ({"baseline": {**BASELINE, "error": "none"}}, "cpu_incompatible", "according to hv1: none"),
    ({"baseline": {**BASELINE, "runs": False}}, "cpu_incompatible", "hv1 does not support"),
    (
        {"baseline": None, "not_compared": "its module returned no result"},
        "cpu_not_compared",
        "not compared with the others': its module returned no result",
    ),
]

# what two have, the finding's id and words of its message
BOTH: list[tuple[dict[str, t.Any], dict[str, t.Any], str, str]] = [
    (
        shared(),
        shared(shared=False),
        "pool_not_shared",
        "at /srv/vms is declared shared on hv1, and not on hv2",
    ),
    (shared(), shared(id="b"), "pool_ids_differ", "not the same everywhere: a: hv1; b: hv2"),
    (shared(), shared(id=None, absent="not mounted"), "pool_not_mounted", "not mounted"),
]

# what differs on the second, the finding's id and words of its message
TWO: list[tuple[dict[str, t.Any], str, str]] = [
    (
        {"cpu": {"model": "Haswell", "xml": "<cpu/>"}},
        "cpu_differs",
        "EPYC: hv1; Haswell: hv2. All support EPYC",
    ),
    (peer("refused"), "tls_failed", "TLS to hv2 (192.0.2.2:16514): refused"),
]


def test_a_good_hypervisor_has_no_finding() -> None:
    assert one() == []
    assert two({}, {}) == []


@pytest.mark.parametrize(("more", "kind", "words"), ONE, ids=[f"{r[1]}-{r[2]}" for r in ONE])
def test_one_hypervisor(more: dict[str, t.Any], kind: str, words: str) -> None:
    ((id_, message),) = one(**more)
    assert id_ == kind
    assert words in message


@pytest.mark.parametrize(("more", "kind", "words"), TWO, ids=[f"{r[1]}-{r[2]}" for r in TWO])
def test_two_hypervisors(more: dict[str, t.Any], kind: str, words: str) -> None:
    (finding,) = two({}, more)
    assert finding.id == kind
    assert words in finding.message
    assert set(finding.hosts) <= {"hv1", "hv2"}


@pytest.mark.parametrize(("first", "second", "kind", "words"), BOTH, ids=[r[2] for r in BOTH])
def test_pool_that_two_declare_differently(
    first: dict[str, t.Any], second: dict[str, t.Any], kind: str, words: str
) -> None:
    (finding,) = two(first, second)
    assert finding.id == kind
    assert words in finding.message


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (shared(), shared()),
        (shared(), shared(path="/srv/others", shared=False)),
        (shared(shared=False), shared(shared=False, id="b")),
        (shared(), {"folder_pools": []}),
        (shared(), {"folder_pools": None}),
    ],
)
def test_pools_that_two_declare_alike_are_no_finding(
    first: dict[str, t.Any], second: dict[str, t.Any]
) -> None:
    assert two(first, second) == []


def test_each_hypervisor_of_a_shared_pool_tries_a_lock_with_the_next() -> None:
    def pools(*ids: str | None, absent: str | None = None) -> t.Any:
        each = [
            {"name": f"p{n}", "path": f"/p{n}", "id": key, "shared": False, "absent": absent}
            for n, key in enumerate(ids)
        ]
        return {"folder_pools": each, "errors": {}, "time": 0}

    hosts = {
        "hv1": pools("a", "b"),
        "hv2": pools("a", None),
        "hv3": pools("x", "a"),
        "hv4": pools("a", absent="not mounted"),
        "hv5": {"errors": {}, "time": 0},
    }

    def peers(own: str) -> list[LockPeer]:
        return decide_pools.lock_peers(own, hosts, lambda name: f"{name}.example.org")

    assert peers("hv1") == [LockPeer("p0", "/p0", "hv2", "hv2.example.org", "/p0")]
    assert peers("hv2") == [LockPeer("p0", "/p0", "hv3", "hv3.example.org", "/p1")]
    assert peers("hv3") == [LockPeer("p1", "/p1", "hv1", "hv1.example.org", "/p0")]
    assert peers("hv4") == peers("hv5") == []


def test_the_guide_lists_every_kind() -> None:
    guide = Path(__file__).parents[3] / "docs" / "docsite" / "rst" / "preflight.rst"
    shown = re.findall(r"^``(\w+)`` +(error|warning|info) ", guide.read_text(), re.MULTILINE)
    assert shown == [(kind, severity) for kind, (severity, _remedy) in findings.OF_HOSTS.items()]


def test_every_kind_is_tested() -> None:
    tested = (
        {kind for _more, kind, _words in (*ONE, *TWO)}
        | {row[2] for row in BOTH}
        | {"host_silent", "host_not_asked", "uuid_duplicate"}
    )
    assert tested == set(findings.OF_HOSTS)


@pytest.mark.parametrize(
    ("more"),
    [
        bridge(ports=[{**UPLINK, "active": False}, UPLINK]),
        {"iommu": None},
        {"kvm": {**GOOD_KVM, "offered": None}},
        listener("::ffff:127.0.0.1", 5900, "qemu-system-x86"),
        {"clock": {"offset": 3.0, "uncertainty": 2.5}},
        {"clock": None},
        {"keys": [{**CERT, "until": NOW + 31 * DAY}, {**CRL, "until": NOW + 4 * DAY}]},
        {"pools": [{**POOL, "available_mib": None}]},
        {"baseline": None, "cpu": None},
        nfs(),
        nfs(defined=["nfsvers=4.1", "hard", "lookupcache=none"]),
        {"recovers_locks": True},
        shared(),
        trial("held"),
        trial("a word of a later version"),
        {"locks": None},
    ],
)
def test_what_is_no_finding(more: dict[str, t.Any]) -> None:
    assert one(**more) == []


def test_nothing_is_known_of_a_hypervisor_without_libvirt() -> None:
    bare = {"errors": {"libvirt": "not installed"}, "time": NOW}
    assert [entry.id for entry in found(Answer("hv1", bare))] == ["libvirt_silent"]


def test_a_cpu_that_libvirt_does_not_describe_is_not_compared() -> None:
    """That it is silent is the finding."""
    silent = {
        "errors": {"libvirt": "refused"},
        "cpu": None,
        "baseline": {**BASELINE, "error": "no"},
    }
    assert [(entry.id, entry.hosts) for entry in two({}, silent)] == [("libvirt_silent", ("hv2",))]


def test_tls_to_a_silent_hypervisor_is_no_finding_of_its_own() -> None:
    answers = (Answer("hv1", facts(**peer("no route to host"))), Answer("hv2", None, "off"))
    assert [(entry.id, entry.hosts) for entry in found(*answers)] == [("host_silent", ("hv2",))]


def test_hypervisor_that_says_what_it_lacks_is_not_silent() -> None:
    error = "not installed: libvirt; install with: apt-get install python3-libvirt"
    (lacking,) = found(Answer("hv1", facts()), Answer("hv2", None, error))
    assert (lacking.id, lacking.hosts) == ("libvirt_silent", ("hv2",))
    assert error in lacking.message
    assert lacking.remedy.startswith(
        "ansible-playbook fleet.virt.setup_hypervisors --limit hv2 installs"
    )


def test_same_uuid_of_several_hypervisors_is_an_error() -> None:
    uuid = "aaaaaaaa-0000-4000-8000-000000000001"
    (finding,) = two({"uuid": uuid}, {"uuid": uuid})
    assert (finding.id, finding.severity, finding.hosts) == (
        "uuid_duplicate",
        "error",
        ("hv1", "hv2"),
    )
    assert uuid in finding.message
    assert two({"uuid": uuid}, {"uuid": None}) == two({"uuid": None}, {"uuid": None}) == []


def test_silent_hypervisor_that_was_put_into_maintenance_is_reported_as_such() -> None:
    mark = "maintenance.aaaaaaaa-0000-4000-8000-000000000001.10000.present.hv2"
    (finding,) = found(Answer("hv1", facts(marks=[mark])), Answer("hv2", None, "no route"))
    assert finding.message == "in maintenance since 1970-01-01 00:00:10 UTC; no answer: no route"


def test_silent_and_not_asked() -> None:
    got = found(Answer("hv1", None, "unreachable"), expected=["hv1", "hv2", "hv3"])
    assert [(entry.id, entry.hosts) for entry in got] == [
        ("host_silent", ("hv1",)),
        ("host_not_asked", ("hv2", "hv3")),
    ]
    assert "unreachable" in got[0].message
    assert summary(got) == {"error": 1, "warning": 0, "info": 1}


def test_limit_names_those_that_do_not_know_a_new_one() -> None:
    peers = [
        {"name": name, "address": name, "error": error}
        for name, error in (("hv1", "no answer within 5 s"), ("hv2", None), ("hv3", "refused"))
    ]
    new = facts(tls={**TLS, "peers": peers})
    unknown, not_asked = found(Answer("hv4", new), expected=["hv1", "hv2", "hv3", "hv4"])
    assert (unknown.id, unknown.hosts) == ("tls_not_known", ("hv4", "hv1", "hv3"))
    assert "hv1 (no answer within 5 s); hv3 (refused)" in unknown.message
    assert (not_asked.id, not_asked.hosts) == ("host_not_asked", ("hv1", "hv2", "hv3"))


def test_clocks_are_compared_among_hypervisors_too() -> None:
    """Each within the limit of the controller's clock, and yet too far apart."""
    (finding,) = two(
        {"clock": {"offset": 0.9, "uncertainty": 0.01}},
        {"clock": {"offset": -0.9, "uncertainty": 0.01}},
    )
    assert (finding.id, finding.hosts) == ("clock_differs", ("hv1", "hv2"))
    assert "+1.800 s (+/- 0.020 s)" in finding.message
    unsure = {"clock": {"offset": -0.9, "uncertainty": 0.9}}
    assert two({"clock": {"offset": 0.9, "uncertainty": 0.01}}, unsure) == []


def test_what_hosts_have_in_common_is_one_finding() -> None:
    (finding,) = two({"iommu": False}, {"iommu": False})
    assert finding.hosts == ("hv1", "hv2")


def test_errors_come_first() -> None:
    got = found(
        Answer("hv1", facts(iommu=False, **bridge(up=False), kvm={**GOOD_KVM, "device": 0}))
    )
    assert [entry.severity for entry in got] == ["error", "warning", "info"]


def test_table() -> None:
    finding = findings.Finding("iommu_off", ("hv1", "hv2"), "no\x1bIOMMU").as_dict()
    lines = tables.findings([finding]).splitlines()
    assert lines[0] == "INFO  hv1, hv2  [iommu_off]"
    assert lines[1] == "  no\\x1bIOMMU"
    assert lines[2].startswith("  > needed only to pass")
    assert lines[3] == "0 error, 0 warning, 1 info"


def compared(version: str, xml: str = "<cpu><model>EPYC</model></cpu>", **more: t.Any) -> t.Any:
    baseline = {"model": "EPYC", "xml": xml, "runs": True, "error": None, **more}
    return facts(libvirt_version=version, baseline=baseline)


def test_common_cpu_is_that_of_the_oldest_libvirt() -> None:
    old = "<cpu><model>EPYC</model><feature policy='disable' name='svm'/></cpu>"
    answers = [Answer("hv2", compared("11.3.0")), Answer("hv1", compared("9.0.0", old))]
    (common,) = common_cpus(answers)
    line = "virt_cpu: {model: EPYC, disable: [svm]}"
    assert common.as_dict() == {"hosts": ["hv2", "hv1"], "line": line}
    text = tables.findings([], [common.as_dict()])
    assert text.endswith(f"\n\nCPU that all support (hv2, hv1), for their group_vars:\n{line}\n")


@pytest.mark.parametrize(
    "other",
    [
        None,
        facts(baseline=None),
        compared("9.0.0", runs=False),
        facts(baseline={**BASELINE, "error": "none", "xml": None, "runs": None}),
        {**compared("9.0.0"), "arch": "aarch64"},
    ],
)
def test_common_cpu_that_not_all_support_is_not_reported(other: t.Any) -> None:
    assert not common_cpus([Answer("hv1", compared("9.0.0")), Answer("hv2", other)])


def test_common_cpu_of_each_architecture_is_reported() -> None:
    arm = {**compared("9.0.0", "<cpu><model>cortex-a72</model></cpu>"), "arch": "aarch64"}
    names = ["hv1", "hv2", "hv3", "hv4"]
    every = [compared("9.0.0"), arm, compared("9.0.0"), arm]
    common = common_cpus([Answer(*pair) for pair in zip(names, every)])
    assert [(one.hosts, one.cpu.model) for one in common] == [
        (("hv1", "hv3"), "EPYC"),
        (("hv2", "hv4"), "cortex-a72"),
    ]
