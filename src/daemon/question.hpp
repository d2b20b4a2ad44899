// How the interfaces of a port share one client of the subnet administrator: the name of a question
// says whose it is. Numbers of interfaces are not used twice, so an answer that comes after its
// interface has gone finds nobody.
#pragma once

#include <cstdint>

#include "ipoib/strong.hpp"
#include "link/events.hpp"
#include "sa/query.hpp"

namespace ipoib::daemon {

/// Counts the interfaces that a process has made.
using InterfaceNumber = Strong<struct InterfaceNumberTag, std::uint32_t>;

struct Question {
  enum class Kind : std::uint8_t { join, path, leave, members, subscription };

  InterfaceNumber interface;  ///< 29 bits; 0: the port's own question
  Kind kind = Kind::join;
  link::QuestionId id;  ///< at the interface's link, or for the port; a leave has none

  [[nodiscard]] sa::QueryId name() const {
    return sa::QueryId(std::uint64_t{interface.value()} << 35 |
                       std::uint64_t{static_cast<std::uint8_t>(kind)} << 32 | id.value());
  }
  [[nodiscard]] static Question of(sa::QueryId name) {
    return {InterfaceNumber(static_cast<std::uint32_t>(name.value() >> 35)),
            static_cast<Kind>(name.value() >> 32 & 7),
            link::QuestionId(static_cast<std::uint32_t>(name.value()))};
  }
  friend bool operator==(const Question&, const Question&) = default;
};

}  // namespace ipoib::daemon
