// A counted reference to a path.
#pragma once

#include <utility>

#include "link/path.hpp"

namespace ipoib::link {

/// Keeps the path in its table, which outlives the reference.
class PathRef {
 public:
  PathRef() = default;
  explicit PathRef(Path& path) : path_(&path) { ++path.users_; }
  PathRef(PathRef&& other) noexcept : path_(std::exchange(other.path_, nullptr)) {}
  PathRef& operator=(PathRef&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  PathRef(const PathRef&) = delete;
  PathRef& operator=(const PathRef&) = delete;
  ~PathRef();

  [[nodiscard]] explicit operator bool() const { return path_ != nullptr; }
  [[nodiscard]] Path& operator*() const { return *path_; }
  [[nodiscard]] Path* operator->() const { return path_; }

 private:
  Path* path_ = nullptr;
};

}  // namespace ipoib::link
