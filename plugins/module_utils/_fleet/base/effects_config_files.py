# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading and atomically replacing small configuration files."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ..._errors import PlanRefused
from . import effects_files as files


def read(path: str) -> str | None:
    """The file's text, None if there is no file. Raises PlanRefused for what is not text."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise PlanRefused(f"{path} is not UTF-8; it was not changed") from None
    except PermissionError:
        raise PlanRefused(f"{path} cannot be read: run as root (become)") from None


def write(path: str, text: str, mode: int = 0o644) -> None:
    """Replace the file, keeping its owner, mode and security label; ``mode`` is a new file's."""
    with replaced({path: text}, mode):
        pass


@contextlib.contextmanager
def replaced(texts: t.Mapping[str, str | None], mode: int = 0o644) -> t.Iterator[None]:
    """Replace all of the files, or none; None removes one. ``mode`` is a new file's.

    Everything is written and flushed under temporary names before the first file changes, so that a
    full disk is detected in time. If the body of the ``with`` fails, the former files are restored
    by renaming, which takes no space. Raises PlanRefused for a file that cannot be written.
    """
    new: dict[str, str] = {}
    former: dict[str, str | None] = {}
    try:
        for path, text in texts.items():
            with _explained(path):
                if text is not None:
                    new[path] = _prepare(path, text, mode)
        for path in texts:
            with _explained(path):
                former[path] = _back_up(path)
                if path in new:
                    files.move(new[path], path)
                    del new[path]
                elif former[path] is not None:
                    os.unlink(path)
                    files.flush(os.path.dirname(path))
        yield
    except BaseException:
        for path, backup in former.items():
            _restore(path, backup)
        raise
    finally:
        for temporary in (*new.values(), *former.values()):
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)


@contextlib.contextmanager
def _explained(path: str) -> t.Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PlanRefused(
            f"{path} cannot be written: {error.strerror}; no setting was changed"
        ) from error


def _prepare(path: str, text: str, mode: int) -> str:
    """Write the text to a temporary file beside ``path``, flushed, and return its path."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    return files.prepare(path, text.encode("utf-8"), mode)


def _back_up(path: str) -> str | None:
    """Hard-link the file to restore it from, and return the link; None if there is no file."""
    backup = f"{os.path.dirname(path)}/.{os.path.basename(path)}.former"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(backup)  # of a run that was killed
    try:
        os.link(path, backup)
    except FileNotFoundError:
        return None
    return backup


def _restore(path: str, backup: str | None) -> None:
    with contextlib.suppress(OSError):
        if backup is None:
            os.unlink(path)
            files.flush(os.path.dirname(path))
        else:
            files.move(backup, path)
