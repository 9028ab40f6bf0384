// SPDX-License-Identifier: Apache-2.0
// Control sockets of mounts that get the same device number one after the other, while the daemon
// of the first is still running.
#include "apps/fuse/control_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "base/on_exit.hpp"
#include "tests/apps/served_control.hpp"
#include "tests/apps/starved_mount.hpp"
#include "tests/support/folder.hpp"

namespace {

/// Called before this thread removes a name.
thread_local std::function<void()> before_unlink;

}  // namespace

/// The system call, except for this. All code linked into this program calls this function.
int unlink(const char* path) noexcept {
    if (before_unlink) std::exchange(before_unlink, {})();
    return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

namespace warren::fuse::test::control_socket_test {
namespace {

constexpr mode_t mode = 0600;
const std::string name = "0:47";
const std::function<bool()> always = [] { return true; };

/// A daemon that does nothing but listen.
struct Daemon {
    std::string start(const std::string& directory,
                      const std::function<bool()>& is_mounted = always) {
        std::string error;
        listener = socket.listen(directory, name, mode, is_mounted, error);
        EXPECT_EQ(listener.get() < 0, !error.empty());
        return error;
    }
    /// Whether a connection by the name arrives here.
    bool is_reached(const std::string& directory) const {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, (directory + "/" + name).c_str());
        const Descriptor peer(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(peer.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
            return false;
        return bool(Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    }

    ControlSocket socket;
    Descriptor listener;
};

/// Starts `daemon` in another thread, and gives it time to take the name if nothing holds it up.
std::thread start_aside(Daemon& daemon, const std::string& directory) {
    std::thread starter([&] { EXPECT_EQ(daemon.start(directory), ""); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return starter;
}

class ControlSocketTest : public testing::Test {
 protected:
    const walk::Folder folder_;
    const std::string directory_ = folder_ / "warren";
    Daemon ending_;
    Daemon next_;
};

TEST_F(ControlSocketTest, isRemovedAtTheEnd) {
    ASSERT_EQ(ending_.start(directory_), "");
    EXPECT_TRUE(ending_.is_reached(directory_));
    struct stat facts {};
    ASSERT_EQ(::lstat((directory_ + "/" + name).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, mode);
    ending_.socket.remove();
    EXPECT_EQ(::access((directory_ + "/" + name).c_str(), F_OK), -1);
    ending_.socket.remove();  // has no effect, nor has removing what was never made
    next_.socket.remove();
}

TEST_F(ControlSocketTest, replacesThatOfADaemonThatWasKilled) {
    ASSERT_EQ(ending_.start(directory_), "");
    ending_.listener.close();
    EXPECT_EQ(next_.start(directory_), "");
    EXPECT_TRUE(next_.is_reached(directory_));
}

TEST_F(ControlSocketTest, ofTheNextMountIsNotRemoved) {
    ASSERT_EQ(ending_.start(directory_), "");
    ASSERT_EQ(next_.start(directory_), "");
    ending_.socket.remove();
    EXPECT_TRUE(next_.is_reached(directory_));
}

TEST_F(ControlSocketTest, ofTheNextMountIsNotRemovedIfItIsMadeMeanwhile) {
    ASSERT_EQ(ending_.start(directory_), "");
    std::thread starter;
    before_unlink = [&] { starter = start_aside(next_, directory_); };
    ending_.socket.remove();
    ASSERT_TRUE(starter.joinable());
    starter.join();
    EXPECT_TRUE(next_.is_reached(directory_));
}

TEST_F(ControlSocketTest, ofTheNextMountIsNotReplaced) {
    ASSERT_EQ(next_.start(directory_), "");
    const std::string error = ending_.start(directory_, [] { return false; });
    EXPECT_TRUE(error.ends_with(name + ": the mount is gone")) << error;
    EXPECT_TRUE(next_.is_reached(directory_));
}

TEST_F(ControlSocketTest, ofTheNextMountIsNotReplacedIfItIsMadeMeanwhile) {
    std::thread starter;
    EXPECT_EQ(ending_.start(directory_,
                            [&] {
                                starter = start_aside(next_, directory_);
                                return true;
                            }),
              "");
    starter.join();
    EXPECT_TRUE(next_.is_reached(directory_));
}

TEST_F(ControlSocketTest, isReachableWhateverTheUmask) {
    const mode_t before = ::umask(077);
    const OnExit restore([&] { ::umask(before); });
    ASSERT_EQ(ending_.start(directory_), "");
    struct stat facts {};
    ASSERT_EQ(::lstat(directory_.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0755u);
}

TEST_F(ControlSocketTest, isNotMadeInAnUnsafeDirectory) {
    const std::string missing = ending_.start(directory_ + "/below");
    EXPECT_TRUE(missing.ends_with("below: No such file or directory")) << missing;
    ASSERT_EQ(::mkdir(directory_.c_str(), 0700), 0);
    ASSERT_EQ(::chmod(directory_.c_str(), 0777), 0);
    const std::string open_to_all = ending_.start(directory_);
    EXPECT_TRUE(open_to_all.ends_with("only its owner can change")) << open_to_all;
    ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
    folder_.make_link("warren", "link");
    const std::string link = ending_.start(folder_ / "link");
    EXPECT_TRUE(link.ends_with("only its owner can change")) << link;
    const std::string too_long = ending_.start(folder_ / std::string(100, 'd'));
    EXPECT_TRUE(too_long.ends_with("too long for a socket")) << too_long;
}

TEST_F(ControlSocketTest, isNotMadeIfItsNameCannotBeTaken) {
    folder_.make_directory("warren");
    folder_.make_directory("warren/" + name);
    const std::string error = ending_.start(directory_);
    EXPECT_TRUE(error.ends_with(name + ": Address already in use")) << error;
}

TEST_F(ControlSocketTest, needsTheLock) {
    ASSERT_EQ(ending_.start(directory_), "");
    ASSERT_EQ(::unlink((directory_ + "/lock").c_str()), 0);
    folder_.make_directory("warren/lock");
    const std::string error = next_.start(directory_);
    EXPECT_TRUE(error.ends_with("/lock: Is a directory")) << error;
    ending_.socket.remove();  // leaves it to the next mount
    EXPECT_TRUE(ending_.is_reached(directory_));
}

/// After the mount has gone, its device number may be that of another.
TEST(ControlOfAMount, takesNoDirectoriesAfterItHasGone) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root may change the volume";
    const auto disk = make_memory_disk(volume_bytes);
    {
        const auto volume = Mount::open(*disk, "cpu");
        make_base(*volume);
        ASSERT_EQ(volume->close(), Errc::ok);
    }
    Mount mount(*disk, "cpu");
    Invalidator invalidator(mount.kernel.session(), [](u64, const std::string&) { return false; });
    ServedControl served(mount.state, invalidator);
    auto [own, other] = make_connection();
    served.server().admit(std::move(other));
    mount.kernel.hang_up();
    const int directory = served.root();
    ASSERT_EQ(send_frame(own.get(), ControlVerb::remove_tree, Encoder().text("directory").bytes(),
                         {&directory, 1}),
              Errc::ok);
    Frame frame;
    ASSERT_EQ(receive_frame(own.get(), frame), Errc::ok);
    EXPECT_EQ(static_cast<Errc>(Decoder(frame.payload).number32()), Errc::stale);
    EXPECT_TRUE(mount.volume().lookup(anybody, mount.volume().root(), "directory"));
    own.close();
}

}  // namespace
}  // namespace warren::fuse::test::control_socket_test
