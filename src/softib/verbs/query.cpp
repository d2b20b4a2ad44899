// Queries of the device, its ports and their tables.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "ipoib/monotonic_clock.hpp"
#include "softib/core/network_order.hpp"
#include "softib/hca/errors.hpp"
#include "softib/subnet/node_attributes.hpp"
#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

#undef ibv_query_port

namespace softib::verbs {
namespace {

constexpr std::uint64_t kPageSizes = ~std::uint64_t{0xfff};
constexpr std::uint64_t kClockKilohertz = 1'000'000;  ///< of the times of completions

ibv_device_attr device_attributes(const HcaPorts& ports) {
  ibv_device_attr attr{};
  std::strncpy(attr.fw_ver, subnet::kFirmwareVersion, sizeof attr.fw_ver - 1);
  attr.node_guid = to_network(ports[1].node_guid.value());
  attr.sys_image_guid = attr.node_guid;
  attr.max_mr_size = ~std::uint64_t{0};
  attr.page_size_cap = kPageSizes;
  attr.vendor_id = subnet::kVendorId;
  attr.vendor_part_id = subnet::kDeviceId;
  attr.hw_ver = subnet::kHardwareRevision;
  attr.max_qp = hca::kMaxQueuePairs;
  attr.max_qp_wr = hca::kMaxQueueWr;
  attr.device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
                          IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                          IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_UD_IP_CSUM |
                          IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW |
                          IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC;
  attr.max_sge = hca::kMaxSge;
  attr.max_qp_rd_atom = hca::kMaxReads;
  attr.max_qp_init_rd_atom = hca::kMaxReads;
  attr.max_res_rd_atom = hca::kMaxReads * hca::kMaxQueuePairs;
  attr.max_sge_rd = hca::kMaxSge;
  attr.max_cq = hca::kMaxCompletionQueues;
  attr.max_cqe = hca::kMaxCqe;
  attr.max_mr = hca::kMaxMemoryRegions;
  attr.max_mw = hca::kMaxMemoryRegions;
  attr.max_pd = hca::kMaxProtectionDomains;
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_mcast_grp = hca::kMaxAttachedGroups;
  attr.max_mcast_qp_attach = hca::kMaxAttachedQps;
  attr.max_total_mcast_qp_attach = hca::kMaxAttachedGroups * hca::kMaxAttachedQps;
  attr.max_ah = hca::kMaxAddressHandles;
  attr.max_srq = hca::kMaxSharedReceiveQueues;
  attr.max_srq_wr = hca::kMaxQueueWr;
  attr.max_srq_sge = hca::kMaxSge;
  attr.max_pkeys = kPKeyTableSize;
  attr.phys_port_cnt = ports.count();
  return attr;
}

constexpr std::uint32_t kOdpDatagrams = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
constexpr std::uint32_t kOdpUnreliable = kOdpDatagrams | IBV_ODP_SUPPORT_WRITE;
constexpr std::uint32_t kOdpReliable =
    kOdpUnreliable | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;

ibv_odp_caps odp_capabilities() {
  return {IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
          {kOdpReliable, kOdpUnreliable, kOdpDatagrams}};
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* out, std::size_t size) {
  return verb([&]() -> ipoib::Result<void> {
    if (input != nullptr && input->comp_mask != 0)
      return ipoib::Error{EINVAL, "the input has unknown attributes: comp_mask must be 0"};
    if (size < sizeof out->orig_attr) {
      return ipoib::Error{EINVAL,
                          "the structure for the attributes is too short: build with the headers "
                          "of rdma-core 13 or later"};
    }
    ibv_device_attr_ex attr{};
    attr.orig_attr = device_attributes(of(context).device.hca()->ports());
    attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags;
    attr.phys_port_cnt_ex = attr.orig_attr.phys_port_cnt;
    attr.odp_caps = odp_capabilities();
    attr.xrc_odp_caps = kOdpReliable;
    attr.max_dm_size = hca::kMaxDeviceMemory;
    attr.completion_timestamp_mask = ~std::uint64_t{0};
    attr.hca_core_clock = kClockKilohertz;
    const bool is_ethernet = of(context).device.hca()->is_ethernet();
    if (!is_ethernet) attr.tso_caps = {kMaxTso, 1U << IBV_QPT_UD};
    std::memcpy(out, &attr, std::min(size, sizeof attr));
    return {};
  });
}

/// The clock of the completions; as with physical HCAs, the nanoseconds have all of it.
int query_rt_values(ibv_context* /*context*/, ibv_values_ex* values) {
  if ((values->comp_mask & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return EOPNOTSUPP;
  const std::chrono::nanoseconds now = ipoib::monotonic_now().time_since_epoch();
  if (values->comp_mask != 0) values->raw_clock = {0, static_cast<long>(now.count())};
  return 0;
}

/// Requires a port of the HCA.
ibv_port_attr port_attributes(const PortAttributes& port, const endpoint::Endpoint& endpoint) {
  const auto info = subnet::port_info(port);
  ibv_port_attr attr{};
  attr.state = static_cast<ibv_port_state>(info.port_state);
  attr.max_mtu = static_cast<ibv_mtu>(info.mtu_capability);
  attr.active_mtu = static_cast<ibv_mtu>(info.neighbor_mtu);
  attr.gid_tbl_len = static_cast<int>(port.gid_table_size());
  attr.port_cap_flags = info.capability_mask;
  attr.max_msg_sz = hca::kMaxMessage;
  if (port.has_cable) {
    const auto violations = [&](CheckedKey key) {
      return subnet::violation_counter(endpoint.violations(port.number, key));
    };
    attr.bad_pkey_cntr = violations(CheckedKey::pkey);
    attr.qkey_viol_cntr = violations(CheckedKey::qkey);
  }
  attr.pkey_tbl_len = kPKeyTableSize;
  attr.lid = info.lid.value();
  attr.sm_lid = info.sm_lid.value();
  attr.lmc = info.lmc;
  attr.max_vl_num = info.vl_capability;
  attr.sm_sl = info.sm_sl.value();
  attr.subnet_timeout = info.tuning.subnet_timeout;
  attr.active_width = info.link_width_active;
  attr.active_speed = info.link_speed_active;
  attr.phys_state = info.physical_state;
  attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
  if (port.is_ethernet()) {
    attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
    attr.pkey_tbl_len = 1;
  }
  if (port.grh_required) attr.flags = IBV_QPF_GRH_REQUIRED;
  return attr;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t size) {
  return verb([&]() -> ipoib::Result<void> {
    ibv_port_attr attr;
    {
      auto& device = of(context).device;
      const auto hca = device.hca();
      if (hca->has_failed()) return hca::hca_failed();
      if (!hca->ports().has(port)) return hca::no_such_port();
      attr = port_attributes(hca->ports()[port], device.endpoint());
    }
    std::memcpy(out, &attr, std::min(size, sizeof attr));
    return {};
  });
}

std::optional<PortAttributes> port_of(ibv_context* context, unsigned number) {
  const auto hca = of(context).device.hca();
  return hca->ports().has(number) ? std::optional(hca->ports()[number]) : std::nullopt;
}

/// An entry of the GID table of a port.
ipoib::Result<ibv_gid_entry> gid_entry(ibv_context* context, unsigned number,
                                       std::int64_t index = 0) {
  const auto port = port_of(context, number);
  const auto size = port ? static_cast<std::int64_t>(port->gid_table_size()) : 0;
  if (index < 0 || index >= size) {
    return ipoib::Error{
        EINVAL, "the port has no such entry in its GID table: gid_tbl_len says how many it has"};
  }
  ibv_gid_entry entry{};
  std::ranges::copy(port->gid(static_cast<std::size_t>(index)).bytes(), entry.gid.raw);
  entry.gid_index = static_cast<std::uint32_t>(index);
  entry.port_num = number;
  entry.ndev_ifindex = port->network_interface;
  entry.gid_type = port->is_ethernet() ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
  return entry;
}

}  // namespace

void fill_in_device_verbs(Context& context) {
  context.query_port = query_port;
  context.query_device_ex = query_device_ex;
  context.query_rt_values = query_rt_values;
}

SOFTIB_ABI int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  *attr = device_attributes(of(context).device.hca()->ports());
  return 0;
}

/// The old symbol, for programs built before the structure got its last field, which is not
/// written.
SOFTIB_ABI int ibv_query_port(ibv_context* context, std::uint8_t port,
                              _compat_ibv_port_attr* attr) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

SOFTIB_ABI int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  return minus_one_if(verb([&]() -> ipoib::Result<void> {
    const auto entry = gid_entry(context, port, index);
    if (!entry) return entry.error();
    *gid = entry->gid;
    return {};
  }));
}

SOFTIB_ABI int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                                 ibv_gid_entry* out, std::uint32_t flags, std::size_t size) {
  return verb([&]() -> ipoib::Result<void> {
    if (flags != 0) return unsupported("a GID query with flags");
    const auto entry = gid_entry(context, port, index);
    if (!entry) return entry.error();
    if (Gid(std::to_array(entry->gid.raw)).is_zero()) {
      return ipoib::Error{ENODATA, "the entry of the GID table is empty: try another index"};
    }
    std::memcpy(out, &*entry, std::min(size, sizeof *entry));
    return {};
  });
}

SOFTIB_ABI ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                        std::size_t room, std::uint32_t flags, std::size_t size) {
  const HcaPorts ports = of(context).device.hca()->ports();
  const auto size_of_table = static_cast<std::uint32_t>(ports[1].gid_table_size());
  auto* out = reinterpret_cast<std::uint8_t*>(entries);
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < ports.count() * size_of_table; ++i) {
    ibv_gid_entry entry{};
    const int error = _ibv_query_gid_ex(context, 1 + i / size_of_table, i % size_of_table, &entry,
                                        flags, sizeof entry);
    if (error == ENODATA) continue;
    if (error != 0) return -error;
    if (count++ == room) return -EINVAL;
    std::memcpy(out, &entry, std::min(size, sizeof entry));
    out += size;
  }
  return static_cast<ssize_t>(count);
}

/// Used by the tools of rdma-core. The type is that of sysfs: 0 for InfiniBand and RoCE v1, 1 for
/// RoCE v2.
SOFTIB_ABI int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index,
                                  int* type) {
  return minus_one_if(verb([&]() -> ipoib::Result<void> {
    const auto entry = gid_entry(context, port, index);
    if (!entry) return entry.error();
    *type = entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? 1 : 0;
    return {};
  }));
}

SOFTIB_ABI int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  return minus_one_if(verb([&]() -> ipoib::Result<void> {
    const auto attributes = port_of(context, port);
    if (!attributes || index < 0 || index >= static_cast<int>(kPKeyTableSize)) {
      return ipoib::Error{
          EINVAL,
          "the port has no such entry in its P_Key table: pkey_tbl_len says how many it has"};
    }
    *pkey = to_network(attributes->pkeys[static_cast<std::size_t>(index)].value());
    return {};
  }));
}

SOFTIB_ABI int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey) {
  const auto attributes = port_of(context, port);
  if (!attributes) return -1;
  const auto found = std::ranges::find(attributes->pkeys, PKey(from_network(pkey)));
  return found == attributes->pkeys.end() ? -1
                                          : static_cast<int>(found - attributes->pkeys.begin());
}

}  // namespace softib::verbs
