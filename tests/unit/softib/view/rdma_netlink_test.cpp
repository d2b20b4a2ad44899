#include "softib/view/rdma_netlink.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "shown_hcas.hpp"

namespace softib::view {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint32_t kPortId = 4711;
constexpr std::uint32_t kSequence = 17;

/// A request that names something by attributes of 32 bits.
Datagram request_for(unsigned command,
                     const std::vector<std::pair<std::uint16_t, std::uint32_t>>& names,
                     std::uint16_t flags = 0) {
  Datagram out(sizeof(nlmsghdr) + names.size() * 8);
  const nlmsghdr header{static_cast<std::uint32_t>(out.size()),
                        static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)),
                        static_cast<std::uint16_t>(NLM_F_REQUEST | flags), kSequence, 0};
  std::memcpy(out.data(), &header, sizeof header);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [type, value] = names[i];
    const nlattr attribute{8, type};
    std::memcpy(&out[sizeof header + i * 8], &attribute, sizeof attribute);
    std::memcpy(&out[sizeof header + i * 8 + 4], &value, sizeof value);
  }
  return out;
}

/// A request for a device and a port, as far as they are given.
Datagram request(unsigned command, std::uint16_t flags,
                 const std::vector<std::uint32_t>& names = {}) {
  constexpr std::array<std::uint16_t, 2> kNames{RDMA_NLDEV_ATTR_DEV_INDEX,
                                                RDMA_NLDEV_ATTR_PORT_INDEX};
  std::vector<std::pair<std::uint16_t, std::uint32_t>> named;
  for (std::size_t i = 0; i < names.size(); ++i) named.emplace_back(kNames.at(i), names[i]);
  return request_for(command, named, flags);
}

nlmsghdr header_of(const Datagram& from) {
  nlmsghdr header{};
  std::memcpy(&header, from.data(), sizeof header);
  EXPECT_EQ(header.nlmsg_len, from.size());
  EXPECT_EQ(header.nlmsg_seq, kSequence);
  EXPECT_EQ(header.nlmsg_pid, kPortId);
  return header;
}

/// The attributes in bytes, by type.
std::multimap<int, std::string> attributes(ConstBytes bytes) {
  std::multimap<int, std::string> found;
  while (!bytes.empty()) {
    nlattr header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    const auto value = bytes.subspan(sizeof header, header.nla_len - sizeof header);
    found.emplace(header.nla_type & NLA_TYPE_MASK, std::string(value.begin(), value.end()));
    bytes = bytes.subspan(NLA_ALIGN(header.nla_len));
  }
  return found;
}
std::multimap<int, std::string> attributes_of(const Datagram& from) {
  return attributes(ConstBytes(from).subspan(sizeof(nlmsghdr)));
}

template <class T>
T number(const std::multimap<int, std::string>& from, int type) {
  T value{};
  const auto found = from.find(type);
  if (found == from.end() || found->second.size() != sizeof value) {
    ADD_FAILURE() << "no attribute " << type;
    return value;
  }
  std::memcpy(&value, found->second.data(), sizeof value);
  return value;
}
std::string text(const std::multimap<int, std::string>& from, int type) {
  const auto found = from.find(type);
  return found == from.end() ? "none" : std::string(found->second.c_str());
}

/// The error that a message reports; 0 for an acknowledgement.
int error_of(const Datagram& from) {
  EXPECT_EQ(header_of(from).nlmsg_type, NLMSG_ERROR);
  nlmsgerr error{};
  std::memcpy(&error, from.data() + sizeof(nlmsghdr), sizeof error);
  EXPECT_EQ(error.msg.nlmsg_seq, kSequence);
  return -error.error;
}

/// What the processes of the first HCA have.
struct GivenResources final : ResourceSource {
  std::vector<Owned<ObjectStatus>> objects(const ShownHca& hca, ObjectKind kind) override {
    return hca.number == 0 ? objects_of[kind] : std::vector<Owned<ObjectStatus>>();
  }
  std::vector<Owned<rdma_cm::IdStatus>> ids(const ShownHca& hca) override {
    return hca.number == 0 ? all_ids : std::vector<Owned<rdma_cm::IdStatus>>();
  }
  std::map<ObjectKind, std::vector<Owned<ObjectStatus>>> objects_of;
  std::vector<Owned<rdma_cm::IdStatus>> all_ids;
};

class RdmaNetlink : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<Datagram> answers(const Datagram& sent) {
    return netlink_answers(sent, kPortId, hcas_, resources_);
  }
  std::vector<ShownHca> hcas_{make_hca(0, 1), make_hca(3, 2)};
  GivenResources resources_;
};

ConstBytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// The attributes of each entry of a table.
std::vector<std::multimap<int, std::string>> entries(const Datagram& from, int table, int entry) {
  std::vector<std::multimap<int, std::string>> all;
  const auto has = attributes_of(from);
  const auto found = has.find(table);
  if (found == has.end()) {
    ADD_FAILURE() << "no table " << table;
    return all;
  }
  for (const auto& [type, one] : attributes(bytes_of(found->second))) {
    EXPECT_EQ(type, entry);
    all.push_back(attributes(bytes_of(one)));
  }
  return all;
}

TEST_F(RdmaNetlink, ListsAllDevices) {
  const auto got = answers(request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP | NLM_F_ACK));
  ASSERT_THAT(got, SizeIs(3));
  EXPECT_EQ(header_of(got[0]).nlmsg_flags, NLM_F_MULTI);
  const auto first = attributes_of(got[0]);
  EXPECT_EQ(number<std::uint32_t>(first, RDMA_NLDEV_ATTR_DEV_INDEX), 0U);
  EXPECT_EQ(text(first, RDMA_NLDEV_ATTR_DEV_NAME), "softib0");
  EXPECT_EQ(number<std::uint32_t>(first, RDMA_NLDEV_ATTR_PORT_INDEX), 1U);
  EXPECT_EQ(number<std::uint64_t>(first, RDMA_NLDEV_ATTR_NODE_GUID), 0x02501b0000000001U);
  EXPECT_EQ(number<std::uint8_t>(first, RDMA_NLDEV_ATTR_DEV_NODE_TYPE), 1);
  EXPECT_EQ(text(first, RDMA_NLDEV_ATTR_DEV_PROTOCOL), "ib");
  const auto second = attributes_of(got[1]);
  EXPECT_EQ(number<std::uint32_t>(second, RDMA_NLDEV_ATTR_DEV_INDEX), 3U);
  EXPECT_EQ(number<std::uint32_t>(second, RDMA_NLDEV_ATTR_PORT_INDEX), 2U);
  EXPECT_EQ(header_of(got[2]).nlmsg_type, NLMSG_DONE) << "and no acknowledgement";
}

TEST_F(RdmaNetlink, DescribesOneDeviceOrPort) {
  const auto device = answers(request(RDMA_NLDEV_CMD_GET, NLM_F_ACK, {3}));
  ASSERT_THAT(device, SizeIs(2));
  EXPECT_EQ(header_of(device[0]).nlmsg_flags, 0);
  EXPECT_EQ(text(attributes_of(device[0]), RDMA_NLDEV_ATTR_DEV_NAME), "softib3");
  EXPECT_EQ(error_of(device[1]), 0);
  const auto port = answers(request(RDMA_NLDEV_CMD_PORT_GET, 0, {0, 1}));
  ASSERT_THAT(port, SizeIs(1));
  const auto has = attributes_of(port[0]);
  EXPECT_EQ(number<std::uint32_t>(has, RDMA_NLDEV_ATTR_PORT_INDEX), 1U);
  EXPECT_EQ(number<std::uint32_t>(has, RDMA_NLDEV_ATTR_LID), 0x1aU);
  EXPECT_EQ(number<std::uint32_t>(has, RDMA_NLDEV_ATTR_SM_LID), 1U);
  EXPECT_EQ(number<std::uint8_t>(has, RDMA_NLDEV_ATTR_LMC), 1);
  EXPECT_EQ(number<std::uint64_t>(has, RDMA_NLDEV_ATTR_SUBNET_PREFIX), 0xfe80000000000000U);
  EXPECT_EQ(number<std::uint8_t>(has, RDMA_NLDEV_ATTR_PORT_STATE), 4);
  EXPECT_EQ(number<std::uint8_t>(has, RDMA_NLDEV_ATTR_PORT_PHYS_STATE), 5);
  EXPECT_FALSE(has.contains(RDMA_NLDEV_ATTR_NDEV_NAME)) << "it has no network interface";
}

TEST_F(RdmaNetlink, AnEthernetPortHasAnInterfaceAndNoLid) {
  auto port = hcas_[0].node.port;
  port.link_layer = LinkLayer::ethernet;
  port.network_interface = 1;  // lo
  hcas_[0].node.port = port;
  hcas_[0].ports = HcaPorts(port);
  const auto got = answers(request(RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP, {0}));
  ASSERT_THAT(got, SizeIs(2));
  const auto has = attributes_of(got[0]);
  EXPECT_EQ(text(has, RDMA_NLDEV_ATTR_DEV_PROTOCOL), "roce");
  EXPECT_EQ(number<std::uint32_t>(has, RDMA_NLDEV_ATTR_NDEV_INDEX), 1U);
  EXPECT_EQ(text(has, RDMA_NLDEV_ATTR_NDEV_NAME), "lo");
  EXPECT_FALSE(has.contains(RDMA_NLDEV_ATTR_LID));
}

TEST_F(RdmaNetlink, TellsTheCountersOfAPort) {
  hcas_[1].counters[1][static_cast<std::size_t>(fabric::PortCounter::drop_qkey)] = 12;
  const auto got = answers(request(RDMA_NLDEV_CMD_STAT_GET, 0, {3, 2}));
  ASSERT_THAT(got, SizeIs(1));
  std::map<std::string, std::uint64_t> values;
  for (const auto& has :
       entries(got[0], RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY)) {
    values[text(has, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME)] =
        number<std::uint64_t>(has, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE);
  }
  EXPECT_THAT(values, SizeIs(fabric::kPortCounters));
  EXPECT_EQ(values["drop_qkey"], 12U);
  EXPECT_EQ(values["sent_packets"], 0U);
}

TEST_F(RdmaNetlink, CountsTheResourcesOfEachDevice) {
  resources_.objects_of[ObjectKind::queue_pair].resize(3);
  resources_.objects_of[ObjectKind::context].resize(2);
  resources_.all_ids.resize(1);
  const auto got = answers(request(RDMA_NLDEV_CMD_RES_GET, NLM_F_DUMP));
  ASSERT_THAT(got, SizeIs(3));
  const auto counts = [&](const Datagram& from) {
    std::map<std::string, std::uint64_t> all;
    for (const auto& each :
         entries(from, RDMA_NLDEV_ATTR_RES_SUMMARY, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY)) {
      all[text(each, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)] =
          number<std::uint64_t>(each, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR);
    }
    return all;
  };
  using Counts = std::map<std::string, std::uint64_t>;
  EXPECT_EQ(text(attributes_of(got[0]), RDMA_NLDEV_ATTR_DEV_NAME), "softib0");
  EXPECT_EQ(
      counts(got[0]),
      (Counts{{"pd", 0}, {"cq", 0}, {"qp", 3}, {"cm_id", 1}, {"mr", 0}, {"ctx", 2}, {"srq", 0}}));
  EXPECT_EQ(text(attributes_of(got[1]), RDMA_NLDEV_ATTR_DEV_NAME), "softib3");
  EXPECT_EQ(counts(got[1])["qp"], 0U);
}

TEST_F(RdmaNetlink, DescribesQueuePairsAsFarAsTheirTypeHasIt) {
  const ObjectStatus all{.number = 0x123456,
                         .domain = 5,
                         .remote_qpn = 0x9a,
                         .receive_psn = 11,
                         .send_psn = 12,
                         .type = IBV_QPT_RC,
                         .state = IBV_QPS_RTS,
                         .migration = IBV_MIG_ARMED,
                         .port = 1};
  auto of = [&](ibv_qp_type type) {
    auto each = all;
    each.type = static_cast<std::uint8_t>(type);
    each.number += each.type;
    return each;
  };
  auto created = of(IBV_QPT_UD);
  created.port = 0;
  resources_.objects_of[ObjectKind::queue_pair] = {
      {{77, 2}, of(IBV_QPT_RC)}, {{77, 2}, created}, {{78, 3}, of(IBV_QPT_XRC_RECV)}};
  const auto got = answers(request(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, {0}));
  ASSERT_THAT(got, SizeIs(2));
  const auto qps = entries(got[0], RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
  ASSERT_THAT(qps, SizeIs(3));
  const auto& rc = qps[0];
  EXPECT_EQ(number<std::uint32_t>(rc, RDMA_NLDEV_ATTR_RES_LQPN), 0x123456U + IBV_QPT_RC);
  EXPECT_EQ(number<std::uint32_t>(rc, RDMA_NLDEV_ATTR_PORT_INDEX), 1U);
  EXPECT_EQ(number<std::uint32_t>(rc, RDMA_NLDEV_ATTR_RES_PDN), 0x200005U);
  EXPECT_EQ(number<std::uint32_t>(rc, RDMA_NLDEV_ATTR_RES_RQPN), 0x9aU);
  EXPECT_EQ(number<std::uint32_t>(rc, RDMA_NLDEV_ATTR_RES_RQ_PSN), 11U);
  EXPECT_EQ(number<std::uint32_t>(rc, RDMA_NLDEV_ATTR_RES_SQ_PSN), 12U);
  EXPECT_EQ(number<std::uint8_t>(rc, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE), IBV_MIG_ARMED);
  EXPECT_EQ(number<std::uint8_t>(rc, RDMA_NLDEV_ATTR_RES_TYPE), IBV_QPT_RC);
  EXPECT_EQ(number<std::uint8_t>(rc, RDMA_NLDEV_ATTR_RES_STATE), IBV_QPS_RTS);
  EXPECT_EQ(number<std::uint32_t>(rc, RDMA_NLDEV_ATTR_RES_PID), 77U);
  const auto& ud = qps[1];
  for (const int type : {RDMA_NLDEV_ATTR_PORT_INDEX, RDMA_NLDEV_ATTR_RES_RQPN,
                         RDMA_NLDEV_ATTR_RES_RQ_PSN, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE}) {
    EXPECT_FALSE(ud.contains(type)) << type;
  }
  EXPECT_EQ(number<std::uint32_t>(ud, RDMA_NLDEV_ATTR_RES_SQ_PSN), 12U);
  EXPECT_FALSE(qps[2].contains(RDMA_NLDEV_ATTR_RES_PDN));
  // One of them, or those of a port.
  const auto one =
      answers(request_for(RDMA_NLDEV_CMD_RES_QP_GET, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0},
                                                      {RDMA_NLDEV_ATTR_RES_LQPN, created.number}}));
  ASSERT_THAT(one, SizeIs(1));
  EXPECT_EQ(header_of(one[0]).nlmsg_flags, 0);
  EXPECT_EQ(text(attributes_of(one[0]), RDMA_NLDEV_ATTR_DEV_NAME), "softib0");
  EXPECT_EQ(number<std::uint8_t>(attributes_of(one[0]), RDMA_NLDEV_ATTR_RES_TYPE), IBV_QPT_UD);
  const auto none = answers(request_for(
      RDMA_NLDEV_CMD_RES_QP_GET, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}, {RDMA_NLDEV_ATTR_RES_LQPN, 1}}));
  ASSERT_THAT(none, SizeIs(1));
  EXPECT_EQ(error_of(none[0]), ENOENT);
  const auto at_port = answers(request(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, {0, 1}));
  EXPECT_THAT(entries(at_port[0], RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY), SizeIs(2));
}

TEST_F(RdmaNetlink, DescribesTheOtherObjects) {
  const ObjectStatus object{
      .number = 9, .domain = 4, .users = 3, .capacity = 511, .length = 1ULL << 33};
  for (std::uint8_t kind = 0; kind < static_cast<std::uint8_t>(ObjectKind::count_); ++kind) {
    resources_.objects_of[static_cast<ObjectKind>(kind)] = {{{77, 1}, object}};
  }
  const auto only = [&](unsigned command, int table, int entry) {
    const auto got = answers(request(command, NLM_F_DUMP, {0}));
    const auto all = entries(got[0], table, entry);
    EXPECT_THAT(all, SizeIs(1));
    EXPECT_EQ(number<std::uint32_t>(all[0], RDMA_NLDEV_ATTR_RES_PID), 77U);
    return all[0];
  };
  const auto pd =
      only(RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY);
  EXPECT_EQ(number<std::uint32_t>(pd, RDMA_NLDEV_ATTR_RES_PDN), 0x100009U);
  EXPECT_EQ(number<std::uint64_t>(pd, RDMA_NLDEV_ATTR_RES_USECNT), 3U);
  const auto cq =
      only(RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY);
  EXPECT_EQ(number<std::uint32_t>(cq, RDMA_NLDEV_ATTR_RES_CQN), 0x100009U);
  EXPECT_EQ(number<std::uint32_t>(cq, RDMA_NLDEV_ATTR_RES_CQE), 511U);
  EXPECT_EQ(number<std::uint64_t>(cq, RDMA_NLDEV_ATTR_RES_USECNT), 3U);
  const auto mr =
      only(RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY);
  EXPECT_EQ(number<std::uint32_t>(mr, RDMA_NLDEV_ATTR_RES_MRN), 0x100009U);
  EXPECT_EQ(number<std::uint64_t>(mr, RDMA_NLDEV_ATTR_RES_MRLEN), 1ULL << 33);
  EXPECT_EQ(number<std::uint32_t>(mr, RDMA_NLDEV_ATTR_RES_PDN), 0x100004U);
  const auto srq =
      only(RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY);
  EXPECT_EQ(number<std::uint32_t>(srq, RDMA_NLDEV_ATTR_RES_SRQN), 9U);
  EXPECT_EQ(number<std::uint8_t>(srq, RDMA_NLDEV_ATTR_RES_TYPE), 0);
  EXPECT_EQ(number<std::uint32_t>(srq, RDMA_NLDEV_ATTR_RES_PDN), 0x100004U);
  const auto context =
      only(RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY);
  EXPECT_EQ(number<std::uint32_t>(context, RDMA_NLDEV_ATTR_RES_CTXN), 0x100009U);
}

TEST_F(RdmaNetlink, DescribesTheIdsOfConnectionManagers) {
  rdma_cm::IdStatus listener;
  listener.handle = rdma_cm::IdHandle(6);
  listener.state = rdma_cm::IdState::listen;
  listener.source = rdma_cm::IpEndpoint{ipoib::Ipv4Address(0x0a000001), 7174};
  rdma_cm::IdStatus connected;
  connected.space = rdma_cm::PortSpace::udp;
  connected.state = rdma_cm::IdState::connect;
  connected.qpn = Qpn(0x77);
  connected.source = rdma_cm::IbEndpoint();
  connected.destination = rdma_cm::IpEndpoint{*ipoib::Ipv6Address::parse("fd01::2"), 1};
  resources_.all_ids = {{{77, 1}, listener}, {{78, 2}, connected}};
  const auto got = answers(request(RDMA_NLDEV_CMD_RES_CM_ID_GET, NLM_F_DUMP, {0}));
  const auto ids = entries(got[0], RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY);
  ASSERT_THAT(ids, SizeIs(2));
  EXPECT_EQ(number<std::uint32_t>(ids[0], RDMA_NLDEV_ATTR_RES_CM_IDN), 0x100006U);
  EXPECT_EQ(number<std::uint32_t>(ids[0], RDMA_NLDEV_ATTR_RES_PS), 0x106U);
  EXPECT_EQ(number<std::uint8_t>(ids[0], RDMA_NLDEV_ATTR_RES_STATE), 8) << "RDMA_CM_LISTEN";
  EXPECT_FALSE(ids[0].contains(RDMA_NLDEV_ATTR_RES_LQPN));
  EXPECT_FALSE(ids[0].contains(RDMA_NLDEV_ATTR_RES_DST_ADDR));
  const auto from = number<sockaddr_storage>(ids[0], RDMA_NLDEV_ATTR_RES_SRC_ADDR);
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
  EXPECT_EQ(v4.sin_family, AF_INET);
  EXPECT_EQ(ntohs(v4.sin_port), 7174);
  EXPECT_EQ(ntohl(v4.sin_addr.s_addr), 0x0a000001U);
  EXPECT_EQ(number<std::uint32_t>(ids[1], RDMA_NLDEV_ATTR_RES_LQPN), 0x77U);
  EXPECT_EQ(number<std::uint32_t>(ids[1], RDMA_NLDEV_ATTR_RES_PS), 0x111U);
  EXPECT_EQ(number<std::uint8_t>(ids[1], RDMA_NLDEV_ATTR_RES_STATE), 5) << "RDMA_CM_CONNECT";
  EXPECT_FALSE(ids[1].contains(RDMA_NLDEV_ATTR_RES_SRC_ADDR));
  const auto to = number<sockaddr_storage>(ids[1], RDMA_NLDEV_ATTR_RES_DST_ADDR);
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(to);
  EXPECT_EQ(v6.sin6_family, AF_INET6);
  EXPECT_EQ(v6.sin6_addr.s6_addr[15], 2);
}

TEST_F(RdmaNetlink, ManyResourcesAreMessagesThatFitIntoAPage) {
  constexpr std::uint32_t kMany = 1000;
  auto& regions = resources_.objects_of[ObjectKind::memory_region];
  for (std::uint32_t i = 0; i < kMany; ++i) regions.push_back({{77, 0}, {.number = i}});
  const auto got = answers(request(RDMA_NLDEV_CMD_RES_MR_GET, NLM_F_DUMP, {0}));
  std::uint32_t next = 0;
  for (const auto& each : std::span(got).first(got.size() - 1)) {
    EXPECT_LE(each.size(), 4096U);
    EXPECT_EQ(header_of(each).nlmsg_flags, NLM_F_MULTI);
    for (const auto& has : entries(each, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY)) {
      EXPECT_EQ(number<std::uint32_t>(has, RDMA_NLDEV_ATTR_RES_MRN), next++);
    }
  }
  EXPECT_EQ(next, kMany);
  EXPECT_EQ(header_of(got.back()).nlmsg_type, NLMSG_DONE);
  EXPECT_LE(got.size(), 20U) << "as few as that takes";
}

TEST_F(RdmaNetlink, TellsWhatHoldsForAllDevices) {
  const auto got = answers(request(RDMA_NLDEV_CMD_SYS_GET, 0));
  ASSERT_THAT(got, SizeIs(1));
  const auto has = attributes_of(got[0]);
  EXPECT_EQ(number<std::uint8_t>(has, RDMA_NLDEV_SYS_ATTR_NETNS_MODE), 1) << "shared";
  EXPECT_EQ(number<std::uint8_t>(has, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK), 1);
}

TEST_F(RdmaNetlink, RefusesWhatItCannotAnswer) {
  const auto refusal = [&](const Datagram& sent) {
    const auto got = answers(sent);
    return got.size() == 1 ? error_of(got[0]) : -1;
  };
  EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_GET, 0)), EINVAL) << "no device is named";
  EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_GET, 0, {1})), EINVAL);
  EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP, {1})), EINVAL);
  EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP)), EINVAL);
  EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_PORT_GET, 0, {0})), EINVAL) << "no port is named";
  for (const std::uint32_t port : {0U, 2U}) {
    EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_PORT_GET, 0, {0, port})), EINVAL) << port;
    EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_STAT_GET, 0, {0, port})), EINVAL) << port;
  }
  EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_RES_GET, 0)), EINVAL) << "no device is named";
  EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP)), EINVAL);
  EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, {1})), EINVAL);
  EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_RES_QP_GET, 0, {0})), EINVAL) << "no number is named";
  EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_SET, 0, {0})), EOPNOTSUPP);
}

TEST_F(RdmaNetlink, ReadsEachMessageOfADatagramAsFarAsItIsComplete) {
  auto sent = request(RDMA_NLDEV_CMD_GET, 0, {0});
  const auto second = request(RDMA_NLDEV_CMD_GET, 0, {3});
  sent.insert(sent.end(), second.begin(), second.end());
  EXPECT_THAT(answers(sent), SizeIs(2));
  sent.pop_back();
  EXPECT_THAT(answers(sent), SizeIs(1)) << "the second one is not whole";
  auto no_request = request(RDMA_NLDEV_CMD_GET, 0, {0});
  no_request[offsetof(nlmsghdr, nlmsg_flags)] = 0;
  EXPECT_THAT(answers(no_request), IsEmpty());
  auto control = request(RDMA_NLDEV_CMD_GET, 0, {0});
  control[offsetof(nlmsghdr, nlmsg_type)] = NLMSG_NOOP;
  control[offsetof(nlmsghdr, nlmsg_type) + 1] = 0;
  EXPECT_THAT(answers(control), IsEmpty());
  auto long_attribute = request(RDMA_NLDEV_CMD_GET, 0, {0});
  long_attribute[sizeof(nlmsghdr)] = 9;
  const auto got = answers(long_attribute);
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(error_of(got[0]), EINVAL) << "an attribute behind the end of the message";
}

}  // namespace
}  // namespace softib::view
