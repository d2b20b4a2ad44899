// Keeps the files up to date in which others see the IDs of this process and the counters of its
// messages (fabric/cm_table.hpp): one for each of its HCAs. An ID is in that of its HCA, or of the
// first one while it has none.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "softib/endpoint/endpoint.hpp"
#include "softib/fabric/cm_table.hpp"
#include "softib/rdma_cm/manager.hpp"

namespace softib::ucma {

class CmStatus {
 public:
  /// Creates the files. An HCA without a file shows nothing.
  CmStatus(const fabric::SubnetFolder& folder, const std::vector<endpoint::Endpoint*>& endpoints);
  /// To call after each call into the manager.
  void update(rdma_cm::Manager& manager);

 private:
  struct Table {
    std::optional<fabric::CmTableWriter> file;
    std::vector<std::size_t> free;  ///< entries that were used before
    std::size_t used = 0;           ///< entries that have ever been used
    std::size_t unlisted = 0;
  };
  struct Listed {
    std::size_t table = 0;
    std::optional<std::size_t> entry;  ///< nullopt if the table was full
    fabric::CmEntry words{};
  };

  [[nodiscard]] Listed list(std::size_t table);
  void remove(const Listed& listed);

  std::vector<Table> tables_;
  std::map<rdma_cm::IdHandle, Listed> listed_;
};

}  // namespace softib::ucma
