#include "softib/ucma/cm_status.hpp"

#include <algorithm>
#include <cerrno>
#include <type_traits>

#include "softib/transport/fork_guard.hpp"

namespace softib::ucma {

namespace {

static_assert(fabric::kCmEntryWords == rdma_cm::IdStatus::kWords);
static_assert(std::is_same_v<fabric::CmCounterValues, cm::Counters::Values>);

}  // namespace

CmStatus::CmStatus(const fabric::SubnetFolder& folder,
                   const std::vector<endpoint::Endpoint*>& endpoints) {
  for (const auto* const endpoint : endpoints) {
    const transport::ForkLock held;  // no child keeps the descriptor
    auto file = fabric::CmTableWriter::create(folder, {endpoint->node(), endpoint->slot()},
                                              endpoint->epoch(), program_invocation_short_name);
    tables_.emplace_back();
    if (file) tables_.back().file = std::move(*file);
  }
}

CmStatus::Listed CmStatus::list(std::size_t number) {
  Table& table = tables_.at(number);
  Listed listed{number, std::nullopt, {}};
  if (!table.free.empty()) {
    listed.entry = table.free.back();
    table.free.pop_back();
  } else if (table.used < fabric::kMaxListedCmIds) {
    listed.entry = table.used++;
  } else {
    ++table.unlisted;
  }
  return listed;
}

void CmStatus::remove(const Listed& listed) {
  Table& table = tables_.at(listed.table);
  if (!listed.entry) {
    --table.unlisted;
    return;
  }
  table.free.push_back(*listed.entry);
  if (table.file) table.file->set_entry(*listed.entry, {});
}

void CmStatus::update(rdma_cm::Manager& manager) {
  for (const auto handle : manager.take_changed_ids()) {
    const auto status = manager.status(handle);
    auto known = listed_.find(handle);
    if (known != listed_.end() && (!status || status->hca != known->second.table)) {
      remove(known->second);
      listed_.erase(known);
      known = listed_.end();
    }
    if (!status) continue;
    if (known == listed_.end()) known = listed_.emplace(handle, list(status->hca)).first;
    Listed& listed = known->second;
    const auto words = status->words();
    if (!listed.entry || listed.words == words) continue;
    listed.words = words;
    if (auto& file = tables_[listed.table].file) file->set_entry(*listed.entry, words);
  }
  for (std::size_t hca = 0; hca < tables_.size(); ++hca) {
    if (!tables_[hca].file) continue;
    tables_[hca].file->set_counters(manager.communication(hca).counters().values());
    tables_[hca].file->set_unlisted(tables_[hca].unlisted);
  }
}

}  // namespace softib::ucma
