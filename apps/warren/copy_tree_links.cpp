// SPDX-License-Identifier: Apache-2.0
// Files with several names. The first copy that is complete gets an additional name in the folder
// for links, made of the source's device and inode number. linkat(2) succeeds for exactly one of
// any number of threads and processes, so nothing is kept in memory.
#include <cerrno>
#include <cstdio>

#include "apps/warren/copy_tree.hpp"
#include "apps/warren/directory.hpp"

namespace warren::cli {

namespace {

bool same_file(const Place& one, const Place& two) {
    struct stat first {};
    struct stat second {};
    return look_at(one, first) == 0 && look_at(two, second) == 0 && first.st_ino == second.st_ino &&
           first.st_dev == second.st_dev;
}

/// Whether a file cannot get another name here at all, so that it is copied instead.
bool cannot_link(int error) {
    return error == EPERM || error == EXDEV || error == EMLINK || error == EOPNOTSUPP ||
           error == ENOSYS;
}

}  // namespace

std::string links_folder_name(const std::string& mark) {
    return mark + "-links";
}

/// The folder for links, opened and if necessary created on first use; -1 on failure, also if
/// another user has made it or may write into it. Only the first failure is reported.
int TreeCopy::links() {
    std::lock_guard lock(links_mutex_);
    if (links_directory_ || has_no_links_) return links_directory_.get();
    const std::string path = joined(links_folder_, links_folder_name(run_.mark));
    const auto open = [&] {
        if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return errno;
        links_directory_ =
            Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        struct stat facts {};
        if (!links_directory_ || ::fstat(links_directory_.get(), &facts) != 0) return errno;
        return facts.st_uid == ::geteuid() && (facts.st_mode & 077) == 0 ? 0 : EPERM;
    };
    if (const int error = open()) {
        links_directory_.close();
        has_no_links_ = true;
        run_.failures.add({path, "use the folder for hard links", error});
    }
    return links_directory_.get();
}

std::string TreeCopy::link_name(const Job& job) const {
    char text[40];
    std::snprintf(text, sizeof text, "%llx-%llx", static_cast<unsigned long long>(job.device),
                  static_cast<unsigned long long>(job.inode));
    return text;
}

/// Makes the target a hard link to an earlier copy, if there is one. If there is none, or the file
/// system does not allow the link, the caller copies.
bool TreeCopy::link_to_earlier(const Job& job) {
    const int folder = links();
    if (folder < 0) return false;
    const std::string earlier = link_name(job);
    const char* name = job.to.name;
    const bool is_made = ::linkat(folder, earlier.c_str(), job.to.directory, name, 0) == 0;
    const auto copies_instead = [&](i32 error) {
        if (!cannot_link(error)) fail(true, "create hard link", error, job.below);
        return false;
    };
    if (!is_made && errno == ENOENT) return false;
    if (!is_made && errno != EEXIST) return copies_instead(errno);
    if (is_made || same_file({folder, earlier.c_str()}, job.to)) return true;
    std::string beside = temporary_name(last_component(name)) + "+";  // unlike the copy's own
    const std::string_view path = name;
    if (const size_t slash = path.rfind('/'); slash != path.npos) {
        beside.insert(0, path.substr(0, slash + 1));
    }
    if (run_.is_resumed()) ::unlinkat(job.to.directory, beside.c_str(), 0);
    if (::linkat(folder, earlier.c_str(), job.to.directory, beside.c_str(), 0) != 0) {
        return copies_instead(errno);
    }
    if (::renameat(job.to.directory, beside.c_str(), job.to.directory, name) == 0) return true;
    fail(true, "create hard link", errno, job.below);
    ::unlinkat(job.to.directory, beside.c_str(), 0);
    return true;
}

/// Registers `name`, in the target's directory, as the copy that later names link to; false if
/// another copy of the same file is registered already.
bool TreeCopy::register_link(const Job& job, const char* name) {
    const int folder = links();
    if (folder < 0) return true;
    const std::string own = link_name(job);
    if (::linkat(job.to.directory, name, folder, own.c_str(), 0) == 0) return true;
    if (errno == EEXIST) return same_file({folder, own.c_str()}, {job.to.directory, name});
    if (!cannot_link(errno)) fail(true, "create hard link", errno, job.below);
    return true;
}

void remove_link_folder(CopyRun& run, const std::string& folder) {
    const std::string path = joined(folder, links_folder_name(run.mark));
    const auto fail = [&](int error) { run.failures.add({path, "remove", error}); };
    const Descriptor directory(
        ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory && errno == ENOENT) return;  // no file had several names
    if (!directory) return fail(errno);
    std::vector<std::string> names;
    if (const int error = list_names(directory.get(), names)) return fail(error);
    for (const std::string& name : names) {
        if (::unlinkat(directory.get(), name.c_str(), 0) != 0 && errno != ENOENT) fail(errno);
    }
    // Removing the folder changes the time of the directory that holds it, which is final: restore
    // it.
    struct stat status {};
    const bool known = ::stat(folder.c_str(), &status) == 0;
    if (::rmdir(path.c_str()) != 0 && errno != ENOENT) fail(errno);
    const timespec times[] = {{0, UTIME_OMIT}, status.st_mtim};
    if (known) static_cast<void>(::utimensat(AT_FDCWD, folder.c_str(), times, 0));
}

}  // namespace warren::cli
