// SPDX-License-Identifier: Apache-2.0
// Mounts a volume on an engine that is lost, like a GPU, once a file of a given name exists, so
// that the handling of a loss is tested on machines without a GPU. Runs in the foreground.
//
//   losable_mount IMAGE DIRECTORY FILE
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "apps/fuse/mount.hpp"
#include "tests/support/losable_engine.hpp"

int main(int argument_count, char** arguments) {
    if (argument_count != 4) {
        std::fprintf(stderr, "usage: losable_mount IMAGE DIRECTORY FILE\n");
        return EXIT_FAILURE;
    }
    const std::string sign = arguments[3];
    warren::fuse::MountOptions options;
    options.program = "losable_mount";
    options.image = arguments[1];
    options.mountpoint = arguments[2];
    options.foreground = true;
    options.allow_other = true;
    options.commit_seconds = 0;
    options.open = [&](const std::string& image, const warren::OpenOptions& how,
                       warren::Failure& failure) {
        return warren::open_on_losable_engine(image, how, failure,
                                              [&] { return ::access(sign.c_str(), F_OK) == 0; });
    };
    return warren::fuse::mount_volume(options);
}
