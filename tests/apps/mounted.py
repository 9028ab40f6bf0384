# SPDX-License-Identifier: Apache-2.0
"""A mounted volume for tests: creates, mounts, unmounts and checks it. Also system calls that
Python does not wrap. Needs WARREN (the program), root and /dev/fuse; without, skips the test (exit
code 77)."""

import atexit
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest


def reachable(program):
    """The program, or a copy that every user can run, with the plug-ins beside it: the build may be
    in a private folder."""
    folders = pathlib.Path(program).resolve().parents if os.path.exists(program) else []
    if all(folder.stat().st_mode & 0o001 for folder in folders):
        return program
    place = tempfile.mkdtemp(prefix="warren-programs-")
    atexit.register(shutil.rmtree, place)
    os.chmod(place, 0o755)
    for plugin in pathlib.Path(program).parent.glob("libwarren-mpi-*.so"):
        shutil.copy(plugin, place)
    return shutil.copy(program, place)


WARREN = reachable(os.environ.get("WARREN", ""))
SKIPPED = 77

libc = ctypes.CDLL(None, use_errno=True)

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
FALLOC_KEEP_SIZE = 1
FALLOC_PUNCH_HOLE = 2
FALLOC_ZERO_RANGE = 16
PR_SET_PDEATHSIG = 1

PROTOCOL = pathlib.Path(__file__).parents[2] / "apps/fuse/control_protocol.hpp"
CONTROL_VERSION = int(re.search(r"protocol_version = (\d+);", PROTOCOL.read_text())[1])


def skip_unless_possible():
    reason = None
    if not WARREN or not os.access(WARREN, os.X_OK):
        reason = "WARREN does not name the program"
    elif os.geteuid() != 0:
        reason = "mounting needs root"
    elif not os.path.exists("/dev/fuse"):
        reason = "there is no /dev/fuse"
    if reason:
        print("skipped:", reason)
        sys.exit(SKIPPED)


def run(*words, code=0):
    """Runs the program and checks its exit code (None: any)."""
    done = subprocess.run([WARREN, *words], capture_output=True, text=True, timeout=120)
    if code is not None and done.returncode != code:
        raise AssertionError(f"warren {' '.join(words)}: exit code {done.returncode}, expected "
                             f"{code}\n{done.stdout}{done.stderr}")
    return done


def stop(number):
    """Stops a process, and waits until none of its threads runs: sending a signal does not wait."""
    os.kill(number, signal.SIGSTOP)
    threads = pathlib.Path(f"/proc/{number}/task")
    deadline = time.monotonic() + 20
    while not all(is_stopped(thread) for thread in threads.iterdir()):
        if time.monotonic() > deadline:
            raise AssertionError(f"process {number} has not stopped in 20 s")
        time.sleep(0.01)


def is_stopped(thread):
    """Whether a thread, given as its folder in /proc, is stopped or has ended."""
    try:
        return (thread / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] in "TZ"
    except OSError:
        return True


class Volume:
    """An image in a temporary folder and a directory to mount it on. A given `folder` is kept, with
    its image."""

    def __init__(self, size="256M", folder=None):
        self.is_kept = bool(folder)
        self.folder = folder or tempfile.mkdtemp(prefix="warren-mount-")
        self.image = os.path.join(self.folder, "volume.img")
        self.root = os.path.join(self.folder, "mnt")
        if self.is_kept:
            run("umount", "-l", self.root, code=None)  # left by a run that was stopped
        os.makedirs(self.root, exist_ok=self.is_kept)
        os.chmod(self.folder, 0o755)  # for tests as other users
        if not os.path.exists(self.image):
            run("mkfs", "--size", size, self.image)

    def mount(self, *words):
        run("mount", *words, self.image, self.root)

    def unmount(self):
        # The kernel may drop the last reference to a file whose reads and writes were asynchronous
        # a little after the process has closed it.
        deadline = time.monotonic() + 2
        while "target is busy" in run("umount", self.root, code=None).stderr:
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        if self.is_mounted():
            run("umount", self.root)

    def is_mounted(self):
        return os.path.ismount(self.root)

    def process(self):
        """The daemon's pid."""
        return json.loads(run("info", self.root, "--json").stdout)[0]["process"]

    def check(self):
        run("fsck", self.image)

    def remove(self):
        if self.is_mounted():
            run("umount", "-l", self.root, code=None)
        if not self.is_kept:
            shutil.rmtree(self.folder, ignore_errors=True)


class MountedTest(unittest.TestCase):
    """The tests of a class share one mount, which is checked when they are done."""

    @classmethod
    def setUpClass(cls):
        cls.volume = Volume()
        cls.volume.mount()

    @classmethod
    def tearDownClass(cls):
        try:
            cls.volume.unmount()
            cls.volume.check()
        finally:
            cls.volume.remove()

    def setUp(self):
        self.folder = os.path.join(self.volume.root, self.id().split(".")[-1])
        os.mkdir(self.folder)
        self.old_umask = os.umask(0o022)

    def tearDown(self):
        os.umask(self.old_umask)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, data=b"", flags=0):
        path = self.path(name)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
        try:
            while data:
                data = data[os.write(file, data):]
        finally:
            os.close(file)
        return path

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def fails_with(self, number, call, *arguments, **named):
        with self.assertRaises(OSError) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.errno, number, os.strerror(caught.exception.errno))


def checked(answer):
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def renameat2(source, target, flags):
    checked(libc.renameat2(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags))


def fallocate(file, mode, offset, length):
    checked(libc.fallocate(file, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def control_path(root):
    """The path of the control socket of the mounted volume."""
    device = os.stat(root).st_dev
    return f"/run/warren/{os.major(device)}:{os.minor(device)}"


def control_frame(verb, payload=b"", length=None, version=CONTROL_VERSION):
    return struct.pack("<IHH", len(payload) if length is None else length, verb, version) + payload


def is_own_child(peer):
    process = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1]) == os.getpid()
    except OSError:
        return False


@contextlib.contextmanager
def another_daemon(path, answer, unmounts=False):
    """Listens in place of the daemon: it gives the first command of this test this answer, whatever
    the request is, and ends. `unmounts`: the body unmounts the volume."""
    def serve():
        while True:
            with listener.accept()[0] as peer:
                if not is_own_child(peer):  # doctor in another test asks all mounts
                    continue
                peer.recv(4096)
                peer.sendall(answer)
                return

    os.rename(path, path + ".kept")
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            listener.settimeout(10)
            thread = threading.Thread(target=serve)
            thread.start()
            yield
            thread.join()
    finally:
        if unmounts:  # the device number, and with it the path, may belong to another mount by now
            os.unlink(path + ".kept")
        else:
            os.rename(path + ".kept", path)


class FileHandle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("type", ctypes.c_int), ("bytes", ctypes.c_ubyte * 128)]


def handle_of(path):
    """The file handle that an NFS server keeps."""
    handle = FileHandle(128)
    mount = ctypes.c_int()
    checked(libc.name_to_handle_at(AT_FDCWD, os.fsencode(path), ctypes.byref(handle),
                                   ctypes.byref(mount), 0))
    return handle


def open_handle(mount_file, handle, flags):
    return checked(libc.open_by_handle_at(mount_file, ctypes.byref(handle), flags))


def as_user(user, group, work, groups=()):
    """Runs `work` in a child with these ids; returns the error number, or 0."""
    child = os.fork()
    if child == 0:
        number = 0
        try:
            os.setgroups(list(groups))
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
            work()
        except OSError as error:
            number = error.errno
        except BaseException:
            number = 255
        os._exit(number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_with_parent():
    """Makes the kernel kill this process when its parent ends, so that a test leaves no process."""
    checked(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))


def drop_caches():
    """Makes the kernel drop its caches of names and inodes."""
    subprocess.run(["sync"], check=True)
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")


def main():
    skip_unless_possible()
    unittest.main()
