# SPDX-License-Identifier: Apache-2.0
"""warren sync with two operands that are both on mounts: trees, or whole volumes."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import time

import mounted
from mounted import WARREN, MountedTest, Volume, control_frame, control_path, run

MNT_DETACH = 2
VERB_SYNC = 2
VERB_ANSWER = 101


def has_socket(process):
    folder = f"/proc/{process}/fd"
    try:
        return any(os.readlink(os.path.join(folder, file)).startswith("socket:")
                   for file in os.listdir(folder))
    except FileNotFoundError:  # the process has closed one meanwhile
        return False


class SyncTest(MountedTest):
    def test_two_trees_of_one_mount(self):
        os.mkdir(self.path("a"))
        self.write("a/f", b"contents")
        run("sync", self.path("a"), self.path("b"))
        with open(self.path("b/f"), "rb") as file:
            self.assertEqual(file.read(), b"contents")
        self.write("a/g")
        self.write("b/own")
        run("sync", self.path("a/"), self.path("b"))
        self.assertEqual(sorted(os.listdir(self.path("b"))), ["f", "g", "own"])
        run("sync", self.path("a/f"), self.path("c"))
        with open(self.path("c"), "rb") as file:
            self.assertEqual(file.read(), b"contents")
        refused = run("sync", self.path("a/g"), self.path("c"), code=1)  # durable, or equal?
        self.assertIn("files on them: name one at a time", refused.stderr)
        with open(self.path("c"), "rb") as file:
            self.assertEqual(file.read(), b"contents")

    def test_a_tree_and_a_volume(self):
        other = Volume("64M")
        self.addCleanup(other.remove)
        other.mount()
        self.write("f", b"contents")
        run("sync", self.folder, other.root)
        with open(os.path.join(other.root, "f"), "rb") as file:
            self.assertEqual(file.read(), b"contents")
        # Either may be meant, so the command refuses.
        refused = run("sync", self.volume.root, other.root, code=1)
        self.assertIn("name one at a time", refused.stderr)
        self.assertEqual(os.listdir(other.root), ["f"])
        other.unmount()
        run("sync", other.image, self.volume.image)
        run("sync", self.volume.root)

    def test_unmounted_while_the_daemon_is_asked(self):
        """The command reports it, and neither makes the file system below durable instead nor
        believes the answer of a daemon whose mount it could not reach."""
        other = Volume("64M")
        self.addCleanup(other.remove)
        other.mount()
        path = control_path(other.root)
        os.unlink(path)
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
            listener.bind(path)
            self.addCleanup(os.unlink, path)
            listener.listen(0)
            listener.settimeout(20)
            first.connect(path)  # a second one waits until this one is accepted
            with subprocess.Popen([WARREN, "sync", other.root], stderr=subprocess.PIPE,
                                  text=True) as client:
                while client.poll() is None and not has_socket(client.pid):
                    time.sleep(0.01)
                mounted.checked(mounted.libc.umount2(os.fsencode(other.root), MNT_DETACH))
                listener.accept()[0].close()
                with listener.accept()[0] as peer:
                    # The command may have seen already that the mount is gone, and have ended.
                    with contextlib.suppress(BrokenPipeError):
                        peer.sendall(control_frame(VERB_ANSWER, struct.pack("<Q", 0)))
                    told = client.stderr.read()
        self.assertEqual(client.returncode, 1)
        self.assertIn("it has been unmounted meanwhile", told)

    def test_what_the_kernel_still_writes_is_durable(self):
        """syncfs(2) returns before the daemon has carried out the kernel's writes."""
        for number in range(3):
            other = Volume("256M")
            self.addCleanup(other.remove)
            other.mount()
            contents = os.urandom(1 << 20)
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(control_path(other.root))
                with open(os.path.join(other.root, "f"), "wb", buffering=0) as file:
                    for _ in range(60):
                        file.write(contents)
                    mounted.checked(mounted.libc.syncfs(file.fileno()))
                    peer.sendall(control_frame(VERB_SYNC))
                    self.assertEqual(peer.recv(16)[8:], bytes(8), f"attempt {number}")
                    os.kill(other.process(), signal.SIGKILL)
            other.unmount()
            out = subprocess.run([WARREN, "cat", other.image + ":/f"], check=True,
                                 stdout=subprocess.PIPE)
            self.assertEqual(len(out.stdout), 60 << 20)
            self.assertTrue(out.stdout == contents * 60, f"attempt {number}")


if __name__ == "__main__":
    mounted.main()
