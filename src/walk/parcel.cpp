// SPDX-License-Identifier: Apache-2.0
// The way is written from the root down. A way that is too long for a parcel is that of an item
// which stays where it is.
#include "walk/parcel.hpp"

#include <algorithm>
#include <vector>

namespace warren::walk {

namespace {

constexpr size_t item_bytes = 128;  // of an item's numbers, and of a group's

}  // namespace

void learn_identity(Node& node) {
    std::lock_guard lock(node.mutex);
    if (node.has_identity || node.descriptor < 0) return;
    node.has_identity = identify(node.descriptor, node.identity);
}

void Parcel::put_place(std::string_view name, const Identity* identity) {
    writer_.put_bytes(name);
    writer_.put(identity != nullptr);
    if (identity != nullptr) writer_.put(*identity);
}

bool Parcel::begin_item(Node& node, size_t payload_bytes) {
    size_t size =
        writer_.bytes().size() + item_bytes + node.name_size + node.result_size + payload_bytes;
    if (size > most) return false;
    if (has_group_ && node.above == above_) return true;
    std::vector<Node*> way;
    for (Node* at = node.above; at != nullptr; at = at->above) {
        way.push_back(at);
        size += at->name_size + sizeof(Identity) + 8;
        if (size > most) return false;
    }
    if (node.above != nullptr) learn_identity(*node.above);
    writer_.put(static_cast<u32>(way.size()));
    for (auto at = way.rbegin(); at != way.rend(); ++at) {
        std::lock_guard lock((*at)->mutex);
        put_place((*at)->name_view(), (*at)->has_identity ? &(*at)->identity : nullptr);
    }
    count_at_ = writer_.bytes().size();
    count_ = 0;
    writer_.put(count_);
    above_ = node.above;
    has_group_ = true;
    return true;
}

void Parcel::add_item(const Node& node, const Content& content) {
    writer_.put(content.work);
    writer_.put(content.home);
    put_place(node.name_view(), content.place.identity ? &*content.place.identity : nullptr);
    const bool is_zero =
        std::all_of(content.result.begin(), content.result.end(), [](char at) { return at == 0; });
    writer_.put_bytes(is_zero ? std::string_view() : content.result);
    writer_.put_bytes(content.payload);
    writer_.put_at(count_at_, ++count_);
}

Parcel::Place Parcel::read_place(ByteReader& reader) {
    Place place;
    place.name = reader.get_bytes();
    if (reader.get<bool>()) place.identity = reader.get<Identity>();
    return place;
}

Parcel::Content Parcel::read_content(ByteReader& reader) {
    Content content{};
    content.work = reader.get<Work>();
    content.home = reader.get<Home>();
    content.place = read_place(reader);
    content.result = reader.get_bytes();
    content.payload = reader.get_bytes();
    return content;
}

}  // namespace warren::walk
