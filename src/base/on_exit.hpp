// SPDX-License-Identifier: Apache-2.0
// What must be undone or ended however a scope ends, by a return or by an exception.
#pragma once

#include <utility>

namespace warren {

/// Calls a function at the end of its scope.
template <class Call>
class [[nodiscard]] OnExit {
 public:
    explicit OnExit(Call call) : call_(std::move(call)) {}
    ~OnExit() { call_(); }
    OnExit(const OnExit&) = delete;
    OnExit& operator=(const OnExit&) = delete;

 private:
    Call call_;
};

}  // namespace warren
