# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors with a base pool of the tests' own, and images on the controller."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support.ansible import (
    SERVERS,
    SSH_ARGS,
    Ansible,
)
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory
from ansible_collections.fleet.virt.tests.unit import _https

MODULE = "fleet.virt.virt_image"
POOL = "fv-image"
FOLDER = "/var/lib/libvirt/fv-image"
HERE = "/srv/fv-image"  # images that lie on the hypervisors
MIB = 1 << 20
HOSTS = ("hv1", "hv2")

# What transfers leave: Ansible's remote temporary folders of the users that tests log in as
STAGED = "ls -d /root/.ansible/tmp/fleet-virt-* /home/*/.ansible/tmp/fleet-virt-* 2>/dev/null"
_CLEAN = f"""
chattr -i {FOLDER}/* 2>/dev/null
virsh -q pool-destroy {POOL} 2>/dev/null
virsh -q pool-undefine {POOL} 2>/dev/null
rm -rf {FOLDER} {HERE} $({STAGED})
true
"""


class _Ansible(Ansible):
    """Ansible with more in its environment."""

    def __init__(self, inventory: Path | str | None, home: Path, **more: str) -> None:
        super().__init__(inventory, home, SERVERS)
        self.more = more

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**self.more, **more)


@dataclass
class Site:
    """The hypervisors, with a base pool of these tests' own, and images on the controller."""

    ansible: _Ansible
    lab: Laboratory
    images: Path

    @property
    def options(self) -> dict[str, str]:
        return {"base_pool": POOL, "base_path": FOLDER, "image_dir": str(self.images)}

    def run(self, image: str, pattern: str = "hv1", **more: Any) -> dict[str, dict[str, Any]]:
        return self.ansible.module(pattern, MODULE, {"image": image, **self.options}, **more)

    def bring(self, image: str, pattern: str = "hv1", **options: Any) -> dict[str, dict[str, Any]]:
        """As :meth:`run`, with further options."""
        return self.ansible.module(pattern, MODULE, {"image": image, **self.options, **options})

    def verify(self, image: str, pattern: str = "hv1", **more: Any) -> harness.HarnessResult:
        arguments = {"image": image, **self.options}
        return harness.verify(self.ansible, self.lab, pattern, MODULE, arguments, **more)

    def refuse(self, images: Mapping[str, str], pattern: str = "hv1", **more: Any) -> None:
        """Check mode and the real run refuse each with its message; nothing is left anywhere.

        ``more`` are further options.
        """
        tasks = [
            {
                "name": image or "nothing",
                MODULE: {"image": image, **self.options, **more},
                "become": True,
                "ignore_errors": True,
            }
            for image in images
        ]
        before = self.everything()
        for check in (True, False):
            run = self.ansible.play(tasks, pattern, check_mode=check).succeeded()
            assert run.events
            for event in run.events:
                where = f"{event.task} on {event.host}, check mode {check}: {event.result}"
                assert event.status == "failed", where
            for image, message in images.items():
                results = run.of(image or "nothing")
                assert results
                for result in results.values():
                    assert re.search(message, result["msg"]), result["msg"]
            assert self.everything() == before

    def everything(self) -> list[object]:
        """All that these tests could leave on the hypervisors."""
        return [
            (self.files(host), self.staged(host), self.pools(host), self.listing(host))
            for host in HOSTS
        ]

    def listing(self, host: str) -> str:
        """The images that lie on a hypervisor, with their times."""
        return self.lab.ssh(host, f"ls -l --full-time {HERE} 2>/dev/null", check=False).stdout

    def staged(self, host: str) -> list[str]:
        """Files under way to a hypervisor."""
        return self.lab.ssh(host, STAGED, check=False).stdout.split()

    def files(self, host: str) -> list[str]:
        """Everything in the folder of base images, if there is one."""
        return self.lab.ssh(host, f"ls -A {FOLDER} 2>/dev/null", check=False).stdout.split()

    def volumes(self, host: str) -> list[str]:
        """What libvirt knows to be there."""
        listed = self.lab.ssh(host, ["virsh", "-q", "vol-list", POOL]).stdout
        return [line.split()[0] for line in listed.splitlines()]

    def only(self, host: str, volume: str) -> None:
        """Assert that a hypervisor has this base image and nothing else."""
        assert self.files(host) == self.volumes(host) == [volume]
        assert self.staged(host) == []

    def pools(self, host: str) -> list[str]:
        """The pools that libvirt knows there."""
        listed = self.lab.ssh(host, ["virsh", "-q", "pool-list", "--all", "--name"]).stdout
        return listed.split()

    def sha256(self, host: str, path: str) -> str:
        return self.lab.ssh(host, ["sha256sum", path]).stdout.split()[0]

    def convert(self, name: str, raw: bytes, virtual: int, *options: str) -> Path:
        """An image on the controller with this content."""
        path, content = self.images / name, self.images / ".raw"
        content.write_bytes(raw)
        os.truncate(content, virtual)
        qemu_img("convert", "-f", "raw", "-O", "qcow2", *options, content, path)
        content.unlink()
        return path

    def put(self, host: str, path: Path, name: str) -> str:
        """Bring a file to a hypervisor by other means."""
        self.lab.ssh(host, ["mkdir", "-p", HERE])
        target = f"{HERE}/{name}"
        with path.open("rb") as content:
            command = [*self.lab.login(host), "--", shlex.join(["tee", target])]
            subprocess.run(
                command, stdin=content, stdout=subprocess.DEVNULL, check=True, timeout=60
            )
        return target


def qemu_img(*arguments: object) -> None:
    subprocess.run(["qemu-img", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def encrypted(path: Path) -> None:
    """An encrypted qcow2. qemu-img measures the processor for it, now and then too quickly."""
    arguments = ["--object", "secret,id=s,data=x", "-f", "qcow2"]
    arguments += ["-o", "encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10"]
    for _attempt in range(20):
        command = ["qemu-img", "create", "-q", *arguments, str(path), "1M"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "accurate CPU usage" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextlib.contextmanager
def site(ansible: Ansible, lab: Laboratory, folder: Path) -> Iterator[Site]:
    """Nothing there yet; nothing left afterwards."""
    images = folder / "images"
    images.mkdir()
    own = _Ansible(ansible.inventory, ansible.home, XDG_CACHE_HOME=str(folder / "cache"))
    own.ssh_args = f"-C {SSH_ARGS}"  # as is Ansible's default; images are sent without
    for host in HOSTS:
        lab.ssh(host, _CLEAN)
    yield Site(own, lab, images)
    for host in HOSTS:
        lab.ssh(host, _CLEAN)


@contextlib.contextmanager
def serving(lab: Laboratory, folder: Path) -> Iterator[_https.Server]:
    """A server on the laboratory's network, whose CA the hypervisors trust."""
    with _https.serving(lab.gateway, folder) as server:
        command = ["openssl", "x509", "-noout", "-hash", "-in", str(server.ca)]
        name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        target = f"/usr/lib/ssl/certs/{name}.0"
        for host in HOSTS:
            lab.ssh(
                host, f"mkdir -p /usr/lib/ssl/certs/ && tee {target}", input=server.ca.read_text()
            )
        yield server
        for host in HOSTS:
            lab.ssh(host, ["rm", "-f", target])


@contextlib.contextmanager
def served(site: Site, server: _https.Server) -> Iterator[_https.Server]:
    """It serves nothing yet; the controller trusts it too, and no proxy is between."""
    site.ansible.more.update(
        SSL_CERT_FILE=str(server.ca), no_proxy=server.address, NO_PROXY=server.address
    )
    yield server
    server.forget()
