#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier on many small files, one sample each. See docs/python/training.md.

train_on_samples.py IMAGE [--samples N] [--epochs N]
"""

import argparse
import time

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
import warren
from warren.torch import Batch, FileDataset

LENGTH = 256  # numbers of a sample
CLASSES = 8
FILES_IN_DIRECTORY = 10_000


def make_samples(volume: warren.Volume, count: int) -> None:
    """A sample is int16[1 + LENGTH]: its class, then a noisy form of what the class looks like."""
    rng = np.random.default_rng(1)
    forms = rng.normal(0, 1000, (CLASSES, LENGTH))
    volume.mkdir("/train")
    for first in range(0, count, FILES_IN_DIRECTORY):
        rows = min(FILES_IN_DIRECTORY, count - first)
        samples = np.empty((rows, 1 + LENGTH), np.int16)
        samples[:, 0] = rng.integers(0, CLASSES, rows)
        samples[:, 1:] = forms[samples[:, 0]] + rng.normal(0, 2000, (rows, LENGTH))
        directory = f"/train/{first // FILES_IN_DIRECTORY:04}"
        volume.mkdir(directory)
        names = [f"{first + row:08}.i16" for row in range(rows)]
        ends = np.arange(rows + 1, dtype=np.int64) * samples[0].nbytes
        volume.write_many(
            names, samples.reshape(-1).view(np.uint8), ends, directory=directory, strict=True
        )


def train(model: "torch.nn.Module", dataset: FileDataset, epochs: int) -> float:
    """Returns the share of samples that were classified well in the last epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    share = 0.0
    for epoch in range(epochs):
        dataset.set_epoch(epoch)
        begin, good, count = time.perf_counter(), 0, 0
        batch: Batch
        for batch in dataset:
            samples = batch.samples(torch.int16, 1 + LENGTH)
            wanted = samples[:, 0].long()
            found = model(samples[:, 1:].float() / 1000)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(found, wanted).backward()
            optimizer.step()
            good += int((found.argmax(1) == wanted).sum())
            count += len(wanted)
        share = good / count
        rate = count / (time.perf_counter() - begin)
        print(f"epoch {epoch}: {share:.1%} classified well, {rate:,.0f} samples a second")
    return share


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description="Train a classifier on many small files.")
    parser.add_argument("image", help="file of the volume; it is made if it is not there")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args(arguments)
    try:
        volume = warren.Volume(options.image)
    except FileNotFoundError:
        volume = warren.Volume.create(options.image, (64 << 20) + options.samples * 6000)
        make_samples(volume, options.samples)
    with volume:
        begin = time.perf_counter()
        dataset = FileDataset(volume, "/train", pattern="*.i16", batch_size=1024, shuffle=True)
        seconds = time.perf_counter() - begin
        print(f"index of {dataset.files:,} files in {seconds:.2f} s")
        torch.manual_seed(1)
        model = torch.nn.Linear(LENGTH, CLASSES)
        return train(model, dataset, options.epochs)


if __name__ == "__main__":
    main()
