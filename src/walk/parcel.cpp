// SPDX-License-Identifier: Apache-2.0
// The way is written from the root down. A way that is too long for a parcel is that of an item
// which stays where it is.
#include "walk/parcel.hpp"

#include <algorithm>

namespace warren::walk {

namespace {

constexpr size_t least_place_bytes = 2;  // the length of its name, and no identity
constexpr size_t item_bytes = 128;       // of an item's numbers, and of a group's

/// What begins an item; 0 ends a group.
constexpr u8 is_item = 0x80;
constexpr u8 is_same_place = 0x40;  // that of the item before
constexpr u8 has_result = 0x20;
constexpr u8 work_mask = 0x0f;

enum class Told : u8 { nothing, inode, device_and_inode };

}  // namespace

void learn_identity(Node& node) {
    std::lock_guard lock(node.mutex);
    if (node.has_identity || node.descriptor < 0) return;
    node.has_identity = identify(node.descriptor, node.identity);
}

void put_loan(ByteWriter& writer, u64 loan) {
    writer.put_number(loan >> loan_rank_shift);
    writer.put_number(loan & ((u64{1} << loan_rank_shift) - 1));
}

u64 get_loan(ByteReader& reader) {
    const u64 rank = reader.get_number();
    return rank << loan_rank_shift | reader.get_number();
}

void put_home(ByteWriter& writer, const Home& home) {
    writer.put_number(home.rank);
    put_loan(writer, home.loan);
}

Home get_home(ByteReader& reader) {
    const auto rank = static_cast<u32>(reader.get_number());
    return {rank, get_loan(reader)};
}

void Parcel::put_identity(const Identity* identity) {
    if (identity == nullptr) return writer_.put(Told::nothing);
    if (identity->device == device_) {
        writer_.put(Told::inode);
    } else {
        writer_.put(Told::device_and_inode);
        writer_.put(identity->device);
        device_ = identity->device;
    }
    writer_.put_number(identity->inode);
}

void Parcel::put_place(std::string_view name, const Identity* identity) {
    writer_.put_bytes(name);
    put_identity(identity);
}

bool Parcel::begin_item(Node& node, size_t payload_bytes) {
    size_t size =
        writer_.bytes().size() + item_bytes + node.name_size + node.result_size + payload_bytes;
    if (size > most) return false;
    const Node* const above = way_.empty() ? nullptr : way_.back().node;
    if (has_group_ && node.above == above) return true;
    std::vector<Node*> way;
    for (Node* at = node.above; at != nullptr; at = at->above) {
        way.push_back(at);
        size += at->name_size + sizeof(Identity) + 8;
        if (size > most) return false;
    }
    std::reverse(way.begin(), way.end());
    size_t kept = 0;
    while (kept < std::min(way.size(), way_.size()) && way[kept] == way_[kept].node)
        ++kept;
    if (!way.empty()) learn_identity(*way.back());
    // What holds the items is told anew if it was told without its identity.
    if (kept > 0 && kept == way.size() && !way_[kept - 1].is_known) --kept;
    if (has_group_) writer_.put(u8{0});
    writer_.put_number(kept);
    writer_.put_number(way.size() - kept);
    way_.resize(kept);
    for (size_t at = kept; at < way.size(); ++at) {
        std::lock_guard lock(way[at]->mutex);
        put_place(way[at]->name_view(), way[at]->has_identity ? &way[at]->identity : nullptr);
        way_.push_back({way[at], way[at]->has_identity});
    }
    last_ = nullptr;
    has_group_ = true;
    return true;
}

void Parcel::add_item(const Node& node, const Content& content) {
    const bool is_zero =
        std::all_of(content.result.begin(), content.result.end(), [](char at) { return at == 0; });
    // Directories are items of their own; what lies in one may be many.
    const bool is_same = &node == last_ && content.work != Work::directory;
    writer_.put(static_cast<u8>(is_item | (is_same ? is_same_place : 0) |
                                (is_zero ? 0 : has_result) | static_cast<u8>(content.work)));
    put_home(writer_, content.home);
    if (!is_same) {
        put_place(node.name_view(), content.place.identity ? &*content.place.identity : nullptr);
    }
    if (!is_zero) writer_.put_bytes(content.result);
    if (content.work != Work::directory) writer_.put_bytes(content.payload);
    last_ = content.work == Work::directory ? nullptr : &node;
}

std::string Parcel::take() {
    if (has_group_) writer_.put(u8{0});
    return writer_.take();
}

std::optional<Identity> ParcelReader::read_identity() {
    const Told told = reader_.get<Told>();
    if (told == Told::nothing) return {};
    if (told == Told::device_and_inode) device_ = reader_.get<u64>();
    return Identity{device_, reader_.get_number()};
}

Parcel::Place ParcelReader::read_place() {
    Parcel::Place place;
    place.name = reader_.get_bytes();
    place.identity = read_identity();
    return place;
}

bool ParcelReader::begin_group() {
    if (reader_.at_end()) return false;
    kept_steps_ = reader_.get_number();
    steps_.clear();
    const u64 steps = reader_.get_number();
    for (u64 left = reader_.expect_count(steps, least_place_bytes); left > 0; --left)
        steps_.push_back(read_place());
    return reader_.good();
}

bool ParcelReader::next_item(Parcel::Content& content) {
    const u8 flags = reader_.get<u8>();
    if (flags == 0) return false;
    content = {};
    content.work = static_cast<Work>(flags & work_mask);
    content.home = get_home(reader_);
    if ((flags & is_same_place) == 0) last_ = read_place();
    content.place = last_;
    if ((flags & has_result) != 0) content.result = reader_.get_bytes();
    if (content.work != Work::directory) content.payload = reader_.get_bytes();
    return reader_.good();
}

}  // namespace warren::walk
