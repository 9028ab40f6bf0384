// SPDX-License-Identifier: Apache-2.0
// What libFuzzer calls before the first input, and files in memory.
#include "tests/fuzz/target.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace warren::fuzz {

const std::string& scratch_folder() {
    static const struct Folder {
        Folder() {
            path = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
            path += "/warren-fuzz-XXXXXX";
            WARREN_CHECK(::mkdtemp(path.data()) != nullptr);
        }
        ~Folder() {
            std::error_code ignored;
            std::filesystem::remove_all(path, ignored);
        }
        std::string path;
    } folder;
    return folder.path;
}

void write_file(const std::string& path, std::string_view bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    WARREN_CHECK(file.good());
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    WARREN_CHECK(file.good());
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace warren::fuzz

/// Writes the seeds and exits, if requested.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
    if (*count != 3 || std::string_view((*arguments)[1]) != "--seeds") return 0;
    const std::string folder = (*arguments)[2];
    std::filesystem::create_directories(folder);
    int number = 0;
    for (const std::string& seed : warren::fuzz::seeds())
        warren::fuzz::write_file(folder + "/seed-" + std::to_string(++number), seed);
    std::exit(0);
}
