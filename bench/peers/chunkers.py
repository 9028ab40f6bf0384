#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the chunkers of other programs over a file, for bench/chunk_bench.

Prints one line for each peer: name, seconds of each run, chunks found; or the name and why it is
absent. pyfastcdc is taken from the Python in $WARREN_PEER_PYTHON (pip install pyfastcdc), that of
borg from Debian's python3, gearhash through cargo, restic's chunker through go; the two are built
in a folder of their own that $WARREN_PEER_FOLDER names.
"""

import os
import pathlib
import shutil
import subprocess
import sys

RUNS = 5

PYFASTCDC = """
import sys, time
from pyfastcdc import FastCDC
data = open(sys.argv[1], "rb").read()
for run in range(int(sys.argv[3])):
    start = time.perf_counter()
    count = sum(1 for chunk in FastCDC(int(sys.argv[2])).cut_buf(data))
    print(time.perf_counter() - start, count)
"""

BORG = """
import io, sys, time
from borg.chunker import Chunker
data = open(sys.argv[1], "rb").read()
for run in range(int(sys.argv[2])):
    start = time.perf_counter()
    count = sum(1 for chunk in Chunker(0, 19, 23, 21, 4095).chunkify(io.BytesIO(data)))
    print(time.perf_counter() - start, count)
"""

GEARHASH = """
use gearhash::Hasher;
fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let data = std::fs::read(&arguments[1]).unwrap();
    let (minimum, maximum) = (2048usize, 65536usize);
    for _ in 0..arguments[2].parse::<usize>().unwrap() {
        let begin = std::time::Instant::now();
        let (mut count, mut start) = (0, 0);
        while start < data.len() {
            let limit = data.len().min(start + maximum);
            let mut end = limit;
            if start + minimum < limit {
                let first = start + minimum;
                let mut hasher = Hasher::default();
                hasher.update(&data[first - 64..first - 1]);
                if let Some(at) = hasher.next_match(&data[first - 1..limit], !0u64 << 51) {
                    end = first - 1 + at;
                }
            }
            count += 1;
            start = end;
        }
        println!("{} {}", begin.elapsed().as_secs_f64(), count);
    }
}
"""

RESTIC = """
package main

import (
    "bytes"
    "fmt"
    "os"
    "strconv"
    "time"

    "github.com/restic/chunker"
)

func main() {
    data, _ := os.ReadFile(os.Args[1])
    runs, _ := strconv.Atoi(os.Args[2])
    buffer := make([]byte, 8<<20)
    for run := 0; run < runs; run++ {
        begin := time.Now()
        cut := chunker.New(bytes.NewReader(data), chunker.Pol(0x3DA3358B4DC173))
        count := 0
        for {
            if _, err := cut.Next(buffer); err != nil {
                break
            }
            count++
        }
        fmt.Println(time.Since(begin).Seconds(), count)
    }
}
"""


def run(words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=900, **more)


def build_gearhash(folder):
    place = folder / "gearhash"
    (place / "src").mkdir(parents=True, exist_ok=True)
    (place / "Cargo.toml").write_text('[package]\nname = "peer"\nversion = "0.1.0"\n'
                                      'edition = "2021"\n[dependencies]\ngearhash = "0.1.4"\n')
    (place / "src/main.rs").write_text(GEARHASH)
    run(["cargo", "build", "--release", "--quiet"], cwd=place)
    return place / "target/release/peer"


def build_restic(folder):
    place = folder / "restic"
    place.mkdir(parents=True, exist_ok=True)
    (place / "go.mod").write_text("module peer\n\ngo 1.20\n\n"
                                  "require github.com/restic/chunker v0.4.0\n")
    (place / "main.go").write_text(RESTIC)
    run(["go", "build", "-mod=mod", "-o", "peer", "."], cwd=place)
    return place / "peer"


def python_with(module):
    for python in (os.environ.get("WARREN_PEER_PYTHON"), "/usr/bin/python3", sys.executable):
        if python and subprocess.run([python, "-c", f"import {module}"],
                                     capture_output=True).returncode == 0:
            return python
    raise RuntimeError(f"no Python with {module}")


def commands(data, folder):
    """Yields each peer's name and a function that makes its command."""
    runs = str(RUNS)
    for average in ("8192", "16384"):
        yield (f"pyfastcdc-{average}",
               lambda average=average: [python_with("pyfastcdc"), "-c", PYFASTCDC, data, average,
                                        runs])
    yield "borg", lambda: [python_with("borg"), "-c", BORG, data, runs]
    yield "gearhash", lambda: [build_gearhash(folder), data, runs]
    yield "restic", lambda: [build_restic(folder), data, runs]


def main():
    data = sys.argv[1]
    folder = pathlib.Path(os.environ.get("WARREN_PEER_FOLDER", "/tmp/warren-peers"))
    for name, command in commands(data, folder):
        try:
            # One processor each: the comparison is core against core.
            words = ["taskset", "-c", "0"] if shutil.which("taskset") else []
            lines = run(words + [str(word) for word in command()]).stdout.split("\n")
            pairs = [line.split() for line in lines if line]
            print(name, pairs[-1][1], *(pair[0] for pair in pairs))
        except (OSError, RuntimeError, subprocess.SubprocessError) as problem:
            print(name, "absent:", str(problem).split("\n")[0])


if __name__ == "__main__":
    main()
