# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Opening ports in a site's own ruleset of nftables.

A table of our own could not: a packet has to be accepted by every table, and one that drops is
enough. So the chain that drops gets one more rule, at its head: a jump into a chain of ours beside
it. The same is written to a file that the distribution's ruleset includes in its last line. The
ruleset is never loaded anew for that: what programs have added to it since it was would be lost.

This file is private to the collection.
"""

from __future__ import annotations

import json
import re
import tempfile
import typing as t
from pathlib import Path

from ..._errors import PlanRefused
from ..._pure.hypervisor import firewall, nft_rules
from ..base import files, programs, systemd

FILE = "/etc/fleet-virt/firewall.nft"
_UNIT = "nftables.service"
_ARGUMENT = re.compile(r"-f\s+(/\S+)")
# The ruleset as it is after a boot: loaded where there is none, in a network of its own
_AT_BOOT = 'nft -f "$1" && exec nft -j list ruleset'


class Nftables:
    """The ruleset that is loaded, and that which a boot would load."""

    name = "nftables"

    def __init__(
        self, networks: t.Sequence[firewall.Network], ports: t.Sequence[firewall.Ports]
    ) -> None:
        self.networks = networks
        self.ports = ports
        self.live = nft_rules.Ruleset()
        self.kept: list[nft_rules.Chain] = []
        self.main = _main_file()
        self.include = Path(FILE)

    def plan(self) -> firewall.Change:
        """What is open for our peers now and after a boot, and what shall be."""
        self.live = nft_rules.parse(json.loads(programs.run(["nft", "-j", "list", "ruleset"])))
        shut = self._shut(self.live)
        firewall.refuse_iptables(shut, self.ports)
        self.kept = self._kept()
        self._require_kept(shut)
        file = firewall.nft_lines(self.kept, self.networks, self.ports)
        before = _lines(self.include) if self._included() else []
        return firewall.Change(
            (*_shown(file=before), *self._shown_live(firewall.opened_chains(self.live))),
            (*_shown(file=file), *self._shown_wanted(shut)),
        )

    def apply(self) -> None:
        """Open live what is shut, in one transaction, and write what a boot loads."""
        shut = self._shut(self.live)
        lines = firewall.nft_lines(self.kept, self.networks, self.ports)
        text = "".join(f"{line}\n" for line in lines)
        commands = firewall.nft_close(firewall.opened_chains(self.live), shut)
        for chain in shut:
            jump = not firewall.jump_handles(chain)
            commands += firewall.nft_open(chain, self.networks, self.ports, jump)
        script = "".join(f"{command}\n" for command in commands)
        # both are read by the real program before anything is touched
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
        """The chains that want a rule of ours; none when nobody is to be let in."""
        return firewall.shut_chains(ruleset, self.ports) if self.networks else []

    # What a boot loads

    def _kept(self) -> list[nft_rules.Chain]:
        """The chains of the ruleset on disk that shut our ports."""
        if self.main is None:
            return []
        with tempfile.TemporaryDirectory(prefix="fleet-virt-") as folder:
            without = firewall.with_include(_read(self.main), FILE, wanted=False)
            copy = Path(folder) / "ruleset.nft"
            copy.write_text(without, encoding="utf-8")
            argv = ["unshare", "--net", "sh", "-c", _AT_BOOT, "sh", str(copy)]
            done = programs.attempt(argv)
        if done is None or done.status != 0:
            # It names interfaces, which are not in that empty network: what is loaded now is then
            # taken for what will be.
            return self._shut(self.live)
        return self._shut(nft_rules.parse(json.loads(done.out)))

    def _require_kept(self, shut: t.Sequence[nft_rules.Chain]) -> None:
        if not shut:
            return
        if self.main is None:
            raise PlanRefused(
                f"the chain {shut[0]} of nftables drops what comes from the peers, but no"
                f" {_UNIT} that is enabled loads it: what is opened now would be shut after a"
                f" reboot; have {_UNIT} load the ruleset (systemctl enable {_UNIT})"
            )
        unknown = [chain for chain in shut if str(chain) not in {str(one) for one in self.kept}]
        if unknown:
            raise PlanRefused(
                f"the chain {unknown[0]} of nftables drops what comes from the peers, but is not"
                f" in {self.main}: the program that made it has to open the ports"
                f" {', '.join(one.written() for one in self.ports)}/tcp, or the chain has to be"
                " written there"
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
    """Have nft read what a boot would load: the site's ruleset, at its end ours."""
    with tempfile.TemporaryDirectory(prefix="fleet-virt-") as folder:
        ours, whole = Path(folder) / "ours.nft", Path(folder) / "ruleset.nft"
        ours.write_text(text, encoding="utf-8")
        plain = firewall.with_include(_read(main), FILE, wanted=False)
        whole.write_text(firewall.with_include(plain, str(ours), wanted=wanted), encoding="utf-8")
        programs.run(["nft", "-c", "-f", str(whole)])


def _main_file() -> Path | None:
    """The file that the distribution loads at boot; None where it loads none."""
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
    """Replace a file in one step, flushed, with the owner it has."""
    if path.is_file() and _read(path) == text:
        return
    owner = (path.stat().st_uid, path.stat().st_gid) if path.exists() else None
    data = text.encode("utf-8", "surrogateescape")
    files.write(path, data, mode=mode, owner=owner, durable=files.Durable.CONTENT)
