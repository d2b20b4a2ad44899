// Asks the processes on an HCA for their objects (endpoint/asked_process.hpp), and reads the state
// of their connection managers from their files (fabric/cm_table.hpp).
#pragma once

#include "softib/endpoint/asked_process.hpp"
#include "softib/view/process_view.hpp"
#include "softib/view/resources.hpp"

namespace softib::view {

/// Of the subnet of this process. A process that does not answer has no objects.
class ProcessResources final : public ResourceSource {
 public:
  [[nodiscard]] std::vector<Owned<ObjectStatus>> objects(const ShownHca& hca,
                                                         ObjectKind kind) override;
  [[nodiscard]] std::vector<Owned<rdma_cm::IdStatus>> ids(const ShownHca& hca) override;

 private:
  const std::optional<ProcessSubnet> subnet_ = process_subnet();
  endpoint::AnswerPatience patience_;
};

}  // namespace softib::view
