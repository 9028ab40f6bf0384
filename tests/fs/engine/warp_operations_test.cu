// SPDX-License-Identifier: Apache-2.0
// The operations of the volume by thousands of warps at once: the answer of each, that a contested
// name goes to exactly one of them, and that the volume they leave is sound for the CPU engine.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "fs/core/tree.hpp"
#include "tests/fs/engine/device_model.hpp"
#include "tests/fs/engine/device_volume.cuh"
#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::warp_operations_test {
namespace {

using ops::Verb;

constexpr u32 directory_mode = 040755;

class WarpOperations : public testing::Test {
 protected:
    void SetUp() override {
        if (!has_device()) GTEST_SKIP() << "there is no GPU";
    }
};

bool is_removal(Verb verb) {
    return verb == Verb::unlink || verb == Verb::remove_directory || verb == Verb::rename;
}

Errc expected(DeviceModel& model, const Request& request, const Answer& answer) {
    switch (request.verb) {
        case Verb::lookup:
            return model.lookup(request.directory, request.name);
        case Verb::create:
            return model.create(request.directory, request.name, request.mode == directory_mode,
                                answer.attributes.handle);
        case Verb::link:
            return model.link(request.target, request.directory, request.name);
        case Verb::rename:
            return model.rename(request.directory, request.name, request.target, request.new_name);
        case Verb::unlink:
        case Verb::remove_directory:
            return model.remove(request.directory, request.name,
                                request.verb == Verb::remove_directory);
        default:
            return Errc::ok;
    }
}

/// A volume in device memory, its model, and the disk below it.
class Pair {
 public:
    explicit Pair(u64 size_bytes, bool keeps_journal_room = false, Launch launch = {})
        : disk_(make_memory_disk(size_bytes)),
          device(*disk_, keeps_journal_room, launch),
          model(device.root()) {}

    /// Runs requests that are independent of each other and compares every answer. A request may
    /// reuse space that another one frees, so the model removes first.
    void run(const std::vector<Request>& requests) {
        if (testing::Test::HasFailure()) return;
        const std::vector<Answer> answers = device.run(requests);
        for (const bool removals : {true, false}) {
            for (u32 i = 0; i < requests.size(); ++i) {
                if (is_removal(requests[i].verb) != removals) continue;
                const Errc wanted = expected(model, requests[i], answers[i]);
                ASSERT_EQ(answers[i].code, wanted) << requests[i].name;
                ASSERT_EQ(answers[i].orphan.inode, 0u) << requests[i].name;
            }
        }
        for (u32 i = 0; i < requests.size(); ++i) {
            if (requests[i].verb != Verb::lookup || answers[i].code != Errc::ok) continue;
            const Handle found = answers[i].attributes.handle;
            ASSERT_EQ(found, model.at(requests[i].directory, requests[i].name));
            ASSERT_EQ(answers[i].attributes.links, model.links(found)) << requests[i].name;
        }
    }

    /// Makes `count` directories in the root.
    std::vector<Handle> make_directories(const std::string& prefix, u32 count) {
        std::vector<Request> requests;
        for (u32 i = 0; i < count; ++i) {
            requests.push_back({.verb = Verb::create,
                                .directory = device.root(),
                                .name = prefix + std::to_string(i),
                                .mode = directory_mode});
        }
        run(requests);
        std::vector<Handle> handles;
        for (const Request& request : requests)
            handles.push_back(model.at(request.directory, request.name));
        return handles;
    }

    /// Closes the volume: the check finds it clean and the CPU engine finds in it the contents of
    /// the model.
    void close_and_compare() {
        if (testing::Test::HasFailure()) return;  // the device may have stopped in between
        device.close();
        if (!expect_clean(*disk_)) return;
        const auto volume = open_on(*disk_);
        ASSERT_TRUE(volume);
        model.expect_same(*volume);
        expect_counts_agree(*volume);
        EXPECT_EQ(volume->close(), Errc::ok);
    }

 private:
    std::unique_ptr<MemoryDisk> disk_;

 public:
    DeviceVolume device;
    DeviceModel model;
};

std::string name_of(u32 number) {
    return "name-" + std::to_string(number) + std::string(number % 23, 'x');
}

/// One request for each of the first `count` numbered names, spread over the directories.
std::vector<Request> for_names(Verb verb, const std::vector<Handle>& directories, u32 count,
                               u32 step = 1) {
    std::vector<Request> requests;
    for (u32 i = 0; i < count; i += step) {
        requests.push_back(
            {.verb = verb, .directory = directories[i % directories.size()], .name = name_of(i)});
    }
    return requests;
}

void create_look_up_and_unlink(Pair& pair, const std::vector<Handle>& directories, u32 count) {
    pair.run(for_names(Verb::create, directories, count));
    pair.run(for_names(Verb::create, directories, count, 100));
    pair.run(for_names(Verb::lookup, directories, count + count / 10));
    pair.run(for_names(Verb::unlink, directories, count, 2));
    pair.run(for_names(Verb::lookup, directories, count));
    pair.run(for_names(Verb::unlink, directories, count, 10));
}

TEST_F(WarpOperations, AFewNames) {
    Pair pair(16 * mib, false, {.blocks = 8, .warps_per_block = 2});
    const auto directories = pair.make_directories("d", 2);
    create_look_up_and_unlink(pair, directories, 200);
    pair.close_and_compare();
}

TEST_F(WarpOperations, ManyNamesInOneDirectory) {
    Pair pair(256 * mib);
    create_look_up_and_unlink(pair, pair.make_directories("d", 1), 20'000);
    pair.close_and_compare();
    // Warps that find the last metadata block group full at the same moment share the next one.
    EXPECT_LE(pair.device.metadata_frames(), 8u);
}

TEST_F(WarpOperations, ManyNamesInManyDirectories) {
    Pair pair(256 * mib);
    create_look_up_and_unlink(pair, pair.make_directories("d", 100), 20'000);
    pair.close_and_compare();
}

TEST_F(WarpOperations, RenamesAndHardLinks) {
    Pair pair(256 * mib);
    const auto here = pair.make_directories("here", 50);
    const auto there = pair.make_directories("there", 50);
    constexpr u32 count = 10'000;
    pair.run(for_names(Verb::create, here, count));
    std::vector<Request> within = for_names(Verb::rename, here, count, 2);
    for (Request& request : within) {
        request.target = request.directory;
        request.new_name = request.name + ".new";
    }
    pair.run(within);
    std::vector<Request> across;
    std::vector<Request> links;
    for (u32 i = 1; i < count; i += 2) {
        const Handle from = here[i % here.size()];
        const Handle to = there[i * 7 % there.size()];
        across.push_back({Verb::rename, from, name_of(i), to, name_of(i)});
        // Every fourth name is the target of a move, so it is replaced.
        if (i % 4 == 1) links.push_back({Verb::create, to, name_of(i)});
    }
    pair.run(links);
    pair.run(across);
    pair.run(across);  // nothing is there any more
    links.clear();
    for (u32 i = 0; i < count; i += 2) {
        const Handle file = pair.model.at(here[i % here.size()], name_of(i) + ".new");
        links.push_back({Verb::link, there[i % there.size()], "link" + name_of(i), file});
    }
    pair.run(links);
    for (u32 i = 0; i < within.size(); ++i)
        within[i] = {Verb::unlink, within[i].directory, within[i].new_name};
    pair.run(within);
    pair.close_and_compare();
}

TEST_F(WarpOperations, DirectoriesComeMoveAndGo) {
    Pair pair(256 * mib);
    const auto tops = pair.make_directories("top", 20);
    constexpr u32 count = 2'000;
    std::vector<Request> requests = for_names(Verb::create, tops, count);
    for (Request& request : requests)
        request.mode = directory_mode;
    pair.run(requests);
    std::vector<Request> files;
    for (u32 i = 0; i < count; i += 4)
        files.push_back({Verb::create, pair.model.at(tops[i % tops.size()], name_of(i)), "file"});
    pair.run(files);
    pair.run(for_names(Verb::remove_directory, tops, count, 2));  // every other one is not empty
    std::vector<Request> moves;
    for (u32 i = 0; i < count; ++i) {
        moves.push_back({Verb::rename, tops[i % tops.size()], name_of(i),
                         tops[(i + 1 + i % 3) % tops.size()], "moved" + name_of(i)});
    }
    pair.run(moves);
    pair.run(for_names(Verb::remove_directory, tops, count));
    pair.close_and_compare();
}

TEST_F(WarpOperations, AllKindsAtOnce) {
    Pair pair(256 * mib);
    const auto directories = pair.make_directories("d", 7);
    constexpr u32 count = 12'000;
    pair.run(for_names(Verb::create, directories, count));
    for (u32 round = 0; round < 3; ++round) {
        std::vector<Request> requests;
        for (u32 i = 0; i < count; ++i) {
            const Handle directory = directories[i % directories.size()];
            const Handle other = directories[(i + 1 + round) % directories.size()];
            const std::string name = name_of(i);
            const bool is_there = pair.model.lookup(directory, name) == Errc::ok;
            switch ((i / 7 + round) % 5) {
                case 0:
                    requests.push_back({Verb::unlink, directory, name});
                    break;
                case 1:
                    requests.push_back({Verb::create, directory, name});
                    break;
                case 2:
                    requests.push_back(
                        {Verb::rename, directory, name, other, name + std::string(round + 1, 'r')});
                    break;
                case 3:
                    requests.push_back({Verb::create, other, name + ".c" + std::to_string(round)});
                    break;
                default:
                    if (is_there) {
                        requests.push_back({Verb::link, other, name + ".l" + std::to_string(round),
                                            pair.model.at(directory, name)});
                    } else {
                        requests.push_back({Verb::lookup, directory, name});
                    }
            }
        }
        pair.run(requests);
    }
    pair.close_and_compare();
}

/// How many of the answers for name `name` are ok; all others must be `otherwise`.
u32 count_successes(const std::vector<Request>& requests, const std::vector<Answer>& answers,
                    const std::string& name, Errc otherwise) {
    u32 successes = 0;
    for (u32 i = 0; i < requests.size(); ++i) {
        if (requests[i].name != name) continue;
        if (answers[i].code == Errc::ok) {
            ++successes;
        } else {
            EXPECT_EQ(answers[i].code, otherwise) << name;
        }
    }
    return successes;
}

TEST_F(WarpOperations, ContestedNamesGoToOneEach) {
    Pair pair(256 * mib);
    const auto directories = pair.make_directories("d", 1);
    constexpr u32 names = 64;
    for (const u32 mode : {0100644u, directory_mode}) {
        std::vector<Request> requests;
        for (u32 i = 0; i < names * 200; ++i)
            requests.push_back({.verb = Verb::create,
                                .directory = directories[0],
                                .name = name_of(i % names),
                                .mode = mode});
        std::vector<Answer> answers = pair.device.run(requests);
        for (u32 i = 0; i < names; ++i)
            EXPECT_EQ(count_successes(requests, answers, name_of(i), Errc::exists), 1u);
        const Verb removal = mode == directory_mode ? Verb::remove_directory : Verb::unlink;
        for (Request& request : requests)
            request.verb = removal;
        answers = pair.device.run(requests);
        for (u32 i = 0; i < names; ++i)
            EXPECT_EQ(count_successes(requests, answers, name_of(i), Errc::no_entry), 1u);
    }
    pair.close_and_compare();
}

TEST_F(WarpOperations, NoDirectoryMovesBelowItself) {
    Pair pair(64 * mib);
    constexpr u32 pairs = 100;
    const auto left = pair.make_directories("left", pairs);
    const auto right = pair.make_directories("right", pairs);
    std::vector<Request> requests;
    for (u32 i = 0; i < pairs; ++i) {
        const std::string number = std::to_string(i);
        const Handle root = pair.device.root();
        requests.push_back({Verb::rename, root, "left" + number, right[i], "inner"});
        requests.push_back({Verb::rename, root, "right" + number, left[i], "inner"});
    }
    const std::vector<Answer> answers = pair.device.run(requests);
    for (u32 i = 0; i < requests.size(); i += 2) {
        const u32 won = answers[i].code == Errc::ok ? i : i + 1;
        EXPECT_EQ(answers[won].code, Errc::ok);
        EXPECT_EQ(answers[won ^ 1].code, Errc::invalid);
        EXPECT_EQ(expected(pair.model, requests[won], answers[won]), Errc::ok);
    }
    pair.close_and_compare();
}

TEST_F(WarpOperations, FullJournalIsCommittedBetweenRuns) {
    Pair pair(64 * mib, true);
    const auto directories = pair.make_directories("d", 30);
    create_look_up_and_unlink(pair, directories, 10'000);
    EXPECT_GT(pair.device.commits(), 1u);
    pair.close_and_compare();
}

TEST_F(WarpOperations, AttributesLeavesAndSizes) {
    Pair pair(64 * mib);
    const auto directories = pair.make_directories("d", 1);
    constexpr u32 count = 1'000;
    std::vector<Request> requests = for_names(Verb::create, directories, count);
    pair.run(requests);
    std::set<u64> numbers;
    for (Request& request : requests) {
        const Handle file = pair.model.at(request.directory, request.name);
        numbers.insert(file.inode);
        const AttributeChange change{.which = AttributeChange::mode, .new_mode = 0600};
        request = {.verb = Verb::set_attributes, .directory = file, .change = change};
    }
    for (const Answer& answer : pair.device.run(requests)) {
        ASSERT_EQ(answer.code, Errc::ok);
        ASSERT_EQ(answer.attributes.mode, 0100600u);
    }
    for (u32 i = 0; i < count; ++i) {
        requests[i].verb = Verb::truncate;
        requests[i].from = i * 100;
    }
    for (const Answer& answer : pair.device.run(requests))
        ASSERT_EQ(answer.code, Errc::ok);
    std::set<u64> listed;
    for (u64 key = 0; key != core::key_end;) {
        const auto answers =
            pair.device.run({{.verb = Verb::read_leaf, .directory = directories[0], .from = key}});
        ASSERT_EQ(answers[0].code, Errc::ok);
        for (const format::DirectorySlot& slot : pair.device.leaf().slots) {
            if (slot.inode() != 0) EXPECT_TRUE(listed.insert(slot.inode()).second);
        }
        key = answers[0].value;
    }
    EXPECT_EQ(listed, numbers);
    pair.close_and_compare();
}

}  // namespace
}  // namespace warren::warp_operations_test
