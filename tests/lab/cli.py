# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The laboratory's command line."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Collection, Sequence

from . import cleanup, images, roots
from .errors import LabError, Progress
from .host import Host
from .laboratory import Laboratory
from .recipe import MACHINE_PACKAGES, SUITES
from .record import Record

__all__ = ["main"]

_ABOUT = """\
Real hypervisors on this machine: systemd machines with libvirt and qemu of their own, hv1, hv2 ...
(Debian 12 and 13 in turn), in network and mount namespaces of their own. Progress goes to standard
error, results to standard output.

The laboratory adds one cable (fv-NAME) and one free /24 of 198.18.0.0/15 to this machine and raises
fs.inotify.max_user_instances while any laboratory is up; `down` takes all of it away again. What a
killed program left is taken away by the next `up` or `down`.
"""


# Options with a value: what follows them is no verb
_VALUED = ("--name", "--suite", "--suites")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", default="lab", help="the laboratory (default: %(default)s)")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str, host: bool = False) -> argparse.ArgumentParser:
        one = verbs.add_parser(name, help=text, description=text)
        one.add_argument("--name", default=argparse.SUPPRESS, help="the laboratory")
        if host:
            one.add_argument("host", metavar="HOST", help="hv1, hv2 ...")
        return one

    one = verb("up", "bring up N ready hosts, or add what is missing to N")
    one.add_argument("count", metavar="N", type=int)
    one.add_argument(
        "--suites",
        default=",".join(SUITES),
        help="Debian suites the hosts take turns with (default: %(default)s)",
    )
    verb("down", "take it away with everything in it, and what dead programs left of any")
    verb("status", "every laboratory of this machine with its hosts; changes nothing")
    one = verb("ssh", "log in as root, or run a command", host=True)
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    verb(
        "kill",
        "cut a host's power at once; what it wrote stays in this machine's page cache, so this "
        "is no evidence of durability",
        host=True,
    )
    verb("start", "start a host that was killed or stopped and wait until it answers", host=True)
    verb("stop", "shut a host down in order", host=True)
    verb("cut", "cut a host's network cable", host=True)
    verb("heal", "mend a host's network cable", host=True)
    one = verb("add", "one more host, ready or bare; prints its name")
    one.add_argument("--bare", action="store_true", help="only Debian, ssh and Python")
    one.add_argument("--suite", choices=SUITES, help="its Debian suite (default: in turn)")
    verb("inventory", "print the folder of Ansible's inventory")
    verb("roots", "build the hosts' root trees that are not in the cache yet, and print them")
    verb("packages", "print the Debian packages this machine needs")
    return parser


def _verb_first(words: Sequence[str], verbs: Collection[str]) -> list[str]:
    """The words as the parser wants them: a verb may come after its options and its host."""
    place = 0
    while place < len(words) and words[place] not in verbs:
        place += 2 if words[place] in _VALUED else 1
    return [*words[place : place + 1], *words[:place], *words[place + 1 :]]


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    verbs = next(action.choices for action in parser._actions if action.dest == "verb")
    return parser.parse_args(_verb_first(words, verbs or ()))


def _status() -> None:
    for name, directory in cleanup.registered():
        record = Record.load(directory)
        if record is None:
            print(f"{name}: coming up or left behind; `lab --name {name} down` takes it away")
            continue
        why = cleanup.stale(record)
        print(f"{name}: {record.network} on {record.link}{f', dead: {why}' if why else ''}")
        for host in (Host(record, entry) for entry in record.hosts if not why):
            kind = "bare" if host.bare else "ready"
            print(f"  {host.name} {host.address} {host.suite} {kind} {host.user} {host.state}")


def _do(arguments: argparse.Namespace) -> int:
    lab = Laboratory(arguments.name)
    verb = arguments.verb
    if verb == "packages":
        print(" ".join(sorted({*MACHINE_PACKAGES.values(), *images.machine_packages()})))
    elif verb == "roots":
        roots.check_machine()
        wanted = [(suite, bare) for bare in (False, True) for suite in SUITES]
        roots.ensure_all(wanted, Progress("lab"))
        for suite, bare in wanted:
            print(roots.ensure(suite, bare))
    elif verb == "status":
        _status()
    elif verb == "up":
        lab.up(arguments.count, [suite for suite in arguments.suites.split(",") if suite])
    elif verb == "down":
        lab.down()
    elif verb == "add":
        print(lab.add(bare=arguments.bare, suite=arguments.suite).name)
    elif verb == "inventory":
        print(lab.record and lab.inventory)
    elif verb == "ssh":
        command = lab.login(arguments.host)
        words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
        if words:
            command = [*command, "--", *words]
        elif sys.stdin.isatty():
            command.insert(1, "-t")
        sys.stdout.flush()
        os.execvp(command[0], command)  # noqa: S606 - there is no shell to want
    else:
        getattr(lab, verb)(arguments.host)
    return 0


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when done, 1 when that was not possible."""
    arguments = _arguments(sys.argv[1:] if words is None else words)
    # An orderly end also when told to end: what was begun is taken away again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return _do(arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130
