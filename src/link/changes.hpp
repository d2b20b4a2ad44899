// Changes of neighbours and groups, for those who watch the link.
//
// While nobody watches, a change costs one comparison. Otherwise up to kMax changes wait to be
// taken. Further ones are lost and counted until all that wait have been taken, so that the reader
// can tell where they are missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "link/neighbour_info.hpp"

namespace ipoib::link {

struct NeighbourChange {
  enum class Kind : std::uint8_t { created, changed, removed };
  Kind kind = Kind::changed;
  NeighbourInfo neighbour;  ///< afterwards; of a removed one, before
  std::string why;          ///< for the operator
};

struct GroupChange {
  enum class Kind : std::uint8_t { joining, joined, failed, left };
  Kind kind = Kind::joining;
  GroupInfo group;  ///< afterwards
  std::string why;  ///< for the operator
};

using Change = std::variant<NeighbourChange, GroupChange>;

struct ChangePage {
  std::vector<Change> changes;
  std::uint64_t lost = 0;  ///< changes after these that were lost
};

class Changes {
 public:
  /// The number of changes that may wait: as many as one turn of the interface's thread causes, but
  /// not as many as there are neighbours.
  static constexpr std::size_t kMax = 1024;

  struct Wanted {
    bool neighbours = false;
    bool groups = false;
  };

  /// Says which changes are wanted. If none are, forgets those that wait.
  void watch(Wanted wanted);
  [[nodiscard]] bool wants_neighbours() const { return wanted_.neighbours; }
  [[nodiscard]] bool wants_groups() const { return wanted_.groups; }
  /// `neighbour` was made with Neighbour::info(TimePoint{}), since nobody knows the time here.
  void add(NeighbourChange::Kind kind, const NeighbourInfo& neighbour, std::string_view why);
  void add(GroupChange::Kind kind, const GroupInfo& group, std::string_view why);

  [[nodiscard]] bool empty() const { return waiting_.empty() && lost_ == 0; }
  /// Takes the oldest changes, at most `limit`.
  [[nodiscard]] ChangePage take(std::size_t limit, TimePoint now);

 private:
  void add(Change&& change);

  Wanted wanted_;
  std::deque<Change> waiting_;
  std::uint64_t lost_ = 0;  ///< after the newest of those that wait
};

}  // namespace ipoib::link
