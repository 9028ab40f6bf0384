// SPDX-License-Identifier: Apache-2.0
// Tables and CSV files. The commit comes from git in the working directory, the machine from
// /proc; neither a host name nor a path of the machine is written.
#include "bench/support/report.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

namespace warren::bench {

namespace {

std::string first_line_of(const char* command) {
    std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command, "r"), ::pclose);
    std::array<char, 200> line{};
    if (pipe == nullptr || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return {};
    std::string text = line.data();
    while (!text.empty() && text.back() == '\n')
        text.pop_back();
    return text;
}

std::string machine() {
    std::ifstream facts("/proc/cpuinfo");
    std::string model = "unknown CPU";
    for (std::string line; std::getline(facts, line);) {
        if (!line.starts_with("model name")) continue;
        model = line.substr(line.find(": ") + 2);
        break;
    }
    utsname system{};
    ::uname(&system);
    const std::string release = system.release;
    return std::to_string(std::thread::hardware_concurrency()) + " cores of " + model + ", Linux " +
           release.substr(0, release.find('-'));
}

std::string date() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::array<char, 40> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
    return text.data();
}

std::string commit() {
    const std::string name = first_line_of("git rev-parse --short=10 HEAD 2>/dev/null");
    const bool changed = !first_line_of("git status --porcelain -uno 2>/dev/null").empty();
    return name.empty() ? "unknown" : name + (changed ? " with changes" : "");
}

/// 1.23 s, 45.6 ms, 7.89 us.
std::string readable(double seconds) {
    std::array<char, 40> text{};
    const double magnitude = std::max(seconds, 1e-9);
    const char* unit = magnitude >= 1 ? "s" : magnitude >= 1e-3 ? "ms" : "us";
    const double scale = magnitude >= 1 ? 1 : magnitude >= 1e-3 ? 1e3 : 1e6;
    std::snprintf(text.data(), text.size(), "%.4g %s", seconds * scale, unit);
    return text.data();
}

}  // namespace

double Sample::median() const {
    std::vector<double> sorted = seconds_;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 != 0 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double Sample::fastest() const {
    return *std::min_element(seconds_.begin(), seconds_.end());
}

double Sample::slowest() const {
    return *std::max_element(seconds_.begin(), seconds_.end());
}

std::filesystem::path results_folder() {
    const char* named = std::getenv("WARREN_RESULTS");
    const std::filesystem::path folder = named != nullptr ? named : "bench/results";
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    return folder;
}

void die(const std::string& what) {
    std::fprintf(stderr, "bench: %s\n", what.c_str());
    std::exit(2);
}

void require(bool condition, const std::string& what) {
    if (!condition) die(what);
}

double now_seconds() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

Report::Report(std::string question, int argument_count, char** arguments)
    : question_(std::move(question)), file_(question_), command_("./dev bench " + question_) {
    for (int i = 1; i < argument_count; ++i)
        command_ += std::string(" ") + arguments[i];
}

void Report::add(const std::string& scenario, const std::string& subject, double seconds,
                 double items) {
    const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& one) {
        return one.scenario == scenario && one.subject == subject;
    });
    Row& at = row != rows_.end() ? *row : rows_.emplace_back(Row{scenario, subject, items, {}});
    at.sample.add(seconds);
    std::fprintf(stderr, "  %-26s %-40s %s\n", scenario.c_str(), subject.c_str(),
                 readable(seconds).c_str());
}

void Report::set_reference(const std::string& scenario, const std::string& subject) {
    references_[scenario] = subject;
}

void Report::note(const std::string& text) {
    notes_.push_back(text);
}

void Report::must(const std::string& what, double value, double bound) {
    musts_.push_back({what, value, bound});
}

const Report::Row* Report::find(const std::string& scenario, const std::string& subject) const {
    for (const Row& row : rows_) {
        if (row.scenario == scenario && row.subject == subject) return &row;
    }
    return nullptr;
}

double Report::median(const std::string& scenario, const std::string& subject) const {
    const Row* row = find(scenario, subject);
    require(row != nullptr, "nothing was measured for " + scenario + ", " + subject);
    return row->sample.median();
}

/// 0 if the scenario has no reference.
double Report::ratio_of(const Row& row) const {
    const auto reference = references_.find(row.scenario);
    if (reference == references_.end()) return 0;
    const Row* other = find(row.scenario, reference->second);
    require(other != nullptr, "nothing was measured for " + row.scenario);
    return row.sample.median() / row.items / (other->sample.median() / other->items);
}

void Report::print() const {
    std::printf("\n%s\n%s, %s, commit %s\n%s\n\n", question_.c_str(), machine().c_str(),
                date().c_str(), commit().c_str(), command_.c_str());
    std::printf("| scenario | subject | median | fastest - slowest | runs | each | ratio |\n");
    std::printf("|---|---|---|---|---|---|---|\n");
    for (const Row& row : rows_) {
        const double ratio = ratio_of(row);
        std::array<char, 60> text{};
        if (ratio > 0) {
            // A ratio below 1 belongs to a subject faster than the reference.
            std::snprintf(text.data(), text.size(), "%.3g%s", ratio, ratio < 0.995 ? " *" : "");
        }
        std::printf("| %s | %s | %s | %s - %s | %zu | %s | %s |\n", row.scenario.c_str(),
                    row.subject.c_str(), readable(row.sample.median()).c_str(),
                    readable(row.sample.fastest()).c_str(), readable(row.sample.slowest()).c_str(),
                    row.sample.runs(), readable(row.sample.median() / row.items).c_str(),
                    text.data());
    }
    std::printf(
        "\nratio: time for each item over that of the reference (ratio 1); * is faster than it.\n");
    for (const std::string& text : notes_)
        std::printf("%s\n", text.c_str());
    for (const Must& must : musts_) {
        std::printf("must: %s: %.3g, at least %.3g: %s\n", must.what.c_str(), must.value,
                    must.bound, must.value >= must.bound ? "met" : "MISSED");
    }
}

/// The lines of an earlier file that are still true: its rows that were not measured again, behind
/// where the file says that they come from.
std::vector<std::string> Report::others_of(const std::string& path) const {
    std::vector<std::string> notes;
    std::vector<std::string> rows;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("# ")) {
            notes.push_back(line.starts_with("# earlier: ") ? line
                                                            : "# earlier: " + line.substr(2));
            continue;
        }
        const auto is_same = [&](const Row& row) {
            return line.starts_with('"' + row.scenario + "\",\"" + row.subject + "\",");
        };
        if (line.starts_with('"') && std::none_of(rows_.begin(), rows_.end(), is_same))
            rows.push_back(line);
    }
    if (rows.empty()) return {};
    notes.insert(notes.end(), rows.begin(), rows.end());
    return notes;
}

void Report::write_csv(const std::string& path) const {
    const std::vector<std::string> others =
        keeps_others_ ? others_of(path) : std::vector<std::string>();
    std::ofstream file(path);
    require(file.good(), "cannot write " + path);
    file << "# machine: " << machine() << "\n# date: " << date() << "\n# commit: " << commit()
         << "\n# command: " << command_ << "\n";
    for (const std::string& text : notes_)
        file << "# " << text << "\n";
    for (const Must& must : musts_) {
        file << "# must: " << must.what << ": " << must.value << ", at least " << must.bound << ": "
             << (must.value >= must.bound ? "met" : "missed") << "\n";
    }
    for (const std::string& line : others) {
        if (line.starts_with("# ")) file << line << "\n";
    }
    file << "scenario,subject,items,runs,median_seconds,fastest_seconds,slowest_seconds,ratio\n";
    for (const std::string& line : others) {
        if (!line.starts_with("# ")) file << line << "\n";
    }
    for (const Row& row : rows_) {
        file << '"' << row.scenario << "\",\"" << row.subject << "\"," << row.items << ','
             << row.sample.runs() << ',' << row.sample.median() << ',' << row.sample.fastest()
             << ',' << row.sample.slowest() << ',';
        if (const double ratio = ratio_of(row); ratio > 0) file << ratio;
        file << "\n";
    }
}

int Report::finish() const {
    print();
    write_csv((results_folder() / (file_ + ".csv")).string());
    return std::all_of(musts_.begin(), musts_.end(),
                       [](const Must& must) { return must.value >= must.bound; })
               ? 0
               : 1;
}

}  // namespace warren::bench
