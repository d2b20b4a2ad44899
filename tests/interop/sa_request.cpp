#include "sa_request.hpp"

#include <infiniband/umad.h>

#include <cstdio>
#include <stdexcept>

namespace ipoib::test {

namespace {
constexpr int kTimeout = 5000;  // ms
constexpr int kRoom = 65536;    // bytes of a response
}  // namespace

Client::Client(const Gid& peer) : peer_(peer) {
  char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
  umad_port_t port{};
  umad_init();
  if (umad_get_cas_names(names, UMAD_MAX_DEVICES) < 1 || umad_get_port(names[0], 1, &port) != 0) {
    throw std::runtime_error("no InfiniBand port here");
  }
  gid = Gid(be64toh(port.gid_prefix), Guid(be64toh(port.port_guid)));
  lid = Lid(static_cast<std::uint16_t>(port.base_lid));
  sm_lid = Lid(static_cast<std::uint16_t>(port.sm_lid));
  rate_ = port.rate;
  umad_release_port(&port);
  file_ = umad_open_port(names[0], 1);
  agent_ = umad_register(file_, wire::mgmt_class::kSubnAdm, 2, 1, nullptr);
  if (file_ < 0 || agent_ < 0) throw std::runtime_error("no agent of the SA's class");
}

std::vector<std::uint8_t> Client::exchange(const wire::SaHeader& header, ConstBytes record) {
  std::vector<std::uint8_t> buffer(umad_size() + kRoom);
  MutableBytes mad(static_cast<std::uint8_t*>(umad_get_mad(buffer.data())), wire::kMadSize);
  header.emit(mad);
  std::copy(record.begin(), record.end(), mad.begin() + wire::kSaHeaderSize);
  umad_set_addr(buffer.data(), sm_lid.value(), 1, 0, static_cast<int>(wire::kGsiQKey.value()));
  if (umad_send(file_, agent_, buffer.data(), wire::kMadSize, kTimeout, 0) != 0) return {};
  int length = kRoom;
  if (umad_recv(file_, buffer.data(), &length, 2 * kTimeout) < 0) return {};
  if (umad_status(buffer.data()) != 0) return {};
  const auto* response = static_cast<std::uint8_t*>(umad_get_mad(buffer.data()));
  // Implementations differ in what the length counts; a MAD has at least 256 bytes.
  return {response, response + std::max(length, static_cast<int>(wire::kMadSize))};
}

std::string Client::name(const Gid& value) const {
  return value == gid ? "me" : value == peer_ ? "peer" : value.to_string();
}

std::string Client::name(Lid value) const {
  return value == lid ? "me" : value == sm_lid ? "peer" : std::to_string(value.value());
}

std::string Client::rate_name(std::uint8_t code) const {
  return code == 3 || wire::rate_mbps(code) == rate_ * 1000 ? "usual" : std::to_string(code);
}

std::string hex(std::uint64_t value) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return text.data();
}

/// Omits the scope of groups that a client has created: OpenSM does not always set it.
std::string describe(const Client& client, const wire::McMemberRecord& record,
                     std::uint64_t /*mask*/) {
  const bool is_chosen = record.mgid.to_string().starts_with("ff12:a01b:");
  const bool is_broadcast = record.mgid.to_string().ends_with(":ffff:ffff");
  return (is_chosen ? "chosen by the SA" : record.mgid.to_string()) +
         " port=" + client.name(record.port_gid) + " qkey=" + hex(record.qkey.value()) +
         " mlid=" + hex(record.mlid.value()) + " mtu=" + std::to_string(record.mtu) +
         " pkey=" + hex(record.pkey.value()) + " rate=" + client.rate_name(record.rate) +
         " sl=" + std::to_string(record.sl.value()) + " hop=" + std::to_string(record.hop_limit) +
         (is_broadcast ? " scope=" + std::to_string(record.scope) : "") +
         " state=" + std::to_string(record.join_state);
}

/// Omits a P_Key that was not requested: the SA may choose any shared partition.
std::string describe(const Client& client, const wire::PathRecord& record, std::uint64_t mask) {
  const std::string pkey =
      (mask & wire::PathRecord::kPKey) != 0 ? " pkey=" + hex(record.pkey.value()) : "";
  return client.name(record.sgid) + "(" + client.name(record.slid) + ") to " +
         client.name(record.dgid) + "(" + client.name(record.dlid) + ")" + pkey +
         " mtu=" + std::to_string(record.mtu) + " rate=" + client.rate_name(record.rate) +
         " lifetime=" + std::to_string(record.lifetime) +
         " sl=" + std::to_string(record.sl.value()) + " hop=" + std::to_string(record.hop_limit) +
         (record.reversible ? " reversible" : "");
}

/// Omits the last 8 bytes of data: OpenSM 3.3.23 returns others than it was sent.
std::string describe(const Client& client, const wire::ServiceRecord& record,
                     std::uint64_t /*mask*/) {
  std::string data;
  for (std::size_t i = 0; i + 8 < record.data.size(); ++i) {
    data += std::to_string(record.data[i]) + ".";
  }
  return hex(record.service_id) + " of " + client.name(record.gid) +
         " pkey=" + hex(record.pkey.value()) + " lease=" + hex(record.lease) +
         " key=" + hex(record.key[0]) + " name=" + record.name.data() + " data=" + data;
}

/// Of the capabilities, prints only UD multicast and send-only full members; others may differ.
std::string describe(const Client& client, const wire::ClassPortInfo& record,
                     std::uint64_t /*mask*/) {
  constexpr std::uint16_t kUdMulticast = 1U << 9;
  constexpr std::uint32_t kSendOnlyFullMember = 1U << 12;
  const auto& redirect = record.redirect;
  const auto& trap = record.trap;
  return "version " + std::to_string(record.class_version) + " can " +
         hex(record.capability_mask & kUdMulticast) + " " +
         hex(record.capability_mask2 & kSendOnlyFullMember) + " at " + client.name(redirect.gid) +
         " LID " + hex(redirect.lid.value()) + " QP " + hex(redirect.qpn.value()) + " " +
         hex(redirect.qkey.value()) + " traps QP " + hex(trap.qpn.value()) + " " +
         hex(trap.qkey.value());
}

}  // namespace ipoib::test
