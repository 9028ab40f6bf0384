// SPDX-License-Identifier: Apache-2.0
// The ring's probe sees each request on completion: nothing is guaranteed about it before.
#include "tests/support/recorded_file_disk.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace warren {

std::unique_ptr<RecordedFileDisk> RecordedFileDisk::make(const std::string& path, DiskAccess access,
                                                         MemoryDisk& log, std::string& why) {
    Failure failure;
    auto file = FileDisk::open(path, OpenMode::create, failure);
    why = failure.message;
    if (file == nullptr || file->resize(log.size_bytes()) != Errc::ok) return nullptr;
    std::vector<std::byte> all(log.size_bytes());
    EXPECT_EQ(log.read(0, all), Errc::ok);
    EXPECT_EQ(file->write(0, all), Errc::ok);
    if (file->use(access, why) != Errc::ok) return nullptr;
    file->set_probe([&log](const DiskRequest& request, i32 result) {
        const u64 done = result > 0 ? static_cast<u64>(result) : 0;
        if (request.is_write && done > 0) {
            // A request that was continued in parts is seen at its end, when all of it is written.
            EXPECT_EQ(log.write(request.offset, {request.memory, request.length_bytes}), Errc::ok);
        }
        return result;
    });
    return std::unique_ptr<RecordedFileDisk>(new RecordedFileDisk(std::move(file), log));
}

}  // namespace warren
