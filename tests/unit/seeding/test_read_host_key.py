# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ssh tells of a server's host key, as OpenSSH 8.4 to 10.0 say it."""

from __future__ import annotations

import shutil
import socket
import threading
import time

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import read_ssh as ssh
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding.read_ssh import Proof

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAf73O1x43Ad/iCNWWKQX20hjniGRtdpmySEsu2ZEt7L"


@pytest.mark.parametrize(
    ("line", "proof"),
    [
        ("debug1: SSH2_MSG_NEWKEYS received", Proof.HOLDS),
        ("root@192.0.2.5: Permission denied (publickey).", Proof.HOLDS),
        ("ssh: connect to host 192.0.2.5 port 22: Permission denied", None),
        ("Host key verification failed.", Proof.OTHER),
        # said before the signature is verified
        ("debug1: Host 'the-vm' is known and matches the ED25519 host key.", None),
        ("debug1: SSH2_MSG_NEWKEYS sent", None),
        ("debug1: expecting SSH2_MSG_NEWKEYS", None),
        ("ssh: connect to host 192.0.2.5 port 22: Connection refused", None),
        (
            "Unable to negotiate with 192.0.2.5 port 22: no matching host key type found."
            " Their offer: ssh-rsa",
            None,
        ),
        ("kex_exchange_identification: Connection closed by remote host", None),
    ],
)
def test_what_a_line_means(line: str, proof: Proof | None) -> None:
    assert ssh.judge(line) is proof


@pytest.mark.parametrize(
    "key", ["", "ssh-ed25519", f"{KEY}\n* {KEY}", "ssh-ed25519 a,b", f" {KEY}"]
)
def test_what_is_no_key_is_nobodys(key: str) -> None:
    assert ssh.ask("192.0.2.5", 22, key) is Proof.NONE


def test_a_server_that_hangs_up_or_is_not_there() -> None:
    assert shutil.which("ssh"), "ssh is needed to ask"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def hang_up() -> None:
            server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        begun = time.monotonic()
        assert ssh.ask("127.0.0.1", port, KEY) is Proof.NONE
        assert time.monotonic() - begun < 5
        thread.join()
    assert ssh.ask("127.0.0.1", port, KEY) is Proof.NONE
