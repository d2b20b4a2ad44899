#include "link/path.hpp"

#include "link/path_table.hpp"

namespace ipoib::link {

const PathData* Path::usable() const {
  struct Usable {
    const PathData* operator()(const path_state::Idle&) const { return nullptr; }
    const PathData* operator()(const path_state::Waiting&) const { return nullptr; }
    const PathData* operator()(const path_state::Asking&) const { return nullptr; }
    const PathData* operator()(const path_state::Ready& s) const { return &s.data; }
    const PathData* operator()(const path_state::Suspect& s) const { return &s.data; }
    const PathData* operator()(const path_state::Refreshing& s) const { return &s.data; }
    const PathData* operator()(const path_state::Failed&) const { return nullptr; }
  };
  return std::visit(Usable{}, state_);
}

void Path::await(PathWaiter& waiter) {
  if (auto* const waiting = std::get_if<path_state::Waiting>(&state_)) {
    waiting->waiters.push_back(waiter);
  } else {
    std::get<path_state::Asking>(state_).waiters.push_back(waiter);
  }
}

PathRef::~PathRef() {
  if (path_ != nullptr && --path_->users_ == 0) path_->table_.on_unused(*path_);
}

}  // namespace ipoib::link
