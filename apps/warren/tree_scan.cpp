// SPDX-License-Identifier: Apache-2.0
// Records are distributed over several locks by inode. A thread that stays in one directory
// remembers its record and takes no lock.
#include "apps/warren/tree_scan.hpp"

#include "apps/warren/listing.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

bool is_directory(const Attributes& attributes) {
    return (attributes.mode & 0170000) == 0040000;
}

/// Supplies link targets; the scan itself supplies the attributes.
class LinkSource : public AttributeSource {
 public:
    LinkSource(TreeScan& scan, const Found& found) : scan_(scan), found_(found) {}
    bool load(Attributes& /*attributes*/, u64& /*sectors*/) override { return false; }
    std::string link_target() override { return scan_.link_target(found_); }

 private:
    TreeScan& scan_;
    const Found& found_;
};

}  // namespace

std::string path_of(const DirectoryRecord& directory) {
    std::vector<const DirectoryRecord*> chain;
    for (const DirectoryRecord* at = &directory; at != nullptr; at = at->above)
        chain.push_back(at);
    std::string path = chain.back()->name;
    for (auto at = chain.rbegin() + 1; at != chain.rend(); ++at) {
        if (!path.ends_with('/')) path += '/';
        path += (*at)->name;
    }
    return path;
}

std::string path_of(const Found& found) {
    if (found.directory == nullptr) return std::string(found.name);
    return joined(path_of(*found.directory), found.name);
}

std::unique_ptr<TreeScan> TreeScan::open(Session& session, const Location& location,
                                         std::string_view other_tool) {
    std::unique_ptr<TreeScan> scan(new TreeScan);
    scan->location_ = location;
    const std::shared_ptr<Directory> start = session.directory(location, Access::read);
    if (!start) return nullptr;
    const Result<Facts> facts = start->stat(location.path, Follow::no);
    if (!facts) {
        complain({quote(location.text), ": ", reason(facts.code()), missing_hint(location)});
        return nullptr;
    }
    scan->start_ = *facts;
    if (location.in_image()) {
        scan->volume_ = session.open(location.image, Access::read);
        return scan;
    }
    scan->connection_ = connect_for(location.path, quote(location.text), other_tool);
    if (!scan->connection_) return nullptr;
    return scan;
}

DirectoryRecord* TreeScan::record(u64 inode) {
    Recent& recent = recent_.local();
    if (recent.record != nullptr && recent.inode == inode) return recent.record;
    Shard& shard = shards_[inode % shards_.size()];
    std::lock_guard lock(shard.mutex);
    const auto entry = shard.records.find(inode);
    if (entry == shard.records.end()) return nullptr;
    recent = {inode, entry->second.get()};
    return recent.record;
}

DirectoryRecord* TreeScan::add_record(u64 inode, DirectoryRecord* above, std::string_view name) {
    auto made = std::make_unique<DirectoryRecord>();
    made->above = above;
    made->name = name;
    made->depth = above == nullptr ? 0 : above->depth + 1;
    Shard& shard = shards_[inode % shards_.size()];
    std::lock_guard lock(shard.mutex);
    // A directory that is moved during the scan may be met twice; its first record is kept.
    return shard.records.try_emplace(inode, std::move(made)).first->second.get();
}

bool TreeScan::visit_entry(const Scanned& entry, u32 max_depth, const Visit& visit) {
    const bool start = entry.depth == 0;
    DirectoryRecord* above = start ? nullptr : record(entry.directory.inode);
    // An entry moved in during the scan may have a parent that the scan has not met.
    if (!start && (above == nullptr || above->pruned)) return false;
    const bool directory = is_directory(entry.attributes);
    const std::string_view name = start ? std::string_view(location_.text) : entry.name;
    DirectoryRecord* self = nullptr;
    if (directory) self = add_record(entry.attributes.handle.inode, above, name);
    Found found{above, self, name, location_.text, entry.depth};
    found.type = type_letter(entry.attributes.mode);
    found.known = &entry.attributes;
    found.space = entry.space;
    found.sectors = entry.attributes.blocks * 8;
    LinkSource source(*this, found);
    found.source = &source;
    const bool descend = visit(found) && entry.depth < max_depth;
    if (directory) self->pruned = !descend;
    return descend;
}

Errc TreeScan::usage(const UsageOptions& options, std::vector<DirectoryUsage>& answer) {
    if (volume_ == nullptr) return connection_->usage(location_.path, options, answer);
    return volume_->usage(command_caller(), start_.attributes.handle, options, answer);
}

Errc TreeScan::run(u32 max_depth, const Visit& visit, const ScanFilter& filter) {
    if (!start_.is_directory() && !filter.counts_shared) {
        Scanned entry;
        entry.attributes = start_.attributes;
        visit_entry(entry, max_depth, visit);
        return Errc::ok;
    }
    ScanFilter files = filter;
    files.depth_max = max_depth;
    if (volume_ != nullptr) {
        return volume_->scan(
            command_caller(), start_.attributes.handle,
            [&](const Scanned& entry) { return visit_entry(entry, max_depth, visit); }, files);
    }
    return connection_->scan(location_.path, files,
                             [&](const Scanned& entry) { visit_entry(entry, max_depth, visit); });
}

bool TreeScan::is_empty(const Found& found) {
    bool empty = true;
    if (volume_ != nullptr) {
        const Errc code =
            volume_->read_directory(found.known->handle, 0, [&](const DirectoryEntry&) {
                empty = false;
                return false;
            });
        return code == Errc::ok && empty;
    }
    std::shared_ptr<Directory> directory;
    std::vector<Name> names;
    Errc code = host_directory()->open_directory(path_of(found), Follow::no, directory);
    if (code == Errc::ok) code = directory->list(names);
    return code == Errc::ok && names.empty();
}

std::string TreeScan::link_target(const Found& found) {
    if (volume_ != nullptr) {
        const Result<std::string> target = volume_->read_link(found.known->handle);
        return target ? *target : std::string();
    }
    std::string target;
    const Errc code = host_directory()->read_link(path_of(found), target);
    return code == Errc::ok ? target : std::string();
}

std::vector<DirectoryRecord*> TreeScan::directories() {
    std::vector<DirectoryRecord*> all;
    for (Shard& shard : shards_) {
        for (auto& [inode, made] : shard.records)
            all.push_back(made.get());
    }
    return all;
}

}  // namespace warren::cli
