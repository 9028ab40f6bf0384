// SPDX-License-Identifier: Apache-2.0
// A ring bypasses the kernel, so the checks that the kernel makes before it calls a file system are
// made here: who may create device nodes, and who may link to a file.
#include "apps/fuse/ring_commands.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "base/out_of_memory.hpp"

namespace warren::fuse {

namespace {

using ops::Verb;

std::string_view name_of(const ops::Command& command) {
    return {command.name, command.name_length};
}
std::string_view new_name_of(const ops::Command& command) {
    return {command.new_name, command.new_name_length};
}

bool changes(Verb verb) {
    return verb == Verb::create || verb == Verb::link || verb == Verb::unlink ||
           verb == Verb::remove_directory || verb == Verb::rename || verb == Verb::set_attributes;
}

/// Whether the verb changes the directory `target`.
bool has_target(Verb verb) {
    return verb == Verb::link || verb == Verb::rename;
}

/// Whether both commands can be part of one call with many items.
bool are_alike(const ops::Command& one, const ops::Command& other) {
    return one.verb == other.verb && one.how == other.how && one.caller.umask == other.caller.umask;
}

}  // namespace

Caller RingCommands::caller_of(const ops::Command& command) const {
    Caller caller = peer_.caller();
    caller.umask = command.caller.umask;
    return caller;
}

/// Whether the command may run.
Errc RingCommands::admit(const ring::Received& received) {
    WARREN_TRY(received.verdict);
    const ops::Command& command = received.command;
    const bool to_change = changes(command.verb);
    if (to_change && mount_.read_only.load(std::memory_order_relaxed)) return Errc::read_only;
    WARREN_TRY(grants_.check(command.handle, to_change));
    if (has_target(command.verb)) WARREN_TRY(grants_.check(command.target, true));
    switch (command.verb) {
        case Verb::set_attributes: {
            // The change time cannot be set by a client, and sizes are maintained by the kernel.
            constexpr u32 others = AttributeChange::size | AttributeChange::changed;
            return (command.change.which & others) != 0 ? Errc::invalid : Errc::ok;
        }
        case Verb::rename:
            return command.how <= static_cast<u8>(rename_last) ? Errc::ok : Errc::invalid;
        case Verb::set_attribute:
        case Verb::remove_attribute:
            return Errc::not_supported;  // the kernel decides which names a caller may use
        default:
            return Errc::ok;
    }
}

void RingCommands::note_name(Handle directory, std::string_view name) {
    stale_.push_back({mount_.nodes.node_of(directory.inode), 0, std::string(name), {}});
}

void RingCommands::note_inode(u64 inode) {
    const u64 node = mount_.nodes.node_of(inode);
    if (mount_.nodes.find(node)) stale_.push_back({node, 0, "", {}});
}

void RingCommands::take_found(const ops::Command& command, const Result<Attributes>& found,
                              ops::Reply& reply) {
    reply.code = found.code();
    if (!found) return;
    reply.attributes = *found;
    grants_.add(found->handle, may_change(command.handle));
}

void RingCommands::look_up(Volume& volume, Commands commands, Replies replies) {
    std::vector<Lookup> items;
    for (const ring::Received& one : commands)
        items.push_back({one.command.handle, name_of(one.command)});
    std::vector<Result<Attributes>> found(items.size(), Errc::io);
    volume.lookup_many(caller_of(commands[0].command), items, found);
    for (size_t i = 0; i < items.size(); ++i)
        take_found(commands[i].command, found[i], replies[i]);
}

void RingCommands::create(Volume& volume, Commands commands, Replies replies) {
    std::vector<Creation> items;
    for (const ring::Received& one : commands) {
        const ops::Command& command = one.command;
        CreateOptions options;
        options.mode = command.mode;
        options.device = command.device;
        options.target = {static_cast<const char*>(command.text), command.text_bytes};
        items.push_back({command.handle, name_of(command), options});
    }
    for (const Creation& item : items)
        note_name(item.directory, item.name);
    std::vector<Result<Attributes>> made(items.size(), Errc::io);
    volume.create_many(caller_of(commands[0].command), items, made);
    for (size_t i = 0; i < items.size(); ++i)
        take_found(commands[i].command, made[i], replies[i]);
}

/// Records that the inodes of these names change. The kernel may show their link counts elsewhere
/// too: under other names, and to processes that have them open.
void RingCommands::note_named(Volume& volume, const Caller& caller,
                              const std::vector<Lookup>& names) {
    std::vector<Result<Attributes>> found(names.size(), Errc::io);
    volume.lookup_many(caller, names, found);
    for (size_t i = 0; i < names.size(); ++i) {
        note_name(names[i].directory, names[i].name);
        if (found[i]) note_inode(found[i]->handle.inode);
    }
}

/// Handles unlink and rmdir.
void RingCommands::remove(Volume& volume, Commands commands, Replies replies) {
    std::vector<Lookup> items;
    for (const ring::Received& one : commands)
        items.push_back({one.command.handle, name_of(one.command)});
    const Caller caller = caller_of(commands[0].command);
    note_named(volume, caller, items);
    const bool of_directories = commands[0].command.verb == Verb::remove_directory;
    std::vector<Unlink> names;
    for (const Lookup& item : items)
        names.push_back({item.directory, item.name, of_directories});
    std::vector<Errc> codes(items.size(), Errc::io);
    volume.remove_many(caller, names, codes);
    for (size_t i = 0; i < items.size(); ++i)
        replies[i].code = codes[i];
}

void RingCommands::rename(Volume& volume, Commands commands, Replies replies) {
    const auto how = static_cast<Rename>(commands[0].command.how);
    std::vector<Move> items;
    std::vector<Lookup> names;  // of what is moved, and of what is replaced
    for (const ring::Received& one : commands) {
        const ops::Command& command = one.command;
        items.push_back({command.handle, name_of(command), command.target, new_name_of(command)});
        names.push_back({command.handle, name_of(command)});
        names.push_back({command.target, new_name_of(command)});
    }
    std::vector<Errc> codes(items.size(), Errc::io);
    const Caller caller = caller_of(commands[0].command);
    note_named(volume, caller, names);
    if (how == Rename::replace) {
        volume.move_many(caller, items, codes);
    } else {
        for (size_t i = 0; i < items.size(); ++i) {
            codes[i] = volume.rename(caller, items[i].from, items[i].name, items[i].to,
                                     items[i].new_name, how);
        }
    }
    for (size_t i = 0; i < items.size(); ++i)
        replies[i].code = codes[i];
}

/// Only the owner may link to a file: otherwise any user could keep a privileged program alive
/// under a name of his own after its owner replaces it.
Result<Attributes> RingCommands::link(Volume& volume, const ops::Command& command) {
    const Result<Attributes> file = volume.attributes(command.handle);
    if (!file) return file;
    if (peer_.user != 0 && peer_.user != file->user) return Errc::not_permitted;
    return volume.link(caller_of(command), command.handle, command.target, name_of(command));
}

void RingCommands::run_one(Volume& volume, const ops::Command& command, ops::Reply& reply) {
    switch (command.verb) {
        case Verb::get_attributes:
            take_found(command, volume.attributes(command.handle), reply);
            break;
        case Verb::set_attributes:
            note_inode(command.handle.inode);
            take_found(command,
                       volume.set_attributes(caller_of(command), command.handle, command.change),
                       reply);
            break;
        case Verb::check_access:
            reply.code = volume.check_access(caller_of(command), command.handle, command.mode);
            break;
        case Verb::link:
            note_name(command.target, name_of(command));
            note_inode(command.handle.inode);
            mount_.nodes.note_shared(mount_.nodes.node_of(command.handle.inode));
            take_found(command, link(volume, command), reply);
            break;
        case Verb::read_link: {
            const Result<std::string> target = volume.read_link(command.handle);
            reply.code = target.code();
            if (!target) break;
            reply.value = target->size();
            const u64 bytes = std::min<u64>(target->size(), command.buffer_bytes);
            if (bytes != 0) std::memcpy(command.buffer, target->data(), bytes);
            break;
        }
        default:
            reply.code = Errc::not_supported;
    }
}

void RingCommands::run_alike(Volume& volume, Commands commands, Replies replies) {
    switch (commands[0].command.verb) {
        case Verb::lookup:
            return look_up(volume, commands, replies);
        case Verb::create:
            return create(volume, commands, replies);
        case Verb::unlink:
        case Verb::remove_directory:
            return remove(volume, commands, replies);
        case Verb::rename:
            return rename(volume, commands, replies);
        default:
            for (size_t i = 0; i < commands.size(); ++i) {
                const Errc memory =
                    or_no_memory([&] { run_one(volume, commands[i].command, replies[i]); });
                if (memory != Errc::ok) replies[i].code = memory;
            }
    }
}

/// Runs commands of one kind. Memory for what the kernel may have to be told is allocated before
/// any change, so if that fails nothing has been done.
void RingCommands::run_or_tell(Volume& volume, Commands commands, Replies replies) {
    const Errc memory = or_no_memory([&] { run_alike(volume, commands, replies); });
    if (memory == Errc::ok) return;
    for (ops::Reply& reply : replies)
        reply.code = memory;
}

void RingCommands::run(Commands commands, Replies replies) {
    stale_.clear();
    {
        const auto volume = mount_.volume.access();
        for (size_t begin = 0; begin < commands.size();) {
            replies[begin] = ops::Reply();
            replies[begin].code = admit(commands[begin]);
            size_t end = begin + 1;
            if (replies[begin].code == Errc::ok) {
                for (; end < commands.size(); ++end) {
                    replies[end] = ops::Reply();
                    if (admit(commands[end]) != Errc::ok) break;
                    if (!are_alike(commands[begin].command, commands[end].command)) break;
                }
                run_or_tell(*volume, commands.subspan(begin, end - begin),
                            replies.subspan(begin, end - begin));
            }
            begin = end;
        }
    }
    for (ops::Reply& reply : replies) {
        if (!is_final(reply.code)) reply.code = Errc::io;
    }
    if (stale_.empty()) return;
    queue_.drop(std::move(stale_), mount_.can_expire.load(std::memory_order_relaxed));
}

}  // namespace warren::fuse
