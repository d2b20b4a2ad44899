// Asks a process for the objects of its HCA (core/object_list.hpp), by a connection of its own,
// which needs no endpoint of this process.
#pragma once

#include <chrono>
#include <vector>

#include "softib/core/object_list.hpp"
#include "softib/fabric/attached_processes.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::endpoint {

/// How long processes are waited for that do not answer, for instance because they are stopped.
class AnswerPatience {
 public:
  /// For all of them together.
  static constexpr std::chrono::milliseconds kTotal{500};
  /// For each, when that is used up.
  static constexpr std::chrono::milliseconds kLeast{5};

  /// Waits until a descriptor is readable. Returns whether it is.
  [[nodiscard]] bool wait_for(int fd);

 private:
  std::chrono::nanoseconds left_{kTotal};
};

/// Pages of one kind that a process is asked for: more than it can have objects.
inline constexpr std::size_t kMaxObjectPages = 4096;

/// The objects of one kind, as far as the process tells them; nothing in them can be trusted.
[[nodiscard]] std::vector<ObjectStatus> ask_for_objects(const fabric::SubnetFolder& folder,
                                                        fabric::SlotAddress process,
                                                        ObjectKind kind, AnswerPatience& patience);

}  // namespace softib::endpoint
