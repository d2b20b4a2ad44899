#include "client.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "program/progress.hpp"

namespace ipoib::ibarp {

namespace {

/// Callback for libibarp that collects values in a vector.
template <class T>
int collect(const T* value, void* data) {
  static_cast<std::vector<T>*>(data)->push_back(*value);
  return 0;
}

template <class Line>
bool before(const Line& a, const Line& b) {
  if (a.address.family != b.address.family) return a.address.family == AF_INET;
  return std::memcmp(a.address.bytes, b.address.bytes, sizeof(a.address.bytes)) < 0;
}

}  // namespace

Client::Client(std::string interface) : interface_(std::move(interface)) {
  const program::BlockingProgress progress(waiting_for(interface_));
  ::ibarp* handle = nullptr;
  const int result = ibarp_open(interface_.c_str(), &handle);
  if (result != 0) throw Failure(kFailed, reason_of(interface_, nullptr, result));
  handle_.reset(handle);
}

void Client::check(int result) const {
  if (result == 0) return;
  throw Failure(result == -EINVAL ? kUsage : kFailed, reason_of(interface_, handle_.get(), result));
}

template <class T, class List>
std::vector<T> Client::all(List list) const {
  std::vector<T> out;
  check(list(handle_.get(), collect<T>, &out));
  return out;
}

std::vector<ibarp_entry> Client::entries(const ibarp_filter& filter) const {
  std::vector<ibarp_entry> out;
  check(ibarp_list_matching(handle_.get(), &filter, collect<ibarp_entry>, &out));
  std::sort(out.begin(), out.end(), before<ibarp_entry>);
  return out;
}

std::vector<ibarp_counter> Client::counters() const { return all<ibarp_counter>(ibarp_stats); }

std::vector<Histogram> Client::histograms() const {
  std::vector<Histogram> out;
  const auto copy = [](const ibarp_histogram* each, void* data) {
    static_cast<std::vector<Histogram>*>(data)->push_back(
        {each->name,
         {each->bounds_ns, each->bounds_ns + each->buckets},
         {each->counts, each->counts + each->buckets + 1},
         each->sum_ns});
    return 0;
  };
  const int result = ibarp_histograms(handle_.get(), copy, &out);
  if (result != -EOPNOTSUPP) check(result);
  return out;
}

std::vector<Port> Client::ports() const {
  std::vector<Port> out;
  const auto copy = [](const ibarp_port* each, void* data) {
    static_cast<std::vector<Port>*>(data)->push_back({*each, each->waiting_for});
    return 0;
  };
  check(ibarp_ports(handle_.get(), copy, &out));
  return out;
}

std::optional<std::vector<ibarp_station>> Client::stations(bool must) const {
  std::vector<ibarp_station> out;
  const int result = ibarp_stations(handle_.get(), collect<ibarp_station>, &out);
  if (result == -EOPNOTSUPP && !must) return std::nullopt;
  check(result);
  std::sort(out.begin(), out.end(), before<ibarp_station>);
  return out;
}

std::vector<ibarp_group> Client::groups() const { return all<ibarp_group>(ibarp_groups); }

int Client::members(const ibarp_group& group, std::vector<ibarp_member>& out) const {
  return ibarp_members(handle_.get(), group.mgid, collect<ibarp_member>, &out);
}

std::vector<ibarp_log_level> Client::log_levels() const {
  return all<ibarp_log_level>(ibarp_log_levels);
}

std::vector<ibarp_trace_record> Client::trace() const {
  return all<ibarp_trace_record>(ibarp_trace);
}

ibarp_info Client::info() const {
  const program::BlockingProgress progress(waiting_for(interface_));
  ibarp_info out{};
  out.size = sizeof(out);
  check(ibarp_get_info(handle_.get(), &out));
  return out;
}

std::string waiting_for(const std::string& interface) {
  return "waiting for the ipoibd of " + interface;
}

std::string reason_of(const std::string& interface, const ::ibarp* handle, int result) {
  std::string why = ibarp_error(handle);
  if (why.empty()) why = ibarp_strerror(result);
  const std::string prefix = interface + ": ";
  return why.starts_with(prefix) ? why : prefix + why;
}

std::vector<std::string> interfaces_named(const std::string& name) {
  if (!name.empty()) return {name};
  std::vector<std::string> names;
  const auto each = [](const char* found, void* data) {
    static_cast<std::vector<std::string>*>(data)->emplace_back(found);
    return 0;
  };
  if (const int result = ibarp_interfaces(each, &names); result != 0) {
    throw Failure(kFailed, std::string("cannot list the interfaces: ") + ibarp_strerror(result));
  }
  return names;
}

std::vector<std::string> interfaces_of(const Command& command) {
  std::vector<std::string> names = interfaces_named(command.device);
  if (names.empty()) throw Failure(kFailed, "no ipoibd is running in this network namespace");
  if (names.size() == 1 || !(command.is_change() || command.verb == Command::Verb::capture))
    return names;
  std::string all;
  for (const std::string& name : names) all += " " + name;
  throw Failure(kUsage, "choose an interface with \"dev IF\":" + all);
}

ibarp_address resolve(const std::string& host, bool names) {
  ibarp_address address{};
  if (ibarp_parse_address(host.c_str(), &address) == 0) return address;
  if (!names) throw Failure(kUsage, "\"" + host + "\" is not an IP address");
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    throw Failure(kFailed, host + ": " + gai_strerror(error));
  }
  std::array<char, NI_MAXHOST> text{};
  getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr, 0,
              NI_NUMERICHOST);
  freeaddrinfo(found);
  return resolve(text.data(), false);
}

std::string name_of(const ibarp_address& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(text_of(address).c_str(), nullptr, &hints, &found) != 0) return "?";
  std::array<char, NI_MAXHOST> name{};
  const int error = getnameinfo(found->ai_addr, found->ai_addrlen, name.data(), name.size(),
                                nullptr, 0, NI_NAMEREQD);
  freeaddrinfo(found);
  return error == 0 ? name.data() : "?";
}

std::string text_of(const ibarp_address& address) {
  std::array<char, IBARP_ADDRESS_TEXT> text{};
  return ibarp_format_address(&address, text.data());
}

std::string text_of(const ibarp_hardware& hardware) {
  std::array<char, IBARP_HARDWARE_TEXT> text{};
  return ibarp_format_hardware(&hardware, text.data());
}

std::string gid_text(const std::uint8_t (&gid)[16]) {
  ibarp_address address{};
  address.family = AF_INET6;
  std::copy_n(gid, sizeof(gid), address.bytes);
  return text_of(address);
}

}  // namespace ipoib::ibarp
