// SPDX-License-Identifier: Apache-2.0
// Additional names of a page or script are symbolic links.
#include "apps/warren/manual.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "apps/warren/completions.hpp"
#include "apps/warren/manual_page.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

class ManualFolder {
 public:
    explicit ManualFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

    void write(const std::string& name, const std::string& bytes) {
        const std::filesystem::path path = prepare(name);
        if (!is_good_) return;
        errno = 0;
        std::ofstream file(path, std::ios::binary | std::ios::trunc);
        file << bytes;
        file.close();
        note(path, file.good() ? 0 : errno);
    }
    /// `target` is a name in the same folder.
    void link(const std::string& name, const std::string& target) {
        const std::filesystem::path path = prepare(name);
        if (!is_good_) return;
        std::error_code error;
        std::filesystem::create_symlink(target, path, error);
        note(path, error.value());
    }
    bool is_good() const { return is_good_; }

 private:
    /// Creates the folder, and removes a file of that name from an earlier run.
    std::filesystem::path prepare(const std::string& name) {
        const std::filesystem::path path = folder_ / name;
        std::error_code error;
        if (is_good_) std::filesystem::create_directories(path.parent_path(), error);
        note(path.parent_path(), error.value());
        if (is_good_) std::filesystem::remove(path, error);
        note(path, error.value());
        return path;
    }
    void note(const std::filesystem::path& path, int code) {
        if (code == 0 || !is_good_) return;
        is_good_ = false;
        complain({"cannot write ", quote(path.string()), ": ", reason(static_cast<Errc>(code))});
    }

    std::filesystem::path folder_;
    bool is_good_ = true;
};

/// Writes the page of the first helper, to which the others link. Shells load completions by these
/// names.
void write_helpers(const Command& command, ManualFolder& folder) {
    const std::string first = command.helpers[0] == nullptr ? "" : command.helpers[0];
    for (const char* helper : command.helpers) {
        if (helper == nullptr) continue;
        const std::string name = helper;
        if (name == first) {
            folder.write("man8/" + name + ".8", helper_manual(command, name));
        } else {
            folder.link("man8/" + name + ".8", first + ".8");
        }
        folder.link("bash/" + name, "warren");
        folder.link("fish/" + name + ".fish", "warren.fish");
    }
}

}  // namespace

bool write_manual(const std::string& name) {
    ManualFolder folder(name);
    folder.write("man1/warren.1", program_manual());
    for (const CommandGroup& group : command_groups()) {
        for (const Command* command : group.commands) {
            folder.write("man1/warren-" + std::string(command->name) + ".1",
                         command_manual(*command));
            write_helpers(*command, folder);
        }
    }
    folder.write("man5/warren-format.5", format_manual());
    folder.write("bash/warren", bash_completion());
    folder.write("zsh/_warren", zsh_completion());
    folder.write("fish/warren.fish", fish_completion());
    return folder.is_good();
}

}  // namespace warren::cli
