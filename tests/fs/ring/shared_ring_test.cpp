// SPDX-License-Identifier: Apache-2.0
// Two processes and one ring: it is passed over a socket, its memory cannot be truncated, the
// status page is read-only, and the client's commands arrive with the client's identity.
#include "fs/ring/shared_ring.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>

#include "fs/ring/client.hpp"
#include "fs/ring/parking.hpp"
#include "fs/ring/reader.hpp"

namespace warren::ring::shared_ring_test {
namespace {

constexpr u32 commands_sent = 1000;

/// The client process; its exit code is the line at which it failed.
int client_main(int socket) {
    RemoteRing remote;
    if (remote.receive(socket) != Errc::ok) return 1;
    RingClient client(remote.ring(), remote.doorbell(), remote.status(), false);
    for (u32 i = 0; i < commands_sent; ++i) {
        const std::string name(1 + i % 200, 'n');
        ops::Command command;
        command.verb = ops::Verb::unlink;
        command.handle = {i, 7};
        command.caller.user = 0;  // a lie
        command.name = name.data();
        command.name_length = static_cast<u32>(name.size());
        const Result<u64> ticket = client.submit(command);
        if (!ticket) return 2;
        ops::Reply reply;
        if (client.wait(*ticket, reply, 20'000) != Errc::ok) return 3;
        if (reply.code != Errc::no_entry || reply.value != name.size()) return 4;
    }
    ops::Command forbidden;
    forbidden.verb = ops::Verb::forget;
    const Result<u64> ticket = client.submit(forbidden);
    ops::Reply reply;
    if (!ticket || client.wait(*ticket, reply, 20'000) != Errc::ok) return 5;
    return reply.code == Errc::not_permitted ? 0 : 6;
}

/// Serves until `count` commands are done; every wait ends with a wake.
void serve(SharedRing& ring, u32 count) {
    RingReader reader(ring.ring(), ring.stamp());
    for (u32 done = 0; done < count && !testing::Test::HasFailure();) {
        Received received;
        const u32 seen = wakes_seen(ring.doorbell());
        if (!reader.take(received)) {
            // The wake of a command that was taken already may still come; a lost one costs the
            // whole time.
            const auto begin = std::chrono::steady_clock::now();
            begin_parking(ring.status());
            if (!reader.has_command()) wait_for_wake(ring.doorbell(), seen, 20'000);
            end_parking(ring.status());
            ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
            continue;
        }
        ++done;
        ops::Reply reply;
        reply.code = received.verdict;
        if (reply.code == Errc::ok) {
            EXPECT_EQ(received.command.caller.user, getuid());
            EXPECT_EQ(received.command.caller.group, getgid());
            EXPECT_TRUE(received.command.caller.check);
            reply.code = Errc::no_entry;
            reply.value = received.command.name_length;
        }
        reader.complete(received, reply);
    }
}

TEST(SharedRing, AnotherProcessGetsARing) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        close(sockets[0]);
        _exit(client_main(sockets[1]));
    }
    close(sockets[1]);
    SharedRing ring;
    ASSERT_EQ(ring.create({64, 64 * kib}, {getuid(), getgid(), {}}, false), Errc::ok);
    ASSERT_EQ(ring.hand_over(sockets[0]), Errc::ok);
    serve(ring, commands_sent + 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    close(sockets[0]);
}

/// Whether a page of the file can be changed by any means that start from this descriptor.
bool can_write(int file) {
    if (pwrite(file, "x", 1, 0) == 1) return true;
    if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0) return true;
    void* at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        at = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
        if (at == MAP_FAILED || mprotect(at, 4096, PROT_READ | PROT_WRITE) != 0) return false;
    }
    munmap(at, 4096);
    return true;
}

/// As above, also by a duplicate and by opening the file again.
bool can_write_somehow(int file) {
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    const int others[] = {dup(file), open(path.c_str(), O_RDWR), open(path.c_str(), O_WRONLY),
                          open(path.c_str(), O_RDONLY)};
    bool can = can_write(file);
    for (const int other : others) {
        can = can || can_write(other);
        if (other >= 0) close(other);
    }
    return can;
}

/// What hand_over() sends to the other end of `sockets`: ring, doorbell, status.
void take_files(const int (&sockets)[2], int (&files)[3]) {
    char bytes[64];
    char control[256];
    iovec part{bytes, sizeof bytes};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    ASSERT_GT(recvmsg(sockets[1], &header, 0), 0);
    const cmsghdr* attached = CMSG_FIRSTHDR(&header);
    ASSERT_NE(attached, nullptr);
    ASSERT_EQ(attached->cmsg_len, CMSG_LEN(sizeof files));
    std::memcpy(files, CMSG_DATA(attached), sizeof files);
}

TEST(SharedRing, WhatIsHandedOverIsSealed) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    SharedRing ring;
    ASSERT_EQ(ring.create({64, 64 * kib}, {}, false), Errc::ok);
    ASSERT_EQ(ring.hand_over(sockets[0]), Errc::ok);
    int files[3];
    take_files(sockets, files);
    for (const int file : files) {
        EXPECT_NE(ftruncate(file, 0), 0);
        EXPECT_NE(ftruncate(file, 1 << 30), 0);
        EXPECT_NE(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), 0);
    }
    EXPECT_TRUE(can_write_somehow(files[0]));
    EXPECT_TRUE(can_write_somehow(files[1]));
    EXPECT_FALSE(can_write_somehow(files[2])) << "the status page";
    // The daemon can still write the page that the client reads.
    const void* page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, files[2], 0);
    ASSERT_NE(page, MAP_FAILED);
    begin_parking(ring.status());
    EXPECT_EQ(static_cast<const ServerStatus*>(page)->parked, 1u);
    munmap(const_cast<void*>(page), 4096);
    for (const int file : files)
        close(file);
    close(sockets[0]);
    close(sockets[1]);
}

TEST(SharedRing, MessagesThatAreSomethingElse) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    RemoteRing remote;
    ASSERT_EQ(send(sockets[0], "nonsense", 8, 0), 8);
    EXPECT_EQ(remote.receive(sockets[1]), Errc::invalid);
    close(sockets[0]);
    EXPECT_EQ(remote.receive(sockets[1]), Errc::invalid);
    close(sockets[1]);
}

/// Sends the next message from `from` on to `to`, with `count` descriptors instead of its own.
void send_on(int from, int to, size_t count) {
    std::array<char, 64> bytes{};
    alignas(cmsghdr) std::array<char, 256> control{};
    iovec part{bytes.data(), bytes.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t size = recvmsg(from, &header, MSG_CMSG_CLOEXEC);
    ASSERT_GT(size, 0);
    part.iov_len = static_cast<size_t>(size);
    cmsghdr* attached = CMSG_FIRSTHDR(&header);
    ASSERT_NE(attached, nullptr);
    std::array<int, 8> files{};
    std::memcpy(files.data(), CMSG_DATA(attached), 3 * sizeof(int));
    std::fill(files.begin() + 3, files.end(), files[0]);
    header.msg_controllen = CMSG_SPACE(count * sizeof(int));
    attached->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(attached), files.data(), count * sizeof(int));
    EXPECT_EQ(sendmsg(to, &header, 0), size);
    for (u32 i = 0; i < 3; ++i)
        close(files[i]);
}

size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST(SharedRing, AMessageWithMoreOrFewerDescriptorsIsRefused) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    SharedRing ring;
    ASSERT_EQ(ring.create({64, 64 * kib}, {}, false), Errc::ok);
    const size_t before = open_descriptors();
    for (const size_t count : {1u, 2u, 4u, 5u, 8u}) {
        ASSERT_EQ(ring.hand_over(sockets[0]), Errc::ok);
        send_on(sockets[1], sockets[1], count);
        RemoteRing remote;
        EXPECT_EQ(remote.receive(sockets[0]), Errc::invalid) << count;
        EXPECT_EQ(open_descriptors(), before) << count;
    }
    close(sockets[0]);
    close(sockets[1]);
}

TEST(SharedRing, IsStampedWithItsPeer) {
    SharedRing ring;
    ASSERT_EQ(ring.create({64, 64 * kib}, {5, 6, {7}}, false), Errc::ok);
    EXPECT_EQ(ring.stamp().caller.user, 5u);
    EXPECT_EQ(ring.stamp().caller.group, 6u);
    EXPECT_EQ(ring.stamp().caller.group_count, 1u);
    EXPECT_EQ(ring.stamp().caller.groups[0], 7u);
    EXPECT_FALSE(ring.stamp().is_trusted);
    const Peer with_too_many{5, 6, std::vector<u32>(core::groups_max + 1)};
    EXPECT_EQ(ring.create({64, 64 * kib}, with_too_many, false), Errc::invalid);
}

TEST(SharedRing, ShapesThatCannotBe) {
    SharedRing ring;
    EXPECT_EQ(ring.create({63, 64 * kib}, {}, true), Errc::invalid);
    EXPECT_EQ(ring.create({65536, 64 * kib}, {}, true), Errc::invalid);
    EXPECT_EQ(ring.create({64, 17 * mib}, {}, true), Errc::invalid);
}

}  // namespace
}  // namespace warren::ring::shared_ring_test
