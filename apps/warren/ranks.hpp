// SPDX-License-Identifier: Apache-2.0
// The processes that mpirun has started for one command: which rank this one is, and what they
// share.
//
// Invariant: what any of them prints comes out at rank 0, whole lines as they are. The functions
// below that all ranks call together are called by all, in the same order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "warren/types.hpp"
#include "warren/walk_group.hpp"

namespace warren::cli {

/// Joins the others, if there are any. False, with a complaint, if that fails, if the launcher is
/// not supported, or if the command does not span ranks.
bool join_ranks(bool spans_ranks);
/// For what one rank does alone: the others get `true` and have nothing to do. All call it.
bool leave_to_rank_0();
/// Delivers to rank 0 the messages that the others have not sent yet. All call it.
void flush_ranks();

/// Null: there is this process only.
walk::Group* rank_group();
u32 rank_number();
u32 rank_count();
/// What rank 0 gave. All call it.
std::string share_over_ranks(std::string_view of_rank_0);
/// What each gave, in their order. All call it.
std::vector<std::string> gather_over_ranks(std::string_view own);

/// The kinds of messages that other ranks send to rank 0.
enum class RankMessage : u8 { output, complaint, failure, progress };
void send_to_rank_0(RankMessage what, std::string_view bytes);
/// Prints a complaint of another rank, unless the same has been printed already: what all of them
/// find wrong is said once.
void relay_complaint(std::string_view line);

}  // namespace warren::cli
