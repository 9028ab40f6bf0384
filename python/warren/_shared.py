# SPDX-License-Identifier: Apache-2.0
"""Open volumes that a process shares: those that it names by the path of their image."""

from __future__ import annotations

import atexit
import os
import threading

from ._volume import Volume

_lock = threading.Lock()
_volumes: dict[tuple[str, bool], Volume] = {}


def shared_volume(path: str, read_only: bool = False) -> Volume:
    """The volume in the file or device at the path. It is opened at the first call, and after it
    was closed. The end of the process closes it, after the files that are open. Any thread may
    call it."""
    with _lock:
        key = os.path.realpath(path), read_only
        volume = _volumes.get(key)
        if volume is None or volume.closed:
            volume = _volumes[key] = Volume(path, read_only=read_only)
        return volume


def close_shared_volume(path: str, read_only: bool = False) -> None:
    """Closes the volume that shared_volume() gives, if it is open."""
    with _lock:
        volume = _volumes.get((os.path.realpath(path), read_only))
    if volume is not None:  # without the lock: close() waits for calls, whose callbacks may want it
        volume.close()


def _unlock() -> None:
    """In a forked process: the thread that has the lock may not exist there."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


@atexit.register
def _release_volumes() -> None:
    """Makes all changes durable and leaves each volume to its open files: what these have in
    buffers is written when they go, and the last of them closes the volume."""
    try:
        for volume in _volumes.values():
            if not (volume.closed or volume.forked or volume.read_only):
                volume.sync()
    finally:
        _volumes.clear()
