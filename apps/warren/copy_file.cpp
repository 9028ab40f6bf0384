// SPDX-License-Identifier: Apache-2.0
// Copies everything but directories: file contents with their holes, hard links, symbolic links,
// devices, pipes and sockets.
#include "apps/warren/copy.hpp"
#include "apps/warren/interrupt.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

constexpr size_t copy_buffer_size = 1 << 20;

/// A hint for a full volume, in parentheses.
std::string space_hint(Errc code, const std::string& path) {
    const bool in_image = path.find(":/") != std::string::npos;
    if (code != Errc::no_space || !in_image) return "";
    return " (free space with 'warren rm' or grow the image with 'warren resize')";
}

}  // namespace

void Copier::copy_other(const Task& task, const Facts& facts, Existing existing, Buffer& buffer) {
    if (existing.found && options_.no_clobber) return;
    if (existing.found && options_.update &&
        existing.facts.attributes.modified >= facts.attributes.modified) {
        return;
    }
    if (existing.found && existing.facts.is_directory()) {
        fail({"cannot overwrite directory ", quote(target_path(task)), " with non-directory ",
              quote(source_path(task))});
        return;
    }
    const bool as_stream = !options_.recursive && !facts.is_link();
    const bool regular = facts.is_regular() || as_stream;
    const bool shared = options_.keep_links && facts.attributes.links > 1;
    const bool writes_into = existing.facts.is_regular() || (existing.is_stream() && as_stream);
    if (existing.found && (!regular || shared || !writes_into)) {
        const Errc code = task.parent->target->remove(task.new_name());
        if (code != Errc::ok) {
            fail({"cannot remove ", quote(target_path(task)), ": ", reason(code)});
            return;
        }
        existing.found = false;
    }
    if (shared && link_to_earlier(task, facts)) return;
    bool good = regular ? copy_regular(task, facts, existing, buffer) : copy_special(task, facts);
    if (good && options_.preserve && !existing.is_stream()) {
        const Ends ends{*task.parent->source, task.name, *task.parent->target, task.new_name(),
                        [&] { return target_path(task); }};
        good = preserve(ends, facts);
    }
    if (good && facts.is_regular()) compare_source(task, facts, existing);
    if (shared) settle_link(task, facts, good);
    if (good && options_.verbose) {
        print_line({quote(source_path(task)), " -> ", quote(target_path(task))});
    }
}

/// Reports a source that has changed since `facts` were read.
void Copier::compare_source(const Task& task, const Facts& facts, const Existing& existing) {
    const Result<Facts> now =
        task.parent->source->stat(task.name, options_.follow_links ? Follow::yes : Follow::no);
    const Attributes& before = facts.attributes;
    if (now && now->is_same(facts) && now->attributes.size == before.size &&
        now->attributes.modified == before.modified && now->attributes.changed == before.changed) {
        return;
    }
    fail({quote(source_path(task)), ": changed while it was copied; run again"});
    make_older(task, facts, existing);
}

/// Makes a copy that is not whole older than its source was, so that a later copy with -u does not
/// skip it.
void Copier::make_older(const Task& task, const Facts& facts, const Existing& existing) {
    if (existing.is_stream()) return;
    AttributeChange change;
    change.which = AttributeChange::modified;
    change.new_modified = facts.attributes.modified - 1'000'000'000;
    const Errc code = task.parent->target->change(task.new_name(), Follow::no, change);
    if (code == Errc::ok) return;
    fail({"preserving times for ", quote(target_path(task)), ": ", reason(code)});
}

bool Copier::link_to_earlier(const Task& task, const Facts& facts) {
    std::unique_lock lock(link_mutex_);
    const std::pair<u64, u64> identity{facts.file_system, facts.attributes.handle.inode};
    while (true) {
        const auto [entry, added] = links_.try_emplace(identity);
        if (added) return false;
        if (entry->second.ready) break;
        link_wake_.wait(lock);
    }
    const std::string existing = links_[identity].path;
    lock.unlock();
    // Both names as paths relative to the start of the operand.
    const Node* start = task.parent.get();
    while (start->parent)
        start = start->parent.get();
    const std::string path = target_path(task);
    const std::string inner = path.substr(start->target_name.size());
    const Errc code = start->target->link(existing, inner);
    if (code != Errc::ok) {
        fail({"cannot create hard link ", quote(path), " to ", quote(start->target_name + existing),
              ": ", reason(code), space_hint(code, path)});
    } else if (options_.verbose) {
        print_line({quote(source_path(task)), " -> ", quote(path)});
    }
    return true;
}

/// Lets tasks that wait for the first copy of an inode link to it or, if it failed, copy it
/// themselves.
void Copier::settle_link(const Task& task, const Facts& facts, bool copied) {
    const Node* start = task.parent.get();
    while (start->parent)
        start = start->parent.get();
    std::lock_guard lock(link_mutex_);
    const std::pair<u64, u64> identity{facts.file_system, facts.attributes.handle.inode};
    if (copied) {
        links_[identity] = {true, target_path(task).substr(start->target_name.size())};
    } else {
        links_.erase(identity);
    }
    link_wake_.notify_all();
}

bool Copier::open_target(const Task& task, const Facts& facts, const Existing& existing,
                         std::unique_ptr<OpenFile>& file) {
    Directory& target = *task.parent->target;
    const bool first = !task.parent->parent;
    Errc code = Errc::ok;
    if (existing.found) {
        code = target.open_file(task.new_name(), first ? Follow::yes : Follow::no, Access::write,
                                file);
        if (code == Errc::ok && existing.facts.is_regular()) code = file->set_size(0);
        if (code == Errc::ok) return true;
        if (options_.force) code = target.remove(task.new_name());
    }
    if (!existing.found || (options_.force && code == Errc::ok)) {
        const u32 mode = facts.attributes.mode & 0777;
        code = target.create_file(task.new_name(), options_.preserve ? mode & 0700 : mode, file);
    }
    if (code == Errc::ok) return true;
    const std::string path = target_path(task);
    fail({"cannot create regular file ", quote(path), ": ", reason(code), space_hint(code, path)});
    return false;
}

bool Copier::copy_regular(const Task& task, const Facts& facts, const Existing& existing,
                          Buffer& buffer) {
    std::unique_ptr<OpenFile> from;
    std::unique_ptr<OpenFile> to;
    Errc code = task.parent->source->open_file(
        task.name, options_.follow_links ? Follow::yes : Follow::no, Access::read, from);
    if (code != Errc::ok) {
        fail({"cannot open ", quote(source_path(task)), " for reading: ", reason(code)});
        return false;
    }
    const bool must_share = options_.reflink == Reflink::always;
    if (must_share && existing.found && existing.facts.file_system != facts.file_system) {
        fail_to_share(task, Errc::cross_device);  // what exists stays as it is
        return false;
    }
    if (!open_target(task, facts, existing, to)) return false;
    Errc shared = Errc::not_supported;
    const bool is_empty = facts.is_regular() && facts.attributes.size == 0;
    if (options_.reflink != Reflink::never && !is_empty) shared = to->share_blocks_of(*from);
    if (must_share && !is_empty && shared != Errc::ok) {
        fail_to_share(task, shared);
        to.reset();
        if (!existing.found) static_cast<void>(task.parent->target->remove(task.new_name()));
        return false;
    }
    if (shared == Errc::ok) progress_.add(0, facts.attributes.size);
    const bool copied = shared == Errc::ok || copy_data(task, facts, *from, *to, buffer);
    code = to->close();
    if (code != Errc::ok && copied) {
        fail({"failed to close ", quote(target_path(task)), ": ", reason(code)});
    }
    if (copied && code == Errc::ok) return true;
    make_older(task, facts, existing);
    return false;
}

void Copier::fail_to_share(const Task& task, Errc code) {
    fail({"cannot share blocks of ", quote(source_path(task)), " with ", quote(target_path(task)),
          ": ", reason(code)});
}

/// A file with fewer blocks than its size requires has holes: copy its data ranges one by one.
bool Copier::copy_data(const Task& task, const Facts& facts, OpenFile& from, OpenFile& to,
                       Buffer& buffer) {
    const u64 size = facts.attributes.size;
    const bool sparse = facts.is_regular() && facts.attributes.blocks * 4096 < size;
    u64 written_end = 0;
    if (!sparse) return copy_range(task, from, to, 0, ~u64{0}, buffer, written_end);
    u64 offset = 0;
    while (offset < size) {
        Result<u64> begin = from.seek(offset, Seek::data);
        if (begin.code() == no_such_place) break;
        Result<u64> end = begin ? from.seek(*begin, Seek::hole) : begin;
        if (!end) {  // the file system cannot tell holes
            begin = offset;
            end = ~u64{0};
        }
        if (!copy_range(task, from, to, *begin, *end, buffer, written_end)) return false;
        offset = *end;
    }
    if (written_end >= size) return true;
    const Errc code = to.set_size(size);
    if (code == Errc::ok) return true;
    fail({"failed to extend ", quote(target_path(task)), ": ", reason(code)});
    return false;
}

bool Copier::copy_range(const Task& task, OpenFile& from, OpenFile& to, u64 begin, u64 end,
                        Buffer& buffer, u64& written_end) {
    buffer.resize(copy_buffer_size);
    for (u64 offset = begin; offset < end && !interrupted();) {
        const u64 wanted = std::min<u64>(buffer.size(), end - offset);
        const Result<u64> got = from.read(offset, std::span(buffer).first(wanted));
        if (!got) {
            fail({"error reading ", quote(source_path(task)), ": ", reason(got.code())});
            return false;
        }
        if (*got == 0) return true;
        for (u64 done = 0; done < *got;) {
            const Result<u64> put =
                to.write(offset + done, std::span(buffer).subspan(done, *got - done));
            if (!put || *put == 0) {
                const Errc code = put ? Errc::no_space : put.code();
                const std::string path = target_path(task);
                fail({"error writing ", quote(path), ": ", reason(code), space_hint(code, path)});
                return false;
            }
            done += *put;
        }
        offset += *got;
        written_end = offset;
        progress_.add(0, *got);
    }
    return !interrupted();
}

bool Copier::copy_special(const Task& task, const Facts& facts) {
    CreateOptions options;
    options.mode = facts.attributes.mode;
    options.device = facts.attributes.device;
    std::string target;
    if (facts.is_link()) {
        const Errc code = task.parent->source->read_link(task.name, target);
        if (code != Errc::ok) {
            fail({"cannot read symbolic link ", quote(source_path(task)), ": ", reason(code)});
            return false;
        }
        options.target = target;
    }
    const Errc code = task.parent->target->create(task.new_name(), options);
    if (code == Errc::ok) return true;
    const std::string path = target_path(task);
    const std::string_view what = facts.is_link() ? "symbolic link " : "special file ";
    fail({"cannot create ", what, quote(path), ": ", reason(code), space_hint(code, path)});
    return false;
}

}  // namespace warren::cli
