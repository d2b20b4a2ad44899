#include "softib/view/open_folders.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

namespace softib::view {

namespace {

struct OpenFolders {
  std::mutex mutex;
  std::vector<std::unique_ptr<OpenFolder>> all;
};

/// Never destroyed: other destructors may read folders.
OpenFolders& folders() {
  static OpenFolders& one = *new OpenFolders;
  return one;
}

constinit std::atomic<std::size_t> open_count = 0;

dirent make_entry(const std::string& name, unsigned char type, std::size_t position) {
  dirent entry{};
  entry.d_ino = std::hash<std::string>()(name);
  entry.d_off = static_cast<off_t>(position + 1);
  entry.d_reclen = sizeof entry;
  entry.d_type = type;
  std::copy_n(name.c_str(), std::min(name.size() + 1, sizeof entry.d_name - 1), entry.d_name);
  return entry;
}

unsigned char type_of(Entry::Kind kind) {
  switch (kind) {
    case Entry::Kind::file:
      return DT_REG;
    case Entry::Kind::folder:
      return DT_DIR;
    case Entry::Kind::device:
      return DT_CHR;
  }
  return DT_UNKNOWN;
}

}  // namespace

std::vector<dirent> entries_of(const Tree& tree, const std::string& folder) {
  std::vector<dirent> entries;
  for (const auto& [name, kind] : tree.list(folder)) {
    entries.push_back(make_entry(name, type_of(kind), entries.size()));
  }
  return entries;
}

DIR* keep(OpenFolder folder) {
  auto kept = std::make_unique<OpenFolder>(std::move(folder));
  auto* const stream = reinterpret_cast<DIR*>(kept.get());
  const std::lock_guard lock(folders().mutex);
  folders().all.push_back(std::move(kept));
  open_count = folders().all.size();
  return stream;
}

OpenFolder* open_folder(const DIR* stream) {
  if (open_count.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(folders().mutex);
  const auto& all = folders().all;
  const auto found = std::ranges::find_if(
      all, [&](const auto& each) { return reinterpret_cast<const DIR*>(each.get()) == stream; });
  return found == all.end() ? nullptr : found->get();
}

void close(OpenFolder* folder) {
  const std::lock_guard lock(folders().mutex);
  auto& all = folders().all;
  std::erase_if(all, [&](const auto& each) { return each.get() == folder; });
  open_count = all.size();
}

}  // namespace softib::view
