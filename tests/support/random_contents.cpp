// SPDX-License-Identifier: Apache-2.0
// The random driver's operations on inodes: attributes, opens, contents, extended attributes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/support/random_operations.hpp"

namespace warren {
namespace {

constexpr i64 time_now = INT64_MIN;

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

std::string range_text(u64 offset, u64 length) {
    return " [" + std::to_string(offset) + ", +" + std::to_string(length) + ")";
}

/// The bytes from `offset` on of one of several endless texts, which have 32 blocks over and over.
void repeat_text(u64 text, u64 offset, std::span<std::byte> bytes) {
    constexpr u64 period = 32 * 4096;
    for (u64 i = 0; i < bytes.size(); ++i) {
        const u64 at = (offset + i) % period;
        bytes[i] = static_cast<std::byte>(Random(text * period + at / 8).next() >> at % 8 * 8);
    }
}

}  // namespace

u64 RandomOperations::pick_offset() {
    const u64 choice = random_.below(20);
    if (choice < 8) return random_.below(200);
    if (choice < 11) return random_.below(16) * 4096 + random_.below(3) - 1 + (choice == 10);
    if (choice < 16 || !plan_.large_files) return random_.below(64 * kib);
    if (choice < 18) return random_.below(4 * mib);
    if (choice == 18 || !plan_.errors) return random_.below(tib);
    return (u64{1} << 60) - random_.below(20'000);
}

u64 RandomOperations::pick_length() {
    const u64 choice = random_.below(20);
    if (choice < 9) return 1 + random_.below(150);
    if (choice < 15) return 1 + random_.below(9000);
    if (choice < 17) return 4096 * (1 + random_.below(4));
    return 1 + random_.below(plan_.large_files && choice == 19 ? 400 * kib : 60 * kib);
}

/// The bytes to write at byte `offset` of a file.
std::vector<std::byte> RandomOperations::pick_bytes(u64 offset) {
    if (plan_.repeats && chance(2)) {
        std::vector<std::byte> bytes(32 * kib + random_.below(100 * kib));
        repeat_text(random_.below(4), offset + 4096 * random_.below(32), bytes);
        return bytes;
    }
    std::vector<std::byte> bytes(pick_length());
    if (chance(10)) return bytes;  // zeros, which must not read as old data
    for (u64 i = 0; i < bytes.size(); i += 8) {
        const u64 word = random_.next();
        std::memcpy(bytes.data() + i, &word, std::min<u64>(8, bytes.size() - i));
    }
    return bytes;
}

/// Contents may be accessed only in open files. Returns false if the file cannot be opened.
bool RandomOperations::open_for(u64 number, bool& must_release) {
    must_release = std::find(opens_.begin(), opens_.end(), number) == opens_.end();
    if (!must_release) return true;
    begin("open " + name_of(number));
    const Errc found = volume_->open_file(real(number));
    end();
    expect_code(found, model_.open_file(model(number)));
    return !failed_ && found == Errc::ok;
}

void RandomOperations::close_after(u64 number, bool must_release) {
    if (failed_ || !must_release) return;
    begin("release " + name_of(number));
    const Errc found = volume_->release(real(number));
    end();
    expect_code(found, model_.release(model(number)));
}

void RandomOperations::do_read_link() {
    const u64 number = pick_inode();
    begin("readlink " + name_of(number));
    const Result<std::string> found = volume_->read_link(real(number));
    end();
    const Result<std::string> wanted = model_.read_link(model(number));
    expect_code(found.code(), wanted.code());
    if (!failed_ && found && *found != *wanted) fail("answers another target");
}

void RandomOperations::do_attributes() {
    const u64 number = pick_inode();
    const Hold hold = plan_.opens && chance(10) ? Hold::yes : Hold::no;
    begin("stat " + name_of(number));
    const auto found = volume_->attributes(real(number), hold);
    end();
    expect_inode(found, model_.attributes(model(number)), hold);
    if (failed_ || !found) return;
    const Result<Handle> handle = volume_->handle_of(found->handle.inode);
    if (!handle || *handle != found->handle) fail("handle_of answers another handle");
}

AttributeChange RandomOperations::pick_change() {
    constexpr u32 users[] = {0, 1000, 1001, 1002};
    constexpr u32 groups[] = {0, 100, 200, 300};
    const auto time = [&]() -> i64 {
        return chance(2) ? time_now : static_cast<i64>(random_.next() >> random_.below(30));
    };
    AttributeChange change;
    if (chance(2)) change.which |= AttributeChange::mode;
    if (chance(6)) change.which |= AttributeChange::user;
    if (chance(5)) change.which |= AttributeChange::group;
    if (chance(4)) change.which |= AttributeChange::accessed;
    if (chance(4)) change.which |= AttributeChange::modified;
    if (chance(15)) change.which |= AttributeChange::changed;
    change.new_mode = pick_permissions();
    change.new_user = plan_.errors && chance(20) ? ~u32{0} : users[random_.below(4)];
    change.new_group = plan_.errors && chance(20) ? ~u32{0} : groups[random_.below(4)];
    change.new_accessed = time();
    change.new_modified = time();
    change.new_changed = time();
    return change;
}

void RandomOperations::do_set_attributes() {
    const Caller& caller = pick_caller();
    const u64 number = pick_inode();
    AttributeChange change = pick_change();
    // If no caller could search the root, all further operations would fail.
    if (number == ModelFileSystem::root_number) change.which &= ~u32{AttributeChange::mode};
    begin("setattr " + name_of(number) + " which " + std::to_string(change.which) + " mode " +
          std::to_string(change.new_mode) + " user " + std::to_string(change.new_user) + " group " +
          std::to_string(change.new_group) + " by " + std::to_string(caller.user));
    const auto found = volume_->set_attributes(caller, real(number), change);
    end();
    expect_inode(found, model_.set_attributes(caller, model(number), change));
}

void RandomOperations::do_resize() {
    const Caller& caller = pick_caller();
    const u64 number = chance(8) ? pick_inode() : pick_open_file();
    bool must_release = false;
    if (!open_for(number, must_release)) return;
    AttributeChange change;
    change.which = AttributeChange::size;
    change.new_size = chance(4) ? 0 : pick_offset();
    if (plan_.errors && chance(30)) change.new_size = (u64{1} << 60) + 1;
    begin("truncate " + name_of(number) + " to " + std::to_string(change.new_size) + " by " +
          std::to_string(caller.user));
    const auto found = volume_->set_attributes(caller, real(number), change);
    end();
    expect_inode(found, model_.set_attributes(caller, model(number), change));
    close_after(number, must_release);
}

void RandomOperations::do_check_access() {
    const Caller& caller = pick_caller();
    const u64 number = pick_inode();
    const u32 mask = static_cast<u32>(random_.below(8));
    begin("access " + name_of(number) + " mask " + std::to_string(mask) + " by " +
          std::to_string(caller.user));
    const Errc found = volume_->check_access(caller, real(number), mask);
    end();
    expect_code(found, model_.check_access(caller, model(number), mask));
}

void RandomOperations::do_open() {
    if (opens_.size() >= 20) return;
    const u64 number = pick_inode();
    begin("open " + name_of(number));
    const Errc found = volume_->open_file(real(number));
    end();
    expect_code(found, model_.open_file(model(number)));
    if (found == Errc::ok) opens_.push_back(number);
}

void RandomOperations::do_release() {
    if (opens_.empty()) return;
    const u64 at = random_.below(opens_.size());
    const u64 number = opens_[at];
    opens_.erase(opens_.begin() + static_cast<i64>(at));
    begin("release " + name_of(number));
    const Errc found = volume_->release(real(number));
    end();
    expect_code(found, model_.release(model(number)));
}

void RandomOperations::do_forget() {
    if (held_.empty()) return;
    auto found = held_.begin();
    std::advance(found, static_cast<i64>(random_.below(held_.size())));
    const u64 count = 1 + random_.below(found->second.count);
    begin("forget " + name_of(found->first) + " " + std::to_string(count) + " of " +
          std::to_string(found->second.count));
    volume_->forget(found->second.handle, count);
    found->second.count -= count;
    if (found->second.count > 0) return;
    held_inodes_.erase(found->second.handle.inode);
    held_.erase(found);
}

void RandomOperations::do_read() {
    const u64 number = chance(30) ? pick_inode() : pick_open_file();
    bool must_release = false;
    if (!open_for(number, must_release)) return;
    const u64 offset = pick_offset();
    std::vector<std::byte> found_bytes(pick_length());
    std::vector<std::byte> wanted_bytes(found_bytes.size());
    begin("read " + name_of(number) + range_text(offset, found_bytes.size()));
    const Result<u64> found = volume_->read(real(number), offset, found_bytes);
    end();
    const Result<u64> wanted = model_.read(model(number), offset, wanted_bytes);
    model_.blur_times(model(number));
    expect_code(found.code(), wanted.code());
    if (!failed_ && found) {
        note(*found);
        if (*found != *wanted) {
            fail("reads " + std::to_string(*found) + " bytes, not " + std::to_string(*wanted));
        } else if (std::memcmp(found_bytes.data(), wanted_bytes.data(), *found) != 0) {
            const auto different =
                std::mismatch(found_bytes.begin(), found_bytes.end(), wanted_bytes.begin());
            fail("reads other bytes from offset " +
                 std::to_string(offset + static_cast<u64>(different.first - found_bytes.begin())));
        }
    }
    close_after(number, must_release);
}

void RandomOperations::do_write() {
    const u64 number = chance(30) ? pick_inode() : pick_open_file();
    bool must_release = false;
    if (!open_for(number, must_release)) return;
    const u64 offset = pick_offset();
    const std::vector<std::byte> bytes = pick_bytes(offset);
    begin("write " + name_of(number) + range_text(offset, bytes.size()));
    const Result<u64> found = volume_->write(real(number), offset, bytes);
    end();
    const Result<u64> wanted = model_.write(model(number), offset, bytes);
    expect_code(found.code(), wanted.code());
    if (!failed_ && found && *found != *wanted) fail("writes " + std::to_string(*found));
    close_after(number, must_release);
}

void RandomOperations::do_allocate() {
    const u64 number = chance(30) ? pick_inode() : pick_open_file();
    bool must_release = false;
    if (!open_for(number, must_release)) return;
    const auto how = static_cast<Allocate>(random_.below(5));
    const u64 offset = pick_offset();
    u64 length = pick_length();
    if (how == Allocate::punch_hole && chance(4)) length = random_.below(2 * tib);
    if (plan_.errors && chance(30)) length = 0;
    begin("allocate " + name_of(number) + range_text(offset, length) + " how " +
          std::to_string(static_cast<int>(how)));
    const Errc found = volume_->allocate(real(number), how, offset, length);
    end();
    expect_code(found, model_.allocate(model(number), how, offset, length));
    close_after(number, must_release);
}

void RandomOperations::do_share() {
    const u64 source = chance(10) ? pick_inode() : pick_open_file();
    const u64 target = chance(10) ? pick_inode() : pick_open_file();
    bool must_release_source = false;
    if (!open_for(source, must_release_source)) return;
    bool must_release_target = false;
    if (!open_for(target, must_release_target)) return close_after(source, must_release_source);
    const auto pick_place = [&] {
        const u64 offset = chance(3) ? 0 : pick_offset();
        return plan_.errors && chance(30) ? offset : offset / 4096 * 4096;
    };
    const u64 offset = pick_place();
    const u64 target_offset = pick_place();
    u64 length = chance(2) ? u64{1} << 60 : pick_length();  // to the end of the source, or a part
    if (length < u64{1} << 60 && !(plan_.errors && chance(10))) length = (length / 4096 + 1) * 4096;
    begin("share " + name_of(source) + range_text(offset, length) + " with " + name_of(target) +
          " at " + std::to_string(target_offset));
    const Result<u64> found =
        volume_->share_range(real(source), offset, real(target), target_offset, length);
    end();
    const Result<u64> wanted =
        model_.share_range(model(source), offset, model(target), target_offset, length);
    expect_code(found.code(), wanted.code());
    if (!failed_ && found && *found != *wanted) fail("shares " + std::to_string(*found));
    close_after(source, must_release_source);
    close_after(target, must_release_target);
}

/// Copies a range of the source to the target. Returns false on failure.
bool RandomOperations::copy_bytes(u64 source, u64 offset, u64 target, u64 target_offset,
                                  u64 length) {
    std::vector<std::byte> bytes(length);
    const Result<u64> count = model_.read(model(source), offset, bytes);
    if (!count || *count == 0) return true;
    bytes.resize(*count);
    begin("write " + name_of(target) + range_text(target_offset, bytes.size()) + " as " +
          name_of(source) + " has at " + std::to_string(offset));
    const Result<u64> found = volume_->write(real(target), target_offset, bytes);
    end();
    expect_code(found.code(), model_.write(model(target), target_offset, bytes).code());
    return !failed_;
}

void RandomOperations::do_dedupe() {
    const Caller& caller = pick_caller();
    const u64 source = chance(10) ? pick_inode() : pick_open_file();
    const u64 target = chance(10) ? pick_inode() : pick_open_file();
    bool must_release_source = false;
    if (!open_for(source, must_release_source)) return;
    bool must_release_target = false;
    if (!open_for(target, must_release_target)) return close_after(source, must_release_source);
    const auto pick_place = [&] {
        const u64 offset = chance(3) ? 0 : pick_offset() % (256 * kib);
        return plan_.errors && chance(30) ? offset : offset / 4096 * 4096;
    };
    const u64 offset = pick_place();
    const u64 target_offset = pick_place();
    u64 length = pick_length();
    // Often everything that the source has from there on, up to a limit on the copying.
    const ModelInode* from = model_.find(model(source));
    if (chance(2) && from->size > offset) length = std::min(from->size - offset, 300 * kib);
    if (chance(4) || copy_bytes(source, offset, target, target_offset, length)) {
        begin("dedupe " + name_of(source) + range_text(offset, length) + " with " +
              name_of(target) + " at " + std::to_string(target_offset) + " by " +
              std::to_string(caller.user));
        const Result<Deduped> found = volume_->dedupe_range(caller, real(source), offset,
                                                            real(target), target_offset, length);
        end();
        const Result<Deduped> wanted = model_.dedupe_range(caller, model(source), offset,
                                                           model(target), target_offset, length);
        expect_code(found.code(), wanted.code());
        if (!failed_ && found) {
            note(found->bytes);
            const bool may_be_in_inode = wanted->bytes <= 128;
            const bool is_right =
                found->bytes == wanted->bytes || (may_be_in_inode && found->bytes == 0);
            if (!is_right || found->differs != wanted->differs)
                fail("shares " + std::to_string(found->bytes) +
                     (found->differs ? ", differs" : ""));
        }
    }
    close_after(source, must_release_source);
    close_after(target, must_release_target);
}

void RandomOperations::do_seek() {
    const u64 number = chance(30) ? pick_inode() : pick_open_file();
    bool must_release = false;
    if (!open_for(number, must_release)) return;
    const u64 offset = pick_offset();
    const Seek whence = chance(2) ? Seek::data : Seek::hole;
    begin("seek " + name_of(number) + " " + std::to_string(offset) + " whence " +
          std::to_string(static_cast<int>(whence)));
    const Result<u64> found = volume_->seek(real(number), offset, whence);
    end();
    // Which of the repeated blocks become holes depends on what deduplication has read by then.
    if (!plan_.repeats) note(found ? *found : static_cast<u64>(found.code()));
    if (!model_.is_right_seek(model(number), offset, whence, found)) {
        fail("answers code " + std::to_string(static_cast<int>(found.code())) + " offset " +
             std::to_string(*found));
    }
    close_after(number, must_release);
}

std::string RandomOperations::pick_attribute_name() {
    const std::string good[] = {"user.a",
                                "user.b",
                                "user.c",
                                "trusted.x",
                                "security.y",
                                "security.capability",
                                std::string(access_acl),
                                std::string(default_acl),
                                "user." + std::string(250, 'n')};
    if (plan_.errors && chance(15)) {
        const std::string bad[] = {"",
                                   "user.",
                                   "trusted.",
                                   "other.z",
                                   "user." + std::string(251, 'm'),
                                   "system.posix_acl",
                                   std::string("user.\0", 6)};
        return bad[random_.below(std::size(bad))];
    }
    return good[random_.below(std::size(good))];
}

/// A list that is usually valid.
std::string RandomOperations::pick_acl() {
    ModelAcl acl;
    const auto add = [&](u32 tag, u32 id) {
        acl.entries.push_back({tag, static_cast<u32>(random_.below(8)), id});
    };
    const u64 names = random_.below(4);
    add(ModelAcl::user_object, ~u32{0});
    for (u64 i = 0; i < names; ++i)
        add(ModelAcl::user, 1000 + static_cast<u32>(i));
    add(ModelAcl::group_object, ~u32{0});
    for (u64 i = 0; i < names / 2; ++i)
        add(ModelAcl::group, 100 + 100 * static_cast<u32>(i));
    if (names > 0 || chance(2)) add(ModelAcl::mask, ~u32{0});
    add(ModelAcl::other, ~u32{0});
    if (plan_.errors && chance(6)) {
        acl.entries.erase(acl.entries.begin() +
                          static_cast<i64>(random_.below(acl.entries.size())));
    }
    std::string value = acl.value();
    if (plan_.errors && chance(15)) value[random_.below(value.size())] ^= 1;
    if (plan_.errors && chance(20)) value.pop_back();
    if (chance(20)) value = chance(2) ? std::string() : std::string("\2\0\0\0", 4);
    return value;
}

void RandomOperations::do_get_attribute() {
    const u64 number = pick_inode();
    const std::string name = pick_attribute_name();
    std::vector<std::byte> found_bytes(chance(3) ? 0 : chance(3) ? 1 + random_.below(40) : 5000);
    std::vector<std::byte> wanted_bytes(found_bytes.size());
    begin("getxattr " + name_of(number) + " " + printable_name(name) + " into " +
          std::to_string(found_bytes.size()));
    const Result<u64> found = volume_->get_attribute(real(number), name, found_bytes);
    end();
    const Result<u64> wanted = model_.get_attribute(model(number), name, wanted_bytes);
    expect_code(found.code(), wanted.code());
    if (failed_ || !found) return;
    if (*found != *wanted) return fail("answers another length");
    if (!found_bytes.empty() && std::memcmp(found_bytes.data(), wanted_bytes.data(), *found) != 0) {
        fail("answers another value");
    }
}

void RandomOperations::do_set_attribute() {
    const Caller& caller = pick_caller();
    const u64 number = pick_inode();
    const std::string name = pick_attribute_name();
    const bool is_acl = name == access_acl || name == default_acl;
    u64 length = random_.below(40);
    if (chance(8)) length = random_.below(2500);
    if (chance(20)) length = 3500 + random_.below(700);
    std::string value(length, static_cast<char>('A' + random_.below(26)));
    if (is_acl && !chance(20)) value = pick_acl();
    const auto how = static_cast<AttributeSet>(chance(2) ? 0 : random_.below(3));
    begin("setxattr " + name_of(number) + " " + printable_name(name) + " " +
          std::to_string(value.size()) + " bytes how " + std::to_string(static_cast<int>(how)) +
          " by " + std::to_string(caller.user));
    const Errc found = volume_->set_attribute(caller, real(number), name, bytes_of(value), how);
    end();
    expect_code(found, model_.set_attribute(caller, model(number), name, bytes_of(value), how));
}

void RandomOperations::do_remove_attribute() {
    const Caller& caller = pick_caller();
    const u64 number = pick_inode();
    const std::string name = pick_attribute_name();
    begin("removexattr " + name_of(number) + " " + printable_name(name) + " by " +
          std::to_string(caller.user));
    const Errc found = volume_->remove_attribute(caller, real(number), name);
    end();
    expect_code(found, model_.remove_attribute(caller, model(number), name));
}

}  // namespace warren
