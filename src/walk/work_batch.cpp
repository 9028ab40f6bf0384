// SPDX-License-Identifier: Apache-2.0
// A path is written from the root down. An item whose path is too long for a work batch is not
// given away.
#include "walk/work_batch.hpp"

#include <algorithm>

namespace warren::walk {

namespace {

constexpr size_t least_directory_bytes = 2;  // the length of its name, and no identity
constexpr size_t item_bytes = 128;           // upper limit for the numbers of an item and its group

/// The flags with which an item begins; a zero byte ends a group.
constexpr u8 is_item = 0x80;
constexpr u8 is_same_directory = 0x40;  // the directory of the previous item
constexpr u8 has_result = 0x20;
constexpr u8 work_mask = 0x0f;

enum class IdentityForm : u8 { none, inode, device_and_inode };

}  // namespace

void learn_identity(Node& node) {
    std::lock_guard lock(node.mutex);
    if (node.has_identity || node.descriptor < 0) return;
    node.has_identity = identify(node.descriptor, node.identity);
}

void put_lease(ByteWriter& writer, u64 lease) {
    writer.put_number(lease >> lease_rank_shift);
    writer.put_number(lease & ((u64{1} << lease_rank_shift) - 1));
}

u64 get_lease(ByteReader& reader) {
    const u64 rank = reader.get_number();
    return rank << lease_rank_shift | reader.get_number();
}

void put_owner(ByteWriter& writer, const Owner& owner) {
    writer.put_number(owner.rank);
    put_lease(writer, owner.lease);
}

Owner get_owner(ByteReader& reader) {
    const auto rank = static_cast<u32>(reader.get_number());
    return {rank, get_lease(reader)};
}

void WorkBatch::put_identity(const Identity* identity) {
    if (identity == nullptr) return writer_.put(IdentityForm::none);
    if (identity->device == device_) {
        writer_.put(IdentityForm::inode);
    } else {
        writer_.put(IdentityForm::device_and_inode);
        writer_.put(identity->device);
        device_ = identity->device;
    }
    writer_.put_number(identity->inode);
}

void WorkBatch::put_directory(std::string_view name, const Identity* identity) {
    writer_.put_bytes(name);
    put_identity(identity);
}

bool WorkBatch::begin_item(Node& node, size_t payload_bytes) {
    size_t size =
        writer_.bytes().size() + item_bytes + node.name_size + node.result_size + payload_bytes;
    if (size > most) return false;
    const Node* const above = path_.empty() ? nullptr : path_.back().node;
    if (has_group_ && node.above == above) return true;
    std::vector<Node*> path;
    for (Node* at = node.above; at != nullptr; at = at->above) {
        path.push_back(at);
        size += at->name_size + sizeof(Identity) + 8;
        if (size > most) return false;
    }
    std::reverse(path.begin(), path.end());
    size_t kept = 0;
    while (kept < std::min(path.size(), path_.size()) && path[kept] == path_[kept].node)
        ++kept;
    if (!path.empty()) learn_identity(*path.back());
    // If the directory that contains the items was written without its identity, it is written
    // again.
    if (kept > 0 && kept == path.size() && !path_[kept - 1].is_known) --kept;
    if (has_group_) writer_.put(u8{0});
    writer_.put_number(kept);
    writer_.put_number(path.size() - kept);
    path_.resize(kept);
    for (size_t at = kept; at < path.size(); ++at) {
        std::lock_guard lock(path[at]->mutex);
        put_directory(path[at]->name_view(),
                      path[at]->has_identity ? &path[at]->identity : nullptr);
        path_.push_back({path[at], path[at]->has_identity});
    }
    last_ = nullptr;
    has_group_ = true;
    return true;
}

void WorkBatch::add_item(const Node& node, const Content& content) {
    const bool is_zero =
        std::all_of(content.result.begin(), content.result.end(), [](char at) { return at == 0; });
    // A directory is one item; several successive items may be names or tasks of one directory.
    const bool is_same = &node == last_ && content.work != Work::directory;
    writer_.put(static_cast<u8>(is_item | (is_same ? is_same_directory : 0) |
                                (is_zero ? 0 : has_result) | static_cast<u8>(content.work)));
    put_owner(writer_, content.owner);
    if (!is_same) {
        put_directory(node.name_view(),
                      content.directory.identity ? &*content.directory.identity : nullptr);
    }
    if (!is_zero) writer_.put_bytes(content.result);
    if (content.work != Work::directory) writer_.put_bytes(content.payload);
    last_ = content.work == Work::directory ? nullptr : &node;
}

std::string WorkBatch::take() {
    if (has_group_) writer_.put(u8{0});
    return writer_.take();
}

std::optional<Identity> WorkBatchReader::read_identity() {
    const IdentityForm form = reader_.get<IdentityForm>();
    if (form == IdentityForm::none) return {};
    if (form == IdentityForm::device_and_inode) device_ = reader_.get<u64>();
    return Identity{device_, reader_.get_number()};
}

WorkBatch::Directory WorkBatchReader::read_directory() {
    WorkBatch::Directory directory;
    directory.name = reader_.get_bytes();
    directory.identity = read_identity();
    return directory;
}

bool WorkBatchReader::begin_group() {
    if (reader_.at_end()) return false;
    kept_steps_ = reader_.get_number();
    steps_.clear();
    const u64 steps = reader_.get_number();
    for (u64 left = reader_.expect_count(steps, least_directory_bytes); left > 0; --left)
        steps_.push_back(read_directory());
    return reader_.good();
}

bool WorkBatchReader::next_item(WorkBatch::Content& content) {
    const u8 flags = reader_.get<u8>();
    if (flags == 0) return false;
    content = {};
    content.work = static_cast<Work>(flags & work_mask);
    content.owner = get_owner(reader_);
    if ((flags & is_same_directory) == 0) last_ = read_directory();
    content.directory = last_;
    if ((flags & has_result) != 0) content.result = reader_.get_bytes();
    if (content.work != Work::directory) content.payload = reader_.get_bytes();
    return reader_.good();
}

}  // namespace warren::walk
