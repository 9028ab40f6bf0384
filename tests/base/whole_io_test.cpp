// SPDX-License-Identifier: Apache-2.0
// Reads and writes that the system splits are completed, and its errors are reported.
#include "base/whole_io.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "base/temporary_file.hpp"

namespace warren::whole_io_test {
namespace {

TEST(WholeIo, ReadsUpToTheEndAndTellsErrors) {
    TemporaryFile file;
    ASSERT_EQ(file.make(temporary_folder()), Errc::ok);
    file.forget_name();
    const std::vector<std::byte> bytes(1000, std::byte{7});
    ASSERT_EQ(write_fully(file.descriptor(), 24, bytes), Errc::ok);
    std::vector<std::byte> target(1000);
    EXPECT_EQ(*read_fully(file.descriptor(), 100, target), 924u);
    EXPECT_EQ(target[923], std::byte{7});
    EXPECT_EQ(read_fully(-1, 0, target).code(), Errc::bad_handle);
    const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    EXPECT_EQ(write_fully(full.get(), bytes), Errc::no_space);
    EXPECT_EQ(write_fully(full.get(), 5, bytes), Errc::no_space);
}

TEST(WholeIo, GoesOnAfterSignals) {
    struct sigaction action {};  // without SA_RESTART: a call returns with what it has done
    action.sa_handler = [](int) {};
    ASSERT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const Descriptor from(ends[0]), to(ends[1]);
    std::vector<std::byte> bytes(4 * mib), target(bytes.size());
    for (u64 i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(i * 7 >> 3);
    std::jthread reader([&, writer = ::pthread_self()] {
        const Result<u64> got = do_whole(target.size(), [&](u64 done) {
            ::pthread_kill(writer, SIGUSR1);
            return ::read(from.get(), &target[done], std::min<u64>(4096, target.size() - done));
        });
        EXPECT_TRUE(got);
    });
    EXPECT_EQ(write_fully(to.get(), bytes), Errc::ok);
    reader.join();
    EXPECT_EQ(bytes, target);
}

}  // namespace
}  // namespace warren::whole_io_test
