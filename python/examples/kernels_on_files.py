#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at files by kernels that read them in place. See docs/python/kernels.md.

kernels_on_files.py IMAGE DIRECTORY
"""

import argparse

import cupy  # type: ignore[import-not-found,import-untyped,unused-ignore]
import numpy as np
import warren

COUNT = cupy.RawKernel(
    r"""
    extern "C" __global__ void count(const unsigned char* bytes, unsigned long long size,
                                     unsigned long long* counts) {
        __shared__ unsigned int mine[256];
        for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
        __syncthreads();
        const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
        for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
             i < size; i += step)
            atomicAdd(&mine[bytes[i]], 1u);
        __syncthreads();
        for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
            if (mine[i] != 0) atomicAdd(&counts[i], (unsigned long long)mine[i]);
    }
    """,
    "count",
)
THREADS, BLOCKS_MAX = 256, 1024


def byte_counts(mapped: warren.Map) -> "cupy.ndarray":
    """How often each of the 256 values occurs in a file that is mapped as uint8."""
    counts = cupy.zeros(256, cupy.uint64)
    blocks = min(BLOCKS_MAX, -(-mapped.nbytes // THREADS))
    COUNT((blocks,), (THREADS,), (cupy.asarray(mapped), np.uint64(mapped.nbytes), counts))
    return counts


def entropy(counts: "cupy.ndarray") -> float:
    """Bits that a byte carries: 8 for what cannot be compressed byte by byte."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * cupy.log2(shares)).sum())


def to_upper(volume: warren.Volume, path: str) -> None:
    """Changes the letters of a text in place, in the memory of the GPU, and writes it back."""
    mapped = volume.map(path, writable=True)
    text = cupy.asarray(mapped)
    text[(text >= ord("a")) & (text <= ord("z"))] -= 32
    mapped.write_back(cupy.cuda.get_current_stream().ptr)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description="Print how many bits each byte of files carries.")
    parser.add_argument("image", help="file of the volume")
    parser.add_argument("directory", help="a directory in it")
    options = parser.parse_args(arguments)
    found = {}
    with warren.Volume(options.image, read_only=True, engine="cuda") as volume:
        files = volume.find(options.directory, types="f", size_min=1, columns=["path"])
        for path in sorted(files.text("path")):
            found[path] = entropy(byte_counts(volume.map(path)))
            print(f"{found[path]:5.3f} bits a byte  {path}")
    return found


if __name__ == "__main__":
    main()
