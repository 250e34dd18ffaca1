#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_doctor
short_description: Find what is wrong with a fleet as it is
version_added: 0.1.0
description:
  - Reads a hypervisor with all its VMs, volumes and notes, and says what is wrong. Each finding has
    a stable id, a severity, the hypervisors concerned, a message with the value that was found, and
    a remedy, which is a command wherever there is one. Changes nothing.
  - Errors fail the task, and warnings with O(strict).
  - The playbook C(fleet.virt.doctor) reads all hypervisors of the fleet and compares them. A
    hypervisor that does not answer is a finding, and prevents no other; what could not be looked at
    is in RV(not_looked_at).
  - Needs root on the hypervisor.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._attributes.reading
options:
  base_pool:
    description:
      - Name of the pool of base images. Which of these are unused, the playbook
        C(fleet.virt.images) says.
    type: str
    default: base
  min_free:
    description:
      - Space that should be free in each pool, such as C(10GiB); a plain number is in MiB.
    type: str
    default: 10GiB
  expiry_days:
    description:
      - Number of days before its expiry from which a certificate is reported. A revocation list is
        reported in the last tenth of its lifetime.
    type: int
    default: 30
  clock_seconds:
    description:
      - Seconds by which clocks may differ. A difference within the time that the answer took is not
        reported.
    type: float
    default: 1.0
  strict:
    description:
      - Whether warnings fail the task as errors do.
    type: bool
    default: false
  output:
    description:
      - Output format, a table for people, JSON, YAML or CSV.
    type: str
    choices: [table, json, yaml, csv]
    default: table
  output_file:
    description:
      - File on the controller that the output is written to instead of being printed.
    type: path
seealso:
  - module: fleet.virt.virt_preflight
    description: Tests whether hypervisors can form a fleet.
"""

EXAMPLES = r"""
- name: Find what is wrong with each hypervisor by itself
  fleet.virt.virt_doctor:
    min_free: 1GiB
"""

RETURN = r"""
findings:
  description: The findings, errors first.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Kind of the finding, the same in all versions.
      type: str
    severity:
      description: V(error), V(warning) or V(info).
      type: str
    hosts:
      description: Affected hypervisors.
      type: list
      elements: str
    message:
      description: What was found, with the value.
      type: str
    remedy:
      description: What to do.
      type: str
summary:
  description: How many findings there are of each severity.
  returned: success
  type: dict
  contains:
    error:
      description: Errors.
      type: int
    warning:
      description: Warnings.
      type: int
    info:
      description: Informational findings.
      type: int
not_looked_at:
  description: What could not be looked at, and why.
  returned: success
  type: list
  elements: str
output:
  description: The text that was printed or written.
  returned: success
  type: str
checkup:
  description: What the doctor alone asks a hypervisor for.
  returned: in playbooks of this collection
  type: dict
clock:
  description: How far its clock is from the controller's.
  returned: in playbooks of this collection
  type: dict
"""

from collections.abc import Mapping

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.doctor import read as doctor
from ansible_collections.fleet.virt.plugins.module_utils._fleet.doctor.options import (
    ARGUMENTS,
    DoctorWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def work() -> Mapping[str, object]:
        stage = envelope.read(DoctorWork, params)
        with connect(params["uri"], params["timeout"]) as connection:
            return doctor.examine(connection, params["base_pool"], stage.base_path)

    run(module, work)


if __name__ == "__main__":
    main()
