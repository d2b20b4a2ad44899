#include "softib/fabric/cm_table.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "ipoib/write_all.hpp"
#include "softib/fabric/mapped_file.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::fabric {

using ipoib::Error;
using ipoib::Result;

struct CmTableLayout {
  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> epoch;
  std::atomic<std::uint64_t> unlisted;
  std::array<std::atomic<char>, kMaxProgramName> program;
  std::array<std::atomic<std::uint64_t>, kCmCounters> counters;
  std::array<PublishedRecord<kCmEntryWords>, kMaxListedCmIds> entries;
};

namespace {

constexpr std::uint64_t kMagic = 0x736f'6674'6962'636d;  // "softibcm"

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBytes = (sizeof(CmTableLayout) + kPage - 1) / kPage * kPage;

Result<std::shared_ptr<CmTableLayout>> map(int file) {
  auto mapped = map_file(file, kBytes);
  if (!mapped) return mapped.error();
  auto* const layout = static_cast<CmTableLayout*>(mapped->get());
  return std::shared_ptr<CmTableLayout>(std::move(*mapped), layout);
}

}  // namespace

/// Creates the file. What an earlier process has written is discarded; pages that are not used take
/// no memory.
Result<CmTableWriter> CmTableWriter::create(const SubnetFolder& folder, SlotAddress slot,
                                            std::uint32_t epoch, std::string_view program) {
  const auto at = folder.open_node(slot.node);
  if (!at) return at.error();
  const auto file = open_shared(at->get(), slot_cm_name(slot.slot), IfMissing::create);
  if (!file) return file.error();
  int code = ipoib::set_file_size(file->get(), 0);
  if (code == 0) code = ipoib::set_file_size(file->get(), kBytes);
  if (code != 0) {
    return Error{code, slot_cm_name(slot.slot) + ": " + std::strerror(code)};
  }
  auto layout = map(file->get());
  if (!layout) return layout.error();
  const auto name = program.substr(0, kMaxProgramName);
  for (std::size_t i = 0; i < name.size(); ++i) (*layout)->program[i] = name[i];
  (*layout)->epoch = epoch;
  (*layout)->magic.store(kMagic, std::memory_order_release);
  return CmTableWriter(std::move(*layout));
}

void CmTableWriter::set_entry(std::size_t index, const CmEntry& entry) {
  layout_->entries[index].publish(entry);
}

void CmTableWriter::set_counters(const CmCounterValues& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    layout_->counters[i].store(values[i], std::memory_order_relaxed);
  }
}

void CmTableWriter::set_unlisted(std::size_t ids) {
  layout_->unlisted.store(ids, std::memory_order_relaxed);
}

std::optional<CmTable> read_cm_table(const SubnetFolder& folder, SlotAddress slot,
                                     std::uint32_t epoch) {
  const auto at = folder.open_node(slot.node);
  if (!at) return std::nullopt;
  const auto file = open_shared(at->get(), slot_cm_name(slot.slot), IfMissing::fail);
  if (!file) return std::nullopt;
  const auto layout = map(file->get());
  if (!layout || (*layout)->magic.load(std::memory_order_acquire) != kMagic) return std::nullopt;
  const CmTableLayout& from = **layout;
  if (from.epoch != epoch) return std::nullopt;
  CmTable table;
  for (const auto& character : from.program) table.program += character.load();
  table.program.resize(std::min(table.program.find('\0'), table.program.size()));
  table.unlisted = from.unlisted;
  std::copy(from.counters.begin(), from.counters.end(), table.counters.begin());
  for (const auto& record : from.entries) {
    CmEntry entry;
    if (record.version() != 0 && record.read(entry) && entry[0] != 0) {
      table.entries.push_back(entry);
    }
  }
  return table;
}

}  // namespace softib::fabric
