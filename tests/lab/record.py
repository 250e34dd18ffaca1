# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written down about a running laboratory, before anything of it exists."""

from __future__ import annotations

import ipaddress
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .errors import LabError
from .processes import Identity

__all__ = ["HostRecord", "Record"]


@dataclass
class HostRecord:
    """One host, from the moment it is planned."""

    number: int
    suite: str
    bare: bool
    address: str
    mac: str
    user: str
    uuid: str
    root: str

    @property
    def name(self) -> str:
        """hv1, hv2, and so on."""
        return f"hv{self.number}"


@dataclass
class Record:
    """A laboratory: whose it is, what it holds of the machine, which hosts it has."""

    name: str
    directory: str
    network: str
    link: str
    boot: str
    builder: Identity | None
    owner: Identity | None
    kvm: bool = False
    hosts: list[HostRecord] = field(default_factory=list)

    @property
    def subnet(self) -> ipaddress.IPv4Network:
        """The laboratory's /24."""
        return ipaddress.IPv4Network(self.network)

    @property
    def gateway(self) -> str:
        """This machine's address in it."""
        return str(self.subnet[1])

    @staticmethod
    def path(directory: Path) -> Path:
        """Where the record of the laboratory in a folder is."""
        return directory / "laboratory.json"

    def save(self) -> None:
        """Write it, whole or not at all."""
        path = self.path(Path(self.directory))
        new = path.with_suffix(".new")
        with open(new, "w", encoding="utf-8") as stream:
            json.dump(asdict(self), stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(new, path)

    @classmethod
    def load(cls, directory: Path) -> Record | None:
        """The record in a laboratory's folder, or None when there is none.

        :raises LabError: it is not what this program writes.
        """
        path = cls.path(directory)
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise LabError(f"{path} is damaged ({error}): remove it with `lab down`") from None
        try:
            data["hosts"] = [HostRecord(**host) for host in data["hosts"]]
            for who in ("owner", "builder"):
                data[who] = data[who] and Identity(**data[who])
            return cls(**data)
        except (KeyError, TypeError) as error:
            raise LabError(
                f"{path} was written by another version ({error}): remove it with `lab down`"
            ) from None
