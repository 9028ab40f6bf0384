// SPDX-License-Identifier: Apache-2.0
// The expected answers and contents of a volume, as maps: the model that batches of commands on a
// GPU are compared with.
//
// Invariant: requests of one batch are independent of each other, so any order gives the answers
// that the order here gives.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "warren/volume.hpp"

namespace warren {

class DeviceModel {
 public:
    explicit DeviceModel(Handle root) { nodes_[root.inode] = {root, true, 2, {}}; }

    /// The handle behind a name.
    Handle at(Handle directory, const std::string& name) const {
        const auto& names = nodes_.at(directory.inode).names;
        const auto found = names.find(name);
        return found == names.end() ? Handle{} : nodes_.at(found->second).handle;
    }
    u32 links(Handle handle) const { return nodes_.at(handle.inode).links; }
    u64 node_count() const { return nodes_.size(); }

    Errc lookup(Handle directory, const std::string& name) const {
        return at(directory, name).inode != 0 ? Errc::ok : Errc::no_entry;
    }
    /// `made` is the handle that the volume returned, if it agreed.
    Errc create(Handle directory, const std::string& name, bool is_directory, Handle made) {
        if (lookup(directory, name) == Errc::ok) return Errc::exists;
        EXPECT_FALSE(nodes_.contains(made.inode)) << made.inode << " is in use";
        nodes_[made.inode] = {made, is_directory, is_directory ? 2u : 1u, {}};
        put(directory, name, made.inode);
        return Errc::ok;
    }
    Errc link(Handle inode, Handle directory, const std::string& name) {
        if (lookup(directory, name) == Errc::ok) return Errc::exists;
        if (nodes_.at(inode.inode).is_directory) return Errc::not_permitted;
        ++nodes_.at(inode.inode).links;
        put(directory, name, inode.inode);
        return Errc::ok;
    }
    Errc remove(Handle directory, const std::string& name, bool is_rmdir) {
        const Handle gone = at(directory, name);
        if (gone.inode == 0) return Errc::no_entry;
        const Node& node = nodes_.at(gone.inode);
        if (is_rmdir && !node.is_directory) return Errc::not_directory;
        if (!is_rmdir && node.is_directory) return Errc::is_directory;
        if (!node.names.empty()) return Errc::not_empty;
        drop(directory, name);
        return Errc::ok;
    }
    Errc rename(Handle from, const std::string& name, Handle to, const std::string& new_name) {
        const Handle moved = at(from, name);
        const Handle old = at(to, new_name);
        if (moved.inode == 0) return Errc::no_entry;
        if (moved == old) return Errc::ok;
        if (old.inode != 0) {
            const bool is_directory = nodes_.at(moved.inode).is_directory;
            if (is_directory && !nodes_.at(old.inode).is_directory) return Errc::not_directory;
            if (!is_directory && nodes_.at(old.inode).is_directory) return Errc::is_directory;
            if (!nodes_.at(old.inode).names.empty()) return Errc::not_empty;
            drop(to, new_name);
        }
        const bool is_directory = nodes_.at(moved.inode).is_directory;
        nodes_.at(from.inode).names.erase(name);
        if (is_directory) --nodes_.at(from.inode).links;
        put(to, new_name, moved.inode);
        return Errc::ok;
    }

    /// Compares every directory and every link count with an open volume.
    void expect_same(Volume& volume) const {
        for (const auto& [number, node] : nodes_) {
            const Result<Attributes> attributes = volume.attributes(node.handle);
            ASSERT_TRUE(attributes) << number;
            EXPECT_EQ(attributes->links, node.links) << number;
            if (!node.is_directory) continue;
            std::map<std::string, u64> listed;
            const Errc code =
                volume.read_directory(node.handle, 0, [&](const DirectoryEntry& entry) {
                    EXPECT_TRUE(listed.emplace(entry.name, entry.inode).second) << entry.name;
                    return true;
                });
            EXPECT_EQ(code, Errc::ok);
            EXPECT_TRUE(listed == node.names) << "directory " << number << " lists "
                                              << listed.size() << " of " << node.names.size();
        }
    }

 private:
    struct Node {
        Handle handle;
        bool is_directory = false;
        u32 links = 0;
        std::map<std::string, u64> names = {};
    };

    void put(Handle directory, const std::string& name, u64 inode) {
        Node& where = nodes_.at(directory.inode);
        where.names[name] = inode;
        if (nodes_.at(inode).is_directory) ++where.links;
    }
    void drop(Handle directory, const std::string& name) {
        Node& where = nodes_.at(directory.inode);
        const u64 number = where.names.at(name);
        where.names.erase(name);
        Node& gone = nodes_.at(number);
        if (gone.is_directory) --where.links;
        if (gone.is_directory || --gone.links == 0) nodes_.erase(number);
    }

    std::map<u64, Node> nodes_;
};

}  // namespace warren
