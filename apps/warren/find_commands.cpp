// SPDX-License-Identifier: Apache-2.0
// Each thread of the search starts its own commands and waits for them.
#include "apps/warren/find_commands.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "apps/warren/messages.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

namespace {

constexpr size_t argument_bytes = 120 * kib;  // in one run; every kernel accepts that many

/// Runs the command and waits for it; true if it exits with 0.
bool run_words(const std::vector<std::string>& words) {
    std::vector<char*> arguments;
    for (const std::string& word : words)
        arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_t child = 0;
    const int error =
        ::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
    if (error != 0) {
        complain({"cannot run ", quote(words[0]), ": ", reason(static_cast<Errc>(error))});
        return false;
    }
    int status = -1;  // no exit with 0
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// `word` with every {} replaced by `path`.
std::string filled(const std::string& word, const std::string& path) {
    std::string result;
    size_t at = 0;
    for (size_t found = word.find("{}"); found != word.npos; found = word.find("{}", at)) {
        result += word.substr(at, found - at) + path;
        at = found + 2;
    }
    return result + word.substr(at);
}

}  // namespace

FindCommands::FindCommands(const std::vector<FindCommand>& commands)
    : commands_(commands), gathered_(commands.size()) {
    // Where SIGCHLD is ignored, which a process inherits, no exit code can be read.
    if (!commands.empty()) ::signal(SIGCHLD, SIG_DFL);
}

bool FindCommands::run(size_t number, const std::string& path) {
    const FindCommand& command = commands_[number];
    if (command.gathers) {
        std::vector<std::string> full;
        {
            std::lock_guard lock(mutex_);
            Gathered& gathered = gathered_[number];
            gathered.paths.push_back(path);
            gathered.bytes += path.size() + sizeof(char*) + 1;
            if (gathered.bytes >= argument_bytes) {
                full.swap(gathered.paths);
                gathered.bytes = 0;
            }
        }
        if (!full.empty()) run_gathered(number, std::move(full));
        return true;
    }
    std::vector<std::string> words;
    for (const std::string& word : command.words)
        words.push_back(filled(word, path));
    std::fflush(stdout);
    return run_words(words);
}

void FindCommands::run_gathered(size_t number, std::vector<std::string> paths) {
    std::vector<std::string> words = commands_[number].words;
    std::move(paths.begin(), paths.end(), std::back_inserter(words));
    std::lock_guard running(running_);
    std::fflush(stdout);
    const bool good = run_words(words);
    std::lock_guard lock(mutex_);
    if (!good) good_ = false;
}

std::string FindCommands::save() const {
    walk::ByteWriter writer;
    writer.put(good_);
    for (const Gathered& gathered : gathered_) {
        writer.put(static_cast<u32>(gathered.paths.size()));
        for (const std::string& path : gathered.paths)
            writer.put_bytes(path);
    }
    return writer.take();
}

bool FindCommands::load(std::string_view saved) {
    walk::ByteReader reader(saved, walk::Origin::file);
    const bool was_good = reader.get<bool>();
    std::vector<std::pair<size_t, std::string>> paths;  // nothing is used before all are read
    for (size_t number = 0; number < commands_.size(); ++number) {
        for (u64 left = reader.get_count(1); left > 0; --left)
            paths.emplace_back(number, reader.get_bytes());
    }
    if (!reader.expect(reader.at_end())) return false;
    good_ = was_good && good_;
    for (const auto& [number, path] : paths)
        run(number, path);
    return true;
}

bool FindCommands::finish() {
    for (size_t number = 0; number < commands_.size(); ++number) {
        if (!gathered_[number].paths.empty()) {
            run_gathered(number, std::move(gathered_[number].paths));
        }
    }
    return good_;
}

}  // namespace warren::cli
