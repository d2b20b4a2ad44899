#include "verbs/device.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "ipoib/bytes.hpp"
#include "verbs/sysfs.hpp"
#include "verbs/verbs_error.hpp"
#include "wire/port_info.hpp"

namespace ipoib::verbs {

namespace {

/// The link layer of a port; nullopt if there is no such port, or it is iWARP, which is on
/// Ethernet, too.
std::optional<LinkLayer> link_layer_of(ibv_context* context, std::uint8_t port) {
  ibv_port_attr attributes{};
  if (ibv_query_port(context, port, &attributes) != 0) return std::nullopt;
  const bool is_ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  if (is_ethernet && context->device->transport_type == IBV_TRANSPORT_IB) return LinkLayer::roce;
  if (is_ethernet) return std::nullopt;
  // Old providers leave the link layer of InfiniBand unspecified.
  return LinkLayer::infiniband;
}

std::uint32_t mtu_bytes(ibv_mtu mtu) { return 128U << static_cast<unsigned>(mtu); }

/// Why a port is not active, by the physical states of PortInfo (IBA 14.2.5.6), as drivers report
/// them.
Inactive inactive_state(const ibv_port_attr& port) {
  constexpr std::uint8_t kPolling = 2;
  if (port.state == IBV_PORT_INIT) return Inactive::init;
  if (port.state == IBV_PORT_ARMED) return Inactive::armed;
  return port.phys_state == kPolling ? Inactive::polling : Inactive::down;
}

}  // namespace

Device::Device(Context context, std::uint8_t port, LinkLayer link_layer,
               std::optional<std::uint8_t> gid_index)
    : context_(std::move(context)),
      name_(ibv_get_device_name(context_->device)),
      port_(port),
      link_layer_(link_layer),
      gid_index_(gid_index) {}

Result<Device> Device::open(const std::string& name, std::uint8_t port,
                            std::optional<std::uint8_t> gid_index) {
  int count = 0;
  const DeviceList list(ibv_get_device_list(&count));
  if (!list && errno != ENOSYS) return verbs_error("cannot list the RDMA devices", errno);
  if (!list || count == 0) return Error{ENODEV, "no RDMA device"};
  std::string seen;
  int failure = 0;  // errno value of the last device that cannot be opened
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::string candidate = ibv_get_device_name(list[i]);
    seen += (seen.empty() ? "" : ", ") + candidate;
    if (!name.empty() && candidate != name) continue;
    Context context(ibv_open_device(list[i]));
    if (!context) {
      failure = errno;
      if (!name.empty()) return verbs_error("cannot open RDMA device " + name, failure);
      continue;
    }
    const auto link_layer = link_layer_of(context.get(), port);
    if (link_layer && (!name.empty() || *link_layer == LinkLayer::infiniband)) {
      return Device(std::move(context), port, *link_layer, gid_index);
    }
    if (!name.empty()) {
      return Error{ENODEV, "RDMA device " + name + " has no InfiniBand or RoCE port " +
                               std::to_string(port)};
    }
  }
  if (!name.empty()) return Error{ENODEV, "no RDMA device " + name + " among " + seen};
  if (failure != 0) return verbs_error("cannot open any RDMA device (" + seen + ")", failure);
  return Error{ENODEV, "no RDMA device with an InfiniBand port " + std::to_string(port) +
                           " among " + seen + " (one with a RoCE port has to be named)"};
}

Result<PortSnapshot> Device::query() const {
  ibv_port_attr attributes{};
  if (const int error = ibv_query_port(context_.get(), port_, &attributes); error != 0) {
    return verbs_error("cannot query port " + std::to_string(port_) + " of " + name_, error);
  }
  PortSnapshot out;
  out.link_layer = link_layer_;
  out.active = attributes.state == IBV_PORT_ACTIVE;
  if (!out.active) out.inactive = inactive_state(attributes);
  out.lid = Lid(attributes.lid);
  out.lmc = std::min(attributes.lmc, kMaxLmc);
  out.sm_lid = Lid(attributes.sm_lid);
  out.sm_sl = ServiceLevel(attributes.sm_sl);
  out.active_mtu = mtu_bytes(attributes.active_mtu);
  out.max_mtu = mtu_bytes(attributes.max_mtu);
  out.rate_mbps = wire::link_mbps(attributes.active_width, attributes.active_speed);

  out.grh_required = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;

  if (auto done = read_gid(out); !done) return done.error();
  out.pkeys.reserve(attributes.pkey_tbl_len);
  for (int i = 0; i < attributes.pkey_tbl_len; ++i) {
    __be16 value = 0;
    if (ibv_query_pkey(context_.get(), port_, i, &value) != 0) break;
    std::array<std::uint8_t, sizeof(value)> bytes;
    std::memcpy(bytes.data(), &value, sizeof(value));
    out.pkeys.emplace_back(load_be<std::uint16_t>(bytes.data()));
  }
  return out;
}

PortCounters& PortCounters::operator+=(const PortCounters& other) {
  if (missing_receives || other.missing_receives) {
    missing_receives = missing_receives.value_or(0) + other.missing_receives.value_or(0);
  }
  bad_pkey += other.bad_pkey;
  bad_qkey += other.bad_qkey;
  return *this;
}

PortCounters Device::counters() const {
  PortCounters out;
  ibv_port_attr attributes{};
  if (ibv_query_port(context_.get(), port_, &attributes) == 0) {
    out.bad_pkey = attributes.bad_pkey_cntr;
    out.bad_qkey = attributes.qkey_viol_cntr;
  }
  const std::string text =
      read_sysfs(context_.get(), "ports/" + std::to_string(port_) + "/hw_counters/out_of_buffer");
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec == std::errc()) out.missing_receives = value;
  return out;
}

Result<void> Device::read_gid(PortSnapshot& out) const {
  if (link_layer_ == LinkLayer::roce) {
    const auto chosen = choose_gid(read_gid_table(context_.get(), port_), gid_index_);
    if (!chosen) return {};
    out.gid = chosen->gid;
    out.gid_index = chosen->index;
    out.network_device = chosen->network_device;
    return {};
  }
  ibv_gid gid{};
  if (ibv_query_gid(context_.get(), port_, 0, &gid) != 0) {
    return verbs_error("cannot read GID 0 of " + name_, errno);
  }
  Gid::Bytes bytes;
  std::copy_n(gid.raw, bytes.size(), bytes.begin());
  out.gid = Gid(bytes);
  return {};
}

}  // namespace ipoib::verbs
