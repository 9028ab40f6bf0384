// SPDX-License-Identifier: Apache-2.0
// warren device: has a mount give the memory of the GPU beside its engine to other programs.
#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"

namespace warren::cli {

namespace {

constexpr const char* release_word = "release";

std::vector<Section> device_sections() {
    return {{"Actions",
             {{release_word, nullptr,
               "free the memory of the GPU that the copy of the metadata takes, and what find, du "
               "and the others keep there"}}}};
}

constexpr Page device_page = {
    .usage = "release MOUNT|IMAGE...",
    .summary = "Control the GPU that works beside the CPU engine of a mounted volume.",
    .sections = device_sections,
    .notes =
        "The command waits for commands that are reading there; commands that would begin to read "
        "meanwhile wait with it. Then the CPU does all work. The GPU loads the metadata again for "
        "a later find, du, `warren "
        "rm -r` or call for many names if that is predicted to be faster than the CPU even so; if "
        "there is too little memory by then, the CPU does the work. `warren info` shows whether "
        "the memory is in use. A command that is still printing what it has found frees its part "
        "when it ends, and some hundred megabytes for CUDA itself stay in use until the volume is "
        "unmounted.\n\n"
        "Only root and the user that has mounted the volume may do this.",
    .examples =
        "  warren device release /mnt/w\n"
        "  warren info /mnt/w",
    .see_also = "nvidia-smi(1)",
};

bool release(const std::string& operand) {
    const std::string attempt = "cannot release the GPU of " + quote(operand);
    std::string path = mount_point_of_image(operand);
    if (path.empty()) path = operand;
    if (is_of_volume(path) && !is_on_warren_mount(path)) {
        complain({attempt, ": it is not mounted"});
        return false;
    }
    auto connection = connect_for(path, attempt);
    if (!connection) return false;
    const Errc code = connection->release_device();
    if (code == Errc::ok) return true;
    if (code == Errc::no_device) {
        complain({attempt,
                  ": no GPU works beside its engine ('warren info' may tell why; the "
                  "mount option engine=auto, which is the default, takes one)"});
    } else {
        complain({attempt, ": ", reason(code)});
    }
    return false;
}

int command_device(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(device_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (parsed.operands.empty()) {
        return usage_error(device_page, {"missing operand: what is to be done?"});
    }
    if (parsed.operands[0] != release_word) {
        return usage_error(device_page, {"unknown action ", quote(parsed.operands[0]),
                                         " (there is '", release_word, "')"});
    }
    if (parsed.operands.size() == 1) {
        return usage_error(device_page, {"missing operand after 'release': which mount?"});
    }
    bool good = true;
    for (std::size_t i = 1; i < parsed.operands.size(); ++i) {
        if (!release(parsed.operands[i])) good = false;
    }
    return good ? 0 : 1;
}

}  // namespace

const Command device_command = {"device", "give back the memory of a mount's GPU", device_page,
                                command_device};

}  // namespace warren::cli
