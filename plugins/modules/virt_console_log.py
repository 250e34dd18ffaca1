#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_console_log
short_description: Read the last output of guests' serial consoles
version_added: 0.1.0
description:
  - Reads the end of the log that libvirt keeps of a guest's serial console. VMs created by
    M(fleet.virt.virt_init) have one since their last start.
  - The output is shown as text, without control characters and escape sequences.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._attributes.reading
options:
  names:
    description:
      - Names of the domains.
      - A name that is not defined on the hypervisor is an error, unless O(ignore_missing) is set.
    type: list
    elements: str
    required: true
    aliases: [name]
  ignore_missing:
    description:
      - Skip names that are not defined on this hypervisor, for searching a fleet.
    type: bool
    default: false
  lines:
    description:
      - How many of the last lines to return, from 1 to 2000. Empty lines do not count.
    type: int
    default: 30
  follow:
    description:
      - Seconds for which new output is printed as it arrives, each line after the name of its
        domain. The last lines at the end of that time are returned.
      - If a log is restarted because the domain was started again, it is followed from its
        beginning. For a guest that writes more than 256 KiB in a second, only the last part is
        shown.
    type: int
    default: 0
seealso:
  - module: fleet.virt.virt_screenshot
    description: Captures a guest's screen.
"""

EXAMPLES = r"""
- name: Read the last output of a guest that does not respond
  fleet.virt.virt_console_log:
    name: web1
    lines: 100

- name: Watch a guest boot for ten seconds
  fleet.virt.virt_console_log:
    name: web1
    follow: 10
"""

RETURN = r"""
consoles:
  description: One entry for each domain, in the order of O(names).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the domain.
      type: str
    uuid:
      description: UUID of the domain.
      type: str
    lines:
      description: The last lines, each of at most 300 characters.
      type: list
      elements: str
      sample: ["web1 login:"]
    log:
      description: The log's path on the hypervisor; null if there is none.
      type: str
    read_to:
      description: Offset up to which the log was read, in bytes.
      type: int
    failed:
      description: Whether there is no log.
      type: bool
    msg:
      description: Why there are no lines; else null.
      type: str
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.options import (
    LOG_ARGUMENTS,
    LOG_INTERNAL,
    wanted_lines,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.read_log import read


def main() -> None:
    module = create_module(LOG_ARGUMENTS, LOG_INTERNAL)
    params = module.options

    def answer() -> dict[str, object]:
        wanted = wanted_lines(params)
        with connect(params["uri"], params["timeout"]) as connection:
            consoles = read(connection, wanted)
        failed = [
            f"{console['name']}: {console['msg']}" for console in consoles if console["failed"]
        ]
        result: dict[str, object] = {"changed": False, "consoles": consoles}
        return {**result, "failed": True, "msg": "\n".join(failed)} if failed else result

    run(module, answer)


if __name__ == "__main__":
    main()
