#include "softib/cli/view_site.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <stdexcept>

namespace softib::cli {
namespace {

/// Data in memory.
class MemoryData final : public ViewData {
 public:
  ipoib::Result<std::string> subnet() override {
    if (is_broken) throw std::runtime_error("broken");
    if (has_ended) return ipoib::Error{ECONNREFUSED, "no subnet"};
    return std::string("{}");
  }
  ipoib::Result<boost::json::object> layout() override { return boost::json::object{{"width", 7}}; }
  ipoib::Result<boost::json::object> switch_tables(std::string_view name) override {
    if (name != "leaf-1") return ipoib::Error{ENOENT, "no such switch"};
    return boost::json::object{{"name", "leaf-1"}};
  }
  ipoib::Result<boost::json::object> group_exits(std::string_view mlid) override {
    return boost::json::object{{"mlid", std::string(mlid)}};
  }
  bool has_ended = false;
  bool is_broken = false;
};

class ViewSiteTest : public testing::Test {
 protected:
  ViewAnswer get(std::string_view target, std::string_view host = "127.0.0.1:80",
                 std::string_view method = "GET") {
    return site_.answer({method, target, host});
  }
  MemoryData data_;
  ViewSite site_{data_, "secret", 80};
};

TEST_F(ViewSiteTest, HasThePageAndItsParts) {
  EXPECT_EQ(site_.url(), "http://127.0.0.1:80/secret/");
  const auto page = get("/secret/");
  EXPECT_EQ(page.status, 200U);
  EXPECT_EQ(page.type, "text/html; charset=utf-8");
  EXPECT_TRUE(page.body.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.body.ends_with("</html>\n"));
  EXPECT_NE(get("/secret/view.css").body.find("prefers-color-scheme"), std::string::npos);
  EXPECT_EQ(get("/secret/view.js").type, "text/javascript; charset=utf-8");
}

TEST_F(ViewSiteTest, IsUnknownWithoutTheToken) {
  for (const auto* target : {"/", "/secret", "/secre/", "/other/subnet.json", "", "*",
                             "http://127.0.0.1:80/secret/", "/secret/none", "/secret//"}) {
    EXPECT_EQ(get(target).status, 404U) << target;
    EXPECT_EQ(get(target).body.find("secret"), std::string::npos) << target;
  }
}

TEST_F(ViewSiteTest, RefusesOtherHosts) {
  EXPECT_EQ(get("/secret/", "localhost:80").status, 200U);
  for (const auto* host : {"", "127.0.0.1", "127.0.0.1:81", "evil.example", "evil.example:80",
                           "localhost", "127.0.0.1:80.evil.example", "LOCALHOST:80"}) {
    EXPECT_EQ(get("/secret/subnet.json", host).status, 403U) << host;
    EXPECT_EQ(get("/secret/subnet.json", host).body.find("secret"), std::string::npos) << host;
  }
}

TEST_F(ViewSiteTest, OnlyReads) {
  EXPECT_EQ(get("/secret/", "127.0.0.1:80", "HEAD").status, 200U);
  for (const auto* method : {"POST", "PUT", "DELETE", "OPTIONS", "get", ""}) {
    EXPECT_EQ(get("/secret/", "127.0.0.1:80", method).status, 405U) << method;
  }
}

TEST_F(ViewSiteTest, AnswersWithData) {
  EXPECT_EQ(get("/secret/subnet.json").body, "{}");
  EXPECT_EQ(get("/secret/subnet.json").type, "application/json");
  EXPECT_EQ(get("/secret/layout.json").body, R"({"width":7})");
  EXPECT_EQ(get("/secret/switch.json?name=leaf-1").body, R"({"name":"leaf-1"})");
  EXPECT_EQ(get("/secret/switch.json?name=x").status, 404U);
  EXPECT_EQ(get("/secret/switch.json").status, 404U);
  EXPECT_EQ(get("/secret/group.json?mlid=0xc000").body, R"({"mlid":"0xc000"})");
}

TEST_F(ViewSiteTest, SaysWhyThereAreNoData) {
  data_.has_ended = true;
  EXPECT_EQ(get("/secret/subnet.json").status, 500U);
  EXPECT_EQ(get("/secret/subnet.json").body, "no subnet\n");
  data_.is_broken = true;
  EXPECT_EQ(get("/secret/subnet.json").status, 500U);
}

}  // namespace
}  // namespace softib::cli
