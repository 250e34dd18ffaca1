# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of the guide and the role's example are run as they are shown, in their order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml

from .conftest import Keys

_RENEW = "ansible-playbook fleet.virt.renew_keys"
_README = Path(__file__).resolve().parents[3] / "roles" / "libvirt_keys" / "README.md"
# Each with what it must print
COMMANDS = {
    f"{_RENEW} --check --diff": r"control: new CA fleet control CA 1",
    _RENEW: r"hv2 +: ok=\d+ +changed=1 ",
    f"{_RENEW} -e libvirt_keys_renew=true": r"hv2 +: ok=\d+ +changed=1 ",
    f"{_RENEW} -e libvirt_keys_renew=true --limit hv1": r"hv1 +: ok=\d+ +changed=1 ",
    f"{_RENEW} -e libvirt_keys_rotate=all": r"hv2 +: ok=\d+ +changed=3 ",
    f"{_RENEW} -e libvirt_keys_revoke=hv2": r"hv2 +: ok=\d+ +changed=0 ",
    f"{_RENEW} -e libvirt_keys_readmit=hv2": r"hv2 +: ok=\d+ +changed=1 ",
}


def test_commands_of_the_guide(bare: Keys, tmp_path: Path) -> None:
    try:
        for command, pattern in COMMANDS.items():
            program, *words = shlex.split(command)
            run = bare.ansible.run(
                program, words, environment={"XDG_DATA_HOME": str(tmp_path)}, limit=400
            ).succeeded()
            assert re.search(pattern, run.stdout), str(run)
        assert (tmp_path / "fleet-virt" / "keys" / "fleet" / "client" / "clientkey.pem").exists()
    finally:
        bare.forget()


def test_example_of_the_role(bare: Keys, tmp_path: Path) -> None:
    """It makes keys where its next lines say they are."""
    text = _README.read_text(encoding="utf-8")
    match = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert match is not None
    (play,) = yaml.safe_load(match[1])
    path = tmp_path / "play.yml"
    path.write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    share = tmp_path / ".local" / "share"
    try:
        for changed in (1, 0):
            run = bare.ansible.run(
                "ansible-playbook", [str(path)], environment={"XDG_DATA_HOME": str(share)}
            ).succeeded()
            assert re.search(rf"hv2 +: ok=\d+ +changed={changed} ", run.stdout), str(run)
        said = bare.host("hv1", "virt-pki-query-dn /etc/pki/libvirt/servercert.pem")
        assert "O=example,CN=hv1" in said
        client = share / "fleet-virt" / "keys" / "example" / "client"
        assert (client / "clientcert.pem").exists()
    finally:
        bare.forget()
