#include "control/protocol.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <limits>

namespace ipoib::control {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using testing::HasSubstr;

const IpAddress kV4 = Ipv4Address(0x0a2c0002);
const IpAddress kV6 = *parse_ip_address("2001:db8::2");
const HwAddress kHardware{0x80, Qpn(0x401), Gid(Gid::kLinkLocalPrefix, Guid(0x0002c90300000001))};

Entry full_entry() {
  Entry entry;
  entry.address = kV4;
  entry.state = "reachable";
  entry.hardware = kHardware;
  entry.pinned = kHardware.gid;
  entry.mac = MacAddress(0x0200'0000'0011);
  entry.path = Path{Lid(0xbfff), ServiceLevel(15), 4096, 100'000};
  entry.idle = milliseconds(1234);
  entry.references = 3;
  entry.uses = 1ULL << 40;
  entry.waiting = 16;
  return entry;
}

/// Checks that there is one newline, at the end, and returns the line without it.
std::string line_of(std::string text) {
  EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
  text.pop_back();
  return text;
}

class Requests : public testing::TestWithParam<Request> {};

TEST_P(Requests, AreParsedAsEmitted) {
  const std::string line = line_of(emit(GetParam()));
  const auto back = parse_request(line);
  ASSERT_TRUE(back.has_value()) << line << ": " << back.error().message;
  EXPECT_EQ(*back, GetParam()) << line;
}

INSTANTIATE_TEST_SUITE_P(
    All, Requests,
    testing::Values(InterfaceRequest(ListRequest{}),
                    InterfaceRequest(ListRequest{std::numeric_limits<std::uint64_t>::max()}),
                    InterfaceRequest(GetRequest{kV4}), InterfaceRequest(GetRequest{kV6}),
                    InterfaceRequest(ResolveRequest{kV6, ResolveRequest::kMaxTimeout}),
                    InterfaceRequest(SetRequest{SetRequest::Mode::add, kV4, kHardware}),
                    InterfaceRequest(SetRequest{SetRequest::Mode::change, kV6, kHardware}),
                    InterfaceRequest(SetRequest{SetRequest::Mode::replace, kV4, kHardware}),
                    InterfaceRequest(PinRequest{SetRequest::Mode::add, kV4, kHardware.gid}),
                    InterfaceRequest(DeleteRequest{kV6}), InterfaceRequest(FlushRequest{}),
                    InterfaceRequest(SubscribeRequest{{.neighbours = true, .groups = true}}),
                    InterfaceRequest(SubscribeRequest{{.link = true, .stats = true},
                                                      SubscribeRequest::kMinInterval}),
                    InterfaceRequest(FlushRequest{{.family = IpFamily::v6}}),
                    InterfaceRequest(FlushRequest{{.family = IpFamily::v4,
                                                   .prefix = parse_prefix("10.44.0.0/24"),
                                                   .states = {"failed", "permanent"}}}),
                    InterfaceRequest(StatsRequest{}), InterfaceRequest(InfoRequest{}),
                    InterfaceRequest(HistogramsRequest{}), InterfaceRequest(StationsRequest{17}),
                    MembersRequest{*Gid::parse("ff12:401b:ffff::1")}, LogRequest{},
                    LogRequest{{{"link", "debug"}, {"all", "off"}}}, TraceRequest{3, 77},
                    InterfaceRequest(FailoverRequest{}),
                    InterfaceRequest(FailoverRequest{"mlx5_1", 255}),
                    AddInterfaceRequest{PKey(0x1), "red"}, AddInterfaceRequest{PKey(0xffff), ""},
                    DeleteInterfaceRequest{}));

struct ReplyCase {
  Request request;
  Reply reply;
};

class Replies : public testing::TestWithParam<ReplyCase> {};

TEST_P(Replies, AreParsedAsEmitted) {
  const std::string line = line_of(emit(Response(GetParam().reply)));
  const auto back = parse_response(GetParam().request, line);
  ASSERT_TRUE(back.has_value()) << line << ": " << back.error().message;
  EXPECT_EQ(*back, GetParam().reply) << line;
}

InterfaceInfo full_info() {
  InterfaceInfo info;
  info.interface = "ib0";
  info.device = "softib0";
  info.port = 1;
  info.pkey = kDefaultPKey;
  info.qkey = QKey(0x80000b1b);
  info.qpn = Qpn(0xfffffe);
  info.gid = kHardware.gid;
  info.lid = Lid(7);
  info.mtu = 2044;
  info.host_mtu = 4000;
  info.port_mtu = 4096;
  info.port_rate_mbps = 100'000;
  info.group_rate_mbps = 10'000;
  info.membership = "limited";
  info.state = "joining";
  info.waiting_for = "the SA's response to a \"join\"";
  info.sm_lid = Lid(0x11);
  info.version = "0.1.0";
  info.pid = 4711;
  info.admin_up = false;
  info.ports = {{.device = "mlx5_0",
                 .port = 1,
                 .role = "primary",
                 .active = true,
                 .state = "up",
                 .waiting_for = "",
                 .gid = kHardware.gid,
                 .lid = Lid(7),
                 .sm_lid = Lid(0x11)},
                {.device = "mlx5_1",
                 .port = 2,
                 .role = "backup",
                 .state = "port_down",
                 .waiting_for = "a cable",
                 .gid = {},
                 .lid = {},
                 .sm_lid = {}}};
  info.groups = {{*Gid::parse("ff12:401b:ffff::ffff:ffff"), Lid(0xc000), "full"},
                 {*Gid::parse("ff12:401b:ffff::1"), Lid(0), "joining", kV4, 16},
                 {*Gid::parse("ff12:601b:ffff::1"), Lid(0), "missing", kV6}};
  return info;
}

INSTANTIATE_TEST_SUITE_P(
    All, Replies,
    testing::Values(
        ReplyCase{InterfaceRequest(ListRequest{}), EntryPage{}},
        ReplyCase{InterfaceRequest(ListRequest{}),
                  EntryPage{{full_entry(), Entry{kV6, "incomplete", {}, {}, {}, 0, 1}}, 42}},
        ReplyCase{InterfaceRequest(GetRequest{kV4}), full_entry()},
        ReplyCase{InterfaceRequest(ResolveRequest{}),
                  Resolution{kV4, full_entry().hardware.value(), full_entry().path.value(),
                             *Gid::parse("fe80::7"), Lid(5), PKey(0x8001), 3, 18, 64}},
        ReplyCase{InterfaceRequest(ResolveRequest{}), Resolution{}},
        ReplyCase{InterfaceRequest(SetRequest{}), Done{}},
        ReplyCase{InterfaceRequest(PinRequest{}), Done{}},
        ReplyCase{InterfaceRequest(DeleteRequest{}), Done{}},
        ReplyCase{InterfaceRequest(FlushRequest{}), Flushed{9999}},
        ReplyCase{InterfaceRequest(StatsRequest{}),
                  std::vector<Counter>{{"packets_sent", ~std::uint64_t{0}, false},
                                       {"path_failed", 1, true},
                                       {"neighbours", 2, false, true}}},
        ReplyCase{
            InterfaceRequest(HistogramsRequest{}),
            std::vector<Histogram>{{"resolution_time", {1000, 2000}, {1, 0, ~std::uint64_t{0}}, 77},
                                   {"none", {}, {0}, 0}}},
        ReplyCase{InterfaceRequest(StationsRequest{}), StationPage{}},
        ReplyCase{InterfaceRequest(StationsRequest{}),
                  StationPage{{{kV4, MacAddress(0x0200'0000'0011), "reachable", true, 7s},
                               {kV6, MacAddress(0x0200'0000'0012), "refused", false, {}}},
                              42}},
        ReplyCase{InterfaceRequest(InfoRequest{}), full_info()},
        ReplyCase{MembersRequest{}, std::vector<Member>{{*Gid::parse("fe80::7"), 5}}},
        ReplyCase{LogRequest{}, std::vector<ModuleLevel>{{"link", "debug"}, {"sa", "info"}}},
        ReplyCase{
            TraceRequest{},
            TracePage{
                2, "ib0", {{41, "tx", TimePoint(milliseconds(-5)), 1, ~std::uint64_t{0}}}, 42, 43}},
        ReplyCase{AddInterfaceRequest{}, AddedInterface{"ib0.8001"}},
        ReplyCase{AddInterfaceRequest{}, AddedInterface{"ib0.8001", "limited"}},
        ReplyCase{DeleteInterfaceRequest{}, Done{}}));

TEST(Request, KnowsWhichRequestsChangeAnything) {
  EXPECT_TRUE(is_change(InterfaceRequest(SetRequest{})));
  EXPECT_TRUE(is_change(InterfaceRequest(PinRequest{})));
  EXPECT_TRUE(is_change(InterfaceRequest(DeleteRequest{})));
  EXPECT_TRUE(is_change(InterfaceRequest(FlushRequest{})));
  EXPECT_TRUE(is_change(InterfaceRequest(FailoverRequest{})));
  EXPECT_TRUE(is_change(LogRequest{{{"link", "debug"}}}));
  EXPECT_TRUE(is_change(AddInterfaceRequest{}));
  EXPECT_TRUE(is_change(DeleteInterfaceRequest{}));
  EXPECT_FALSE(is_change(LogRequest{}));
  EXPECT_FALSE(is_change(InterfaceRequest(ListRequest{})));
  EXPECT_FALSE(is_change(InterfaceRequest(GetRequest{})));
  EXPECT_FALSE(is_change(InterfaceRequest(StatsRequest{})));
  EXPECT_FALSE(is_change(InterfaceRequest(InfoRequest{})));
  EXPECT_FALSE(is_change(InterfaceRequest(HistogramsRequest{})));
  EXPECT_FALSE(is_change(TraceRequest{}));
}

TEST(Request, SomeAreRestrictedThoughTheyChangeNothing) {
  for (const Request& request : std::vector<Request>{
           InterfaceRequest(SetRequest{}), MembersRequest{}, TraceRequest{}, CaptureRequest{}}) {
    EXPECT_TRUE(is_restricted(request)) << request.index();
  }
  EXPECT_FALSE(is_restricted(InterfaceRequest(ListRequest{})));
}

TEST(Request, IgnoresUnknownMembers) {
  const auto request = parse_request(R"({"op":"info","colour":"blue","deep":[{}]})");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(*request, Request(InterfaceRequest(InfoRequest{})));
}

class Events : public testing::TestWithParam<Event> {};

TEST_P(Events, AreParsedAsEmitted) {
  const std::string line = line_of(emit(GetParam()));
  const auto back = parse_event(line);
  ASSERT_TRUE(back.has_value()) << line << ": " << back.error().message;
  EXPECT_EQ(*back, GetParam()) << line;
}

InterfaceInfo info_without_groups() {
  auto info = full_info();
  info.groups.clear();
  return info;
}

INSTANTIATE_TEST_SUITE_P(
    All, Events,
    testing::Values(NeighbourEvent{"changed", "confirmed", full_entry()},
                    LinkEvent{{"state", "mtu"}, info_without_groups()},
                    GroupEvent{"failed", "no response", full_info().groups.back()},
                    StationEvent{"moved_out",
                                 "claimed by 02:00:00:00:00:02",
                                 {*parse_ip_address("10.44.0.11"), MacAddress(1), "gone", false,
                                  milliseconds(7)}},
                    StatsEvent{milliseconds(1000), {{{"neighbours", 7, false}, -3}}},
                    LostEvent{~std::uint64_t{0}}, TakeoverEvent{}));

TEST(Event, IsRefusedIfItIsNotValid) {
  using Case = std::pair<std::string_view, std::string_view>;
  for (const auto& [line, says] :
       {Case{"", "not JSON"}, Case{"{}", "event"}, Case{R"({"event":7})", "a string"},
        Case{R"({"event":"lost"})", "events"},
        Case{R"({"event":"link","changed":[7]})", "\"changed\": expected an array of strings"},
        Case{R"({"event":"neighbour","change":"new","why":"","entry":{}})", "address"},
        Case{R"({"event":"stats","interval_ms":-1,"counters":[]})", "interval_ms"}}) {
    ASSERT_TRUE(parse_event(line).has_error()) << line;
    EXPECT_EQ(parse_event(line).error().code, EPROTO) << line;
    EXPECT_THAT(parse_event(line).error().message, HasSubstr(says)) << line;
  }
  const auto unknown = parse_event(R"({"event":"failover"})");
  EXPECT_EQ(unknown.error().code, EOPNOTSUPP);
  EXPECT_EQ(unknown.error().message,
            "ipoibd sends an event that this ibarp does not know: failover");
}

struct Bad {
  std::string_view line;
  int code;
  std::string_view says;
};

class BadRequests : public testing::TestWithParam<Bad> {};

TEST_P(BadRequests, AreRejectedWithAMessage) {
  const auto request = parse_request(GetParam().line);
  ASSERT_TRUE(request.has_error()) << GetParam().line;
  EXPECT_EQ(request.error().code, GetParam().code);
  EXPECT_THAT(request.error().message, HasSubstr(GetParam().says)) << GetParam().line;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadRequests,
    testing::Values(
        Bad{"", EINVAL, "not JSON"}, Bad{"{", EINVAL, "not JSON"},
        Bad{R"({"op":"subscribe"})", EINVAL, "\"topics\""},
        Bad{R"({"op":"subscribe","topics":[]})", EINVAL,
            "neighbours, link, groups, stations, stats"},
        Bad{R"({"op":"subscribe","topics":["weather"]})", EINVAL, "\"topics\""},
        Bad{R"({"op":"subscribe","topics":[7]})", EINVAL, "\"topics\""},
        Bad{R"({"op":"subscribe","topics":["stats"],"interval_ms":99})", EINVAL,
            "\"interval_ms\": expected 100 to 3600000"},
        Bad{R"({"op":"subscribe","topics":["stats"],"interval_ms":3600001})", EINVAL,
            "interval_ms"},
        Bad{"GET / HTTP/1.1", EINVAL, ""}, Bad{"{} {}", EINVAL, "not JSON"},
        Bad{"[]", EINVAL, "not a JSON object"}, Bad{"7", EINVAL, "not a JSON object"},
        Bad{"{}", EINVAL, "\"op\""}, Bad{R"({"op":7})", EINVAL, "\"op\": expected a string"},
        Bad{R"({"op":"get"})", EINVAL, "get: \"address\""},
        Bad{R"({"op":"get","address":"10.44.0.256"})", EINVAL, "an IP address"},
        Bad{R"({"op":"get","address":["10.44.0.2"]})", EINVAL, "a string"},
        Bad{R"({"op":"list","cursor":-1})", EINVAL, "an integer from 0 to 18446744073709551615"},
        Bad{R"({"op":"list","cursor":1.5})", EINVAL, "cursor"},
        Bad{R"({"op":"list","cursor":18446744073709551616})", EINVAL, "cursor"},
        Bad{R"({"op":"set","mode":"add","address":"10.44.0.2"})", EINVAL, "lladdr"},
        Bad{R"({"op":"set","mode":"add","address":"10.44.0.2","lladdr":"00:11:22:33:44:55"})",
            EINVAL, "20 bytes"},
        Bad{R"({"op":"set","mode":"grow","address":"10.44.0.2","lladdr":"x"})", EINVAL,
            "\"mode\": expected add, change or replace"},
        Bad{R"({"op":"flush_matching","family":5})", EINVAL, "\"family\": expected 4 or 6"},
        Bad{R"({"op":"flush_matching","prefix":"10.0.0.0/33"})", EINVAL,
            "\"prefix\": expected an IP prefix"},
        Bad{R"({"op":"flush_matching","states":7})", EINVAL, "\"states\": expected a string"},
        Bad{R"({"op":"flush_matching","states":"asleep"})", EINVAL,
            "\"states\": expected names of states with commas"},
        Bad{R"({"op":"sing"})", EOPNOTSUPP, "unknown op; this daemon knows list, get, resolve"},
        Bad{R"({"op":"log","set":{}})", EINVAL, "an array"},
        Bad{R"({"op":"log","set":["link"]})", EINVAL, "an array of objects"},
        Bad{R"({"op":"log","set":[{"module":"link"}]})", EINVAL, "level"},
        Bad{R"({"op":"resolve","address":"10.0.0.1"})", EINVAL, "timeout_ms"},
        Bad{R"({"op":"resolve","address":"10.0.0.1","timeout_ms":30001})", EINVAL, "0 to 30000"},
        Bad{R"({"op":"failover","device":""})", EINVAL, "the name of an RDMA device"},
        Bad{R"({"op":"failover","device":"mlx5_1"})", EINVAL, "port"},
        Bad{R"({"op":"trace"})", EINVAL, "ring"},
        Bad{R"({"op":"trace","ring":4294967296,"from":0})", EINVAL, "0 to 4294967295"}));

TEST(Request, DeepNestingIsRejected) {
  const std::string line = R"({"op":)" + std::string(2000, '[');
  const auto request = parse_request(line);
  ASSERT_TRUE(request.has_error());
  EXPECT_EQ(request.error().code, EINVAL);
}

TEST(Response, CarriesAnError) {
  const auto back = parse_response(InterfaceRequest(GetRequest{}),
                                   line_of(emit(Response(Error{ENOENT, "no \"such\" entry"}))));
  ASSERT_TRUE(back.has_error());
  EXPECT_EQ(back.error().code, ENOENT);
  EXPECT_EQ(back.error().message, "no \"such\" entry");
}

TEST(Response, EmitsEioForAnErrorWithoutCode) {
  const auto back =
      parse_response(InterfaceRequest(GetRequest{}), line_of(emit(Response(Error{0, "no luck"}))));
  ASSERT_TRUE(back.has_error());
  EXPECT_EQ(back.error().code, EIO);
}

struct BadText {
  std::string_view text;
  std::string_view says;
};

class BadHistograms : public testing::TestWithParam<BadText> {};

TEST_P(BadHistograms, AreProtocolErrors) {
  const std::string line =
      R"({"ok":true,"histograms":[{"name":"x","sum_ns":1,)" + std::string(GetParam().text) + "}]}";
  const auto response = parse_response(InterfaceRequest(HistogramsRequest{}), line);
  ASSERT_TRUE(response.has_error()) << line;
  EXPECT_EQ(response.error().code, EPROTO) << line;
  EXPECT_THAT(response.error().message, HasSubstr(GetParam().says)) << line;
}

constexpr std::string_view kCounts = "\"counts\": expected one element more than bounds_ns has";
constexpr std::string_view kBounds = "\"bounds_ns\": expected numbers in ascending order";
constexpr std::string_view kNumbers = "expected an array of numbers, none less than 0";

INSTANTIATE_TEST_SUITE_P(
    All, BadHistograms,
    testing::Values(BadText{R"("bounds_ns":[1,2],"counts":[1,2])", kCounts},
                    BadText{R"("bounds_ns":[1,2],"counts":[1,2,3,4])", kCounts},
                    BadText{R"("bounds_ns":[2,1],"counts":[1,2,3])", kBounds},
                    BadText{R"("bounds_ns":[1,1],"counts":[1,2,3])", kBounds},
                    BadText{R"("bounds_ns":[1,"2"],"counts":[1,2,3])", kNumbers},
                    BadText{R"("bounds_ns":[1,2],"counts":[1,-2,3])", kNumbers},
                    BadText{R"("bounds_ns":7,"counts":[1])", "an array"},
                    BadText{R"("counts":[1])", "bounds_ns"}));

TEST(Response, HasNoNegativeTimes) {
  const auto response =
      parse_response(InterfaceRequest(GetRequest{kV4}),
                     R"({"ok":true,"entry":{"address":"10.44.0.2","state":"stale","idle_ms":-1,)"
                     R"("references":0,"waiting":0}})");
  EXPECT_THAT(response.error().message,
              HasSubstr("\"idle_ms\": expected milliseconds, not less than 0"));
}

class BadResponses : public testing::TestWithParam<std::string_view> {};

TEST_P(BadResponses, AreProtocolErrors) {
  const auto response = parse_response(InterfaceRequest(GetRequest{kV4}), GetParam());
  ASSERT_TRUE(response.has_error()) << GetParam();
  EXPECT_EQ(response.error().code, EPROTO) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(
    All, BadResponses,
    testing::Values("", "null", "{}", R"({"ok":"yes"})", R"({"ok":false})",
                    R"({"ok":false,"error":{}})",
                    R"({"ok":false,"error":{"code":0,"message":"fine"}})",
                    R"({"ok":false,"error":{"code":-2,"message":"x"}})", R"({"ok":true})",
                    R"({"ok":true,"entry":[]})", R"({"ok":true,"entry":{"address":"10.44.0.2"}})",
                    R"({"ok":true,"entry":{"address":"10.44.0.2","state":"stale","idle_ms":-1,)"
                    R"("references":0,"waiting":0}})",
                    R"({"ok":true,"entry":{"address":"10.44.0.2","state":"stale","idle_ms":)"
                    R"(9223372036854775807,"references":0,"waiting":0}})",
                    R"({"ok":true,"entry":{"address":"10.44.0.2","state":"stale","idle_ms":1,)"
                    R"("references":4294967296,"waiting":0}})",
                    R"({"ok":true,"entry":{"address":"10.44.0.2","state":"stale","idle_ms":1,)"
                    R"("references":0,"waiting":0,"path":7}})",
                    R"({"ok":true,"entry":{"address":"10.44.0.2","state":"stale","idle_ms":1,)"
                    R"("references":0,"waiting":0,"path":{"dlid":1,"sl":0,"mtu":2048}}})"));

}  // namespace
}  // namespace ipoib::control
