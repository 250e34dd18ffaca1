# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPU of a hypervisor's guests, out of its domain capabilities."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import XmlError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import cpu_xml

CAPABILITIES = """
<domainCapabilities>
  <path>/usr/bin/qemu-system-x86_64</path>
  <cpu>
    <mode name='host-passthrough' supported='yes'/>
    <mode name='host-model' supported='{supported}'>{inside}</mode>
    <mode name='custom' supported='yes'><model usable='yes'>qemu64</model></mode>
  </cpu>
</domainCapabilities>
"""
INSIDE = (
    "<model fallback='forbid'>EPYC</model><vendor>AMD</vendor>"
    "<feature policy='require' name='x2apic'/><feature policy='disable' name='monitor'/>"
)


def test_the_hosts_model_becomes_a_cpu() -> None:
    found = cpu_xml.guest_cpu(CAPABILITIES.format(supported="yes", inside=INSIDE))
    assert (found["emulator"], found["model"]) == ("/usr/bin/qemu-system-x86_64", "EPYC")
    assert found["xml"].startswith("<cpu>")
    assert "qemu64" not in found["xml"]
    assert cpu_xml.describe(found["xml"]) == "EPYC (1 more and 1 less features)"


def test_a_host_without_a_model() -> None:
    found = cpu_xml.guest_cpu(CAPABILITIES.format(supported="no", inside=""))
    assert (found["model"], found["xml"]) == (None, None)


def test_what_is_no_capabilities() -> None:
    with pytest.raises(XmlError, match="expected <domainCapabilities>"):
        cpu_xml.guest_cpu("<cpu/>")


def test_describe_a_plain_model() -> None:
    assert cpu_xml.describe("<cpu><model>Haswell</model></cpu>") == "Haswell"


def test_a_feature_that_is_not_known_is_left_out() -> None:
    name = cpu_xml.unknown_feature("internal error: Unknown CPU feature cmpccxadd")
    assert name == "cmpccxadd"
    assert cpu_xml.unknown_feature("internal error: Unknown CPU model X") is None
    xml = f"<cpu><model>A</model><feature name='{name}'/><feature name='other'/></cpu>"
    assert cpu_xml.describe(cpu_xml.without_feature(xml, name)) == "A (1 more features)"


def test_features_of_an_expanded_cpu_are_all_that_it_has() -> None:
    xml = (
        "<cpu><model>EPYC</model><vendor>AMD</vendor><feature policy='require' name='b'/>"
        "<feature policy='disable' name='c'/><feature policy='require' name='a'/></cpu>"
    )
    assert cpu_xml.features(xml) == {"vendor": "AMD", "features": ["a", "b"]}


@pytest.mark.parametrize(
    ("message", "model", "expected"),
    [
        ("internal error: Unknown CPU model EPYC-Rome-v1", "EPYC-Rome-v1", "EPYC-Rome"),
        ("internal error: Unknown CPU model EPYC-v1", "EPYC-v2", "EPYC-v2"),
        ("internal error: Unknown CPU model EPYC-v2", "EPYC-v2", "EPYC-v2"),
        ("internal error: Unknown CPU model EPYC-v10", "EPYC-v10", "EPYC-v10"),
        ("no connection", "EPYC-v1", "EPYC-v1"),
    ],
)
def test_first_version_of_a_model_that_is_unknown_is_the_model(
    message: str, model: str, expected: str
) -> None:
    xml = cpu_xml.unversioned(message, f"<cpu><model>{model}</model></cpu>")
    assert cpu_xml.describe(xml) == expected
