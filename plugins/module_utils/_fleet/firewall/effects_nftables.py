# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Opening ports in a site's own nftables ruleset.

A table of our own cannot do that: a packet must be accepted by every table, and a single drop is
final. So the chain that drops gets one more rule at its head: a jump into a chain of ours beside
it. The same is written to a file that the distribution's ruleset includes in its last line. The
ruleset is never reloaded for that: rules that programs have added since would be lost.
"""

from __future__ import annotations

import json
import re
import tempfile
import typing as t
from pathlib import Path

from ..._errors import PlanRefused
from ..base import effects_files as files
from ..base import effects_programs as programs
from ..base import effects_systemd as systemd
from . import nft_rules
from . import plan as firewall

FILE = "/etc/fleet-virt/firewall.nft"
_UNIT = "nftables.service"
_ARGUMENT = re.compile(r"-f\s+(/\S+)")
# The ruleset as it is after a boot: loaded into an empty network namespace
_AT_BOOT = 'nft -f "$1" && exec nft -j list ruleset'


class Nftables:
    """The loaded ruleset, and the one that is loaded at boot."""

    name = "nftables"

    def __init__(
        self, networks: t.Sequence[firewall.Network], ports: t.Sequence[firewall.Ports]
    ) -> None:
        self.networks = networks
        self.ports = ports
        self.live = nft_rules.Ruleset()
        self.persistent: list[nft_rules.Chain] = []
        self.main = _main_file()
        self.include = Path(FILE)

    def plan(self) -> firewall.RulesChange:
        """The rules for our peers now and after a boot, and the wanted ones."""
        self.live = nft_rules.parse(json.loads(programs.run(["nft", "-j", "list", "ruleset"])))
        shut = self._shut(self.live)
        firewall.refuse_iptables(shut, self.ports)
        self.persistent = self._persistent()
        self._require_persistent(shut)
        file = firewall.nft_lines(self.persistent, self.networks, self.ports)
        before = _lines(self.include) if self._included() else []
        return firewall.RulesChange(
            (*_shown(file=before), *self._shown_live(firewall.opened_chains(self.live))),
            (*_shown(file=file), *self._shown_wanted(shut)),
        )

    def apply(self) -> None:
        """Open the ports in the loaded ruleset, in one transaction, and in the one for boot."""
        shut = self._shut(self.live)
        lines = firewall.nft_lines(self.persistent, self.networks, self.ports)
        text = "".join(f"{line}\n" for line in lines)
        commands = firewall.nft_close(firewall.opened_chains(self.live), shut)
        for chain in shut:
            jump = not firewall.jump_handles(chain)
            commands += firewall.nft_open(chain, self.networks, self.ports, jump)
        script = "".join(f"{command}\n" for command in commands)
        # nft itself checks both before anything is changed
        programs.run(["nft", "-c", "-f", "-"], text=script)
        if self.main is not None:
            _check_file(self.main, text, wanted=bool(lines))
        programs.run(["nft", "-f", "-"], text=script)
        if lines:
            self.include.parent.mkdir(mode=0o755, exist_ok=True)
            _write(self.include, text, 0o644)
            self._set_include(wanted=True)
        else:
            self._set_include(wanted=False)
            self.include.unlink(missing_ok=True)

    def _shut(self, ruleset: nft_rules.Ruleset) -> list[nft_rules.Chain]:
        """The chains that need a rule of ours; none if no peers are to be admitted."""
        return firewall.shut_chains(ruleset, self.ports) if self.networks else []

    # The ruleset for boot

    def _persistent(self) -> list[nft_rules.Chain]:
        """The chains of the ruleset on disk that block our ports."""
        if self.main is None:
            return []
        with tempfile.TemporaryDirectory(prefix="fleet-virt-") as folder:
            without = firewall.with_include(_read(self.main), FILE, wanted=False)
            copy = Path(folder) / "ruleset.nft"
            copy.write_text(without, encoding="utf-8")
            argv = ["unshare", "--net", "sh", "-c", _AT_BOOT, "sh", str(copy)]
            done = programs.attempt(argv)
        if done is None or done.status != 0:
            # It names interfaces that do not exist in that empty namespace: the ruleset that is
            # loaded now is then assumed to be the one after a boot.
            return self._shut(self.live)
        return self._shut(nft_rules.parse(json.loads(done.out)))

    def _require_persistent(self, shut: t.Sequence[nft_rules.Chain]) -> None:
        if not shut:
            return
        if self.main is None:
            raise PlanRefused(
                f"the nftables chain {shut[0]} drops traffic from the peers, but {_UNIT} is not"
                " enabled to load it: ports opened now would be closed again after a reboot; have"
                f" {_UNIT} load the ruleset (systemctl enable {_UNIT})"
            )
        known = {str(chain) for chain in self.persistent}
        unknown = [chain for chain in shut if str(chain) not in known]
        if unknown:
            raise PlanRefused(
                f"the nftables chain {unknown[0]} drops traffic from the peers, but is not in"
                f" {self.main}: the program that created it must open the ports"
                f" {', '.join(port.written() for port in self.ports)}/tcp, or the chain must be"
                " added to that file"
            )

    def _included(self) -> bool:
        if self.main is None:
            return False
        text = _read(self.main)
        return firewall.with_include(text, FILE, wanted=True) == text

    def _set_include(self, *, wanted: bool) -> None:
        if self.main is None:
            return
        before = _read(self.main)
        after = firewall.with_include(before, FILE, wanted=wanted)
        if after != before:
            _write(self.main, after, self.main.stat().st_mode & 0o7777)

    # For the comparison

    def _shown_live(self, chains: t.Sequence[nft_rules.Chain]) -> list[str]:
        return [
            f"loaded {chain}: {firewall.nft_listed(rule)}"
            for chain in chains
            for rule in self._own(chain)
        ]

    def _own(self, chain: nft_rules.Chain) -> tuple[nft_rules.Rule, ...]:
        family, table = chain.key
        return self.live.chains[family, table, firewall.CHAIN].rules

    def _shown_wanted(self, chains: t.Sequence[nft_rules.Chain]) -> list[str]:
        return [
            f"loaded {chain}: {rule}"
            for chain in chains
            for rule in firewall.nft_rules_of(chain, self.networks, self.ports)
        ]


def _shown(file: t.Sequence[str]) -> list[str]:
    return [f"{FILE}: {line}" for line in file if line]


def _check_file(main: Path, text: str, *, wanted: bool) -> None:
    """Have nft check what is loaded at boot: the site's ruleset, followed by ours."""
    with tempfile.TemporaryDirectory(prefix="fleet-virt-") as folder:
        ours, complete = Path(folder) / "ours.nft", Path(folder) / "ruleset.nft"
        ours.write_text(text, encoding="utf-8")
        plain = firewall.with_include(_read(main), FILE, wanted=False)
        text = firewall.with_include(plain, str(ours), wanted=wanted)
        complete.write_text(text, encoding="utf-8")
        programs.run(["nft", "-c", "-f", str(complete)])


def _main_file() -> Path | None:
    """The ruleset file that the distribution loads at boot; None if it loads none."""
    if not systemd.is_enabled(_UNIT):
        return None
    match = _ARGUMENT.search(systemd.systemctl("show", "--property=ExecStart", "--value", _UNIT))
    path = Path(match[1]) if match else None
    return path if path is not None and path.is_file() else None


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def _lines(path: Path) -> list[str]:
    return _read(path).splitlines() if path.is_file() else []


def _write(path: Path, text: str, mode: int) -> None:
    """Replace a file atomically and flushed, with its current owner."""
    if path.is_file() and _read(path) == text:
        return
    owner = (path.stat().st_uid, path.stat().st_gid) if path.exists() else None
    data = text.encode("utf-8", "surrogateescape")
    files.write(path, data, mode=mode, owner=owner, durable=files.Durable.CONTENT)
