# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After runs with -vvv: no private key or passphrase where somebody could read it."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import HOSTS, Keys

# Another one each time: none that is in some copy of this file
_PASSPHRASE = f"correct horse {uuid.uuid4()}"
# Everything but what is made of device files and the like
_PLACES = "/etc /home /root /run /tmp /var --exclude-dir=ssh"
_WATCH = r"""
import os, sys, time
seen = set()
while not os.path.exists("/tmp/stop-watching"):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    seen.add(file.read())
            except OSError:
                pass
    time.sleep(0.01)
sys.stdout.buffer.write(b"\n".join(seen))
"""


def _watch(keys: Keys, host: str, found: dict[str, str]) -> None:
    found[host] = keys.lab.ssh(host, ["python3", "-"], input=_WATCH, timeout=300).stdout


@pytest.fixture
def protected(keys: Keys) -> Iterator[Keys]:
    """A fleet whose CAs get a passphrase, which no other test knows."""
    yield keys
    keys.forget()


def test_nothing_secret_is_readable(protected: Keys, tmp_path: Path) -> None:
    keys = protected
    secrets = tmp_path / "secrets.yml"
    secrets.touch(mode=0o600)
    secrets.write_text(json.dumps({"libvirt_keys_passphrase": _PASSPHRASE}))
    seen: dict[str, str] = {}
    for host in HOSTS:
        keys.host(host, "rm -f /tmp/stop-watching")
    threads = [threading.Thread(target=_watch, args=(keys, host, seen)) for host in HOSTS]
    for thread in threads:
        thread.start()
    time.sleep(1)
    output = ""
    try:
        for order in ({"libvirt_keys_renew": "true"}, {"libvirt_keys_rotate": "data"}):
            run = keys.run(
                ["-vvv", "--diff", "-e", f"@{secrets}"],
                environment={
                    "ANSIBLE_DISPLAY_ARGS_TO_STDOUT": "true",
                    "ANSIBLE_PIPELINING": "false",
                },
                **order,
            ).succeeded()
            output += str(run) + str(run.events)
    finally:
        for host in HOSTS:
            keys.host(host, "touch /tmp/stop-watching")
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    # every line of every private key there is now, on the hypervisors and here
    words = {_PASSPHRASE}
    listed = []
    for host in HOSTS:
        paths = keys.host(
            host, f"grep -rlI 'BEGIN.*PRIVATE KEY' {_PLACES} 2>/dev/null || true"
        ).split()
        for path in paths:
            mode, owner = keys.host(host, f"stat -c '%a %U' {path}").split()
            listed.append(f"{host}: {mode} {owner} {path}")
            assert path.startswith("/etc/pki/libvirt/fleet-virt/v"), listed[-1]
            assert mode == "600", listed[-1]
            assert owner == ("root" if "/private/" in path else "libvirt-qemu"), listed[-1]
            words |= _lines(keys.host(host, f"cat {path}"))
    for path in keys.folder.rglob("*"):
        if path.is_file() and "PRIVATE KEY" in path.read_text():
            listed.append(f"controller: {path.stat().st_mode & 0o777:o} {path}")
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.name != "ca.key" or "ENCRYPTED" in path.read_text()
            words |= _lines(path.read_text())
    print(*listed, sep="\n")
    assert len(words) > 100
    assert "PRIVATE KEY" not in output
    assert not _found(words, output), "in Ansible's output"
    for host in HOSTS:
        assert len(seen[host]) > 1000, "nothing was watched"
        assert "openssl" in seen[host], "the making of keys was not watched"
        assert not _found(words, seen[host]), f"in a process of {host}"
        log = keys.host(host, "journalctl --no-pager --since '-20min'; cat /var/log/*log || true")
        assert not _found(words, log), f"in the log of {host}"
        left = keys.host(host, "find /tmp /var/tmp /root/.ansible /home/*/.ansible -type f || true")
        assert "AnsiballZ" not in left, left
    temporary = [keys.ansible.home, Path("/tmp")]
    command = ["grep", "-rlIF", _PASSPHRASE, *map(str, temporary)]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    assert [path for path in found if Path(path).name != "secrets.yml"] == []
    # without the passphrase nothing is signed, and with it everything is as it was
    run = keys.run(libvirt_keys_renew="true")
    assert run.returncode != 0
    assert "give its passphrase in libvirt_keys_passphrase" in str(run)
    assert keys.changed(keys.run(["-e", f"@{secrets}"]).succeeded()) == []


def _lines(text: str) -> set[str]:
    """The lines of a private key; the first one begins alike in every key."""
    body = [line for line in text.splitlines() if len(line) == 64]
    return set(body[1:])


def _found(words: set[str], text: str) -> list[str]:
    return [word for word in words if word in text]
