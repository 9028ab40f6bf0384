// SPDX-License-Identifier: Apache-2.0
// A file descriptor that closes itself.
//
// Invariant: one owner at a time; -1 means none.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace warren {

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

    /// Closes the descriptor now. Returns 0 or an errno value.
    int close() {
        const int number = std::exchange(number_, -1);
        return number >= 0 && ::close(number) != 0 ? errno : 0;
    }

 private:
    int number_ = -1;
};

}  // namespace warren
