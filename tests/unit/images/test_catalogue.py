# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images by a short name: what each stands for, where it is replaced, and what comes first."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import systems
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.source import parse_image
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _catalogue, _sums
from ansible_collections.fleet.virt.plugins.plugin_utils.images._catalogue import Catalogue
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch

URL = "https://images.example/web-1.qcow2"
SUM = "sha256:" + "5" * 64
WEB = {"url": URL, "checksum": SUM, "os": "debian12"}
PLAIN = {"url": URL, "checksum": SUM}
WHOLE = f"{URL}#{SUM}"
SHIPPED: dict[str, dict[str, str]] = yaml.safe_load(_catalogue.FILE.read_text())


class Given(dict[str, t.Any]):
    """Variables of a play as a batch reads them."""

    def given(self, prefix: str) -> dict[str, t.Any]:
        return {key[len(prefix) :]: value for key, value in self.items() if key.startswith(prefix)}


@pytest.fixture
def batch(tmp_path: Path) -> t.Callable[..., list[t.Any]]:
    def requested(*vms: t.Any, **variables: t.Any) -> list[t.Any]:
        catalogue = {"web": WEB, "plain": PLAIN}
        given = Given(
            {"virt_image_dir": str(tmp_path), "virt_image_catalogue": catalogue, **variables}
        )
        return _batch.requested({"vms": list(vms)}, t.cast("t.Any", given))

    return requested


@pytest.mark.parametrize("name", SHIPPED)
def test_entry_of_the_collection_is_a_pinned_image_of_a_known_system(name: str) -> None:
    entry = SHIPPED[name]
    source = parse_image({"url": entry["url"], "checksum": entry["checksum"]})
    assert source.kind == "url"
    # a name that publishers replace would have another checksum tomorrow
    assert not re.search(r"latest|current|daily", entry["url"])
    assert systems.identifier(entry["os"])
    assert entry["os"] == name
    image = Catalogue("/nowhere", None).image(name)
    assert image == _catalogue.CatalogueImage(source.value, name)


@pytest.mark.parametrize(
    ("vm", "expected"),
    [
        ({"image": "web"}, {"image": WHOLE, "os": "debian12"}),
        ({"image": "web", "os": "win11"}, {"image": WHOLE, "os": "win11"}),
        ({"image": "plain"}, {"image": WHOLE}),
        ({"image": "debian12"}, None),
        ({"image": "unknown"}, {"image": "unknown"}),
        ({"image": "default/web"}, {"image": "default/web"}),
        ({"image": "/srv/web"}, {"image": "/srv/web"}),
        ({"image": WHOLE}, {"image": WHOLE}),
        ({"image": PLAIN}, {"image": PLAIN}),
        ({"image": 12}, {"image": 12}),
        ({"image": "we\nb"}, {"image": "we\nb"}),
        ({"image": None}, {"image": None}),
        ({"disks": [{"image": "web"}]}, {"disks": [{"image": WHOLE}]}),
        ({"disks": '[{"image": "web"}]'}, {"disks": [{"image": WHOLE}]}),
        ({"disks": "no list"}, {"disks": "no list"}),
        ({"disks": [{"image": "none"}]}, {"disks": [{"image": "none"}]}),
        ("no VM", "no VM"),
    ],
)
def test_name_in_a_request_is_replaced_by_what_it_stands_for(
    batch: t.Callable[..., list[t.Any]], vm: t.Any, expected: t.Any
) -> None:
    if expected is None:
        shipped = SHIPPED["debian12"]
        expected = {"image": f"{shipped['url']}#{shipped['checksum']}", "os": "debian12"}
    replaced = batch(vm)
    assert replaced == [expected]
    assert batch(*replaced) == replaced


def test_file_of_that_name_comes_first(batch: t.Callable[..., list[t.Any]], tmp_path: Path) -> None:
    (tmp_path / "web").write_bytes(b"")
    assert batch({"image": "web"}) == [{"image": "web"}]


def test_profile_of_disks_has_names_replaced(tmp_path: Path) -> None:
    profiles = {"web": [{"system": {"image": "web", "size": 64}}, {"data": {"size": 32}}]}
    variables = Given(
        {
            "virt_image_dir": str(tmp_path),
            "virt_image_catalogue": {"web": WEB},
            "virt_disk_profiles": profiles,
            "virt_ssh_public_key": "ssh-ed25519 AAAA",
        }
    )
    found = _batch.defaults(t.cast("t.Any", variables)).disk_profiles
    assert found == {"web": [{"system": {"image": WHOLE, "size": 64}}, {"data": {"size": 32}}]}


@pytest.mark.parametrize(
    ("catalogue", "message"),
    [
        ("web", r"virt_image_catalogue: 'web' is not a mapping of names; write \{url"),
        ({"web": URL}, r"virt_image_catalogue\.web: '.*' has no URL and checksum; write \{url"),
        ({"web": {"url": URL}}, "has no URL and checksum"),
        ({"web": {**WEB, "size": 1}}, "has no URL and checksum"),
        ({"web": {**WEB, "checksum": "md5:1"}}, r"virt_image_catalogue\.web: .* is not a checksum"),
        ({"web": {**WEB, "url": "http://x/y"}}, "is not an https URL"),
    ],
)
def test_entry_that_is_none_is_refused_with_its_name(catalogue: t.Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Catalogue("/nowhere", catalogue).image("web")


def test_checksum_url_in_entry_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = "https://images.example/SHA256SUMS"
    texts = {sums: f"{'5' * 64}  web-1.qcow2\n"}
    monkeypatch.setattr(_sums, "_text", texts.__getitem__)
    image = {"url": URL, "checksum": sums}
    for catalogue, written in ((None, image), ({"web": image}, "web")):
        found = Catalogue(str(tmp_path), catalogue).image(written)
        assert found == _catalogue.CatalogueImage(WHOLE, None)
    assert Catalogue(str(tmp_path), None).in_disks([{"image": image}]) == [{"image": WHOLE}]


def test_unrequested_entry_stops_nothing(tmp_path: Path) -> None:
    assert Catalogue(str(tmp_path), {"web": "broken"}).image("plain") is None
    assert Catalogue(str(tmp_path), "broken").image("/srv/web") is None


def test_entry_of_the_variable_replaces_that_of_the_collection(tmp_path: Path) -> None:
    image = Catalogue(str(tmp_path), {"debian12": PLAIN}).image("debian12")
    assert image == _catalogue.CatalogueImage(WHOLE, None)
