#include "softib/view/process_resources.hpp"

#include "softib/fabric/attached_processes.hpp"
#include "softib/fabric/cm_table.hpp"

namespace softib::view {

std::vector<ResourceSource::Owned<ObjectStatus>> ProcessResources::objects(const ShownHca& hca,
                                                                           ObjectKind kind) {
  std::vector<Owned<ObjectStatus>> all;
  if (!subnet_) return all;
  const auto& [folder, fabric] = *subnet_;
  for (const auto& process : fabric::attached_processes(fabric, folder, hca.index)) {
    for (const auto& object :
         endpoint::ask_for_objects(folder, {hca.index, process.slot}, kind, patience_)) {
      all.push_back({{process.pid, process.slot}, object});
    }
  }
  return all;
}

std::vector<ResourceSource::Owned<rdma_cm::IdStatus>> ProcessResources::ids(const ShownHca& hca) {
  std::vector<Owned<rdma_cm::IdStatus>> all;
  if (!subnet_) return all;
  const auto& [folder, fabric] = *subnet_;
  for (const auto& process : fabric::attached_processes(fabric, folder, hca.index)) {
    const auto table = fabric::read_cm_table(folder, {hca.index, process.slot}, process.epoch);
    if (!table) continue;
    for (const auto& entry : table->entries) {
      const auto id = rdma_cm::IdStatus::parse(entry);
      if (id) all.push_back({{process.pid, process.slot}, *id});
    }
  }
  return all;
}

}  // namespace softib::view
