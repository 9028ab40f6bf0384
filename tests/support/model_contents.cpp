// SPDX-License-Identifier: Apache-2.0
// Attributes and contents of the model. A file is a map of pages; missing pages read as zeros.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/support/model_file_system.hpp"

namespace warren {
namespace {

constexpr u64 page_bytes = sizeof(ModelPage);
constexpr u64 file_bytes_max = u64{1} << 60;
constexpr i64 time_now = INT64_MIN;
constexpr u32 id_none = ~u32{0};

bool has(const AttributeChange& change, u32 what) {
    return (change.which & what) != 0;
}

/// Whether a change does no more than utimes(path, NULL).
bool is_touch(const AttributeChange& change) {
    return has(change, AttributeChange::accessed) && has(change, AttributeChange::modified) &&
           !has(change, AttributeChange::changed) && change.new_accessed == time_now &&
           change.new_modified == time_now;
}

Errc check_owners(const Caller& caller, const ModelInode& inode, const AttributeChange& change) {
    if (is_privileged(caller)) return Errc::ok;
    const bool owns = caller.user == inode.user;
    if (has(change, AttributeChange::user) && (!owns || change.new_user != inode.user)) {
        return Errc::not_permitted;
    }
    if (!has(change, AttributeChange::group)) return Errc::ok;
    const bool may = change.new_group == inode.group || is_in_group(caller, change.new_group);
    return owns && may ? Errc::ok : Errc::not_permitted;
}

u32 mode_after(const Caller& caller, const ModelInode& inode, const AttributeChange& change) {
    const bool privileged = is_privileged(caller);
    if (has(change, AttributeChange::mode)) {
        const u32 group = has(change, AttributeChange::group) ? change.new_group : inode.group;
        u32 bits = change.new_mode & 07777;
        if (!privileged && !is_in_group(caller, group)) bits &= ~u32{02000};
        return (inode.mode & ~u32{07777}) | bits;
    }
    const bool moves = has(change, AttributeChange::user | AttributeChange::group);
    if (!moves || is_mode_of(inode.mode, directory_mode)) return inode.mode;
    u32 mode = inode.mode & ~u32{04000};
    if ((mode & 010) != 0 || (!privileged && !is_in_group(caller, inode.group))) {
        mode &= ~u32{02000};
    }
    return mode;
}

}  // namespace

Result<Attributes> ModelFileSystem::attributes(Handle handle) const {
    if (find(handle) == nullptr) return Errc::stale;
    return describe(handle.inode);
}

Errc ModelFileSystem::check_access(const Caller& caller, Handle handle, u32 mask) const {
    if (find(handle) == nullptr) return Errc::stale;
    return allows(caller, handle.inode, mask) ? Errc::ok : Errc::access;
}

Errc ModelFileSystem::open_file(Handle handle) {
    if (find(handle) == nullptr) return Errc::stale;
    ++at(handle.inode).opens;
    return Errc::ok;
}

Errc ModelFileSystem::release(Handle handle) {
    if (find(handle) == nullptr) return Errc::stale;
    if (at(handle.inode).opens == 0) return Errc::bad_handle;
    --at(handle.inode).opens;
    erase_if_unused(handle.inode);
    return Errc::ok;
}

void ModelFileSystem::release_all() {
    for (auto next = inodes_.begin(); next != inodes_.end();) {
        const auto inode = next++;
        inode->second.opens = 0;
        erase_if_unused(inode->first);
    }
}

Errc ModelFileSystem::check_change(const Caller& caller, Handle handle,
                                   const AttributeChange& change) const {
    const ModelInode& inode = at(handle.inode);
    if (has(change, AttributeChange::user) && change.new_user == id_none) return Errc::invalid;
    if (has(change, AttributeChange::group) && change.new_group == id_none) return Errc::invalid;
    if (has(change, AttributeChange::mode) && is_mode_of(inode.mode, symlink_mode)) {
        return Errc::not_supported;
    }
    WARREN_TRY(check_owners(caller, inode, change));
    if (acts_as_owner(caller, inode.user)) return Errc::ok;
    if (has(change, AttributeChange::mode)) return Errc::not_permitted;
    constexpr u32 times =
        AttributeChange::accessed | AttributeChange::modified | AttributeChange::changed;
    if (!has(change, times)) return Errc::ok;
    if (!is_touch(change)) return Errc::not_permitted;
    return allows(caller, handle.inode, 2) ? Errc::ok : Errc::access;
}

Result<Attributes> ModelFileSystem::set_attributes(const Caller& caller, Handle handle,
                                                   const AttributeChange& change) {
    if (find(handle) == nullptr) return Errc::stale;
    ModelInode& inode = at(handle.inode);
    if (change.which == 0) return describe(handle.inode);
    AttributeChange rest = change;
    rest.which &= ~u32{AttributeChange::size};
    if (has(change, AttributeChange::size)) {
        if (!allows(caller, handle.inode, 2)) return Errc::access;
        if (change.new_size > file_bytes_max) return Errc::file_too_big;
        const Result<ModelInode*> file = find_content(handle);
        if (!file) return file.code();
    }
    if (rest.which != 0) WARREN_TRY(check_change(caller, handle, rest));
    if (has(change, AttributeChange::size)) truncate(inode, change.new_size);
    if (rest.which == 0) return describe(handle.inode);

    const auto time = [&](i64 wanted) {
        return wanted == time_now ? now_ : ModelTime{wanted, wanted};
    };
    inode.mode = mode_after(caller, inode, rest);
    if (has(rest, AttributeChange::user)) inode.user = rest.new_user;
    if (has(rest, AttributeChange::group)) inode.group = rest.new_group;
    if (has(rest, AttributeChange::accessed)) inode.times.accessed = time(rest.new_accessed);
    if (has(rest, AttributeChange::modified)) inode.times.modified = time(rest.new_modified);
    const ModelTime changed = has(rest, AttributeChange::changed) ? time(rest.new_changed) : now_;
    // A small difference is not a step back of the time; a large one means that the clock was set
    // back.
    constexpr u64 little = u64{300} * 1'000'000'000;
    const ModelTime had = inode.times.changed;
    const bool is_late =
        changed.latest < had.earliest &&
        static_cast<u64>(had.earliest) - static_cast<u64>(changed.latest) <= little;
    if (!is_late) inode.times.changed = changed;
    if (has(rest, AttributeChange::user | AttributeChange::group) &&
        !is_mode_of(inode.mode, directory_mode)) {
        inode.attributes.erase("security.capability");
    }
    const auto acl = inode.attributes.find(access_acl);
    if (has(rest, AttributeChange::mode) && acl != inode.attributes.end()) {
        ModelAcl list;
        static_cast<void>(ModelAcl::parse(acl->second, list));
        list.set_mode(inode.mode);
        acl->second = list.value();
    }
    return describe(handle.inode);
}

Result<ModelInode*> ModelFileSystem::find_content(Handle file) {
    if (find(file) == nullptr) return Errc::stale;
    ModelInode& inode = at(file.inode);
    if (is_mode_of(inode.mode, directory_mode)) return Errc::is_directory;
    if (!is_mode_of(inode.mode, regular_mode)) return Errc::invalid;
    return &inode;
}

void ModelFileSystem::zero_bytes(ModelInode& inode, u64 begin, u64 end) {
    auto page = inode.pages.lower_bound(begin / page_bytes);
    while (page != inode.pages.end() && page->first * page_bytes < end) {
        const u64 start = page->first * page_bytes;
        const u64 from = std::max(begin, start) - start;
        const u64 to = std::min(end, start + page_bytes) - start;
        std::memset(page->second.data() + from, 0, to - from);
        page = to - from == page_bytes ? inode.pages.erase(page) : std::next(page);
    }
}

void ModelFileSystem::touch_contents(ModelInode& inode) {
    inode.times.modified = now_;
    inode.times.changed = now_;
}

void ModelFileSystem::truncate(ModelInode& inode, u64 size) {
    if (size < inode.size) zero_bytes(inode, size, inode.size);
    inode.size = size;
    touch_contents(inode);
}

Result<u64> ModelFileSystem::read(Handle file, u64 offset, std::span<std::byte> target) {
    const Result<ModelInode*> inode = find_content(file);
    if (!inode) return inode.code();
    const u64 size = (*inode)->size;
    if (offset >= size) return u64{0};
    target = target.first(std::min<u64>(target.size(), size - offset));
    for (u64 done = 0; done < target.size();) {
        const u64 within = (offset + done) % page_bytes;
        const u64 length = std::min(page_bytes - within, target.size() - done);
        const auto page = (*inode)->pages.find((offset + done) / page_bytes);
        if (page == (*inode)->pages.end()) {
            std::memset(target.data() + done, 0, length);
        } else {
            std::memcpy(target.data() + done, page->second.data() + within, length);
        }
        done += length;
    }
    return u64{target.size()};
}

Result<u64> ModelFileSystem::write(Handle file, u64 offset, std::span<const std::byte> source) {
    if (offset > file_bytes_max || source.size() > file_bytes_max - offset) {
        return Errc::file_too_big;
    }
    const Result<ModelInode*> found = find_content(file);
    if (!found) return found.code();
    if (source.empty()) return u64{0};
    ModelInode& inode = **found;
    for (u64 done = 0; done < source.size();) {
        const u64 within = (offset + done) % page_bytes;
        const u64 length = std::min(page_bytes - within, source.size() - done);
        const auto page = inode.pages.try_emplace((offset + done) / page_bytes).first;
        std::memcpy(page->second.data() + within, source.data() + done, length);
        done += length;
    }
    inode.size = std::max<u64>(inode.size, offset + source.size());
    touch_contents(inode);
    return u64{source.size()};
}

Errc ModelFileSystem::allocate(Handle file, Allocate how, u64 offset, u64 length) {
    if (length == 0) return Errc::invalid;
    if (offset > file_bytes_max || length > file_bytes_max - offset) return Errc::file_too_big;
    const Result<ModelInode*> found = find_content(file);
    if (!found) return found.code();
    ModelInode& inode = **found;
    const bool grows = how == Allocate::reserve || how == Allocate::zero_range;
    const bool zeroes = how != Allocate::reserve && how != Allocate::reserve_keep_size;
    if (zeroes) zero_bytes(inode, offset, offset + length);
    if (grows) inode.size = std::max(inode.size, offset + length);
    // If nothing changed the volume need not set the times.
    blur_times(file);
    return Errc::ok;
}

namespace {

/// Whether ranges of this length at both offsets have a page in common.
bool pages_overlap(u64 offset, u64 other, u64 length) {
    const u64 low = std::min(offset, other) / page_bytes;
    const u64 high = std::max(offset, other) / page_bytes;
    return length > 0 && high - low < (length + page_bytes - 1) / page_bytes;
}

}  // namespace

Result<u64> ModelFileSystem::share_range(Handle source, u64 offset, Handle target,
                                         u64 target_offset, u64 length) {
    const Result<ModelInode*> from = find_content(source);
    if (!from) return from.code();
    const Result<ModelInode*> to = find_content(target);
    if (!to) return to.code();
    if ((offset | target_offset) % page_bytes != 0) return Errc::invalid;
    if (offset >= (*from)->size) return u64{0};
    length = std::min(length, (*from)->size - offset);
    if (target_offset > file_bytes_max || length > file_bytes_max - target_offset) {
        return Errc::file_too_big;
    }
    const u64 end = target_offset + length;
    const bool ends_files = offset + length == (*from)->size && end >= (*to)->size;
    if (length % page_bytes != 0 && !ends_files) return Errc::invalid;
    if (*from == *to && pages_overlap(offset, target_offset, length)) return Errc::invalid;
    zero_bytes(**to, target_offset, end);
    auto page = (*from)->pages.lower_bound(offset / page_bytes);
    for (; page != (*from)->pages.end() && page->first * page_bytes < offset + length; ++page) {
        const u64 number = page->first - offset / page_bytes + target_offset / page_bytes;
        (*to)->pages[number] = page->second;
    }
    (*to)->size = std::max((*to)->size, end);
    if (length > 0) touch_contents(**to);
    return length;
}

Result<Deduped> ModelFileSystem::dedupe_range(const Caller& caller, Handle source, u64 offset,
                                              Handle target, u64 target_offset, u64 length) {
    WARREN_TRY(check_access(caller, source, 4));
    if (find(target) == nullptr) return Errc::stale;
    const bool is_permitted =
        acts_as_owner(caller, at(target.inode).user) || allows(caller, target.inode, 2);
    if (!is_permitted) return Errc::not_permitted;
    const Result<ModelInode*> from = find_content(source);
    if (!from) return from.code();
    const Result<ModelInode*> to = find_content(target);
    if (!to) return to.code();
    if ((offset | target_offset) % page_bytes != 0) return Errc::invalid;
    if (offset + length < offset || offset + length > (*from)->size) return Errc::invalid;
    if (target_offset + length < length || target_offset + length > (*to)->size) {
        return Errc::invalid;
    }
    if (*from == *to && pages_overlap(offset, target_offset, length)) return Errc::invalid;
    length = std::min(length, dedupe_bytes_max);
    const bool ends_files =
        offset + length == (*from)->size && target_offset + length == (*to)->size;
    if (!ends_files) length = length / page_bytes * page_bytes;
    std::array<std::byte, page_bytes> bytes;
    std::array<std::byte, page_bytes> others;
    for (u64 done = 0; done < length; done += page_bytes) {
        const u64 count = std::min(page_bytes, length - done);
        static_cast<void>(read(source, offset + done, std::span(bytes).first(count)));
        static_cast<void>(read(target, target_offset + done, std::span(others).first(count)));
        if (std::memcmp(bytes.data(), others.data(), count) != 0) return Deduped{0, true};
    }
    return Deduped{length, false};
}

bool ModelFileSystem::is_zero(const ModelInode& inode, u64 begin, u64 end) {
    auto page = inode.pages.lower_bound(begin / page_bytes);
    for (; page != inode.pages.end() && page->first * page_bytes < end; ++page) {
        const u64 start = page->first * page_bytes;
        const auto from = page->second.begin() + static_cast<i64>(std::max(begin, start) - start);
        const auto to =
            page->second.begin() + static_cast<i64>(std::min(end, start + page_bytes) - start);
        if (std::any_of(from, to, [](std::byte byte) { return byte != std::byte{0}; }))
            return false;
    }
    return true;
}

bool ModelFileSystem::is_right_seek(Handle file, u64 offset, Seek whence,
                                    const Result<u64>& answer) const {
    const ModelInode* inode = find(file);
    if (inode == nullptr) return answer.code() == Errc::stale;
    if (is_mode_of(inode->mode, directory_mode)) return answer.code() == Errc::is_directory;
    if (!is_mode_of(inode->mode, regular_mode)) return answer.code() == Errc::invalid;
    if (offset >= inode->size) return answer.code() == Errc::no_such_address;
    if (whence == Seek::data) {
        if (!answer) {
            return answer.code() == Errc::no_such_address && is_zero(*inode, offset, inode->size);
        }
        return *answer >= offset && *answer < inode->size && is_zero(*inode, offset, *answer);
    }
    if (!answer || *answer < offset || *answer > inode->size) return false;
    const u64 end = std::min(inode->size, (*answer / page_bytes + 1) * page_bytes);
    return *answer == inode->size || is_zero(*inode, *answer, end);
}

Result<u64> ModelFileSystem::get_attribute(Handle handle, std::string_view name,
                                           std::span<std::byte> target) const {
    WARREN_TRY(check_attribute_name(name));
    const ModelInode* inode = find(handle);
    if (inode == nullptr) return Errc::stale;
    const bool is_acl = name == access_acl || name == default_acl;
    if (is_acl && is_mode_of(inode->mode, symlink_mode)) return Errc::not_supported;
    const auto found = inode->attributes.find(name);
    if (found == inode->attributes.end()) return Errc::no_data;
    const std::string& value = found->second;
    if (target.empty()) return u64{value.size()};
    if (value.size() > target.size()) return Errc::out_of_range;
    std::memcpy(target.data(), value.data(), value.size());
    return u64{value.size()};
}

/// Whether the caller may set or remove an attribute other than a list.
Errc ModelFileSystem::check_attribute_write(const Caller& caller, Handle handle,
                                            std::string_view name) const {
    const ModelInode& inode = at(handle.inode);
    if (!name.starts_with("user.")) {
        return is_privileged(caller) ? Errc::ok : Errc::not_permitted;
    }
    const bool is_directory = is_mode_of(inode.mode, directory_mode);
    if (!is_directory && !is_mode_of(inode.mode, regular_mode)) return Errc::not_permitted;
    const bool is_sticky = is_directory && (inode.mode & 01000) != 0;
    if (is_sticky && !acts_as_owner(caller, inode.user)) return Errc::not_permitted;
    return allows(caller, handle.inode, 2) ? Errc::ok : Errc::access;
}

Errc ModelFileSystem::set_acl(const Caller& caller, ModelInode& inode, std::string_view name,
                              std::string value) {
    const bool is_access = name == access_acl;
    const bool is_none = value.empty() || value == std::string_view("\2\0\0\0", 4);
    const bool is_symlink = is_mode_of(inode.mode, symlink_mode);
    if (!is_access && !is_symlink && !is_mode_of(inode.mode, directory_mode)) {
        return is_none ? Errc::ok : Errc::access;
    }
    if (is_symlink) return Errc::not_supported;
    if (!acts_as_owner(caller, inode.user)) return Errc::not_permitted;
    ModelAttributes after = inode.attributes;
    u32 mode = inode.mode;
    const auto old = after.find(name);
    if (is_none && old == after.end()) return Errc::ok;
    if (old != after.end()) after.erase(old);
    if (!is_none) {
        ModelAcl acl;
        WARREN_TRY(ModelAcl::parse(value, acl));
        // A subdirectory inherits the list twice.
        if (!is_access) {
            WARREN_TRY(check_attribute_space(
                {{std::string(access_acl), value}, {std::string(default_acl), value}}));
        }
        if (is_access) {
            mode = (mode & ~u32{0777}) | acl.mode();
            if (!is_privileged(caller) && !is_in_group(caller, inode.group)) mode &= ~u32{02000};
        }
        if (!is_access || !acl.is_plain()) after.emplace(name, std::move(value));
    }
    WARREN_TRY(check_attribute_space(after));
    inode.attributes = std::move(after);
    inode.mode = mode;
    inode.times.changed = now_;
    return Errc::ok;
}

Errc ModelFileSystem::set_attribute(const Caller& caller, Handle handle, std::string_view name,
                                    std::span<const std::byte> value, AttributeSet how) {
    WARREN_TRY(check_attribute_name(name));
    if (find(handle) == nullptr) return Errc::stale;
    ModelInode& inode = at(handle.inode);
    const std::string text(reinterpret_cast<const char*>(value.data()), value.size());
    if (text.size() > 4032) return Errc::no_space;
    if (name == access_acl || name == default_acl) return set_acl(caller, inode, name, text);
    WARREN_TRY(check_attribute_write(caller, handle, name));
    const bool is_there = inode.attributes.contains(name);
    if (how == AttributeSet::create && is_there) return Errc::exists;
    if (how == AttributeSet::replace && !is_there) return Errc::no_data;
    ModelAttributes after = inode.attributes;
    after.insert_or_assign(std::string(name), text);
    WARREN_TRY(check_attribute_space(after));
    inode.attributes = std::move(after);
    inode.times.changed = now_;
    return Errc::ok;
}

Errc ModelFileSystem::remove_attribute(const Caller& caller, Handle handle, std::string_view name) {
    WARREN_TRY(check_attribute_name(name));
    if (find(handle) == nullptr) return Errc::stale;
    ModelInode& inode = at(handle.inode);
    if (name == access_acl || name == default_acl) return set_acl(caller, inode, name, {});
    WARREN_TRY(check_attribute_write(caller, handle, name));
    const auto found = inode.attributes.find(name);
    if (found == inode.attributes.end()) return Errc::no_data;
    inode.attributes.erase(found);
    inode.times.changed = now_;
    return Errc::ok;
}

}  // namespace warren
