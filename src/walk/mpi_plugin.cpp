// SPDX-License-Identifier: Apache-2.0
// In a build tree a plug-in is beside the program, in an installation it is in LIBDIR/warren. The
// program looks in each LIBDIR that its own prefix may have, so that an installation can be moved,
// and then in the one that this build installs to, for programs that only link the library.
#include "walk/mpi_plugin.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace warren::walk {

namespace {

std::vector<std::string> folders_of_plugins() {
    std::vector<std::string> folders;
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    for (const char* place :
         {"", "../bin", "../lib/warren", "../lib64/warren",
          "../lib/" WARREN_LIBRARY_ARCHITECTURE "/warren", WARREN_LIBRARY_FOLDER "/warren"}) {
        std::string folder = (program / place / "").lexically_normal();
        if (folder[0] == '/' && std::find(folders.begin(), folders.end(), folder) == folders.end())
            folders.push_back(std::move(folder));
    }
    return folders;
}

std::string last_error() {
    const char* const reason = ::dlerror();
    return reason == nullptr ? "no reason is known" : reason;
}

/// Sets `path` to the plug-in's location. Returns null and sets `problem` if it cannot be opened.
void* open_plugin(const Mpi& mpi, std::string& path, std::string& problem) {
    // MPI's own plug-ins look up its symbols in the global scope.
    constexpr int mode = RTLD_NOW | RTLD_GLOBAL;
    std::string looked_in;
    for (const std::string& folder : folders_of_plugins()) {
        path = folder + mpi.plugin;
        looked_in += folder + ", ";
        if (::access(path.c_str(), F_OK) != 0) continue;
        void* const opened = ::dlopen(path.c_str(), mode);
        if (opened == nullptr) {
            problem = "cannot load " + path + ": " + last_error() + ": is " + mpi.name +
                      " (Debian's package " + mpi.package + ") installed?";
        }
        return opened;
    }
    path = mpi.plugin;
    void* const opened = ::dlopen(path.c_str(), mode);
    if (opened == nullptr) {
        problem = std::string("the plug-in for ") + mpi.name + " is missing (" + last_error() +
                  "; looked in " + looked_in +
                  "LD_LIBRARY_PATH): install the package warren-mpi, or build Warren where " +
                  mpi.name + "'s mpicc is installed";
    }
    return opened;
}

}  // namespace

const warren_mpi_plugin_table* load_mpi_plugin(const Mpi& mpi, std::string& problem) {
    std::string path;
    void* const opened = open_plugin(mpi, path, problem);
    if (opened == nullptr) return nullptr;
    const auto* const plugin =
        static_cast<const warren_mpi_plugin_table*>(::dlsym(opened, WARREN_MPI_PLUGIN_SYMBOL));
    const std::string advice = ": install warren and warren-mpi of the same version";
    if (plugin == nullptr) {
        problem =
            path + " is not a plug-in of Warren: it has no " WARREN_MPI_PLUGIN_SYMBOL + advice;
    } else if (plugin->version != WARREN_MPI_PLUGIN_VERSION) {
        problem = path + " is a plug-in of version " + std::to_string(plugin->version) +
                  ", and this program takes version " + std::to_string(WARREN_MPI_PLUGIN_VERSION) +
                  advice;
    } else if (plugin->size != sizeof *plugin) {
        problem = path + " has an interface of " + std::to_string(plugin->size) +
                  " bytes, and version " + std::to_string(WARREN_MPI_PLUGIN_VERSION) + " has " +
                  std::to_string(sizeof *plugin) + advice;
    } else {
        return plugin;
    }
    return nullptr;
}

}  // namespace warren::walk
