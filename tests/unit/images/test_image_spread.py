# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who gets an image from whom when several hypervisors of a play want it."""

from __future__ import annotations

import subprocess
import typing as t
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks as locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_lease_holder as owner,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _image_spread
from ansible_collections.fleet.virt.plugins.plugin_utils.images._image_spread import (
    CONTROLLER,
    Spread,
)

DIGEST = "ab" * 32


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_image_spread, "_POLL", 0.01)


class Play:
    """Hypervisors of one run, each with a process of its own that lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def host(self, name: str) -> Spread:
        self.processes[name] = subprocess.Popen(["sleep", "60"])
        spread = Spread(self.folder, DIGEST, [name])
        spread._me = _image_spread._text(owner.of(self.processes[name].pid))
        return spread

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    made = Play(tmp_path / "spread")
    yield made
    for name in made.processes:
        made.kill(name)


def waits(spread: Spread, meanwhile: t.Callable[[], None]) -> str:
    """Whom it gets the image from after it had to wait for what happens meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(spread.next, (), ())
        try:
            with pytest.raises(StillWaiting):
                found.result(0.1)
        finally:
            meanwhile()
        return found.result(10)


def test_the_controller_sends_it_once(play: Play) -> None:
    first, second = play.host("hv1"), play.host("hv2")
    assert first.next((), ()) == CONTROLLER
    assert waits(second, first.have) == "hv1"


def test_each_gives_it_to_two_at_a_time_and_all_to_the_next(play: Play) -> None:
    hosts = {name: play.host(name) for name in ("hv1", "hv2", "hv3", "hv4", "hv5")}
    hosts["hv1"].have()
    assert [hosts[name].next((), ()) for name in ("hv2", "hv3")] == ["hv1", "hv1"]
    assert waits(hosts["hv4"], hosts["hv2"].have) == "hv2"
    assert hosts["hv5"].next((), ()) == "hv1"


def test_known_ones_are_asked_and_none_asks_itself(play: Play) -> None:
    host, other = play.host("hv1"), play.host("hv2")
    assert host.next(["hv1", "hv9"], ()) == "hv9"
    host.give_up()
    assert other.next((), ()) in ("hv1", "hv9")


def test_one_that_nobody_could_help_gets_it_from_the_controller_at_once(play: Play) -> None:
    first, second = play.host("hv1"), play.host("hv2")
    assert first.next((), ()) == CONTROLLER
    assert second.next(["hv9"], ()) == "hv9"
    assert second.next(["hv9"], {"hv9"}) == CONTROLLER


def test_what_failed_is_tried_by_the_next(play: Play) -> None:
    first, second = play.host("hv1"), play.host("hv2")
    assert first.next((), ()) == CONTROLLER
    assert waits(second, first.give_up) == CONTROLLER


def test_nobody_waits_for_the_dead(play: Play) -> None:
    first, second = play.host("hv1"), play.host("hv2")
    assert first.next((), ()) == CONTROLLER
    assert waits(second, lambda: play.kill("hv1")) == CONTROLLER


def test_a_damaged_file_is_begun_anew(play: Play) -> None:
    first = play.host("hv1")
    first.have()
    (path,) = play.folder.iterdir()
    path.write_text('{"sources": ["hv')
    assert play.host("hv2").next((), ()) == CONTROLLER
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_runs_that_are_over_have_left_goes(play: Play) -> None:
    play.folder.mkdir()
    process = subprocess.Popen(["true"])
    run = _image_spread._text(owner.of(process.pid))
    process.wait()
    (play.folder / f"{DIGEST}.{run}").write_text("{}")
    play.host("hv1").have()
    (left,) = play.folder.iterdir()
    assert left.name != f"{DIGEST}.{run}"


def variables(*hosts: str) -> dict[str, t.Any]:
    return {
        "inventory_hostname": "hv1",
        "ansible_play_hosts_all": list(hosts),
        "hostvars": {host: {"ansible_host": f"192.0.2.{host[2:]}"} for host in hosts},
    }


def test_one_hypervisor_alone_spreads_nothing(tmp_path: Path) -> None:
    assert _image_spread.of_play(tmp_path / "x", variables("hv1"), DIGEST) is None
    assert not (tmp_path / "x").exists()
    spread = _image_spread.of_play(tmp_path / "x", variables("hv1", "hv2"), DIGEST)
    assert spread is not None
    assert spread.next(["192.0.2.1", "hv1", "192.0.2.2"], ()) == "192.0.2.2"


def test_nobody_waits_for_ever(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = play.host("hv1"), play.host("hv2")
    assert one.next((), ()) == CONTROLLER
    monkeypatch.setattr(_image_spread, "_WAIT_SECONDS", 0.2)
    with pytest.raises(PlanRefused, match="fetching this image for"):
        two.next((), ())
    monkeypatch.setattr(_image_spread, "_LOCK_SECONDS", 0.2)
    with (
        locks.held(two._path, 0, "nobody has it"),
        pytest.raises(PlanRefused, match=r"another process of this run has held .* find it"),
    ):
        two.have()
