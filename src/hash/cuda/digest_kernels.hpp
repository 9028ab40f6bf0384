// SPDX-License-Identifier: Apache-2.0
// The launch functions among which hash_pieces() of kernels.hpp chooses, each in a file of its own
// so that they compile in parallel.
#pragma once

#include "hash/cuda/kernels.hpp"

namespace warren::hash::cuda {

Errc hash_pieces_blake3(const DevicePieces& pieces, u8* digests, StreamHandle stream);
Errc hash_pieces_xxh3(const DevicePieces& pieces, u8* digests, StreamHandle stream);

}  // namespace warren::hash::cuda
