// Nodes, ports and services of the subnet.
#include "sa_client_fixture.hpp"

namespace ipoib::sa {
namespace {

class TablesTest : public SaClientTest {
 protected:
  TablesTest() { client->set_sm(kSm, now); }

  void ask(const wire::SaQuery& query) { client->request({wire::SaRequestId(1), query}, now); }
  /// Responds with these records.
  template <class Record>
  void respond_with(const std::vector<Record>& records) {
    const std::size_t stride = std::size_t{8} * wire::attribute_offset(Record::kSize);
    std::vector<std::uint8_t> table(records.size() * stride);
    for (std::size_t i = 0; i < records.size(); ++i) {
      records[i].emit(MutableBytes(table).subspan(i * stride, Record::kSize));
    }
    port.respond_table(port.sent.back(), table, stride);
    client->on_readable(now);
  }
  template <class Table>
  [[nodiscard]] Table result() {
    const auto response = client->responses().at(0);
    client->responses().clear();
    return std::get<Table>(response.result);
  }
  /// Checks the header of the last request: an untrusted GetTable.
  void expect_request(std::uint16_t attribute, std::uint64_t components) const {
    const auto header = port.sent.back().header();
    EXPECT_EQ(header.mad.method, wire::method::kGetTable);
    EXPECT_EQ(header.mad.attribute_id, attribute);
    EXPECT_EQ(header.component_mask, components);
    EXPECT_EQ(header.sm_key, 0U);
  }
  [[nodiscard]] ConstBytes record_sent() const {
    return ConstBytes(port.sent.back().mad).subspan(wire::kSaHeaderSize);
  }
};

wire::NodeRecord node(std::uint16_t lid) {
  wire::NodeRecord record;
  record.lid = Lid(lid);
  record.node.port_guid = Guid(lid);
  return record;
}

TEST_F(TablesTest, AllNodes) {
  ask(wire::nodes_query());
  expect_request(wire::attribute::kNodeRecord, 0);
  const wire::NodeTable nodes{node(1), node(2), node(3)};
  respond_with(nodes);
  EXPECT_EQ(result<wire::NodeTable>(), nodes);
}

TEST_F(TablesTest, NodeAtALid) {
  ask(wire::nodes_query(Lid(7)));
  expect_request(wire::attribute::kNodeRecord, wire::NodeRecord::kLid);
  EXPECT_EQ(wire::NodeRecord::parse(record_sent())->lid, Lid(7));
  respond_with(wire::NodeTable{});
  EXPECT_TRUE(result<wire::NodeTable>().empty());
}

TEST_F(TablesTest, PortsAtALid) {
  ask(wire::ports_query(Lid(7)));
  expect_request(wire::attribute::kPortInfoRecord, wire::PortInfoRecord::kLid);
  EXPECT_EQ(wire::PortInfoRecord::parse(record_sent())->lid, Lid(7));
  wire::PortInfoRecord record;
  record.lid = Lid(4);
  record.info.lid = Lid(4);
  record.info.lmc = 2;
  respond_with(wire::PortTable{record});
  EXPECT_EQ(result<wire::PortTable>(), wire::PortTable{record}) << "another LID of the port";
}

TEST_F(TablesTest, Services) {
  ask(wire::services_query());
  expect_request(wire::attribute::kServiceRecord, 0);
  wire::ServiceRecord record;
  record.service_id = 0x1000000000000042;
  respond_with(wire::ServiceTable{record});
  EXPECT_EQ(result<wire::ServiceTable>(), wire::ServiceTable{record});
  ask(wire::services_query(record.service_id));
  expect_request(wire::attribute::kServiceRecord, wire::ServiceRecord::kServiceId);
  EXPECT_EQ(wire::ServiceRecord::parse(record_sent())->service_id, record.service_id);
  respond_with(wire::ServiceTable{record});
  EXPECT_EQ(result<wire::ServiceTable>(), wire::ServiceTable{record});
}

TEST_F(TablesTest, OtherRecordsAreMalformed) {
  const auto expect_malformed = [&] { EXPECT_EQ(failure().kind, Kind::malformed_response); };
  ask(wire::nodes_query());
  respond_with(wire::NodeTable{node(0xc000)});
  expect_malformed();
  ask(wire::ports_query(Lid(7)));
  wire::PortInfoRecord nowhere;
  respond_with(wire::PortTable{nowhere});
  expect_malformed();
  ask(wire::services_query(5));
  wire::ServiceRecord other;
  other.service_id = 6;
  respond_with(wire::ServiceTable{other});
  expect_malformed();
}

TEST_F(TablesTest, HaveFewAttempts) {
  ask(wire::nodes_query());
  while (client->responses().empty()) advance();
  EXPECT_EQ(failure().kind, Kind::timeout);
  EXPECT_EQ(port.sent.size(), config.tables.attempts);
}

}  // namespace
}  // namespace ipoib::sa
