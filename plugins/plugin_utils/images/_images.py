# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images on the controller, and their transfer to a hypervisor."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import time
import typing as t
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.connection import ConnectionBase
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import durations
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_list
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import show
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.results import GENERATED
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.effects_digests import (
    DigestCache,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.facts import ImageFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.options import not_queried
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.read_check import (
    check_structure,
    is_packed,
    read_content,
    read_format,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.read_unpack import LIMIT
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass
from ansible_collections.fleet.virt.plugins.module_utils._units import MIB, format_size
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _alive
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _image_spread
from ansible_collections.fleet.virt.plugins.plugin_utils.images._catalogue import (
    DEFAULT_IMAGE_DIR,
    Catalogue,
)

MODULE = "fleet.virt.virt_image"
OPTIONS = (
    "base_pool",
    "base_path",
    "state",
    "uri",
    "timeout",
    "max_unpacked",
    "download_timeout",
    "peers",
)
_LISTED = 20
_TIDY = 30.0  # seconds


@dataclass(frozen=True)
class LocalImage:
    """An image file on the controller, ``size`` of the file, and what is known of its content,
    uncompressed if the file is compressed."""

    path: str
    size: int
    facts: ImageFacts

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.facts.name


def local_image(
    image_dir: str | None, name: str, *, remember: bool = True, limit: int = LIMIT
) -> LocalImage:
    """The image ``name`` of ``virt_image_dir`` (None: :data:`DEFAULT_IMAGE_DIR`).

    Its digest is cached in the user's cache folder; with ``remember`` False (check mode) nothing is
    written there. ``limit``: bytes that a compressed image may unpack to.
    Raises PlanRefused if there is no such file, or it is not a usable image.
    """
    folder = Path(image_dir or DEFAULT_IMAGE_DIR).expanduser()
    if not name or "/" in name or "\0" in name or name.startswith((".", "-")):
        raise PlanRefused(
            f"image {show(name)} is not the name of a file in {folder} (virt_image_dir); give a"
            " name without folders, or the absolute path of a file on the hypervisor"
        )
    path = folder / name
    try:
        # without O_NONBLOCK, opening a named pipe would block
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise PlanRefused(f"image {show(name)}: {_what_exists(folder)}") from None
    except OSError as error:
        raise PlanRefused(f"image {path}: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise PlanRefused(f"image {path} is not a regular file; name an image file")
        cache = DigestCache(cache_folder() / "digests.json", remember=remember)
        # without qemu-img only the hypervisor can check the rest, after the transfer
        if (
            not is_packed(descriptor)
            and cache.known(descriptor) is None
            and shutil.which("qemu-img")
        ):
            check_structure(descriptor, read_format(descriptor, str(path)), str(path))
        digest, content = read_content(descriptor, str(path), cache, limit)
    except OSError as error:
        raise PlanRefused(f"image {path}: {error.strerror}") from None
    finally:
        os.close(descriptor)
    return LocalImage(
        path=str(path),
        size=status.st_size,
        facts=ImageFacts(name, digest, content.format, content.virtual_bytes),
    )


def _what_exists(folder: Path) -> str:
    try:
        names = sorted(
            entry.name for entry in folder.iterdir() if entry.is_file() and entry.name[0] != "."
        )
    except FileNotFoundError:
        return (
            f"the folder {folder} (virt_image_dir) does not exist; create it, or set the variable"
        )
    except OSError as error:
        return f"the folder {folder} (virt_image_dir) cannot be read: {error.strerror}"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    listed = f"has {', '.join(names[:_LISTED])}{more}" if names else "has no files"
    return (
        f"no such file in {folder} (virt_image_dir), which {listed}; copy the image there, or name"
        f" one of these, or of the catalogue: {', '.join(Catalogue(folder, None).names())}"
    )


def cache_folder() -> Path:
    """The collection's cache folder on the controller; it can be removed at any time."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else Path("~/.cache").expanduser()
    return folder / "fleet.virt"


def downloads_by_controller(by: object) -> bool:
    """Whether ``virt_image_download_by`` (None: not set) has the controller download URLs."""
    if by not in (None, "hypervisor", "controller"):
        raise PlanRefused(
            f"download_by (virt_image_download_by): {show(by)} is neither hypervisor nor controller"
        )
    return by == "controller"


def ensure_on_host(
    action: FleetAction,
    task_vars: Values,
    local: LocalImage,
    options: t.Mapping[str, object],
) -> Answer:
    """Ensure the image is among the base images of the task's host; the result of ``virt_image``.

    Of ``options`` those in :data:`OPTIONS` are passed on. The host is checked first, and a missing
    file is transferred: from another hypervisor that has it, else from the controller. In check
    mode the host is only checked.
    """
    source = local.facts.as_dict()
    given = {key: options[key] for key in OPTIONS if options.get(key) is not None}
    check = action.check
    peers = _listed(given.pop("peers", None))
    several = _image_spread.several(task_vars)

    def call(peers: t.Sequence[str] = (), **more: object) -> Answer:
        arguments = {**given, "image": local.name, "_source": {**source, **more}}
        return run_module(action, task_vars, {**arguments, "peers": list(peers)})

    # with several hypervisors, the play decides the source of each
    result = call(peers if check or not several else ())
    missing, peer_error = bool(result.pop("missing", False)), result.pop("alone", "")
    steps = _steps(result)
    step = not_queried(str(peer_error))
    if missing and several and peer_error and step not in steps:
        steps.append(step)
    if missing and check:
        result["steps"] = [*steps, _sent(local)]
        return result
    spread = None
    if several and not check and not peer_error:
        spread = _image_spread.of_play(cache_folder() / "spread", task_vars, local.facts.identity)
    if missing:
        return _Transfer(action, task_vars, local, call, steps).run(spread, peers)
    if spread and not result.get("failed") and not result.get("unreachable"):
        spread.have()
    return result


def _listed(peers: object) -> list[str]:
    """A list option as the module reads it: a list or comma-separated text."""
    given = peers.split(",") if isinstance(peers, str) else as_list(peers)
    return [str(peer).strip() for peer in given]


def _steps(result: Answer) -> list[str]:
    """The steps of a result as text."""
    return [str(step) for step in as_list(result.get("steps"))]


def _sent(local: LocalImage) -> str:
    # of a download in check mode, only the beginning was read
    size = local.size if local.path else GENERATED
    return f"{size} of {size} bytes (100 %) from the controller"


class _Transfer:
    """The transfer of an image that the task's host lacks; ``steps`` were done before it."""

    def __init__(
        self,
        action: FleetAction,
        task_vars: Values,
        local: LocalImage,
        call: t.Callable[..., Answer],
        steps: list[str],
    ) -> None:
        self._action = action
        self._task_vars = task_vars
        self._local = local
        self._call = call
        self._steps = steps

    def run(self, spread: _image_spread.Spread | None, peers: t.Sequence[str]) -> Answer:
        """The result of ``virt_image``; ``spread`` selects sources among the play's hypervisors."""
        if spread is None:
            return self._from_here()
        refused: set[str] = set()
        done = False
        try:
            while True:
                peer = spread.next(peers, refused)
                result = self._from_peer(peer) if peer else self._from_here()
                if result is not None:
                    done = not result.get("failed") and not result.get("unreachable")
                    return result
                refused.add(peer)
        finally:
            (spread.have if done else spread.give_up)()

    def _from_peer(self, peer: str) -> Answer | None:
        """The result; None if that hypervisor cannot provide the image."""
        host = self._task_vars.get("inventory_hostname")
        _output.say(f"{host}: fetching {self._local.name} from {peer}")
        started = time.monotonic()
        result = self._call([peer])
        self._steps += _steps(result)
        if result.pop("missing", False):
            _output.say(f"{host}: {peer} cannot provide it: {self._steps[-1]}")
            return None
        seconds = time.monotonic() - started
        if not result.get("failed"):
            summary = (
                f"{self._steps[-1]} in {seconds:.1f} s"
                if result.get("steps")
                else "already present"
            )
            _output.say(f"{host}: {self._local.name}: {summary}")
            result["steps"] = self._steps
        return result

    def _from_here(self) -> Answer:
        received = bring(self._action, self._task_vars, self._local)
        done = False
        try:
            result = self._call(received=received)
            done = not result.get("failed")
        finally:
            if not done:
                remove(self._action, received)
        if done:
            result["steps"] = [*self._steps, _sent(self._local)]
        return result


def run_module(action: FleetAction, task_vars: Values, arguments: t.Mapping[str, object]) -> Answer:
    """The result of the module ``virt_image`` on the task's host."""
    return action._execute_module(
        module_name=MODULE, module_args={**arguments}, task_vars=task_vars
    )


def bring(action: FleetAction, task_vars: Values, local: LocalImage) -> str:
    """Copy the file to the task's host over Ansible's connection; returns its path there.

    It is located beside Ansible's own temporary files under a name with its digest, by which the
    module finds and removes leftovers of killed transfers.
    """
    host = str(task_vars.get("inventory_hostname", "the hypervisor"))
    shell = action._connection._shell
    temporary = shell.tmpdir or action._make_tmp_path()
    received = f"{os.path.dirname(temporary.rstrip('/'))}/fleet-virt-tmp-{local.facts.identity}"
    received += f"-{secrets.token_hex(8)}"
    size = f"{-(-local.size // MIB)} MiB"
    _output.say(f"{host}: copying {local.name}, {size}")
    started = time.monotonic()
    try:
        with _alive.limited(durations.transfer(local.size), f"copy {local.name} to {host}"):
            _put(action._connection, local.path, received)
    except BaseException as error:
        remove(action, received)
        if isinstance(error, AnsibleError):
            raise FleetVirtError(
                f"image {local.name} could not be copied to {host}: {error}; it needs {size} of"
                f" space in {os.path.dirname(received)} there"
            ) from None
        raise
    seconds = max(0.001, time.monotonic() - started)
    rate = format_size(int(local.size / MIB / seconds))
    _output.say(f"{host}: copied {local.name} in {seconds:.1f} s, {rate}iB per second")
    return received


def _put(connection: ConnectionBase, local: str, remote: str) -> None:
    """Copy a file, without the compression that Ansible's default arguments of ssh ask for.

    Compression is slower than most networks, and most images are compressed. ssh decides about it
    when it opens a connection, so this opens one besides the one that ControlPersist shares. If
    that fails (one-time passwords), it uses the shared one.
    """
    usual = connection.get_option("ssh_args") if connection.transport == "ssh" else None
    plain = _alive.without_compression(usual or "")
    if plain is not None:
        connection.set_option("ssh_args", plain)
        try:
            connection.put_file(local, remote)
            return
        except AnsibleConnectionFailure:
            pass
        finally:
            connection.set_option("ssh_args", usual)
    connection.put_file(local, remote)


def remove(action: FleetAction, received: str) -> None:
    """Remove the file that :func:`bring` copied, if it still exists."""
    with contextlib.suppress(AnsibleError, FleetVirtError), _alive.limited(_TIDY, "remove it"):
        command = action._connection._shell.remove(received)
        action._low_level_execute_command(command, sudoable=False)
