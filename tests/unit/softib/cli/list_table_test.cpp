#include "softib/cli/list_table.hpp"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

namespace softib::cli {
namespace {

TEST(ListTable, WritesDurationsInTheLargestUnit) {
  EXPECT_EQ(duration_text(0), "0s");
  EXPECT_EQ(duration_text(59), "59s");
  EXPECT_EQ(duration_text(60), "1m");
  EXPECT_EQ(duration_text(3599), "59m");
  EXPECT_EQ(duration_text(3600), "1h");
  EXPECT_EQ(duration_text(86400), "1d");
  EXPECT_EQ(duration_text(400 * 86400), "400d");
}

std::vector<KnownSubnet> subnets() {
  return {{fabric::SubnetFolder("/run/softib/default"), 77, 125, 2, {78, 79}, "root"},
          {fabric::SubnetFolder("/tmp/killed"), 0, std::nullopt, 1, {}, "1000"}};
}

TEST(ListTable, HasALineForEachSubnet) {
  EXPECT_EQ(list_table(subnets()),
            "SUBNET   PID  UPTIME  HCAS  PROGRAMS  OWNER  FOLDER\n"
            "default   77      2m     2         2  root   /run/softib/default\n"
            "killed     -       -     1         0  1000   /tmp/killed\n");
  EXPECT_EQ(list_table({}), "SUBNET  PID  UPTIME  HCAS  PROGRAMS  OWNER  FOLDER\n");
}

TEST(ListTable, JsonHasNullForUnknownValues) {
  EXPECT_EQ(
      boost::json::serialize(list_json(subnets())),
      R"([{"subnet":"default","folder":"/run/softib/default","owner":"root","running":true,"pid":77,)"
      R"("uptime":125,"hcas":2,"programs":[78,79]},{"subnet":"killed","folder":"/tmp/killed",)"
      R"("owner":"1000","running":false,"pid":null,"uptime":null,"hcas":1,"programs":[]}])");
}

}  // namespace
}  // namespace softib::cli
