#include "softib/control/protocol.hpp"

#include <gmock/gmock.h>

#include <cerrno>

#include "softib/control/client.hpp"

namespace softib::control {
namespace {

TEST(ControlProtocol, ParsesTheRequestsThatItEmits) {
  for (const Request& request :
       {Request(SetHca{"a", HcaState::failed}),
        Request(Show{}),
        Request(SetPort{"a", PortState::armed}),
        Request(SetLid{"a", Lid(0x1234)}),
        Request(SetMtu{"a", 1024}),
        Request(SetPort{"a", PortState::down, 2}),
        Request(SetLid{"a", Lid(7), 1}),
        Request(SetMtu{"a", 256, 2}),
        Request(SetLink{"a", {}, 2}),
        Request(MovePKey{"a", PKey(0x8012), 3, 2}),
        Request(SetLink{"a", {150, 1, 10'000, 10'000, 7, 8, 0xffff'ffff}}),
        Request(FailQps{"a", Qpn(0xfffffe)}),
        Request(FailQps{"a", Qpn()}),
        Request(AddAddress{"a", ipoib::parse_ip_address("10.1.0.1").value()}),
        Request(DeleteAddress{"a", ipoib::parse_ip_address("fd01::1").value()}),
        Request(AddAddress{"a", ipoib::parse_ip_address("10.1.0.1").value(), 2}),
        Request(DeleteAddress{"a", ipoib::parse_ip_address("fd01::1").value(), 1}),
        Request(SetPartition{"a", PKey(0x8012), subnet::Membership::limited}),
        Request(DeletePartition{PKey(0x8012)}),
        Request(MovePKey{"a", PKey(0x8012), 3}),
        Request(SetCable{{"a", 0}, subnet::CableEnd{"b", 1024}, subnet::CableState::flap}),
        Request(ChangeCable{{"a", 3}, std::nullopt, {8, 4, 10'000, 0}}),
        Request(ChangeCable{{"a", 3}, subnet::CableEnd{"b", 0}, {{}, {}, {}, 10'000}}),
        Request(SetSwitch{"a", subnet::SwitchState::reset}),
        Request(RestartSm{})}) {
    std::string line = emit(request);
    ASSERT_EQ(line.back(), '\n');
    line.pop_back();
    const auto parsed = parse_request(line);
    ASSERT_TRUE(parsed) << line;
    EXPECT_EQ(parsed->index(), request.index());
    EXPECT_EQ(emit(*parsed), line + '\n');
  }
}

TEST(ControlProtocol, RejectsMalformedRequestsWithAReason) {
  const auto reason = [](std::string_view line) {
    const auto parsed = parse_request(line);
    return parsed ? "" : parsed.error().message;
  };
  EXPECT_NE(reason("{").find("not JSON"), std::string::npos);
  EXPECT_NE(reason("{\"command\":\"dance\"}").find("dance"), std::string::npos);
  EXPECT_NE(reason("{\"command\":\"set-lid\"}").find("'hca'"), std::string::npos);
  EXPECT_NE(reason("{\"command\":\"set-lid\",\"hca\":\"a/b\"}").find("'hca'"), std::string::npos);
  EXPECT_NE(reason("{\"command\":\"set-port\",\"hca\":\"a\",\"state\":\"up\"}").find("'state'"),
            std::string::npos);
  EXPECT_NE(reason("{\"command\":\"set-lid\",\"hca\":\"a\",\"lid\":-1}").find("'lid'"),
            std::string::npos);
  for (const auto* port : {"0", "3", "\"1\""}) {
    const std::string line = R"({"command":"set-lid","hca":"a","lid":1,"port":)";
    EXPECT_NE(reason(line + port + '}').find("'port'"), std::string::npos) << port;
  }
  const std::string link = R"({"command":"set-link","hca":"a","loss":0,"duplicate":0,"reorder":0,)"
                           R"("delay":0,)";
  EXPECT_EQ(reason(link + R"("corrupt":10000,"cm_loss":10000,"seed":4294967295})"), "");
  EXPECT_NE(reason(link + R"("corrupt":10001,"cm_loss":0,"seed":0})").find("'corrupt'"),
            std::string::npos);
  EXPECT_NE(reason(link + R"("corrupt":0,"cm_loss":10001,"seed":0})").find("'cm_loss'"),
            std::string::npos);
  EXPECT_NE(reason(link + R"("corrupt":0,"cm_loss":0,"seed":4294967296})").find("'seed'"),
            std::string::npos);
  EXPECT_NE(reason(R"({"command":"fail-qps","hca":"a","qpn":16777215})").find("'qpn'"),
            std::string::npos);
  EXPECT_NE(
      reason(R"({"command":"set-link","hca":"a","loss":10001,"duplicate":0,"reorder":0,"delay":0})")
          .find("'loss'"),
      std::string::npos);
  const std::string address = R"({"command":"add-address","hca":"a","address":)";
  EXPECT_EQ(reason(address + R"("10.0.0.1"})"), "");
  EXPECT_NE(reason(address + R"("10.0.0"})").find("'address'"), std::string::npos);
  EXPECT_NE(reason(std::string(100, '[')).find("not JSON"), std::string::npos);
  EXPECT_NE(
      reason(R"({"command":)" + std::string(20, '[') + std::string(20, ']') + "}").find("not JSON"),
      std::string::npos)
      << "too deep";
}

TEST(ControlProtocol, WritesPKeysAsStrings) {
  EXPECT_THAT(emit(MovePKey{"a", PKey(0x8012), 3}), testing::HasSubstr(R"("pkey":"0x8012")"));
  for (const char* key : {"18", "\"18\"", "\"0x12\"", "\"0x00012\"", "\"0x001g\"", "\"0x\""}) {
    const auto line =
        std::string(R"({"command":"move-pkey","hca":"a","index":1,"pkey":)") + key + '}';
    ASSERT_FALSE(parse_request(line)) << line;
    EXPECT_THAT(
        parse_request(line).error().message,
        testing::HasSubstr("'pkey' is missing or invalid: use the softib that has started the "
                           "subnet"))
        << line;
  }
}

TEST(ControlProtocol, TakesOnlyAnEmptyObjectForSuccess) {
  EXPECT_TRUE(parse_acknowledgement("{}"));
  EXPECT_EQ(parse_acknowledgement("error 22 no").error().code, EINVAL);
  // As an older subnet process responds.
  for (const char* line : {R"({"ok":false,"error":"unknown command"})", R"({"ok":true})", "7", "",
                           "node 7", "{", "[]"}) {
    const auto parsed = parse_acknowledgement(line);
    ASSERT_FALSE(parsed) << line;
    EXPECT_EQ(parsed.error().code, EPROTO) << line;
    EXPECT_THAT(parsed.error().message, testing::HasSubstr(line));
  }
}

TEST(ControlProtocol, TakesOnlyASubnetForTheResponseToShow) {
  EXPECT_TRUE(parse_subnet(R"({"nodes":[]})"));
  EXPECT_EQ(parse_subnet("error 1 no").error().code, EPERM);
  for (const char* line : {"{}", R"({"ok":false})", R"({"nodes":7})", "7"}) {
    ASSERT_FALSE(parse_subnet(line)) << line;
    EXPECT_EQ(parse_subnet(line).error().code, EPROTO) << line;
  }
}

TEST(ControlProtocol, ParsesResponsesAndErrors) {
  const auto response = parse_response(R"({"sm":"own"})");
  ASSERT_TRUE(response);
  EXPECT_EQ(response->at("sm"), "own");
  EXPECT_EQ(emit_error({EINVAL, "two\nlines"}), "error 22 two lines\n");
  auto line = emit_error({ENODEV, "no \"such\" thing"});
  line.pop_back();
  const auto failed = parse_response(line);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ENODEV);
  EXPECT_EQ(failed.error().message, "no \"such\" thing");
  EXPECT_EQ(error_of("error ")->code, EIO);
  EXPECT_FALSE(error_of("node 7"));
  EXPECT_FALSE(parse_response("7"));
}

}  // namespace
}  // namespace softib::control
