# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for domains of libvirt's test driver: none of them answers, and it is said why."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import NAMESPACE
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_addresses as addresses,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.first_boot import MARK
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import effects_wait as wait
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding.effects_waited import (
    WaitedGuest,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding.read_ssh import (
    Answer,
)

# Numbers of virDomainState, which the test driver takes in its own namespace
RUN = {"runs": 1, "paused": 3, "off": 5, "crashed": 6}
MAC = "52:54:00:12:34:56"
DOMAIN = """
<domain type='test'>
  <name>{name}</name><memory>131072</memory><os><type>hvm</type></os>
  <metadata><f:fleet xmlns:f='{namespace}'>{metadata}</f:fleet></metadata>
  <devices>{devices}</devices>
  <test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>{run}</test:runstate>
</domain>
"""
NIC = f"<interface type='bridge'><mac address='{MAC}'/><source bridge='br0'/></interface>"

SEEDED = (
    "<f:address>192.0.2.5/24</f:address><f:host_key>ssh-ed25519 AAAA</f:host_key>"
    "<f:volume pool='p' name='booting_seed.iso' path='/p/booting_seed.iso' target='seed'"
    " role='seed'/><f:first_boot>pending</f:first_boot>"
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """A node of the test driver: domains named after their states, and one with NIC and address."""
    parts = [(name, run, "", "") for name, run in RUN.items()]
    parts.append(("static", 1, NIC, "<f:address>127.0.0.9/8</f:address>"))
    parts.append(("there", 1, NIC, "<f:address>192.0.2.5/24</f:address>"))
    parts.append(("nowhere", 1, NIC, ""))
    parts.append(("booting", 1, NIC, SEEDED))
    text = "".join(
        DOMAIN.format(name=name, run=run, devices=devices, metadata=kept, namespace=NAMESPACE)
        for name, run, devices, kept in parts
    )
    path = tmp_path / "node.xml"
    path.write_text(f"<node>{text}</node>")
    with connect(f"test://{path}", 5) as opened:
        yield opened


def run(connection: Connection, *names: str, **settings: t.Any) -> dict[str, t.Any]:
    return wait.wait(connection, connection, names, wait.WaitSettings(**settings))


def test_names_that_are_not_there(connection: Connection) -> None:
    with pytest.raises(SpecError) as caught:
        run(connection, "runs", "web7", "web8")
    assert [problem.path for problem in caught.value.problems] == ["names", "names"]


def test_what_does_not_run_ends_at_once_and_the_rest_is_waited_for(connection: Connection) -> None:
    begun = time.monotonic()
    result = run(connection, "off", "crashed", "paused", wait_timeout=60)
    assert time.monotonic() - begun < 10
    assert result["failed"]
    found = {vm["name"]: (vm["state"], vm["answered"], vm["msg"]) for vm in result["vms"]}
    assert found["off"] == ("shutoff", False, "it is not running: shutoff (unknown)")
    assert found["crashed"][2].startswith("it is not running: crashed")
    assert found["paused"][2].startswith("it is not running: paused")
    assert result["waiting"] == []
    for name in ("off", "crashed", "paused"):
        assert f"{name}: it is not running: " in result["msg"]


def test_the_time_limit(connection: Connection) -> None:
    begun = time.monotonic()
    result = run(connection, "runs", "nowhere", "runs", wait_timeout=1.5)
    assert 1.5 <= time.monotonic() - begun < 30
    assert [vm["name"] for vm in result["vms"]] == ["runs", "nowhere"]
    assert [vm["msg"] for vm in result["vms"]] == [
        "no address: it has no NIC",
        f"no address: no guest agent is connected, no libvirt DHCP lease, no neighbour entry for"
        f" {MAC}, and no cloud-init line on its console",
    ]
    assert result["failed"]


def test_a_slice_fails_for_nobody_who_is_still_waited_for(connection: Connection) -> None:
    result = run(connection, "off", "runs", wait_timeout=60, slice=1)
    assert "failed" not in result
    assert result["waiting"] == ["runs"]


def test_a_slice_ends_early_with_news(connection: Connection) -> None:
    begun = time.monotonic()
    result = run(connection, "off", "runs", wait_timeout=60, slice=30)
    assert time.monotonic() - begun < 10
    assert result["waiting"] == ["runs"]


def test_an_address_is_enough_where_no_more_is_waited_for(connection: Connection) -> None:
    begun = time.monotonic()
    result = run(connection, "there", "off", wait_timeout=60, until="address")
    assert time.monotonic() - begun < 10
    there, off = result["vms"]
    found = [there[key] for key in ("address", "source", "answered", "msg", "changed")]
    assert found == ["192.0.2.5", "static", True, "", False]
    assert there["seconds"] < 10
    assert (off["answered"], off["msg"]) == (False, "it is not running: shutoff (unknown)")
    assert result["msg"] == "off: it is not running: shutoff (unknown)"


def test_one_that_is_removed_meanwhile(connection: Connection) -> None:
    dom = connection.conn.lookupByName("runs")
    guest = WaitedGuest(connection, connection, dom)
    guest.look()
    assert (guest.state, guest.ended) == ("running", None)
    dom.destroy()
    dom.undefine()
    guest.look()
    assert guest.ended is not None
    assert "removed or migrated" in guest.ended


def test_addresses_in_the_order_they_are_believed(connection: Connection) -> None:
    guest = WaitedGuest(connection, connection, connection.conn.lookupByName("there"))
    guest.look()
    table = {"192.0.2.9": MAC, "192.0.2.5": MAC, "192.0.2.8": "52:54:00:00:00:01"}
    assert guest.candidates({}) == {"192.0.2.5": "static"}
    assert list(guest.candidates(table).items()) == [
        ("192.0.2.5", "static"),
        ("192.0.2.9", "neighbour"),
    ]


def test_loopback_is_no_address_of_a_vm(connection: Connection) -> None:
    guest = WaitedGuest(connection, connection, connection.conn.lookupByName("static"))
    guest.look()
    assert guest.candidates({}) == {}


def test_an_address_of_the_hypervisor_is_none_of_a_vm(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own SSH server would answer, and the VM would seem to be there."""
    monkeypatch.setattr(Connection, "local", True)
    monkeypatch.setattr(addresses, "is_local", lambda address: address == "192.0.2.5")
    guest = WaitedGuest(connection, connection, connection.conn.lookupByName("there"))
    guest.look()
    assert guest.candidates({"192.0.2.9": MAC}) == {"192.0.2.9": "neighbour"}
    result = run(connection, "there", wait_timeout=0.3)
    assert "192.0.2.5, which belongs to this hypervisor" in result["vms"][0]["msg"]


def test_prediction_knows_nothing() -> None:
    result = wait.predict(["web1", "web2", "web1"])
    assert [vm["name"] for vm in result["vms"]] == ["web1", "web2"]
    assert {vm["answered"] for vm in result["vms"]} == {None}
    assert result["changed"] is False


def watched(connection: Connection) -> tuple[wait._Wait, wait._Watched]:
    """A VM that was given a seed on a medium, and has one address that was tried."""
    waiting = wait._Wait(connection, connection, ["booting"], wait.WaitSettings())
    waiting.started = time.monotonic()
    (one,) = waiting.watched
    one.guest.look()
    one.candidates = one.guest.candidates({})
    one.tries["192.0.2.5"] = wait._Try(Answer(False, "no"))
    return waiting, one


def test_a_server_with_another_key_ends_the_wait_after_a_grace(connection: Connection) -> None:
    waiting, one = watched(connection)
    attempt = one.tries["192.0.2.5"]
    for seconds, ended in ((0.0, False), (1.0, False), (60.0, True)):
        attempt.wrong = time.monotonic() - seconds if seconds else 0.0
        attempt.answer = Answer(False, "another host key")
        waiting._give_up(one)
        assert (one.guest.ended is not None) is ended
    assert one.over
    assert str(one.guest.ended).startswith("192.0.2.5: another host key. Recreate it with")


Prompt = tuple[wait._Wait, wait._Watched, Path]


@pytest.fixture
def prompt(connection: Connection, tmp_path: Path) -> Prompt:
    """A VM whose console is at a login prompt, and the console's log."""
    waiting, one = watched(connection)
    log = tmp_path / "console.log"
    log.write_text("debian login: ")
    one.guest._log = str(log)
    return waiting, one, log


def test_a_login_prompt_without_cloud_init_ends_the_wait(prompt: Prompt) -> None:
    waiting, one, _log = prompt
    for text, seconds, ended in (
        ("[ 9.1] cloud-init[3]: modules\ndebian login: ", 600.0, False),
        ("debian login: ", 0.0, False),
        ("debian login: ", 29.0, False),
        ("debian login: ", 31.0, True),
    ):
        one.guest._measure_idle(text)
        one.guest._idle_since -= seconds
        one.guest._measure_idle(text)
        waiting._give_up(one)
        assert (one.guest.ended is not None) is ended
        one.guest._idle_since += seconds
    assert "has been at a login prompt for 30 s" in str(one.guest.ended)
    assert "192.0.2.5: no" in str(one.guest.ended)


@pytest.mark.parametrize("moved", [-3600.0, 3600.0])
def test_clock_that_is_set_adds_nothing_to_time_at_a_login_prompt(
    prompt: Prompt, monkeypatch: pytest.MonkeyPatch, moved: float
) -> None:
    _waiting, one, _log = prompt
    one.guest._measure_idle("debian login: ")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + moved)
    one.guest._measure_idle("debian login: ")
    assert one.guest.idle is not None
    assert 0 <= one.guest.idle < 20


def test_output_at_a_login_prompt_begins_its_time_again(prompt: Prompt) -> None:
    _waiting, one, log = prompt
    one.guest._measure_idle("debian login: ")
    one.guest._idle_since -= 25
    log.write_text("debian login: \nPassword: \ndebian login: ")
    one.guest._measure_idle("debian login: ")
    assert one.guest.idle == 0


def test_call_goes_on_for_a_while_if_a_console_is_at_a_login_prompt(
    connection: Connection,
) -> None:
    waiting, one = watched(connection)
    assert [waiting._is_due(late) for late in (-0.1, 0.0, 29.0)] == [False, True, True]
    one.guest.idle = 4.0
    assert [waiting._is_due(late) for late in (-0.1, 0.0, 29.0, 30.0)] == [*[False] * 3, True]
    one.guest.has_medium = False
    assert waiting._is_due(0.0)


def test_who_has_proven_its_seed_is_not_given_up(connection: Connection) -> None:
    waiting, one = watched(connection)
    one.guest.idle, one.guest.has_medium = 600.0, False
    waiting._give_up(one)
    assert one.guest.ended is None


def answers(connection: Connection, said: str) -> wait._Watched:
    """The VM as an SSH server answers, with this on its console."""
    waiting, one = watched(connection)
    one.tries["192.0.2.5"] = wait._Try(Answer(True, "yes"), since=time.monotonic())
    waiting._settle(one)
    assert not one.answered  # its console was read before it answered
    one.guest.looked = time.monotonic()
    one.guest.first_boot.see("pending", said)
    waiting._settle(one)
    if one.answered:
        waiting._settle_first_boot(one)
    return one


def noted(connection: Connection) -> str | None:
    dom = connection.conn.lookupByName("booting")
    stored = lookup.read_metadata(connection, dom)
    assert stored is not None
    return stored.first_boot


def test_the_end_of_the_first_boot_is_waited_for(connection: Connection) -> None:
    one = answers(connection, f"{MARK} begun\n")
    assert (one.answered, noted(connection)) == (False, "pending")
    assert one.booting.startswith("192.0.2.5 answers, but its first boot is still in progress")
    assert one.first_boot == "running"
    one = answers(connection, f'{MARK} begun\n{MARK} {{"v1": {{"errors": []}}}}\n')
    assert (one.answered, one.failed, one.problem) == (True, False, "")
    assert one.first_boot is None
    assert noted(connection) is None


def test_what_failed_in_the_first_boot_is_told_until_it_is_acknowledged(
    connection: Connection,
) -> None:
    one = answers(connection, f'{MARK} begun\n{MARK} {{"v1": {{"errors": ["x"]}}}}\n')
    assert (one.answered, one.failed, one.first_boot) == (True, True, "failed")
    assert one.problem.startswith("its first boot failed: x. The VM is left as it is")
    assert noted(connection) == "failed: x"
    one.guest.look()
    assert one.guest.first_boot.failure == "x"
    assert not one.guest.first_boot.goes_on


def test_an_end_that_nobody_tells_is_said_to_be_unknown(connection: Connection) -> None:
    one = answers(connection, "debian login: ")
    assert (one.answered, one.failed) == (True, False)
    assert one.problem.startswith(
        "the outcome of its first boot is unknown: its console does not mention it"
    )
    assert noted(connection) is None
