# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A laboratory as tests and the command line use it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import cleanup, counts, diagnosis, fabric, kvm, preloaded, processes, proxy, roots, starting
from .errors import LabError, Progress
from .host import Host
from .paths import RUN, Layout, locked, valid_name
from .processes import Identity
from .recipe import SUITES
from .record import Record

__all__ = ["Laboratory"]


class Laboratory:
    """A laboratory by name: up, down, and everything between.

    With ``owner`` (a process number) it belongs to that process: once that is dead, the next
    ``up`` or ``down`` of any laboratory takes it away. Without, it stays until ``down``.
    """

    def __init__(
        self, name: str = "lab", owner: int | None = None, progress: Progress | None = None
    ) -> None:
        self.name = valid_name(name)
        self.owner = Identity.of(owner) if owner else None
        self.progress = progress or Progress(f"lab {name}")
        # A connection costs a command ten times the command: with this, those of :meth:`ssh` that
        # are root's do without. Not for tests of who is let in or of networks.
        self.directly = False
        # Two thirds of a short module's time are imports, the same each time: with this, its hosts
        # do them once. Not for benchmarks. What is up already stays as it is.
        self.preloaded = False

    # What there is

    @property
    def layout(self) -> Layout:
        """Where its files are."""
        return Layout(self.name)

    @property
    def directory(self) -> Path:
        """The laboratory's folder while it is up."""
        return self.layout.directory

    @property
    def key(self) -> Path:
        """The private key of the inventory's users."""
        return self.layout.key

    @property
    def known_hosts(self) -> Path:
        """The hosts' real keys, for ssh's UserKnownHostsFile."""
        return self.layout.known_hosts

    @property
    def inventory(self) -> Path:
        """A folder with Ansible's ``10-hypervisors.yml``; tests may add files to it."""
        return self.layout.inventory

    @property
    def control(self) -> Path:
        """A folder for ssh's control sockets, with a short path."""
        return self.layout.control

    @property
    def record(self) -> Record:
        """What is written down about it.

        :raises LabError: it is not up.
        """
        record = Record.load(self.directory)
        if record is None:
            raise LabError(f"laboratory {self.name!r} is not up: bring it up with `lab up 2`")
        return record

    @property
    def network(self) -> ipaddress.IPv4Network:
        """Its /24."""
        return self.record.subnet

    @property
    def gateway(self) -> str:
        """This machine's address in it."""
        return self.record.gateway

    @property
    def hosts(self) -> list[Host]:
        """Its hosts by number."""
        record = self.record
        return [Host(record, entry) for entry in record.hosts]

    def host(self, name: str) -> Host:
        """A host by its name.

        :raises LabError: there is none of that name.
        """
        hosts = {host.name: host for host in self.hosts}
        if name not in hosts:
            there = ", ".join(hosts) or "none"
            raise LabError(f"laboratory {self.name!r} has no host {name!r}: it has {there}")
        return hosts[name]

    def leases(self) -> list[tuple[str, str, str, int]]:
        """DHCP leases of guests as (mac, address, name, expiry), the newest first."""
        return fabric.leases(self.record)

    # Up and down

    def up(self, count: int, suites: Sequence[str] | None = None) -> Laboratory:
        """Bring it up with ``count`` ready hosts, or up to that many where it is up already.

        :param suites: Debian suites the hosts take turns with; by default all of SUITES.
        :raises LabError: it cannot be brought up; nothing of a new one is left then.
        """
        if not 1 <= count <= starting.MOST_HOSTS:
            raise LabError(f"{count} hosts: a laboratory has 1 to {starting.MOST_HOSTS}")
        turn = list(suites or SUITES)
        self._known_suites(turn)
        roots.check_machine()
        cleanup.sweep(self.progress, self.name)
        with self._alone():
            roots.ensure_all([(suite, False) for suite in dict.fromkeys(turn)], self.progress)
            record = self._load_or_clean()
            fresh = record is None
            try:
                record = record or self._begin(kvm.usable(self.progress))
                counts.note(self.directory, fresh)
                if fabric.keeper(record) is None:
                    for host in (Host(record, entry) for entry in record.hosts):
                        host.power_cut()  # its cable went with the namespace
                fabric.start(record, self.progress)
                proxy.start(record)
                missing = count - sum(not entry.bare for entry in record.hosts)
                for _ in range(missing):
                    suite = turn[len(record.hosts) % len(turn)]
                    starting.plan(record, suite, False, self.progress)
                starting.start(record, self.layout, record.hosts, self.progress)
                fabric.watch(record)
                record.builder = None
                record.save()
            except BaseException:
                if fresh:
                    self.progress("that failed: taking it down again")
                    cleanup.remove(self.name, self.directory, self.progress)
                raise
        guests = "with KVM" if record.kvm else "emulated"
        self.progress(f"up with {len(record.hosts)} host(s); guests run {guests}")
        return self

    def down(self) -> None:
        """Take it away with everything in it; also what a killed program left of it."""
        cleanup.sweep(self.progress, self.name)
        with self._alone():
            was = self.directory.exists()
            count = cleanup.remove(self.name, self.directory, self.progress)
        self.progress(f"down ({count} processes ended)" if was or count else "was not up")

    def add(self, bare: bool = False, suite: str | None = None) -> Host:
        """One more host: ready, or bare (Debian with ssh and Python, packages by the proxy).

        :raises LabError: it cannot be started; it is taken away again then.
        """
        self._known_suites([suite] if suite else [])
        with self._alone():
            record = self.record
            chosen = suite or SUITES[len(record.hosts) % len(SUITES)]
            roots.ensure(chosen, bare, self.progress)
            entry = starting.plan(record, chosen, bare, self.progress)
            try:
                starting.start(record, self.layout, [entry], self.progress)
            except BaseException:
                Host(record, entry).power_cut()
                record.hosts.remove(entry)
                record.save()
                starting.publish(record, self.layout)
                raise
        return self.host(entry.name)

    # One host

    def kill(self, name: str) -> None:
        """Cut a host's power. The page cache stays: this is no evidence of durability."""
        self.host(name).power_cut()
        self.progress(f"{name}: power cut (the page cache stays: no evidence of durability)")

    def start(self, name: str) -> None:
        """Start a host that was stopped or killed, and wait until it answers."""
        with self._alone():
            record = self.record
            self.host(name)
            chosen = [entry for entry in record.hosts if entry.name == name]
            starting.start(record, self.layout, chosen, self.progress)

    def stop(self, name: str) -> None:
        """Shut a host down in order."""
        self.host(name).shut_down()
        self.progress(f"{name}: stopped")

    def cut(self, name: str) -> None:
        """Cut a host's network cable."""
        self._cable(name, "down")

    def heal(self, name: str) -> None:
        """Mend a host's network cable."""
        self._cable(name, "up")

    def _cable(self, name: str, state: str) -> None:
        self.host(name)
        fabric.inside(self.record, ["ip", "link", "set", name, state])
        self.progress(f"{name}: network {state}")

    def login(self, name: str, user_root: bool = True) -> list[str]:
        """The ssh command that logs in, to which a command can be appended."""
        host = self.host(name)
        if user_root:
            return host.ssh_command(self.layout.control_key, self.known_hosts, "root")
        return host.ssh_command(self.key, self.known_hosts, host.user)

    def ssh(
        self,
        name: str,
        command: str | Sequence[str],
        *,
        check: bool = True,
        input: str | None = None,  # noqa: A002 - as subprocess names it
        timeout: float = 60,
        user_root: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host: a string as its shell reads it, a list word by word.

        Over ssh, unless ``directly`` is set, it is root's, and the host runs.

        :param user_root: as root with the laboratory's own key; else as the inventory's user.
        :raises LabError: it failed (with ``check``).
        :raises subprocess.TimeoutExpired: it took longer than ``timeout`` seconds.
        """
        host = self.host(name)
        shell = host.shell_command() if self.directly and user_root else None
        login = shell or self.login(name, user_root)
        done = host.execute(login, command, input=input, timeout=timeout)
        if check and done.returncode:
            raise LabError(
                f"{name}: {command!r} failed ({done.returncode})\n{done.stdout}{done.stderr}"
            )
        return done

    def python(
        self,
        name: str,
        program: str,
        words: Sequence[str] = (),
        *,
        check: bool = True,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Have a host's Python run a program as root, with ``words`` as its arguments.

        Where hosts are preloaded that costs a fifth. A Python with arguments of its own would not
        be, so what it reads sets them.

        :raises LabError: as of :meth:`ssh`, and subprocess.TimeoutExpired.
        """
        text = (
            f"import sys\nsys.argv = {['-', *words]!r}\n"
            f"exec(compile({program!r}, '<stdin>', 'exec', dont_inherit=True))\n"
        )
        command = [self.host(name).python]
        return self.ssh(name, command, check=check, input=text, timeout=timeout)

    def logs(self, name: str, lines: int = 60) -> str:
        """What a host's libvirt and its own console said last, for a failed test."""
        return diagnosis.logs(self.host(name), self._asker(name), lines)

    def console(self, name: str, domain: str, lines: int = 60) -> str:
        """What a guest's console and its qemu said last, for a failed test."""
        return diagnosis.console(self.host(name), self._asker(name), domain, lines)

    def _asker(self, name: str) -> diagnosis.Run:
        return lambda command: self.ssh(name, command, check=False, timeout=20)

    # How

    @staticmethod
    def _known_suites(suites: Iterable[str]) -> None:
        for suite in suites:
            if suite not in SUITES:
                raise LabError(f"suite {suite!r}: the laboratory knows {', '.join(SUITES)}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others from this laboratory, or wait for them."""
        path = cleanup.lock_of(self.directory)
        with locked(path, wait=False) as got:
            if got:
                yield
                return
        self.progress("another program is at work on it: waiting for that")
        with locked(path):
            yield

    def _load_or_clean(self) -> Record | None:
        """The record of a laboratory that lives, after removing one that does not."""
        try:
            record = Record.load(self.directory)
            why = cleanup.stale(record) if record else "nothing is written down about it"
        except LabError as error:
            why = str(error)
        if why:
            found = self.directory.exists()
            if cleanup.remove(self.name, self.directory, self.progress) or found:
                self.progress(f"removed what was left of an earlier one: {why}")
            return None
        return record

    def _begin(self, use_kvm: bool) -> Record:
        """Write down what is going to be taken of the machine, then take it."""
        with locked(RUN / "lock"):
            cleanup.register(self.name, self.directory)
            taken = []
            for _, directory in cleanup.registered():
                # One that is damaged is taken down by the next; its network is seen on the machine
                with contextlib.suppress(LabError):
                    other = Record.load(directory)
                    taken += [other.network] if other is not None else []
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            record = Record(
                name=self.name,
                directory=str(self.directory),
                network=str(fabric.pick_network(taken)),
                link=fabric.link_name(self.name),
                boot=processes.boot_id(),
                builder=Identity.of(os.getpid()),
                owner=self.owner,
                kvm=use_kvm,
            )
            record.save()
            if self.preloaded:
                preloaded.keep(self.directory)
            fabric.raise_inotify(self.progress)
        for path in (self.layout.key, self.layout.control_key):
            comment = f"fleet-virt-{self.name}"
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment]
            processes.run([*command, "-f", str(path)])
        return record
