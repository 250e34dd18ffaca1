# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible as its users run it, with what came out as data."""

from __future__ import annotations

import atexit
import copy
import json
import os
import shlex
import subprocess
import sys
import tempfile
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .preloaded import Servers
from .process import Process

# The programs of the environment that the tests run in
PROGRAMS = Path(sys.executable).parent
SERVERS = Servers()
atexit.register(SERVERS.close)
_NOTED = 4000  # characters of what a command printed that did not end in time


@dataclass(frozen=True)
class Event:
    """What one task returned on one host; ``status`` is ok, failed, unreachable or skipped."""

    host: str
    task: str
    status: str
    ignored: bool
    result: dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A finished command with the results of its tasks."""

    argv: Sequence[str]
    returncode: int
    stdout: str
    stderr: str
    events: list[Event] = field(default_factory=list)

    def of(self, task: str) -> dict[str, dict[str, Any]]:
        """Results by host of the task of that name."""
        return {event.host: event.result for event in self.events if event.task == task}

    def succeeded(self) -> Run:
        """Itself, after asserting that it ended with success."""
        assert self.returncode == 0, str(self)
        return self

    def __str__(self) -> str:
        command = shlex.join(self.argv)
        return f"{command}\nexit status {self.returncode}\n{self.stdout}\n{self.stderr}"


# Ansible's own default, and the example fleet's, which notices a cable that is cut
PLAIN_SSH_ARGS = "-C -o ControlMaster=auto -o ControlPersist=60s"
SSH_ARGS = (
    "-o ControlMaster=auto -o ControlPersist=60s -o ConnectTimeout=10"
    " -o ServerAliveInterval=5 -o ServerAliveCountMax=3"
)


class Ansible:
    """Runs Ansible's programs with an environment of their own.

    ``servers``: without the time for imports, where that can be had; a benchmark wants the whole.
    """

    def __init__(
        self, inventory: Path | str | None, home: Path, servers: Servers | None = None
    ) -> None:
        self.inventory = inventory
        self.home = home
        self.servers = servers
        self.ssh_args = SSH_ARGS

    def alone(self, host: str) -> Ansible:
        """The same where that hypervisor is the whole fleet, so that no other is asked."""
        source = Path(str(self.inventory), "10-hypervisors.yml").read_text(encoding="utf-8")
        hosts = yaml.safe_load(source)["hypervisors"]["hosts"]
        fleet = copy.copy(self)
        with tempfile.NamedTemporaryFile("w", dir=self.home, suffix=".yml", delete=False) as file:
            json.dump({"hypervisors": {"hosts": {host: hosts[host]}}}, file)
        fleet.inventory = file.name
        return fleet

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of every command."""
        return {
            **os.environ,
            "ANSIBLE_HOME": str(self.home),
            "ANSIBLE_FORKS": "50",
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_SSH_ARGS": self.ssh_args,
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parent / "callbacks"),
            "ANSIBLE_CALLBACKS_ENABLED": "record",
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "true",
            "FLEET_VIRT_RECORD": os.devnull,
            "LC_ALL": "C.UTF-8",
            **more,
        }

    def begin(
        self,
        program: str,
        *words: str,
        heard: bool = False,
        inventory: Path | str | None = None,
        **environment: str,
    ) -> Process:
        """One of Ansible's programs that goes on beside the test, which waits for it or kills it.

        It has a session of its own. Its command line may be a server's.

        ``heard``: the caller reads what it says, errors too, from its output.
        """
        argv = [str(PROGRAMS / program), "-i", str(inventory or self.inventory), *words]
        variables = self.environment(**environment)
        server = self.servers and self.servers.serving(program, variables)
        if server:
            return server.begin(argv, variables, heard)
        return subprocess.Popen(
            argv,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if heard else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        inventory: Path | str | None = None,
        environment: Mapping[str, str] | None = None,
        limit: float = 180,
    ) -> Run:
        """Run one of Ansible's programs; ``inventory`` replaces the laboratory's.

        :raises subprocess.TimeoutExpired: it took longer than ``limit`` seconds.
        """
        source = self.inventory if inventory is None else inventory
        chosen = [] if source is None else ["-i", str(source)]
        argv = [str(PROGRAMS / program), *chosen, *arguments]
        with tempfile.TemporaryDirectory(prefix="fleet-virt-record-") as folder:
            record = Path(folder) / "events"
            variables = self.environment(FLEET_VIRT_RECORD=str(record), **(environment or {}))
            done = self._done(argv, variables, limit)
            lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
        events = [Event(**json.loads(line)) for line in lines]
        return Run(argv, done.returncode, done.stdout, done.stderr, events)

    def _done(
        self, argv: list[str], environment: dict[str, str], limit: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            try:
                name = Path(argv[0]).name
                server = self.servers and self.servers.serving(name, environment)
                if server:
                    status = server.run(argv, environment, (stdout, stderr), limit)
                else:
                    status = subprocess.run(
                        argv,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=stdout,
                        stderr=stderr,
                        timeout=limit,
                        check=False,
                    ).returncode
            except subprocess.TimeoutExpired as error:
                error.add_note("".join(_texts(stdout, stderr))[-_NOTED:])
                raise
            return subprocess.CompletedProcess(argv, status, *_texts(stdout, stderr))

    def module(
        self,
        pattern: str,
        module: str,
        args: Mapping[str, Any] | None = None,
        *,
        check: bool = False,
        diff: bool = False,
        become: bool = True,
        arguments: Sequence[str] = (),
        extra: Mapping[str, Any] | None = None,
        inventory: Path | str | None = None,
        limit: float = 180,
    ) -> dict[str, dict[str, Any]]:
        """Run one module ad hoc; what it returned by host.

        Every result has ``failed`` and ``unreachable``; a name without dots is the collection's.
        """
        name = module if "." in module else f"fleet.virt.{module}"
        argv = [pattern, "-m", name]
        argv += ["-a", json.dumps(dict(args))] if args else []
        argv += ["--become"] if become else []
        argv += _options(check, diff, extra)
        run = self.run("ansible", [*argv, *arguments], inventory=inventory, limit=limit)
        assert run.events, f"no host answered at all\n{run}"
        return {
            event.host: {
                "failed": event.status == "failed",
                "unreachable": event.status == "unreachable",
                **event.result,
            }
            for event in run.events
        }

    def playbook(
        self,
        name: str,
        extra_vars: Mapping[str, Any] | None = None,
        args: Sequence[str] = (),
        *,
        check: bool = False,
        diff: bool = False,
        inventory: Path | str | None = None,
        environment: Mapping[str, str] | None = None,
        limit: float = 180,
    ) -> Run:
        """Run a playbook: of the collection by its short name, or a file.

        Extra variables that are strings are passed as ``-e key=value``, as people do; others as
        JSON.
        """
        known = name if "/" in name or "." in name else f"fleet.virt.{name}"
        return self.run(
            "ansible-playbook",
            [known, *_options(check, diff, extra_vars), *args],
            inventory=inventory,
            environment=environment,
            limit=limit,
        )

    def play(
        self,
        tasks: Sequence[Mapping[str, Any]],
        hosts: str,
        *,
        inventory: Path | str | None = None,
        **settings: Any,
    ) -> Run:
        """Run a play of these tasks; ``settings`` are further keywords of the play."""
        with tempfile.TemporaryDirectory(prefix="fleet-virt-play-") as folder:
            path = Path(folder) / "play.yml"
            head = {"name": "Test", "hosts": hosts, "gather_facts": False, **settings}
            path.write_text(json.dumps([{**head, "tasks": list(tasks)}]), encoding="utf-8")
            return self.playbook(str(path), inventory=inventory)


def _texts(*files: t.IO[bytes]) -> list[str]:
    """What was written into each file."""
    found = []
    for file in files:
        file.seek(0)
        found.append(file.read().decode(errors="replace").replace("\r\n", "\n"))
    return found


def _options(check: bool, diff: bool, extra: Mapping[str, Any] | None) -> list[str]:
    options = ["--check"] if check else []
    options += ["--diff"] if diff else []
    for key, value in (extra or {}).items():
        text = f"{key}={shlex.quote(value)}" if isinstance(value, str) else json.dumps({key: value})
        options += ["-e", text]
    return options
