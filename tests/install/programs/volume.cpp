// SPDX-License-Identifier: Apache-2.0
// C++: a volume at the path of the argument, a file in it, and the digest of what is read back.
#include <warren/version.h>
#include <warren/hash.hpp>
#include <warren/volume.hpp>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
    using namespace warren;
    if (argc != 2) return 2;
    FormatOptions format;
    format.size_bytes = 16 * mib;
    format.force = true;
    Failure failure = make_volume(argv[1], format);
    OpenOptions options;
    options.engine = EngineChoice::cpu;
    const auto volume = Volume::open(argv[1], options, failure);
    if (volume == nullptr) {
        std::fprintf(stderr, "%s\n", failure.message.c_str());
        return 1;
    }
    CreateOptions create;
    create.open = true;
    const auto file = volume->create({}, volume->root(), "name", create);
    const std::byte text[3] = {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
    std::byte found[4] = {};
    if (!file || !volume->write(file->handle, 0, text)) return 3;
    const auto count = volume->read(file->handle, 0, found);
    if (!count || *count != sizeof text || volume->release(file->handle) != Errc::ok) return 4;
    std::vector<u8> digest(hash::digest_bytes(hash::Algorithm::sha256));
    const hash::Bytes piece(found, sizeof text);
    if (hash::hash_many(hash::Algorithm::sha256, std::span(&piece, 1), digest) != Errc::ok) {
        return 5;
    }
    for (const u8 byte : digest)
        std::printf("%02x", byte);
    std::printf("\n%s\n", WARREN_VERSION);
    return volume->close() == Errc::ok ? 0 : 6;
}
