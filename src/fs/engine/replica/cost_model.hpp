// SPDX-License-Identifier: Apache-2.0
// Predicts how long a query takes: a sum of amounts, each at a rate that is learnt from the queries
// that ran.
//
// Invariant: rates are positive.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include "base/check.hpp"

namespace warren {

class CostModel {
 public:
    /// For the query itself, for each name that it visits, for the version of the replica that is
    /// made before it if blocks are marked, for each block that is sent for it.
    using Terms = std::array<double, 4>;

    /// `rates` in seconds.
    explicit CostModel(const Terms& rates) : rates_(rates) {
        for (const double rate : rates)
            WARREN_CHECK(rate > 0);
    }

    const Terms& rates() const { return rates_; }
    double predict(const Terms& amounts) const {
        double sum = 0;
        for (std::size_t i = 0; i < amounts.size(); ++i)
            sum += rates_[i] * amounts[i];
        return sum;
    }

    /// Moves the prediction for `amounts` towards `seconds`: its logarithm by the share `gain` of
    /// the way. Each rate moves as far as its term contributes, so those without a part stay.
    void learn(const Terms& amounts, double seconds, double gain) {
        WARREN_CHECK(seconds > 0 && predict(amounts) > 0);
        const double predicted = predict(amounts);
        const double wanted = predicted * std::pow(seconds / predicted, gain);
        Terms shares{};
        double squares = 0;
        for (std::size_t i = 0; i < amounts.size(); ++i) {
            shares[i] = rates_[i] * amounts[i] / predicted;
            squares += shares[i] * shares[i];
        }
        for (std::size_t i = 0; i < amounts.size(); ++i)
            rates_[i] *= std::pow(wanted / predicted, shares[i] / squares);
        // The powers are right to the first order; the rest is the same for all.
        const double rest = wanted / predict(amounts);
        for (std::size_t i = 0; i < amounts.size(); ++i)
            if (amounts[i] > 0) rates_[i] *= rest;
    }

 private:
    Terms rates_;
};

}  // namespace warren
