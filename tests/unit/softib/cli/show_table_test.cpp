#include "softib/cli/show_table.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace softib::cli {
namespace {

TEST(ShowTable, AlignsItsColumns) {
  const auto subnet = boost::json::parse(R"({"subnet":"lab","folder":"/f","running":true,
    "nodes":[{"name":"softib-sm","lid":1,"state":"active","mtu":2048,"rate_mbps":40000,"gid":"fe80::1",
              "pkeys":["0xffff"],"processes":[{"pid":77}],"counters":{"sent_packets":5,"drop_qkey":0}},
             {"name":"a","lid":2,"state":"down","mtu":2048,"rate_mbps":2500,"gid":"fe80::2","pkeys":[],
              "processes":[],"counters":{}}],
    "partitions":[{"pkey":"0xffff","others":"full","members":[]},
                  {"pkey":"0x8012","others":"none","members":[{"hca":"a","membership":"limited"}]}],
    "groups":[{"mgid":"ff12::1","mlid":"0xc000","pkey":"0xffff","qkey":"0x00000b1b","mtu":2048,
               "rate_mbps":10000,"members":[{"hca":"a","join_state":5},{"hca":"b","join_state":1}]}],
    "sa":{"answered":3,"refused":0}})");
  EXPECT_EQ(show_table(subnet.as_object()),
            "subnet lab in /f\n"
            "\n"
            "LID  NODE       STATE   MTU   GBIT/S  GID      P_KEYS  PROCESSES\n"
            "1    softib-sm  active  2048  40      fe80::1  0xffff  77\n"
            "2    a          down    2048  2.5     fe80::2  -       -\n"
            "\n"
            "PARTITION  MEMBERS\n"
            "0xffff     all(full)\n"
            "0x8012     a(limited)\n"
            "\n"
            "MLID    GROUP    P_KEY   Q_KEY       MTU   GBIT/S  MEMBERS\n"
            "0xc000  ff12::1  0xffff  0x00000b1b  2048  10      a(full+send-only) b\n"
            "\n"
            "NODE       COUNTER       VALUE\n"
            "SM and SA  answered      3\n"
            "softib-sm  sent_packets  5\n");
}

}  // namespace
}  // namespace softib::cli
