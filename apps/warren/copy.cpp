// SPDX-License-Identifier: Apache-2.0
// The tree is copied by a stack of tasks that all threads pop from. The thread that finishes the
// last task of a directory completes the directory, which may in turn complete its parent, and so
// on.
#include "apps/warren/copy.hpp"

#include <algorithm>

#include "apps/warren/interrupt.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "base/workers.hpp"

namespace warren::cli {

std::string Copier::path_of(const Node& node, const std::string& name, std::string Node::*member) {
    std::vector<const std::string*> parts = {&name};
    const Node* at = &node;
    for (; at->parent; at = at->parent.get())
        parts.push_back(&(at->*member));
    std::string path = at->*member + *parts.back();
    for (auto part = parts.rbegin() + 1; part != parts.rend(); ++part) {
        if (!path.ends_with('/')) path += '/';
        path += **part;
    }
    return path;
}

std::string Copier::source_path(const Task& task) {
    return path_of(*task.parent, task.name, &Node::source_name);
}

std::string Copier::target_path(const Task& task) {
    return path_of(*task.parent, task.new_name(), &Node::target_name);
}

void Copier::fail(std::initializer_list<std::string_view> parts) {
    complain(parts);
    failed_.store(true, std::memory_order_relaxed);
}

void Copier::add(const CopyOperand& operand) {
    auto start = std::make_shared<Node>();
    start->source = operand.source;
    start->target = operand.target;
    start->source_name = operand.source_prefix;
    start->target_name = operand.target_prefix;
    tasks_.push_back({std::move(start), operand.source_name, operand.target_name});
}

bool Copier::run() {
    std::reverse(tasks_.begin(), tasks_.end());  // so that the first operand is popped first
    Workers(options_.threads).run_last([this](u32) { work(); });
    return !failed_.load(std::memory_order_relaxed) && !interrupted();
}

void Copier::work() {
    Buffer buffer;
    std::unique_lock lock(mutex_);
    while (true) {
        wake_.wait(lock, [this] { return !tasks_.empty() || busy_ == 0; });
        if (tasks_.empty()) return;
        Task task = std::move(tasks_.back());
        tasks_.pop_back();
        ++busy_;
        lock.unlock();
        if (!interrupted()) process(task, buffer);
        complete(std::move(task.parent));
        lock.lock();
        if (--busy_ == 0 && tasks_.empty()) wake_.notify_all();
    }
}

void Copier::process(const Task& task, Buffer& buffer) {
    const bool first = !task.parent->parent;
    const Follow follow = options_.follow_links ? Follow::yes : Follow::no;
    const Result<Facts> found = task.parent->source->stat(task.name, follow);
    if (!found) {
        fail({"cannot stat ", quote(source_path(task)), ": ", reason(found.code())});
        return;
    }
    Existing existing;
    const bool link_counts = first && !found->is_link();
    const Result<Facts> there =
        task.parent->target->stat(task.new_name(), link_counts ? Follow::yes : Follow::no);
    if (there) existing = {true, *there};
    if (!there && there.code() != Errc::no_entry) {
        fail({"cannot access ", quote(target_path(task)), ": ", reason(there.code())});
        return;
    }
    if (existing.found && existing.facts.is_same(*found)) {
        fail({quote(source_path(task)), " and ", quote(target_path(task)), " are the same file"});
        return;
    }
    if (found->is_directory()) {
        copy_directory(task, *found, existing);
    } else {
        copy_other(task, *found, existing, buffer);
        progress_.add(1, 0);
    }
}

void Copier::copy_directory(const Task& task, const Facts& facts, const Existing& existing) {
    Node& parent = *task.parent;
    if (!options_.recursive) {
        fail({"-r not specified; omitting directory ", quote(source_path(task))});
        return;
    }
    if (existing.found && !existing.facts.is_directory()) {
        fail({"cannot overwrite non-directory ", quote(target_path(task)), " with directory ",
              quote(source_path(task))});
        return;
    }
    if (parent.parent && facts.is_same(parent.first_target)) {
        fail({"cannot copy a directory, ", quote(source_path(task)), ", into itself"});
        return;
    }
    auto node = std::make_shared<Node>();
    node->source_name = task.name;
    node->target_name = task.new_name();
    node->facts = facts;
    Errc code = parent.source->open_directory(
        task.name, options_.follow_links ? Follow::yes : Follow::no, node->source);
    if (code != Errc::ok) {
        fail({"cannot access ", quote(source_path(task)), ": ", reason(code)});
        return;
    }
    if (!existing.found) {
        CreateOptions options;
        options.mode = 0040700 | (options_.preserve ? 0 : facts.attributes.mode & 0777);
        code = parent.target->create(task.new_name(), options);
        node->created = code == Errc::ok;
    }
    if (code == Errc::ok) {
        const Follow follow = parent.parent ? Follow::no : Follow::yes;
        code = parent.target->open_directory(task.new_name(), follow, node->target);
    }
    if (code != Errc::ok) {
        fail({"cannot create directory ", quote(target_path(task)), ": ", reason(code)});
        return;
    }
    if (options_.verbose && node->created) {
        print_line({quote(source_path(task)), " -> ", quote(target_path(task))});
    }
    // List before queuing any child, so that a target directory inside the source is refused.
    std::vector<Name> names;
    code = node->source->list(names);
    if (code != Errc::ok) {
        fail({"cannot read directory ", quote(source_path(task)), ": ", reason(code)});
    }
    node->first_target = parent.first_target;
    if (!parent.parent) {
        if (const Result<Facts> made = node->target->stat("", Follow::no)) {
            node->first_target = *made;
        }
    }
    // Pairs with complete(): the parent cannot be completed before this directory is.
    parent.pending.fetch_add(1, std::memory_order_relaxed);
    node->parent = task.parent;
    push_children(node, names);
    complete(std::move(node));
}

/// Orders children by inode number, which reduces seeks on the source's disk.
void Copier::push_children(const std::shared_ptr<Node>& node, std::vector<Name>& names) {
    std::sort(names.begin(), names.end(),
              [](const Name& left, const Name& right) { return left.inode > right.inode; });
    node->pending.fetch_add(static_cast<u32>(names.size()), std::memory_order_relaxed);
    {
        std::lock_guard lock(mutex_);
        for (Name& name : names)
            tasks_.push_back({node, std::move(name.name), ""});
    }
    wake_.notify_all();
}

/// Removes one task from those pending in `node`; if it was the last, completes `node`, and so on
/// upwards.
void Copier::complete(std::shared_ptr<Node> node) {
    while (node) {
        // Release: publishes this task's work in the directory. Acquire: the last thread, which
        // sets times, sees it all.
        if (node->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        if (node->parent && !interrupted()) {
            const std::string self;
            const auto path = [&] {
                return path_of(*node->parent, node->target_name, &Node::target_name);
            };
            const Ends ends{*node->source, self, *node->target, self, path};
            const u32 mode = node->facts.attributes.mode & 0777 & ~process_umask();
            if (options_.preserve) {
                preserve(ends, node->facts);
            } else if (node->created && (mode & 0700) != 0700) {
                AttributeChange change;
                change.which = AttributeChange::mode;
                change.new_mode = mode;
                if (const Errc code = node->target->change("", Follow::no, change);
                    code != Errc::ok) {
                    fail({"setting permissions for ", quote(path()), ": ", reason(code)});
                }
            }
            progress_.add(1, 0);
        }
        // Detach the parent first, so that a long chain of directories is not destroyed
        // recursively.
        std::shared_ptr<Node> parent = std::move(node->parent);
        node = std::move(parent);
    }
}

bool Copier::preserve_attributes(const Ends& ends) {
    std::vector<std::string> attributes;
    const Errc listed = ends.source.list_attributes(ends.source_name, attributes);
    if (listed == Errc::not_supported) return true;
    if (listed != Errc::ok) {
        fail({"listing attributes of the source of ", quote(ends.path()), ": ", reason(listed)});
        return false;
    }
    bool good = true;
    std::vector<std::byte> value;
    for (const std::string& attribute : attributes) {
        Errc code = ends.source.get_attribute(ends.source_name, attribute, value);
        if (code == Errc::no_data) continue;
        if (code == Errc::ok) {
            code = ends.target.set_attribute(ends.target_name, attribute, value);
        }
        // Attributes that this file system or this user cannot set are left out, as cp -a does.
        if (code == Errc::ok || code == Errc::not_supported || code == Errc::not_permitted)
            continue;
        fail({"setting attribute ", quote(attribute), " for ", quote(ends.path()), ": ",
              reason(code)});
        good = false;
    }
    return good;
}

bool Copier::preserve(const Ends& ends, const Facts& facts) {
    AttributeChange change;
    change.which = AttributeChange::user | AttributeChange::group;
    change.new_user = facts.attributes.user;
    change.new_group = facts.attributes.group;
    change.new_mode = facts.attributes.mode & 07777;
    change.new_accessed = facts.attributes.accessed;
    change.new_modified = facts.attributes.modified;
    Errc code = ends.target.change(ends.target_name, Follow::no, change);
    if (code == Errc::not_permitted) {
        // Only root can give files away. Otherwise clear the set-id bits, which would apply to the
        // wrong user.
        change.new_mode &= 01777;
    } else if (code != Errc::ok) {
        fail({"failed to preserve ownership for ", quote(ends.path()), ": ", reason(code)});
        return false;
    }
    if (!facts.is_link()) {
        change.which = AttributeChange::mode;
        code = ends.target.change(ends.target_name, Follow::no, change);
        if (code != Errc::ok) {
            fail({"setting permissions for ", quote(ends.path()), ": ", reason(code)});
            return false;
        }
    }
    if (!preserve_attributes(ends)) return false;
    change.which = AttributeChange::accessed | AttributeChange::modified;
    code = ends.target.change(ends.target_name, Follow::no, change);
    if (code != Errc::ok) {
        fail({"preserving times for ", quote(ends.path()), ": ", reason(code)});
        return false;
    }
    return true;
}

}  // namespace warren::cli
