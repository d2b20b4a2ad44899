#include "softib/view/rdma_netlink.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>

#include "shown_hcas.hpp"

namespace softib::view {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint32_t kPortId = 4711;
constexpr std::uint32_t kSequence = 17;

/// A request for a device and a port, as far as they are given.
Datagram request(unsigned command, std::uint16_t flags, std::vector<std::uint32_t> names = {}) {
  constexpr std::array<std::uint16_t, 2> kNames{RDMA_NLDEV_ATTR_DEV_INDEX,
                                                RDMA_NLDEV_ATTR_PORT_INDEX};
  Datagram out(sizeof(nlmsghdr) + names.size() * 8);
  const nlmsghdr header{static_cast<std::uint32_t>(out.size()),
                        static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)),
                        static_cast<std::uint16_t>(NLM_F_REQUEST | flags), kSequence, 0};
  std::memcpy(out.data(), &header, sizeof header);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const nlattr attribute{8, kNames[i]};
    std::memcpy(&out[sizeof header + i * 8], &attribute, sizeof attribute);
    std::memcpy(&out[sizeof header + i * 8 + 4], &names[i], sizeof names[i]);
  }
  return out;
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

class RdmaNetlink : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<Datagram> answers(const Datagram& sent) const {
    return netlink_answers(sent, kPortId, hcas_);
  }
  std::vector<ShownHca> hcas_{make_hca(0, 1), make_hca(3, 2)};
};

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
  const auto table = attributes_of(got[0]);
  const auto entries = table.find(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
  ASSERT_NE(entries, table.end());
  std::map<std::string, std::uint64_t> values;
  const auto bytes_of = [](const std::string& text) {
    return ConstBytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  };
  for (const auto& [type, entry] : attributes(bytes_of(entries->second))) {
    EXPECT_EQ(type, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
    const auto has = attributes(bytes_of(entry));
    values[text(has, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME)] =
        number<std::uint64_t>(has, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE);
  }
  EXPECT_THAT(values, SizeIs(fabric::kPortCounters));
  EXPECT_EQ(values["drop_qkey"], 12U);
  EXPECT_EQ(values["sent_packets"], 0U);
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
  EXPECT_EQ(refusal(request(RDMA_NLDEV_CMD_RES_GET, NLM_F_DUMP)), EOPNOTSUPP);
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
