// SPDX-License-Identifier: Apache-2.0
// Looks for the plug-in beside the program, then where it is installed, then where the system
// looks.
#include <dlfcn.h>
#include <unistd.h>

#include <string>

#include "walk/launch.hpp"
#include "warren/walk_group.hpp"

namespace warren::walk {

namespace {

constexpr const char* plugin_name = "libwarren_walk_mpi.so";
constexpr const char* entry_name = "warren_walk_mpi_2";

std::string folder_of_program() {
    std::string path(4096, '\0');
    const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
    path.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return path.substr(0, path.rfind('/') + 1);
}

void* load_plugin() {
    const std::string folder = folder_of_program();
    for (const char* place : {"", "../bin/", "../lib/warren/", "../lib/"}) {
        const std::string path = folder + place + plugin_name;
        // MPI's own plug-ins look for its symbols among all that is loaded.
        if (void* plugin = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return plugin;
    }
    return ::dlopen(plugin_name, RTLD_NOW | RTLD_GLOBAL);
}

}  // namespace

Group* mpi_group(std::string& problem) {
    static Group* group = nullptr;
    const Launch launch = launch_of_environment();
    if (group != nullptr || launch.is_alone()) return group;
    if (launch.is_refused()) {
        problem = launch.refusal();
        return nullptr;
    }
    void* plugin = load_plugin();
    void* entry = plugin == nullptr ? nullptr : ::dlsym(plugin, entry_name);
    if (entry == nullptr) {
        const char* reason = ::dlerror();
        problem = reason == nullptr ? "it is of another version" : reason;
        return nullptr;
    }
    group = reinterpret_cast<Group* (*)(size_t)>(entry)(sizeof(Group));
    if (group == nullptr) problem = "MPI_Init failed, or the plug-in is of another version";
    return group;
}

}  // namespace warren::walk
