// What a link has to say: lists that its parts append to and its owner drains.
#pragma once

#include <vector>

#include "ipoib/frame.hpp"
#include "ipoib/ud_port.hpp"
#include "link/counters.hpp"
#include "link/events.hpp"

namespace ipoib::link {

struct Output {
  std::vector<Outgoing> sends;
  std::vector<Frame> to_host;
  std::vector<Event> events;
  Counters counters;
};

/// The questions of one link are numbered in one sequence.
class QuestionIds {
 public:
  [[nodiscard]] QuestionId next() { return QuestionId(++last_); }

 private:
  QuestionId::Representation last_ = 0;
};

}  // namespace ipoib::link
