#include "ipoib/ibarp.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "as_nobody.hpp"
#include "control/ibarp_handle.hpp"
#include "erf/capture_messages.hpp"
#include "ibarp_in_c.h"
#include "ipoib/unix_path.hpp"
#include "line_client.hpp"
#include "running_server.hpp"

namespace ipoib::control {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::HasSubstr;
using testing::StrEq;

/// An open handle.
class Handle {
 public:
  explicit Handle(const std::string& interface)
      : result_(ibarp_open(interface.c_str(), &handle_)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { ibarp_close(handle_); }
  [[nodiscard]] ibarp* get() const { return handle_; }
  [[nodiscard]] int result() const { return result_; }

 private:
  ibarp* handle_ = nullptr;
  int result_;
};

int info_of(ibarp* handle) {
  ibarp_info info{};
  info.size = sizeof(info);
  return ibarp_get_info(handle, &info);
}

void put(RunningServer& server, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    Entry entry;
    entry.address = Ipv4Address(0x0a000000 + i);
    entry.state = "reachable";
    server.handler.put(entry);
  }
}

TEST(Ibarp, IsUsableFromC) {
  RunningServer server;
  server.trace.add("ib0").record("turn", TimePoint{}, 1, 2);
  InterfaceInfo info;
  info.pkey = kDefaultPKey;
  info.qpn = Qpn(0x401);
  info.state = "up";
  info.groups = {{Gid{}, Lid(0xc000), "full", Ipv4Address(0xe0000001), 3}};
  server.handler.put(info);
  server.handler.put(Gid{}, {{*Gid::parse("fe80::7"), IBARP_FULL_MEMBER}});
  EXPECT_EQ(ibarp_in_c(server.name().c_str()), 0) << "the line of ibarp_in_c.c that failed";
}

TEST(Ibarp, FillsInAllMembersOfAnEntry) {
  RunningServer server;
  Entry entry;
  entry.address = *parse_ip_address("2001:db8::2");
  entry.state = "probing";
  entry.hardware = HwAddress{0x80, Qpn(0xabcdef), *Gid::parse("fe80::1")};
  entry.path = Path{Lid(0x12), ServiceLevel(3), 2048, 40'000};
  entry.idle = std::chrono::seconds(90);
  entry.references = 4;
  entry.uses = 1ULL << 40;
  entry.waiting = 5;
  server.handler.put(entry);
  const Handle handle(server.name());
  ibarp_address address{};
  ASSERT_EQ(ibarp_parse_address("2001:db8::2", &address), 0);
  ibarp_entry found{};
  found.size = sizeof(found);
  ASSERT_EQ(ibarp_get(handle.get(), &address, &found), 0) << ibarp_error(handle.get());
  EXPECT_EQ(found.address.family, AF_INET6);
  EXPECT_STREQ(found.state, "probing");
  EXPECT_EQ(found.flags, IBARP_HAS_HARDWARE | IBARP_HAS_PATH);
  EXPECT_EQ(found.hardware.flags, 0x80);
  EXPECT_EQ(found.hardware.qpn, 0xabcdefU);
  EXPECT_EQ(found.dlid, 0x12);
  EXPECT_EQ(found.sl, 3);
  EXPECT_EQ(found.path_mtu, 2048U);
  EXPECT_EQ(found.rate_mbps, 40'000U);
  EXPECT_EQ(found.idle_ms, 90'000U);
  EXPECT_EQ(found.references, 4U);
  EXPECT_EQ(found.uses, 1ULL << 40);
  EXPECT_EQ(found.waiting, 5U);
}

/// The daemon's side of a capture: a message with a record for each packet.
void send_packets(const FileDescriptor& to, std::uint64_t lost,
                  const std::vector<erf::CaptureRecord>& records) {
  erf::CaptureMessage message;
  for (const auto& each : records) {
    std::vector<std::uint8_t> bytes(erf::kCaptureRecordHeader);
    each.emit_header(each.packet.size(), bytes);
    bytes.insert(bytes.end(), each.packet.begin(), each.packet.end());
    ASSERT_TRUE(message.add(bytes));
  }
  const auto all = message.finish(lost);
  ASSERT_EQ(::send(to.get(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
}

TEST(Ibarp, CapturesPackets) {
  RunningServer server;
  std::promise<FileDescriptor> begun;
  std::optional<IpAddress> neighbour;
  server.on_capture = [&](const CaptureRequest& request, FileDescriptor connection) {
    neighbour = request.neighbour;
    const auto line = emit(Response(Reply(Done{})));
    (void)!::send(connection.get(), line.data(), line.size(), 0);
    begun.set_value(std::move(connection));
  };
  const Handle handle(server.name());
  ibarp_packet packet{};
  packet.size = sizeof(packet);
  EXPECT_EQ(ibarp_next_packet(handle.get(), &packet, 0), -ENOTCONN);
  EXPECT_EQ(ibarp_capture_fd(handle.get()), -ENOTCONN);
  ibarp_address address{};
  ASSERT_EQ(ibarp_parse_address("10.44.0.2", &address), 0);
  ASSERT_EQ(ibarp_capture(handle.get(), &address), 0) << ibarp_error(handle.get());
  EXPECT_GE(ibarp_capture_fd(handle.get()), 0);
  auto daemon = begun.get_future().get();
  EXPECT_EQ(neighbour, parse_ip_address("10.44.0.2"));
  EXPECT_EQ(ibarp_next_packet(handle.get(), &packet, 0), -EAGAIN);
  EXPECT_THAT(ibarp_error(handle.get()), HasSubstr("no packet has come within the time-out"));

  const std::vector<std::uint8_t> first{1, 2, 3};
  const std::vector<std::uint8_t> second(4000, 7);
  send_packets(daemon, 0, {{false, 5, first}, {true, 6, second}});
  send_packets(daemon, 9, {{true, 7, first}});
  ASSERT_EQ(ibarp_next_packet(handle.get(), &packet, -1), 0);
  EXPECT_EQ(packet.when_ns, 5);
  EXPECT_EQ(packet.is_received, 0);
  EXPECT_EQ(packet.length, 3U);
  EXPECT_EQ(packet.bytes[2], 3);
  packet.size = sizeof(packet);
  ASSERT_EQ(ibarp_next_packet(handle.get(), &packet, -1), 0);
  EXPECT_EQ(packet.is_received, 1);
  EXPECT_EQ(packet.length, 4000U);
  EXPECT_EQ(packet.lost, 0U);
  packet.size = sizeof(packet);
  ASSERT_EQ(ibarp_next_packet(handle.get(), &packet, 1000), 0);
  EXPECT_EQ(packet.lost, 9U);
  EXPECT_EQ(info_of(handle.get()), 0) << "the handle can be used for other calls";

  const std::vector<std::uint8_t> malformed(20, 0xff);
  ASSERT_EQ(::send(daemon.get(), malformed.data(), malformed.size(), 0), 20);
  EXPECT_EQ(ibarp_next_packet(handle.get(), &packet, 1000), -EPROTO);
  EXPECT_THAT(ibarp_error(handle.get()),
              HasSubstr(": ipoibd has sent something else than packets: restart it, or run the "
                        "ibarp of its version"));
  EXPECT_EQ(ibarp_next_packet(handle.get(), &packet, 0), -ENOTCONN) << "that has ended it";
}

TEST(Ibarp, ACaptureEndsWithTheDaemon) {
  RunningServer server;
  server.on_capture = [](const CaptureRequest&, const FileDescriptor& connection) {
    const auto line = emit(Response(Reply(Done{})));
    (void)!::send(connection.get(), line.data(), line.size(), 0);
  };
  const Handle handle(server.name());
  ASSERT_EQ(ibarp_capture(handle.get(), nullptr), 0) << ibarp_error(handle.get());
  ibarp_packet packet{};
  packet.size = sizeof(packet);
  EXPECT_EQ(ibarp_next_packet(handle.get(), &packet, -1), -EPIPE);
  server.on_capture = [](const CaptureRequest&, const FileDescriptor& connection) {
    const auto line = emit(Response(Error{EBUSY, "too many"}));
    (void)!::send(connection.get(), line.data(), line.size(), 0);
  };
  EXPECT_EQ(ibarp_capture(handle.get(), nullptr), -EBUSY);
  EXPECT_STREQ(ibarp_error(handle.get()), "too many");
  const ibarp_address none{};
  EXPECT_EQ(ibarp_capture(handle.get(), &none), -EINVAL);
  ibarp_capture_end(handle.get());
  ibarp_capture_end(nullptr);
}

/// What the daemon says to the first message on the socket for captures.
std::string said_to(const RunningServer& server, const std::string& message) {
  const auto path = UnixPath::of(server.folder() + "/" + kCaptureSocket);
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), path->address(), UnixPath::size()), 0);
  EXPECT_EQ(::send(socket.get(), message.data(), message.size(), 0),
            static_cast<ssize_t>(message.size()));
  std::string out(1000, ' ');
  out.resize(static_cast<std::size_t>(::recv(socket.get(), out.data(), out.size(), 0)));
  return out;
}

TEST(Ibarp, OtherRequestsAreRefusedOnTheSocketForCaptures) {
  RunningServer server;
  EXPECT_NE(said_to(server, "{").find("\"ok\":false"), std::string::npos);
  EXPECT_NE(said_to(server, R"({"op":"info"})").find("this socket is for captures"),
            std::string::npos);
  EXPECT_NE(said_to(server, R"({"op":"capture","neighbour":"x"})").find("neighbour"),
            std::string::npos);
}

/// A server with a neighbour to be resolved.
struct ResolvingServer : RunningServer {
  ResolvingServer() {
    InterfaceInfo info;
    info.gid = *Gid::parse("fe80::7");
    info.lid = Lid(5);
    info.pkey = PKey(0x8001);
    handler.put(info);
    Entry entry;
    entry.address = Ipv4Address(0x0a2c0002);
    entry.state = "reachable";
    entry.hardware = HwAddress{0, Qpn(0x401), *Gid::parse("fe80::1")};
    entry.path = Path{Lid(0x12), ServiceLevel(3), 2048, 40'000};
    handler.put(entry);
  }
};

ibarp_address address_of(const char* text) {
  ibarp_address address{};
  EXPECT_EQ(ibarp_parse_address(text, &address), 0);
  return address;
}

bool is_readable(int fd, int timeout) {
  pollfd poller{fd, POLLIN, 0};
  return poll(&poller, 1, timeout) == 1;
}

/// Resolves an address of that neighbour.
struct IbarpResolve : testing::Test {
  IbarpResolve() { path.size = sizeof(path); }
  ResolvingServer server;
  const Handle handle{server.name()};
  const ibarp_address peer = address_of("10.44.0.2");
  ibarp_path path{};
};

TEST_F(IbarpResolve, ReturnsThePathToThePortOfAnAddress) {
  ASSERT_EQ(ibarp_resolve(handle.get(), &peer, 1000, &path), 0) << ibarp_error(handle.get());
  EXPECT_EQ(path.hardware.qpn, 0x401U);
  EXPECT_EQ(path.hardware.gid[15], 1);
  EXPECT_EQ(path.source_gid[15], 7);
  EXPECT_EQ((std::array<unsigned, 6>{path.dlid, path.sl, path.mtu, path.rate_mbps, path.pkey,
                                     path.source_lid}),
            (std::array<unsigned, 6>{0x12, 3, 2048, 40'000, 0x8001, 5}));
  const auto nobody = address_of("10.44.0.3");
  EXPECT_EQ(ibarp_resolve(handle.get(), &nobody, 0, &path), -ENETUNREACH);
  EXPECT_THAT(ibarp_error(handle.get()), HasSubstr("not on this link"));
  EXPECT_EQ(ibarp_resolve(handle.get(), &peer, -1, &path), -EINVAL);
  EXPECT_EQ(ibarp_resolve(handle.get(), &peer, 30'001, &path), -EINVAL);
  path.size = 0;
  EXPECT_EQ(ibarp_resolve(handle.get(), &peer, 30'000, &path), -EINVAL);
}

TEST_F(IbarpResolve, TheResponseIsAwaitedByItsDescriptor) {
  EXPECT_EQ(ibarp_resolve_finish(handle.get(), &path), -ENOTCONN);
  server.handler.hold();
  const int fd = ibarp_resolve_start(handle.get(), &peer, 1000);
  ASSERT_GE(fd, 0) << ibarp_error(handle.get());
  server.handler.wait_for(1);
  EXPECT_FALSE(is_readable(fd, 0));
  EXPECT_EQ(ibarp_resolve_finish(handle.get(), &path), -EAGAIN);
  server.handler.release();
  EXPECT_EQ(info_of(handle.get()), 0) << "other calls are possible meanwhile";
  EXPECT_TRUE(is_readable(fd, 5000));
  ASSERT_EQ(ibarp_resolve_finish(handle.get(), &path), 0) << ibarp_error(handle.get());
  EXPECT_EQ(path.dlid, 0x12);
  EXPECT_EQ(ibarp_resolve_finish(handle.get(), &path), -ENOTCONN);
  EXPECT_STREQ(ibarp_error(handle.get()),
               "nothing is being resolved: call ibarp_resolve_start() before");
}

TEST_F(IbarpResolve, ADaemonThatDoesNotAnswerIsATimeout) {
  ibarp_set_timeout(handle.get(), 10);
  server.handler.hold();
  EXPECT_EQ(ibarp_resolve(handle.get(), &peer, 10, &path), -ETIMEDOUT);
  EXPECT_EQ(ibarp_resolve_finish(handle.get(), &path), -ENOTCONN);
  server.handler.release();
}

TEST(Ibarp, EntryOfAnEthernetInterfaceHasAMac) {
  RunningServer server;
  Entry entry;
  entry.address = Ipv4Address(0x0a2c0002);
  entry.state = "reachable";
  entry.mac = MacAddress(0x0612'3456'789a);
  server.handler.put(entry);
  const Handle handle(server.name());
  ibarp_address address{};
  ASSERT_EQ(ibarp_parse_address("10.44.0.2", &address), 0);
  ibarp_entry found{};
  found.size = sizeof(found);
  ASSERT_EQ(ibarp_get(handle.get(), &address, &found), 0) << ibarp_error(handle.get());
  EXPECT_EQ(found.flags, IBARP_HAS_MAC);
  EXPECT_EQ(found.mac[0], 0x06);
  EXPECT_EQ(found.mac[5], 0x9a);
}

TEST(Ibarp, EntryOfAPinHasTheGidOnly) {
  RunningServer server;
  Entry entry;
  entry.address = Ipv4Address(0x0a2c0002);
  entry.state = "pinned";
  entry.pinned = Gid::parse("fe80::1");
  server.handler.put(entry);
  const Handle handle(server.name());
  ibarp_address address{};
  ASSERT_EQ(ibarp_parse_address("10.44.0.2", &address), 0);
  ibarp_entry found{};
  found.size = sizeof(found);
  ASSERT_EQ(ibarp_get(handle.get(), &address, &found), 0) << ibarp_error(handle.get());
  EXPECT_STREQ(found.state, "pinned");
  EXPECT_EQ(found.flags, IBARP_IS_PINNED);
  EXPECT_EQ(found.hardware.qpn, 0U);
  EXPECT_EQ(found.hardware.gid[0], 0xfe);
  EXPECT_EQ(found.hardware.gid[15], 1);
  EXPECT_EQ(ibarp_pin(handle.get(), &address, nullptr, IBARP_ADD), -EINVAL);
  EXPECT_EQ(ibarp_load_neighbours(handle.get(), nullptr, nullptr), -EINVAL);
}

TEST(Ibarp, ListsManyEntries) {
  constexpr std::uint32_t kEntries = 10'000;
  RunningServer server;
  put(server, kEntries);
  const Handle handle(server.name());
  std::set<std::string> seen;
  const auto each = [](const ibarp_entry* entry, void* data) {
    std::array<char, IBARP_ADDRESS_TEXT> text{};
    static_cast<std::set<std::string>*>(data)->insert(
        ibarp_format_address(&entry->address, text.data()));
    return 0;
  };
  ASSERT_EQ(ibarp_list(handle.get(), each, &seen), 0);
  EXPECT_EQ(seen.size(), kEntries);
}

std::size_t count_matching(ibarp* handle, const ibarp_filter* filter) {
  std::size_t count = 0;
  const auto each = [](const ibarp_entry*, void* data) {
    ++*static_cast<std::size_t*>(data);
    return 0;
  };
  EXPECT_EQ(ibarp_list_matching(handle, filter, each, &count), 0) << ibarp_error(handle);
  return count;
}

TEST(Ibarp, ListsMatchingEntries) {
  RunningServer server;
  put(server, 600);  // 10.0.0.0 to 10.0.2.87
  const Handle handle(server.name());
  EXPECT_EQ(count_matching(handle.get(), nullptr), 600U);
  ibarp_filter filter{};
  filter.size = sizeof(filter);
  EXPECT_EQ(count_matching(handle.get(), &filter), 600U);
  filter.family = AF_INET6;
  EXPECT_EQ(count_matching(handle.get(), &filter), 0U);
  filter.family = AF_INET;
  ASSERT_EQ(ibarp_parse_prefix("10.0.1.0/24", &filter.prefix, &filter.prefix_length), 0);
  EXPECT_EQ(count_matching(handle.get(), &filter), 256U);
  std::strcpy(filter.states, "stale,reachable");
  EXPECT_EQ(count_matching(handle.get(), &filter), 256U);
  std::strcpy(filter.states, "stale");
  EXPECT_EQ(count_matching(handle.get(), &filter), 0U);
}

TEST(Ibarp, FlushesMatchingEntries) {
  REQUIRE_ROOT();
  RunningServer server;
  put(server, 600);
  const Handle handle(server.name());
  ibarp_filter filter{};
  filter.size = sizeof(filter);
  ASSERT_EQ(ibarp_parse_prefix("10.0.1.0/24", &filter.prefix, &filter.prefix_length), 0);
  std::uint64_t deleted = 0;
  EXPECT_EQ(ibarp_flush_matching(handle.get(), &filter, &deleted), 0);
  EXPECT_EQ(deleted, 256U);
  EXPECT_EQ(ibarp_flush_matching(handle.get(), nullptr, &deleted), 0);
  EXPECT_EQ(deleted, 344U);
}

TEST(Ibarp, RejectsInvalidFilters) {
  RunningServer server;
  const Handle handle(server.name());
  const auto reason = [&](auto change) {
    struct Later {
      ibarp_filter filter;
      std::uint64_t more;
    } later{};
    later.filter.size = sizeof(ibarp_filter);
    change(later);
    const auto each = [](const ibarp_entry*, void*) { return 0; };
    const int error = ibarp_list_matching(handle.get(), &later.filter, each, nullptr);
    EXPECT_THAT(error, testing::AnyOf(0, -EINVAL));
    return error == 0 ? std::string() : std::string(ibarp_error(handle.get()));
  };
  EXPECT_EQ(reason([](auto&) {}), "");
  EXPECT_THAT(reason([](auto& f) { f.filter.size = 0; }), HasSubstr("filter->size is not set"));
  EXPECT_THAT(reason([](auto& f) { f.filter.family = 99; }),
              HasSubstr("address family must be AF_INET, AF_INET6 or 0"));
  EXPECT_THAT(reason([](auto& f) { f.filter.prefix.family = 99; }),
              HasSubstr("the prefix is not valid"));
  EXPECT_THAT(reason([](auto& f) {
                f.filter.prefix.family = AF_INET;
                f.filter.prefix_length = 33;
              }),
              HasSubstr("the prefix is not valid"));
  EXPECT_THAT(reason([](auto& f) { std::strcpy(f.filter.states, "asleep"); }), HasSubstr("asleep"));
  EXPECT_EQ(reason([](auto& f) { f.filter.size = sizeof(f); }), "") << "a later version, unused";
  EXPECT_THAT(reason([](auto& f) {
                f.filter.size = sizeof(f);
                f.more = 1;
              }),
              HasSubstr("the filter has conditions that this version of libibarp does not know"));
}

TEST(Ibarp, ListsTheStationsOfAllPages) {
  RunningServer server;
  server.handler.put(std::vector<Station>{
      {Ipv4Address(0x0a000001), MacAddress(0x020000000001), "reachable", true, milliseconds(5)},
      {Ipv4Address(0x0a000002), MacAddress(0x020000000002), "probing", false, milliseconds(7)}});
  const Handle handle(server.name());
  std::vector<std::string> found;
  const auto add = [](const ibarp_station* station, void* data) {
    static_cast<std::vector<std::string>*>(data)->push_back(
        std::string(station->state) + (station->is_served != 0 ? " served " : " ") +
        std::to_string(station->mac[5]) + " " + std::to_string(station->idle_ms));
    return 0;
  };
  ASSERT_EQ(ibarp_stations(handle.get(), add, &found), 0) << ibarp_error(handle.get());
  EXPECT_THAT(found, testing::ElementsAre("reachable served 1 5", "probing 2 7"));
}

TEST(Ibarp, CallbackEndsTheList) {
  RunningServer server;
  put(server, 3 * kPageEntries);
  const Handle handle(server.name());
  std::size_t calls = 0;
  const auto each = [](const ibarp_entry*, void* data) {
    return ++*static_cast<std::size_t*>(data) == kPageEntries + 1 ? -77 : 0;
  };
  EXPECT_EQ(ibarp_list(handle.get(), each, &calls), -77);
  EXPECT_EQ(calls, kPageEntries + 1);
  EXPECT_EQ(info_of(handle.get()), 0) << "the handle is still usable";
}

TEST(Ibarp, CallbackMayUseTheHandle) {
  REQUIRE_ROOT();
  RunningServer server;
  put(server, 50);
  const Handle handle(server.name());
  const auto remove = [](const ibarp_entry* entry, void* data) {
    return ibarp_delete(static_cast<ibarp*>(data), &entry->address);
  };
  EXPECT_EQ(ibarp_list(handle.get(), remove, handle.get()), 0);
  const auto fail = [](const ibarp_entry*, void*) { return 1; };
  EXPECT_EQ(ibarp_list(handle.get(), fail, nullptr), 0) << "none are left";
}

TEST(Ibarp, FillsInTheShorterStructure) {
  RunningServer server;
  InterfaceInfo info;
  info.pid = 4711;
  server.handler.put(info);
  const Handle handle(server.name());
  struct Later {
    ibarp_info info;
    std::uint64_t more;
  } later{};
  later.info.size = sizeof(later);
  later.more = 7;
  ASSERT_EQ(ibarp_get_info(handle.get(), &later.info), 0);
  EXPECT_EQ(later.info.size, sizeof(ibarp_info));
  EXPECT_EQ(later.info.pid, 4711U);
  EXPECT_EQ(later.more, 7U);
  ibarp_info unset{};
  EXPECT_EQ(ibarp_get_info(handle.get(), &unset), -EINVAL);
  EXPECT_THAT(ibarp_error(handle.get()), HasSubstr("size"));
}

TEST(Ibarp, RejectsInvalidArguments) {
  RunningServer server;
  const Handle handle(server.name());
  const ibarp_address unknown{};
  const ibarp_hardware hardware{0, 1U << 24, {}};
  ibarp_address address{};
  ASSERT_EQ(ibarp_parse_address("10.0.0.1", &address), 0);
  ibarp_entry entry{};
  entry.size = sizeof(entry);
  EXPECT_EQ(ibarp_get(handle.get(), &unknown, &entry), -EINVAL);
  EXPECT_EQ(ibarp_get(handle.get(), nullptr, &entry), -EINVAL);
  EXPECT_EQ(ibarp_get(nullptr, &address, &entry), -EINVAL);
  EXPECT_EQ(ibarp_set(handle.get(), &address, &hardware, IBARP_ADD), -EINVAL);
  EXPECT_EQ(ibarp_set_log_level(handle.get(), nullptr, "debug"), -EINVAL);
  EXPECT_EQ(ibarp_open(nullptr, nullptr), -EINVAL);
}

TEST(Ibarp, ReportsThatNoDaemonServesTheInterface) {
  for (const char* const name : {"no-such-if", "",
                                 "a-name-that-no-interface-can-have-since-it-is-"
                                 "longer-than-any-socket-address-could-ever-be-"
                                 "in-this-or-another-kernel"}) {
    const Handle handle(name);
    EXPECT_EQ(handle.result(), -ENODEV);
    EXPECT_EQ(handle.get(), nullptr);
  }
  EXPECT_THAT(ibarp_strerror(-ENODEV), HasSubstr("no ipoibd"));
  EXPECT_THAT(ibarp_error(nullptr), HasSubstr("cannot be the name of an interface"));
  const RunningServer server;
  EXPECT_EQ(Handle(server.name()).result(), 0);
  EXPECT_STREQ(ibarp_error(nullptr), "") << "the last one was opened";
}

TEST(Ibarp, HandleOutlivesTheDaemon) {
  auto server = std::make_unique<RunningServer>();
  const std::string name = server->name();
  const Handle handle(name);
  ASSERT_EQ(info_of(handle.get()), 0);
  server.reset();
  EXPECT_EQ(info_of(handle.get()), -ENODEV);
  server = std::make_unique<RunningServer>(kIdleTimeout, name);
  EXPECT_EQ(info_of(handle.get()), 0) << ibarp_error(handle.get());
}

TEST(Ibarp, ReconnectsAfterIdleTimeout) {
  RunningServer server(milliseconds(250));  // the idle timeout
  const Handle handle(server.name());
  ASSERT_EQ(info_of(handle.get()), 0);
  while (server.counters().timeouts == 0) {
  }
  EXPECT_EQ(info_of(handle.get()), 0) << ibarp_error(handle.get());
}

TEST(Ibarp, SaysThatThereIsNotEnoughMemory) {
  RunningServer server;
  const Handle handle(server.name());
  EXPECT_EQ(with(handle.get(), []() -> int { throw std::bad_alloc(); }), -ENOMEM);
  EXPECT_STREQ(ibarp_error(handle.get()),
               "not enough memory: free some, or raise the limit (ulimit -v)");
}

TEST(Ibarp, TimesOut) {
  RunningServer server;
  const Handle handle(server.name());
  server.handler.hold();
  ibarp_set_timeout(handle.get(), 10);
  EXPECT_EQ(info_of(handle.get()), -ETIMEDOUT);
  EXPECT_EQ(ibarp_subscribe(handle.get(), IBARP_LINK, 0), -ETIMEDOUT);
  server.handler.release();
  ibarp_set_timeout(handle.get(), -1);
  EXPECT_EQ(info_of(handle.get()), 0) << "the late response is not taken for this one";
}

TEST(Ibarp, AHandleLeavesNoDescriptor) {
  const auto descriptors = [] {
    return std::ranges::distance(std::filesystem::directory_iterator("/proc/self/fd"));
  };
  RunningServer server;
  const auto before = descriptors();
  {
    const Handle handle(server.name());
    ASSERT_EQ(info_of(handle.get()), 0);
    ASSERT_EQ(ibarp_subscribe(handle.get(), IBARP_LINK, 0), 0);
    EXPECT_GT(descriptors(), before);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (descriptors() != before && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(1));  // those of the server
  }
  EXPECT_EQ(descriptors(), before);
}

/// A pin of the file replaces one that leads elsewhere.
TEST(Ibarp, LoadsNeighboursOfAFile) {
  RunningServer server;
  std::vector<InterfaceRequest> requests;
  server.handler.before_request = [&](const auto& request) { requests.push_back(request); };
  const std::string path = kRunFolder.path() + "/neighbours";
  std::ofstream(path) << "fe80::7 10.44.0.2\n0x401@fe80::8 10.44.0.3\n";
  const Handle handle(server.name());
  std::uint64_t entries = 0;
  EXPECT_EQ(ibarp_load_neighbours(handle.get(), path.c_str(), &entries), 0)
      << ibarp_error(handle.get());
  EXPECT_EQ(entries, 2U);
  ASSERT_EQ(requests.size(), 2U);
  const auto& pin = std::get<PinRequest>(requests[0]);
  EXPECT_EQ(pin.mode, SetRequest::Mode::replace);
  EXPECT_EQ(pin.gid, *Gid::parse("fe80::7"));
  const auto& set = std::get<SetRequest>(requests[1]);
  EXPECT_EQ(set.mode, SetRequest::Mode::replace);
  EXPECT_EQ(set.hardware.qpn, Qpn(0x401));
}

TEST(Ibarp, ReportsTooManyClients) {
  RunningServer server;
  std::vector<LineClient> clients;
  for (std::size_t i = 0; i < kMaxClientsPerUser; ++i) clients.emplace_back(server.name());
  const Handle handle(server.name());
  ASSERT_EQ(handle.result(), 0);
  EXPECT_EQ(info_of(handle.get()), -EBUSY);
  EXPECT_THAT(ibarp_error(handle.get()), HasSubstr("too many clients"));
}

TEST(Ibarp, SaysWhoMayUseAPrivateSocket) {
  REQUIRE_ROOT();
  const auto* const group = ::getgrgid(65534);
  if (group == nullptr) GTEST_SKIP() << "needs a group without members";
  const RunningServer server(
      {.interface = RunningServer::unique_name(),
       .access = {.group = group->gr_gid, .group_name = group->gr_name, .is_private = true}});
  EXPECT_EQ(Handle(server.name()).result(), 0);
  const AsNobody nobody;
  EXPECT_EQ(Handle(server.name()).result(), -EACCES);
  EXPECT_EQ(ibarp_error(nullptr), server.name() + ": only root and members of the group " +
                                      group->gr_name + " may use its control socket");
}

TEST(Ibarp, OtherUsersMayRead) {
  REQUIRE_ROOT();
  const RunningServer server;
  const AsNobody nobody;
  const Handle handle(server.name());
  EXPECT_EQ(info_of(handle.get()), 0) << ibarp_error(handle.get());
  EXPECT_EQ(ibarp_flush(handle.get(), nullptr), -EPERM);
  EXPECT_THAT(ibarp_error(handle.get()), HasSubstr("only root may change anything"));
}

/// A user's own runtime folder is searched, too; that of another user is not trusted.
TEST(Ibarp, FindsTheDaemonsOfTheUser) {
  const std::string run = kRunFolder.path();
  const std::string runtime = run + "/runtime";
  ASSERT_TRUE(std::filesystem::create_directories(runtime + "/ipoibd"));
  ::setenv(kRunFolderVariable, (runtime + "/ipoibd").c_str(), 1);
  const RunningServer server;
  ::unsetenv(kRunFolderVariable);
  ::setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
  EXPECT_EQ(Handle(server.name()).result(), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(runtime.c_str(), 65534, 65534), 0);
    EXPECT_EQ(Handle(server.name()).result(), -ENODEV);
  }
  ::unsetenv("XDG_RUNTIME_DIR");
  ::setenv(kRunFolderVariable, run.c_str(), 1);
}

TEST(Ibarp, ReturnsTraceOfAllThreadsSortedByTime) {
  RunningServer server;
  TraceRing& control = server.trace.add("control");
  TraceRing& pump = server.trace.add("ib0");
  for (std::uint64_t i = 0; i < 2 * TraceRing::kRecords; ++i) {
    control.record("even", TimePoint(milliseconds(2 * i)), i);
    pump.record("odd", TimePoint(milliseconds(2 * i + 1)), i);
  }
  const Handle handle(server.name());
  std::vector<std::int64_t> times;
  const auto each = [](const ibarp_trace_record* record, void* data) {
    EXPECT_STREQ(record->thread, record->when_ns / 1'000'000 % 2 == 0 ? "control" : "ib0");
    static_cast<std::vector<std::int64_t>*>(data)->push_back(record->when_ns);
    return 0;
  };
  ASSERT_EQ(ibarp_trace(handle.get(), each, &times), 0);
  EXPECT_EQ(times.size(), 2 * (TraceRing::kRecords - 1));
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
}

TEST(Ibarp, ReturnsNoTraceWithoutThreads) {
  RunningServer server;
  const Handle handle(server.name());
  EXPECT_EQ(ibarp_trace(
                handle.get(), [](const ibarp_trace_record*, void*) { return 1; }, nullptr),
            0);
}

TEST(Ibarp, FindsInterfaces) {
  const RunningServer one;
  const RunningServer other;
  const Handle connection(one.name());  // an accepted socket of the same name
  std::vector<std::string> names;
  const auto each = [](const char* name, void* data) {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  };
  ASSERT_EQ(ibarp_interfaces(each, &names), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), one.name()), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), other.name()), 1);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(ibarp_interfaces([](const char*, void*) { return 5; }, nullptr), 5);
}

/// The next event, waited for without limit.
ibarp_event next_event(ibarp* handle) {
  ibarp_event event{};
  event.size = sizeof(event);
  EXPECT_EQ(ibarp_next_event(handle, &event, -1), 0) << ibarp_error(handle);
  return event;
}

TEST(IbarpEvents, HaveTheMembersOfTheirType) {
  RunningServer server;
  const Handle handle(server.name());
  ASSERT_EQ(ibarp_subscribe(handle.get(),
                            IBARP_NEIGHBOURS | IBARP_LINK | IBARP_GROUPS | IBARP_STATIONS, 0),
            0);
  Entry entry;
  entry.address = *parse_ip_address("10.44.0.2");
  entry.state = "failed";
  server.publish(NeighbourEvent{"changed", "no response", entry});
  LinkEvent link{{"state", "mtu"}, {}};
  link.info.state = "joining";
  link.info.waiting_for = "a response";
  server.publish(link);
  server.publish(GroupEvent{"joined", "joined", {Gid{}, Lid(0xc000), "full"}});
  server.publish(
      StationEvent{"appeared", "", {*parse_ip_address("10.44.0.11"), {}, "reachable", true}});
  server.publish(LostEvent{3});
  server.publish(TakeoverEvent{});

  ibarp_event event = next_event(handle.get());
  EXPECT_EQ(event.type, IBARP_NEIGHBOURS);
  EXPECT_STREQ(event.change, "changed");
  EXPECT_STREQ(event.why, "no response");
  EXPECT_STREQ(event.entry->state, "failed");
  EXPECT_EQ(event.info, nullptr);
  event = next_event(handle.get());
  EXPECT_EQ(event.type, IBARP_LINK);
  EXPECT_STREQ(event.changed, "state,mtu");
  EXPECT_STREQ(event.info->state, "joining");
  EXPECT_STREQ(event.info->waiting_for, "a response");
  EXPECT_EQ(event.entry, nullptr);
  event = next_event(handle.get());
  EXPECT_EQ(event.type, IBARP_GROUPS);
  EXPECT_STREQ(event.group->membership, "full");
  EXPECT_EQ(event.station, nullptr);
  event = next_event(handle.get());
  EXPECT_EQ(event.type, IBARP_STATIONS);
  EXPECT_STREQ(event.change, "appeared");
  EXPECT_STREQ(event.station->state, "reachable");
  EXPECT_EQ(event.station->is_served, 1);
  event = next_event(handle.get());
  EXPECT_EQ(event.type, IBARP_LOST);
  EXPECT_EQ(event.lost, 3U);
  EXPECT_EQ(next_event(handle.get()).type, IBARP_TAKEOVER);
}

TEST(IbarpEvents, CountersComeWithTheirDifferences) {
  RunningServer server;
  const Handle handle(server.name());
  ASSERT_EQ(ibarp_subscribe(handle.get(), IBARP_STATS, 100), 0);
  const ibarp_event event = next_event(handle.get());
  EXPECT_EQ(event.type, IBARP_STATS);
  EXPECT_GT(event.interval_ms, 0U);
  std::int64_t sent = 0;
  const auto each = [](const ibarp_counter* counter, std::int64_t delta, void* data) {
    if (std::strcmp(counter->name, "packets_sent") == 0) *static_cast<std::int64_t*>(data) = delta;
    return 0;
  };
  EXPECT_EQ(ibarp_deltas(handle.get(), each, &sent), 0);
  EXPECT_EQ(sent, 7);
  const auto stop = [](const ibarp_counter*, std::int64_t, void*) { return 42; };
  EXPECT_EQ(ibarp_deltas(handle.get(), stop, nullptr), 42);
}

TEST(IbarpEvents, LeaveTheHandleFreeForRequests) {
  RunningServer server;
  const Handle handle(server.name());
  ASSERT_EQ(ibarp_subscribe(handle.get(), IBARP_LINK, 0), 0);
  const int fd = ibarp_fd(handle.get());
  ASSERT_GE(fd, 0);
  pollfd poller{fd, POLLIN, 0};
  EXPECT_EQ(poll(&poller, 1, 0), 0);
  EXPECT_EQ(info_of(handle.get()), 0);
  ibarp_event event{};
  event.size = sizeof(event);
  EXPECT_EQ(ibarp_next_event(handle.get(), &event, 0), -EAGAIN);
  server.publish(LinkEvent{{"state"}, {}});
  EXPECT_EQ(poll(&poller, 1, -1), 1);
  EXPECT_EQ(ibarp_next_event(handle.get(), &event, 0), 0);
  EXPECT_EQ(ibarp_next_event(handle.get(), &event, 0), -EAGAIN);
  EXPECT_EQ(ibarp_deltas(handle.get(), nullptr, nullptr), -EINVAL)
      << "the last event was another one";
}

TEST(IbarpEvents, EndWithTheDaemon) {
  RunningServer server;
  const Handle handle(server.name());
  ASSERT_EQ(ibarp_subscribe(handle.get(), IBARP_LINK, 0), 0);
  server.publish(LinkEvent{{"state"}, {}});
  server.stop();
  EXPECT_EQ(next_event(handle.get()).type, IBARP_LINK) << "what was sent before is not lost";
  ibarp_event event{};
  event.size = sizeof(event);
  EXPECT_EQ(ibarp_next_event(handle.get(), &event, -1), -EPIPE);
  EXPECT_EQ(ibarp_next_event(handle.get(), &event, -1), -ENOTCONN);
  EXPECT_EQ(ibarp_fd(handle.get()), -ENOTCONN);
}

TEST(IbarpEvents, RefuseWrongArguments) {
  RunningServer server;
  const Handle handle(server.name());
  EXPECT_EQ(ibarp_subscribe(nullptr, IBARP_LINK, 0), -EINVAL);
  EXPECT_EQ(ibarp_subscribe(handle.get(), 0, 0), -EINVAL);
  EXPECT_EQ(ibarp_subscribe(handle.get(), IBARP_LOST, 0), -EINVAL);
  EXPECT_EQ(ibarp_subscribe(handle.get(), IBARP_STATS, 99), -EINVAL);
  EXPECT_EQ(ibarp_fd(handle.get()), -ENOTCONN);
  EXPECT_EQ(ibarp_fd(nullptr), -ENOTCONN);
  ibarp_unsubscribe(nullptr);
  ASSERT_EQ(ibarp_subscribe(handle.get(), IBARP_LINK, 0), 0);
  server.publish(LinkEvent{{"state"}, {}});
  EXPECT_EQ(ibarp_next_event(handle.get(), nullptr, -1), -EINVAL);
  ibarp_unsubscribe(handle.get());
  EXPECT_EQ(ibarp_fd(handle.get()), -ENOTCONN);
}

TEST(IbarpText, ParsesBothFormsOfALinkLayerAddress) {
  ibarp_hardware long_form{};
  ibarp_hardware short_form{};
  std::array<char, IBARP_HARDWARE_TEXT> text{};
  ASSERT_EQ(ibarp_parse_hardware("00:00:04:01:FE:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01",
                                 &long_form),
            0);
  for (const char* const form : {"0x401@fe80::2:c903:0:1", "1025@fe80::2:c903:0:1"}) {
    ASSERT_EQ(ibarp_parse_hardware(form, &short_form), 0) << form;
    EXPECT_THAT(ibarp_format_hardware(&short_form, text.data()),
                StrEq("00:00:04:01:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01"));
    EXPECT_EQ(std::memcmp(&long_form.gid, &short_form.gid, sizeof(long_form.gid)), 0);
  }
}

TEST(IbarpText, RejectsOtherText) {
  ibarp_hardware hardware{};
  for (const char* const text :
       {"", "@", "0x401@", "@fe80::1", "0x@fe80::1", "0x1000000@fe80::1", "-1@fe80::1",
        "0x401@10.0.0.1", "0x401 @fe80::1", "4 @fe80::1", "00:11:22:33:44:55"}) {
    EXPECT_EQ(ibarp_parse_hardware(text, &hardware), -EINVAL) << text;
  }
  EXPECT_EQ(ibarp_parse_hardware(nullptr, &hardware), -EINVAL);
  ibarp_address address{};
  for (const char* const text : {"", "10.0.0", "10.0.0.256", "fe80::g"}) {
    EXPECT_EQ(ibarp_parse_address(text, &address), -EINVAL) << text;
  }
  EXPECT_EQ(ibarp_parse_address(nullptr, &address), -EINVAL);
}

TEST(IbarpText, FormatsUnknownFamilyAsEmpty) {
  const ibarp_address address{};
  std::array<char, IBARP_ADDRESS_TEXT> text{"before"};
  EXPECT_THAT(ibarp_format_address(&address, text.data()), StrEq(""));
}

TEST(IbarpText, FormatsAQueuePairNumberThatIsTooLargeAsEmpty) {
  ibarp_hardware hardware{};
  hardware.qpn = 1U << 24;
  std::array<char, IBARP_HARDWARE_TEXT> text{"before"};
  EXPECT_THAT(ibarp_format_hardware(&hardware, text.data()), StrEq(""));
}

}  // namespace
}  // namespace ipoib::control
