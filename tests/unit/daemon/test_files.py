# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines for libvirt's files: encrypted by default, and nothing libvirt could not read back."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import files as daemon_files

KNOWN = frozenset(
    (
        *("max_files", "user", "cgroup_controllers", "namespaces"),
        *("vnc_tls", "vnc_listen", "vnc_auto_unix_socket"),
    )
)
DEFAULTS = (
    "default_tls_x509_verify = 1",
    "migrate_tls_force = 1",
    "migrate_tls_x509_verify = 1",
    "nbd_tls = 1",
    'vnc_listen = "127.0.0.1"',
    "vnc_tls = 0",
)


def test_default_lines_of_qemu_conf() -> None:
    assert daemon_files.qemu({}, KNOWN, None) == DEFAULTS


def test_the_sites_settings_come_besides_and_instead() -> None:
    site = {"max_files": 32768, "user": "qemu", "namespaces": [], "vnc_tls": True}
    site["cgroup_controllers"] = ["cpu", "memory"]
    lines = daemon_files.qemu(site, KNOWN, None)
    assert 'cgroup_controllers = [ "cpu", "memory" ]' in lines
    assert {"max_files = 32768", 'user = "qemu"', "namespaces = [  ]", "vnc_tls = 1"} <= set(lines)
    assert "vnc_tls = 0" not in lines
    assert list(lines) == sorted(lines)


@pytest.mark.parametrize("key", ["vnc_password", "spice_password"])
def test_empty_password_of_screens_is_no_secret(key: str) -> None:
    known = None if key == "spice_password" else KNOWN | {key}
    assert f'{key} = ""' in daemon_files.qemu({key: ""}, known, None)
    with pytest.raises(SpecError, match=f"qemu_conf.{key}: a secret"):
        daemon_files.qemu({key: " "}, known, None)


@pytest.mark.parametrize(
    ("site", "verified"),
    [
        ({}, False),
        ({"vnc_listen": "127.0.0.2"}, False),
        ({"vnc_listen": "::1"}, False),
        ({"vnc_listen": "localhost"}, False),
        ({"vnc_listen": "192.0.2.1"}, True),
        ({"vnc_listen": "::"}, True),
        ({"vnc_listen": "hv1.example.org"}, True),
        ({"vnc_listen": "192.0.2.1", "vnc_auto_unix_socket": True}, False),
    ],
)
def test_screens_that_others_can_reach_want_a_certificate(
    site: dict[str, Any], verified: bool
) -> None:
    """On loopback, which is reached through SSH, they want none: only hypervisors have one."""
    lines = daemon_files.qemu(site, KNOWN, None)
    assert ("vnc_tls = 1" in lines) is verified
    assert ("vnc_tls_x509_verify = 1" in lines) is verified


@pytest.mark.parametrize(
    ("site", "wanted"),
    [
        ({"security_driver": "none"}, "qemu_conf.security_driver: it decides how guests are"),
        ({"dynamic_ownership": 0}, "qemu_conf.dynamic_ownership: it decides how guests are"),
        ({"vnc_password": "x"}, "qemu_conf.vnc_password: a secret"),
        ({"migrate_tls_force": 0}, "qemu_conf.migrate_tls_force: guests migrate only encrypted"),
        ({"default_tls_x509_verify": 0}, "qemu_conf.default_tls_x509_verify: guests migrate only"),
        ({"lock_manager": "lockd"}, "qemu_conf.lock_manager: use the option lockspace"),
        ({"max_fils": 1}, "qemu_conf.max_fils: .*did you mean max_files"),
        ({"Max Files": 1}, "qemu_conf.Max Files: is not a valid name"),
        ({"user": 'a"b'}, "qemu_conf.user: .*quotation mark"),
        ({"user": "a\nsecurity_driver = 1"}, "qemu_conf.user: .*line break"),
        ({"cgroup_controllers": [1]}, "qemu_conf.cgroup_controllers: .*not a number"),
        ({"user": None}, "qemu_conf.user: None is not a number"),
    ],
)
def test_refused(site: dict[str, Any], wanted: str) -> None:
    with pytest.raises(SpecError, match=wanted) as caught:
        daemon_files.qemu(site, KNOWN, None)
    assert len(caught.value.problems) == 1


def test_every_problem_is_named() -> None:
    with pytest.raises(SpecError) as caught:
        daemon_files.qemu({"max_fils": 1, "security_driver": "none", "user": {}}, KNOWN, None)
    assert len(caught.value.problems) == 3


def test_unknown_settings_pass_where_libvirt_is_not_installed_yet() -> None:
    assert "max_fils = 1" in daemon_files.qemu({"max_fils": 1}, None, None)


def test_leases() -> None:
    assert 'lock_manager = "lockd"' in daemon_files.qemu({}, KNOWN, "/srv/leases")
    assert daemon_files.lockd("/srv/leases") == (
        "auto_disk_leases = 1",
        'file_lockspace_dir = "/srv/leases"',
    )
    assert daemon_files.lockd(None) == ()


def test_daemon() -> None:
    assert daemon_files.daemon([]) == (
        "listen_tcp = 0",
        "listen_tls = 1",
        "tls_no_verify_certificate = 0",
        'tls_priority = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-DHE-RSA'
        ':-CIPHER-ALL:+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM:-MAC-ALL:+AEAD"',
        'tls_port = "16514"',
    )
    assert 'tls_allowed_dn_list = [ "O=Fleet,CN=*" ]' in daemon_files.daemon(["O=Fleet,CN=*"])
    with pytest.raises(SpecError, match=r"tls_allowed_dn_list\[1\]"):
        daemon_files.daemon(["CN=a", 'CN="b"'])


def test_guests() -> None:
    assert set(daemon_files.guests(120, 5)) == {
        "ON_BOOT=ignore",
        "ON_SHUTDOWN=shutdown",
        "PARALLEL_SHUTDOWN=5",
        "SHUTDOWN_TIMEOUT=120",
    }
    with pytest.raises(SpecError, match=r"shutdown_timeout: 0 .*\nshutdown_parallel: 0"):
        daemon_files.guests(0, 0)


@pytest.mark.parametrize(
    ("before", "listen", "wanted"),
    [
        ("", True, "--listen"),
        ('"--timeout 120"', True, "--listen"),
        ('"--timeout 120 --verbose"', True, "--verbose --listen"),
        ('"--listen --verbose"', True, "--verbose --listen"),
        ("'-l'", False, ""),
    ],
)
def test_arguments(before: str, listen: bool, wanted: str) -> None:
    assert daemon_files.arguments(before, listen) == (f'LIBVIRTD_ARGS="{wanted}"',)
