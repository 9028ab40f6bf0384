// SPDX-License-Identifier: Apache-2.0
// Uses re_search(3) and related functions of the GNU C library, which take a syntax as a bit set.
#include "apps/warren/find_regex.hpp"

#include <regex.h>

#include <mutex>
#include <utility>

namespace warren::cli {

namespace {

constexpr std::pair<std::string_view, reg_syntax_t> known_syntaxes[] = {
    {"findutils-default", RE_SYNTAX_EMACS},
    {"emacs", RE_SYNTAX_EMACS},
    {"ed", RE_SYNTAX_ED},
    {"sed", RE_SYNTAX_SED},
    {"grep", RE_SYNTAX_GREP},
    {"egrep", RE_SYNTAX_EGREP},
    {"awk", RE_SYNTAX_AWK},
    {"gnu-awk", RE_SYNTAX_GNU_AWK},
    {"posix-awk", RE_SYNTAX_POSIX_AWK},
    {"posix-basic", RE_SYNTAX_POSIX_BASIC},
    {"posix-egrep", RE_SYNTAX_POSIX_EGREP},
    {"posix-extended", RE_SYNTAX_POSIX_EXTENDED},
    {"posix-minimal-basic", RE_SYNTAX_POSIX_MINIMAL_BASIC},
};

const reg_syntax_t* syntax_of(std::string_view name) {
    for (const auto& [known, bits] : known_syntaxes) {
        if (known == name) return &bits;
    }
    return nullptr;
}

class GnuRegex : public FindRegex {
 public:
    ~GnuRegex() override { ::regfree(&pattern_); }

    const char* compile(const std::string& text, reg_syntax_t syntax) {
        // The syntax is a global variable of the library.
        static std::mutex mutex;
        std::lock_guard lock(mutex);
        re_set_syntax(syntax);
        return re_compile_pattern(text.data(), text.size(), &pattern_);
    }

    bool matches(const std::string& text) const override {
        const auto size = static_cast<regoff_t>(text.size());
        return re_match(const_cast<re_pattern_buffer*>(&pattern_), text.data(), size, 0, nullptr) ==
               size;
    }

 private:
    re_pattern_buffer pattern_{};
};

}  // namespace

std::vector<std::string_view> FindRegex::syntaxes() {
    std::vector<std::string_view> names;
    for (const auto& [name, bits] : known_syntaxes)
        names.push_back(name);
    return names;
}

bool FindRegex::knows(std::string_view syntax) {
    return syntax_of(syntax) != nullptr;
}

std::shared_ptr<const FindRegex> FindRegex::make(const std::string& pattern,
                                                 std::string_view syntax, bool fold_case,
                                                 std::string& problem) {
    auto made = std::make_shared<GnuRegex>();
    const char* error = made->compile(pattern, *syntax_of(syntax) | (fold_case ? RE_ICASE : 0));
    if (error == nullptr) return made;
    problem = error;
    return nullptr;
}

}  // namespace warren::cli
