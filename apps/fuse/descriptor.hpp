// SPDX-License-Identifier: Apache-2.0
// A file descriptor that closes itself: daemon, control socket and commands pass many around, some
// of them received from strangers.
//
// Invariant: one owner at a time; -1 means none.
#pragma once

#include <unistd.h>

#include <utility>

namespace warren::fuse {

class Descriptor {
 public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) {
            close();
            number_ = std::exchange(other.number_, -1);
        }
        return *this;
    }
    ~Descriptor() { close(); }

    explicit operator bool() const { return number_ >= 0; }
    int get() const { return number_; }

    void close() {
        if (number_ >= 0) ::close(number_);
        number_ = -1;
    }

 private:
    int number_ = -1;
};

}  // namespace warren::fuse
