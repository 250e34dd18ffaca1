# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What remains of a change that failed: the VM as it is now, compared with before.

Whether a step was undone is not concluded from what the calls returned: libvirt may have done what
it reported as failed, and the reverse. Only what is read again counts.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.metadata import Metadata, OwnVolume
from .definition import DefinitionRequest
from .plan import PHASE, Changed, ChangeFacts, differences

if t.TYPE_CHECKING:
    from ..._lxml import Element


def remains(
    before: ChangeFacts, now: ChangeFacts, wanted: DefinitionRequest, paths: t.Collection[str]
) -> list[str]:
    """How the settings ``paths`` and the files differ ``now`` from ``before``, for users."""
    inactive = _changed(before, before.inactive, now, now.inactive, wanted)
    live: dict[str, str] = {}
    if before.live is not None and now.live is not None:
        live = _changed(before, before.live, now, now.live, wanted)
    texts = []
    for path in dict.fromkeys(path for path in (*inactive, *live) if path in paths):
        text = inactive.get(path) or live[path]
        if path not in inactive:
            text += " (in the running VM only)"
        elif path not in live and now.live is not None:
            text += " (in the definition only)"
        texts.append(text)
    texts += [f"{path} created" for path in sorted(now.files - before.files)]
    texts += [f"{path} removed" for path in sorted(before.files - now.files)]
    return texts


def _changed(
    before: ChangeFacts, old: str, now: ChangeFacts, new: str, wanted: DefinitionRequest
) -> dict[str, str]:
    """The settings that are not what they were, by path."""
    then = {difference.path: difference for difference in differences(before, wanted, old)}
    left = {difference.path: difference for difference in differences(now, wanted, new)}
    texts = {}
    for path in dict.fromkeys([*then, *left]):
        was, is_now = then.get(path), left.get(path)
        if was is not None and is_now is None:  # as requested
            texts[path] = Changed(path, was.asked, was.real, "now").what
        elif is_now is not None and (was is None or was.real != is_now.real):
            real = was.real if was is not None else is_now.asked
            texts[path] = f"{path} {real} -> {is_now.real}"
    return texts


def is_attached(root: Element, own: OwnVolume) -> bool:
    """Whether a device of the definition is on the volume, or on an image above it."""
    for source in root.iterfind("devices//source"):
        if own.path in (source.get("file"), source.get("dev")):
            return True
        if (source.get("pool"), source.get("volume")) == (own.pool, own.name):
            return True
    return False


def kept(stored: Metadata, before: ChangeFacts, now: ChangeFacts) -> Metadata:
    """The metadata ``stored`` of a VM whose change could not be undone: the phase stays, no process
    is its owner, and volumes that exist are its own, for the next run to complete it.
    """
    known = {one.path for one in before.metadata.volumes}
    volumes = tuple(one for one in stored.volumes if one.path in known or one.path in now.files)
    return dataclasses.replace(stored, phase=PHASE, owner=None, volumes=volumes)


def message(
    problem: str, left: t.Sequence[str] | None, marked: bool, problems: t.Sequence[str]
) -> str:
    """What became of a change that failed with ``problem``.

    ``left`` is what :func:`remains` found, None if the VM could not be read; ``marked``: it is in
    phase ``changing``. ``problems`` are those of undoing, which count only if something is left.
    """
    if left is not None and not left:
        end = ", but stays marked as being changed; run this again to end that" if marked else ""
        return f"{problem}; the VM is unchanged{end}"
    parts = [problem]
    parts += [f"moreover, {'; '.join(problems)}"] if problems else []
    if left is None:
        parts.append("what it has by now is unknown, as it cannot be read; run this again")
    else:
        parts.append(f"changed nevertheless: {', '.join(left)}")
        parts.append(
            "it stays marked as being changed; run this again to complete the change"
            if marked
            else "run this again to complete the change"
        )
    return "; ".join(parts)
