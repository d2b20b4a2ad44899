// The outstanding requests about each membership (group, port and JoinState), oldest first. Joins
// and leaves are about a membership; other requests are not in here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "wire/sa_request.hpp"

namespace ipoib::sa {

class MembershipOrder {
 public:
  using Tid = std::uint32_t;

  void add(const wire::SaRequest& request, Tid tid);
  void remove(const wire::SaRequest& request, Tid tid);
  void rename(const wire::SaRequest& request, Tid before, Tid after);
  /// The outstanding requests about the membership of `request`.
  [[nodiscard]] std::vector<Tid> beside(const wire::SaRequest& request) const;

 private:
  using Membership = std::tuple<Gid, Gid, std::uint8_t>;
  [[nodiscard]] static std::optional<Membership> membership_of(const wire::SaRequest& request);

  std::map<Membership, std::vector<Tid>> outstanding_;  ///< no vector is empty
};

}  // namespace ipoib::sa
