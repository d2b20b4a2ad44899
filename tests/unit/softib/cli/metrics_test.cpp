#include "softib/cli/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace softib::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string metrics_of(std::string_view subnet) {
  return subnet_metrics(boost::json::parse(subnet).as_object()).text();
}

TEST(SubnetMetrics, DescribePortsPartitionsAndTheSa) {
  const std::string text = metrics_of(R"({"subnet":"lab","folder":"/f","running":true,"sm":"own",
    "nodes":[{"name":"a","port":1,"lid":2,"state":"active","mtu":2048,"rate_mbps":40000,
              "gid":"fe80::2","node_guid":"0x1","port_guid":"0x2","pkeys":["0xffff"],
              "processes":[{"pid":77},{"pid":78}],
              "counters":{"sent_packets":5,"sent_bytes":99,"drop_pkey":1}},
             {"name":"b","port":2,"lid":3,"state":"failed","mtu":2048,"rate_mbps":2500}],
    "partitions":[{"pkey":"0x8012","others":"none","members":[{"hca":"a","membership":"full"}]}],
    "groups":[{"mgid":"ff12::1"},{"mgid":"ff12::2"}],
    "sa":{"answered":3,"drop_sm_key":4},"control":{"requests":8}})");
  for (const char* const line :
       {R"(softib_up{subnet="lab"} 1)",
        R"(softib_port_info{subnet="lab",hca="a",port="1",node_guid="0x1",port_guid="0x2",)"
        R"(gid="fe80::2"} 1)",
        R"(softib_port_state{subnet="lab",hca="a",port="1",state="active"} 1)",
        R"(softib_port_state{subnet="lab",hca="a",port="1",state="failed"} 0)",
        R"(softib_port_state{subnet="lab",hca="b",port="2",state="failed"} 1)",
        R"(softib_port_lid{subnet="lab",hca="a",port="1"} 2)",
        R"(softib_port_mtu_bytes{subnet="lab",hca="a",port="1"} 2048)",
        R"(softib_port_rate_bytes_per_second{subnet="lab",hca="a",port="1"} 5000000000)",
        R"(softib_port_processes{subnet="lab",hca="a",port="1"} 2)",
        R"(softib_port_processes{subnet="lab",hca="b",port="2"} 0)",
        R"(softib_port_sent_packets_total{subnet="lab",hca="a",port="1"} 5)",
        R"(softib_port_sent_bytes_total{subnet="lab",hca="a",port="1"} 99)",
        R"(softib_port_drops_total{subnet="lab",hca="a",port="1",reason="pkey"} 1)",
        R"(softib_partition_members{subnet="lab",pkey="0x8012"} 1)",
        R"(softib_groups{subnet="lab"} 2)", R"(softib_sa_answered_total{subnet="lab"} 3)",
        R"(softib_sa_drops_total{subnet="lab",reason="sm_key"} 4)",
        R"(softib_control_requests_total{subnet="lab"} 8)"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

TEST(SubnetMetrics, SayThatTheProcessDoesNotRun) {
  EXPECT_THAT(metrics_of(R"({"subnet":"lab","running":false,"nodes":[],"groups":[]})"),
              AllOf(HasSubstr("softib_up{subnet=\"lab\"} 0\n"), Not(HasSubstr("softib_sa"))));
  EXPECT_THAT(metrics_of("{}"), HasSubstr("softib_up{subnet=\"\"} 0\n"));
}

}  // namespace
}  // namespace softib::cli
