# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real browser: it shows the guest's screen, and what is typed there arrives in the guest.

Environment: only where FLEET_VIRT_TRIALS is set, for Chromium is large: it needs Debian's packages
chromium and chromium-driver. FLEET_VIRT_PICTURES is a folder that keeps what the browser showed.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path

from ansible_collections.fleet.virt.tests.integration.support import console
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.browser import browser
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "0"))
_DEVICES = (
    "<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1' passwd=''/>"
    "<video><model type='vga'/></video>"
)
_OPEN = "ansible-playbook fleet.virt.console -e vm_name=web1"
_WORD = "fleetword"
_LISTEN = "printf '\\033[2J\\033[Hsay a word: ' > /dev/tty1; head -n 1 < /dev/tty1 > /run/typed"
_STATUS = "return document.getElementById('status').textContent"
_SIZE = "return document.querySelector('canvas').width"


def _typed(guests: Guests, name: str) -> str:
    """What the guest was told."""
    given = {"path": "/bin/cat", "arg": ["/run/typed"], "capture-output": True}
    pid = guests.agent("hv1", name, "guest-exec", **given)["pid"]
    done = wait_for(
        lambda: (
            (found := guests.agent("hv1", name, "guest-exec-status", pid=pid))["exited"] and found
        ),
        20,
        "cat inside the guest",
    )
    return base64.b64decode(done.get("out-data", "")).decode().strip()


def _serial(ansible: Ansible, guests: Guests, tmp_path: Path) -> None:
    """The same on the page of its serial console."""
    pictures = Path(os.environ.get("FLEET_VIRT_PICTURES") or tmp_path)
    guests.define("hv1", "tab2", start=True)
    guests.wait_agent("hv1", "tab2")
    before = console.listening()
    page = f"{_OPEN} -e virt_console=serial_browser"
    with console.Console(ansible, page, "tab2") as opened, browser(tmp_path) as window:
        window.open(opened.url)
        wait_for(lambda: window.script(_STATUS) == "", 30, "the console in the browser")
        guests.execute("hv1", "tab2", _LISTEN.replace("tty1", "ttyS0"), wait=False)

        def arrived() -> bool:
            window.type(f"{_WORD}\n")  # again, until the guest reads
            return _typed(guests, "tab2") == _WORD

        wait_for(arrived, 60, "the word in the guest", 2)
        window.picture(pictures / "serial.png")
        window.open("about:blank")
        assert opened.ended() == 0, opened.said
    assert console.listening() <= before


def _screen(ansible: Ansible, guests: Guests, tmp_path: Path) -> None:
    """A typed word arrives in the guest; the command ends with the tab, and nothing is left."""
    pictures = Path(os.environ.get("FLEET_VIRT_PICTURES") or tmp_path)
    guests.define("hv1", "tab1", start=True, devices=_DEVICES)
    guests.wait_agent("hv1", "tab1")
    before = console.listening()
    with console.Console(ansible, _OPEN, "tab1") as opened, browser(tmp_path) as window:
        helper = opened.helper() if opened.url else 0
        guests.execute("hv1", "tab1", _LISTEN, wait=False)
        window.open(opened.url)
        wait_for(lambda: window.script(_STATUS) == "", 30, "the screen in the browser")
        assert window.script(_SIZE) >= 640
        window.type(f"{_WORD}\n")
        wait_for(lambda: _typed(guests, "tab1") == _WORD, 30, "the word in the guest", 1)
        window.picture(pictures / "screen.png")
        window.open("about:blank")
        assert opened.ended() == 0, opened.said
        assert "the last viewer disconnected" in opened.said
    assert console.listening() <= before
    assert not os.path.exists(f"/proc/{helper}")


if _TRIALS:
    test_a_word_is_typed_on_the_screen = _screen
    test_a_word_is_typed_on_the_serial_console = _serial
