# SPDX-License-Identifier: Apache-2.0
"""Names and link targets with arbitrary bytes on a terminal: no control character reaches it, and
ls and find print them like the GNU tools. Output that does not go to a terminal is unchanged."""

import os
import pty
import random
import re
import shutil
import subprocess
import unittest

from command_line import TIMEOUT_SECONDS, WARREN, CommandCase

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))

PIECES = [b"a", b"B", b"1", b" ", b"'", b'"', b"$", b"`", b"\\", b"!", b"\n", b"\t", b"\r",
          b"\x1b[31m", b"\x1b]0;title\x07", b"\x7f", b"\x01", b"\x80", b"\x9b2J", b"\xff",
          b"\xc2\x80", b"\xc2\x9b", b"\xc2\xa0", b"\xc3\xa9", b"\xe2\x80\xae", b"\xe2\x80\xa8",
          b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf0\x9f\x98\x80", b"\xcd\xb8", b"#", b"~",
          b"{", b"}", b"?", b"*", b"[", b"]", b"-", b"=", b":", b"%", b"@", b"^", b"|", b"&", b";"]
LOCALES = ("C", "C.UTF-8")
# What a terminal interprets: control characters other than line ends, also 8-bit ones.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")


def random_name(choose):
    while True:
        name = b"".join(choose.choice(PIECES) for _ in range(choose.randint(1, 5)))
        if name not in (b".", b".."):
            return name


def on_terminal(words, folder, locale):
    """What the command prints on a terminal, which is its stdout and stderr."""
    own, other = pty.openpty()
    environment = {**os.environ, "LC_ALL": locale, "TZ": "UTC", "COLUMNS": "80"}
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=other, stderr=other, cwd=folder,
                          env=environment) as process:
        os.close(other)
        text = b""
        try:
            while piece := os.read(own, 1 << 16):
                text += piece
        except OSError:  # the other end is closed
            pass
        process.wait(TIMEOUT_SECONDS)
    os.close(own)
    return text.replace(b"\r\n", b"\n")


class TerminalTest(CommandCase):
    def setUp(self):
        super().setUp()
        print(f"WARREN_SEED={SEED}", flush=True)
        self.choose = random.Random(SEED)
        self.tree = os.fsencode(self.folder / "tree")
        os.mkdir(self.tree)
        self.names = sorted({random_name(self.choose) for _ in range(250)})
        for name in self.names:
            path = os.path.join(self.tree, name)
            kind = self.choose.randrange(4)
            if kind == 0:
                os.symlink(random_name(self.choose), path)
            elif kind == 1:
                os.mkdir(path)
                open(os.path.join(path, random_name(self.choose)), "w").close()
            else:
                open(path, "w").close()

    def assert_harmless(self, text, words):
        """`text` is harmless on a terminal that uses UTF-8 or single bytes."""
        shown = text.decode(errors="surrogateescape")
        self.assertEqual(OBEYED.findall(shown), [], words)
        self.assertFalse(any("\udc80" <= letter <= "\udcff" for letter in shown), words)

    def own(self, *words, locale):
        text = on_terminal([WARREN, *words], self.folder, locale)
        self.assert_harmless(text, words)
        return text

    def test_ls_quotes_as_gnu_does(self):
        # GNU's quotes are wrong, or begin with an empty pair, for some names that contain both
        # quotes.
        quoted_oddly = [name for name in self.names if b"'" in name]
        for name in quoted_oddly:
            path = os.path.join(self.tree, name)
            os.remove(path) if not os.path.isdir(path) or os.path.islink(path) \
                else shutil.rmtree(path)
        for name in os.listdir(self.tree):
            path = os.path.join(self.tree, name)
            if os.path.islink(path) and b"'" in os.readlink(path):
                os.remove(path)
        for locale in LOCALES:
            expected = on_terminal(["ls", "-U1A", "--color=never", "tree"], self.folder, locale)
            self.assertEqual(self.own("ls", "-U1A", "tree", locale=locale), expected)
            lines = on_terminal(["ls", "-UlA", "--color=never", "tree"], self.folder, locale)
            # The columns of owner and size may differ in width.
            def names(text):
                return [re.split(rb" \d\d:\d\d ", line)[-1] for line in text.split(b"\n")
                        if not line.startswith(b"total ")]
            self.assertEqual(names(self.own("ls", "-UlA", "tree", locale=locale)), names(lines))

    def test_a_shell_undoes_the_quotes(self):
        for locale in LOCALES:
            text = self.own("ls", "-U1A", "tree", locale=locale)
            script = b"printf '%s\\0' " + text.replace(b"\n", b" ")
            done = subprocess.run(["bash", "--norc"], input=script, capture_output=True, check=True,
                                  timeout=TIMEOUT_SECONDS)
            self.assertEqual(sorted(done.stdout.split(b"\0")[:-1]), self.names)

    def test_find_masks_as_gnu_does(self):
        for locale in LOCALES:
            for words in (["find", "tree"], ["find", "tree", "-printf", "%p|%f|%h|%P|%l|\\n"]):
                peer = on_terminal(words, self.folder, locale)
                text = self.own(*words, locale=locale)
                # Invalid bytes may count as different numbers of characters.
                masked = [sorted(re.sub(rb"\?+", b"?", one).split(b"\n")) for one in (text, peer)]
                self.assertEqual(*masked)
            self.own("find", "tree", "-ls", locale=locale)

    def test_no_command_lets_a_name_be_obeyed(self):
        self.make_volume("256M")
        self.warren("cp", "-a", "tree", self.inside("/"))
        shutil.copytree(self.folder / "tree", self.folder / "other", symlinks=True)
        files = [name for name in self.names
                 if os.path.isfile(os.path.join(self.tree, name)) and
                 not os.path.islink(os.path.join(self.tree, name))]
        for name in files[:20]:
            with open(os.path.join(os.fsencode(self.folder), b"other", name), "wb") as file:
                file.write(b"changed")
        paths = [os.path.join(b"tree", name) for name in self.names]
        plain = [os.path.join(b"tree", name) for name in files]
        missing = [path + b"\x1b[2J" for path in paths[:30]]
        for locale in LOCALES:
            for words in (["ls", "-R", "tree"], ["ls", "-F", *paths], ["ls", "-lR", "tree"],
                          ["ls", "-lR", self.inside("/")], ["ls", "-C", self.inside("/tree")],
                          ["find", self.inside("/")], ["find", self.inside("/"), "-ls"],
                          ["du", "-a", "tree"], ["du", "-a", self.inside("/")],
                          ["du", "--top=20", "tree"], ["walk", "tree"], ["walk", "--stat", "tree"],
                          ["walk", "--format", "%p %l\\n", "tree"], ["hash", "tree"],
                          ["hash", "--tag", *plain], ["stat", *paths],
                          ["stat", self.inside("/tree")],
                          ["cmp", "tree", "other"], ["cmp", plain[0], b"other/" + files[0]],
                          ["cmp", plain[-1], "/etc/passwd"], ["sync", "-nv", "tree", "new"],
                          ["sync", "-nv", "--delete", "other", "tree"],
                          ["cp", "-rv", "tree", "copy"], ["rm", "-rv", "copy"],
                          ["cp", "-rv", "tree", self.inside("/copy")],
                          ["rm", "-rv", self.inside("/copy")], ["chmod", "-v", "600", *plain],
                          ["chown", "-v", str(os.geteuid()), *plain], ["cat", *missing],
                          ["ls", *missing], ["stat", *missing], ["find", *missing],
                          ["du", *missing], ["walk", *missing], ["hash", *missing],
                          ["cp", *missing, "."], ["mv", *missing, "."], ["rm", *missing],
                          ["mkfs", *missing[:1]], ["fsck", *missing[:1]], ["info", *missing[:1]],
                          ["mount", *missing[:1], "."], ["umount", *missing[:1]],
                          ["mkdir", "-v", *missing[:1]], ["rm", "-rv", *missing[:1]],
                          ["touch", b"no\x1b/\x1b"], ["chunk", *plain[:3]], ["dedup", "tree"],
                          ["fsck", plain[0]], ["sync", *missing[:1]], ["rebuild", *missing[:1]],
                          [b"\x1b[2J"], ["ls", b"--\x1b[2J"], ["ls", b"-\x9b"],
                          ["cp", "--sparse=\x1b", "a", "b"]):
                with self.subTest(words=words[:4], locale=locale):
                    self.own(*words, locale=locale)

    def test_programs_get_names_as_they_are(self):
        listed = self.warren("ls", "-A", "tree").stdout
        self.assertEqual(sorted(listed.split(b"\n")),
                         sorted(b"\n".join(self.names).split(b"\n") + [b""]))
        found = self.warren("find", "tree").stdout
        peer = self.run_program("find", "tree").stdout
        self.assertEqual(sorted(found.split(b"\n")), sorted(peer.split(b"\n")))
        for words in (["find", "tree", "-print0"], ["walk", "-0", "tree"], ["du", "-a0", "tree"]):
            text = on_terminal([WARREN, *words], self.folder, "C.UTF-8")
            ends = text.split(b"\0")
            if words[0] == "du":
                ends = [line.partition(b"\t")[2] for line in ends]
            self.assertLessEqual({b"tree/" + name for name in self.names if b"\n" not in name},
                                 set(ends), words)


if __name__ == "__main__":
    unittest.main()
