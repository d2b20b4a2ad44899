#include "softib/cli/change.hpp"

#include <gmock/gmock.h>

#include <sstream>

namespace softib::cli {
namespace {

using testing::HasSubstr;

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

/// The request line, or the error.
std::string parsed(const std::vector<std::string>& change) {
  const auto request = parse_change(change);
  if (!request) return request.error().message;
  auto line = control::emit(*request);
  line.pop_back();
  return line;
}

TEST(Change, BecomesARequest) {
  EXPECT_EQ(parsed(words("hca a failed")), R"({"command":"set-hca","hca":"a","state":"failed"})");
  EXPECT_EQ(parsed(words("port a up")), R"({"command":"set-port","hca":"a","state":"active"})");
  EXPECT_EQ(parsed(words("lid a 0x55")), R"({"command":"set-lid","hca":"a","lid":85})");
  EXPECT_EQ(parsed(words("mtu a 1024")), R"({"command":"set-mtu","hca":"a","mtu":1024})");
  EXPECT_EQ(parsed(words("partition 0x12 a limited")),
            R"({"command":"set-partition","hca":"a","pkey":"0x0012","membership":"limited"})");
  EXPECT_EQ(parsed(words("pkey 32786 a 31")),
            R"({"command":"move-pkey","hca":"a","pkey":"0x8012","index":31})");
  EXPECT_EQ(parsed(words("partition 0x12 delete")),
            R"({"command":"delete-partition","pkey":"0x0012"})");
  EXPECT_EQ(parsed(words("partition 0x12 delete none")),
            R"({"command":"set-partition","hca":"delete","pkey":"0x0012","membership":"none"})");
  EXPECT_EQ(parsed(words("link a loss 0.05 delay 20 reorder 100")),
            R"({"command":"set-link","hca":"a","loss":5,"duplicate":0,"reorder":10000,"delay":20,)"
            R"("corrupt":0,"cm_loss":0,"seed":0})");
  EXPECT_THAT(parsed(words("link a corrupt 1 seed 0xffffffff")),
              HasSubstr(R"("loss":0,"duplicate":0,"reorder":0,"delay":0,"corrupt":100,)"
                        R"("cm_loss":0,"seed":4294967295})"));
  EXPECT_THAT(parsed(words("link a cm-loss 12.5")), HasSubstr(R"("cm_loss":1250,)"));
  EXPECT_EQ(parsed(words("link a off")),
            R"({"command":"set-link","hca":"a","loss":0,"duplicate":0,"reorder":0,"delay":0,)"
            R"("corrupt":0,"cm_loss":0,"seed":0})");
  EXPECT_EQ(parsed(words("qp a error")), R"({"command":"fail-qps","hca":"a","qpn":0})");
  EXPECT_EQ(parsed(words("qp a error 0x100001")),
            R"({"command":"fail-qps","hca":"a","qpn":1048577})");
  EXPECT_EQ(parsed(words("address a 10.1.0.1")),
            R"({"command":"add-address","hca":"a","address":"10.1.0.1"})");
  EXPECT_EQ(parsed(words("address delete fd01::0:1 delete")),
            R"({"command":"delete-address","hca":"delete","address":"fd01::1"})");
  EXPECT_EQ(parsed(words("sm restart")), R"({"command":"restart-sm"})");
  EXPECT_EQ(parsed(words("cable host-1 down")),
            R"({"command":"set-cable","from":"host-1","from_port":0,"state":"down"})");
  EXPECT_EQ(parsed(words("cable leaf-1[3] spine-1[0x10] flap")),
            R"({"command":"set-cable","from":"leaf-1","from_port":3,"to":"spine-1",)"
            R"("to_port":16,"state":"flap"})");
  EXPECT_EQ(parsed(words("cable host-1 loss 2.5")),
            R"({"command":"change-cable","from":"host-1","from_port":0,"loss":250})");
  EXPECT_EQ(parsed(words("cable leaf-1[3] spine-1 width 1x speed SDR loss 0 delay 20")),
            R"({"command":"change-cable","from":"leaf-1","from_port":3,"to":"spine-1",)"
            R"("to_port":0,"width":"1x","speed":"SDR","loss":0,"delay":20})");
  EXPECT_EQ(parsed(words("cable leaf-1[3] stall")),
            R"({"command":"set-cable","from":"leaf-1","from_port":3,"state":"stall"})");
  EXPECT_EQ(parsed(words("cable host-1 overruns 9")),
            R"({"command":"change-cable","from":"host-1","from_port":0,"overruns":9})");
  EXPECT_EQ(parsed(words("switch leaf-1 absent")),
            R"({"command":"set-switch","switch":"leaf-1","state":"absent"})");
}

TEST(Change, MayNameAPortOfAnHca) {
  EXPECT_EQ(parsed(words("port a[2] down")),
            R"({"command":"set-port","hca":"a","state":"down","port":2})");
  EXPECT_EQ(parsed(words("lid a[1] 7")), R"({"command":"set-lid","hca":"a","lid":7,"port":1})");
  EXPECT_EQ(parsed(words("mtu a[2] 1024")),
            R"({"command":"set-mtu","hca":"a","mtu":1024,"port":2})");
  EXPECT_THAT(parsed(words("link a[2] off")), HasSubstr(R"("seed":0,"port":2})"));
  EXPECT_EQ(parsed(words("pkey 0x12 a[2] 3")),
            R"({"command":"move-pkey","hca":"a","pkey":"0x0012","index":3,"port":2})");
  EXPECT_EQ(parsed(words("address a[2] 10.1.0.1")),
            R"({"command":"add-address","hca":"a","address":"10.1.0.1","port":2})");
  EXPECT_EQ(parsed(words("address a[1] fd01::1 delete")),
            R"({"command":"delete-address","hca":"a","address":"fd01::1","port":1})");
  for (const char* const wrong : {"a[0]", "a[3]", "a[", "a[2", "a[]", "a[x]"}) {
    EXPECT_THAT(parsed({"port", wrong, "down"}), HasSubstr("is not a valid port of an HCA"))
        << wrong;
  }
  EXPECT_THAT(parsed(words("hca a[2] failed")), HasSubstr("is not a valid HCA name"));
}

TEST(Change, AcceptsTheLimitsOfEachValue) {
  for (const char* const change :
       {"lid a 1", "lid a 0xbfff", "pkey 1 a 0", "pkey 0x7fff a 31", "mtu a 256", "mtu a 4096",
        "link a delay 0", "link a delay 10000", "link a loss 0", "link a loss 100",
        "cable a overruns 0", "cable a overruns 255", "link a corrupt 100", "link a seed 1",
        "link a seed 4294967295", "qp a error 0x100000", "qp a error 0xfffffe"}) {
    EXPECT_TRUE(parse_change(words(change))) << change << ": " << parsed(words(change));
  }
}

TEST(Change, RoundsPercentages) {
  EXPECT_THAT(parsed(words("link a loss 0.29")), HasSubstr("\"loss\":29,"));
  EXPECT_THAT(parsed(words("link a loss 33.336")), HasSubstr("\"loss\":3334,"));
  EXPECT_THAT(parsed(words("link a loss 33.334")), HasSubstr("\"loss\":3333,"));
}

TEST(Change, AnHcaMayHaveTheNameOfAWord) {
  EXPECT_THAT(parsed(words("partition 0x12 delete full")), HasSubstr("\"hca\":\"delete\""));
  EXPECT_THAT(parsed(words("link off loss 1")), HasSubstr("\"hca\":\"off\""));
}

TEST(Change, ReportsTheFirstErrorOnly) {
  EXPECT_THAT(parsed(words("pkey 0 a 99")), testing::AllOf(HasSubstr("'0' is not a valid P_Key"),
                                                           testing::Not(HasSubstr("index"))));
  EXPECT_THAT(parsed(words("lid a 0 more")), testing::AllOf(HasSubstr("'0' is not a valid LID"),
                                                            testing::Not(HasSubstr("unexpected"))));
}

TEST(Change, NamesTheMissingArgumentAndTheUsage) {
  EXPECT_EQ(parsed(words("port c")),
            "port: up|down|init|armed is missing; usage: softib set port HCA[PORT] "
            "up|down|init|armed");
  EXPECT_EQ(parsed(words("port")),
            "port: HCA is missing; usage: softib set port HCA[PORT] up|down|init|armed");
  EXPECT_EQ(parsed(words("pkey 0x12 a")),
            "pkey: INDEX is missing; usage: softib set pkey PKEY HCA[PORT] INDEX");
  EXPECT_THAT(parsed(words("partition 0x12")), HasSubstr("partition: HCA is missing"));
  EXPECT_THAT(parsed(words("sm")), HasSubstr("restart is missing; usage: softib set sm restart"));
  EXPECT_THAT(parsed(words("lid a 7 8")), HasSubstr("unexpected argument '8'; usage: softib set"));
}

TEST(Change, StatesTheRuleThatANameBreaks) {
  EXPECT_THAT(parsed({"port", "a b", "up"}),
              HasSubstr("'a b' is not a valid HCA name (1 to 63 letters, digits"));
  EXPECT_THAT(parsed({"hca", "", "present"}), HasSubstr("'' is not a valid HCA name"));
  EXPECT_THAT(parsed({"partition", "0x12", "a/b", "full"}), HasSubstr("not a valid HCA name"));
}

TEST(Change, RemarksOnAPKeyThatMayBeMeantAsHexadecimal) {
  EXPECT_THAT(remark_on_change(words("partition 8001 a full")), HasSubstr("0x8001 needs 0x"));
  EXPECT_THAT(remark_on_change(words("pkey 8001 a 3")), HasSubstr("0x8001 needs 0x"));
  EXPECT_EQ(remark_on_change(words("partition 0x8001 a full")), "");
  EXPECT_EQ(remark_on_change(words("lid a 8001")), "");
  EXPECT_EQ(remark_on_change({}), "");
}

TEST(Change, NamesTheValuesThatAreAllowed) {
  EXPECT_THAT(parsed(words("port a sideways")),
              HasSubstr("'sideways' is not a valid state of a port (up|down|init|armed)"));
  for (const char* key : {"0", "0x8000", "65536", "-1", "x", "0x"}) {
    EXPECT_THAT(parsed({"pkey", key, "a", "1"}),
                HasSubstr("is not a valid P_Key (0x0001 to 0x7fff"));
  }
  for (const char* lid : {"0", "0xc000", "65536", "7x"}) {
    EXPECT_THAT(parsed({"lid", "a", lid}), HasSubstr("is not a valid LID (1 to 49151)")) << lid;
  }
  EXPECT_THAT(parsed(words("mtu a 1500")), HasSubstr("'1500' is not a valid MTU (256, 512"));
  for (const char* percent : {"-1", "100.01", "x", "1x", "nan", ""}) {
    EXPECT_THAT(parsed({"link", "a", "loss", percent}), HasSubstr("percentage (0 to 100)"))
        << percent;
  }
  EXPECT_THAT(parsed(words("link a delay 10001")), HasSubstr("not a valid delay (0 to 10000)"));
  EXPECT_THAT(parsed(words("link a loss")), HasSubstr("PERCENT is missing"));
  EXPECT_THAT(parsed(words("link a")),
              HasSubstr("loss|duplicate|reorder|corrupt|cm-loss|delay|seed is missing"));
  EXPECT_THAT(parsed(words("link a noise 1")), HasSubstr("'noise' is not a valid fault of a link"));
  EXPECT_THAT(parsed(words("link a off loss 1")), HasSubstr("'off' is not a valid fault"));
  EXPECT_THAT(parsed(words("link a corrupt 101")), HasSubstr("percentage (0 to 100)"));
  for (const char* seed : {"0", "4294967296", "-1", "x"}) {
    EXPECT_THAT(parsed({"link", "a", "seed", seed}),
                HasSubstr("is not a valid seed (1 to 4294967295)"));
  }
  EXPECT_THAT(parsed(words("qp a")), HasSubstr("error is missing; usage: softib set qp HCA error"));
  EXPECT_THAT(parsed(words("qp a ready")), HasSubstr("not a valid state of a queue pair (error)"));
  for (const char* qpn : {"0", "1", "262143", "0xffffff", "all"}) {
    EXPECT_THAT(parsed({"qp", "a", "error", qpn}),
                HasSubstr("is not a valid queue pair number (1048576 to 16777214)"));
  }
  EXPECT_THAT(parsed(words("qp a error 0x100001 7")), HasSubstr("unexpected argument '7'"));
  EXPECT_THAT(parsed(words("address a")), HasSubstr("ADDRESS is missing"));
  EXPECT_THAT(parsed(words("address a 10.1")), HasSubstr("'10.1' is not a valid IP address"));
  EXPECT_THAT(parsed(words("address a 10.1.0.1 off")), HasSubstr("unexpected argument 'off'"));
  EXPECT_THAT(parsed(words("pkey 1 a 32")), HasSubstr("'32' is not a valid index (0 to 31)"));
  for (const char* end : {"a[0]", "a[1", "a[]", "a[x]", "a[1]b", "a[4097]"}) {
    EXPECT_THAT(parsed({"cable", end, "up"}), HasSubstr("(NAME or NAME[PORT])")) << end;
  }
  EXPECT_THAT(parsed(words("cable a b c up")), HasSubstr("'c' is not a valid change of a cable"));
  EXPECT_THAT(parsed(words("cable a width 3x")), HasSubstr("(1x|2x|4x|8x|12x)"));
  EXPECT_THAT(parsed(words("cable a speed fast")), HasSubstr("(SDR|DDR|QDR)"));
  EXPECT_THAT(parsed(words("cable a loss 101")), HasSubstr("(0 to 100)"));
  EXPECT_THAT(parsed(words("cable a delay 10001")), HasSubstr("(0 to 10000)"));
  EXPECT_THAT(parsed(words("cable a b loss 1 up")), HasSubstr("(width|speed|loss|delay|overruns)"));
  EXPECT_THAT(parsed(words("cable a b loss 1 delay")), HasSubstr("MS is missing"));
  EXPECT_THAT(parsed(words("switch a off")), HasSubstr("(present|absent|reset)"));
}

TEST(Change, ListsTheChangesForAnUnknownOne) {
  EXPECT_EQ(parsed({}),
            "no change is given; changes: hca, port, lid, mtu, link, qp, address, partition, "
            "pkey, cable, switch, sm");
  EXPECT_THAT(parsed({"dance"}), HasSubstr("unknown change 'dance'; changes: hca, port"));
  EXPECT_THAT(parsed({"prot", "a", "down"}), HasSubstr("'prot'; did you mean port?"));
}

TEST(Change, HelpHasEachChangeInEightyColumns) {
  std::istringstream help(changes_help());
  std::size_t changes = 0;
  for (std::string line; std::getline(help, line);) {
    EXPECT_LE(line.size(), 80U) << line;
    if (!line.starts_with("   ")) ++changes;
  }
  EXPECT_EQ(changes, 12U);
}

}  // namespace
}  // namespace softib::cli
