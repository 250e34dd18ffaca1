#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_packages
short_description: Ensure that packages are installed, without trusting the hypervisor's facts
version_added: 0.1.0
description:
  - Installs packages that are missing, by Ansible's own modules of the package manager (apt, dnf,
    dnf5, and C(community.general.zypper)), with their dependencies but without recommended
    packages. Without O(names) it returns the platform of the machine.
  - The results of these modules are treated as data. From C(ansible.builtin.setup) and
    C(ansible.builtin.package_facts) only the values returned here are read, after their types have
    been checked. They set no fact, statistic, host or group, so a compromised hypervisor controls
    neither the controller nor the other hypervisors.
  - With apt, an interrupted installation is finished first if it blocks this one (C(dpkg
    --configure --pending), modified configuration files are kept).
  - C(module_defaults) of the package manager's module apply, except for options that this module
    sets.
  - Needs Python and root on the hypervisor, but neither libvirt nor lxml.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - The package manager is not queried, because its package lists may be missing or outdated and
        check mode does not fetch them. A package that does not exist is therefore predicted to be
        installed.
  diff_mode:
    support: none
    details:
      - RV(missing) lists what is or would be installed.
  idempotent:
    support: full
options:
  uri:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
  timeout:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
  names:
    description:
      - Packages, by the names of the distribution. Other packages are neither installed nor
        upgraded unless these depend on them.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Read the platform of the machine
  fleet.virt.virt_packages:
  register: machine

- name: Ensure that the tools of libvirt are installed
  fleet.virt.virt_packages:
    names:
      - libvirt-clients
      - qemu-utils
  when: machine.platform.os_family == 'Debian'
"""

RETURN = r"""
platform:
  description: The platform of the machine, in the terms of C(ansible.builtin.setup).
  returned: without O(names)
  type: dict
  contains:
    architecture:
      description: Architecture, for example V(x86_64).
      type: str
    distribution:
      description: Distribution, for example V(Debian).
      type: str
    distribution_major_version:
      description: The first part of its version, for example V(12).
      type: str
    os_family:
      description: Family of distributions, for example V(RedHat).
      type: str
    pkg_mgr:
      description: Package manager, for example V(apt).
      type: str
missing:
  description: Which of O(names) were not installed before, sorted.
  returned: success, with O(names)
  type: list
  elements: str
"""
