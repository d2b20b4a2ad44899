#include "softib/control/protocol.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace softib::control {
namespace {

TEST(ControlProtocol, RequestsGoThereAndBack) {
  for (const Request& request :
       {Request(Attach{"a"}), Request(SetHca{"a", HcaState::failed}), Request(Show{}),
        Request(SetPort{"a", PortState::armed}), Request(SetLid{"a", Lid(0x1234)}),
        Request(SetMtu{"a", 1024}),
        Request(SetPartition{"a", PKey(0x8012), subnet::Membership::limited}),
        Request(MovePKey{"a", PKey(0x8012), 3}), Request(RestartSm{})}) {
    std::string line = emit(request);
    ASSERT_EQ(line.back(), '\n');
    line.pop_back();
    const auto parsed = parse_request(line);
    ASSERT_TRUE(parsed) << line;
    EXPECT_EQ(parsed->index(), request.index());
    EXPECT_EQ(emit(*parsed), line + '\n');
  }
}

TEST(ControlProtocol, NonsenseIsRefusedWithAReason) {
  const auto reason = [](std::string_view line) {
    const auto parsed = parse_request(line);
    return parsed ? "" : parsed.error().message;
  };
  EXPECT_NE(reason("{").find("no JSON"), std::string::npos);
  EXPECT_NE(reason("{\"command\":\"dance\"}").find("dance"), std::string::npos);
  EXPECT_NE(reason("{\"command\":\"attach\"}").find("'hca'"), std::string::npos);
  EXPECT_NE(reason("{\"command\":\"attach\",\"hca\":\"a/b\"}").find("'hca'"), std::string::npos);
  EXPECT_NE(reason("{\"command\":\"set-port\",\"hca\":\"a\",\"state\":\"up\"}").find("'state'"),
            std::string::npos);
  EXPECT_NE(reason("{\"command\":\"set-lid\",\"hca\":\"a\",\"lid\":-1}").find("'lid'"),
            std::string::npos);
  EXPECT_NE(reason(std::string(100, '[')).find("no JSON"), std::string::npos);
}

TEST(ControlProtocol, AnswersAndRefusals) {
  const auto answer = parse_answer(R"({"ok":true,"node":3})");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at("node").as_int64(), 3);
  auto line = emit_refusal({ENODEV, "no \"such\" thing"});
  line.pop_back();
  const auto refusal = parse_answer(line);
  ASSERT_FALSE(refusal);
  EXPECT_EQ(refusal.error().code, ENODEV);
  EXPECT_EQ(refusal.error().message, "no \"such\" thing");
  EXPECT_FALSE(parse_answer("{}"));
  EXPECT_FALSE(parse_answer("7"));
}

}  // namespace
}  // namespace softib::control
