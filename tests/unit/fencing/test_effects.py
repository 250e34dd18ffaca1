# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fencing by real programs, that switch a file which stands for the power."""

from __future__ import annotations

import stat
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    DependencyMissing,
    PlanRefused,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_programs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing import effects, plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing.options import FenceDevice
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing.read_silence import Heard

from .test_options import device, options

# Reads its parameters as agents do; what a folder's files say decides how it ends
_AGENT = """\
#!/bin/sh
while read -r line; do
  case $line in action=*) action=${{line#action=}};; password=*) password=${{line#password=}};; esac
done
echo "$0 $*: $action" >> {folder}/calls
[ "$action" = metadata ] && {{ cat {folder}/metadata; exit 0; }}
[ "$password" = xyzzy ] || {{ echo "Unable to connect/login" >&2; exit 1; }}
[ -e {folder}/broken ] && {{ echo "BMC does not answer" >&2; exit 1; }}
case $action in
  status) [ "$(cat {folder}/power)" = on ] && {{ echo "Status: ON"; exit 0; }}
          [ -e {folder}/mute ] || echo "Status: OFF"; exit 2;;
  off) [ -e {folder}/lies ] || echo off > {folder}/power; exit 0;;
esac
exit 1
"""


_METADATA = """<?xml version="1.0" ?>
<resource-agent name="fence_trial"><actions>{}</actions></resource-agent>
"""


def _metadata(*actions: str) -> str:
    return _METADATA.format("".join(f'<action name="{action}" />' for action in actions))


class Supply(t.NamedTuple):
    """A power supply with the agent that switches it."""

    folder: Path
    device: FenceDevice

    def power(self, text: str | None = None) -> str:
        if text is not None:
            (self.folder / "power").write_text(f"{text}\n")
        return (self.folder / "power").read_text().strip()

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if not line.endswith(": metadata")]


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def signs(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """What the host shows of life, each time that it is asked; silence in the end."""
    pending: list[str | None] = []

    def listen(addresses: t.Sequence[str], *_more: object) -> Heard:
        sign = pending.pop(0) if pending else None
        return Heard({addresses[0]: sign} if sign else {}, tuple(addresses))

    monkeypatch.setattr(effects, "listen", listen)
    return pending


@pytest.fixture
def supply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signs: list[str | None]
) -> t.Iterator[Supply]:
    folder = tmp_path / "supply"
    folder.mkdir()
    _program(folder / "fence_trial", _AGENT.format(folder=folder))
    (folder / "metadata").write_text(_metadata("on", "off", "reboot", "status"))
    monkeypatch.setattr(effects_programs, "_PATH", f"{folder}:/usr/bin:/bin")
    made = Supply(folder, device(agent="fence_trial", secrets={"password": "xyzzy"}))
    made.power("on")
    yield made
    assert not signs, "the host was asked as often as expected"


def test_host_that_is_on_is_switched_off_and_read_back(supply: Supply) -> None:
    done = effects.fence(options(supply.device), check=False)
    assert (done["changed"], done["outcome"]) == (True, plan.SWITCHED)
    assert supply.power() == "off"
    assert [call.split(": ")[1] for call in supply.calls] == ["status", "off", "status"]


def test_secret_is_in_no_argument(supply: Supply) -> None:
    effects.fence(options(supply.device), check=False)
    assert not any("xyzzy" in call for call in supply.calls)


def test_host_that_is_off_is_not_switched(supply: Supply) -> None:
    supply.power("off")
    done = effects.fence(options(supply.device), check=False)
    assert (done["changed"], done["outcome"]) == (False, plan.ALREADY)
    assert len(supply.calls) == 1


def test_check_mode_reads_status_and_switches_nothing(supply: Supply) -> None:
    assert effects.fence(options(supply.device), check=True)["changed"]
    assert supply.power() == "on"
    (supply.folder / "broken").touch()
    with pytest.raises(PlanRefused, match=r"hv3 is not proven off: .*BMC does not answer"):
        effects.fence(options(supply.device), check=True)


def test_failing_agent_proves_nothing(supply: Supply) -> None:
    (supply.folder / "broken").touch()
    with pytest.raises(PlanRefused, match=r"hv3 is not proven off: fence_trial failed \(1\): BMC"):
        effects.fence(options(supply.device, off_timeout=0), check=False)


def test_agent_that_is_done_before_host_is_off_proves_nothing(supply: Supply) -> None:
    (supply.folder / "lies").touch()
    with pytest.raises(PlanRefused, match="hv3 is not proven off: fence_trial says on"):
        effects.fence(options(supply.device, off_timeout=0), check=False)


def test_second_power_supply_that_stays_on_proves_nothing(supply: Supply, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    status = ["/bin/sh", "-c", f"echo status >> {other}/calls; echo on"]
    second = device(agent=None, command=["/bin/true"], status_command=status)
    supply.power("off")
    with pytest.raises(PlanRefused, match="not proven off: /bin/true says on"):
        effects.fence(options(supply.device, second, off_timeout=0), check=False)


def test_agent_that_exits_with_2_and_prints_no_status_proves_nothing(supply: Supply) -> None:
    supply.power("off")
    (supply.folder / "mute").touch()
    with pytest.raises(PlanRefused, match="hv3 is not proven off: fence_trial says unknown"):
        effects.fence(options(supply.device, off_timeout=0), check=False)


@pytest.mark.usefixtures("signs")
@pytest.mark.parametrize(
    "command",
    [
        ["/bin/sh", "/missing"],
        ["/usr/bin/python3", "/missing"],
        ["/bin/grep", "on", "/missing"],
        ["/bin/ls", "/missing"],
        ["/bin/sh", "-c", "echo power is off; exit 2"],
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_program_that_exits_with_2_for_another_reason_proves_nothing(
    command: list[str], check: bool
) -> None:
    ended = effects_programs.execute(command)
    assert ended.status == 2, "the premise"
    plain = device(agent=None, command=["/bin/true"], status_command=command)
    with pytest.raises(PlanRefused, match="not proven off: /bin/true says unknown") as raised:
        effects.fence(options(plain, off_timeout=0), check=check)
    assert (ended.out or ended.error_text).split()[-1] in str(raised.value), "what it printed"


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("actions", "why"),
    [
        (("on", "off", "status"), "fence_trial switches no power"),
        (("on", "off", "reboot"), "fence_trial cannot say whether a host is on"),
        (("off",), "no action reboot and none status"),
    ],
)
def test_agent_of_something_else_than_power_is_not_used(
    supply: Supply, actions: tuple[str, ...], why: str, check: bool
) -> None:
    supply.power("off")
    (supply.folder / "metadata").write_text(_metadata(*actions))
    with pytest.raises(PlanRefused, match=f"hv3 is not proven off: .*{why}"):
        effects.fence(options(supply.device), check=check)
    assert not supply.calls, "it was asked for nothing else"


def test_agent_that_does_not_say_what_it_can_do_is_not_used(supply: Supply) -> None:
    (supply.folder / "metadata").write_text("usage: fence_trial NODE\n")
    with pytest.raises(PlanRefused, match="metadata of fence_trial: cannot be parsed"):
        effects.fence(options(supply.device), check=False)
    assert not supply.calls


@pytest.mark.usefixtures("signs")
def test_command_instead_of_agent_switches_off(tmp_path: Path) -> None:
    power = tmp_path / "power"
    power.write_text("on")
    plain = device(
        agent=None,
        command=["/bin/sh", "-c", f"echo off > {power}"],
        status_command=["/bin/sh", "-c", f"cat {power}; grep -q on {power} && exit 0; exit 2"],
    )
    assert effects.fence(options(plain), check=False)["changed"]
    assert not effects.fence(options(plain), check=False)["changed"]


def test_host_that_answers_is_not_switched(supply: Supply, signs: list[str | None]) -> None:
    signs.append("answers on port 22 (192.0.2.13)")
    with pytest.raises(PlanRefused, match="hv3 answers on port 22"):
        effects.fence(options(supply.device), check=False)
    assert not supply.calls


@pytest.mark.parametrize("power", ["on", "off"])
def test_host_that_answers_although_it_is_off_is_refused(
    supply: Supply, signs: list[str | None], power: str
) -> None:
    supply.power(power)
    signs += [None, "answers ARP requests for 192.0.2.13"]
    with pytest.raises(PlanRefused, match=r"answers ARP .* virt_fence of hv3 switches another"):
        effects.fence(options(supply.device), check=False)


@pytest.mark.usefixtures("signs")
@pytest.mark.parametrize(
    ("text", "why"),
    [("echo off\nexit 2\n", "Exec format error"), (None, "Not a directory")],
)
def test_command_that_is_no_program_is_named(tmp_path: Path, text: str | None, why: str) -> None:
    script = tmp_path / "status"
    _program(script, text or "")
    words = [str(script) if text else f"{script}/status"]
    plain = device(agent=None, command=["/bin/true"], status_command=words)
    with pytest.raises(DependencyMissing, match=f"status' cannot be run .*{why}.*#!/bin/sh"):
        effects.fence(options(plain, off_timeout=0), check=False)


@pytest.mark.usefixtures("signs")
def test_program_that_leaves_a_child_with_its_output_proves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(effects, "_SECONDS", 0.5)
    words = ["/bin/sh", "-c", "sleep 2 & echo off; exit 2"]
    plain = device(agent=None, command=["/bin/true"], status_command=words)
    with pytest.raises(PlanRefused, match=r"says unknown .*no answer within 0\.5 seconds"):
        effects.fence(options(plain, off_timeout=0), check=True)


@pytest.mark.usefixtures("signs")
def test_agent_that_is_not_installed_is_named() -> None:
    with pytest.raises(DependencyMissing, match="fence_ipmilan is not installed"):
        effects.fence(options(device()), check=False)


def test_statement_waits_for_lease_and_asks_again(signs: list[str | None]) -> None:
    done = effects.fence(options(stated=True, lease=0), check=False)
    assert (done["changed"], done["outcome"]) == (False, plan.STATED)
    assert "virt_fenced=hv3 states" in str(done["text"])
    signs += [None, "answers on port 22 (192.0.2.13)"]
    with pytest.raises(PlanRefused, match="answers on port 22"):
        effects.fence(options(stated=True, lease=0), check=False)


_ARP = "answers ARP requests for 192.0.2.13"


@pytest.mark.parametrize("power", ["on", "off"])
def test_sign_is_ignored_only_where_devices_say_off(
    supply: Supply, signs: list[str | None], power: str
) -> None:
    supply.power(power)
    signs += [_ARP, _ARP]
    done = effects.fence(options(supply.device, ignore_signs=True), check=False)
    assert supply.power() == "off"
    assert "(it answers ARP requests for 192.0.2.13, which virt_signs_ignored" in str(done["text"])
    (supply.folder / "mute").touch()
    signs.append(_ARP)
    with pytest.raises(PlanRefused, match="not proven off: fence_trial says unknown"):
        effects.fence(options(supply.device, ignore_signs=True, off_timeout=0), check=False)


@pytest.mark.parametrize("check", [True, False])
def test_inaudible_hypervisor_is_not_switched(
    supply: Supply, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    monkeypatch.setattr(effects, "listen", lambda *_arguments: Heard({}, ()))
    with pytest.raises(PlanRefused, match=r"silent says nothing: .* -e virt_fenced=hv3"):
        effects.fence(options(supply.device), check=check)
    assert not supply.calls
    assert effects.fence(options(supply.device, _audible=True), check=check)["changed"]
    stated = effects.fence(options(stated=True, lease=0), check=check)
    assert stated["outcome"] == plan.STATED
