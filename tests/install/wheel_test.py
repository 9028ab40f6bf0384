# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel, looks into it, and uses it from a fresh virtual environment.

The wheel is built as the tree is, with debug information that is stripped off: ccache has most
objects, and a compiler that optimizes more is not what is tested. Needs .toolchain/python."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".toolchain" / "python" / "bin"
VERSION = re.search(r"project\(warren VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
SKIPPED = 77
USE = """
import importlib.metadata, sys, warren
with warren.Volume.create(sys.argv[1], 64 << 20) as volume:
    volume.write_many(["/a", "/b"], [b"one", b"two"], strict=True)
    assert volume.read_many(["/a", "/b"]).values.tolist() == list(b"onetwo")
    assert volume.doctor()[0].subject == "volume"
points = importlib.metadata.entry_points(group="fsspec.specs")
assert [point.value for point in points] == ["warren.fsspec:WarrenFileSystem"]
print(warren.__version__, importlib.metadata.version("warren"))
"""


def run(*words, **more):
    words = [os.fspath(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="warren-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        output = pathlib.Path(os.environ["WARREN_BUILD"] + "-wheel-test")
        cls.addClassCleanup(shutil.rmtree, output)
        # PYTHONPATH may lead to the package of the tree.
        cls.environment = {name: value for name, value in os.environ.items()
                           if not name.startswith("PYTHON")}
        run("bash", ROOT / "tools" / "wheel.sh", env={
            **cls.environment, "WARREN_NO_BOOTSTRAP": "1", "WARREN_WHEEL_OUTPUT": str(output),
            "WARREN_WHEEL_BUILD_TYPE": "RelWithDebInfo"})
        (cls.wheel,) = output.glob("*.whl")
        cls.venv = cls.folder / "venv"
        run(TOOLS / "python", "-m", "venv", "--without-pip", cls.venv)
        run(TOOLS / "python", "-m", "pip", "--python", cls.venv, "install", "--no-index",
            "--no-deps", cls.wheel)

    def use(self, *words):
        return run(*words, cwd=self.folder, env=self.environment)

    def test_name_tells_what_it_runs_with(self):
        self.assertRegex(self.wheel.name, rf"^warren-{re.escape(VERSION)}-(cp311-cp311|cp312-abi3)-"
                                          r"manylinux_2_\d+_x86_64\.whl$")

    def test_holds_libraries_with_their_licences(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
            text = wheel.read(metadata).decode()
            (lesser,) = (name for name in names if name.endswith("/libfuse3/LGPL-2.1"))
            self.assertIn("GNU LESSER GENERAL PUBLIC LICENSE", wheel.read(lesser).decode())
        libraries = [pathlib.PurePath(name).name for name in names
                     if name.startswith("warren.libs/lib")]
        self.assertRegex(" ".join(libraries), r"^libfuse3-\w+\.so[.0-9]+$")
        for ending in ("/licenses/LICENSE", "/licenses/NOTICE", "/libfuse3/copyright",
                       "warren/py.typed", "warren/_native.pyi"):
            self.assertTrue(any(name.endswith(ending) for name in names), ending)
        self.assertIn("Requires-Python: >=3.11\n", text)
        self.assertNotIn("Requires-Dist: fsspec\n", text)

    def test_needs_only_the_c_library(self):
        (package,) = self.venv.glob("lib/python*/site-packages/warren")
        (native,) = package.glob("_native.*.so")
        for file in (native, package / "bin" / "warren"):
            needed = set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", file)))
            fuse = {name for name in needed if re.match(r"libfuse3-\w+\.so", name)}
            self.assertLessEqual(needed - fuse,
                                 {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, file)
            self.assertEqual(len(fuse), 0 if file == native else 1)
        exported = run("nm", "-D", "--defined-only", native).split()
        self.assertEqual(exported[2::3], ["PyInit__native"])

    def test_works(self):
        python = self.venv / "bin" / "python"
        self.assertEqual(self.use(python, "-c", USE, self.folder / "v.img"),
                         f"{VERSION} {VERSION}\n")
        for words in ((python, "-m", "warren"), (self.venv / "bin" / "warren",)):
            self.assertEqual(self.use(*words, "--version"), f"warren {VERSION}\n")
            self.assertIn("clean", self.use(*words, "fsck", self.folder / "v.img"))


if __name__ == "__main__":
    if not (TOOLS / "auditwheel").exists():
        print("skipped: there is no", TOOLS, "(./dev bootstrap python)")
        sys.exit(SKIPPED)
    unittest.main()
