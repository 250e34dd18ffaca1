# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest images: built once, left alone, and really booted, without libvirt in between."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.lab import images, roots
from ansible_collections.fleet.virt.tests.lab.paths import cache

from .support.waiting import wait_for

CHECKOUT = Path(__file__).resolve().parents[2]
AGENT_LIMIT = 60  # seconds; about 6 on an idle machine
DEBIAN_LIMIT = 400  # about 50 on an idle machine

DISKS = {
    "virtio": ["-device", "virtio-blk-pci,drive=root"],
    "scsi": ["-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=root"],
    "ide": ["-device", "ide-hd,drive=root"],
}
MEDIA = {
    "virtio": ["-device", "virtio-blk-pci,drive=seed"],
    "scsi": ["-device", "virtio-scsi-pci,id=cds", "-device", "scsi-cd,bus=cds.0,drive=seed"],
    "ide": ["-device", "ide-cd,drive=seed"],
}


def tool(name: str) -> tuple[list[str], Path]:
    """A program's command, and where it sees our root: the machine's or a laboratory root's."""
    if shutil.which(name):
        return [name], Path("/")
    root = roots.ensure("bookworm")
    script = 'mount --rbind / "$0/mnt" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
    space = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(root)]
    return [*space, name], Path("/mnt")


class Guest:
    """A guest under QEMU alone. What it writes goes to a temporary overlay; the image is read."""

    def __init__(self, folder: Path, name: str, *options: str, memory: int = 96) -> None:
        self.folder = folder
        self.options = options
        self.memory = memory
        self.image = images.image(name)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, machine: str, disk: str, size: str | None = None) -> None:
        """Start with its root on a kind of disk, enlarged to a size if one is given."""
        command, prefix = tool("qemu-system-x86_64")
        seen = prefix / self.folder.relative_to("/")
        base = prefix / self.image.relative_to("/")
        overlay = self.folder / "root.qcow2"
        sizes = {"tiny": "48M", "debian": "2G"}
        # -u: the base has another path in there
        create = ["qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", str(base), "-F", "qcow2"]
        subprocess.run([*create, str(overlay), size or sizes[self.image.stem]], check=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        arguments = ["-machine", f"{machine},accel=tcg", "-m", str(self.memory), "-nodefaults"]
        arguments += ["-display", "none", "-no-user-config"]
        arguments += ["-serial", f"file:{seen}/console"]
        arguments += ["-drive", f"if=none,id=root,file={seen}/root.qcow2,cache=unsafe"]
        arguments += DISKS[disk]
        forward = f"hostfwd=tcp:127.0.0.1:{self.port}-:22"
        arguments += ["-netdev", f"user,id=n0,restrict=on,{forward}"]
        arguments += ["-device", "virtio-net-pci,netdev=n0"]
        arguments += [
            "-netdev",
            "user,id=n1,restrict=on,net=10.0.3.0/24",
            "-device",
            "virtio-net-pci,netdev=n1",
        ]
        arguments += ["-device", "virtio-serial-pci", "-chardev"]
        arguments += [f"socket,id=agent,path={seen}/agent,server=on,wait=off"]
        arguments += ["-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"]
        arguments += ["-qmp", f"unix:{seen}/monitor,server=on,wait=off"]
        options = [option.replace("FOLDER", str(seen)) for option in self.options]
        with (self.folder / "qemu.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command, *arguments, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def stop(self) -> None:
        """Pull the plug."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @property
    def console(self) -> str:
        """Everything the guest has said on its serial console."""
        path = self.folder / "console"
        return path.read_text(errors="replace") if path.exists() else ""

    def _ask(self, path: str, hello: dict[str, Any], request: dict[str, Any], limit: float) -> Any:
        """Send a greeting and a request over a socket; the request's answer.

        Whatever comes before the greeting's answer is left over from earlier questions.
        """
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(limit)
            link.connect(str(self.folder / path))
            stream = link.makefile("rb")
            link.sendall(json.dumps(hello).encode() + b"\n")
            want = hello.get("arguments", {}).get("id", {})
            while json.loads(stream.readline()).get("return") != want:
                pass
            link.sendall(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = {}
            while not {"return", "error"} & set(answer):
                answer = json.loads(stream.readline())
            return answer

    def agent(self, command: str, limit: float = 10, **arguments: Any) -> Any:
        """Ask the guest's agent; what it returns."""
        hello = {"execute": "guest-sync", "arguments": {"id": time.monotonic_ns()}}
        request = {"execute": command, "arguments": arguments}
        answer = self._ask("agent", hello, request, limit)
        assert "return" in answer, f"{command}: {answer}"
        return answer["return"]

    def monitor(self, command: str) -> None:
        """Tell QEMU something."""
        self._ask("monitor", {"execute": "qmp_capabilities"}, {"execute": command}, 10)

    def answers(self) -> bool:
        """Whether the agent answers now."""
        try:
            return bool(self.agent("guest-ping", limit=2) == {})
        except (OSError, ValueError):
            return False

    def wait_agent(self, limit: float = AGENT_LIMIT) -> None:
        """Wait until the agent answers.

        :raises AssertionError: not within the limit, or QEMU has ended; with the console's end.
        """

        def answered() -> bool:
            assert self.process is not None
            log = self.folder / "qemu.log"
            assert self.process.poll() is None, f"QEMU has ended: {log.read_text()}"
            return self.answers()

        try:
            wait_for(answered, limit, "the guest's agent")
        except AssertionError as error:
            raise AssertionError(f"{error}\nconsole:\n{self.console[-3000:]}") from error

    def run(self, command: str) -> str:
        """Have the agent run a shell command; its output."""
        pid = self.agent(
            "guest-exec", path="/bin/sh", arg=["-c", command], **{"capture-output": True}
        )["pid"]
        state: dict[str, Any] = {}

        def ended() -> bool:
            state.update(self.agent("guest-exec-status", pid=pid))
            return bool(state["exited"])

        wait_for(ended, 60, f"{command!r} in the guest")
        assert state["exitcode"] == 0, f"{command!r}: {state}"
        decode = ["base64", "-d"]
        data = str(state.get("out-data", "")).encode()
        return subprocess.run(decode, input=data, capture_output=True, check=True).stdout.decode()

    def ssh(self, user: str, key: Path, host_key: str, command: str) -> str:
        """Log in strictly: with that user, that key, and to that host key only."""
        known = self.folder / "known_hosts"
        known.write_text(f"[127.0.0.1]:{self.port} {host_key}\n")
        options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=10"]
        options += [f"UserKnownHostsFile={known}", "IdentitiesOnly=yes"]
        argv = ["ssh", "-F", "none", "-i", str(key), "-p", str(self.port)]
        for option in options:
            argv += ["-o", option]
        done = subprocess.run(
            [*argv, f"{user}@127.0.0.1", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def machines() -> Iterator[list[Guest]]:
    """Guests that end with the test."""
    made: list[Guest] = []
    yield made
    for guest in made:
        guest.stop()


def _key(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path.with_suffix(".pub").read_text().strip()


def _seed(folder: Path, user: str, extra: dict[str, Any], fat: bool = False) -> tuple[str, str]:
    """A seed medium (ISO or FAT) with a host key; the user's and the host's public keys."""
    user_key, host_key = _key(folder / "user"), _key(folder / "host")
    keys = {"ed25519_private": (folder / "host").read_text(), "ed25519_public": host_key}
    people = [{"name": user, "sudo": "ALL=(ALL) NOPASSWD:ALL", "ssh_authorized_keys": [user_key]}]
    data = {"hostname": "seeded", "ssh_keys": keys, "users": people, **extra}
    (folder / "user-data").write_text(f"#cloud-config\n{json.dumps(data, indent=1)}\n")
    (folder / "meta-data").write_text('{"instance-id": "i-1", "local-hostname": "seeded"}\n')
    files = [folder / "user-data", folder / "meta-data"]
    medium = folder / "seed.img"
    if fat:
        with medium.open("wb") as stream:
            stream.truncate(1 << 20)
        subprocess.run(["mformat", "-i", medium, "-v", "CIDATA", "::"], check=True)
        subprocess.run(["mcopy", "-i", medium, *files, "::/"], check=True)
    else:
        command, prefix = tool("xorriso")
        inside = [str(prefix / path.relative_to("/")) for path in (medium, *files)]
        command += ["-as", "mkisofs", "-quiet", "-V", "cidata", "-J", "-r", "-o", *inside]
        subprocess.run(command, check=True, capture_output=True)
    return user_key, host_key


SEED_DRIVE = ["-drive", "if=none,id=seed,file=FOLDER/seed.img,format=raw,readonly=on"]


@pytest.mark.parametrize("name", ["tiny", "debian"])
def test_it_is_built_once(name: str) -> None:
    first = images.image(name)
    written = first.stat().st_mtime_ns
    begin = time.monotonic()
    again = images.image(name)
    assert time.monotonic() - begin < 1
    assert again == first
    assert again.stat().st_mtime_ns == written
    record = images.manifest(first)
    assert images.file_digest(first) == record.sha256
    assert record.recipe == images.recipe_digest(name)
    assert "qemu-guest-agent" in record.packages


def test_command_line_prints_the_path() -> None:
    command = [sys.executable, "-m", "tests.lab.images", "tiny"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert done.stdout == f"{images.image('tiny')}\n"
    command[-1] = "packages"
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert {"mmdebstrap", "mtools", "syslinux"} <= set(done.stdout.split())


@pytest.mark.parametrize(
    ("machine", "disk", "medium"),
    [("pc", "virtio", "scsi"), ("q35", "scsi", "virtio"), ("pc", "ide", "ide")],
)
def test_tiny_boots_with_its_seed(
    tmp_path: Path, machines: list[Guest], machine: str, disk: str, medium: str
) -> None:
    user_key, host_key = _seed(tmp_path, "ansible", {}, fat=medium == "virtio")
    guest = Guest(tmp_path, "tiny", *SEED_DRIVE, *MEDIA[medium])
    machines.append(guest)
    guest.start(machine, disk)
    guest.wait_agent()
    assert guest.agent("guest-get-host-name") == {"host-name": "seeded"}
    wait_for(lambda: "TINY READY" in guest.console, 30, "the guest to be ready")
    wait_for(lambda: guest.console.count("TINY LEASE") == 2, 30, "two addresses")
    for user in ("root", "ansible"):
        assert guest.ssh(user, tmp_path / "user", host_key, "hostname") == "seeded\n"
    keys = guest.run("cat /root/.ssh/authorized_keys").split()
    assert keys == user_key.split()[:2]


def test_tiny_without_seed_has_no_keys_but_its_own(tmp_path: Path, machines: list[Guest]) -> None:
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        guest = Guest(tmp_path / name, "tiny")
        machines.append(guest)
        guest.start("q35", "virtio")
        guest.wait_agent()
        found.append(guest.run("dropbearkey -y -f /etc/dropbear/dropbear_ed25519_host_key"))
        assert guest.run("ls -A /root/.ssh") == ""
        guest.stop()
    assert "ssh-ed25519 AAAA" in found[0]
    assert found[0] != found[1]


def test_tiny_counts_on_its_data_disk_and_heeds_the_power_button(
    tmp_path: Path, machines: list[Guest]
) -> None:
    data = tmp_path / "data.raw"
    with data.open("wb") as stream:
        stream.truncate(8 << 20)
    drive = "if=virtio,file=FOLDER/data.raw,format=raw"
    guest = Guest(tmp_path, "tiny", "-drive", drive)
    machines.append(guest)
    guest.start("pc", "virtio")
    guest.wait_agent()
    guest.run("count start")
    assert guest.run("count file") == "/data/counter\n"
    wait_for(lambda: int(guest.run("count show") or 0) >= 5, 30, "five numbers")
    assert "/dev/vdb /data " in guest.run("cat /proc/mounts")

    guest.run("touch /run/stubborn")
    guest.monitor("system_powerdown")
    wait_for(lambda: "TINY STUBBORN button" in guest.console, 30, "the guest to refuse")
    guest.run("rm /run/stubborn")
    guest.monitor("system_powerdown")
    assert guest.process is not None
    guest.process.wait(30)
    assert "TINY SHUTDOWN button" in guest.console

    # What it counted is on the disk, in order, each number once.
    read = ["debugfs", "-R", "cat counter", str(data)]
    text = subprocess.run(read, capture_output=True, text=True, check=True).stdout
    numbers = [int(line) for line in text.split()]
    assert len(numbers) >= 5
    assert numbers == list(range(1, len(numbers) + 1))


def test_tiny_keeps_what_it_is_told_over_a_reboot(tmp_path: Path, machines: list[Guest]) -> None:
    guest = Guest(tmp_path, "tiny")
    machines.append(guest)
    guest.start("q35", "virtio")
    guest.wait_agent()
    wait_for(lambda: guest.console.count("TINY READY") == 1, 30, "the guest to be ready")
    key = guest.run("md5sum /etc/dropbear/dropbear_ed25519_host_key; echo kept > /root/note")
    with contextlib.suppress(OSError, ValueError):  # it may be gone before it can answer
        guest.agent("guest-shutdown", limit=3, mode="reboot")
    wait_for(lambda: guest.console.count("TINY READY") == 2, AGENT_LIMIT, "a second boot")
    guest.wait_agent()
    assert guest.run("md5sum /etc/dropbear/dropbear_ed25519_host_key") == key
    assert guest.run("cat /root/note") == "kept\n"


@pytest.mark.trials
def test_debian_is_a_cloud_guest(tmp_path: Path, machines: list[Guest]) -> None:
    late = {"path": "/etc/late", "content": "x", "owner": "ansible:ansible", "defer": True}
    asked = {"runcmd": ["touch /root/first-boot"], "timezone": "Asia/Tokyo", "write_files": [late]}
    _, host_key = _seed(tmp_path, "ansible", asked)
    guest = Guest(tmp_path, "debian", *SEED_DRIVE, *MEDIA["scsi"], memory=512)
    machines.append(guest)
    guest.start("q35", "virtio", "3G")
    guest.wait_agent(DEBIAN_LIMIT)
    done = "/var/lib/cloud/instance/boot-finished"
    test = f"test -e {done} && echo yes || echo no"
    wait_for(lambda: guest.run(test) == "yes\n", DEBIAN_LIMIT, "cloud-init to be done")
    status = json.loads(guest.run("cloud-init status --format json"))
    assert (status["status"], status["errors"]) == ("done", [])
    say = "import os; print(os.uname().nodename, os.getuid())"
    command = f"sudo -n python3 -c '{say}'"
    assert guest.ssh("ansible", tmp_path / "user", host_key, command) == "seeded 0\n"
    guest.run("test -e /root/first-boot")
    assert guest.run("date +%Z; stat -c %U /etc/late") == "JST\nansible\n"
    assert int(guest.run("df --output=size -BM / | tail -n 1").strip().rstrip("M\n")) > 2700
    assert guest.run("systemctl --failed --plain --no-legend") == ""


def test_images_are_not_written_by_guests() -> None:
    """Comes after the guests above: the bytes are those of the build."""
    for name in ("tiny", "debian"):
        path = images.image(name)
        assert images.file_digest(path) == images.manifest(path).sha256


def test_a_killed_build_leaves_nothing(tmp_path: Path) -> None:
    environment = dict(os.environ, FLEET_VIRT_CACHE=str(tmp_path))
    (tmp_path / "kernels").symlink_to(cache() / "kernels")  # which takes longer than all the rest
    command = [sys.executable, "-m", "tests.lab.images", "tiny"]
    quiet = subprocess.DEVNULL
    build = subprocess.Popen(command, cwd=CHECKOUT, env=environment, stderr=quiet, stdout=quiet)

    def unpacking() -> bool:
        assert build.poll() is None
        return any(tmp_path.glob("images/.tiny-*/tree/var/cache/apt/archives/*.deb"))

    wait_for(unpacking, 120, "the build to unpack packages")
    build.send_signal(signal.SIGKILL)
    build.wait()
    wait_for(lambda: not _using(tmp_path), 10, "the killed build's processes to end")
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True
    )
    path = Path(done.stdout.strip())
    left = {found.name for found in (tmp_path / "images").iterdir()}
    assert left == {path.parent.name}
    assert images.manifest(path).sha256 == images.file_digest(path)


def _using(folder: Path) -> list[str]:
    """The processes whose command line or mounts name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (process / "cmdline").read_bytes() + (process / "mountinfo").read_bytes()
            if str(folder).encode() in text and int(process.name) != os.getpid():
                found.append(process.name)
    return found
