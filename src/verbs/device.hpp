// Finds an RDMA device, and reads the attributes of its port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/inactive_port.hpp"
#include "ipoib/result.hpp"
#include "verbs/gid_table.hpp"
#include "verbs/owners.hpp"

namespace ipoib::verbs {

enum class LinkLayer : std::uint8_t {
  infiniband,
  roce,  ///< over Ethernet: no LIDs, no subnet manager (IBA annex 17)
};

/// A snapshot of a port's attributes.
struct PortSnapshot {
  LinkLayer link_layer = LinkLayer::infiniband;
  bool active = false;
  Inactive inactive = Inactive::down;  ///< why it is not active
  Lid lid;
  std::uint8_t lmc = 0;
  Lid sm_lid;
  ServiceLevel sm_sl;
  Gid gid;  ///< zero while a RoCE port has no usable one
  std::uint8_t gid_index = 0;
  std::uint32_t network_device = 0;  ///< interface index of the device with a RoCE port's GID
  std::uint32_t active_mtu = 0;      ///< bytes
  std::uint32_t max_mtu = 0;         ///< bytes
  std::uint32_t rate_mbps = 0;
  bool grh_required = false;  ///< address handles and MADs need a GRH
  /// Its requests are not answered, although those of another port are. Device::query() does not
  /// set it.
  bool silent = false;
  std::vector<PKey> pkeys;  ///< the P_Key table; an invalid key is a free entry
  friend bool operator==(const PortSnapshot&, const PortSnapshot&) = default;
};

/// Counters of a port, of all queue pairs since the device or the counters were reset.
struct PortCounters {
  /// Datagrams that found no posted receive. Verbs do not report them; some drivers, such as mlx5,
  /// do in sysfs. nullopt if the device's does not.
  std::optional<std::uint64_t> missing_receives;
  std::uint64_t bad_pkey = 0;  ///< packets refused by their P_Key; hardware stops at 65535
  std::uint64_t bad_qkey = 0;  ///< packets refused by their Q_Key (PortInfo, IBA 14.2.5.6)
  PortCounters& operator+=(const PortCounters& other);
};

/// An open device and one of its ports. Verbs are thread-safe, so threads may share it.
class Device {
 public:
  /// Opens the device `name`, which must have an InfiniBand or RoCE port `port`, or without a name
  /// the first device with an InfiniBand port `port`. `gid_index` selects the GID of a RoCE port;
  /// without it, choose_gid() does. The error code is ENODEV if there is no such device (yet).
  [[nodiscard]] static Result<Device> open(const std::string& name, std::uint8_t port,
                                           std::optional<std::uint8_t> gid_index = {});

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint8_t port() const { return port_; }
  [[nodiscard]] LinkLayer link_layer() const { return link_layer_; }
  [[nodiscard]] ibv_context* context() const { return context_.get(); }
  /// Reads port attributes, GID and P_Key table.
  [[nodiscard]] Result<PortSnapshot> query() const;
  /// Reads the port's counters; may wait for the device's firmware.
  [[nodiscard]] PortCounters counters() const;

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
