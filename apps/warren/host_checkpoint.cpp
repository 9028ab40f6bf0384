// SPDX-License-Identifier: Apache-2.0
// A run that was killed before its first checkpoint has left only its words and its plan. It is
// started again with that plan, so that it finds what it had created.
#include "apps/warren/host_checkpoint.hpp"

#include <algorithm>
#include <csignal>

#include "apps/warren/interrupt.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"
#include "walk/bytes.hpp"
#include "walk/checkpoint.hpp"

namespace warren::cli {

namespace {

std::string_view long_name(const Page& page, int id) {
    const auto known = std::find_if(page.options.begin(), page.options.end(),
                                    [&](const Option& option) { return option.id == id; });
    return known == page.options.end() || known->name == nullptr ? "" : known->name;
}

/// The option as a user would type it.
std::string spelled(const Page& page, int id, const std::string& value) {
    const bool is_letter = id < 256;
    const std::string word = is_letter ? std::string("-") + static_cast<char>(id)
                                       : "--" + std::string(long_name(page, id));
    if (value.empty()) return word;
    return word + (is_letter ? " " : "=") + quote(value);
}

/// The contents of the file `command`.
struct Kept {
    std::string words;
    std::string plan;
};

Errc read_command(const walk::CheckpointFolder& folder, Kept& kept) {
    std::string bytes;
    const Errc code = folder.read_command(bytes);
    if (code != Errc::ok) return code;
    walk::ByteReader reader(bytes, walk::Origin::file);
    kept.words = reader.get_bytes();
    kept.plan = reader.get_bytes();
    return reader.expect(reader.at_end()) ? Errc::ok : Errc::corrupt;
}

Errc write_command(const walk::CheckpointFolder& folder, const Kept& kept) {
    walk::ByteWriter writer;
    writer.put_bytes(kept.words);
    writer.put_bytes(kept.plan);
    return folder.write_command(writer.bytes());
}

/// Rank 0 decides from the folder whether to resume, and with which plan. Returns false after an
/// error message.
bool look_into_folder(WalkSetup& setup, std::string& plan) {
    walk::Options& options = setup.options;
    const std::string name = quote(options.checkpoint);
    const walk::CheckpointFolder folder(options.checkpoint);
    const Errc prepared = options.resume ? Errc::ok : folder.prepare();
    const bool has_state = folder.has_manifest();
    if (prepared == Errc::exists) {
        complain(
            {"there is a checkpoint in ", name, ": resume from it with --resume, or remove it"});
        return false;
    }
    if (prepared != Errc::ok) {
        complain({"cannot make ", name, ": ", reason(prepared)});
        return false;
    }
    Kept kept;
    const Errc code = read_command(folder, kept);
    const bool is_same = code == Errc::ok && kept.words == setup.command;
    if (is_same) plan = kept.plan;
    if (!options.resume) {
        if (is_same) return true;
        const Errc written = write_command(folder, {setup.command, plan});
        if (written != Errc::ok) complain({"cannot write into ", name, ": ", reason(written)});
        return written == Errc::ok;
    }
    if (code != Errc::ok) {
        const bool is_none = code == Errc::no_entry && !has_state;
        complain({"cannot resume from ", name, ": ",
                  is_none ? "there is nothing to go on from" : checkpoint_reason(code)});
    } else if (!is_same) {
        complain({"cannot resume from ", name, ": it is of another command: ", kept.words});
    } else if (!has_state) {
        remark({program(), ": there was no checkpoint in ", name, " yet: beginning anew"});
        options.resume = false;
    }
    return is_same;
}

}  // namespace

bool take_checkpoint(const Page& page, const Arguments& parsed, size_t trees, WalkSetup& setup) {
    std::vector<std::string> words;
    for (const auto& [id, value] : parsed.options) {
        const bool is_about_how = is_walk_option(id) || long_name(page, id) == "threads";
        if (!is_about_how) words.push_back(spelled(page, id, value));
    }
    for (const std::string& operand : parsed.operands) {
        words.push_back(quote(operand));
        if (!setup.options.checkpoint.empty() && parse_location(operand).in_image()) {
            complain({quote(operand), " lies in a volume: --checkpoint is for files of the host"});
            return false;
        }
    }
    return take_checkpoint(words, trees, setup);
}

bool take_checkpoint(const std::vector<std::string>& words, size_t trees, WalkSetup& setup) {
    walk::Options& options = setup.options;
    if (options.checkpoint.empty()) {
        if (options.resume)
            complain({"--resume requires --checkpoint with the folder to resume from"});
        return !options.resume;
    }
    if (trees != 1) {
        complain({"--checkpoint is for a walk of one tree"});
        return false;
    }
    if (options.resume && walk::has_central_queue(options.scheduler)) {
        complain({"--resume requires a scheduler other than cp, in which rank 0 does no work"});
        return false;
    }
    setup.command = program();
    for (const std::string& word : words)
        setup.command += " " + word;
    catch_interrupts();
    options.interrupt = interrupted;
    return true;
}

bool begin_checkpoints(WalkSetup& setup, std::string& plan) {
    if (setup.options.checkpoint.empty()) return true;
    walk::ByteWriter writer;
    if (rank_number() == 0) {
        writer.put(look_into_folder(setup, plan));
        writer.put(setup.options.resume);
        writer.put_bytes(plan);
    }
    const std::string found = share_over_ranks(writer.bytes());
    walk::ByteReader reader(found);
    const bool is_good = reader.get<bool>();
    setup.options.resume = reader.get<bool>();
    plan = reader.get_bytes();
    return is_good;
}

bool begin_checkpoints(WalkSetup& setup) {
    std::string none;
    return begin_checkpoints(setup, none);
}

void end_checkpoints(const WalkSetup& setup, bool is_cut) {
    if (setup.options.checkpoint.empty() || rank_number() != 0) return;
    const walk::CheckpointFolder folder(setup.options.checkpoint);
    walk::Manifest manifest;
    if (is_cut && folder.read_manifest(manifest) == Errc::ok) folder.remove(manifest);
    // If the walk did not begin, or could not be resumed, an existing checkpoint is left in place.
    if (!folder.has_manifest()) folder.remove_command();
}

int exit_interrupted(const WalkSetup& setup) {
    if (rank_number() != 0) return 0;
    complain({"interrupted: the same command with --resume continues from ",
              quote(setup.options.checkpoint)});
    // Another rank may have received the signal.
    return interrupted() ? interrupted_exit() : 128 + SIGTERM;
}

}  // namespace warren::cli
