# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Consoles that are opened from the controller: who gets to see them, and what is left."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from ansible_collections.fleet.virt.tests.integration.support import console
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.screens import first_frame
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

_SCREEN = "<video><model type='vga'/></video>"
_VNC = "<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'{}/>"
_NONE = "passwd=''"
_MADE = (
    ("hv1", "pc1"),
    ("hv2", "pc2"),
    ("hv1", "spice1"),
    ("hv1", "spicy1"),
    ("hv2", "serial2"),
)
_PC1 = {"vm_name": "pc1"}
_OPEN = "ansible-playbook fleet.virt.console -e vm_name=web1"
_VIEWER = f"{_OPEN} -e virt_console=viewer"
_SERIAL = f"{_OPEN} -e virt_console=serial"
_SERIAL_PAGE = f"{_OPEN} -e virt_console=serial_browser"
COMMANDS = (_OPEN, _VIEWER, _SERIAL, _SERIAL_PAGE)  # of the guide


@pytest.fixture(scope="module", autouse=True)
def _screens(all_guests: Guests) -> Iterator[None]:
    """pc1's screen takes passwords and has none; pc2's was started without, as many are."""
    locked = _VNC.format(f" {_NONE}")
    all_guests.define("hv1", "pc1", paused=True, devices=locked + _SCREEN)
    all_guests.define("hv2", "pc2", paused=True, devices=_VNC.format("") + _SCREEN)
    all_guests.define("hv1", "spice1", devices="<graphics type='spice' autoport='yes'/>")
    spice = "<graphics type='spice' autoport='yes' listen='127.0.0.1' passwd='old12345'/>"
    all_guests.define("hv1", "spicy1", paused=True, devices=spice + _SCREEN)
    all_guests.define("hv2", "serial2", start=True)
    yield
    for host, name in _MADE:
        all_guests.remove(host, name)


def _is_closed(guests: Guests, before: set[str], helper: int) -> None:
    """Nothing listens, nothing runs, and nobody has a password."""
    wait_for(lambda: not os.path.exists(f"/proc/{helper}"), 20, "the helper's end")
    assert console.listening() <= before
    wait_for(lambda: _NONE in console.graphics(guests, "hv1", "pc1"), 20, "the old password")
    assert "passwdValidTo" not in console.graphics(guests, "hv1", "pc1")
    stored = guests.virsh("hv1", "dumpxml", "pc1", "--security-info", "--inactive")
    assert _NONE in stored


def test_in_the_browser(ansible: Ansible, all_guests: Guests) -> None:
    """To the first frame, by two at once; to nobody without the token."""
    before = console.listening()
    with console.Console(ansible, _OPEN, "pc1") as opened:
        url = opened.url
        helper = opened.helper()
        authority = urlsplit(url).netloc
        assert console.listening() - before == {authority}
        secret = console.password(url)
        assert secret
        live = console.graphics(all_guests, "hv1", "pc1")
        assert f"passwd='{secret}'" in live
        assert "passwdValidTo=" in live
        status, page = console.fetched(url)
        assert status == 200
        assert b"pc1 on hv1" in page
        assert secret.encode() not in page
        assert console.fetched(f"{url}novnc/core/rfb.js")[0] == 200
        _nothing_is_served(url)
        with pytest.raises(console.Refused, match="the password is wrong"):
            console.Tab(url).look("another1")
        first, second = console.Tab(url), console.Tab(url)
        assert first.look(secret) == second.look(secret)
        for process in (helper, *opened.connections()):
            words = Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8")
            assert secret not in words
        first.close()
        second.close()
        assert opened.ended() == 0, opened.said
        assert "the last viewer disconnected" in opened.said
        assert secret not in opened.said
    _is_closed(all_guests, before, helper)


def _nothing_is_served(url: str) -> None:
    authority, token = urlsplit(url).netloc, urlsplit(url).path
    wrong = url.replace(token, f"/{'x' * 43}/")
    root = f"http://{authority}/"
    for where in (root, wrong, f"{root}console.js", f"{wrong}novnc/core/rfb.js"):
        assert console.fetched(where) == (404, b""), where
    below = (f"{url}novnc/../../../etc/passwd", f"{url}novnc/app/ui.js", f"{url}password")
    for where in below:
        assert console.fetched(where) == (404, b""), where
    others = (
        {"Host": "evil.example.org"},
        {"Host": authority.replace("127.0.0.1", "localhost")},
        {"Origin": "http://evil.example.org"},
        {"Sec-Fetch-Site": "cross-site"},
    )
    for headers in others:
        assert console.fetched(url, headers=headers) == (404, b""), headers
        both = {**console.own_headers(url), **headers}
        assert console.fetched(f"{url}password", "POST", both) == (404, b""), headers
    assert console.fetched(f"{url}password", "POST")[0] == 404
    for where, origin in ((wrong, None), (root, None), (url, "http://evil.example.org")):
        with pytest.raises(console.Refused, match="404"):
            console.Tab(where, origin)


def test_a_password_that_is_no_longer_valid(ansible: Ansible, all_guests: Guests) -> None:
    before = console.listening()
    with console.Console(ansible, f"{_OPEN} -e virt_console_minutes=2", "pc1") as opened:
        url, helper = opened.url, opened.helper()
        secret = console.password(url)
        live = console.graphics(all_guests, "hv1", "pc1")
        past = re.sub(r"(passwdValidTo)='[^']*'", r"\1='2020-01-01T00:00:00'", live)
        all_guests.script(
            "hv1",
            "cat > /run/graphics.xml; virsh -q update-device pc1 /run/graphics.xml --live",
            input=past if past.endswith("/>") else past[:-1] + "/>",
        )
        with pytest.raises(console.Refused, match="no longer valid"):
            console.Tab(url).look(secret)
        opened.interrupt()
        assert opened.ended() != 0
    _is_closed(all_guests, before, helper)


def test_the_hypervisor_dies_while_one_looks(ansible: Ansible, all_guests: Guests) -> None:
    before = console.listening()
    with console.Console(ansible, _OPEN, "pc1") as opened:
        url, helper = opened.url, opened.helper()
        tab = console.Tab(url)
        tab.look(console.password(url))
        connections = opened.connections()
        assert len(connections) == 2
        for process in connections:
            os.kill(process, signal.SIGKILL)
        assert opened.ended() == 2
        assert "pc1 on hv1: the connection to the hypervisor ended" in opened.said
        with pytest.raises((console.Refused, OSError)):
            console.Tab(url)
    _is_closed(all_guests, before, helper)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_command_dies(ansible: Ansible, all_guests: Guests, number: int) -> None:
    before = console.listening()
    with console.Console(ansible, _OPEN, "pc1") as opened:
        url, helper = opened.url, opened.helper()
        tab = console.Tab(url)
        tab.look(console.password(url))
        opened.process.send_signal(number)
        wait_for(lambda: not os.path.exists(f"/proc/{helper}"), 20, "the helper's end")
    _is_closed(all_guests, before, helper)


def test_for_a_viewer_behind_a_jump_host(
    ansible: Ansible, all_guests: Guests, tmp_path: Path
) -> None:
    """A file for its user alone; the way to hv2 leads over hv1. Another console is open."""
    before = console.listening()
    inventory, jump = _behind_hv1(all_guests, tmp_path)
    with (
        console.Console(ansible, _OPEN, "pc1") as other,
        console.Console(ansible, _VIEWER, "pc2", inventory) as opened,
    ):
        file = opened.file
        assert "it was started without a password" in opened.said
        for path, mode in ((file, 0o600), (file.parent, 0o700)):
            assert stat.S_IMODE(path.stat().st_mode) == mode
        found = dict(line.split("=", 1) for line in file.read_text().splitlines()[1:])
        assert (found["type"], found["host"]) == ("vnc", "127.0.0.1")
        peers = all_guests.script("hv2", "ss -Htn state established '( sport = :22 )'")
        assert jump in peers
        width, height = first_frame(int(found["port"]))
        assert width >= 640
        assert height >= 400
        tab = console.Tab(other.url)
        tab.look(console.password(other.url))
        tab.close()
        assert opened.ended() == 0, opened.said
        assert other.ended() == 0, other.said
    assert not file.parent.exists()
    assert console.listening() <= before


def test_a_screen_of_type_spice_for_a_viewer(ansible: Ansible, all_guests: Guests) -> None:
    """With the password of the moment, and afterwards with the one from before."""
    run = ansible.playbook("console", {"vm_name": "spicy1"})
    assert run.returncode == 2
    assert "which browsers cannot show; use -e virt_console=viewer" in " ".join(run.stdout.split())
    with console.Console(ansible, _VIEWER, "spicy1") as opened:
        text = opened.file.read_text()
        found = dict(line.split("=", 1) for line in text.splitlines()[1:])
        assert found["type"] == "spice"
        assert f"passwd='{found['password']}'" in console.graphics(all_guests, "hv1", "spicy1")
        assert not console.spice_takes(int(found["port"]), "old12345")
        assert console.spice_takes(int(found["port"]), found["password"])
        assert opened.ended() == 0, opened.said
    live = console.graphics(all_guests, "hv1", "spicy1")
    assert "passwd='old12345'" in live
    assert "passwdValidTo" not in live


def _behind_hv1(guests: Guests, folder: Path) -> tuple[Path, str]:
    """An inventory in which hv2 is reached over hv1 by ssh's own ProxyJump; hv1's address."""
    text = (guests.lab.inventory / "10-hypervisors.yml").read_text(encoding="utf-8")
    inventory = yaml.safe_load(text)
    hosts = inventory["hypervisors"]["hosts"]
    first, second = (hosts[name]["ansible_host"] for name in ("hv1", "hv2"))
    config = folder / "ssh_config"
    config.write_text(
        f"Host {second}\n  ProxyJump root@{first}\n"
        f"Host *\n  IdentityFile {hosts['hv1']['ansible_ssh_private_key_file']}\n"
        f"  UserKnownHostsFile {guests.lab.known_hosts}\n  StrictHostKeyChecking yes\n",
        encoding="utf-8",
    )
    hosts["hv2"]["ansible_ssh_common_args"] = f"-F {config}"
    path = folder / "hosts.yml"
    path.write_text(yaml.safe_dump(inventory), encoding="utf-8")
    return path, str(first)


def test_the_serial_console(ansible: Ansible, all_guests: Guests) -> None:
    """What is typed arrives in the guest, what it says is shown; a second one is refused."""
    all_guests.wait_agent("hv2", "serial2")
    with console.Terminal(ansible, _SERIAL, "serial2") as opened:
        opened.wait(b"serial2 on hv2: its serial console; Ctrl-] ends it")
        wait_for(lambda: _typed(opened), 30, "the word from the guest")
        with console.Terminal(ansible, _SERIAL, "serial2") as second:
            assert second.ended() == 2
            assert b"Active console session exists" in second.said
        all_guests.execute("hv2", "serial2", "printf 'a\\033]0;evil\\007b\\n' > /dev/ttyS0")
        opened.wait(b"ab\r\n")
        opened.type(b"\x1d")
        assert opened.ended() == 0, opened.said
    assert b"evil" not in opened.said
    with console.Terminal(ansible, _SERIAL, "serial2") as again:
        again.wait(b"Ctrl-] ends it")
        helper = console.helper_of(again.process.pid)
        again.process.kill()
        wait_for(lambda: not os.path.exists(f"/proc/{helper}"), 20, "the helper's end")


def test_the_serial_console_in_the_browser(ansible: Ansible, all_guests: Guests) -> None:
    """One has it; it ends with the page, and is free again."""
    before = console.listening()
    all_guests.wait_agent("hv2", "serial2")
    for _turn in range(2):
        with console.Console(ansible, _SERIAL_PAGE, "serial2") as opened:
            url = opened.url
            tab = console.Tab(url)
            line = "for i in $(seq 20); do echo hello > /dev/ttyS0; sleep 1; done"
            all_guests.execute("hv2", "serial2", line, wait=False)
            assert b"hello" in tab.read(b"hello\r\n")
            with pytest.raises(console.Refused, match="too many viewers"):
                console.Tab(url).read(b"never")
            tab.close()
            assert opened.ended() == 0, opened.said
    assert console.listening() <= before


def _typed(opened: console.Terminal) -> bool:
    """Typed again until the guest's shell reads it; the quotes are in what it echoes alone."""
    opened.type(b"echo arr''ived: fleetword\r")
    try:
        opened.wait(b"arrived: fleetword", 2)
    except AssertionError:
        return False
    return True


def test_what_cannot_be_opened(ansible: Ansible) -> None:
    for given, said in (
        ({"vm_name": "nobody"}, "no hypervisor has a VM 'nobody'"),
        ({"vm_name": "serial2"}, "serial2 on hv2 has no screen"),
        ({"vm_name": "spice1"}, "spice1 on hv1 is shutoff, so it has no console; start it first"),
        ({**_PC1, "virt_console": "telnet"}, "'telnet' is not a kind of console"),
        ({**_PC1, "virt_console_minutes": "0"}, "0 is not a time limit"),
        ({}, "no VM is named"),
    ):
        run = ansible.playbook("console", given)
        assert run.returncode == 2
        assert said in " ".join(run.stdout.split()), run.stdout


def test_check_mode_opens_nothing(ansible: Ansible, all_guests: Guests) -> None:
    run = ansible.playbook("console", _PC1, check=True).succeeded()
    assert "pc1 on hv1: its console (vnc) would be opened" in run.stdout
    assert _NONE in console.graphics(all_guests, "hv1", "pc1")
