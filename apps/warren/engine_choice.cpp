// SPDX-License-Identifier: Apache-2.0
// An empty WARREN_ENGINE is treated as unset.
#include "apps/warren/engine_choice.hpp"

#include <cstdlib>

#include "apps/fuse/option_word.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

EngineChoice chosen = EngineChoice::automatic;

bool take(const std::string& source, const std::string& name) {
    if (find_engine(name, chosen)) return true;
    complain({source, quote(name), ": there is no such engine: it is ",
              listed(names_of<engine_names>())});
    remark({"Try '", program(), " --help' for more information."});
    return false;
}

}  // namespace

bool choose_engine(const std::string* given) {
    if (given != nullptr) return take("--engine=", *given);
    const char* variable = std::getenv("WARREN_ENGINE");
    return variable == nullptr || variable[0] == '\0' || take("WARREN_ENGINE=", variable);
}

EngineChoice chosen_engine() {
    return chosen;
}

EngineChoice engine_for_command() {
    return chosen == EngineChoice::automatic ? EngineChoice::cpu : chosen;
}

}  // namespace warren::cli
