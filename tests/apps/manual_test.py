# SPDX-License-Identifier: Apache-2.0
"""Compares manual pages and completions, as `warren --manual` writes them, with what --help lists
and what the program accepts. Completions run in bash and fish where these are installed."""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import string
import subprocess
import tempfile
import unittest

from command_line import WARREN, CommandCase

SOURCES = pathlib.Path(__file__).resolve().parent.parent.parent
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"]
CHECKPOINTS = {"--checkpoint", "--checkpoint-every", "--resume"}
HELPERS = {"mkfs.warren": "mkfs", "fsck.warren": "fsck", "mount.warren": "mount",
           "mount.fuse.warren": "mount", "umount.warren": "umount", "umount.fuse.warren": "umount"}


def plain(roff):
    """A line of roff as plain text."""
    for escape, letter in ((r"\-", "-"), (r"\(aq", "'"), (r"\(ti", "~"), (r"\(ha", "^"),
                           (r"\&", ""), (r"\e", "\\")):
        roff = roff.replace(escape, letter)
    return re.sub(r"\\f[BIR]", "", roff)


def spellings(label):
    """The options in "-s, --size=SIZE" or "--reflink[=WHEN]"."""
    return set(re.findall(r"(?:(?<=\s)|^)--?[\w][\w-]*", label))


class ManualCase(CommandCase):
    @classmethod
    def setUpClass(cls):
        cls.manual = pathlib.Path(tempfile.mkdtemp(prefix="warren-manual-"))
        cls.addClassCleanup(shutil.rmtree, cls.manual, ignore_errors=True)
        subprocess.run([WARREN, "--manual", cls.manual], check=True, timeout=60)
        cls.help_pages = {"": cls.help_of("--help")}
        for line in cls.help_pages[""].split("Exit status:")[0].splitlines():
            if match := re.match(r"  (\w+)  +\w", line):
                cls.help_pages[match[1]] = cls.help_of(match[1], "--help")

    @staticmethod
    def help_of(*words):
        return subprocess.run([WARREN, *words], check=True, timeout=60, text=True,
                              stdout=subprocess.PIPE).stdout

    @property
    def commands(self):
        return [command for command in self.help_pages if command]

    def page(self, command):
        name = f"warren-{command}.1" if command else "warren.1"
        return (self.manual / "man1" / name).read_text()

    def listed(self, command):
        """The options, and words with a dash, that --help lists, and whether each takes a value."""
        found = {}
        for line in self.help_pages[command].split("\nExit status:")[0].splitlines():
            if match := re.match(r"  (?:-|    --)[^ ].*", line):
                label = re.split(r"  +", match[0].strip())[0]
                takes_value = "=" in label or " " in label.replace(", ", ",")
                for spelling in spellings(label):
                    found[spelling] = takes_value or found.get(spelling, False)
        return found

    def described(self, command):
        """The same for the manual page, and what it says is accepted silently."""
        entries, silent = set(), set()
        lines = self.page(command).splitlines()
        for number, line in enumerate(lines):
            if line == ".TP":
                entries |= spellings(plain(lines[number + 1]))
            if line.startswith("Also accepted"):
                silent |= spellings(plain(lines[number + 1]).rstrip("."))
        return entries, silent


class PageTest(ManualCase):
    def test_each_command_has_its_page(self):
        self.assertEqual(len(self.commands), 30)
        self.assertEqual({path.name for path in (self.manual / "man1").iterdir()},
                         {"warren.1"} | {f"warren-{command}.1" for command in self.commands})
        self.assertEqual({path.name for path in (self.manual / "man8").iterdir()},
                         {f"{helper}.8" for helper in HELPERS})
        for page in self.manual.glob("man*/*"):
            headings = [line[4:] for line in page.read_text().splitlines()
                        if line.startswith(".SH ")]
            wanted = SECTIONS if page.parent.name != "man5" else ["NAME", "DESCRIPTION", "EXAMPLES"]
            self.assertEqual([name for name in headings if name in wanted], wanted, page)
            name = page.resolve().name.rsplit(".", 1)[0]
            self.assertIn(f".SH NAME\n{name} - ".replace("-", r"\-"), page.read_text())

    def test_pages_of_helpers_are_those_of_their_commands(self):
        for helper, command in HELPERS.items():
            page = (self.manual / "man8" / f"{helper}.8").read_text()
            own = self.page(command)
            self.assertEqual(page.split(".SH OPTIONS")[1].split(".SH EXAMPLES")[0],
                             own.split(".SH OPTIONS")[1].split(".SH EXAMPLES")[0])
            self.assertNotIn(f"warren {command}", plain(page.split(".SH EXAMPLES")[1]))
        built = pathlib.Path(os.environ.get("WARREN_BUILD", "."), "bin")
        links = {path.name for path in built.glob("*.warren")}
        self.assertIn(links, ({*HELPERS}, set()))  # an installation may be elsewhere

    def formatted_without_warnings(self, words, ignored=None):
        pages = sorted(path for path in self.manual.glob("man*/*") if not path.is_symlink())
        self.assertGreater(len(pages), 30)
        for page in pages:
            done = subprocess.run([*words, page], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
            told = [line for line in (done.stdout if ignored else "").splitlines() +
                    done.stderr.splitlines() if not ignored or ignored not in line]
            self.assertEqual(told, [], page)

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_man_formats_them_without_warnings(self):
        self.formatted_without_warnings(["man", "--warnings=w", "-P", "cat", "-l"])

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc_has_nothing_to_complain_of(self):
        # The pages have no date: the same sources generate the same pages.
        self.formatted_without_warnings(["mandoc", "-T", "lint", "-W", "warning"], "missing date")

    def test_pages_have_the_options_of_help(self):
        for command in self.help_pages:
            self.assertEqual(self.described(command)[0], set(self.listed(command)), command)
        self.assertIn("--size", self.listed("mkfs"))
        self.assertIn("-newerXY", self.listed("find"))

    def test_listed_options_are_accepted(self):
        values = {"--engine": "cpu", "--ask-ahead": "auto", "--scheduler": "drqs",
                  "--split": "half", "--memory": "1M", "--reflink": "auto", "--preserve": "all"}
        for command in self.commands:
            for option, takes_value in self.listed(command).items():
                if command == "find" and (not option.startswith("--") or option in CHECKPOINTS):
                    continue  # see test_words_of_find_are_accepted and resume_test.py
                word = f"{option}={values.get(option, 1)}"
                if not option.startswith("--"):
                    word = option + "1"
                done = self.warren(command, word if takes_value else option, "--help", code=None)
                self.assertEqual((done.returncode, done.stderr), (0, b""), (command, option))
                self.assertTrue(done.stdout.startswith(b"Usage: "), (command, option))

    def test_words_of_find_are_accepted(self):
        values = {"GLOB": "x*", "PATTERN": "x.*", "SYNTAX": "awk", "LETTERS": "f,d", "N": "1",
                  "[+-]N[cwbkMG]": "+1k", "FILE": "a", "[+-]DAYS": "1", "[+-]MINUTES": "-1",
                  "[+-]N": "+1", "NAME": "root", "[-/]MODE": "/222", "FORMAT": "%p",
                  "COMMAND ;": "true ;", "COMMAND {} +": "true {} +", "EXPRESSION": "-true"}
        words = 0
        for line in self.help_pages["find"].split("\nTests:")[1].splitlines():
            match = re.match(r"  (-[\w]+)(?: ([^ ]+(?: [^ a-z]+)*))?(?:  +|$)", line)
            if not match:
                continue
            words += 1
            word = match[1].replace("XY", "am")
            value = match[2]
            if value and "|" in value:
                value = "SYNTAX"
            call = [word, *(values[value].split() if value else [])]
            if word in ("-a", "-and", "-o", "-or"):
                call = ["-true", word, "-true"]
            self.write("a")
            self.warren("find", "a", *call)
        self.assertGreater(words, 50)

    def test_accepted_letters_are_on_the_page(self):
        # Under a sanitizer the program takes ten times as long to start: other letters for each.
        step = 5 if os.environ.get("WARREN_SANITIZE") else 1
        for number, command in enumerate(self.commands):
            if command == "find":
                continue  # does not accept bundled letters
            entries, silent = self.described(command)
            known = entries | silent
            for letter in (string.ascii_letters + string.digits)[number % step::step]:
                done = self.warren(command, f"-{letter}", "--help", "--help", code=None)
                is_refused = b"invalid option" in done.stderr
                self.assertNotEqual(is_refused, f"-{letter}" in known, (command, letter))

    def test_words_of_find_are_those_of_its_parser(self):
        source = (SOURCES / "apps/warren/find_parser.cpp").read_text()
        known = {word for word in re.findall(r'"(-[a-z_0]+)"', source)}
        self.assertGreater(len(known), 50)
        entries, silent = self.described("find")
        options = {"-s", "-H", "-L", "-P", "-newerXY"}
        words = {word for word in entries | silent if not word.startswith("--")} - options
        self.assertEqual(words, known)

    def test_options_of_mount(self):
        page = self.page("mount")
        lines = page.split(".SH MOUNT OPTIONS")[1].split(".SH ")[0].splitlines()
        words = [plain(lines[number + 1]) for number, line in enumerate(lines) if line == ".TP"]
        ignored = plain(lines[-1]).rstrip(".").split(", ")
        self.assertGreater(len(words), 25)
        self.assertGreater(len(ignored), 20)
        examples = {"SECONDS": "7", "NUMBER": "2", "SIZE": "512M"}
        for word in words + ignored:
            name, _, value = word.partition("=")
            values = [""] if not value else [f"={examples.get(one, one)}" for one in
                                             value.split("|")]
            for one in values:
                option = name.replace("*", "anything") + one
                line = self.error("mount", "-o", f"{option},nonsense", "none.img", self.folder)
                self.assertIn("unknown mount option 'nonsense'", line)
            if "|" in value:
                line = self.error("mount", "-o", f"{name}=nonsense", "none.img", self.folder)
                for one in value.split("|"):
                    self.assertIn(one, line)

    def test_format_page_describes_a_volume(self):
        self.warren("mkfs", "-q", "-L", "found", self.image, "--size", "32M")
        text = (self.manual / "man5/warren-format.5").read_text()
        at = {}
        lines = [plain(line) for line in text.splitlines()]
        for number, line in enumerate(lines):
            if line == ".TP":
                at[re.split(r"[ ,:]", lines[number + 2])[0]] = int(lines[number + 1])
        info = json.loads(self.output("info", "--json", self.image))[0]
        copy = int(re.search(r"second copy is at byte (\d+)", text)[1])
        for start in (0, copy):
            block = self.image.read_bytes()[start:start + 4096]
            self.assertEqual(block[at["magic"]:at["magic"] + 8], b"WARREN1\n")
            self.assertEqual(block[at["label"]:at["label"] + 32].rstrip(b"\0"), b"found")
            self.assertEqual(block[at["UUID"]:at["UUID"] + 16].hex(),
                             info["uuid"].replace("-", ""))
            size = block[at["size"]:at["size"] + 8]
            self.assertEqual(int.from_bytes(size, "little"), 32 << 20)

    @unittest.skipUnless(shutil.which("file"), "file is not installed")
    def test_file_recognizes_a_volume(self):
        self.make_volume("32M")
        text = (self.manual / "man5/warren-format.5").read_text()
        example = text.split(".nf\n")[1].split(".fi\n")[0]
        magic = self.write("magic", plain(example).encode())
        done = self.run_program("file", "-b", "-m", magic, self.image)
        self.assertEqual(done.stdout, b"Warren volume version 1.0\n")

    def test_what_cannot_be_written(self):
        self.write("taken")
        self.assertIn("taken/man1': Not a directory",
                      self.error("--manual", self.folder / "taken"))
        self.assertIn("requires an argument", self.error("--manual", code=2))
        self.assertIn("unrecognized option '--nonsense'", self.error("--nonsense", code=2))


BASH_QUERIES = r"""
set -u
complete_line() {
    COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
    _warren warren "" ""
    printf '%s\n' "${COMPREPLY[@]}" ';'
}
while IFS= read -r line; do complete_line "$line"; done
"""


class BashTest(ManualCase):
    def ask(self, *lines):
        """What bash offers for each line; nothing where it completes file names itself."""
        head = f"source {self.manual}/bash/warren\n"
        script = self.write("ask.bash", (head + BASH_QUERIES).encode())
        done = self.run_program("bash", "--norc", script, stdin="".join(
            f"{line}\n" for line in lines).encode())
        self.assertEqual(done.stderr, b"")
        answers = done.stdout.decode().split(";\n")
        self.assertEqual(len(answers), len(lines) + 1)
        return [[word.rstrip() for word in answer.splitlines()] for answer in answers[:-1]]

    def test_offers_what_help_lists(self):
        offered = self.ask(*[f"warren {command} -" for command in self.commands], "warren -")
        for command, words in zip(self.commands + [""], offered):
            self.assertEqual({word.rstrip("=") for word in words}, set(self.listed(command)),
                             command)
            values = {word.rstrip("=") for word in words if word.endswith("=")}
            self.assertEqual(values, {option for option, takes in self.listed(command).items()
                                      if takes and option.startswith("--")})

    def test_commands_and_helpers(self):
        every, some, helped, nothing = self.ask("warren ", "/usr/bin/warren mk", "warren help fs",
                                                "warren help fsck ")
        self.assertEqual(set(every) - {"help"} - set(self.listed("")) - {"--manual="},
                         set(self.commands))
        self.assertEqual(some, ["mkfs", "mkdir"])
        self.assertEqual(helped, ["fsck"])
        self.assertEqual(nothing, [])
        for helper, command in HELPERS.items():
            self.assertEqual(*self.ask(f"/sbin/{helper} -", f"warren {command} -"))

    def test_values(self):
        # The part before the last '=' or ':' stays on the line.
        for line, words in (("warren ls --engine=", ["auto", "cpu", "cuda"]),
                            ("warren ls --engine=c", ["cpu", "cuda"]),
                            ("warren ls --engine c", ["cpu", "cuda"]),
                            ("warren hash -a b", ["blake3"]),
                            ("warren cp --reflink=a", ["auto", "always"]),
                            ("warren cp --reflink ", []),
                            ("warren cp --preserve=mode,x", ["mode,xattr"]),
                            ("warren find . -regextype posix-b", ["posix-basic"]),
                            ("warren mount -o noat", ["noatime"]),
                            ("mount.warren v.img /mnt -o ro,com", ["ro,commit="]),
                            ("warren mount -o ro,engine=c", ["cpu", "cuda"]),
                            ("warren walk --errors ", []),
                            ("warren walk --threads ", []),
                            ("warren cat f", [])):
            self.assertEqual(self.ask(line), [words], line)

    def choices(self):
        """(command, option, choices) for all options with a fixed set of values."""
        script = (self.manual / "bash/warren").read_text()
        command = None
        for line in script.splitlines():
            if match := re.match(r"        (\w+)\)$", line):
                command = match[1]
            if match := re.match(r" +(\S+).*\) kind=(?:choice|list) values='(.*)' ;;", line):
                if match[1] != "-o":  # of mount; PageTest covers it
                    yield command, match[1], match[2].split()

    def test_choices_are_those_that_the_program_takes(self):
        self.write("a")
        self.write("d/a")
        operands = {"chunk": ["a"], "similar": ["a", "a"], "dedup": ["d"], "hash": ["a"],
                    "cp": ["-n", "a", "b"], "walk": ["d"], "find": ["d"], "du": ["d"],
                    "cmp": ["d", "d"], "rm": ["-f", "none"], "chmod": ["u+r", "a"],
                    "chown": [":0", "none"], "sync": ["-n", "d", "e"]}
        kinds = set()
        for command, option, choices in self.choices():
            if option != "--engine":
                kinds.add(option)
            glue = [option] if not option.endswith("=") else []
            words = operands.get(command, ["none"])
            for choice in choices + ["nonsense"]:
                if choice == "cuda":
                    continue  # refused where there is no GPU
                call = [*glue, choice] if glue else [option + choice]
                call = [*words, *call] if command == "find" else [*call, *words]
                done = self.warren(command, *call, code=None)
                text = done.stderr.decode()
                refusal = re.search(r"there is no|unknown|invalid|there are", text)
                self.assertEqual(bool(refusal), choice == "nonsense", (command, call, text))
                if choice == "nonsense":
                    self.assertNotEqual(done.returncode, 0, (command, call))
                    for known in choices:
                        self.assertIn(known, text)
        self.assertEqual(kinds, {"-a", "--algorithm", "--preset", "--scheduler", "--split",
                                 "--ask-ahead", "--reflink=", "--sparse", "--preserve=",
                                 "--no-preserve", "-regextype"})


class TerminalTest(ManualCase):
    """Types keys in a terminal, to a shell in which `warren` prints its arguments."""

    def shown(self, words, rc, typed):
        self.write("only one.txt")
        (self.folder / "directory").mkdir()
        self.write("directory.txt")
        self.write(rc[0], (rc[1] + "PS1='> '; warren() { printf '<%s>' \"$@\"; echo; }\n").encode())
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self.folder)
            os.environ.update(TERM="dumb", INPUTRC="/dev/null", ZDOTDIR=str(self.folder))
            os.execvp(words[0], words)
        os.write(terminal, typed + b"exit\n")
        shown = b""
        while select.select([terminal], [], [], 30)[0]:
            try:
                shown += os.read(terminal, 4096)
            except OSError:
                break  # the shell has exited
        os.close(terminal)
        os.waitpid(process, 0)
        return shown.decode(errors="replace")

    def check(self, words, rc):
        shown = self.shown(words, rc, b"warren umo\tonl\t\n"
                                      b"warren cp --sparse=n\t -j 2 --target-d\tdirec\t onl\t\n"
                                      b"warren mount -o ro,err\tr\t\n"
                                      b"warren help fsc\t\n"
                                      b"warren walk --errors onl\t\n")
        self.assertIn("<umount><only one.txt>", shown)
        self.assertRegex(shown, "<cp><--sparse=never><-j><2><--target-directory=directory/?>"
                                "<only one.txt>")
        self.assertIn("<mount><-o><ro,errors=remount-ro>", shown)
        self.assertIn("<help><fsck>", shown)
        self.assertIn("<walk><--errors><only one.txt>", shown)

    def test_bash(self):
        self.check(["bash", "--noprofile", "--rcfile", ".bashrc", "-i"],
                   (".bashrc", f"source {self.manual}/bash/warren\n"))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        self.check(["zsh", "-d", "-i"],
                   (".zshrc", f"fpath=({self.manual}/zsh $fpath)\n"
                              "autoload -U compinit; compinit -D -u\n"))


class OtherShellTest(ManualCase):
    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_reads_its_script(self):
        self.run_program("zsh", "-n", self.manual / "zsh/_warren")

    def test_zsh_is_told_what_help_lists(self):
        script = (self.manual / "zsh/_warren").read_text()
        self.assertEqual(set(script.splitlines()[0].split()), {"#compdef", "warren", *HELPERS})
        for command in self.help_pages:
            body = script.split(f"\n_warren_{command or 'options'}() {{\n")[1].split("\n}\n")[0]
            told = set(re.findall(r"(?m)^ +'\*(--?[\w-]*\w)", body))
            self.assertEqual(told, set(self.listed(command)), command)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_offers_what_help_lists(self):
        script = self.manual / "fish/warren.fish"
        self.run_program("fish", "-n", script)
        lines = [f"warren {command} -" for command in self.commands]
        lines += [f"warren {command} --" for command in self.commands]
        lines += ["warren -", "warren --", "warren u", "warren help fs", "mkfs.warren --si",
                  "warren ls --engine ", "warren ls --engine=c", "warren mount -o ro,commi",
                  "warren cp --preserve=mode,x"]
        queries = "; ".join(f"complete -C '{line}'; echo ';'" for line in lines)
        home = {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}
        done = subprocess.run(["fish", "-N", "-c", f"source {script}; {queries}"], text=True,
                              capture_output=True, timeout=300, cwd=self.folder,
                              env={**os.environ, **home})
        self.assertEqual(done.stderr, "")
        answers = [[word.split("\t")[0] for word in answer.splitlines()]
                   for answer in done.stdout.split(";\n")]
        count = len(self.commands)
        for number, command in enumerate(self.commands):
            offered = {word.rstrip("=") for word in answers[number] + answers[number + count]}
            self.assertEqual(offered, set(self.listed(command)), command)
        offered = {word.rstrip("=") for word in answers[2 * count] + answers[2 * count + 1]}
        self.assertEqual(offered, set(self.listed("")))
        self.assertEqual([sorted(answer) for answer in answers[2 * count + 2:]],
                         [["umount"], ["fsck"], ["--size"], ["auto", "cpu", "cuda"],
                          ["--engine=cpu", "--engine=cuda"], ["ro,commit="],
                          ["--preserve=mode,xattr"], []])


class ExampleUnitTest(ManualCase):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_example_unit(self):
        unit = SOURCES / "docs/examples/mnt-warren.mount"
        done = self.run_program("systemd-analyze", "verify", "--man=no", unit)
        self.assertEqual((done.stdout, done.stderr), (b"", b""))
        options = re.search(r"(?m)^Options=(.*)$", unit.read_text())[1]
        self.assertIn("unknown mount option 'nonsense'",
                      self.error("mount", "-o", f"{options},nonsense", "none.img", self.folder))
        wrong = self.write("mnt-other.mount", unit.read_bytes())
        self.assertNotEqual(self.run_program("systemd-analyze", "verify", "--man=no", wrong,
                                             code=None).stderr, b"")


if __name__ == "__main__":
    unittest.main()
