// SPDX-License-Identifier: Apache-2.0
// The processes that mpirun has started for one command: the rank of this process, and the
// communication between them.
//
// Invariant: the output of every rank is printed by rank 0, in whole lines and unchanged. Functions
// marked "Called by all ranks" are called by all of them, in the same order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "warren/types.hpp"
#include "warren/walk_group.hpp"

namespace warren::cli {

/// Joins the other ranks, if there are any. Returns false, after an error message, if that fails,
/// if the launcher is not supported, or if the command does not support several ranks.
bool join_ranks(bool spans_ranks);
/// For work that one rank does alone: returns true at the others, which have nothing to do. Called
/// by all ranks.
bool leave_to_rank_0();
/// Delivers to rank 0 the messages that other ranks have not sent yet. Called by all ranks.
void flush_ranks();

/// Null if this is the only process.
walk::Group* rank_group();
u32 rank_number();
u32 rank_count();
/// The string that rank 0 passed. Called by all ranks.
std::string share_over_ranks(std::string_view of_rank_0);
/// The strings that the ranks passed, in rank order. Called by all ranks.
std::vector<std::string> gather_over_ranks(std::string_view own);

/// The kinds of messages that other ranks send to rank 0.
enum class RankMessage : u8 { output, complaint, failure, progress };
void send_to_rank_0(RankMessage what, std::string_view bytes);
/// Prints a complaint of another rank, unless the same line was printed already: a problem that all
/// ranks find is reported once.
void relay_complaint(std::string_view line);

}  // namespace warren::cli
