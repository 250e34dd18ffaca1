# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A power switch for the hosts of a laboratory, with the fence agent that asks it."""

from __future__ import annotations

import contextlib
import http.server
import threading
import time
from collections.abc import Iterator

from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

AGENT = "/usr/sbin/fence_lab"  # where Pacemaker looks for agents
COMMAND = "/usr/local/sbin/rack-power"
PASSWORD = "xyzzy-plugh"  # noqa: S105
# As agents of fence-agents do: parameters on standard input, the status as a line and exit status
_AGENT = '''\
#!/usr/bin/python3
import sys
import urllib.error
import urllib.request

META = """<resource-agent name="fence_lab"><parameters>
<parameter name="action"><content type="string"/></parameter>
<parameter name="plug"><content type="string"/></parameter>
<parameter name="ip"><content type="string"/></parameter>
<parameter name="password"><content type="string"/></parameter></parameters><actions>
<action name="off"/><action name="on"/><action name="reboot"/><action name="status"/>
<action name="monitor"/>
<action name="metadata"/></actions></resource-agent>"""
options = dict(line.rstrip("\\n").split("=", 1) for line in sys.stdin if "=" in line)
if options["action"] == "metadata":
    sys.exit(print(META))
if options.get("password") != "xyzzy-plugh":
    sys.exit("Unable to connect/login to fencing device")
url = "http://{}/{}/{}".format(options["ip"], options["action"], options.get("plug", "any"))
try:
    state = urllib.request.urlopen(url, timeout=30).read().decode()
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())
if options["action"] == "status":
    print("Status: " + state.upper())
sys.exit(2 if (options["action"], state) == ("status", "off") else 0)
'''
_COMMAND = """\
#!/usr/bin/python3
import sys
import urllib.request

verb, host = sys.argv[1:]
state = urllib.request.urlopen("http://{place}/" + verb + "/" + host, timeout=30).read().decode()
print(state)
sys.exit(2 if (verb, state) == ("status", "off") else 0)
"""


class PowerSwitch:
    """Cuts the power of a laboratory's hosts when it is told by HTTP: ``/off/hv3``.

    ``broken``: it answers with an error. ``hanging``: the host of which it says nothing, as a
    management controller without power. ``lies``: it says that a host is off which runs. ``calls``
    are those that it got.
    """

    def __init__(self, lab: Laboratory) -> None:
        self.lab = lab
        self.broken = self.lies = False
        self.hanging = ""
        self.calls: list[str] = []
        switch = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                verb, host = self.path.strip("/").split("/")
                switch.calls.append(f"{verb} {host}")
                status, text = switch.answer(verb, host)
                with contextlib.suppress(OSError):  # the agent may have given up
                    self.send_response(status)
                    self.end_headers()
                    self.wfile.write(text.encode())

            def log_message(self, *_arguments: object) -> None:
                """Nothing is printed among the tests' output."""

        self.server = http.server.ThreadingHTTPServer((lab.gateway, 0), Handler)

    @property
    def place(self) -> str:
        """Its address and port."""
        return f"{self.lab.gateway}:{self.server.server_address[1]}"

    def answer(self, verb: str, name: str) -> tuple[int, str]:
        """Status and text of the answer."""
        end = time.monotonic() + 60
        while self.hanging == name and time.monotonic() < end:
            time.sleep(0.1)
        if self.broken:
            return 500, "the management controller does not answer"
        if verb == "monitor":
            return 200, "on"
        host = self.lab.host(name)
        if verb == "off" and not self.lies and host.leader is not None:
            host.power_cut()
        return 200, "off" if self.lies or host.leader is None else "on"

    def device(self, host: str) -> dict[str, str]:
        """The variable ``virt_fence`` of a host."""
        return {"agent": "fence_lab", "ip": self.place, "plug": host, "password": PASSWORD}

    def install(self, host: str) -> None:
        """Have the agent and the command on a host."""
        for path, text in ((AGENT, _AGENT), (COMMAND, _COMMAND.replace("{place}", self.place))):
            self.lab.ssh(host, f"cat > {path}; chmod 755 {path}", input=text)


@contextlib.contextmanager
def power_switch(lab: Laboratory, *hosts: str) -> Iterator[PowerSwitch]:
    """A switch of all hosts, whose agent ``hosts`` have."""
    switch = PowerSwitch(lab)
    thread = threading.Thread(target=switch.server.serve_forever, daemon=True)
    thread.start()
    try:
        for host in hosts:
            switch.install(host)
        yield switch
    finally:
        switch.server.shutdown()
        switch.server.server_close()
        thread.join()
        for host in hosts:
            lab.ssh(host, f"rm -f {AGENT} {COMMAND}", check=False)
