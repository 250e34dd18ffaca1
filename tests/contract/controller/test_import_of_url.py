# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An archive that is imported from a server: what it is, and what is refused before a hypervisor
has anything of it."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import _tools
from ansible_collections.fleet.virt.tests.unit import _https
from ansible_collections.fleet.virt.tests.unit.importing import packages

NETWORKS = {"NAT": {"bridge": "br0"}}


@dataclass(frozen=True)
class Importing:
    """A server, and the controller that imports from it in check mode."""

    server: _https.Server
    programs: _tools.Preloaded
    cache: Path

    def status(self, src: str, **options: str) -> tuple[int, str]:
        """Exit status of the module, and what it said."""
        given = json.dumps({"src": src, "networks": NETWORKS, **options})
        words = ["-i", "localhost,", "localhost", "--connection", "local", "--check"]
        return self.programs.ended(
            *("ansible", *words, "-m", "fleet.virt.virt_import", "-a", given),
            SSL_CERT_FILE=str(self.server.ca),
            NO_PROXY="127.0.0.1",
            no_proxy="127.0.0.1",
            XDG_CACHE_HOME=str(self.cache),
        )


@pytest.fixture
def importing(programs: _tools.Preloaded, tmp_path: Path) -> t.Iterator[Importing]:
    with _https.serving("127.0.0.1", tmp_path) as server:
        yield Importing(server, programs, tmp_path / "cache")


@pytest.fixture
def archive(tmp_path: Path) -> bytes:
    disk = packages.stream(tmp_path)
    return packages.ova(tmp_path / "web.ova", packages.virtualbox(), disk).read_bytes()


def test_url_of_archive_is_read_and_not_kept_in_check_mode(
    importing: Importing, archive: bytes
) -> None:
    status, said = importing.status(importing.server.put("/web.ova", archive))
    assert status == 0, said
    result = json.loads(said.partition("=>")[2])
    assert result["vm"]["name"] == "web"
    assert [nic["bridge"] for nic in result["vm"]["nics"]] == ["br0"]
    assert importing.server.asked == ["/web.ova"]
    assert not importing.cache.exists()


def test_url_takes_its_checksum_from_the_option(importing: Importing, archive: bytes) -> None:
    src, _, checksum = importing.server.put("/web.ova", archive).partition("#")
    assert importing.status(src, checksum=checksum)[0] == 0
    status, said = importing.status(src, checksum="sha256:" + "0" * 64)
    assert status != 0
    assert "checksum" in said


@pytest.mark.parametrize("target", ["http://127.0.0.1/web.ova", "file:///etc/shadow"])
def test_redirect_to_anything_but_https_is_refused(
    importing: Importing, archive: bytes, target: str
) -> None:
    src = importing.server.put("/web.ova", archive)
    importing.server.redirects["/web.ova"] = target
    status, said = importing.status(src)
    assert status != 0
    assert f"redirects to {target}; only redirects to https are followed" in said


def test_archive_larger_than_allowed_is_refused(importing: Importing) -> None:
    src = importing.server.put("/web.ova", bytes(2 << 20))
    status, said = importing.status(src, max_unpacked="1MiB")
    assert status != 0
    assert "max_unpacked" in said


@pytest.mark.parametrize(
    ("src", "said"),
    [
        ("http://127.0.0.1/web.ova#sha256:" + "0" * 64, "https"),
        ("ftp://127.0.0.1/web.ova#sha256:" + "0" * 64, "https"),
        ("https://127.0.0.1/web.ova", "checksum"),
    ],
)
def test_url_of_another_scheme_or_without_checksum_is_refused(
    importing: Importing, src: str, said: str
) -> None:
    status, output = importing.status(src)
    assert status != 0
    assert said in output
    assert importing.server.asked == []
