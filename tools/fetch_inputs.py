#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the real inputs of bench/similarity_bench and bench/stored_bytes.py: one folder for each
series, whose files in the order of their names are successive versions of one thing.

    blast     memory images (ELF core files) of blastn while it searches: the subject of StoreGPU's
              tables 3 and 4. Needs Debian's ncbi-blast+. The sequences are made here from a seed.
    python    memory images of a Python process that fills and changes tables.
    kernel    Linux sources of several Debian updates, as tar files. Needs apt-get.
    package   releases of a package, as tar files, from the registry that pip uses.
    disk      disk images: ext4 with the files of more and more Debian packages. Needs apt-get.

What is there already is kept. What cannot be had is told and left out.
"""

import argparse
import gzip
import lzma
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

COPY_BYTES = 1 << 24
PAGE = 4096

PYTHON_WORK = """
import random, sys
choose = random.Random(7)
table = {}
while True:
    for _ in range(20000):
        table[choose.randrange(400000)] = [choose.random(), str(choose.randrange(10**9))]
    rows = sorted(table.items())[: len(table) // 2]
"""


def mappings(process):
    """(begin, end, flags) of the memory that the process can read and that a core file holds."""
    for line in pathlib.Path(f"/proc/{process}/maps").read_text().splitlines():
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) (....) \S+ \S+ \S+\s*(.*)", line)
        begin, end, rights, name = match.groups()
        if rights[0] != "r" or name in ("[vvar]", "[vvar_vclock]", "[vsyscall]"):
            continue
        if name.startswith("/") and rights[1] != "w" and rights[2] != "x":
            continue  # a file mapped to be read, such as blast's data base
        yield (int(begin, 16), int(end, 16),
               4 * (rights[0] == "r") + 2 * (rights[1] == "w") + (rights[2] == "x"))


def write_core(process, path):
    """Stops the process, writes its memory as an ELF core file, and lets it go on."""
    os.kill(process, signal.SIGSTOP)
    try:
        parts = list(mappings(process))
        headers = 64 + 56 * len(parts)
        offset = (headers + PAGE - 1) // PAGE * PAGE
        elf = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 4, 62, 1, 0, 64, 0, 0, 64,
                          56, len(parts), 0, 0, 0)
        for begin, end, flags in parts:
            elf += struct.pack("<IIQQQQQQ", 1, flags, offset, begin, 0, end - begin, end - begin,
                               PAGE)
            offset += end - begin
        partial = path.with_suffix(".partial")
        with open(f"/proc/{process}/mem", "rb", 0) as memory, open(partial, "wb") as core:
            core.write(elf.ljust((headers + PAGE - 1) // PAGE * PAGE, b"\0"))
            for begin, end, _ in parts:
                copy_range(memory, core, begin, end)
        partial.rename(path)
    finally:
        os.kill(process, signal.SIGCONT)


def copy_range(memory, core, begin, end):
    while begin < end:
        size = min(COPY_BYTES, end - begin)
        memory.seek(begin)
        try:
            data = memory.read(size)
        except OSError:
            data = b""
        core.write(data.ljust(size, b"\0"))  # what cannot be read counts as zeros
        begin += size


def images_of(words, folder, count, seconds, name):
    """Runs the words and takes `count` images, one every `seconds`."""
    folder.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        for number in range(count):
            time.sleep(seconds)
            if process.poll() is not None:
                print(f"{name} ended after {number} images", file=sys.stderr)
                break
            write_core(process.pid, folder / f"{name}.{number + 1:02}")
    finally:
        process.kill()
        process.wait()


def make_sequences(path, choose, count, length):
    """FASTA of sequences that share mutated stretches, as genomes do."""
    letters = "ACGT"
    stock = ["".join(choose.choices(letters, k=2000)) for _ in range(200)]
    with open(path, "w", encoding="ascii") as file:
        for number in range(count):
            file.write(f">s{number}\n")
            parts = []
            size = 0
            while size < length:
                part = list(choose.choice(stock))
                for _ in range(60):
                    part[choose.randrange(len(part))] = choose.choice(letters)
                parts.append("".join(part))
                size += len(part)
            text = "".join(parts)[:length]
            file.write("\n".join(text[at:at + 80] for at in range(0, length, 80)) + "\n")


def fetch_blast(folder, arguments):
    if shutil.which("blastn") is None:
        raise RuntimeError("ncbi-blast+ is not installed: apt-get install ncbi-blast+")
    with tempfile.TemporaryDirectory() as work:
        choose = random.Random(11)
        make_sequences(f"{work}/base.fa", choose, 400, 100_000)
        make_sequences(f"{work}/query.fa", choose, 2000, 20_000)
        subprocess.run(["makeblastdb", "-in", f"{work}/base.fa", "-dbtype", "nucl", "-out",
                        f"{work}/base"], check=True, stdout=subprocess.DEVNULL)
        images_of(["blastn", "-query", f"{work}/query.fa", "-db", f"{work}/base", "-outfmt", "6",
                   "-max_target_seqs", "500"], folder, arguments.images, arguments.seconds, "core")


def fetch_python(folder, arguments):
    images_of([sys.executable, "-c", PYTHON_WORK], folder, arguments.images, arguments.seconds,
              "core")


def tar_of_kernel(package, folder, megabytes):
    """The beginning of the sources in a Debian package, as a plain tar file."""
    with tempfile.TemporaryDirectory(dir=folder) as work:
        subprocess.run(["apt-get", "-q", "download", package], cwd=work, check=True,
                       capture_output=True)
        name = next(pathlib.Path(work).glob("*.deb"))
        subprocess.run(["dpkg-deb", "-x", name, work], check=True)
        packed = next(pathlib.Path(work).rglob("linux-source-*.tar.xz"))
        version = package.split("=")[1]
        partial = folder / f"{version}.partial"
        left = megabytes << 20
        with lzma.open(packed) as source, open(partial, "wb") as target:
            while left > 0:
                data = source.read(min(left, COPY_BYTES))
                if not data:
                    break
                target.write(data)
                left -= len(data)
        partial.rename(folder / f"{version}.tar")


def fetch_kernel(folder, arguments):
    listed = subprocess.run(["apt-cache", "madison", "linux-source-6.1"], check=True,
                            capture_output=True, text=True).stdout
    versions = sorted({line.split("|")[1].strip() for line in listed.splitlines()})
    if len(versions) < 2:
        raise RuntimeError("apt knows no two versions of linux-source-6.1")
    for version in versions[-arguments.versions:]:
        if not (folder / f"{version}.tar").exists():
            tar_of_kernel(f"linux-source-6.1={version}", folder, arguments.megabytes)


def fetch_package(folder, arguments):
    last = max(11, arguments.versions)
    for number in range(last - arguments.versions + 1, last + 1):
        path = folder / f"django-4.2.{number:02}.tar"
        version = f"4.2.{number}"
        if path.exists():
            continue
        with tempfile.TemporaryDirectory() as work:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                            "--no-binary", ":all:", "-d", work, f"django=={version}"],
                           check=False, capture_output=True)
            packed = next(pathlib.Path(work).glob("*.tar.gz"), None)
            if packed is None:
                raise RuntimeError(f"pip could not fetch the sources of django {version}")
            with gzip.open(packed) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)


DISK_PACKAGES = (
    ("bash", "coreutils", "dpkg", "apt", "perl-base", "libc6", "libc-bin", "libstdc++6", "tar"),
    ("libpython3.11-stdlib", "python3.11-minimal", "libpython3.11-minimal", "vim-runtime"),
    ("git", "perl-modules-5.36", "libicu72", "cpp-12"),
)


def fetch_disk(folder, arguments):
    """Image n has the packages of the first n lists."""
    if (folder / f"disk.{len(DISK_PACKAGES):02}").exists():
        return
    with tempfile.TemporaryDirectory(dir=folder) as work:
        tree = pathlib.Path(work) / "tree"
        tree.mkdir()
        for number, packages in enumerate(DISK_PACKAGES, start=1):
            subprocess.run(["apt-get", "-q", "download", *packages], cwd=work, check=True,
                           capture_output=True)
            for package in pathlib.Path(work).glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", package, tree], check=True)
                package.unlink()
            path = folder / f"disk.{number:02}"
            partial = path.with_suffix(".partial")
            subprocess.run(["mke2fs", "-q", "-t", "ext4", "-F", "-d", tree, partial, "512M"],
                           check=True, capture_output=True)
            partial.rename(path)


SERIES = {"blast": fetch_blast, "python": fetch_python, "kernel": fetch_kernel,
          "package": fetch_package, "disk": fetch_disk}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("series", nargs="*", choices=[[], *SERIES], default=[])
    parser.add_argument("--images", type=int, default=4, help="memory images of a process")
    parser.add_argument("--seconds", type=float, default=5, help="between two images")
    parser.add_argument("--versions", type=int, default=3, help="of kernel and package")
    parser.add_argument("--megabytes", type=int, default=512, help="of each kernel, at most")
    arguments = parser.parse_args()
    missing = 0
    for name in arguments.series or SERIES:
        folder = arguments.folder / name
        if name in ("blast", "python") and any(folder.glob("core.*")):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        try:
            SERIES[name](folder, arguments)
        except (RuntimeError, OSError, subprocess.CalledProcessError, StopIteration) as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            missing += 1
            continue
        sizes = ", ".join(f"{path.name} {path.stat().st_size >> 20} MiB"
                          for path in sorted(folder.iterdir()))
        print(f"{name}: {sizes}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
