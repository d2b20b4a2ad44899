// Finding an RDMA device and reading what the subnet manager has configured on its port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/result.hpp"
#include "verbs/gid_table.hpp"
#include "verbs/owners.hpp"

namespace ipoib::verbs {

enum class LinkLayer : std::uint8_t {
  infiniband,
  roce,  ///< Ethernet below: there are neither LIDs nor a subnet manager (IBA annex 17)
};

/// A port as it is at one moment.
struct PortSnapshot {
  LinkLayer link_layer = LinkLayer::infiniband;
  bool active = false;
  Lid lid;
  std::uint8_t lmc = 0;
  Lid sm_lid;
  ServiceLevel sm_sl;
  Gid gid;  ///< zero while a RoCE port has none that can be used
  std::uint8_t gid_index = 0;
  std::uint32_t network_device = 0;  ///< interface index of what a RoCE port's GID belongs to
  std::uint32_t active_mtu = 0;      ///< octets
  std::uint32_t max_mtu = 0;         ///< octets
  std::uint32_t rate_mbps = 0;
  std::vector<PKey> pkeys;  ///< the table by its indices; an invalid key is a free place
  friend bool operator==(const PortSnapshot&, const PortSnapshot&) = default;
};

/// One open device and one of its ports. The verbs are thread-safe, so threads may share it.
class Device {
 public:
  /// Opens the device called `name` with an InfiniBand or RoCE port `port`, or the first one with
  /// such an InfiniBand port when `name` is empty. `gid_index` is that of a RoCE port; without it,
  /// choose_gid() does. Error code ENODEV: no such device (yet); anything else: it is there and
  /// refuses.
  [[nodiscard]] static Result<Device> open(const std::string& name, std::uint8_t port,
                                           std::optional<std::uint8_t> gid_index = {});

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint8_t port() const { return port_; }
  [[nodiscard]] LinkLayer link_layer() const { return link_layer_; }
  [[nodiscard]] ibv_context* context() const { return context_.get(); }
  /// Reads port, GID and P_Key table.
  [[nodiscard]] Result<PortSnapshot> query() const;

 private:
  Device(Context context, std::uint8_t port, LinkLayer link_layer,
         std::optional<std::uint8_t> gid_index);
  [[nodiscard]] Result<void> read_gid(PortSnapshot& out) const;

  Context context_;
  std::string name_;
  std::uint8_t port_;
  LinkLayer link_layer_;
  std::optional<std::uint8_t> gid_index_;
};

}  // namespace ipoib::verbs
