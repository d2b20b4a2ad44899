// The published state of the connection manager of a process: a file for each process slot, which
// the process writes and `softib show --cm` reads. It holds the IDs of the process, and counters of
// its messages. A process that is stopped or stuck can still be examined.
//
//   | magic 64 | epoch 64 | unlisted 64 | name 32 bytes | counters | entries |
//
// An entry is a PublishedRecord: a reader sees a whole value, also of a process that was killed. An
// entry whose first word is 0 is free. Other users' processes write such files, so a reader trusts
// nothing in them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/fabric/attached_processes.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/fabric/published_record.hpp"

namespace softib::fabric {

/// The number of IDs of a process that are listed. The others are counted.
inline constexpr std::size_t kMaxListedCmIds = 4'096;
inline constexpr std::size_t kCmEntryWords = 9;
inline constexpr std::size_t kCmCounters = 48;
/// Longest name of a program, in bytes; longer ones are cut.
inline constexpr std::size_t kMaxProgramName = 32;

using CmEntry = std::array<std::uint64_t, kCmEntryWords>;
using CmCounterValues = std::array<std::uint64_t, kCmCounters>;

struct CmTableLayout;

/// Writes the file of the process in a slot; not thread-safe.
class CmTableWriter {
 public:
  /// Creates the file of a slot, or replaces its content. `program` is the name of the process.
  [[nodiscard]] static ipoib::Result<CmTableWriter> create(const SubnetFolder& folder,
                                                           SlotAddress slot, std::uint32_t epoch,
                                                           std::string_view program);

  /// Sets an entry; zeroes free it. Requires index < kMaxListedCmIds.
  void set_entry(std::size_t index, const CmEntry& entry);
  void set_counters(const CmCounterValues& values);
  void set_unlisted(std::size_t ids);

 private:
  explicit CmTableWriter(std::shared_ptr<CmTableLayout> layout) : layout_(std::move(layout)) {}
  std::shared_ptr<CmTableLayout> layout_;
};

struct CmTable {
  std::string program;  ///< any bytes
  std::uint64_t unlisted = 0;
  CmCounterValues counters{};
  std::vector<CmEntry> entries;  ///< without free ones
};
/// Reads the file of a slot; nullopt if its process has written none in this epoch.
[[nodiscard]] std::optional<CmTable> read_cm_table(const SubnetFolder& folder, SlotAddress slot,
                                                   std::uint32_t epoch);

}  // namespace softib::fabric
