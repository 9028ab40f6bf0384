# SPDX-License-Identifier: Apache-2.0
"""A volume with forged names and valid checksums: no program that reads it leaves the directory
that it reads, and each reports that the volume is damaged."""

import os
import select
import shutil
import socket
import struct
import subprocess
import threading
import unittest

import mounted
from command_line import WARREN, CommandCase, crc32c
from mounted import Volume, control_path, run

BLOCK = 4096
LEAF, SLOTS, HEAP = 4, 448, 1984  # docs/FORMAT.md, section 7
# Replacements for a name; the original has the same length, including padding.
FORGED = [b"..", b".", b"a/b", b"/", b"../evil", b"a\0b", b"x\0", b"../../../../evil", b"/evil" * 3,
          b"..\0\0\0/evil", b"evil/../../../x"]


def slot_of(leaf, name):
    """The position of a name's slot in the leaf, and the name."""
    for slot in range(SLOTS, HEAP, 16):
        target, position = struct.unpack_from("<QQ", leaf, slot)
        at = HEAP + (position & 0xffff)
        if target & (1 << 48) - 1 and leaf[at:at + (target >> 56)] == name:
            return slot, at
    return None


def forge(image, original, name):
    """Replaces a name in its leaf. A name of another length keeps the padded length."""
    padded = (len(original) + 7) // 8 * 8
    assert (len(name) + 7) // 8 * 8 == padded
    with open(image, "r+b") as file:
        for place in range(0, os.path.getsize(image), BLOCK):
            leaf = bytearray(os.pread(file.fileno(), BLOCK, place))
            kind, own_place = struct.unpack_from("<H10xQ", leaf, 4)  # the journal has copies
            if kind != LEAF or own_place != place or not slot_of(leaf, original):
                continue
            slot, at = slot_of(leaf, original)
            leaf[slot + 7] = len(name)
            leaf[at:at + padded] = name.ljust(padded, b"\0")
            leaf[:4] = bytes(4)
            leaf[:4] = struct.pack("<I", crc32c(leaf))
            file.seek(place)
            file.write(leaf)
            return
    raise AssertionError("the name is in no leaf")


class ForgedNamesTest(CommandCase):
    def forged(self, name, kind):
        """Makes a volume with a forged name for a file or a directory in /tree/inner."""
        original = b"original"[:len(name)] if len(name) < 8 else b"original".ljust(len(name), b"x")
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        self.make_volume("32M")
        inner = os.path.join(os.fsencode(self.folder), b"tree", b"inner")
        os.makedirs(inner)
        path = os.path.join(inner, original)
        if kind == "directory":
            os.mkdir(path)
            path = os.path.join(path, b"evil")
        with open(path, "wb") as file:
            file.write(b"forged")
        self.warren("cp", "-a", "tree", self.inside("/"))
        self.run_program("rm", "-r", "tree")
        forge(self.image, original, name)

    def test_readers_refuse_them(self):
        for number, name in enumerate(FORGED):
            kind = ("file", "directory")[number % 2]
            with self.subTest(name=name, kind=kind):
                self.forged(name, kind)
                out = self.folder / "a" / "b" / "c"
                out.mkdir(parents=True)
                for words in (["cp", "-r", self.inside("/tree"), "a/b/c/out"],
                              ["cp", "-a", self.inside("/"), "a/b/c/all"],
                              ["ls", "-R", self.inside("/")], ["find", self.inside("/")],
                              ["du", "-a", self.inside("/")], ["hash", self.inside("/tree")]):
                    done = self.warren(*words, code=None)
                    self.assertNotEqual(done.returncode, 0, words)
                    self.assertIn(b"damaged", done.stderr, words)
                    self.assertNotIn(b"evil", done.stdout, words)
                found = [entry for _, directories, files in os.walk(self.folder)
                         for entry in directories + files]
                self.assertEqual(sorted(set(found)), ["a", "all", "b", "c", "inner", "out", "tree",
                                                      "v.img"])
                self.assertIn(b"tree", self.warren("fsck", self.image, code=4).stdout)
                self.warren("fsck", "--repair", self.image, code=1)
                self.assert_clean()


@unittest.skipUnless(os.geteuid() == 0 and os.path.exists("/dev/fuse"), "mounts")
class ForgedMountTest(unittest.TestCase):
    def test_a_mount_answers_errors(self):
        for name in (b"../evil", b"a\0b", b".."):
            volume = Volume("32M")
            self.addCleanup(volume.remove)
            original = b"original"[:len(name)]
            os.mkdir(os.path.join(volume.folder, "d"))
            open(os.path.join(os.fsencode(volume.folder), b"d", original), "w").close()
            run("cp", "-a", os.path.join(volume.folder, "d"), f"{volume.image}:/")
            forge(volume.image, original, name)
            volume.mount()
            inner = os.path.join(volume.root, "d")
            with self.assertRaises(OSError):
                os.listdir(inner)
            for words in (["find", inner], ["du", "-a", inner], ["find", inner, "-delete"]):
                done = subprocess.run([WARREN, *words], capture_output=True, timeout=120)
                self.assertNotEqual(done.returncode, 0, words)
                self.assertNotIn(b"evil", done.stdout)
            volume.unmount()

    def test_a_client_believes_no_name_of_a_daemon(self):
        volume = Volume("32M")
        self.addCleanup(volume.remove)
        volume.mount()
        folder = os.path.join(volume.root, "d")
        os.mkdir(folder)
        os.mkdir(os.path.join(folder, "original"))
        open(os.path.join(folder, "original", "f"), "w").close()
        path = control_path(volume.root)
        for forged in (b"../../EV", b"EVIL/../", b"EVIL\0EVI"):
            with Relay(path, b"original", forged) as relay:
                for words in (["find", folder], ["du", folder], ["find", folder, "-printf", "%f"]):
                    done = subprocess.run([WARREN, *words], capture_output=True, timeout=120)
                    self.assertNotEqual(done.returncode, 0, words)
                    self.assertNotEqual(done.stderr, b"")
                    self.assertNotIn(b"EV", done.stdout)  # no temporary folder has capitals
                self.assertGreaterEqual(relay.changed, 3)
        self.assertIn("original", run("find", folder).stdout)
        volume.unmount()


class Relay:
    """A proxy between clients and the daemon of a mount that changes bytes of the answers."""

    def __init__(self, path, original, forged):
        self.path, self.original, self.forged = path, original, forged
        self.changed = 0

    def __enter__(self):
        os.rename(self.path, self.path + ".own")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        os.rename(self.path + ".own", self.path)

    def serve(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:  # shut down
                return
            with client, socket.socket(socket.AF_UNIX) as daemon:
                daemon.connect(self.path + ".own")
                self.relay(client, daemon)

    def relay(self, client, daemon):
        while True:
            for ready in select.select([client, daemon], [], [])[0]:
                if ready is daemon:
                    data = daemon.recv(1 << 20)
                    self.changed += data.count(self.original)
                    client.sendall(data.replace(self.original, self.forged))
                else:
                    data, descriptors, _, _ = socket.recv_fds(client, 1 << 20, 8)
                    socket.send_fds(daemon, [data], descriptors) if data else None
                    for descriptor in descriptors:
                        os.close(descriptor)
                if not data:
                    return


if __name__ == "__main__":
    mounted.main()
