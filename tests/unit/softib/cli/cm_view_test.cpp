#include "softib/cli/cm_view.hpp"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "softib/cm/counters.hpp"
#include "softib/rdma_cm/id_status.hpp"

namespace softib::cli {
namespace {

namespace json = boost::json;
using rdma_cm::IbEndpoint;
using rdma_cm::IdHandle;
using rdma_cm::IdState;
using rdma_cm::IdStatus;
using rdma_cm::IpEndpoint;
using rdma_cm::PortSpace;

IdStatus connected() {
  return {.handle = IdHandle(2),
          .space = PortSpace::tcp,
          .state = IdState::connect,
          .connection = std::uint8_t{4},
          .source = IpEndpoint{ipoib::Ipv4Address(0x7f4d'0001), 7174},
          .destination = IpEndpoint{ipoib::Ipv6Address({0xfd, 0x77}), 40000},
          .service = ipoib::wire::ServiceId(0x0106'1c06),
          .local_id = CommId(0x0104'0000),
          .remote_id = CommId(0x0104'0001),
          .qpn = Qpn(0x10401)};
}

json::object view(const fabric::CmTable& table) {
  return {{"processes", json::array{cm_process_json("a", 77, table)}}};
}

TEST(CmView, WordsOfAnIdGiveItBack) {
  IdStatus ib = connected();
  IbEndpoint gid;
  gid.gid = Gid(Gid::kLinkLocalPrefix, Guid(7));
  ib.source = gid;
  ib.destination = rdma_cm::Address();
  ib.connection = std::nullopt;
  for (const auto& id : {connected(), ib}) {
    const auto back = IdStatus::parse(id.words());
    ASSERT_TRUE(back);
    EXPECT_EQ(back->words(), id.words());
    EXPECT_EQ(back->state, id.state);
    EXPECT_EQ(back->connection, id.connection);
    EXPECT_EQ(back->source, id.source);
    EXPECT_EQ(back->destination, id.destination);
    EXPECT_EQ(back->service, id.service);
    EXPECT_EQ(back->local_id, id.local_id);
    EXPECT_EQ(back->remote_id, id.remote_id);
    EXPECT_EQ(back->qpn, id.qpn);
  }
}

TEST(CmView, TablesHaveIdsAndMessages) {
  fabric::CmTable table;
  table.program = "rping";
  table.unlisted = 3;
  table.entries = {connected().words()};
  table.counters[0] = 5;                      // REQs sent
  table.counters[2 * cm::kMessages + 3] = 4;  // REPs received
  table.counters[4 * cm::kMessages + 2] = 1;  // unexpected
  EXPECT_EQ(cm_text(view(table)),
            "NODE  PID  PROGRAM  SPACE  STATE    CONNECTION   SOURCE           DESTINATION     "
            "SERVICE ID          LOCAL ID    REMOTE ID      QP\n"
            "a      77  rping    tcp    Connect  Established  127.77.0.1:7174  [fd77::]:40000  "
            "0x0000000001061c06  0x01040000  0x01040001  66561\n"
            "a 77 rping: 3 more\n\n"
            "NODE  PID  PROGRAM  MESSAGE     SENT  RESENT  RECEIVED  DUPLICATES  DROPPED\n"
            "a      77  rping    req            5       0         0           0        -\n"
            "a      77  rping    rep            0       0         4           0        -\n"
            "a      77  rping    unexpected     -       -         -           -        1\n");
}

TEST(CmView, EntriesThatAreNoIdsAreLeftOutAndNamesArePrintable) {
  const auto good = connected().words();
  const auto with = [&](std::size_t word, std::uint64_t bits) {
    auto words = good;
    words.at(word) ^= bits;
    return words;
  };
  fabric::CmTable table;
  table.program = "r\033[31m\n";
  table.entries = {with(0, 0xff00),                     // state
                   with(0, 0x9 ^ 0x4),                  // connection: no such number
                   with(0, std::uint64_t{0x55} << 16),  // port space
                   with(1, std::uint64_t{0x80} << 56),  // kind of address
                   with(0, std::uint64_t{2} << 32)};    // the handle is 0
  const auto cm = cm_process_json("a", 77, table);
  EXPECT_EQ(json::serialize(cm.at("ids")), "[]");
  EXPECT_EQ(cm.at("program"), "r?[31m?");
}

}  // namespace
}  // namespace softib::cli
